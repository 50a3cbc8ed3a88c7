//! Columns built value by value or from parts of other columns.

use std::hash::Hasher;
use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashTable;
use rustc_hash::FxHasher;

use crate::columns::{ABSENT, Column, Dictionary, Uuids, Value};

/// A dictionary that finds the code of a value.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    pub(crate) dictionary: Dictionary,
    index: HashTable<(u32, u32)>,
}

impl Interner {
    /// Returns the code of a value; a new one if the value is new.
    #[inline]
    pub(crate) fn intern(&mut self, value: Value<'_>) -> u32 {
        let hash = hash_of(value);
        let (dictionary, short) = (&mut self.dictionary, hash as u32);
        let known = |(known, code): &(u32, u32)| *known == short && is_same(dictionary.value(*code), value);
        if let Some((_, code)) = self.index.find(spread(short), known) {
            return *code;
        }
        let code = dictionary.push(value);
        self.index.insert_unique(spread(short), (short, code), |(short, _)| spread(*short));
        code
    }

    /// Returns the code of a text that is most likely UTF-8. Known text is not checked again.
    #[inline]
    pub(crate) fn intern_bytes(&mut self, text: &[u8]) -> u32 {
        let short = hash_of_text(text) as u32;
        let dictionary = &self.dictionary;
        let known = |(known, code): &(u32, u32)| {
            *known == short
                && matches!(dictionary.value(*code), Value::Text(known) if known.as_bytes() == text)
        };
        match self.index.find(spread(short), known) {
            Some((_, code)) => *code,
            None => self.intern(Value::Text(&String::from_utf8_lossy(text))),
        }
    }

    /// Returns the code of a value if it is known.
    pub(crate) fn find(&self, value: Value<'_>) -> Option<u32> {
        let short = hash_of(value) as u32;
        let known =
            |(known, code): &(u32, u32)| *known == short && is_same(self.dictionary.value(*code), value);
        self.index.find(spread(short), known).map(|(_, code)| *code)
    }

    /// Returns about how many bytes of memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.dictionary.bytes() + self.index.capacity() * 9
    }
}

fn is_same(one: Value<'_>, other: Value<'_>) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.to_bits() == other.to_bits(),
        _ => one == other,
    }
}

#[inline]
fn hash_of(value: Value<'_>) -> u64 {
    let mut hasher = FxHasher::default();
    match value {
        Value::Text(text) => return hash_of_text(text.as_bytes()),
        Value::Number(number) => hasher.write_u64(number.to_bits()),
        Value::Flag(flag) => hasher.write_u8(flag.into()),
    }
    let hash = hasher.finish();
    hash ^ (hash >> 32)
}

#[inline]
fn hash_of_text(text: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(text);
    let hash = hasher.finish();
    hash ^ (hash >> 32)
}

/// The table looks at the highest and the lowest bits.
#[inline]
fn spread(short: u32) -> u64 {
    u64::from(short).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The codes of another dictionary in that of a builder.
#[derive(Debug, Default)]
pub(crate) struct Remap {
    from: Option<Arc<Dictionary>>,
    codes: Vec<u32>,
}

/// A column to which rows are appended.
#[derive(Debug, Default)]
pub(crate) struct ColumnBuilder {
    rows: usize,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Absent,
    Coded(Vec<u32>, Interner),
    Numbers(Vec<f64>),
    Uuids(Uuids),
}

impl ColumnBuilder {
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns about how many bytes of memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        match &self.state {
            State::Absent => 0,
            State::Coded(codes, interner) => codes.capacity() * 4 + interner.bytes(),
            State::Numbers(values) => values.capacity() * 8,
            State::Uuids(uuids) => uuids.len() * 17,
        }
    }

    /// Appends a row.
    pub(crate) fn push(&mut self, value: Option<Value<'_>>) {
        match (value, &mut self.state) {
            (None, State::Absent) => {}
            (None, State::Coded(codes, _)) => codes.push(ABSENT),
            (None, State::Numbers(values)) => values.push(f64::NAN),
            (None, State::Uuids(uuids)) => uuids.push(None),
            (Some(Value::Number(number)), State::Numbers(values)) => values.push(number),
            (Some(Value::Number(number)), State::Absent) => {
                self.numbers().push(number);
            }
            (Some(value), _) => {
                let (codes, interner) = self.coded();
                codes.push(interner.intern(value));
            }
        }
        self.rows += 1;
    }

    /// Appends some rows of a column. `remap` belongs to this builder and that column.
    pub(crate) fn extend(&mut self, column: &Column, rows: Range<usize>, remap: &mut Remap) {
        let count = rows.len();
        match (column, &mut self.state) {
            (Column::Absent, State::Absent) => {}
            (Column::Absent, State::Coded(codes, _)) => codes.resize(codes.len() + count, ABSENT),
            (Column::Absent, State::Numbers(values)) => values.resize(values.len() + count, f64::NAN),
            (Column::Coded { codes, dictionary }, State::Absent | State::Coded(..)) => {
                let (into, interner) = self.coded();
                if !remap.from.as_ref().is_some_and(|from| Arc::ptr_eq(from, dictionary)) {
                    remap.codes.clear();
                    remap.codes.resize(dictionary.len(), ABSENT);
                    remap.from = Some(dictionary.clone());
                }
                for code in &codes[rows] {
                    if *code == ABSENT {
                        into.push(ABSENT);
                        continue;
                    }
                    let known = &mut remap.codes[*code as usize];
                    if *known == ABSENT {
                        *known = interner.intern(dictionary.value(*code));
                    }
                    into.push(*known);
                }
            }
            (Column::Numbers(values), State::Absent | State::Numbers(_)) => {
                self.numbers().extend_from_slice(&values[rows]);
            }
            (Column::Uuids(uuids), State::Absent | State::Uuids(_)) => {
                let into = self.uuids();
                rows.for_each(|row| into.push(uuids.get(row)));
            }
            _ => {
                rows.for_each(|row| self.push(column.value(row)));
                return;
            }
        }
        self.rows += count;
    }

    pub(crate) fn finish(self) -> Column {
        match self.state {
            State::Absent => Column::Absent,
            State::Coded(codes, interner) => {
                Column::Coded { codes, dictionary: Arc::new(interner.dictionary) }
            }
            State::Numbers(values) => Column::Numbers(values),
            State::Uuids(uuids) => Column::Uuids(uuids),
        }
    }

    fn numbers(&mut self) -> &mut Vec<f64> {
        if let State::Absent = self.state {
            self.state = State::Numbers(vec![f64::NAN; self.rows]);
        }
        let State::Numbers(values) = &mut self.state else { unreachable!("the callers checked the state") };
        values
    }

    fn uuids(&mut self) -> &mut Uuids {
        if let State::Absent = self.state {
            let mut uuids = Uuids::default();
            (0..self.rows).for_each(|_| uuids.push(None));
            self.state = State::Uuids(uuids);
        }
        let State::Uuids(uuids) = &mut self.state else { unreachable!("the callers checked the state") };
        uuids
    }

    /// Turns the column into one with a dictionary, whatever it was.
    fn coded(&mut self) -> (&mut Vec<u32>, &mut Interner) {
        if !matches!(self.state, State::Coded(..)) {
            let rows = self.rows;
            let before = std::mem::take(self).finish();
            let mut interner = Interner::default();
            let mut code = |row| before.value(row).map_or(ABSENT, |value| interner.intern(value));
            let codes: Vec<u32> = (0..rows).map(&mut code).collect();
            self.rows = rows;
            self.state = State::Coded(codes, interner);
        }
        let State::Coded(codes, interner) = &mut self.state else { unreachable!("just set") };
        (codes, interner)
    }
}
