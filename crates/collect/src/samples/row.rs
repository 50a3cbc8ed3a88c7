//! What the samples of one series come to in one minute.

use std::borrow::Cow;
use std::ops::Range;

use decode::sample::Histogram;
use model::batch::{DeclaredValues, Samples};
use model::rollup::{Aggregate, Bucket, LatestValue};
use model::{RawEvent, Reject};

use super::dimensions::{Slot, values};
use super::{Series, same};

/// How many values a sender may have added up: a minute of such sums still fits a count.
const SPREAD_COUNT_MAX: u64 = 1 << 48;

/// One row of a table.
pub(super) struct Row {
    name: Range<u32>,
    tags_end: u32,
    minute: u32,
    pub(super) hash: u64,
    /// How many samples came in.
    pub(super) taken: u32,
    /// What is behind the point of how many they stand for.
    pub(super) fraction: f64,
    cell: Aggregate,
    declared: Range<u32>,
    encoded: Range<u32>,
}

impl Row {
    pub(super) fn new(name: Range<u32>, tags_end: u32, minute: u32, hash: u64, fraction: f64) -> Row {
        let cell = Aggregate::default();
        Row { name, tags_end, minute, hash, taken: 0, fraction, cell, declared: 0..0, encoded: 0..0 }
    }

    #[inline]
    pub(super) fn is_of(&self, series: Series<'_>, minute: u32, keys: &[u8]) -> bool {
        self.minute == minute && same(self.name(keys), series.name) && same(self.tags(keys), series.tags)
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

    /// A value that stands for `weight` others of its kind: they add that much to the sum, and as many to the count. What
    /// is behind the point waits for the next one.
    #[inline]
    pub(super) fn weighed(&mut self, value: f64, weight: f64) {
        let times = weight + self.fraction;
        self.fraction = times.fract();
        let times = times as i64;
        self.cell.count += times;
        let values = self.cell.values.get_or_insert_default();
        // There is one zero only.
        let value = value + 0.0;
        values.sum.add(value * weight);
        values.min = values.min.min(value);
        values.max = values.max.max(value);
        values.quantiles.add(Bucket::of(value), times);
    }

    /// A gauge shows this. Of two values of one millisecond the one that came later counts.
    pub(super) fn state(&mut self, value: f64, at_ms: i64) {
        self.weighed(value, 1.0);
        let Some(values) = &mut self.cell.values else { return };
        if values.last.as_deref().is_none_or(|last| last.at_ms <= at_ms) {
            values.last = Some(Box::new(LatestValue { at_ms, value: value + 0.0 }));
        }
    }

    /// Somebody or something was seen.
    pub(super) fn member(&mut self, hash: u64) {
        self.cell.count += 1;
        self.cell.players.insert(hash);
    }

    /// Many values that were added up where they were measured.
    pub(super) fn spread(&mut self, spread: &Histogram<'_>) -> Result<(), Reject> {
        if spread.count > SPREAD_COUNT_MAX {
            return Err(Reject::ValueNotFinite);
        }
        if spread.count == 0 {
            return Ok(());
        }
        self.cell.count += spread.count as i64;
        let values = self.cell.values.get_or_insert_default();
        values.sum.add(spread.sum);
        values.min = values.min.min(spread.min + 0.0);
        values.max = values.max.max(spread.max + 0.0);
        spread
            .buckets
            .iter()
            .for_each(|(value, count)| values.quantiles.add(Bucket::of(*value), *count as i64));
        Ok(())
    }

    /// Writes the values of declared dimensions and the cell behind what is there.
    pub(super) fn encode(&mut self, keys: &[u8], out: &mut Vec<u8>) {
        let start = out.len() as u32;
        for (slot, value) in values(self.tags(keys)) {
            if let Slot::Declared(number) = slot {
                DeclaredValues::push(out, number, value.as_bytes());
            }
        }
        let middle = out.len() as u32;
        self.cell.encode(out);
        (self.declared, self.encoded) = (start..middle, middle..out.len() as u32);
    }

    /// What was encoded, as the line takes it.
    pub(super) fn event<'a>(&self, keys: &'a [u8], encoded: &'a [u8]) -> RawEvent<'a> {
        let part = |range: &Range<u32>| &encoded[range.start as usize..range.end as usize];
        let name = str::from_utf8(self.name(keys)).expect("a sample's name is text");
        let mut event = RawEvent {
            name: Some(Cow::Borrowed(name)),
            ts_ms: Some(i64::from(self.minute) * 60_000),
            declared: DeclaredValues::from_bytes(part(&self.declared)),
            samples: Some(Samples { received: self.taken, aggregate: part(&self.encoded) }),
            ..RawEvent::default()
        };
        for (slot, value) in values(self.tags(keys)) {
            if let Slot::BuiltIn(dimension) = slot {
                event.dimensions[dimension as usize] = Some(Cow::Borrowed(value));
            }
        }
        event
    }
}
