//! The cardinality guard: how many values a metric keeps per dimension and day.
//!
//! The first values of a UTC day get rows; what comes after is counted in `(other)`, exactly. Rows stand in the deltas
//! in the order of their first event, so the same log always keeps the same values.

use std::hash::BuildHasher;
use std::ops::Range;

use hashbrown::{DefaultHashBuilder, HashSet, HashTable};
use model::limits::{METRICS_MAX, TUPLES_MAX};
use model::ports::counters::StoreError;
use model::series::{Cut, OTHER};

use super::groups::GroupKey;
use super::store::Store;

/// What has a row of its own, per day.
#[derive(Default)]
pub(super) struct Guard {
    days: HashTable<Day>,
    hasher: DefaultHashBuilder,
}

struct Day {
    game: u32,
    cut: Cut,
    /// `None`: the names of the game's metrics themselves.
    metric: Option<Box<str>>,
    day: u32,
    values: HashSet<Box<str>>,
    used: bool,
}

impl Guard {
    /// The metric under which to count: itself, or `(other)` when the game has too many names today.
    pub(super) fn metric<'a>(
        &mut self,
        game: u32,
        metric: &'a str,
        hour: u32,
        store: Option<&Store>,
    ) -> Result<&'a str, StoreError> {
        if metric.starts_with('$') {
            return Ok(metric);
        }
        let day = self.day(game, Cut::Total, None, hour / 24, store)?;
        Ok(admit(day, metric, METRICS_MAX))
    }

    /// Makes known what the store has of the group's day.
    pub(super) fn load(&mut self, group: &GroupKey<'_>, store: Option<&Store>) -> Result<(), StoreError> {
        match group.cut {
            Cut::Total => Ok(()),
            cut => self.day(group.game, cut, Some(group.metric), group.hour / 24, store).map(drop),
        }
    }

    /// The row in which to count: the value's own, or `(other)`. The day was loaded. `values_max` is the game's number of
    /// values of a dimension.
    pub(super) fn admitted<'a>(&mut self, group: &GroupKey<'_>, value: &'a str, values_max: u32) -> &'a str {
        let values_max = match group.cut {
            Cut::Total => return value,
            Cut::By(_) | Cut::Declared(_) => values_max as usize,
            Cut::Tuple => TUPLES_MAX,
        };
        let day = self.day(group.game, group.cut, Some(group.metric), group.hour / 24, None);
        admit(day.expect("what is loaded cannot fail"), value, values_max)
    }

    /// Lets go of the days before yesterday that were not used since the last time; they are read again if a late event
    /// needs them.
    pub(super) fn evict(&mut self, newest_hour: u32) {
        let oldest_kept = (newest_hour / 24).saturating_sub(1);
        self.days.retain(|day| std::mem::take(&mut day.used) || day.day >= oldest_kept);
    }

    /// Forgets the days of these hours; they are read again from the store.
    pub(super) fn forget(&mut self, hours: &Range<u32>) {
        let days = hours.start / 24..hours.end.div_ceil(24);
        self.days.retain(|day| !days.contains(&day.day));
    }

    fn day(
        &mut self,
        game: u32,
        cut: Cut,
        metric: Option<&str>,
        day: u32,
        store: Option<&Store>,
    ) -> Result<&mut Day, StoreError> {
        let hash = self.hasher.hash_one((game, cut.code(), metric, day));
        let same = |other: &Day| {
            (other.game, other.cut, other.day) == (game, cut, day) && other.metric.as_deref() == metric
        };
        if self.days.find(hash, same).is_none() {
            let values = match store {
                Some(store) => store.values(game, cut, metric, day)?,
                None => HashSet::new(),
            };
            let new = Day { game, cut, metric: metric.map(Box::from), day, values, used: true };
            let hasher = &self.hasher;
            self.days.insert_unique(hash, new, |day| {
                hasher.hash_one((day.game, day.cut.code(), day.metric.as_deref(), day.day))
            });
        }
        let found = self.days.find_mut(hash, same).expect("it was put there a moment ago");
        found.used = true;
        Ok(found)
    }
}

fn admit<'a>(day: &mut Day, value: &'a str, values_max: usize) -> &'a str {
    // It takes no place of its own, so that a limit that is raised lets in as many as it says.
    if value == OTHER || day.values.contains(value) {
        return value;
    }
    if day.values.len() >= values_max {
        return OTHER;
    }
    day.values.insert(value.into());
    value
}
