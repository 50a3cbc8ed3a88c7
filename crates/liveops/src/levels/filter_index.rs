//! An inverted index of published levels by field value and source.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::level::Level;

/// Slots by field and value, so that the cost of a filter follows its matches, not the number of levels.
#[derive(Debug, Default)]
pub(super) struct FilterIndex {
    /// By `field=value`, and `=source`: a field's name is never empty and has no `=`.
    slots: HashMap<Box<str>, Vec<u32>>,
}

impl FilterIndex {
    pub(super) fn insert(&mut self, level: &Level, slot: u32) {
        for key in keys(&level.fields, &level.source) {
            let slots = self.slots.entry(key).or_default();
            if let Err(at) = slots.binary_search(&slot) {
                slots.insert(at, slot);
            }
        }
    }

    pub(super) fn remove(&mut self, level: &Level, slot: u32) {
        for key in keys(&level.fields, &level.source) {
            let Some(slots) = self.slots.get_mut(&key) else { continue };
            if let Ok(at) = slots.binary_search(&slot) {
                slots.remove(at);
            }
            if slots.is_empty() {
                self.slots.remove(&key);
            }
        }
    }

    /// Returns the slots of the condition with the fewest matches; `None` without a condition.
    pub(super) fn rarest(&self, filters: &[(String, String)], source: Option<&str>) -> Option<&[u32]> {
        let fields = filters.iter().map(|(field, value)| key(field, value));
        let keys = fields.chain(source.map(|source| key("", source)));
        keys.map(|key| self.slots.get(&key).map_or(&[][..], Vec::as_slice)).min_by_key(|slots| slots.len())
    }
}

fn keys(fields: &BTreeMap<Box<str>, Box<str>>, source: &str) -> impl Iterator<Item = Box<str>> {
    let source = (!source.is_empty()).then(|| key("", source));
    fields.iter().map(|(field, value)| key(field, value)).chain(source)
}

fn key(field: &str, value: &str) -> Box<str> {
    format!("{field}={value}").into()
}
