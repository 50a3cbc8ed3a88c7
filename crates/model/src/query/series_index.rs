//! Assignment of stored rows to series.

use rustc_hash::FxHashMap;

use super::QueryDimension;
use super::plan::QueryPlan;
use crate::Dimension;
use crate::series::{Cut, OTHER, TUPLE_SEPARATOR};

/// The values of the dimensions of `by`, in the query's order.
pub(super) type SeriesKey = Vec<String>;

/// The series of all rows without a series of their own: `(other)` or, without `by`, the only one.
pub(super) const REST: usize = 0;
const EXCLUDED: u32 = u32::MAX;
/// Number of values that a row can have: one per built-in dimension, and one for the declared dimension of its cut.
const POSITIONS: usize = Dimension::COUNT + 1;
const DECLARED: usize = POSITIONS - 1;

/// Returns the index of a dimension's value in a row; `None` for the event name, which rows do not contain.
pub(super) fn position(by: &QueryDimension) -> Option<usize> {
    match by {
        QueryDimension::Event => None,
        QueryDimension::BuiltIn(dimension) => Some(*dimension as usize),
        QueryDimension::Declared(_) => Some(DECLARED),
    }
}

/// Finds the series of rows. Series are numbered: [`REST`], then the keys in order.
pub(super) struct SeriesIndex<'a> {
    plan: &'a QueryPlan,
    /// True if the store visits exactly the requested rows and they form a single series.
    is_all: bool,
    keys: Vec<SeriesKey>,
    series_of: FxHashMap<SeriesKey, u32>,
    /// True if rows with unknown keys belong to the rest instead of getting a new series.
    is_closed: bool,
    event: String,
    seen: Vec<(Box<str>, u32)>,
    seen_at: FxHashMap<Box<str>, usize>,
    at: usize,
    /// 0 while the same row repeats, 1 while rows follow in order.
    ahead: usize,
    has_rest_rows: bool,
    /// Memory of new rows and keys that was not reported yet.
    grown: usize,
}

/// Memory of a row or key beside its text: its entries in two tables.
const ENTRY_BYTES: usize = 128;

impl<'a> SeriesIndex<'a> {
    /// Creates an index in which every new key gets a series.
    pub(crate) fn open(plan: &'a QueryPlan) -> SeriesIndex<'a> {
        SeriesIndex {
            plan,
            is_all: plan.by.is_empty() && plan.cut != Cut::Tuple,
            keys: Vec::new(),
            series_of: FxHashMap::default(),
            is_closed: false,
            event: String::new(),
            seen: Vec::new(),
            seen_at: FxHashMap::default(),
            at: 0,
            ahead: 0,
            has_rest_rows: false,
            grown: 0,
        }
    }

    /// Creates an index in which only these keys have a series.
    pub(crate) fn with_keys(plan: &'a QueryPlan, keys: &[SeriesKey]) -> SeriesIndex<'a> {
        let series_of = keys.iter().cloned().zip(REST as u32 + 1..).collect();
        SeriesIndex { keys: keys.to_vec(), series_of, is_closed: true, ..SeriesIndex::open(plan) }
    }

    pub(crate) fn keys(&self) -> &[SeriesKey] {
        &self.keys
    }

    /// Returns true if a row belonged to no key.
    pub(crate) fn has_rest_rows(&self) -> bool {
        self.has_rest_rows
    }

    /// Returns the memory by which the index grew since the last call.
    #[inline]
    pub(crate) fn take_grown(&mut self) -> usize {
        std::mem::take(&mut self.grown)
    }

    /// Announces that the next rows are those of this event.
    pub(crate) fn start_event(&mut self, event: &str) {
        event.clone_into(&mut self.event);
        if self.plan.by.contains(&QueryDimension::Event) {
            self.seen.clear();
            self.seen_at.clear();
            self.at = 0;
        }
    }

    /// Returns the series of the row; `None` if the query's filter excludes it.
    ///
    /// Stores visit rows in runs, or slot by slot in almost the same order. The distance to the next row is
    /// therefore mostly the same as the last one, and one comparison is cheaper than hashing.
    #[inline(always)]
    pub(crate) fn series(&mut self, row: &str) -> Option<usize> {
        if self.is_all {
            return Some(REST);
        }
        let next = self.at + self.ahead;
        let guess = if next < self.seen.len() { next } else { 0 };
        let series = match self.seen.get(guess) {
            Some((guessed, series)) if same(guessed, row) => {
                self.at = guess;
                *series
            }
            _ => self.find(row),
        };
        (series != EXCLUDED).then_some(series as usize)
    }

    #[inline(never)]
    fn find(&mut self, row: &str) -> u32 {
        let Some(found) = self.seen_at.get(row) else { return self.insert(row) };
        self.ahead = usize::from(*found != self.at);
        self.at = *found;
        self.seen[self.at].1
    }

    #[cold]
    fn insert(&mut self, row: &str) -> u32 {
        let series = self.classify(row);
        self.grown += 2 * row.len() + ENTRY_BYTES;
        self.at = self.seen.len();
        self.seen_at.insert(row.into(), self.at);
        self.seen.push((row.into(), series));
        series
    }

    fn classify(&mut self, row: &str) -> u32 {
        let values = values(self.plan.cut, row);
        let is_requested =
            |(position, wanted): &(usize, Vec<String>)| wanted.iter().any(|value| value == values[*position]);
        if !self.plan.filter.iter().all(is_requested) {
            return EXCLUDED;
        }
        if self.is_rest(&values) {
            self.has_rest_rows = true;
            return REST as u32;
        }
        self.series_of_key(&values)
    }

    /// Rows that the store has put into its own `(other)` belong to the rest.
    fn is_rest(&self, values: &[&str; POSITIONS]) -> bool {
        self.plan.by.iter().all(|by| self.value(by, values) == OTHER)
    }

    fn value<'v>(&'v self, by: &QueryDimension, values: &[&'v str; POSITIONS]) -> &'v str {
        position(by).map_or(&self.event, |position| values[position])
    }

    fn series_of_key(&mut self, values: &[&str; POSITIONS]) -> u32 {
        let key: SeriesKey = self.plan.by.iter().map(|by| self.value(by, values).to_owned()).collect();
        match self.series_of.get(&key) {
            Some(series) => *series,
            None if self.is_closed => REST as u32,
            None => {
                self.grown += 2 * key.iter().map(|value| value.len() + size_of::<String>()).sum::<usize>()
                    + ENTRY_BYTES;
                self.keys.push(key.clone());
                let series = self.keys.len() as u32;
                self.series_of.insert(key, series);
                series
            }
        }
    }
}

/// Rows are mostly countries or platforms: for such short values, calling a comparison costs more than comparing
/// inline.
#[inline]
fn same(one: &str, other: &str) -> bool {
    one.len() == other.len() && if one.len() <= 8 { one.bytes().eq(other.bytes()) } else { one == other }
}

/// Returns the values of a row by dimension; empty for dimensions that are not part of the cut.
fn values(cut: Cut, row: &str) -> [&str; POSITIONS] {
    let mut values = [""; POSITIONS];
    match cut {
        Cut::Total => {}
        Cut::By(dimension) => values[dimension as usize] = row,
        Cut::Declared(_) => values[DECLARED] = row,
        Cut::Tuple if row == OTHER => values = [OTHER; POSITIONS],
        Cut::Tuple => {
            values.iter_mut().zip(row.split(TUPLE_SEPARATOR)).for_each(|(value, part)| *value = part)
        }
    }
    values
}
