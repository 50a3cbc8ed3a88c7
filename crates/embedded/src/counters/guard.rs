//! The cardinality limit: how many values a metric keeps per dimension and day.
//!
//! The first values of a UTC day get rows; later ones are counted in `(other)`, exactly. Rows are in the deltas in the
//! order of their first event, so the same log always keeps the same values.

use std::hash::BuildHasher;
use std::ops::Range;

use hashbrown::{DefaultHashBuilder, HashSet, HashTable};
use model::limits::{METRICS_MAX, TUPLES_MAX};
use model::ports::counters::StoreError;
use model::series::{Cut, OTHER, SAMPLES};

use super::groups::GroupKey;
use super::store::Store;

/// The values that have their own row, per day.
#[derive(Default)]
pub(super) struct CardinalityGuard {
    days: HashTable<DayValues>,
    hasher: DefaultHashBuilder,
    /// The number of checkpoints that were taken.
    checkpoints: u64,
}

struct DayValues {
    game: u32,
    cut: Cut,
    /// `None`: the names of the game's metrics themselves.
    metric: Option<Box<str>>,
    day: u32,
    values: HashSet<Box<str>>,
    used: bool,
    /// The checkpoint that writes the last value that was added.
    added_in: u64,
}

impl CardinalityGuard {
    /// Returns the metric under which to count: itself, or `(other)` if the game has too many names today.
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
        let checkpoint = self.checkpoints + 1;
        let day = self.day(game, Cut::Total, None, hour / 24, store)?;
        Ok(admit_value(day, metric, METRICS_MAX, checkpoint))
    }

    /// Loads the values of the group's day from the store.
    pub(super) fn load(&mut self, group: &GroupKey<'_>, store: Option<&Store>) -> Result<(), StoreError> {
        match group.cut {
            Cut::Total => Ok(()),
            cut => self.day(group.game, cut, Some(group.metric), group.hour / 24, store).map(drop),
        }
    }

    /// Returns the row in which to count: the value's own, or `(other)`. The day must be loaded. `values_max` is the game's
    /// limit of values of a dimension.
    pub(super) fn admit<'a>(&mut self, group: &GroupKey<'_>, value: &'a str, values_max: u32) -> &'a str {
        let values_max = match group.cut {
            Cut::Total => return value,
            Cut::Declared(_) if group.metric == SAMPLES => METRICS_MAX,
            Cut::By(_) | Cut::Declared(_) => values_max as usize,
            Cut::Tuple => TUPLES_MAX,
        };
        let checkpoint = self.checkpoints + 1;
        let day = self.day(group.game, group.cut, Some(group.metric), group.hour / 24, None);
        admit_value(day.expect("a loaded day needs no store"), value, values_max, checkpoint)
    }

    /// Counts a checkpoint, which writes all values that were added before.
    pub(super) fn take_checkpoint(&mut self) {
        self.checkpoints += 1;
    }

    /// Evicts the days before yesterday that were not used since the last call and whose values are all in the store as of
    /// the committed checkpoint; a late event loads them again.
    pub(super) fn evict(&mut self, newest_hour: u32, committed: u64) {
        let oldest_kept = (newest_hour / 24).saturating_sub(1);
        self.days.retain(|day| {
            std::mem::take(&mut day.used) || day.day >= oldest_kept || day.added_in > committed
        });
    }

    /// Evicts the days of these hours, so that they are loaded again from the store.
    pub(super) fn evict_hours(&mut self, hours: &Range<u32>) {
        let days = hours.start / 24..hours.end.div_ceil(24);
        self.days.retain(|day| !days.contains(&day.day));
    }

    /// Evicts the days of a game.
    pub(super) fn evict_game(&mut self, game: u32) {
        self.days.retain(|day| day.game != game);
    }

    fn day(
        &mut self,
        game: u32,
        cut: Cut,
        metric: Option<&str>,
        day: u32,
        store: Option<&Store>,
    ) -> Result<&mut DayValues, StoreError> {
        let hash = self.hasher.hash_one((game, cut.code(), metric, day));
        let same = |other: &DayValues| {
            (other.game, other.cut, other.day) == (game, cut, day) && other.metric.as_deref() == metric
        };
        if self.days.find(hash, same).is_none() {
            let values = match store {
                Some(store) => store.values(game, cut, metric, day)?,
                None => HashSet::new(),
            };
            let new =
                DayValues { game, cut, metric: metric.map(Box::from), day, values, used: true, added_in: 0 };
            let hasher = &self.hasher;
            self.days.insert_unique(hash, new, |day| {
                hasher.hash_one((day.game, day.cut.code(), day.metric.as_deref(), day.day))
            });
        }
        let found = self.days.find_mut(hash, same).expect("the day was just inserted");
        found.used = true;
        Ok(found)
    }
}

/// `checkpoint` is the one that writes the value if it is new.
fn admit_value<'a>(day: &mut DayValues, value: &'a str, values_max: usize, checkpoint: u64) -> &'a str {
    // `(other)` does not count towards the limit, so that a raised limit admits exactly the difference.
    if value == OTHER || day.values.contains(value) {
        return value;
    }
    if day.values.len() >= values_max {
        return OTHER;
    }
    day.values.insert(value.into());
    day.added_in = checkpoint;
    value
}
