//! When to look at which flow again: a ring of seconds, so that a second costs what is due in it.

/// Seconds that can be waited; a power of two.
const SECONDS: u64 = 128;

/// What is due in each of the next seconds.
pub(super) struct Wheel {
    ring: Vec<Vec<Due>>,
    /// Everything before this second has been taken.
    next_s: u64,
}

/// A flow to look at: its place, and its number, since another may have come to the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub place: u32,
    pub id: u64,
}

impl Wheel {
    pub fn new() -> Wheel {
        Wheel { ring: (0..SECONDS).map(|_| Vec::new()).collect(), next_s: 0 }
    }

    /// Has the flow looked at in the first second that is not before `at_ms`, or sooner if that is too far.
    pub fn put(&mut self, due: Due, at_ms: u64) {
        let second = at_ms.div_ceil(1000).clamp(self.next_s, self.next_s + SECONDS - 1);
        self.ring[(second % SECONDS) as usize].push(due);
    }

    /// Takes everything that is due until now.
    pub fn take(&mut self, now_ms: u64) -> Vec<Due> {
        let until = now_ms / 1000 + 1;
        let from = self.next_s.max(until.saturating_sub(SECONDS));
        self.next_s = self.next_s.max(until);
        (from..until).flat_map(|second| std::mem::take(&mut self.ring[(second % SECONDS) as usize])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_taken_once_and_not_before_its_time() {
        let mut wheel = Wheel::new();
        let due = |place| Due { place, id: 0 };
        let taken = |wheel: &mut Wheel, now_ms| {
            let mut places: Vec<u32> = wheel.take(now_ms).iter().map(|due| due.place).collect();
            places.sort_unstable();
            places
        };
        assert_eq!(taken(&mut wheel, 5_000), []);
        wheel.put(due(1), 5_900);
        wheel.put(due(2), 65_100);
        // In the past, and further ahead than the ring reaches.
        wheel.put(due(3), 1_000);
        wheel.put(due(4), 900_000);
        assert_eq!(taken(&mut wheel, 5_999), []);
        assert_eq!(taken(&mut wheel, 6_000), [1, 3]);
        assert_eq!(taken(&mut wheel, 65_999), []);
        assert_eq!(taken(&mut wheel, 500_000), [2, 4]);
        assert_eq!(taken(&mut wheel, 900_000), []);
    }
}
