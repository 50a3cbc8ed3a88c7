//! Breaking an answer down by the values of properties.

use std::fmt::Write;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::FieldList;
use super::filter::{CodeTable, label};
use crate::columns::{Chunk, Column, Field, Value};

/// The key of everything that got no series of its own.
pub const OTHER: &str = "(other)";
const UNSEEN: u32 = u32::MAX;
const UNKNOWN: u32 = u32::MAX - 1;
/// About the memory of an entry in a table of texts, beside the text itself.
const ENTRY_BYTES: usize = 64;

/// Numbers combinations of values of up to two properties. A row without the property has the value "".
pub(super) struct Groups {
    by: Vec<Field>,
    columns: Vec<GroupColumn>,
    pairs: HashMap<[u32; 2], u32, FxBuildHasher>,
    keys: Vec<[u32; 2]>,
    last: ([u32; 2], u32),
    /// True if rows with unknown keys belong to the group [`Groups::rest`] instead of getting a new one.
    is_closed: bool,
}

#[derive(Default)]
struct GroupColumn {
    column: usize,
    names: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32, FxBuildHasher>,
    /// The number of each value, by its code.
    table: CodeTable<u32>,
    /// The number of each number, by its bits.
    of_number: HashMap<u64, u32, FxBuildHasher>,
    text_bytes: usize,
}

impl Groups {
    pub(super) fn new(by: &[Field], columns: &mut FieldList) -> Groups {
        let column = |field| GroupColumn { column: columns.index(field), ..GroupColumn::default() };
        Groups {
            by: by.to_vec(),
            columns: by.iter().map(column).collect(),
            pairs: HashMap::default(),
            keys: Vec::new(),
            last: ([UNSEEN; 2], 0),
            is_closed: false,
        }
    }

    /// Creates groups of these keys and one for the rest.
    pub(super) fn with_keys(by: &[Field], columns: &mut FieldList, keys: &[Vec<String>]) -> Groups {
        let mut groups = Groups::new(by, columns);
        for key in keys {
            let mut pair = [0; 2];
            for (index, text) in key.iter().enumerate() {
                pair[index] = groups.columns[index].number(text, false);
            }
            groups.group(pair);
        }
        groups.is_closed = true;
        groups
    }

    /// Returns the number of groups, without the rest.
    pub(super) fn len(&self) -> usize {
        if self.by.is_empty() { 1 } else { self.keys.len() }
    }

    /// Returns the group of rows without a key, if groups were created with keys.
    pub(super) fn rest(&self) -> u32 {
        self.len() as u32
    }

    /// Returns the values of a group, in the order of the properties.
    pub(super) fn key(&self, group: u32) -> Vec<String> {
        let Some(pair) = self.keys.get(group as usize) else {
            return vec![OTHER.to_owned(); self.by.len()];
        };
        let name = |(column, value): (&GroupColumn, &u32)| column.names[*value as usize].to_string();
        self.columns.iter().zip(pair).map(name).collect()
    }

    /// Returns true if the events of a group have none of the properties.
    pub(super) fn is_empty_key(&self, group: u32) -> bool {
        let is_empty = |(column, value): (&GroupColumn, &u32)| column.names[*value as usize].is_empty();
        self.columns.iter().zip(&self.keys[group as usize]).all(is_empty)
    }

    /// Prepares for [`Groups::group_of`] with rows of a chunk.
    pub(super) fn start_chunk(&mut self, chunk: &Chunk) {
        for column in &mut self.columns {
            if let Column::Coded { dictionary, .. } = &chunk.columns[column.column] {
                column.table.of(dictionary, |_| UNSEEN);
            }
        }
    }

    /// Returns the group of a row.
    #[inline]
    pub(super) fn group_of(&mut self, chunk: &Chunk, row: usize) -> u32 {
        let mut pair = [0; 2];
        for (column, value) in self.columns.iter_mut().zip(&mut pair) {
            *value = column.value_of(chunk, row, self.is_closed);
        }
        match self.by.len() {
            0 => return 0,
            // With one property, values and groups have the same numbers.
            1 if (pair[0] as usize) < self.keys.len() => return pair[0],
            1 if self.is_closed => return self.rest(),
            _ => {}
        }
        if self.last.0 == pair {
            return self.last.1;
        }
        let group = self.group(pair);
        self.last = (pair, group);
        group
    }

    /// Appends the groups of rows; nothing if there are no properties.
    pub(super) fn extend_groups(&mut self, chunk: &Chunk, rows: &[u32], groups: &mut Vec<u32>) {
        if self.by.is_empty() {
            return;
        }
        groups.reserve(rows.len());
        let first = &chunk.columns[self.columns[0].column];
        if let (1, Column::Coded { codes, .. }) = (self.by.len(), first) {
            for row in rows.iter().map(|row| *row as usize) {
                let value = self.columns[0].table.item(codes[row]);
                let is_known = (value as usize) < self.keys.len();
                groups.push(if is_known { value } else { self.group_of(chunk, row) });
            }
            return;
        }
        for row in rows.iter().map(|row| *row as usize) {
            groups.push(self.group_of(chunk, row));
        }
    }

    fn group(&mut self, pair: [u32; 2]) -> u32 {
        if let Some(group) = self.pairs.get(&pair) {
            return *group;
        }
        if self.is_closed {
            return self.rest();
        }
        let group = self.keys.len() as u32;
        self.pairs.insert(pair, group);
        self.keys.push(pair);
        group
    }

    pub(super) fn bytes(&self) -> usize {
        let column = |column: &GroupColumn| {
            2 * column.text_bytes + column.names.len() * ENTRY_BYTES + column.of_number.capacity() * 17
        };
        self.columns.iter().map(column).sum::<usize>()
            + self.pairs.capacity() * 13
            + self.keys.capacity() * size_of::<[u32; 2]>()
    }
}

impl GroupColumn {
    #[inline]
    fn value_of(&mut self, chunk: &Chunk, row: usize, is_closed: bool) -> u32 {
        match &chunk.columns[self.column] {
            Column::Coded { codes, .. } => {
                let value = self.table.item(codes[row]);
                if value != UNSEEN {
                    return value;
                }
                let value = self.number(&text(chunk.columns[self.column].value(row)), is_closed);
                self.table.set(codes[row], value);
                value
            }
            Column::Numbers(values) => {
                let bits = values[row].to_bits();
                if let Some(value) = self.of_number.get(&bits) {
                    return *value;
                }
                let value = self.number(&text(chunk.columns[self.column].value(row)), is_closed);
                // Without a limit, closed groups would remember every number.
                if value != UNKNOWN {
                    self.of_number.insert(bits, value);
                }
                value
            }
            Column::Uuids(_) => self.number(&text(chunk.columns[self.column].value(row)), is_closed),
            Column::Absent => self.number("", is_closed),
        }
    }

    fn number(&mut self, text: &str, is_closed: bool) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        if is_closed {
            return UNKNOWN;
        }
        let number = self.names.len() as u32;
        self.names.push(text.into());
        self.numbers.insert(text.into(), number);
        self.text_bytes += text.len();
        number
    }
}

/// Returns a value as text: a number without a fraction as an integer.
pub(super) fn text(value: Option<Value<'_>>) -> String {
    match value {
        None => String::new(),
        Some(Value::Text(text)) => text.to_owned(),
        Some(Value::Flag(flag)) => flag.to_string(),
        Some(Value::Number(number)) => {
            let mut text = String::new();
            let written = match number {
                number if number.trunc() == number && number.abs() < 9e15 => {
                    write!(text, "{}", number as i64)
                }
                number => write!(text, "{number}"),
            };
            written.expect("writing to a text cannot fail");
            text
        }
    }
}

/// The names and values of the key of a series.
pub(super) fn named_key(by: &[Field], values: Vec<String>) -> Vec<(String, String)> {
    by.iter().map(label).zip(values).collect()
}

/// Splits groups into those with the highest totals and the rest. Of equal totals, the first key by its text comes
/// first.
pub(super) fn top_groups(
    groups: &Groups,
    used: impl Iterator<Item = (u32, f64)>,
    top: usize,
) -> (Vec<u32>, Vec<u32>) {
    let mut ranked: Vec<(f64, Vec<String>, u32)> =
        used.map(|(group, total)| (total, groups.key(group), group)).collect();
    ranked.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    let rest = ranked.split_off(top.min(ranked.len()));
    let numbers =
        |ranked: Vec<(f64, Vec<String>, u32)>| ranked.into_iter().map(|(.., group)| group).collect();
    (numbers(ranked), numbers(rest))
}
