//! The times of the ids of a run: a few intervals, so that most runs can be skipped for an id with a time.
//!
//! A single interval from first to last is not enough: some clients' clocks are years off, and one such id would make
//! the run match everything.

/// Maximum number of intervals; beyond it those with the narrowest gap are joined.
pub(super) const INTERVALS_MAX: usize = 64;

/// Returns a time in milliseconds as a step of 65.5 seconds. The 48 bits of a UUIDv7 fit exactly.
pub(super) fn step_of(time_ms: u64) -> u32 {
    (time_ms >> 16) as u32
}

/// Intervals of steps, both ends included, sorted and disjoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TimeIntervals {
    intervals: Vec<(u32, u32)>,
    /// Index of the last interval hit: ids of one moment arrive together.
    recent: usize,
}

impl TimeIntervals {
    /// Creates the set from intervals that may touch or overlap.
    pub(super) fn from_intervals(intervals: impl IntoIterator<Item = (u32, u32)>) -> TimeIntervals {
        let mut times = TimeIntervals::default();
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

    /// Returns true if any step in `first..=last` is covered.
    pub(super) fn overlaps(&self, first: u32, last: u32) -> bool {
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
        let mut times = TimeIntervals::default();
        for step in [100, 101, 102, 7_000_000, 103, 0] {
            times.add(step);
        }
        assert_eq!(times.intervals(), [(0, 0), (100, 103), (7_000_000, 7_000_000)]);
        assert!(times.overlaps(50, 100) && times.overlaps(103, 103) && times.overlaps(1, u32::MAX));
        assert!(!times.overlaps(1, 99) && !times.overlaps(104, 6_999_999));
    }

    proptest! {
        #[test]
        fn added_steps_are_covered_by_few_disjoint_intervals(
            steps in prop::collection::vec(prop_oneof![0u32..400, any::<u32>()], 0..300),
        ) {
            let mut times = TimeIntervals::default();
            steps.iter().for_each(|&step| times.add(step));
            prop_assert!(times.intervals().len() <= INTERVALS_MAX);
            prop_assert!(times.intervals().windows(2).all(|pair| pair[0].1.saturating_add(1) < pair[1].0));
            prop_assert!(steps.iter().all(|&step| times.overlaps(step, step)));
            let again = TimeIntervals::from_intervals(times.intervals().iter().copied());
            prop_assert_eq!(again.intervals(), times.intervals());
        }
    }
}
