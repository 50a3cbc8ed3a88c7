//! What gauges show, so that `+5` and `-3` can be said of them: shared by all sockets of a collector, bounded.

use hashbrown::{DefaultHashBuilder, HashTable};
use model::Reject;
use parking_lot::Mutex;

use super::{Series, same};

/// Gauges that are remembered. One more is counted as if it had shown 0.
const GAUGES_MAX: usize = 100_000;

/// The last values of gauges.
#[derive(Default)]
pub struct Gauges {
    hasher: DefaultHashBuilder,
    shown: Mutex<HashTable<Gauge>>,
}

struct Gauge {
    name_len: usize,
    key: Box<[u8]>,
    hash: u64,
    value: f64,
}

impl Gauges {
    /// How series are hashed; the same for all tables that share these gauges.
    pub(super) fn hasher(&self) -> &DefaultHashBuilder {
        &self.hasher
    }

    /// A gauge shows this from now on.
    pub(super) fn set(&self, series: Series<'_>, value: f64) {
        put(&mut self.shown.lock(), series, value);
    }

    /// A gauge shows so much more than before, and before everything 0. The answer is what it shows now.
    pub(super) fn change(&self, series: Series<'_>, by: f64) -> Result<f64, Reject> {
        let mut shown = self.shown.lock();
        let before = shown.find(series.hash, |gauge| gauge.is_of(series)).map_or(0.0, |gauge| gauge.value);
        let value = before + by;
        if !value.is_finite() {
            return Err(Reject::ValueNotFinite);
        }
        put(&mut shown, series, value);
        Ok(value)
    }
}

impl Gauge {
    fn is_of(&self, series: Series<'_>) -> bool {
        let (name, tags) = self.key.split_at(self.name_len);
        same(name, series.name) && same(tags, series.tags)
    }
}

fn put(shown: &mut HashTable<Gauge>, series: Series<'_>, value: f64) {
    if let Some(gauge) = shown.find_mut(series.hash, |gauge| gauge.is_of(series)) {
        gauge.value = value;
        return;
    }
    if shown.len() < GAUGES_MAX {
        let key = [series.name, series.tags].concat().into();
        let gauge = Gauge { name_len: series.name.len(), key, hash: series.hash, value };
        shown.insert_unique(series.hash, gauge, |gauge| gauge.hash);
    }
}
