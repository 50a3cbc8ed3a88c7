//! The memory of request bodies that are being received, decompressed and handled.
//!
//! Over HTTP/1.1 a body counts from its second chunk on: a body of one chunk is part of the buffer of its connection. Over
//! HTTP/2, where a connection carries many requests, every body counts from its first byte on. Memory is reserved
//! before it is allocated, so a body that would exceed the limits is rejected before it is decompressed.

use std::io::{self, Read};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use hashbrown::HashMap;
use hyper::Version;
use parking_lot::Mutex;

use crate::problem::Problem;

/// Above this share of the memory, an address may have at most [`FREE_SHARE`] of what is free, so that a few addresses
/// cannot use up the memory of all others.
const BUSY_NUMERATOR: usize = 3;
const BUSY_DENOMINATOR: usize = 4;
/// The share as a divisor.
const FREE_SHARE: usize = 8;
/// The least memory that a body reserves at a time.
const RESERVED_MIN: usize = 16 << 10;

/// The limits of the memory of request bodies, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyMemoryLimits {
    /// All bodies together.
    pub bytes_max: usize,
    /// The bodies from one address (IPv6: one /56).
    pub address_bytes_max: usize,
}

impl Default for BodyMemoryLimits {
    fn default() -> BodyMemoryLimits {
        BodyMemoryLimits { bytes_max: 512 << 20, address_bytes_max: 96 << 20 }
    }
}

/// The memory of all request bodies.
pub struct BodyBudget {
    limits: BodyMemoryLimits,
    used: AtomicUsize,
    by_address: Mutex<HashMap<IpAddr, usize>>,
}

impl BodyBudget {
    /// Creates a budget of which nothing is used.
    pub fn new(limits: BodyMemoryLimits) -> Arc<BodyBudget> {
        Arc::new(BodyBudget { limits, used: AtomicUsize::new(0), by_address: Mutex::default() })
    }

    fn reserve(&self, address: Option<IpAddr>, bytes: usize) -> Result<(), Problem> {
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        let reserved = match before + bytes > self.limits.bytes_max {
            true => Err("the bodies of other requests use the memory of the server for bodies; try again"),
            false => self.reserve_for_address(address, bytes, before),
        };
        reserved.map_err(|detail| {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            Problem::overloaded(detail).retry_after_s(1)
        })
    }

    /// Returns the most that an address may use while all together use `used`, `own` of it for this address.
    fn address_bytes_max(&self, used: usize, own: usize) -> usize {
        let BodyMemoryLimits { bytes_max, address_bytes_max } = self.limits;
        let is_busy = used > bytes_max / BUSY_DENOMINATOR * BUSY_NUMERATOR && used > own;
        if is_busy {
            address_bytes_max.min(bytes_max.saturating_sub(used) / FREE_SHARE)
        } else {
            address_bytes_max
        }
    }

    fn reserve_for_address(
        &self,
        address: Option<IpAddr>,
        bytes: usize,
        used_by_all: usize,
    ) -> Result<(), &'static str> {
        let Some(address) = address else { return Ok(()) };
        let mut by_address = self.by_address.lock();
        let used = by_address.entry(address).or_default();
        if *used + bytes > self.address_bytes_max(used_by_all, *used) {
            if *used == 0 {
                by_address.remove(&address);
            }
            return Err(
                "other request bodies from this address use the memory that an address may use; try again",
            );
        }
        *used += bytes;
        Ok(())
    }

    fn release(&self, address: Option<IpAddr>, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        let Some(address) = address else { return };
        let mut by_address = self.by_address.lock();
        if let Some(used) = by_address.get_mut(&address) {
            *used -= bytes;
            if *used == 0 {
                by_address.remove(&address);
            }
        }
    }
}

/// The memory that the body of one request may use. Without a budget, as in tests of handlers, there is no limit.
#[derive(Clone, Default)]
pub(crate) struct BodyMemory {
    budget: Option<Arc<BodyBudget>>,
    /// The client's address, or its /56.
    address: Option<IpAddr>,
    /// A body of one chunk counts, too.
    counts_single_chunks: bool,
}

/// Returns the range of addresses that one client is likely to have: in IPv6 the /56 of a home, which has 256 /64.
fn address_range(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d & 0xff00, 0, 0, 0, 0])
        }
        address => address,
    }
}

impl BodyMemory {
    /// Returns the memory of the body of a request with this version of HTTP.
    pub(crate) fn new(budget: &Arc<BodyBudget>, address: Option<IpAddr>, version: Version) -> BodyMemory {
        BodyMemory {
            budget: Some(Arc::clone(budget)),
            address: address.map(address_range),
            counts_single_chunks: version == Version::HTTP_2,
        }
    }

    pub(crate) fn counts_single_chunks(&self) -> bool {
        self.counts_single_chunks
    }
}

impl std::fmt::Debug for BodyMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BodyMemory").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Memory that is reserved until it is released or dropped.
#[derive(Debug, Default)]
pub(crate) struct ReservedMemory {
    memory: BodyMemory,
    bytes: usize,
}

impl ReservedMemory {
    pub(crate) fn new(memory: &BodyMemory) -> ReservedMemory {
        ReservedMemory { memory: memory.clone(), bytes: 0 }
    }

    /// Reserves more memory, so that it is at least `bytes` in all.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), Problem> {
        if bytes > self.bytes
            && let Some(budget) = &self.memory.budget
        {
            budget.reserve(self.memory.address, bytes - self.bytes)?;
            self.bytes = bytes;
        }
        Ok(())
    }

    /// Reserves memory for something that grows to `bytes`: more than that, so that it rarely has to be called.
    pub(crate) fn grow_ahead(&mut self, bytes: usize) -> Result<(), Problem> {
        if bytes <= self.bytes {
            return Ok(());
        }
        self.grow_to(bytes.max(self.bytes * 3 / 2).max(RESERVED_MIN))
    }

    pub(crate) fn release(&mut self) {
        if let Some(budget) = &self.memory.budget
            && self.bytes > 0
        {
            budget.release(self.memory.address, std::mem::take(&mut self.bytes));
        }
    }
}

impl Drop for ReservedMemory {
    fn drop(&mut self) {
        self.release();
    }
}

/// A body in memory that is counted as long as any part of it is referenced.
pub(crate) struct HeldBody {
    bytes: Vec<u8>,
    reserved: ReservedMemory,
}

impl HeldBody {
    pub(crate) fn new(memory: &BodyMemory) -> HeldBody {
        HeldBody { bytes: Vec::new(), reserved: ReservedMemory::new(memory) }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        self.make_room(bytes.len())?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Replaces the body by this many zeros and returns them.
    pub(crate) fn zeroed(&mut self, bytes: usize) -> Result<&mut [u8], Problem> {
        self.bytes.clear();
        self.make_room(bytes)?;
        self.bytes.resize(bytes, 0);
        Ok(&mut self.bytes)
    }

    /// Reads at most `bytes` and returns how many it read; fewer only at the end.
    pub(crate) fn read_from(
        &mut self,
        reader: &mut dyn Read,
        bytes: usize,
    ) -> Result<io::Result<usize>, Problem> {
        let mut total = 0;
        while total < bytes {
            // A small body does not reserve a whole piece.
            let part = (bytes - total).min(self.bytes.len().max(RESERVED_MIN));
            self.make_room(part)?;
            let before = self.bytes.len();
            self.bytes.resize(before + part, 0);
            let read = read_full(reader, &mut self.bytes[before..]);
            self.bytes.truncate(before + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(read) if read == part => total += read,
                Ok(read) => return Ok(Ok(total + read)),
                Err(failure) => return Ok(Err(failure)),
            }
        }
        Ok(Ok(total))
    }

    /// Returns the body. Its memory is released with the last reference.
    pub(crate) fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }

    /// Reserves memory, then allocates it.
    fn make_room(&mut self, bytes: usize) -> Result<(), Problem> {
        let needed = self.bytes.len() + bytes;
        if needed <= self.bytes.capacity() {
            return Ok(());
        }
        let capacity = needed.max(self.bytes.capacity() * 3 / 2).max(RESERVED_MIN);
        self.reserved.grow_to(capacity)?;
        self.bytes.reserve_exact(capacity - self.bytes.len());
        Ok(())
    }
}

/// Fills the buffer unless the reader ends before.
fn read_full(reader: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(failure) if failure.kind() == io::ErrorKind::Interrupted => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(filled)
}

impl AsRef<[u8]> for HeldBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn budget() -> Arc<BodyBudget> {
        BodyBudget::new(BodyMemoryLimits { bytes_max: 4 * MIB, address_bytes_max: 2 * MIB })
    }

    fn memory(budget: &Arc<BodyBudget>, address: &str) -> BodyMemory {
        BodyMemory::new(budget, Some(address.parse().expect("an address")), Version::HTTP_11)
    }

    fn hold(memory: &BodyMemory, bytes: usize) -> Result<HeldBody, Problem> {
        let mut held = HeldBody::new(memory);
        held.extend(&vec![0; bytes]).map(|()| held)
    }

    #[test]
    fn memory_is_shared_by_all_addresses_and_returned() {
        let budget = budget();
        let [one, same_56, two, three] = ["2001:db8::1", "2001:db8:0:ff::2", "203.0.113.7", "203.0.113.8"]
            .map(|address| memory(&budget, address));
        let held = hold(&one, 2 * MIB).expect("the address has room");
        assert_eq!(hold(&same_56, 1).err().map(|problem| problem.status()), Some(503));
        let body = hold(&two, 2 * MIB).expect("the address has room").into_bytes();
        assert_eq!(hold(&three, 1).err().map(|problem| problem.status()), Some(503));
        drop(held);
        let part = body.slice(..1);
        drop(body);
        assert_eq!(hold(&two, 1).err().map(|problem| problem.status()), Some(503), "a part is in use");
        drop((hold(&three, MIB).expect("there is room"), part));
        assert_eq!((budget.used.load(Ordering::Relaxed), budget.by_address.lock().len()), (0, 0));
    }

    #[test]
    fn a_dozen_addresses_leave_memory_for_others() {
        let budget = BodyBudget::new(BodyMemoryLimits { bytes_max: 64 * MIB, address_bytes_max: 12 * MIB });
        let mut held = Vec::new();
        // Each takes all that it gets, in ever smaller pieces, as often as it can.
        for _round in 0..3 {
            for address in 0..12 {
                let memory = memory(&budget, &format!("203.0.113.{address}"));
                for bytes in (14..21).rev().map(|power| 1 << power) {
                    held.extend(std::iter::from_fn(|| hold(&memory, bytes).ok()));
                }
            }
        }
        let used = budget.used.load(Ordering::Relaxed);
        assert!(used >= 48 * MIB, "{used} bytes are used");
        let honest = memory(&budget, "198.51.100.1");
        assert!(hold(&honest, 256 << 10).is_ok(), "{used} bytes are used");
        drop(held);
        assert!(hold(&honest, 12 * MIB).is_ok(), "an address alone may use its whole share");
    }

    #[test]
    fn body_that_grows_is_rejected_before_it_is_allocated() {
        let budget = budget();
        let mut held = HeldBody::new(&memory(&budget, "203.0.113.7"));
        let mut reader = io::repeat(b' ');
        let rejected = loop {
            if let Err(problem) = held.read_from(&mut reader, 256 << 10) {
                break problem;
            }
        };
        assert_eq!(rejected.status(), 503);
        assert!((MIB..=2 * MIB).contains(&held.bytes.capacity()), "{}", held.bytes.capacity());
        drop(held);
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn end_of_a_reader_is_seen() {
        let mut held = HeldBody::new(&BodyMemory::default());
        for (bytes, expected) in [(100_000, 100_000), (100_000, 50_000), (1, 0)] {
            let mut reader = &vec![1; expected][..];
            let read = held.read_from(&mut reader, bytes).expect("there is no limit");
            assert_eq!(read.expect("it does not fail"), expected);
        }
        assert_eq!(held.len(), 150_000);
    }
}
