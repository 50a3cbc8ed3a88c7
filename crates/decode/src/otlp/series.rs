//! What totals were last, so that what they grew by can be told.
//!
//! <https://opentelemetry.io/docs/specs/otel/metrics/data-model/#sums-delta-to-cumulative>

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use model::Reject;

use super::buckets::Distribution;
use super::point::{Number, Value};
use crate::sample::Tag;

/// What a series costs beside its key and its buckets: an entry of the map and what surrounds an allocation.
const SERIES_BYTES: usize = size_of::<(Box<[u8]>, Last)>() + 32;

/// A series that was silent for so long is forgotten when room is needed.
const SILENCE_MS: i64 = 3_600_000;
/// Looking for silent ones costs a look at all, so it is done this seldom.
const SWEEP_MS: i64 = 60_000;

/// The last totals of every series of one collector, in bounded memory.
///
/// A series is a metric's name, its tags and the time at which its sender began to count. So a sender that starts
/// again is a new series, and of two senders that look the same each is followed. What a total had when it was first
/// seen counts as new if it was begun after the collector was; otherwise it was counted before, or cannot be told, and
/// only what comes from then on counts.
#[derive(Debug)]
pub struct Series {
    last: HashMap<Box<[u8]>, Last>,
    since_ns: u64,
    bytes: usize,
    bytes_max: usize,
    swept_ms: i64,
}

#[derive(Debug)]
struct Last {
    time_ns: u64,
    seen_ms: i64,
    value: Value,
}

impl Series {
    /// None yet. `since_ms`: when the collector began, in milliseconds since 1970-01-01 UTC. `bytes_max`: of memory.
    pub fn new(since_ms: i64, bytes_max: usize) -> Series {
        let since_ns = since_ms.max(0).unsigned_abs().saturating_mul(1_000_000);
        Series { last: HashMap::new(), since_ns, bytes: 0, bytes_max, swept_ms: i64::MIN }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.last.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    /// About how much memory they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What a total grew by since the point before, which is its value from now on.
    pub(super) fn grown(
        &mut self,
        key: Vec<u8>,
        start_ns: u64,
        time_ns: u64,
        seen_ms: i64,
        value: Value,
    ) -> Result<Value, Reject> {
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
                let grown = value.grown(&last.value);
                self.bytes = bytes;
                *last = Last { time_ns, seen_ms, value };
                Ok(grown)
            }
            Entry::Vacant(vacant) => {
                let bytes = SERIES_BYTES + vacant.key().len() + value.heap_bytes();
                let is_all_new = start_ns != 0 && start_ns >= self.since_ns;
                let grown = if is_all_new { value.clone() } else { value.grown(&value) };
                let key = vacant.into_key();
                self.make_room(bytes, seen_ms)?;
                self.bytes += bytes;
                self.last.insert(key, Last { time_ns, seen_ms, value });
                Ok(grown)
            }
        }
    }

    fn make_room(&mut self, bytes: usize, now_ms: i64) -> Result<(), Reject> {
        if self.bytes + bytes > self.bytes_max && now_ms >= self.swept_ms.saturating_add(SWEEP_MS) {
            self.swept_ms = now_ms;
            self.last.retain(|_, last| now_ms.saturating_sub(last.seen_ms) < SILENCE_MS);
            let left = self.last.iter();
            self.bytes = left.map(|(key, last)| SERIES_BYTES + key.len() + last.value.heap_bytes()).sum();
        }
        if self.bytes + bytes > self.bytes_max { Err(Reject::SeriesFull) } else { Ok(()) }
    }
}

impl Value {
    fn grown(&self, before: &Value) -> Value {
        match (self, before) {
            (Value::Number(now), Value::Number(before)) => Value::Number(Number::grown(*now, *before)),
            (Value::Distribution(now), Value::Distribution(before)) => Value::Distribution(now.grown(before)),
            // The kind of data is part of a series' key.
            _ => self.clone(),
        }
    }

    fn heap_bytes(&self) -> usize {
        match self {
            Value::Number(_) => 0,
            Value::Distribution(distribution) => Distribution::heap_bytes(distribution),
        }
    }
}

/// What tells a series from all others. The order of its tags does not matter.
pub(super) fn key(name: &str, kind: u8, start_ns: u64, tags: &[Tag<'_>]) -> Vec<u8> {
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
