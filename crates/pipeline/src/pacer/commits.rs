//! How long live commits take at the moment: the mean time from the append to the answer over the last second.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::WINDOW;

/// The window moves by this part of itself.
const SLOTS: usize = 4;

/// What was committed lately.
#[derive(Debug)]
pub struct Commits {
    start: Instant,
    slots: Mutex<[Slot; SLOTS]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Which part of all time it is about.
    number: u64,
    sum: Sum,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: u32,
    time: Duration,
}

impl Commits {
    /// None yet.
    pub fn new(start: Instant) -> Commits {
        Commits { start, slots: Mutex::default() }
    }

    /// A live commit that somebody waited for.
    pub fn took(&self, from: Instant, until: Instant) {
        let number = self.number(until);
        let mut slots = self.slots.lock();
        let slot = &mut slots[number as usize % SLOTS];
        if slot.number != number {
            *slot = Slot { number, sum: Sum::default() };
        }
        slot.sum.add(Sum { count: 1, time: until.saturating_duration_since(from) });
    }

    /// The mean time of the live commits of the last second; nothing if there were none.
    pub fn mean(&self, now: Instant) -> Option<Duration> {
        let number = self.number(now);
        let mut all = Sum::default();
        for slot in self.slots.lock().iter().filter(|slot| slot.number + SLOTS as u64 > number) {
            all.add(slot.sum);
        }
        all.time.checked_div(all.count)
    }

    fn number(&self, at: Instant) -> u64 {
        // Slot 0 stands for none.
        let since = at.saturating_duration_since(self.start);
        1 + (since.as_nanos() / (WINDOW.as_nanos() / SLOTS as u128)) as u64
    }
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.count = self.count.saturating_add(other.count);
        self.time = self.time.saturating_add(other.time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commits as (when, how long they took), in milliseconds; what is told at a time.
    fn check(commits: &[(u64, u64)], now_ms: u64, expected_ms: Option<u64>) {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let told = Commits::new(start);
        for (until_ms, took_ms) in commits {
            told.took(at(until_ms - took_ms), at(*until_ms));
        }
        assert_eq!(told.mean(at(now_ms)), expected_ms.map(Duration::from_millis), "{commits:?} at {now_ms}");
    }

    #[test]
    fn the_mean_is_that_of_the_last_second() {
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
