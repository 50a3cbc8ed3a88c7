//! Which events a question is about.

use model::query::QueryError;

use super::filter::{CodeTable, Condition, ConditionBudget, Matcher};
use super::players::PlayerLinks;
use super::request::{Fields, Item};
use super::{Cohorts, FieldList};
use crate::columns::{ABSENT, Chunk, Column, Field, Value};
use model::limits::NAME_BYTES_MAX;

/// Events with a name, or with any, that meet a condition.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EventPattern {
    pub(super) event: Option<String>,
    pub(super) filter: Condition,
}

impl EventPattern {
    /// Reads `event` and `where` of an object. Without `event` the pattern is about all events.
    pub(super) fn read(
        fields: &mut Fields,
        budget: &mut ConditionBudget,
    ) -> Result<EventPattern, QueryError> {
        let event = fields.optional("event");
        let event = event.map(|event| event.name(NAME_BYTES_MAX).map(str::to_owned)).transpose()?;
        Ok(EventPattern { event, filter: Condition::read(fields, budget)? })
    }

    /// Reads an object with `event` and `where` and nothing else.
    pub(super) fn read_item(
        item: &Item,
        kind: &'static str,
        budget: &mut ConditionBudget,
    ) -> Result<EventPattern, QueryError> {
        let mut fields = item.fields(kind)?;
        let pattern = EventPattern::read(&mut fields, budget)?;
        fields.end()?;
        Ok(pattern)
    }
}

/// Finds the rows of up to 16 patterns.
pub(super) struct Selector {
    column: usize,
    /// The name of each pattern, and the bit that it has in `bits`.
    names: Vec<(Box<str>, u16)>,
    /// The bits of the patterns about all events.
    any: u16,
    conditions: Vec<(usize, Matcher)>,
    /// The condition on all of them.
    common: Option<Matcher>,
    table: CodeTable<u16>,
    mask: Vec<u8>,
    /// For each row of the chunk, a bit for each pattern that it meets.
    pub(super) bits: Vec<u16>,
    /// The rows that meet at least one.
    pub(super) rows: Vec<u32>,
}

impl Selector {
    pub(super) fn new(
        patterns: &[EventPattern],
        common: &Condition,
        columns: &mut FieldList,
        cohorts: &Cohorts,
    ) -> Result<Selector, QueryError> {
        assert!(patterns.len() <= 16, "a row has 16 bits");
        let (mut names, mut any, mut conditions) = (Vec::new(), 0, Vec::new());
        for (index, pattern) in patterns.iter().enumerate() {
            match &pattern.event {
                Some(event) => names.push((event.clone().into_boxed_str(), 1 << index)),
                None => any |= 1 << index,
            }
            if !pattern.filter.is_always() {
                conditions.push((index, pattern.filter.bind(columns, cohorts)?));
            }
        }
        let common = if common.is_always() { None } else { Some(common.bind(columns, cohorts)?) };
        Ok(Selector {
            column: if names.is_empty() { usize::MAX } else { columns.index(&Field::Event) },
            names,
            any,
            conditions,
            common,
            table: CodeTable::default(),
            mask: Vec::new(),
            bits: Vec::new(),
            rows: Vec::new(),
        })
    }

    /// Returns the names of the events, if there are only some, for the request of a scan.
    pub(super) fn events(&self) -> Option<Vec<Box<str>>> {
        let mut names: Vec<Box<str>> = self.names.iter().map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        (self.any == 0).then_some(names)
    }

    /// Returns true if all rows have the same bits.
    pub(super) fn is_uniform(&self) -> bool {
        self.names.is_empty() && self.conditions.is_empty() && self.common.is_none()
    }

    /// Finds `bits` and `rows` of a chunk. The caller may swap `rows` with another vector that it got in the same way.
    pub(super) fn select(&mut self, chunk: &Chunk, links: &PlayerLinks) {
        if links.hidden().is_empty() {
            return self.select_all(chunk, links);
        }
        // The rows of the chunk before are not those of this one.
        self.rows.clear();
        self.select_all(chunk, links);
        let bits = &mut self.bits;
        self.rows.retain(|row| {
            let is_hidden = links.hidden().contains(chunk.players[*row as usize]);
            if is_hidden {
                bits[*row as usize] = 0;
            }
            !is_hidden
        });
    }

    fn select_all(&mut self, chunk: &Chunk, links: &PlayerLinks) {
        if self.is_uniform() {
            if !links.hidden().is_empty() {
                self.bits.clear();
            }
            // What is left of the chunk before is right as far as it goes.
            self.bits.resize(chunk.rows(), self.any);
            self.rows.truncate(chunk.rows());
            self.rows.extend(self.rows.len() as u32..chunk.rows() as u32);
            return;
        }
        self.rows.clear();
        self.bits.clear();
        if !self.set_bits(chunk) {
            return;
        }
        for (index, matcher) in &mut self.conditions {
            self.mask.clear();
            self.mask.extend(self.bits.iter().map(|bits| (bits >> *index & 1) as u8));
            matcher.narrow(chunk, links, &mut self.mask);
            let keep = self.bits.iter_mut().zip(&self.mask);
            keep.for_each(|(bits, mask)| *bits = *bits & !(1 << *index) | u16::from(*mask) << *index);
        }
        if let Some(common) = &mut self.common {
            self.mask.clear();
            self.mask.extend(self.bits.iter().map(|bits| u8::from(*bits != 0)));
            common.narrow(chunk, links, &mut self.mask);
            let keep = self.bits.iter_mut().zip(&self.mask);
            keep.for_each(|(bits, mask)| *bits *= u16::from(*mask));
        }
        // Without a branch, because whether a row is selected cannot be predicted.
        self.rows.resize(self.bits.len(), 0);
        let mut count = 0;
        for (row, bits) in self.bits.iter().enumerate() {
            self.rows[count] = row as u32;
            count += usize::from(*bits != 0);
        }
        self.rows.truncate(count);
    }

    /// Sets the bits by the names of events alone. Returns false if no row has any.
    fn set_bits(&mut self, chunk: &Chunk) -> bool {
        let column = if self.names.is_empty() { &Column::Absent } else { &chunk.columns[self.column] };
        let (names, any) = (&self.names, self.any);
        match column {
            Column::Coded { codes, dictionary } => {
                let table = self.table.of(dictionary, |value| {
                    let named = names.iter().filter(|(name, _)| value == Some(Value::Text(name)));
                    named.fold(any, |bits, (_, bit)| bits | bit)
                });
                if table.iter().all(|bits| *bits == 0) {
                    return false;
                }
                let absent = table.len() - 1;
                let code = |code: &u32| if *code == ABSENT { absent } else { *code as usize };
                self.bits.extend(codes.iter().map(|one| table[code(one)]));
            }
            _ if any == 0 => return false,
            _ => self.bits.resize(chunk.rows(), any),
        }
        true
    }
}
