//! What a metric knows of one slot of time.

use super::bytes::{Corrupt, Reader, put_signed};
use super::{Bucket, Distinct, ExactSum, Quantiles};

/// Everything that is kept of the events of a minute, an hour or a day: how many, their values, their
/// players. Three words for a counter; values and players only where there were some.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// How many events. Signed, so that a correction is a cell as well.
    pub count: i64,
    /// Of the events that had a value.
    pub values: Option<Box<Values>>,
    /// Of the events that had a player.
    pub players: Distinct,
}

/// The values of some events: at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    /// Their sum.
    pub sum: ExactSum,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Their distribution, and how many there are.
    pub quantiles: Quantiles,
    /// The newest of those that were said to be a state and no sum, such as a gauge's. Boxed: few metrics have one.
    pub last: Option<Box<Latest>>,
}

/// A value and when it held. Of two the later counts, of two at one time the larger: the order in which they come does
/// not matter, and none counts twice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latest {
    /// Milliseconds since 1970-01-01 UTC.
    pub at_ms: i64,
    /// Finite.
    pub value: f64,
}

impl Latest {
    /// The one of the two that counts.
    pub fn or_later(self, other: Latest) -> Latest {
        let later = other.at_ms.cmp(&self.at_ms).then(other.value.total_cmp(&self.value));
        if later.is_gt() { other } else { self }
    }

    pub(super) fn encode(self, out: &mut Vec<u8>) {
        put_signed(out, self.at_ms);
        ExactSum::from(self.value).encode(out);
    }

    pub(super) fn decode(reader: &mut Reader) -> Result<Latest, Corrupt> {
        Ok(Latest { at_ms: reader.signed()?, value: float(reader)? })
    }
}

impl Cell {
    /// Counts one event: the hash of its player and its finite value with its bucket, if it has them.
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

    /// Adds finite values of events that are counted already, each with its bucket.
    pub fn observe_values(&mut self, values: impl Iterator<Item = (f64, Bucket)>) {
        let mut values = values.peekable();
        if values.peek().is_some() {
            let own = self.values.get_or_insert_default();
            values.for_each(|(value, bucket)| own.observe(value, bucket));
        }
    }

    /// Adds all that `other` has.
    pub fn merge(&mut self, other: &Cell) {
        self.count = self.count.wrapping_add(other.count);
        self.players.merge(&other.players);
        match (&mut self.values, &other.values) {
            (_, None) => {}
            (Some(ours), Some(theirs)) => ours.merge(theirs),
            (ours @ None, theirs) => ours.clone_from(theirs),
        }
    }

    /// Writes all of it: the count; what there is of the rest; numbers, distribution and last of the values; players.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let last = self.values.as_deref().and_then(|values| values.last.as_deref());
        let has = [self.values.is_some(), last.is_some(), !self.players.is_empty()];
        put_signed(out, self.count);
        out.push(has.iter().rev().fold(0, |flags, has| flags << 1 | u8::from(*has)));
        if let Some(values) = self.values.as_deref() {
            values.numbers().encode(out);
            values.quantiles.encode(out);
        }
        if let Some(last) = last {
            last.encode(out);
        }
        if !self.players.is_empty() {
            self.players.encode(out);
        }
    }

    /// Reads what [`Cell::encode`] wrote, and nothing else: a cell has one form only.
    pub fn decode(bytes: &[u8]) -> Result<Cell, Corrupt> {
        let mut reader = Reader(bytes);
        let mut cell = Cell { count: reader.signed()?, ..Cell::default() };
        let flags = reader.byte()?;
        if flags > 7 || flags & 3 == 2 {
            return Err(Corrupt("a cell of an unknown kind"));
        }
        if flags & 1 != 0 {
            let mut values = Values::of(Numbers::decode(&mut reader)?, Quantiles::decode(&mut reader)?)?;
            if flags & 2 != 0 {
                values.last = Some(Box::new(Latest::decode(&mut reader)?));
            }
            cell.values = Some(Box::new(values));
        }
        if flags & 4 == 0 {
            return reader.end().map(|()| cell);
        }
        cell.players = Distinct::decode(reader.0)?;
        if cell.players.is_empty() { Err(Corrupt("players of nobody")) } else { Ok(cell) }
    }

    /// Nothing happened.
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.values.is_none() && self.players.is_empty()
    }

    /// What it keeps outside of itself.
    pub fn heap_bytes(&self) -> usize {
        self.players.heap_bytes() + self.values.as_deref().map_or(0, Values::bytes)
    }
}

impl Default for Values {
    /// No values yet: neutral for [`Values::merge`].
    fn default() -> Self {
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        Values { sum: ExactSum::default(), min, max, quantiles: Quantiles::default(), last: None }
    }
}

impl Values {
    /// Adds one finite value.
    #[inline]
    pub fn observe(&mut self, value: f64, bucket: Bucket) {
        self.observe_times(value, bucket, 1);
    }

    /// Adds one finite value that was measured so many times.
    #[inline]
    pub fn observe_times(&mut self, value: f64, bucket: Bucket, times: i64) {
        // There is one zero only: of two that are equal, the first to come must not matter.
        let value = value + 0.0;
        match times {
            1 => self.sum.add(value),
            times => self.sum.add(value * times as f64),
        }
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.quantiles.add(bucket, times);
    }

    /// Remembers the value as the newest state, unless a later one is known.
    pub fn observe_latest(&mut self, last: Latest) {
        let newest = self.last.as_deref().map_or(last, |known| known.or_later(last));
        self.last = Some(Box::new(newest));
    }

    fn bytes(&self) -> usize {
        let last = if self.last.is_some() { size_of::<Latest>() } else { 0 };
        size_of::<Values>() + self.sum.heap_bytes() + self.quantiles.heap_bytes() + last
    }

    /// Adds all that `other` has.
    pub fn merge(&mut self, other: &Values) {
        self.sum.merge(&other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.quantiles.merge(&other.quantiles);
        if let Some(last) = other.last.as_deref() {
            self.observe_latest(*last);
        }
    }

    /// How many values there are.
    pub fn count(&self) -> i64 {
        self.quantiles.count()
    }

    /// Their mean, rounded to the nearest float twice: as a sum and as a quotient.
    pub fn mean(&self) -> f64 {
        self.numbers().mean()
    }

    /// See [`Quantiles::quantile`]; never outside of what there was.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        self.quantiles.quantile(q).map(|value| value.max(self.min).min(self.max))
    }

    /// Both parts of the same values.
    pub(super) fn of(numbers: Numbers, quantiles: Quantiles) -> Result<Values, Corrupt> {
        let Numbers { count, sum, min, max } = numbers;
        if count != quantiles.count() {
            return Err(Corrupt("there are not as many values as in the buckets"));
        }
        Ok(Values { sum, min, max, quantiles, last: None })
    }

    /// The four numbers alone.
    pub fn numbers(&self) -> Numbers {
        Numbers { count: self.count(), sum: self.sum.clone(), min: self.min, max: self.max }
    }
}

/// What can be told of values without their distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers {
    /// How many there are.
    pub count: i64,
    /// Their sum.
    pub sum: ExactSum,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Numbers {
    /// The sum divided by the count.
    pub fn mean(&self) -> f64 {
        self.sum.value() / self.count as f64
    }

    /// Adds all that `other` has.
    pub fn merge(&mut self, other: &Numbers) {
        self.count = self.count.wrapping_add(other.count);
        self.sum.merge(&other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_signed(out, self.count);
        self.sum.encode(out);
        ExactSum::from(self.min).encode(out);
        ExactSum::from(self.max).encode(out);
    }

    pub(super) fn decode(reader: &mut Reader) -> Result<Numbers, Corrupt> {
        Ok(Numbers {
            count: reader.signed()?,
            sum: ExactSum::decode(reader)?,
            min: float(reader)?,
            max: float(reader)?,
        })
    }
}

fn float(reader: &mut Reader) -> Result<f64, Corrupt> {
    ExactSum::decode(reader)?.as_float().ok_or(Corrupt("a value is no float"))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::hash_player;
    use super::*;

    /// One event a line: its player and its value, `-` for none.
    fn cell_of(events: &str) -> Cell {
        let mut cell = Cell::default();
        for event in events.lines().map(str::trim) {
            let (player, value) = event.split_once(' ').expect("a player and a value");
            let player = (player != "-").then(|| hash_player(1, player.as_bytes()));
            let value = value.parse().ok().map(|value: f64| (value, Bucket::of(value)));
            cell.observe(player, value);
        }
        cell
    }

    fn encoded(cell: &Cell) -> Vec<u8> {
        let mut bytes = Vec::new();
        cell.encode(&mut bytes);
        bytes
    }

    fn check(events: &str, expected: Expect) {
        let cell = cell_of(events);
        let mut cut = Cell::default();
        for event in events.lines().rev() {
            cut.merge(&cell_of(event));
        }
        assert_eq!(cut, cell);
        assert_eq!(Cell::decode(&encoded(&cell)), Ok(cell.clone()));
        let mut text = format!("{} by {}", cell.count, cell.players.count());
        if let Some(values) = &cell.values {
            let Numbers { count, sum, min, max } = values.numbers();
            let median = values.quantile(0.5).expect("there are values");
            text += &format!(", {count} values {min}..{max}, sum {}, median {median:.2}", sum.value());
        }
        expected.assert_eq(&text);
    }

    #[test]
    fn an_event_counts_with_and_without_player_and_value() {
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
    fn a_quantile_is_never_outside_of_what_there_was() {
        check("- 101", expect!["1 by 0, 1 values 101..101, sum 101, median 101.00"]);
    }

    #[test]
    fn a_counter_is_three_words() {
        assert_eq!(size_of::<Cell>(), 24);
        assert_eq!(cell_of("- -").heap_bytes(), 0);
    }

    #[test]
    fn a_correction_makes_a_cell_empty_again() {
        let mut cell = cell_of("- -\n- -");
        cell.merge(&Cell { count: -2, ..Cell::default() });
        assert!(cell.is_empty());
    }

    #[test]
    fn of_states_the_latest_is_kept_in_whatever_order_they_come() {
        let cell = |lasts: &[(i64, f64)]| {
            let mut cell = cell_of("- 1");
            let values = cell.values.as_mut().expect("there is one");
            lasts
                .iter()
                .for_each(|(at_ms, value)| values.observe_latest(Latest { at_ms: *at_ms, value: *value }));
            cell
        };
        let last = |cell: &Cell| cell.values.as_ref().and_then(|values| values.last.as_deref().copied());
        let newest = Some(Latest { at_ms: 7, value: 4.0 });
        assert_eq!(last(&cell(&[(5, 9.0), (7, 3.0), (7, 4.0), (6, 8.0)])), newest);
        assert_eq!(last(&cell(&[(7, 4.0), (7, 3.0), (5, 9.0)])), newest);
        let mut merged = cell(&[(5, 9.0)]);
        merged.merge(&cell(&[(7, 4.0)]));
        merged.merge(&cell(&[]));
        assert_eq!(last(&merged), newest);
        assert_eq!(Cell::decode(&encoded(&merged)), Ok(merged));
    }

    #[test]
    fn a_value_counts_as_often_as_it_was_measured() {
        let mut values = Values::default();
        values.observe_times(3.0, Bucket::of(3.0), 10);
        assert_eq!((values.count(), values.sum.value(), values.mean()), (10, 30.0, 3.0));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_cell_in_its_one_form_or_refused(
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..60),
        ) {
            if let Ok(cell) = Cell::decode(&bytes) {
                proptest::prop_assert_eq!(encoded(&cell), bytes);
            }
        }
    }
}
