//! The queue of readings to be sent. When it is full, the oldest readings are dropped and counted.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Limit of a request: about a hundred readings.
const BATCH_BYTES: usize = 1 << 20;
/// Limit of all waiting readings, in addition to their number.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// A bounded queue between the reading and the sending thread.
pub(crate) struct Outbox {
    state: Mutex<OutboxState>,
    changed: Condvar,
    readings_max: usize,
}

#[derive(Default)]
struct OutboxState {
    waiting: VecDeque<String>,
    bytes: usize,
    /// Number of readings that left the queue, sent or dropped.
    removed: u64,
    /// Number of readings that were dropped.
    lost: u64,
    is_closed: bool,
}

/// Readings to send in one request, oldest first.
#[derive(Debug, PartialEq)]
pub(crate) struct OutboxBatch {
    pub(crate) lines: String,
    /// Number of readings that were ever put in, up to the last one of this batch.
    until: u64,
}

impl Outbox {
    /// Creates an empty outbox for up to `readings_max` readings.
    pub(crate) fn new(readings_max: usize) -> Outbox {
        Outbox { state: Mutex::default(), changed: Condvar::new(), readings_max: readings_max.max(1) }
    }

    /// Adds a reading. Drops the oldest ones if the outbox is full.
    pub(crate) fn put(&self, lines: String) {
        let mut state = self.lock();
        state.bytes += lines.len();
        state.waiting.push_back(lines);
        while state.waiting.len() > self.readings_max || state.bytes > WAITING_BYTES_MAX {
            state.pop();
            state.lost += 1;
        }
        self.changed.notify_all();
    }

    /// Waits for a reading and returns the oldest ones. They stay in the outbox until [`Outbox::remove`].
    /// Returns `None` when the outbox is closed and empty.
    pub(crate) fn oldest(&self) -> Option<OutboxBatch> {
        let state = self.lock();
        let state = self.changed.wait_while(state, |state| state.waiting.is_empty() && !state.is_closed);
        state.expect("no thread panics while it holds the lock").batch()
    }

    /// Removes the readings of a batch that the server accepted.
    pub(crate) fn remove(&self, batch: &OutboxBatch) {
        let mut state = self.lock();
        while state.removed < batch.until {
            state.pop();
        }
    }

    /// Waits for this time, or until the outbox is closed.
    pub(crate) fn wait_until_closed(&self, time: Duration) {
        let state = self.lock();
        drop(self.changed.wait_timeout_while(state, time, |state| !state.is_closed));
    }

    /// Closes the outbox: no more readings will be added.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Returns the number of waiting readings.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Returns the number of dropped readings.
    pub(crate) fn lost(&self) -> u64 {
        self.lock().lost
    }

    fn lock(&self) -> MutexGuard<'_, OutboxState> {
        self.state.lock().expect("no thread panics while it holds the lock")
    }
}

impl OutboxState {
    fn pop(&mut self) {
        self.bytes -= self.waiting.pop_front().map_or(0, |lines| lines.len());
        self.removed += 1;
    }

    fn batch(&self) -> Option<OutboxBatch> {
        let mut lines = self.waiting.front()?.clone();
        let mut until = self.removed + 1;
        for next in self.waiting.iter().skip(1) {
            if lines.len() + next.len() > BATCH_BYTES {
                break;
            }
            lines.push_str(next);
            until += 1;
        }
        Some(OutboxBatch { lines, until })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(outbox: &Outbox, readings: &[&str]) {
        readings.iter().for_each(|lines| outbox.put((*lines).to_owned()));
    }

    fn oldest(outbox: &Outbox) -> String {
        outbox.oldest().map_or_else(|| "nothing".to_owned(), |batch| batch.lines)
    }

    #[test]
    fn readings_stay_until_they_are_removed() {
        let outbox = Outbox::new(9);
        put(&outbox, &["a ", "b "]);
        let first = outbox.oldest().expect("two wait");
        assert_eq!(first.lines, "a b ");
        outbox.put("c ".to_owned());
        assert_eq!(oldest(&outbox), "a b c ");
        outbox.remove(&first);
        assert_eq!(oldest(&outbox), "c ");
        outbox.close();
        assert_eq!(oldest(&outbox), "c ", "waiting readings are returned after the outbox was closed");
        outbox.remove(&outbox.oldest().expect("one waits"));
        assert_eq!(oldest(&outbox), "nothing");
    }

    #[test]
    fn oldest_readings_are_dropped_and_counted() {
        let outbox = Outbox::new(3);
        put(&outbox, &["a", "b", "c"]);
        let in_flight = outbox.oldest().expect("three wait");
        put(&outbox, &["d", "e"]);
        assert_eq!((oldest(&outbox).as_str(), outbox.lost()), ("cde", 2));
        outbox.remove(&in_flight);
        assert_eq!((oldest(&outbox).as_str(), outbox.waiting()), ("de", 2));
    }

    #[test]
    fn waiting_bytes_are_limited() {
        let outbox = Outbox::new(1_000);
        (0..100).for_each(|_| outbox.put("x".repeat(1 << 20)));
        let state = outbox.lock();
        assert!(state.bytes <= WAITING_BYTES_MAX && state.waiting.len() == 16 && state.lost == 84);
    }
}
