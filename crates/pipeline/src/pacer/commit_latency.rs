//! The latency of live commits: the mean time from append to acknowledgement over the last second.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::WINDOW;

/// Slots of the sliding window.
const SLOTS: usize = 4;

/// The latencies of recent live commits.
#[derive(Debug)]
pub struct CommitLatency {
    start: Instant,
    slots: Mutex<[WindowSlot; SLOTS]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct WindowSlot {
    /// The number of the slot since the start; 0 means unused.
    number: u64,
    sum: LatencySum,
}

#[derive(Clone, Copy, Debug, Default)]
struct LatencySum {
    count: u32,
    time: Duration,
}

impl CommitLatency {
    /// Creates an empty window. No recorded time may be before `start`.
    pub(crate) fn new(start: Instant) -> CommitLatency {
        CommitLatency { start, slots: Mutex::default() }
    }

    /// Records a commit that a live client waited for.
    pub fn record(&self, from: Instant, until: Instant) {
        let number = self.number(until);
        let mut slots = self.slots.lock();
        let slot = &mut slots[number as usize % SLOTS];
        if slot.number != number {
            *slot = WindowSlot { number, sum: LatencySum::default() };
        }
        slot.sum.add(LatencySum { count: 1, time: until.saturating_duration_since(from) });
    }

    /// Returns the mean latency of the live commits of the last second; `None` if there were none.
    pub fn mean(&self, now: Instant) -> Option<Duration> {
        let number = self.number(now);
        let mut all = LatencySum::default();
        for slot in self.slots.lock().iter().filter(|slot| slot.number + SLOTS as u64 > number) {
            all.add(slot.sum);
        }
        all.time.checked_div(all.count)
    }

    fn number(&self, at: Instant) -> u64 {
        // Number 0 marks an unused slot.
        let since = at.saturating_duration_since(self.start);
        1 + (since.as_nanos() / (WINDOW.as_nanos() / SLOTS as u128)) as u64
    }
}

impl LatencySum {
    fn add(&mut self, other: LatencySum) {
        self.count = self.count.saturating_add(other.count);
        self.time = self.time.saturating_add(other.time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `commits` are (end, latency) in milliseconds.
    fn check(commits: &[(u64, u64)], now_ms: u64, expected_ms: Option<u64>) {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let latency = CommitLatency::new(start);
        for (until_ms, took_ms) in commits {
            latency.record(at(until_ms - took_ms), at(*until_ms));
        }
        assert_eq!(
            latency.mean(at(now_ms)),
            expected_ms.map(Duration::from_millis),
            "{commits:?} at {now_ms}"
        );
    }

    #[test]
    fn the_mean_covers_the_last_second() {
        check(&[], 400, None);
        check(&[(100, 2), (200, 4)], 400, Some(3));
        let commits = [(100, 20), (900, 4)];
        check(&commits, 999, Some(12));
        check(&commits, 1_000, Some(4));
        check(&commits, 1_700, Some(4));
        check(&commits, 1_800, None);
        check(&[(100, 20), (1_100, 4)], 1_200, Some(4));
    }
}
