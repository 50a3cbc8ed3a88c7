//! Aggregation per measure: the state that is gathered from aggregates, and its final value.
//!
//! A state holds only what its measure needs: a count takes 8 bytes, so a series of many buckets stays in cache.

use crate::identity::Links;
use crate::rollup::{Aggregate, Distinct, ExactSum, LatestValue, ValueStats};

/// Aggregation of one measure. Adding and joining are exact and do not depend on order.
pub(super) trait Fold: Copy {
    /// The gathered state; the default contains nothing.
    type State: Clone + Default;
    /// True if states can take kilobytes; they are then gathered for a few buckets at a time.
    const LARGE: bool;

    fn add(self, state: &mut Self::State, aggregate: &Aggregate);
    fn join(self, state: &mut Self::State, other: &Self::State);
    /// Returns the final value; `None` if there are no values to measure.
    fn value(self, state: &Self::State) -> Option<f64>;
    /// Returns the value of a single aggregate.
    fn value_of(self, aggregate: &Aggregate) -> Option<f64>;

    /// Returns the heap memory of a state, in bytes.
    #[inline]
    fn heap_bytes(_: &Self::State) -> usize {
        0
    }

    /// Adds an aggregate and returns the memory by which the state grew.
    #[inline]
    fn add_measured(self, state: &mut Self::State, aggregate: &Aggregate) -> usize {
        let before = Self::heap_bytes(state);
        self.add(state, aggregate);
        Self::heap_bytes(state).saturating_sub(before)
    }
}

/// Number of events.
#[derive(Clone, Copy)]
pub(super) struct Count;

impl Fold for Count {
    type State = i64;
    const LARGE: bool = false;

    #[inline]
    fn add(self, state: &mut i64, aggregate: &Aggregate) {
        *state += aggregate.count;
    }

    fn join(self, state: &mut i64, other: &i64) {
        *state += other;
    }

    fn value(self, state: &i64) -> Option<f64> {
        Some(*state as f64)
    }

    fn value_of(self, aggregate: &Aggregate) -> Option<f64> {
        Some(aggregate.count as f64)
    }
}

/// Sum of the values.
#[derive(Clone, Copy)]
pub(super) struct Sum;

impl Fold for Sum {
    type State = ExactSum;
    const LARGE: bool = false;

    fn add(self, state: &mut ExactSum, aggregate: &Aggregate) {
        if let Some(values) = &aggregate.values {
            state.merge(&values.sum);
        }
    }

    fn heap_bytes(state: &ExactSum) -> usize {
        state.heap_bytes()
    }

    fn join(self, state: &mut ExactSum, other: &ExactSum) {
        state.merge(other);
    }

    fn value(self, state: &ExactSum) -> Option<f64> {
        Some(state.value())
    }

    fn value_of(self, aggregate: &Aggregate) -> Option<f64> {
        Some(aggregate.values.as_ref().map_or(0.0, |values| values.sum.value()))
    }
}

/// Mean of the values.
#[derive(Clone, Copy)]
pub(super) struct Average;

/// Number and sum of the values.
#[derive(Clone, Default)]
pub(super) struct CountAndSum {
    count: i64,
    sum: ExactSum,
}

impl Fold for Average {
    type State = CountAndSum;
    const LARGE: bool = false;

    fn add(self, state: &mut CountAndSum, aggregate: &Aggregate) {
        if let Some(values) = &aggregate.values {
            state.count += values.count();
            state.sum.merge(&values.sum);
        }
    }

    fn heap_bytes(state: &CountAndSum) -> usize {
        state.sum.heap_bytes()
    }

    fn join(self, state: &mut CountAndSum, other: &CountAndSum) {
        state.count += other.count;
        state.sum.merge(&other.sum);
    }

    fn value(self, state: &CountAndSum) -> Option<f64> {
        (state.count != 0).then(|| state.sum.value() / state.count as f64)
    }

    fn value_of(self, aggregate: &Aggregate) -> Option<f64> {
        aggregate.values.as_ref().map(|values| values.mean())
    }
}

/// Smallest value.
#[derive(Clone, Copy)]
pub(super) struct Smallest;

/// Largest value.
#[derive(Clone, Copy)]
pub(super) struct Largest;

impl Fold for Smallest {
    type State = Option<f64>;
    const LARGE: bool = false;

    fn add(self, state: &mut Option<f64>, aggregate: &Aggregate) {
        self.join(state, &self.value_of(aggregate));
    }

    fn join(self, state: &mut Option<f64>, other: &Option<f64>) {
        *state = state.map_or(*other, |one| Some(other.map_or(one, |other| one.min(other))));
    }

    fn value(self, state: &Option<f64>) -> Option<f64> {
        *state
    }

    fn value_of(self, aggregate: &Aggregate) -> Option<f64> {
        aggregate.values.as_ref().map(|values| values.min)
    }
}

impl Fold for Largest {
    type State = Option<f64>;
    const LARGE: bool = false;

    fn add(self, state: &mut Option<f64>, aggregate: &Aggregate) {
        self.join(state, &self.value_of(aggregate));
    }

    fn join(self, state: &mut Option<f64>, other: &Option<f64>) {
        *state = state.map_or(*other, |one| Some(other.map_or(one, |other| one.max(other))));
    }

    fn value(self, state: &Option<f64>) -> Option<f64> {
        *state
    }

    fn value_of(self, aggregate: &Aggregate) -> Option<f64> {
        aggregate.values.as_ref().map(|values| values.max)
    }
}

/// The newest of the values that are states.
#[derive(Clone, Copy)]
pub(super) struct Newest;

impl Newest {
    fn of(aggregate: &Aggregate) -> Option<LatestValue> {
        aggregate.values.as_deref().and_then(|values| values.last.as_deref().copied())
    }
}

impl Fold for Newest {
    type State = Option<LatestValue>;
    const LARGE: bool = false;

    fn add(self, state: &mut Option<LatestValue>, aggregate: &Aggregate) {
        self.join(state, &Newest::of(aggregate));
    }

    fn join(self, state: &mut Option<LatestValue>, other: &Option<LatestValue>) {
        *state = state.map_or(*other, |one| Some(other.map_or(one, |other| one.or_later(other))));
    }

    fn value(self, state: &Option<LatestValue>) -> Option<f64> {
        state.map(|last| last.value)
    }

    fn value_of(self, aggregate: &Aggregate) -> Option<f64> {
        Newest::of(aggregate).map(|last| last.value)
    }
}

/// Distinct players. Linked ids count as one player as long as the aggregate contains its ids; with more than 1,024
/// ids it is an estimate and does not.
#[derive(Clone, Copy)]
pub(super) struct DistinctPlayers<'a>(pub Option<&'a Links>);

impl Fold for DistinctPlayers<'_> {
    type State = Distinct;
    const LARGE: bool = true;

    fn add(self, state: &mut Distinct, aggregate: &Aggregate) {
        match self.0.filter(|_| aggregate.players.is_exact()) {
            None => state.merge(&aggregate.players),
            Some(links) => {
                let links = links.read();
                state.extend(aggregate.players.hashes().map(|id| links.player(id)));
            }
        }
    }

    fn heap_bytes(state: &Distinct) -> usize {
        state.heap_bytes()
    }

    fn join(self, state: &mut Distinct, other: &Distinct) {
        state.merge(other);
    }

    fn value(self, state: &Distinct) -> Option<f64> {
        Some(state.count() as f64)
    }

    fn value_of(self, aggregate: &Aggregate) -> Option<f64> {
        if self.0.is_none() {
            return Some(aggregate.players.count() as f64);
        }
        let mut players = Distinct::default();
        self.add(&mut players, aggregate);
        self.value(&players)
    }
}

/// The quantile at this share of the values.
#[derive(Clone, Copy)]
pub(super) struct Quantile(pub f64);

impl Fold for Quantile {
    type State = ValueStats;
    const LARGE: bool = true;

    fn add(self, state: &mut ValueStats, aggregate: &Aggregate) {
        if let Some(values) = &aggregate.values {
            state.merge(values);
        }
    }

    fn heap_bytes(state: &ValueStats) -> usize {
        state.quantiles.heap_bytes() + state.sum.heap_bytes()
    }

    fn join(self, state: &mut ValueStats, other: &ValueStats) {
        state.merge(other);
    }

    fn value(self, state: &ValueStats) -> Option<f64> {
        state.quantile(self.0)
    }

    fn value_of(self, aggregate: &Aggregate) -> Option<f64> {
        aggregate.values.as_ref().and_then(|values| values.quantile(self.0))
    }
}
