//! The last totals of cumulative series, from which increases are computed.
//!
//! <https://opentelemetry.io/docs/specs/otel/metrics/data-model/#sums-delta-to-cumulative>

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use model::Reject;

use super::buckets::Distribution;
use super::point::{PointNumber, PointValue};
use crate::sample::Tag;

/// Bytes of a series besides its key and its buckets: an entry of the map and the overhead of an allocation.
const SERIES_BYTES: usize = size_of::<(Box<[u8]>, LastTotal)>() + 32;

/// A series idle for this long is evicted when space is needed.
const IDLE_MS_MAX: i64 = 3_600_000;
/// Minimum time between two searches for idle series, which scan all of them.
const SWEEP_MS: i64 = 60_000;

/// The last totals of all series of one collector, in bounded memory.
///
/// A series is a metric's name, its tags and the time at which its sender started to count. A restarted sender is
/// therefore a new series, and two identical senders are tracked separately. The first total of a series counts as new if
/// the series was started after the collector; otherwise it was counted before, or is unknown, and only later increases
/// count.
#[derive(Debug)]
pub struct CumulativeSeries {
    last: HashMap<Box<[u8]>, LastTotal>,
    since_ns: u64,
    bytes: usize,
    bytes_max: usize,
    swept_ms: i64,
}

#[derive(Debug)]
struct LastTotal {
    time_ns: u64,
    seen_ms: i64,
    value: PointValue,
}

impl CumulativeSeries {
    /// Creates an empty table. `since_ms` is the start of the collector in milliseconds since 1970-01-01 UTC, `bytes_max` the
    /// memory limit.
    pub fn new(since_ms: i64, bytes_max: usize) -> CumulativeSeries {
        let since_ns = since_ms.max(0).unsigned_abs().saturating_mul(1_000_000);
        CumulativeSeries { last: HashMap::new(), since_ns, bytes: 0, bytes_max, swept_ms: i64::MIN }
    }

    /// Returns the number of series.
    pub fn len(&self) -> usize {
        self.last.len()
    }

    /// Returns true if there are no series.
    pub fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    /// Returns the approximate bytes of memory in use.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the increase of a total since the previous point, and stores the new total.
    pub(crate) fn update(
        &mut self,
        key: Vec<u8>,
        start_ns: u64,
        time_ns: u64,
        seen_ms: i64,
        value: PointValue,
    ) -> Result<PointValue, Reject> {
        match self.last.entry(key.into()) {
            Entry::Occupied(mut series) => {
                let last = series.get_mut();
                if time_ns <= last.time_ns {
                    return Err(Reject::SeenBefore);
                }
                let bytes = self.bytes + value.heap_bytes() - last.value.heap_bytes();
                if bytes > self.bytes && bytes > self.bytes_max {
                    return Err(Reject::SeriesFull);
                }
                let delta = value.delta_since(&last.value);
                self.bytes = bytes;
                *last = LastTotal { time_ns, seen_ms, value };
                Ok(delta)
            }
            Entry::Vacant(vacant) => {
                let bytes = SERIES_BYTES + vacant.key().len() + value.heap_bytes();
                let is_new = start_ns != 0 && start_ns >= self.since_ns;
                let delta = if is_new { value.clone() } else { value.delta_since(&value) };
                let key = vacant.into_key();
                self.ensure_space(bytes, seen_ms)?;
                self.bytes += bytes;
                self.last.insert(key, LastTotal { time_ns, seen_ms, value });
                Ok(delta)
            }
        }
    }

    fn ensure_space(&mut self, bytes: usize, now_ms: i64) -> Result<(), Reject> {
        if self.bytes + bytes > self.bytes_max && now_ms >= self.swept_ms.saturating_add(SWEEP_MS) {
            self.swept_ms = now_ms;
            self.last.retain(|_, last| now_ms.saturating_sub(last.seen_ms) < IDLE_MS_MAX);
            let remaining = self.last.iter();
            self.bytes =
                remaining.map(|(key, last)| SERIES_BYTES + key.len() + last.value.heap_bytes()).sum();
        }
        if self.bytes + bytes > self.bytes_max { Err(Reject::SeriesFull) } else { Ok(()) }
    }
}

impl PointValue {
    fn delta_since(&self, before: &PointValue) -> PointValue {
        match (self, before) {
            (PointValue::Number(now), PointValue::Number(before)) => {
                PointValue::Number(PointNumber::delta_since(*now, *before))
            }
            (PointValue::Distribution(now), PointValue::Distribution(before)) => {
                PointValue::Distribution(now.delta_since(before))
            }
            // The kind of data is part of a series' key.
            _ => self.clone(),
        }
    }

    fn heap_bytes(&self) -> usize {
        match self {
            PointValue::Number(_) => 0,
            PointValue::Distribution(distribution) => Distribution::heap_bytes(distribution),
        }
    }
}

/// Returns the key of a series. The order of its tags does not matter.
pub(crate) fn key(name: &str, kind: u8, start_ns: u64, tags: &[Tag<'_>]) -> Vec<u8> {
    let mut sorted = tags.to_vec();
    sorted.sort_unstable();
    let mut key = vec![kind];
    key.extend_from_slice(&start_ns.to_le_bytes());
    let texts = sorted.iter().flat_map(|tag| [tag.key, tag.value]);
    for text in std::iter::once(name).chain(texts) {
        key.extend_from_slice(&(text.len() as u32).to_le_bytes());
        key.extend_from_slice(text.as_bytes());
    }
    key
}
