//! What is gathered of cells for each measure, and the number it comes to.
//!
//! A part holds only what its measure needs: a count is 8 bytes, so that a series of many buckets stays in cache.

use crate::identity::Links;
use crate::rollup::{Cell, Distinct, ExactSum, Latest, Values};

/// Gathers cells. Adding and joining are exact and know no order.
pub(super) trait Fold: Copy {
    /// What is gathered; the default is that of no cell.
    type Part: Clone + Default;
    /// Parts can have kilobytes, so they are gathered for a few buckets at a time.
    const LARGE: bool;

    fn add(self, part: &mut Self::Part, cell: &Cell);
    fn join(self, part: &mut Self::Part, other: &Self::Part);
    /// `None`: there is nothing to tell of.
    fn value(self, part: &Self::Part) -> Option<f64>;
    /// The value of a cell by itself.
    fn value_of(self, cell: &Cell) -> Option<f64>;
}

/// Number of events.
#[derive(Clone, Copy)]
pub(super) struct Count;

impl Fold for Count {
    type Part = i64;
    const LARGE: bool = false;

    #[inline]
    fn add(self, part: &mut i64, cell: &Cell) {
        *part += cell.count;
    }

    fn join(self, part: &mut i64, other: &i64) {
        *part += other;
    }

    fn value(self, part: &i64) -> Option<f64> {
        Some(*part as f64)
    }

    fn value_of(self, cell: &Cell) -> Option<f64> {
        Some(cell.count as f64)
    }
}

/// Sum of the values.
#[derive(Clone, Copy)]
pub(super) struct Sum;

impl Fold for Sum {
    type Part = ExactSum;
    const LARGE: bool = false;

    fn add(self, part: &mut ExactSum, cell: &Cell) {
        if let Some(values) = &cell.values {
            part.merge(&values.sum);
        }
    }

    fn join(self, part: &mut ExactSum, other: &ExactSum) {
        part.merge(other);
    }

    fn value(self, part: &ExactSum) -> Option<f64> {
        Some(part.value())
    }

    fn value_of(self, cell: &Cell) -> Option<f64> {
        Some(cell.values.as_ref().map_or(0.0, |values| values.sum.value()))
    }
}

/// Mean of the values.
#[derive(Clone, Copy)]
pub(super) struct Average;

/// How many values there are, and their sum.
#[derive(Clone, Default)]
pub(super) struct CountAndSum {
    count: i64,
    sum: ExactSum,
}

impl Fold for Average {
    type Part = CountAndSum;
    const LARGE: bool = false;

    fn add(self, part: &mut CountAndSum, cell: &Cell) {
        if let Some(values) = &cell.values {
            part.count += values.count();
            part.sum.merge(&values.sum);
        }
    }

    fn join(self, part: &mut CountAndSum, other: &CountAndSum) {
        part.count += other.count;
        part.sum.merge(&other.sum);
    }

    fn value(self, part: &CountAndSum) -> Option<f64> {
        (part.count != 0).then(|| part.sum.value() / part.count as f64)
    }

    fn value_of(self, cell: &Cell) -> Option<f64> {
        cell.values.as_ref().map(|values| values.mean())
    }
}

/// Smallest value.
#[derive(Clone, Copy)]
pub(super) struct Smallest;

/// Largest value.
#[derive(Clone, Copy)]
pub(super) struct Largest;

impl Fold for Smallest {
    type Part = Option<f64>;
    const LARGE: bool = false;

    fn add(self, part: &mut Option<f64>, cell: &Cell) {
        self.join(part, &self.value_of(cell));
    }

    fn join(self, part: &mut Option<f64>, other: &Option<f64>) {
        *part = part.map_or(*other, |one| Some(other.map_or(one, |other| one.min(other))));
    }

    fn value(self, part: &Option<f64>) -> Option<f64> {
        *part
    }

    fn value_of(self, cell: &Cell) -> Option<f64> {
        cell.values.as_ref().map(|values| values.min)
    }
}

impl Fold for Largest {
    type Part = Option<f64>;
    const LARGE: bool = false;

    fn add(self, part: &mut Option<f64>, cell: &Cell) {
        self.join(part, &self.value_of(cell));
    }

    fn join(self, part: &mut Option<f64>, other: &Option<f64>) {
        *part = part.map_or(*other, |one| Some(other.map_or(one, |other| one.max(other))));
    }

    fn value(self, part: &Option<f64>) -> Option<f64> {
        *part
    }

    fn value_of(self, cell: &Cell) -> Option<f64> {
        cell.values.as_ref().map(|values| values.max)
    }
}

/// The newest value of those that are a state.
#[derive(Clone, Copy)]
pub(super) struct Newest;

impl Newest {
    fn of(cell: &Cell) -> Option<Latest> {
        cell.values.as_deref().and_then(|values| values.last.as_deref().copied())
    }
}

impl Fold for Newest {
    type Part = Option<Latest>;
    const LARGE: bool = false;

    fn add(self, part: &mut Option<Latest>, cell: &Cell) {
        self.join(part, &Newest::of(cell));
    }

    fn join(self, part: &mut Option<Latest>, other: &Option<Latest>) {
        *part = part.map_or(*other, |one| Some(other.map_or(one, |other| one.or_later(other))));
    }

    fn value(self, part: &Option<Latest>) -> Option<f64> {
        part.map(|last| last.value)
    }

    fn value_of(self, cell: &Cell) -> Option<f64> {
        Newest::of(cell).map(|last| last.value)
    }
}

/// Distinct players. Ids that turned out to be one player are counted as one, as far as a cell tells who it has seen:
/// one that has more than 1,024 ids is an estimate and does not.
#[derive(Clone, Copy)]
pub(super) struct Players<'a>(pub Option<&'a Links>);

impl Fold for Players<'_> {
    type Part = Distinct;
    const LARGE: bool = true;

    fn add(self, part: &mut Distinct, cell: &Cell) {
        match self.0.filter(|_| cell.players.is_exact()) {
            None => part.merge(&cell.players),
            Some(links) => {
                let links = links.read();
                part.extend(cell.players.hashes().map(|id| links.player(id)));
            }
        }
    }

    fn join(self, part: &mut Distinct, other: &Distinct) {
        part.merge(other);
    }

    fn value(self, part: &Distinct) -> Option<f64> {
        Some(part.count() as f64)
    }

    fn value_of(self, cell: &Cell) -> Option<f64> {
        if self.0.is_none() {
            return Some(cell.players.count() as f64);
        }
        let mut players = Distinct::default();
        self.add(&mut players, cell);
        self.value(&players)
    }
}

/// The value that this share of all values does not exceed.
#[derive(Clone, Copy)]
pub(super) struct Quantile(pub f64);

impl Fold for Quantile {
    type Part = Values;
    const LARGE: bool = true;

    fn add(self, part: &mut Values, cell: &Cell) {
        if let Some(values) = &cell.values {
            part.merge(values);
        }
    }

    fn join(self, part: &mut Values, other: &Values) {
        part.merge(other);
    }

    fn value(self, part: &Values) -> Option<f64> {
        part.quantile(self.0)
    }

    fn value_of(self, cell: &Cell) -> Option<f64> {
        cell.values.as_ref().and_then(|values| values.quantile(self.0))
    }
}
