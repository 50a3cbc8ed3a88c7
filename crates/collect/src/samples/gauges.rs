//! The last values of gauges, to which changes such as `+5` and `-3` apply. Shared by all sockets of a collector, bounded.

use hashbrown::{DefaultHashBuilder, HashTable};
use model::Reject;
use parking_lot::Mutex;

use super::{SeriesKey, same_bytes};

/// Gauges whose value is kept. A change of any further gauge applies to 0.
const GAUGES_MAX: usize = 100_000;

/// The last values of gauges.
#[derive(Default)]
pub struct Gauges {
    hasher: DefaultHashBuilder,
    values: Mutex<HashTable<Gauge>>,
}

struct Gauge {
    name_len: usize,
    key: Box<[u8]>,
    hash: u64,
    value: f64,
}

impl Gauges {
    /// Returns the hasher of series, which all tables that share these gauges use.
    pub(super) fn hasher(&self) -> &DefaultHashBuilder {
        &self.hasher
    }

    pub(super) fn set(&self, series: SeriesKey<'_>, value: f64) {
        put(&mut self.values.lock(), series, value);
    }

    /// Adds to the value of a gauge, which is 0 at first. Returns the new value.
    pub(super) fn change(&self, series: SeriesKey<'_>, by: f64) -> Result<f64, Reject> {
        let mut values = self.values.lock();
        let before = values.find(series.hash, |gauge| gauge.matches(series)).map_or(0.0, |gauge| gauge.value);
        let value = before + by;
        if !value.is_finite() {
            return Err(Reject::ValueNotFinite);
        }
        put(&mut values, series, value);
        Ok(value)
    }
}

impl Gauge {
    fn matches(&self, series: SeriesKey<'_>) -> bool {
        let (name, tags) = self.key.split_at(self.name_len);
        same_bytes(name, series.name) && same_bytes(tags, series.tags)
    }
}

fn put(values: &mut HashTable<Gauge>, series: SeriesKey<'_>, value: f64) {
    if let Some(gauge) = values.find_mut(series.hash, |gauge| gauge.matches(series)) {
        gauge.value = value;
        return;
    }
    if values.len() < GAUGES_MAX {
        let key = [series.name, series.tags].concat().into();
        let gauge = Gauge { name_len: series.name.len(), key, hash: series.hash, value };
        values.insert_unique(series.hash, gauge, |gauge| gauge.hash);
    }
}
