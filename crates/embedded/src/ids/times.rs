//! Which times the ids of a run were made at: a few intervals, so that most runs need no look for an id with a time.
//!
//! Not one interval from first to last: some clients' clocks are years off, and a single such id would make the run
//! match everything.

/// How many intervals are kept; more are joined across the narrowest gap.
pub(super) const INTERVALS_MAX: usize = 64;

/// A time in milliseconds as a step of 65.5 seconds. The 48 bits of a UUIDv7 fit exactly.
pub(super) fn step_of(time_ms: u64) -> u32 {
    (time_ms >> 16) as u32
}

/// Intervals of steps, both ends included, in order and apart from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    intervals: Vec<(u32, u32)>,
    /// Where the last step was found: ids of one moment come together.
    recent: usize,
}

impl Times {
    /// From intervals that may touch or overlap.
    pub(super) fn from_intervals(intervals: impl IntoIterator<Item = (u32, u32)>) -> Times {
        let mut times = Times::default();
        for (first, last) in intervals {
            times.add_interval(first, last);
        }
        times
    }

    pub(super) fn intervals(&self) -> &[(u32, u32)] {
        &self.intervals
    }

    pub(super) fn add(&mut self, step: u32) {
        if !self.intervals.get(self.recent).is_some_and(|&(first, last)| first <= step && step <= last) {
            self.add_interval(step, step);
        }
    }

    /// Whether something in `first..=last` is covered.
    pub(super) fn touches(&self, first: u32, last: u32) -> bool {
        let at = self.intervals.partition_point(|interval| interval.1 < first);
        self.intervals.get(at).is_some_and(|interval| interval.0 <= last)
    }

    fn add_interval(&mut self, first: u32, last: u32) {
        let from = self.intervals.partition_point(|interval| interval.1.saturating_add(1) < first);
        let to = self.intervals.partition_point(|interval| interval.0 <= last.saturating_add(1));
        let joined = self.intervals[from..to]
            .iter()
            .fold((first, last), |sum, interval| (sum.0.min(interval.0), sum.1.max(interval.1)));
        self.intervals.splice(from..to, [joined]);
        self.recent = from;
        if self.intervals.len() > INTERVALS_MAX {
            self.join_nearest();
        }
    }

    fn join_nearest(&mut self) {
        let gap = |n: &usize| self.intervals[*n].0 - self.intervals[*n - 1].1;
        let Some(second) = (1..self.intervals.len()).min_by_key(gap) else { return };
        self.intervals[second - 1].1 = self.intervals[second].1;
        self.intervals.remove(second);
        self.recent = second - 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_wrong_clock_adds_one_interval() {
        let mut times = Times::default();
        for step in [100, 101, 102, 7_000_000, 103, 0] {
            times.add(step);
        }
        assert_eq!(times.intervals(), [(0, 0), (100, 103), (7_000_000, 7_000_000)]);
        assert!(times.touches(50, 100) && times.touches(103, 103) && times.touches(1, u32::MAX));
        assert!(!times.touches(1, 99) && !times.touches(104, 6_999_999));
    }

    proptest! {
        #[test]
        fn what_was_added_is_covered_by_few_intervals_that_are_apart(
            steps in prop::collection::vec(prop_oneof![0u32..400, any::<u32>()], 0..300),
        ) {
            let mut times = Times::default();
            steps.iter().for_each(|&step| times.add(step));
            prop_assert!(times.intervals().len() <= INTERVALS_MAX);
            prop_assert!(times.intervals().windows(2).all(|pair| pair[0].1.saturating_add(1) < pair[1].0));
            prop_assert!(steps.iter().all(|&step| times.touches(step, step)));
            let again = Times::from_intervals(times.intervals().iter().copied());
            prop_assert_eq!(again.intervals(), times.intervals());
        }
    }
}
