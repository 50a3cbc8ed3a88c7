//! A timer wheel of seconds: advancing by a second costs only the entries due in it.

/// Slots of the wheel, one per second; a power of two.
const SECONDS: u64 = 128;

/// The flows due in each of the next seconds.
pub(super) struct TimerWheel {
    ring: Vec<Vec<DueFlow>>,
    /// All seconds before this one have been taken.
    next_s: u64,
}

/// A flow to check: its slot and its id, because another flow may use the slot by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DueFlow {
    pub slot: u32,
    pub id: u64,
}

impl TimerWheel {
    pub(crate) fn new() -> TimerWheel {
        TimerWheel { ring: (0..SECONDS).map(|_| Vec::new()).collect(), next_s: 0 }
    }

    /// Schedules a check of the flow for the first second not before `at_ms`, or earlier if that is beyond the
    /// wheel.
    pub(crate) fn schedule(&mut self, due: DueFlow, at_ms: u64) {
        let second = at_ms.div_ceil(1000).clamp(self.next_s, self.next_s + SECONDS - 1);
        self.ring[(second % SECONDS) as usize].push(due);
    }

    /// Takes all entries due until now.
    pub(crate) fn take_due(&mut self, now_ms: u64) -> Vec<DueFlow> {
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
    fn every_entry_is_due_once_and_not_early() {
        let mut wheel = TimerWheel::new();
        let due = |slot| DueFlow { slot, id: 0 };
        let taken = |wheel: &mut TimerWheel, now_ms| {
            let mut slots: Vec<u32> = wheel.take_due(now_ms).iter().map(|due| due.slot).collect();
            slots.sort_unstable();
            slots
        };
        assert_eq!(taken(&mut wheel, 5_000), []);
        wheel.schedule(due(1), 5_900);
        wheel.schedule(due(2), 65_100);
        // One in the past, and one beyond the end of the wheel.
        wheel.schedule(due(3), 1_000);
        wheel.schedule(due(4), 900_000);
        assert_eq!(taken(&mut wheel, 5_999), []);
        assert_eq!(taken(&mut wheel, 6_000), [1, 3]);
        assert_eq!(taken(&mut wheel, 65_999), []);
        assert_eq!(taken(&mut wheel, 500_000), [2, 4]);
        assert_eq!(taken(&mut wheel, 900_000), []);
    }
}
