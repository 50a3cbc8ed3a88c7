//! The days whose rows can be derived from the rest of a log that has lost a part.

use std::collections::BTreeSet;

use model::ports::counters::{StoreError, StoreSnapshot};

const HOURS: u32 = 24;

/// A UTC day can be derived if none of its rows contains an event from before the end of what is lost, and the day before
/// it neither. A whole day, because the values that have rows of their own are chosen by day; the day before, because
/// sessions continue past midnight.
pub(super) struct DerivableDays {
    /// Days with rows that contain older events; `None` if nothing is lost.
    older: Option<BTreeSet<u32>>,
}

impl DerivableDays {
    /// Reads all rows if something is lost. Everything from `lost_until` on can be read in the log.
    pub(super) fn find(stored: &dyn StoreSnapshot, lost_until: u64) -> Result<DerivableDays, StoreError> {
        if lost_until == 0 {
            return Ok(DerivableDays { older: None });
        }
        let mut older = BTreeSet::new();
        for row in stored.rows(&(0..u32::MAX)) {
            let row = row?;
            if row.since < lost_until {
                older.insert(row.hour / HOURS);
            }
        }
        Ok(DerivableDays { older: Some(older) })
    }

    pub(super) fn contains_hour(&self, hour: u32) -> bool {
        let Some(older) = &self.older else { return true };
        let day = hour / HOURS;
        !older.contains(&day) && !older.contains(&day.wrapping_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use model::ports::counters::{RecordsCheck, SnapshotRow, SnapshotRows};

    use super::*;

    /// Rows as (hour, lowest offset).
    struct Rows(Vec<(u32, u64)>);

    impl StoreSnapshot for Rows {
        fn position(&self) -> u64 {
            100
        }

        fn rows(&self, _: &Range<u32>) -> SnapshotRows<'_> {
            let row = |(hour, since): &(u32, u64)| SnapshotRow {
                key: Vec::new(),
                hour: *hour,
                since: *since,
                block: Vec::new(),
            };
            Box::new(self.0.iter().map(move |it| Ok(row(it))))
        }

        fn row_name(&self, _: &[u8]) -> String {
            unimplemented!("rows are not named here")
        }

        fn check_records(&self) -> Result<RecordsCheck, StoreError> {
            unimplemented!("there are no records")
        }
    }

    #[test]
    fn day_with_a_lost_event_and_the_day_after_are_not_derivable() {
        let rows = Rows(vec![(10, 5), (30, 19), (47, 70), (50, 20), (75, 30), (100, 31)]);
        let derivable = |lost_until: u64| -> Vec<u32> {
            let days = DerivableDays::find(&rows, lost_until).expect("nothing is read from a disk");
            (0..6).filter(|day| days.contains_hour(day * 24 + 3)).collect()
        };
        assert_eq!(derivable(0), [0, 1, 2, 3, 4, 5]);
        assert_eq!(derivable(5), [0, 1, 2, 3, 4, 5]);
        assert_eq!(derivable(6), [2, 3, 4, 5]);
        assert_eq!(derivable(20), [3, 4, 5]);
        assert_eq!(derivable(21), [4, 5]);
        assert_eq!(derivable(31), [5]);
    }
}
