//! Which series a stored row belongs to.

use rustc_hash::FxHashMap;

use super::By;
use super::plan::Plan;
use crate::Dimension;
use crate::series::{Cut, OTHER, TUPLE_SEPARATOR};

/// The values of a query's `by`, in its order.
pub(super) type Key = Vec<String>;

/// The series of everything that has none of its own: `(other)` or, without `by`, the only one.
pub(super) const REST: usize = 0;
const NOWHERE: u32 = u32::MAX;
/// The values that a row can tell: of each built-in dimension, and of the one declared dimension it is cut by.
const PLACES: usize = Dimension::COUNT + 1;
const DECLARED: usize = PLACES - 1;

/// Where a row tells the value; an event's name is not told by rows.
pub(super) fn place(by: &By) -> Option<usize> {
    match by {
        By::Event => None,
        By::Dimension(dimension) => Some(*dimension as usize),
        By::Declared(_) => Some(DECLARED),
    }
}

/// Finds the series of rows. Series are numbered: [`REST`], then the keys in order.
pub(super) struct Rows<'a> {
    plan: &'a Plan,
    /// What the store was told to visit is what was asked for, and all of it is one series.
    is_all: bool,
    keys: Vec<Key>,
    series_of: FxHashMap<Key, u32>,
    /// Unknown keys belong to the rest, rather than to a new series.
    closed: bool,
    event: String,
    seen: Vec<(Box<str>, u32)>,
    seen_at: FxHashMap<Box<str>, usize>,
    at: usize,
    /// 0 while the same row comes again, 1 while the next one comes.
    ahead: usize,
    met_rest: bool,
}

impl<'a> Rows<'a> {
    /// Every key that comes gets a series.
    pub fn open(plan: &'a Plan) -> Rows<'a> {
        Rows {
            plan,
            is_all: plan.by.is_empty() && plan.cut != Cut::Tuple,
            keys: Vec::new(),
            series_of: FxHashMap::default(),
            closed: false,
            event: String::new(),
            seen: Vec::new(),
            seen_at: FxHashMap::default(),
            at: 0,
            ahead: 0,
            met_rest: false,
        }
    }

    /// Only these keys have a series.
    pub fn of_keys(plan: &'a Plan, keys: &[Key]) -> Rows<'a> {
        let series_of = keys.iter().cloned().zip(REST as u32 + 1..).collect();
        Rows { keys: keys.to_vec(), series_of, closed: true, ..Rows::open(plan) }
    }

    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// A row came that has no key.
    pub fn met_rest(&self) -> bool {
        self.met_rest
    }

    /// The rows that come next are those of this event.
    pub fn of_event(&mut self, event: &str) {
        event.clone_into(&mut self.event);
        if self.plan.by.contains(&By::Event) {
            self.seen.clear();
            self.seen_at.clear();
            self.at = 0;
        }
    }

    /// The series of the row; `None`: the query's filter leaves it out.
    ///
    /// Stores visit rows in runs, or slot by slot in much the same order. So the row is mostly as far from the one
    /// before as that was from its own, and comparing is cheaper than hashing.
    #[inline(always)]
    pub fn series(&mut self, row: &str) -> Option<usize> {
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
        (series != NOWHERE).then_some(series as usize)
    }

    #[inline(never)]
    fn find(&mut self, row: &str) -> u32 {
        let Some(found) = self.seen_at.get(row) else { return self.meet(row) };
        self.ahead = usize::from(*found != self.at);
        self.at = *found;
        self.seen[self.at].1
    }

    #[cold]
    fn meet(&mut self, row: &str) -> u32 {
        let series = self.place(row);
        self.at = self.seen.len();
        self.seen_at.insert(row.into(), self.at);
        self.seen.push((row.into(), series));
        series
    }

    fn place(&mut self, row: &str) -> u32 {
        let values = values(self.plan.cut, row);
        let asked_for =
            |(place, wanted): &(usize, Vec<String>)| wanted.iter().any(|value| value == values[*place]);
        if !self.plan.filter.iter().all(asked_for) {
            return NOWHERE;
        }
        if self.is_rest(&values) {
            self.met_rest = true;
            return REST as u32;
        }
        self.series_of_key(&values)
    }

    /// What the store gathered in its own `(other)` joins ours.
    fn is_rest(&self, values: &[&str; PLACES]) -> bool {
        self.plan.by.iter().all(|by| self.value(by, values) == OTHER)
    }

    fn value<'v>(&'v self, by: &By, values: &[&'v str; PLACES]) -> &'v str {
        place(by).map_or(&self.event, |place| values[place])
    }

    fn series_of_key(&mut self, values: &[&str; PLACES]) -> u32 {
        let key: Key = self.plan.by.iter().map(|by| self.value(by, values).to_owned()).collect();
        match self.series_of.get(&key) {
            Some(series) => *series,
            None if self.closed => REST as u32,
            None => {
                self.keys.push(key.clone());
                let series = self.keys.len() as u32;
                self.series_of.insert(key, series);
                series
            }
        }
    }
}

/// Rows are mostly a country or a platform: for these, calling a comparison costs more than comparing.
#[inline]
fn same(one: &str, other: &str) -> bool {
    one.len() == other.len() && if one.len() <= 8 { one.bytes().eq(other.bytes()) } else { one == other }
}

/// The dimensions' values of a row; empty where the cut does not tell.
fn values(cut: Cut, row: &str) -> [&str; PLACES] {
    let mut values = [""; PLACES];
    match cut {
        Cut::Total => {}
        Cut::By(dimension) => values[dimension as usize] = row,
        Cut::Declared(_) => values[DECLARED] = row,
        Cut::Tuple if row == OTHER => values = [OTHER; PLACES],
        Cut::Tuple => {
            values.iter_mut().zip(row.split(TUPLE_SEPARATOR)).for_each(|(value, part)| *value = part)
        }
    }
    values
}
