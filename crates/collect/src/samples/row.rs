//! One row of a table: the samples of one series in one minute.

use std::borrow::Cow;
use std::ops::Range;

use decode::sample::Histogram;
use model::batch::{DeclaredValues, Samples};
use model::rollup::{Aggregate, Bucket, LatestValue};
use model::{RawEvent, Reject};

use super::dimensions::{DimensionKey, decode_values};
use super::{SeriesKey, same_bytes};

/// The largest count of a histogram: the sum of a minute of them still fits a count.
const HISTOGRAM_COUNT_MAX: u64 = 1 << 48;

/// The aggregate of one series in one minute. Names and tags are in the table's arena, `keys`.
pub(super) struct SampleRow {
    name: Range<u32>,
    tags_end: u32,
    minute: u32,
    pub(super) hash: u64,
    /// Samples added.
    pub(super) sample_count: u32,
    /// The fraction of their weighted count.
    pub(super) fraction: f64,
    aggregate: Aggregate,
    declared: Range<u32>,
    encoded: Range<u32>,
}

impl SampleRow {
    pub(super) fn new(name: Range<u32>, tags_end: u32, minute: u32, hash: u64, fraction: f64) -> SampleRow {
        let (aggregate, declared, encoded) = (Aggregate::default(), 0..0, 0..0);
        SampleRow { name, tags_end, minute, hash, sample_count: 0, fraction, aggregate, declared, encoded }
    }

    #[inline]
    pub(super) fn matches(&self, series: SeriesKey<'_>, minute: u32, keys: &[u8]) -> bool {
        self.minute == minute
            && same_bytes(self.name(keys), series.name)
            && same_bytes(self.tags(keys), series.tags)
    }

    #[inline]
    fn name<'k>(&self, keys: &'k [u8]) -> &'k [u8] {
        &keys[self.name.start as usize..self.name.end as usize]
    }

    #[inline]
    fn tags<'k>(&self, keys: &'k [u8]) -> &'k [u8] {
        &keys[self.name.end as usize..self.tags_end as usize]
    }

    pub(super) fn key<'k>(&self, keys: &'k [u8]) -> &'k [u8] {
        &keys[self.name.start as usize..self.tags_end as usize]
    }

    /// Adds a value that stands for `weight` measurements: `value * weight` to the sum, and `weight` to the count. The
    /// fraction of the count is kept for the next value.
    #[inline]
    pub(super) fn add_weighted(&mut self, value: f64, weight: f64) {
        let times = weight + self.fraction;
        self.fraction = times.fract();
        let times = times as i64;
        self.aggregate.count += times;
        let values = self.aggregate.values.get_or_insert_default();
        // Turns -0.0 into 0.0.
        let value = value + 0.0;
        values.sum.add(value * weight);
        values.min = values.min.min(value);
        values.max = values.max.max(value);
        values.quantiles.add(Bucket::of(value), times);
    }

    /// Adds the value of a gauge. Of two values in one millisecond, the one received later is the last value.
    pub(super) fn add_gauge(&mut self, value: f64, at_ms: i64) {
        self.add_weighted(value, 1.0);
        let Some(values) = &mut self.aggregate.values else { return };
        if values.last.as_deref().is_none_or(|last| last.at_ms <= at_ms) {
            values.last = Some(Box::new(LatestValue { at_ms, value: value + 0.0 }));
        }
    }

    /// Adds the hash of a set member.
    pub(super) fn add_member(&mut self, hash: u64) {
        self.aggregate.count += 1;
        self.aggregate.players.insert(hash);
    }

    /// Adds values that the sender has already aggregated.
    pub(super) fn add_histogram(&mut self, histogram: &Histogram<'_>) -> Result<(), Reject> {
        if histogram.count > HISTOGRAM_COUNT_MAX {
            return Err(Reject::ValueNotFinite);
        }
        if histogram.count == 0 {
            return Ok(());
        }
        self.aggregate.count += histogram.count as i64;
        let values = self.aggregate.values.get_or_insert_default();
        values.sum.add(histogram.sum);
        values.min = values.min.min(histogram.min + 0.0);
        values.max = values.max.max(histogram.max + 0.0);
        histogram
            .buckets
            .iter()
            .for_each(|(value, count)| values.quantiles.add(Bucket::of(*value), *count as i64));
        Ok(())
    }

    /// Appends the values of declared dimensions and the aggregate to `out`.
    pub(super) fn encode(&mut self, keys: &[u8], out: &mut Vec<u8>) {
        let start = out.len() as u32;
        for (key, value) in decode_values(self.tags(keys)) {
            if let DimensionKey::Declared(number) = key {
                DeclaredValues::push(out, number, value.as_bytes());
            }
        }
        let middle = out.len() as u32;
        self.aggregate.encode(out);
        (self.declared, self.encoded) = (start..middle, middle..out.len() as u32);
    }

    /// Returns the encoded row as a raw event.
    pub(super) fn event<'a>(&self, keys: &'a [u8], encoded: &'a [u8]) -> RawEvent<'a> {
        let part = |range: &Range<u32>| &encoded[range.start as usize..range.end as usize];
        let name = str::from_utf8(self.name(keys)).expect("a sample's name is UTF-8");
        let mut event = RawEvent {
            name: Some(Cow::Borrowed(name)),
            ts_ms: Some(i64::from(self.minute) * 60_000),
            declared: DeclaredValues::from_bytes(part(&self.declared)),
            samples: Some(Samples { received: self.sample_count, aggregate: part(&self.encoded) }),
            ..RawEvent::default()
        };
        for (key, value) in decode_values(self.tags(keys)) {
            if let DimensionKey::BuiltIn(dimension) = key {
                event.dimensions[dimension as usize] = Some(Cow::Borrowed(value));
            }
        }
        event
    }
}
