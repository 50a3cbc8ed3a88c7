//! The queue of entries for the next commit: bounded in bytes, and without a wake-up while the writer is awake.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::commit::PendingEntry;
use crate::error::WalError;
use crate::format::{ENTRY_BYTES_MAX, ENTRY_HEADER_BYTES};
use crate::receipt::Receipt;

/// The guarantee after which an append is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ack {
    /// After `fdatasync`: the entry survives a power cut.
    #[default]
    Disk,
    /// After the write: the entry survives the end of the process, and soon afterwards a power cut.
    Os,
    /// Immediately: the entry is queued.
    Memory,
}

/// An entry to append.
#[derive(Debug)]
pub struct Entry<X> {
    /// Defined by the caller; returned with the entry when it is read.
    pub kind: u8,
    /// Number of events, which is the number of offsets it takes. Without events it takes one.
    pub events: u32,
    /// Its content.
    pub bytes: Vec<u8>,
    /// The guarantee after which it is acknowledged.
    pub ack: Ack,
    /// Data for the sequencer to read and to fill; returned with the receipt and never stored.
    pub extra: X,
}

/// The queue between the appending callers and the writer.
pub(crate) struct Queue<X> {
    state: Mutex<QueueState<X>>,
    wakeup: Condvar,
    limit_bytes: usize,
}

struct QueueState<X> {
    pending: Vec<PendingEntry<X>>,
    /// Bytes of the entries that are queued and of those that the writer has taken and not yet acknowledged.
    bytes: usize,
    /// The writer sleeps and has not been woken yet.
    asleep: bool,
    /// The next segment was requested.
    roll_requested: bool,
    closed: Option<WalError>,
}

/// Why the writer was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeReason {
    /// There are entries to write.
    Work,
    /// No entry arrived, and the entries written without a sync have to be synced.
    SyncDue,
    /// The next segment was requested.
    Roll,
    /// The queue is empty and closed.
    Closed,
}

impl<X> Queue<X> {
    pub(crate) fn new(limit_bytes: usize) -> Queue<X> {
        let state =
            QueueState { pending: Vec::new(), bytes: 0, asleep: false, roll_requested: false, closed: None };
        Queue { state: Mutex::new(state), wakeup: Condvar::new(), limit_bytes }
    }

    /// Queues an entry. Only the first append after an idle period pays for a wake-up.
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
        let pending = PendingEntry::new(entry, slot, lane, cost);
        let mut state = self.state.lock();
        if let Some(error) = self.rejection(&state, cost) {
            drop(state);
            return Err(error);
        }
        state.bytes += cost;
        state.pending.push(pending);
        let wake = std::mem::take(&mut state.asleep);
        drop(state);
        if wake {
            self.wakeup.notify_one();
        }
        Ok(receipt)
    }

    fn rejection(&self, state: &QueueState<X>, cost: usize) -> Option<WalError> {
        if let Some(closed) = &state.closed {
            return Some(closed.clone());
        }
        let over = state.bytes > 0 && state.bytes + cost > self.limit_bytes;
        over.then_some(WalError::Overloaded { queued_bytes: state.bytes, limit_bytes: self.limit_bytes })
    }

    /// Takes all queued entries in order; `into` must be empty and becomes the queue's new buffer.
    pub(crate) fn take_all(&self, into: &mut Vec<PendingEntry<X>>) {
        debug_assert!(into.is_empty());
        std::mem::swap(&mut self.state.lock().pending, into);
    }

    /// Releases bytes whose entries were acknowledged.
    pub(crate) fn release(&self, bytes: usize) {
        self.state.lock().bytes -= bytes;
    }

    /// Sleeps until there are entries and `earliest` has passed, or until `sync_by`.
    pub(crate) fn wait(&self, earliest: Instant, sync_by: Option<Instant>) -> WakeReason {
        let mut state = self.state.lock();
        loop {
            let closed = state.closed.is_some();
            if std::mem::take(&mut state.roll_requested) && !closed {
                return WakeReason::Roll;
            }
            if !state.pending.is_empty() {
                // No wake-up is needed while the writer waits for its next commit.
                if closed || earliest <= Instant::now() {
                    return WakeReason::Work;
                }
                self.wakeup.wait_until(&mut state, earliest);
                continue;
            }
            match sync_by {
                _ if closed => return WakeReason::Closed,
                Some(by) if by <= Instant::now() => return WakeReason::SyncDue,
                _ => {}
            }
            state.asleep = true;
            match sync_by {
                Some(by) => drop(self.wakeup.wait_until(&mut state, by)),
                None => self.wakeup.wait(&mut state),
            }
            state.asleep = false;
        }
    }

    /// Requests the next segment.
    pub(crate) fn request_roll(&self) {
        self.state.lock().roll_requested = true;
        self.wakeup.notify_all();
    }

    /// Closes the queue; later appends fail with `error`. The first error stays.
    pub(crate) fn close(&self, error: WalError) {
        self.state.lock().closed.get_or_insert(error);
        self.wakeup.notify_all();
    }

    /// Returns the bytes that are queued or being written.
    pub(crate) fn bytes(&self) -> usize {
        self.state.lock().bytes
    }
}

/// Returns the bytes an entry counts in the queue: its content and its overhead.
fn cost_of(bytes: usize) -> usize {
    bytes + ENTRY_HEADER_BYTES + size_of::<Arc<()>>() * 16
}
