//! What is measured of events: counts, sums, distinct players, quantiles.

use hashbrown::HashSet;
use model::rollup::{Bucket, Distinct, Quantiles};
use rustc_hash::FxBuildHasher;

use super::limits::{QUANTILE_EXACT_MAX, UNIQUES_EXACT_MAX};
use crate::columns::{Column, Value};

/// Returns the number in a row, if there is one.
#[inline]
pub(super) fn number_of(column: &Column, row: usize) -> Option<f64> {
    match column.value(row) {
        Some(Value::Number(number)) => Some(number),
        _ => None,
    }
}

/// A measure of some events. Merging two gives the same as adding all events to one.
pub(super) trait Measured: Clone + Default {
    /// True if the measure is of values, so that events without one do not matter.
    const NEEDS_VALUE: bool;
    /// True if the measure is of players.
    const NEEDS_PLAYER: bool = false;
    /// True if only the number of events matters.
    const IS_COUNT: bool = false;
    /// True if the measure has memory on the heap.
    const HAS_HEAP: bool = false;

    /// Adds an event.
    fn add(&mut self, player: u64, value: f64);
    /// Adds events of which only the number matters.
    fn add_events(&mut self, _: u64) {}
    fn merge(&mut self, other: &Self);
    /// Returns the result, if there is anything to measure.
    fn result(&self, quantile: f64) -> Option<f64>;

    /// Returns the memory on the heap.
    fn heap_bytes(&self) -> usize {
        0
    }
}

#[derive(Clone, Default)]
pub(super) struct Count(u64);

impl Measured for Count {
    const NEEDS_VALUE: bool = false;
    const IS_COUNT: bool = true;

    fn add(&mut self, _: u64, _: f64) {
        self.0 += 1;
    }

    #[inline]
    fn add_events(&mut self, count: u64) {
        self.0 += count;
    }

    fn merge(&mut self, other: &Self) {
        self.0 += other.0;
    }

    fn result(&self, _: f64) -> Option<f64> {
        Some(self.0 as f64)
    }
}

/// A sum that carries its rounding error (Neumaier), so that the order of events does not show in its first digits.
#[derive(Clone, Default)]
pub(super) struct Sum {
    count: u64,
    sum: f64,
    error: f64,
}

impl Sum {
    #[inline]
    fn add_number(&mut self, value: f64) {
        let sum = self.sum + value;
        self.error +=
            if self.sum.abs() >= value.abs() { self.sum - sum + value } else { value - sum + self.sum };
        self.sum = sum;
    }

    fn total(&self) -> f64 {
        let total = self.sum + self.error;
        // Beyond the range of f64 the error is not a number.
        if total.is_nan() { self.sum } else { total }
    }
}

impl Measured for Sum {
    const NEEDS_VALUE: bool = true;

    #[inline]
    fn add(&mut self, _: u64, value: f64) {
        self.count += 1;
        self.add_number(value);
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.add_number(other.sum);
        self.error += other.error;
    }

    fn result(&self, _: f64) -> Option<f64> {
        (self.count > 0).then(|| self.total())
    }
}

#[derive(Clone, Default)]
pub(super) struct Mean(Sum);

impl Measured for Mean {
    const NEEDS_VALUE: bool = true;

    #[inline]
    fn add(&mut self, player: u64, value: f64) {
        self.0.add(player, value);
    }

    fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }

    fn result(&self, _: f64) -> Option<f64> {
        (self.0.count > 0).then(|| self.0.total() / self.0.count as f64)
    }
}

#[derive(Clone, Default)]
pub(super) struct Smallest(Option<f64>);

impl Measured for Smallest {
    const NEEDS_VALUE: bool = true;

    #[inline]
    fn add(&mut self, _: u64, value: f64) {
        self.0 = Some(self.0.map_or(value, |own| own.min(value)));
    }

    fn merge(&mut self, other: &Self) {
        other.0.into_iter().for_each(|value| self.add(0, value));
    }

    fn result(&self, _: f64) -> Option<f64> {
        self.0
    }
}

#[derive(Clone, Default)]
pub(super) struct Largest(Option<f64>);

impl Measured for Largest {
    const NEEDS_VALUE: bool = true;

    #[inline]
    fn add(&mut self, _: u64, value: f64) {
        self.0 = Some(self.0.map_or(value, |own| own.max(value)));
    }

    fn merge(&mut self, other: &Self) {
        other.0.into_iter().for_each(|value| self.add(0, value));
    }

    fn result(&self, _: f64) -> Option<f64> {
        self.0
    }
}

/// Distinct players: exact up to [`UNIQUES_EXACT_MAX`].
#[derive(Clone, Default)]
pub(super) struct Uniques {
    /// Events of a player often follow each other.
    last: u64,
    players: UniquePlayers,
}

#[derive(Clone)]
enum UniquePlayers {
    Exact(HashSet<u64, FxBuildHasher>),
    Estimate(Distinct),
}

impl Default for UniquePlayers {
    fn default() -> UniquePlayers {
        UniquePlayers::Exact(HashSet::default())
    }
}

impl Uniques {
    #[inline(never)]
    fn insert(&mut self, player: u64) {
        match &mut self.players {
            UniquePlayers::Estimate(distinct) => distinct.insert(player),
            UniquePlayers::Exact(players) => {
                players.insert(player);
                if players.len() > UNIQUES_EXACT_MAX {
                    self.players = UniquePlayers::Estimate(players.iter().copied().collect());
                }
            }
        }
    }
}

impl Measured for Uniques {
    const NEEDS_VALUE: bool = false;
    const NEEDS_PLAYER: bool = true;
    const HAS_HEAP: bool = true;

    #[inline]
    fn add(&mut self, player: u64, _: f64) {
        if player != self.last && player != 0 {
            self.last = player;
            self.insert(player);
        }
    }

    fn merge(&mut self, other: &Self) {
        match &other.players {
            UniquePlayers::Exact(players) => players.iter().for_each(|player| self.insert(*player)),
            UniquePlayers::Estimate(theirs) => {
                let mut merged = theirs.clone();
                match &self.players {
                    UniquePlayers::Exact(players) => merged.extend(players.iter().copied()),
                    UniquePlayers::Estimate(ours) => merged.merge(ours),
                }
                self.players = UniquePlayers::Estimate(merged);
            }
        }
    }

    fn result(&self, _: f64) -> Option<f64> {
        Some(match &self.players {
            UniquePlayers::Exact(players) => players.len() as f64,
            UniquePlayers::Estimate(distinct) => distinct.count() as f64,
        })
    }

    fn heap_bytes(&self) -> usize {
        match &self.players {
            UniquePlayers::Exact(players) => players.capacity() * 10,
            UniquePlayers::Estimate(distinct) => distinct.heap_bytes(),
        }
    }
}

/// The distribution of values: exact up to [`QUANTILE_EXACT_MAX`] values, then within 1 %.
#[derive(Clone)]
pub(super) enum Distribution {
    Exact(Vec<f64>),
    Estimate(Box<Quantiles>),
}

impl Default for Distribution {
    fn default() -> Distribution {
        Distribution::Exact(Vec::new())
    }
}

impl Distribution {
    #[inline]
    pub(super) fn insert(&mut self, value: f64) {
        match self {
            Distribution::Estimate(quantiles) => quantiles.add(Bucket::of(value), 1),
            Distribution::Exact(values) => {
                values.push(value);
                if values.len() > QUANTILE_EXACT_MAX {
                    self.estimate();
                }
            }
        }
    }

    #[cold]
    fn estimate(&mut self) {
        if let Distribution::Exact(values) = self {
            let mut quantiles = Quantiles::default();
            values.iter().for_each(|value| quantiles.add(Bucket::of(*value), 1));
            *self = Distribution::Estimate(Box::new(quantiles));
        }
    }

    /// Returns the smallest value that is not exceeded by at least the share `q` of all values.
    pub(super) fn quantile(&self, q: f64) -> Option<f64> {
        match self {
            Distribution::Estimate(quantiles) => quantiles.quantile(q),
            Distribution::Exact(values) if values.is_empty() => None,
            Distribution::Exact(values) => {
                let mut values = values.clone();
                let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
                let (_, value, _) = values.select_nth_unstable_by(rank - 1, f64::total_cmp);
                Some(*value)
            }
        }
    }
}

impl Measured for Distribution {
    const NEEDS_VALUE: bool = true;
    const HAS_HEAP: bool = true;

    #[inline]
    fn add(&mut self, _: u64, value: f64) {
        self.insert(value);
    }

    fn merge(&mut self, other: &Self) {
        match other {
            Distribution::Exact(values) => values.iter().for_each(|value| self.insert(*value)),
            Distribution::Estimate(theirs) => {
                self.estimate();
                if let Distribution::Estimate(ours) = self {
                    ours.merge(theirs);
                }
            }
        }
    }

    fn result(&self, quantile: f64) -> Option<f64> {
        self.quantile(quantile)
    }

    fn heap_bytes(&self) -> usize {
        match self {
            Distribution::Exact(values) => values.capacity() * size_of::<f64>(),
            Distribution::Estimate(quantiles) => size_of::<Quantiles>() + quantiles.heap_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn halves_equal_the_whole<M: Measured>(events: &[(u64, f64)], cut: usize, quantile: f64) {
        let measure = |events: &[(u64, f64)]| {
            let mut measured = M::default();
            events.iter().for_each(|(player, value)| measured.add(*player, *value));
            measured
        };
        let mut halves = measure(&events[..cut]);
        halves.merge(&measure(&events[cut..]));
        assert_eq!(halves.result(quantile), measure(events).result(quantile));
    }

    proptest! {
        #[test]
        fn merged_measures_equal_the_measure_of_all(
            events in prop::collection::vec((0u64..30, -100i32..100), 0..60),
            cut in any::<prop::sample::Index>(),
        ) {
            let events: Vec<(u64, f64)> = events.iter().map(|(player, value)| (*player, f64::from(*value) / 8.0)).collect();
            let cut = cut.index(events.len() + 1);
            halves_equal_the_whole::<Count>(&events, cut, 0.0);
            halves_equal_the_whole::<Sum>(&events, cut, 0.0);
            halves_equal_the_whole::<Mean>(&events, cut, 0.0);
            halves_equal_the_whole::<Smallest>(&events, cut, 0.0);
            halves_equal_the_whole::<Largest>(&events, cut, 0.0);
            halves_equal_the_whole::<Uniques>(&events, cut, 0.0);
            halves_equal_the_whole::<Distribution>(&events, cut, 0.9);
        }
    }

    #[test]
    fn uniques_are_exact_up_to_100_000_and_estimated_beyond() {
        let hash = |player: u64| model::rollup::hash_player(1, &player.to_le_bytes());
        let mut uniques = Uniques::default();
        (0..100_000).for_each(|player| uniques.add(hash(player), 0.0));
        assert_eq!(uniques.result(0.0), Some(100_000.0));
        let mut more = Uniques::default();
        (0..200_000).for_each(|player| more.add(hash(player), 0.0));
        let mut merged = uniques.clone();
        merged.merge(&more);
        let estimate = more.result(0.0).expect("there are players");
        assert_eq!(merged.result(0.0), Some(estimate));
        more.merge(&uniques);
        assert_eq!(more.result(0.0), Some(estimate));
        assert!((estimate / 200_000.0 - 1.0).abs() < 0.02, "{estimate}");
    }

    #[test]
    fn quantiles_are_exact_up_to_4_096_values_and_within_1_percent_beyond() {
        let mut distribution = Distribution::default();
        (1..=4_096).for_each(|value| distribution.insert(f64::from(value)));
        assert_eq!((distribution.quantile(0.5), distribution.quantile(0.9)), (Some(2_048.0), Some(3_687.0)));
        let mut merged = distribution.clone();
        (4_097..=8_192).for_each(|value| distribution.insert(f64::from(value)));
        for (q, expected) in [(0.5, 4_096.0), (0.9, 7_373.0), (0.99, 8_111.0)] {
            let found = distribution.quantile(q).expect("there are values");
            assert!((found / expected - 1.0f64).abs() < 0.01, "{q}: {found}");
        }
        let mut rest = Distribution::default();
        (4_097..=8_192).for_each(|value| rest.insert(f64::from(value)));
        merged.merge(&rest);
        assert_eq!(merged.quantile(0.9), distribution.quantile(0.9));
    }

    #[test]
    fn sums_keep_small_values_beside_large_ones() {
        let mut sum = Sum::default();
        [1e16, 1.0, -1e16].iter().for_each(|value| sum.add(0, *value));
        assert_eq!(sum.result(0.0), Some(1.0));
    }
}
