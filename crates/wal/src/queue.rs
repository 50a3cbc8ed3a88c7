//! What waits for the next commit: bounded in bytes, and silent while the writer is awake anyway.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::commit::Pending;
use crate::error::WalError;
use crate::format::{ENTRY_BYTES_MAX, ENTRY_HEADER_BYTES};
use crate::receipt::Receipt;

/// When an append is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ack {
    /// After `fdatasync`: it survives a power cut.
    #[default]
    Disk,
    /// After the write: it survives the end of the process, and a power cut a moment later.
    Os,
    /// At once: it is queued.
    Memory,
}

/// What a caller appends.
#[derive(Debug)]
pub struct Entry<X> {
    /// The caller's business; comes back with the entry when it is read.
    pub kind: u8,
    /// How many events it holds, so many offsets it takes. Without events it takes one.
    pub events: u32,
    /// Its content.
    pub bytes: Vec<u8>,
    /// When to answer.
    pub ack: Ack,
    /// For the sequencer to read and to fill; comes back with the receipt, is never stored.
    pub extra: X,
}

/// The queue between those who append and the writer.
pub(crate) struct Queue<X> {
    inner: Mutex<Inner<X>>,
    bell: Condvar,
    limit_bytes: usize,
}

struct Inner<X> {
    pending: Vec<Pending<X>>,
    /// Of what waits and of what the writer has taken and not yet answered.
    bytes: usize,
    /// The writer sleeps and nobody has woken it yet.
    asleep: bool,
    /// The next segment is to be begun.
    roll: bool,
    closed: Option<WalError>,
}

/// Why the writer was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// There is something to write.
    Work,
    /// Nothing came, and what was written is to be synced.
    SyncDue,
    /// The next segment is to be begun.
    Roll,
    /// Nothing is left and nothing will come.
    Closed,
}

impl<X> Queue<X> {
    pub(crate) fn new(limit_bytes: usize) -> Queue<X> {
        let inner = Inner { pending: Vec::new(), bytes: 0, asleep: false, roll: false, closed: None };
        Queue { inner: Mutex::new(inner), bell: Condvar::new(), limit_bytes }
    }

    /// Queues an entry. Only the first after a silence pays for a wake-up.
    pub(crate) fn push(&self, lane: u32, entry: Entry<X>) -> Result<Receipt<X>, WalError> {
        let bytes = entry.bytes.len();
        if bytes > ENTRY_BYTES_MAX {
            return Err(WalError::TooLarge { bytes, limit_bytes: ENTRY_BYTES_MAX });
        }
        let cost = cost_of(bytes);
        let (receipt, slot) = match entry.ack {
            Ack::Memory => (Receipt::queued(), None),
            Ack::Disk | Ack::Os => {
                let (receipt, slot) = Receipt::pair();
                (receipt, Some(slot))
            }
        };
        let pending = Pending::new(entry, slot, lane, cost);
        let mut inner = self.inner.lock();
        if let Some(refusal) = self.refusal(&inner, cost) {
            drop(inner);
            return Err(refusal);
        }
        inner.bytes += cost;
        inner.pending.push(pending);
        let ring = std::mem::take(&mut inner.asleep);
        drop(inner);
        if ring {
            self.bell.notify_one();
        }
        Ok(receipt)
    }

    fn refusal(&self, inner: &Inner<X>, cost: usize) -> Option<WalError> {
        if let Some(closed) = &inner.closed {
            return Some(closed.clone());
        }
        let over = inner.bytes > 0 && inner.bytes + cost > self.limit_bytes;
        over.then_some(WalError::Overloaded { queued_bytes: inner.bytes, limit_bytes: self.limit_bytes })
    }

    /// Everything that waits, in the order it came; `into` is empty and gives its room in exchange.
    pub(crate) fn take(&self, into: &mut Vec<Pending<X>>) {
        debug_assert!(into.is_empty());
        std::mem::swap(&mut self.inner.lock().pending, into);
    }

    /// Says that so much of what was taken is answered.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.inner.lock().bytes -= bytes;
    }

    /// Sleeps until there is something to write and `earliest` has come, or until `sync_by`.
    pub(crate) fn wait(&self, earliest: Instant, sync_by: Option<Instant>) -> Wake {
        let mut inner = self.inner.lock();
        loop {
            let closed = inner.closed.is_some();
            if std::mem::take(&mut inner.roll) && !closed {
                return Wake::Roll;
            }
            if !inner.pending.is_empty() {
                // Nobody needs to ring while the writer waits for its time.
                if closed || earliest <= Instant::now() {
                    return Wake::Work;
                }
                self.bell.wait_until(&mut inner, earliest);
                continue;
            }
            match sync_by {
                _ if closed => return Wake::Closed,
                Some(by) if by <= Instant::now() => return Wake::SyncDue,
                _ => {}
            }
            inner.asleep = true;
            match sync_by {
                Some(by) => drop(self.bell.wait_until(&mut inner, by)),
                None => self.bell.wait(&mut inner),
            }
            inner.asleep = false;
        }
    }

    /// Asks for the next segment to be begun.
    pub(crate) fn want_roll(&self) {
        self.inner.lock().roll = true;
        self.bell.notify_all();
    }

    /// Takes no more; `why` is what later appends are told. The first reason stays.
    pub(crate) fn close(&self, why: WalError) {
        self.inner.lock().closed.get_or_insert(why);
        self.bell.notify_all();
    }

    /// Bytes that wait or are being written.
    pub(crate) fn bytes(&self) -> usize {
        self.inner.lock().bytes
    }
}

/// What an entry counts in the queue: its content and what surrounds it.
fn cost_of(bytes: usize) -> usize {
    bytes + ENTRY_HEADER_BYTES + size_of::<Arc<()>>() * 16
}
