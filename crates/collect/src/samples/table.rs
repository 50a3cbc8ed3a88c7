//! A table of samples aggregated between two writes: thousands of lines a second become one row per metric and minute.
//!
//! A tag that is a dimension of the game gets rows of its own; other tags are counted and ignored. Names and tags are
//! stored in one arena, and all memory except that of the aggregates is reused after each write.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::sync::Arc;

use decode::sample::{Measured, Sample};
use hashbrown::{DefaultHashBuilder, HashTable};
use model::limits::{EVENTS_PER_REQUEST_MAX, FUTURE_MS_MAX};
use model::rollup::hash_player;
use model::{RawBatch, Reject};

use super::row::SampleRow;
use super::{Dimensions, Gauges, SeriesKey};

/// Rows of one table. A sample that would need another row is rejected.
const ROWS_MAX: usize = EVENTS_PER_REQUEST_MAX;
/// Values and set members added between two writes: each may take 16 bytes of memory.
const GROWTH_MAX: usize = 4 << 20;
/// Bytes of encoded rows in one log entry.
const ENTRY_BYTES: usize = 1 << 20;
/// Series whose fraction of a sample is kept.
const FRACTIONS_MAX: usize = ROWS_MAX;

/// Samples of one game, aggregated and not yet written.
pub struct SampleTable {
    dimensions: Dimensions,
    gauges: Arc<Gauges>,
    seed: u64,
    hasher: DefaultHashBuilder,
    /// The arena of the rows' names and dimensions.
    keys: Vec<u8>,
    rows: Vec<SampleRow>,
    index: HashTable<u32>,
    /// Fractions of a count, by series: a sample with the weight 3.3 counts as 3 and leaves 0.3 for the next one.
    fractions: HashMap<Box<[u8]>, f64>,
    /// Scratch space for the dimensions of one sample.
    tags: Vec<u8>,
    /// Values and set members added since the table was emptied.
    growth: usize,
    ignored_tags: u64,
    encoded: Vec<u8>,
}

impl SampleTable {
    /// Returns an empty table for a game with these dimensions. `seed` is the seed with which the game's players are
    /// hashed.
    pub fn new(dimensions: Dimensions, seed: u64, gauges: Arc<Gauges>) -> SampleTable {
        SampleTable {
            dimensions,
            seed,
            hasher: gauges.hasher().clone(),
            gauges,
            keys: Vec::new(),
            rows: Vec::new(),
            index: HashTable::new(),
            fractions: HashMap::new(),
            tags: Vec::new(),
            growth: 0,
            ignored_tags: 0,
            encoded: Vec::new(),
        }
    }

    /// Adds a sample that was received at `now_ms`. The error says why it is rejected.
    #[inline]
    pub fn add(&mut self, sample: &Sample<'_>, now_ms: i64) -> Result<(), Reject> {
        if self.growth >= GROWTH_MAX {
            return Err(Reject::QueueFull);
        }
        let ts_ms = clamp_timestamp(sample.ts_ms, now_ms)?;
        self.tags.clear();
        if !sample.tags.is_empty() || self.dimensions.has_declared() {
            self.ignored_tags += self.dimensions.encode(sample.tags, &mut self.tags)?;
        }
        let name = sample.name.as_bytes();
        let mut hasher = self.hasher.build_hasher();
        hasher.write(name);
        hasher.write(&self.tags);
        let tags = std::mem::take(&mut self.tags);
        let series = SeriesKey { name, tags: &tags, hash: hasher.finish() };
        let added = self.add_to_row(series, sample, ts_ms);
        self.tags = tags;
        added
    }

    #[inline]
    fn add_to_row(&mut self, series: SeriesKey<'_>, sample: &Sample<'_>, ts_ms: i64) -> Result<(), Reject> {
        let index = self.get_or_create_row(series, (ts_ms / 60_000) as u32)?;
        let row = &mut self.rows[index];
        match sample.measured {
            Measured::Count(value) | Measured::Timer(value) | Measured::Value(value) => {
                row.add_weighted(value, sample.weight);
            }
            Measured::Gauge(value) => {
                self.gauges.set(series, value);
                row.add_gauge(value, ts_ms);
            }
            Measured::Change(by) => row.add_gauge(self.gauges.change(series, by)?, ts_ms),
            Measured::Member(member) => row.add_member(hash_player(self.seed, member.as_bytes())),
            Measured::Histogram(histogram) => {
                row.add_histogram(&histogram)?;
                self.growth += histogram.buckets.len();
            }
        }
        self.growth += 1;
        row.sample_count += 1;
        Ok(())
    }

    /// Returns the index of the row of a series in a minute.
    #[inline]
    fn get_or_create_row(&mut self, series: SeriesKey<'_>, minute: u32) -> Result<usize, Reject> {
        let hash = series.hash ^ u64::from(minute).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (rows, keys) = (&self.rows, &self.keys);
        match self.index.find(hash, |row| rows[*row as usize].matches(series, minute, keys)) {
            Some(row) => Ok(*row as usize),
            None => self.create_row(series, minute, hash),
        }
    }

    #[cold]
    fn create_row(&mut self, series: SeriesKey<'_>, minute: u32, hash: u64) -> Result<usize, Reject> {
        if self.rows.len() >= ROWS_MAX {
            return Err(Reject::QueueFull);
        }
        let start = self.keys.len();
        self.keys.extend_from_slice(series.name);
        self.keys.extend_from_slice(series.tags);
        let fraction = self.fractions.remove(&self.keys[start..]).unwrap_or_default();
        let name = start as u32..(start + series.name.len()) as u32;
        self.rows.push(SampleRow::new(name, self.keys.len() as u32, minute, hash, fraction));
        let (index, rows) = (self.rows.len() - 1, &self.rows);
        self.index.insert_unique(hash, index as u32, |row| rows[*row as usize].hash);
        Ok(index)
    }

    /// Returns true if the table should be written without waiting for more samples.
    pub(crate) fn is_large(&self) -> bool {
        self.rows.len() >= ROWS_MAX / 2 || self.growth >= GROWTH_MAX / 4
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the number of tags that were not dimensions, since the table was emptied.
    pub(crate) fn ignored_tags(&self) -> u64 {
        self.ignored_tags
    }

    /// Encodes the aggregates as the log stores them. Returns the ranges of rows that go into one log entry each.
    pub fn encode(&mut self) -> Vec<Range<usize>> {
        self.encoded.clear();
        let (mut entries, mut first, mut start) = (Vec::new(), 0, 0);
        // A row is empty if its only samples were rejected after it had been created.
        self.rows.retain(|row| row.sample_count > 0);
        for (index, row) in self.rows.iter_mut().enumerate() {
            row.encode(&self.keys, &mut self.encoded);
            if self.encoded.len() - start >= ENTRY_BYTES {
                entries.push(first..index + 1);
                (first, start) = (index + 1, self.encoded.len());
            }
        }
        if first < self.rows.len() {
            entries.push(first..self.rows.len());
        }
        entries
    }

    /// Returns encoded rows as raw events, for submission.
    pub fn events(&self, rows: Range<usize>) -> RawBatch<'_> {
        let events = self.rows[rows].iter().map(|row| Ok(row.event(&self.keys, &self.encoded)));
        RawBatch { sent_at_ms: None, events: events.collect() }
    }

    /// Returns the number of samples in an encoded row.
    pub fn sample_count(&self, row: usize) -> u32 {
        self.rows[row].sample_count
    }

    /// Empties the table and keeps its memory. From now on it is for a game with these dimensions.
    pub(crate) fn clear(&mut self, dimensions: Dimensions) {
        if self.fractions.len() + self.rows.len() > FRACTIONS_MAX {
            self.fractions.clear();
        }
        for row in self.rows.drain(..).filter(|row| row.fraction > 0.0) {
            self.fractions.insert(row.key(&self.keys).into(), row.fraction);
        }
        self.index.clear();
        self.keys.clear();
        (self.growth, self.ignored_tags) = (0, 0);
        self.dimensions = dimensions;
    }
}

/// Returns the time at which a sample counts. As with events, a timestamp more than a day ahead of the server is replaced
/// by the time of receipt.
fn clamp_timestamp(ts_ms: Option<i64>, now_ms: i64) -> Result<i64, Reject> {
    match ts_ms {
        Some(ts_ms) if ts_ms < 0 => Err(Reject::TimestampInvalid),
        Some(ts_ms) if ts_ms <= now_ms + FUTURE_MS_MAX => Ok(ts_ms),
        _ => Ok(now_ms),
    }
}

#[cfg(test)]
mod tests;
