//! Samples, added up between two flushes: what thousands of lines a second come to is a row a metric and minute.
//!
//! A tag that is a dimension of the game makes a row of its own; others are counted and left out. A row's text stands in
//! one arena, and all memory but that of the cells is kept from flush to flush.

mod dimensions;
mod gauges;
mod row;

pub use dimensions::Dimensions;
pub use gauges::Gauges;

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::sync::Arc;

use decode::sample::{Measured, Sample};
use hashbrown::{DefaultHashBuilder, HashTable};
use model::limits::{EVENTS_PER_REQUEST_MAX, FUTURE_MS_MAX};
use model::rollup::hash_player;
use model::{RawBatch, Reject};

use row::Row;

/// Rows of one table. A sample that would need one more is refused.
pub const ROWS_MAX: usize = EVENTS_PER_REQUEST_MAX;
/// Values and members that a table takes between two flushes: each may cost 16 bytes.
const GROWTH_MAX: usize = 4 << 20;
/// Encoded rows of one entry of the log.
const ENTRY_BYTES: usize = 1 << 20;
/// Series whose fraction of a sample is remembered.
const FRACTIONS_MAX: usize = ROWS_MAX;

/// Samples of one game that were added up and not yet written.
pub struct Table {
    dimensions: Dimensions,
    gauges: Arc<Gauges>,
    seed: u64,
    hasher: DefaultHashBuilder,
    /// The series' names and dimensions, one behind the other.
    keys: Vec<u8>,
    rows: Vec<Row>,
    index: HashTable<u32>,
    /// What is behind the point of samples that stand for 3.3 others, until it is one.
    fractions: HashMap<Box<[u8]>, f64>,
    tags: Vec<u8>,
    growth: usize,
    ignored_tags: u64,
    encoded: Vec<u8>,
}

/// A metric with the values of its dimensions, as bytes.
#[derive(Clone, Copy)]
struct Series<'a> {
    name: &'a [u8],
    tags: &'a [u8],
    hash: u64,
}

/// Whether the bytes are the same. Asking a slice of nothing first is no detail: its address need not be mapped, and
/// comparing no bytes there by masked loads takes fifty nanoseconds, more than everything else about a line.
#[inline]
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && (one.is_empty() || one == other)
}

impl Table {
    /// An empty table of a game with these dimensions. `seed` is the one under which the game's players are hashed.
    pub fn new(dimensions: Dimensions, seed: u64, gauges: Arc<Gauges>) -> Table {
        Table {
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

    /// Takes one sample that came now.
    #[inline]
    pub fn take(&mut self, sample: &Sample<'_>, now_ms: i64) -> Result<(), Reject> {
        if self.growth >= GROWTH_MAX {
            return Err(Reject::QueueFull);
        }
        let ts_ms = believed(sample.ts_ms, now_ms)?;
        self.tags.clear();
        if !sample.tags.is_empty() {
            self.ignored_tags += self.dimensions.encode(sample.tags, &mut self.tags)?;
        }
        let name = sample.name.as_bytes();
        let mut hasher = self.hasher.build_hasher();
        hasher.write(name);
        hasher.write(&self.tags);
        let tags = std::mem::take(&mut self.tags);
        let series = Series { name, tags: &tags, hash: hasher.finish() };
        let taken = self.add(series, sample, ts_ms);
        self.tags = tags;
        taken
    }

    #[inline]
    fn add(&mut self, series: Series<'_>, sample: &Sample<'_>, ts_ms: i64) -> Result<(), Reject> {
        let place = self.place(series, (ts_ms / 60_000) as u32)?;
        let row = &mut self.rows[place];
        match sample.measured {
            Measured::Count(value) | Measured::Timer(value) | Measured::Value(value) => {
                row.weighed(value, sample.weight);
            }
            Measured::Gauge(value) => {
                self.gauges.set(series, value);
                row.state(value, ts_ms);
            }
            Measured::Change(by) => row.state(self.gauges.change(series, by)?, ts_ms),
            Measured::Member(member) => row.member(hash_player(self.seed, member.as_bytes())),
            Measured::Histogram(spread) => {
                row.spread(&spread)?;
                self.growth += spread.buckets.len();
            }
        }
        self.growth += 1;
        row.taken += 1;
        Ok(())
    }

    /// The row of a series in a minute, made if it is not there.
    #[inline]
    fn place(&mut self, series: Series<'_>, minute: u32) -> Result<usize, Reject> {
        let hash = series.hash ^ u64::from(minute).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (rows, keys) = (&self.rows, &self.keys);
        match self.index.find(hash, |row| rows[*row as usize].is_of(series, minute, keys)) {
            Some(row) => Ok(*row as usize),
            None => self.make(series, minute, hash),
        }
    }

    #[cold]
    fn make(&mut self, series: Series<'_>, minute: u32, hash: u64) -> Result<usize, Reject> {
        if self.rows.len() >= ROWS_MAX {
            return Err(Reject::QueueFull);
        }
        let start = self.keys.len();
        self.keys.extend_from_slice(series.name);
        self.keys.extend_from_slice(series.tags);
        let fraction = self.fractions.remove(&self.keys[start..]).unwrap_or_default();
        let name = start as u32..(start + series.name.len()) as u32;
        self.rows.push(Row::new(name, self.keys.len() as u32, minute, hash, fraction));
        let (place, rows) = (self.rows.len() - 1, &self.rows);
        self.index.insert_unique(hash, place as u32, |row| rows[*row as usize].hash);
        Ok(place)
    }

    /// Whether it should be written soon.
    pub fn is_large(&self) -> bool {
        self.rows.len() >= ROWS_MAX / 2 || self.growth >= GROWTH_MAX / 4
    }

    /// Whether nothing was taken.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Tags that were no dimensions, since the table was emptied.
    pub fn ignored_tags(&self) -> u64 {
        self.ignored_tags
    }

    /// Writes the cells as the log has them, and says which rows go into one entry each.
    pub fn encode(&mut self) -> Vec<Range<usize>> {
        self.encoded.clear();
        let (mut entries, mut first, mut start) = (Vec::new(), 0, 0);
        // What nobody took, because it was refused after its row had been made, is no row.
        self.rows.retain(|row| row.taken > 0);
        for (place, row) in self.rows.iter_mut().enumerate() {
            row.encode(&self.keys, &mut self.encoded);
            if self.encoded.len() - start >= ENTRY_BYTES {
                entries.push(first..place + 1);
                (first, start) = (place + 1, self.encoded.len());
            }
        }
        if first < self.rows.len() {
            entries.push(first..self.rows.len());
        }
        entries
    }

    /// Rows that were encoded, as the line takes them.
    pub fn events(&self, rows: Range<usize>) -> RawBatch<'_> {
        let events = self.rows[rows].iter().map(|row| Ok(row.event(&self.keys, &self.encoded)));
        RawBatch { sent_at_ms: None, events: events.collect() }
    }

    /// How many samples are in a row that was encoded.
    pub fn taken(&self, row: usize) -> u32 {
        self.rows[row].taken
    }

    /// Empties the table, from now on for a game with these dimensions, and keeps its memory.
    pub fn clear(&mut self, dimensions: Dimensions) {
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

/// The time to count a sample at. As with events, a clock that is more than a day ahead is not believed.
fn believed(ts_ms: Option<i64>, now_ms: i64) -> Result<i64, Reject> {
    match ts_ms {
        Some(ts_ms) if ts_ms < 0 => Err(Reject::TimestampInvalid),
        Some(ts_ms) if ts_ms <= now_ms + FUTURE_MS_MAX => Ok(ts_ms),
        _ => Ok(now_ms),
    }
}

#[cfg(test)]
mod tests;
