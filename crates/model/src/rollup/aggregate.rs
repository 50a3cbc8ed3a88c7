//! The aggregate: all values of one row in one slot of time.

use super::bytes::{ByteReader, Corrupt, put_signed};
use super::{Bucket, Distinct, ExactSum, Quantiles};

/// The number, values and players of the events of a minute, an hour or a day. Takes 24 bytes for a plain counter;
/// values and players take memory only if there are any.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Aggregate {
    /// Number of events. Signed, so that a correction is an aggregate too.
    pub count: i64,
    /// Statistics of the values, if any event had one.
    pub values: Option<Box<ValueStats>>,
    /// Distinct players of the events.
    pub players: Distinct,
}

/// Statistics of at least one value.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueStats {
    /// Sum of the values.
    pub sum: ExactSum,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Distribution and number of the values.
    pub quantiles: Quantiles,
    /// The newest value, if the values are states such as those of a gauge. Boxed because few metrics have it.
    pub last: Option<Box<LatestValue>>,
}

/// A value with its time. Of two, the later one wins, and at the same time the larger one, so neither order nor
/// repetition matters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatestValue {
    /// Time of measurement, milliseconds since 1970-01-01 UTC.
    pub at_ms: i64,
    /// The value; always finite.
    pub value: f64,
}

impl LatestValue {
    /// Returns the later of the two; at the same time, the larger.
    pub(crate) fn or_later(self, other: LatestValue) -> LatestValue {
        let later = other.at_ms.cmp(&self.at_ms).then(other.value.total_cmp(&self.value));
        if later.is_gt() { other } else { self }
    }

    pub(super) fn encode(self, out: &mut Vec<u8>) {
        put_signed(out, self.at_ms);
        ExactSum::from(self.value).encode(out);
    }

    pub(super) fn decode(reader: &mut ByteReader) -> Result<LatestValue, Corrupt> {
        Ok(LatestValue { at_ms: reader.signed()?, value: float(reader)? })
    }
}

impl Aggregate {
    /// Counts one event, with the hash of its player and its finite value and bucket, if it has them.
    #[inline]
    pub fn observe(&mut self, player: Option<u64>, value: Option<(f64, Bucket)>) {
        self.count = self.count.wrapping_add(1);
        if let Some(hash) = player {
            self.players.insert(hash);
        }
        if let Some((value, bucket)) = value {
            self.values.get_or_insert_default().observe(value, bucket);
        }
    }

    /// Adds finite values, with their buckets, of events that are already counted.
    pub(crate) fn observe_values(&mut self, values: impl Iterator<Item = (f64, Bucket)>) {
        let mut values = values.peekable();
        if values.peek().is_some() {
            let own = self.values.get_or_insert_default();
            values.for_each(|(value, bucket)| own.observe(value, bucket));
        }
    }

    /// Adds another aggregate.
    pub fn merge(&mut self, other: &Aggregate) {
        self.count = self.count.wrapping_add(other.count);
        self.players.merge(&other.players);
        match (&mut self.values, &other.values) {
            (_, None) => {}
            (Some(ours), Some(theirs)) => ours.merge(theirs),
            (ours @ None, theirs) => ours.clone_from(theirs),
        }
    }

    /// Encodes the count, flags for the optional parts, then summary, distribution and latest value, then players.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let last = self.values.as_deref().and_then(|values| values.last.as_deref());
        let has = [self.values.is_some(), last.is_some(), !self.players.is_empty()];
        put_signed(out, self.count);
        out.push(has.iter().rev().fold(0, |flags, has| flags << 1 | u8::from(*has)));
        if let Some(values) = self.values.as_deref() {
            values.summary().encode(out);
            values.quantiles.encode(out);
        }
        if let Some(last) = last {
            last.encode(out);
        }
        if !self.players.is_empty() {
            self.players.encode(out);
        }
    }

    /// Decodes an aggregate. Accepts only the canonical form that [`Aggregate::encode`] writes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Aggregate, Corrupt> {
        let mut reader = ByteReader(bytes);
        let mut aggregate = Aggregate { count: reader.signed()?, ..Aggregate::default() };
        let flags = reader.byte()?;
        if flags > 7 || flags & 3 == 2 {
            return Err(Corrupt("unknown kind of aggregate"));
        }
        if flags & 1 != 0 {
            let mut values =
                ValueStats::of(ValueSummary::decode(&mut reader)?, Quantiles::decode(&mut reader)?)?;
            if flags & 2 != 0 {
                values.last = Some(Box::new(LatestValue::decode(&mut reader)?));
            }
            aggregate.values = Some(Box::new(values));
        }
        if flags & 4 == 0 {
            return reader.end().map(|()| aggregate);
        }
        aggregate.players = Distinct::decode(reader.0)?;
        if aggregate.players.is_empty() { Err(Corrupt("a set of players is empty")) } else { Ok(aggregate) }
    }

    /// Returns true if it contains nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.values.is_none() && self.players.is_empty()
    }

    /// Returns the heap memory in use, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.players.heap_bytes() + self.values.as_deref().map_or(0, ValueStats::bytes)
    }
}

impl Default for ValueStats {
    /// Without values: neutral when merged.
    fn default() -> Self {
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        ValueStats { sum: ExactSum::default(), min, max, quantiles: Quantiles::default(), last: None }
    }
}

impl ValueStats {
    /// Adds one finite value.
    #[inline]
    pub fn observe(&mut self, value: f64, bucket: Bucket) {
        self.observe_times(value, bucket, 1);
    }

    /// Adds one finite value that was measured `times` times.
    #[inline]
    pub(crate) fn observe_times(&mut self, value: f64, bucket: Bucket, times: i64) {
        // Adding 0.0 turns -0.0 into 0.0: of two equal values, the order must not decide which one is kept.
        let value = value + 0.0;
        match times {
            1 => self.sum.add(value),
            times => self.sum.add(value * times as f64),
        }
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.quantiles.add(bucket, times);
    }

    /// Keeps the value as the newest state, unless a later one is known.
    pub(crate) fn observe_latest(&mut self, last: LatestValue) {
        let newest = self.last.as_deref().map_or(last, |known| known.or_later(last));
        self.last = Some(Box::new(newest));
    }

    fn bytes(&self) -> usize {
        let last = if self.last.is_some() { size_of::<LatestValue>() } else { 0 };
        size_of::<ValueStats>() + self.sum.heap_bytes() + self.quantiles.heap_bytes() + last
    }

    /// Adds other statistics.
    pub(crate) fn merge(&mut self, other: &ValueStats) {
        self.sum.merge(&other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.quantiles.merge(&other.quantiles);
        if let Some(last) = other.last.as_deref() {
            self.observe_latest(*last);
        }
    }

    /// Returns the number of values.
    pub fn count(&self) -> i64 {
        self.quantiles.count()
    }

    /// Returns the mean, rounded twice to the nearest float: as a sum and as a quotient.
    pub(crate) fn mean(&self) -> f64 {
        self.summary().mean()
    }

    /// Returns a quantile within the minimum and the maximum; see [`Quantiles::quantile`].
    pub fn quantile(&self, q: f64) -> Option<f64> {
        self.quantiles.quantile(q).map(|value| value.max(self.min).min(self.max))
    }

    /// Combines the summary and the distribution of the same values.
    pub(super) fn of(numbers: ValueSummary, quantiles: Quantiles) -> Result<ValueStats, Corrupt> {
        let ValueSummary { count, sum, min, max } = numbers;
        if count != quantiles.count() {
            return Err(Corrupt("the number of values differs from that of the buckets"));
        }
        Ok(ValueStats { sum, min, max, quantiles, last: None })
    }

    /// Returns count, sum, minimum and maximum.
    pub(crate) fn summary(&self) -> ValueSummary {
        ValueSummary { count: self.count(), sum: self.sum.clone(), min: self.min, max: self.max }
    }
}

/// Count, sum, minimum and maximum of values, without their distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueSummary {
    /// Number of values.
    pub count: i64,
    /// Sum of the values.
    pub sum: ExactSum,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

impl ValueSummary {
    /// Returns the mean.
    pub(crate) fn mean(&self) -> f64 {
        self.sum.value() / self.count as f64
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_signed(out, self.count);
        self.sum.encode(out);
        ExactSum::from(self.min).encode(out);
        ExactSum::from(self.max).encode(out);
    }

    pub(super) fn decode(reader: &mut ByteReader) -> Result<ValueSummary, Corrupt> {
        Ok(ValueSummary {
            count: reader.signed()?,
            sum: ExactSum::decode(reader)?,
            min: float(reader)?,
            max: float(reader)?,
        })
    }
}

fn float(reader: &mut ByteReader) -> Result<f64, Corrupt> {
    ExactSum::decode(reader)?.as_float().ok_or(Corrupt("a value is not a float"))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::hash_player;
    use super::*;

    /// One event per line: its player and its value, `-` for none.
    fn aggregate_of(events: &str) -> Aggregate {
        let mut aggregate = Aggregate::default();
        for event in events.lines().map(str::trim) {
            let (player, value) = event.split_once(' ').expect("a player and a value");
            let player = (player != "-").then(|| hash_player(1, player.as_bytes()));
            let value = value.parse().ok().map(|value: f64| (value, Bucket::of(value)));
            aggregate.observe(player, value);
        }
        aggregate
    }

    fn encoded(aggregate: &Aggregate) -> Vec<u8> {
        let mut bytes = Vec::new();
        aggregate.encode(&mut bytes);
        bytes
    }

    fn check(events: &str, expected: Expect) {
        let aggregate = aggregate_of(events);
        let mut cut = Aggregate::default();
        for event in events.lines().rev() {
            cut.merge(&aggregate_of(event));
        }
        assert_eq!(cut, aggregate);
        assert_eq!(Aggregate::decode(&encoded(&aggregate)), Ok(aggregate.clone()));
        let mut text = format!("{} by {}", aggregate.count, aggregate.players.count());
        if let Some(values) = &aggregate.values {
            let ValueSummary { count, sum, min, max } = values.summary();
            let median = values.quantile(0.5).expect("there are values");
            text += &format!(", {count} values {min}..{max}, sum {}, median {median:.2}", sum.value());
        }
        expected.assert_eq(&text);
    }

    #[test]
    fn event_counts_with_and_without_player_and_value() {
        check("- -\n- -", expect!["2 by 0"]);
        check("ann -\nbo -\nann -", expect!["3 by 2"]);
        check(
            "ann 0.1\nbo 0.2\n- -",
            expect!["3 by 2, 2 values 0.1..0.2, sum 0.30000000000000004, median 0.10"],
        );
        check("- 7\n- -3\n- 7", expect!["3 by 0, 3 values -3..7, sum 11, median 7.00"]);
        check("- -0\n- 0", expect!["2 by 0, 2 values 0..0, sum 0, median 0.00"]);
    }

    #[test]
    fn quantile_is_within_min_and_max() {
        check("- 101", expect!["1 by 0, 1 values 101..101, sum 101, median 101.00"]);
    }

    #[test]
    fn aggregate_without_values_or_players_takes_24_bytes() {
        assert_eq!(size_of::<Aggregate>(), 24);
        assert_eq!(aggregate_of("- -").heap_bytes(), 0);
    }

    #[test]
    fn correction_empties_an_aggregate() {
        let mut aggregate = aggregate_of("- -\n- -");
        aggregate.merge(&Aggregate { count: -2, ..Aggregate::default() });
        assert!(aggregate.is_empty());
    }

    #[test]
    fn latest_value_does_not_depend_on_order() {
        let aggregate = |lasts: &[(i64, f64)]| {
            let mut aggregate = aggregate_of("- 1");
            let values = aggregate.values.as_mut().expect("there is one");
            lasts.iter().for_each(|(at_ms, value)| {
                values.observe_latest(LatestValue { at_ms: *at_ms, value: *value })
            });
            aggregate
        };
        let last = |aggregate: &Aggregate| {
            aggregate.values.as_ref().and_then(|values| values.last.as_deref().copied())
        };
        let newest = Some(LatestValue { at_ms: 7, value: 4.0 });
        assert_eq!(last(&aggregate(&[(5, 9.0), (7, 3.0), (7, 4.0), (6, 8.0)])), newest);
        assert_eq!(last(&aggregate(&[(7, 4.0), (7, 3.0), (5, 9.0)])), newest);
        let mut merged = aggregate(&[(5, 9.0)]);
        merged.merge(&aggregate(&[(7, 4.0)]));
        merged.merge(&aggregate(&[]));
        assert_eq!(last(&merged), newest);
        assert_eq!(Aggregate::decode(&encoded(&merged)), Ok(merged));
    }

    #[test]
    fn value_counts_as_often_as_it_was_measured() {
        let mut values = ValueStats::default();
        values.observe_times(3.0, Bucket::of(3.0), 10);
        assert_eq!((values.count(), values.sum.value(), values.mean()), (10, 30.0, 3.0));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_rejected_or_a_canonical_aggregate(
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..60),
        ) {
            if let Ok(aggregate) = Aggregate::decode(&bytes) {
                proptest::prop_assert_eq!(encoded(&aggregate), bytes);
            }
        }
    }
}
