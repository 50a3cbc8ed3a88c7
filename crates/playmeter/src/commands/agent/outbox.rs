//! Readings that wait to be sent. While the server is away the newest are kept, and what had to be let go is counted.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Bytes of one request: about a hundred readings.
const BATCH_BYTES: usize = 1 << 20;
/// Bytes that may wait, whatever their number.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// Between the one that reads and the one that sends.
pub struct Outbox {
    inner: Mutex<Inner>,
    changed: Condvar,
    readings_max: usize,
}

#[derive(Default)]
struct Inner {
    waiting: VecDeque<String>,
    bytes: usize,
    /// How many were put in before the first of those that wait.
    gone: u64,
    lost: u64,
    is_closed: bool,
}

/// Readings to send, the oldest first.
#[derive(Debug, PartialEq)]
pub struct Batch {
    /// Their lines.
    pub lines: String,
    /// How many have been put in up to the last of them.
    until: u64,
}

impl Outbox {
    /// An empty one, where so many readings may wait.
    pub fn new(readings_max: usize) -> Outbox {
        Outbox { inner: Mutex::default(), changed: Condvar::new(), readings_max: readings_max.max(1) }
    }

    /// Puts a reading in; the oldest goes if there is no room.
    pub fn put(&self, lines: String) {
        let mut inner = self.lock();
        inner.bytes += lines.len();
        inner.waiting.push_back(lines);
        while inner.waiting.len() > self.readings_max || inner.bytes > WAITING_BYTES_MAX {
            inner.pop();
            inner.lost += 1;
        }
        self.changed.notify_all();
    }

    /// The oldest readings, which stay until they are [`done`](Outbox::done). Waits for one; `None`: closed and empty.
    pub fn oldest(&self) -> Option<Batch> {
        let inner = self.lock();
        let inner = self.changed.wait_while(inner, |inner| inner.waiting.is_empty() && !inner.is_closed);
        inner.expect("nobody panics while holding it").batch()
    }

    /// The server has them.
    pub fn done(&self, batch: &Batch) {
        let mut inner = self.lock();
        while inner.gone < batch.until {
            inner.pop();
        }
    }

    /// Waits so long, or until it is closed.
    pub fn pause(&self, time: Duration) {
        let inner = self.lock();
        drop(self.changed.wait_timeout_while(inner, time, |inner| !inner.is_closed));
    }

    /// Nothing more will be put in.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// How many were let go.
    pub fn lost(&self) -> u64 {
        self.lock().lost
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nobody panics while holding it")
    }
}

impl Inner {
    fn pop(&mut self) {
        self.bytes -= self.waiting.pop_front().map_or(0, |lines| lines.len());
        self.gone += 1;
    }

    fn batch(&self) -> Option<Batch> {
        let mut lines = self.waiting.front()?.clone();
        let mut until = self.gone + 1;
        for more in self.waiting.iter().skip(1) {
            if lines.len() + more.len() > BATCH_BYTES {
                break;
            }
            lines.push_str(more);
            until += 1;
        }
        Some(Batch { lines, until })
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
    fn what_was_not_sent_is_still_there() {
        let outbox = Outbox::new(9);
        put(&outbox, &["a ", "b "]);
        let first = outbox.oldest().expect("two wait");
        assert_eq!(first.lines, "a b ");
        outbox.put("c ".to_owned());
        assert_eq!(oldest(&outbox), "a b c ");
        outbox.done(&first);
        assert_eq!(oldest(&outbox), "c ");
        outbox.close();
        assert_eq!(oldest(&outbox), "c ", "what waits is sent after the end, too");
        outbox.done(&outbox.oldest().expect("one waits"));
        assert_eq!(oldest(&outbox), "nothing");
    }

    #[test]
    fn the_newest_are_kept_and_the_others_counted() {
        let outbox = Outbox::new(3);
        put(&outbox, &["a", "b", "c"]);
        let on_the_way = outbox.oldest().expect("three wait");
        put(&outbox, &["d", "e"]);
        assert_eq!((oldest(&outbox).as_str(), outbox.lost()), ("cde", 2));
        outbox.done(&on_the_way);
        assert_eq!((oldest(&outbox).as_str(), outbox.waiting()), ("de", 2));
    }

    #[test]
    fn the_memory_has_a_bound_whatever_the_readings_are() {
        let outbox = Outbox::new(1_000);
        (0..100).for_each(|_| outbox.put("x".repeat(1 << 20)));
        let inner = outbox.lock();
        assert!(inner.bytes <= WAITING_BYTES_MAX && inner.waiting.len() == 16 && inner.lost == 84);
    }
}
