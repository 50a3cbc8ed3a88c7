//! Attributes of runs: fields and a source. Each distinct set is stored once. Filtered lists follow from them.
//!
//! A board that declares fields has a list for each of their values and for each combination, so that a filtered page
//! is as exact and as fast as an unfiltered one. A list is identified by a [`Filter`] and has a number; 0 is the
//! unfiltered list.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use crate::Refusal;

/// Fields that a board may declare. With the source, a run belongs to at most 2^5 lists.
pub(super) const DECLARED_MAX: usize = 4;
/// Distinct values of one declared field, or distinct sources, of a board at a time.
const VALUES_MAX: usize = 1_000;
/// Lists of values and combinations of a board at a time.
const LISTS_MAX: usize = 20_000;
/// The key of the source in a filter. Field names cannot contain a colon.
pub const SOURCE: &str = ":source";

/// Values that the runs of a list have: of declared fields, and of the source under [`SOURCE`].
pub type Filter = BTreeMap<String, String>;

/// The attributes of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct RunAttributes {
    /// Fields that the game sends with the score.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
    /// The place where it was played, such as a site or shop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl RunAttributes {
    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.source.is_none()
    }

    /// Returns the filters that these attributes match, except the empty one.
    fn filters(&self, declared: &[String]) -> Vec<Filter> {
        let source = self.source.iter().map(|source| (SOURCE, source));
        let fields = declared.iter().filter_map(|name| Some((name.as_str(), self.fields.get(name)?)));
        let parts: Vec<(&str, &String)> = fields.chain(source).collect();
        let part = |subset: usize| move |at: &usize| subset >> at & 1 == 1;
        let filter = |subset: usize| {
            let own = |at: usize| (parts[at].0.to_owned(), parts[at].1.clone());
            (0..parts.len()).filter(part(subset)).map(own).collect()
        };
        (1..1 << parts.len()).map(filter).collect()
    }
}

/// A distinct set of attributes.
struct AttributeSet {
    attributes: Arc<RunAttributes>,
    lists: Box<[u32]>,
    runs: u32,
}

/// A filtered list.
struct AttributeList {
    filter: Arc<Filter>,
    /// Sets of attributes that belong to it.
    set_count: u32,
}

/// The attributes of a board and its filtered lists. Numbers start at 1.
#[derive(Default)]
pub(super) struct AttributeCatalogue {
    sets: Slots<AttributeSet>,
    numbers: HashMap<Arc<RunAttributes>, u32>,
    lists: Slots<AttributeList>,
    list_numbers: HashMap<Arc<Filter>, u32>,
    /// The number of values of each field among the lists.
    values: HashMap<String, usize>,
    changed: Vec<u32>,
    changed_lists: Vec<u32>,
}

impl AttributeCatalogue {
    /// Refuses attributes of a new run that would exceed a limit.
    pub(super) fn check(&self, attributes: &RunAttributes, declared: &[String]) -> Result<(), Refusal> {
        if attributes.is_empty() || self.numbers.contains_key(attributes) {
            return Ok(());
        }
        let new: Vec<Filter> = attributes
            .filters(declared)
            .into_iter()
            .filter(|filter| !self.list_numbers.contains_key(filter))
            .collect();
        for name in new.iter().filter(|filter| filter.len() == 1).flat_map(BTreeMap::keys) {
            if self.values.get(name).is_some_and(|count| *count >= VALUES_MAX) {
                return Err(too_many(
                    name,
                    format!("a board can have at most {VALUES_MAX} values of this field at a time"),
                ));
            }
        }
        if self.list_numbers.len() + new.len() > LISTS_MAX {
            let detail = format!("a board can have at most {LISTS_MAX} values and combinations at a time");
            return Err(too_many("", detail));
        }
        Ok(())
    }

    /// Returns the number of these attributes and counts a run that has them.
    pub(super) fn intern(&mut self, attributes: &RunAttributes, declared: &[String]) -> u32 {
        if attributes.is_empty() {
            return 0;
        }
        let number = match self.numbers.get(attributes) {
            Some(number) => *number,
            None => self.add(attributes.clone(), declared),
        };
        self.add_reference(number);
        number
    }

    /// Counts another run with these attributes.
    pub(super) fn add_reference(&mut self, number: u32) {
        if let Some(set) = self.sets.get_mut(number) {
            set.runs += 1;
        }
    }

    /// Uncounts a run. Attributes without runs are removed.
    pub(super) fn release(&mut self, number: u32) {
        let Some(set) = self.sets.get_mut(number) else { return };
        set.runs -= 1;
        if set.runs == 0 {
            self.remove(number);
        }
    }

    fn remove(&mut self, number: u32) {
        let Some(set) = self.sets.take(number) else { return };
        self.changed.push(number);
        self.numbers.remove(&set.attributes);
        for list in set.lists {
            let kept = self.lists.get_mut(list).expect("lists of attributes exist");
            kept.set_count -= 1;
            if kept.set_count == 0 {
                self.remove_list(list);
            }
        }
    }

    fn remove_list(&mut self, number: u32) {
        let Some(list) = self.lists.take(number) else { return };
        self.changed_lists.push(number);
        self.list_numbers.remove(&list.filter);
        self.count_value(&list.filter, -1);
    }

    fn add(&mut self, attributes: RunAttributes, declared: &[String]) -> u32 {
        let number = self.sets.free();
        self.add_at(number, attributes, declared);
        self.changed.push(number);
        number
    }

    fn add_at(&mut self, number: u32, attributes: RunAttributes, declared: &[String]) {
        let lists = self.lists_for(&attributes, declared);
        let attributes = Arc::new(attributes);
        self.numbers.insert(Arc::clone(&attributes), number);
        self.sets.put(number, AttributeSet { attributes, lists, runs: 0 });
    }

    fn lists_for(&mut self, attributes: &RunAttributes, declared: &[String]) -> Box<[u32]> {
        let filters = attributes.filters(declared);
        let lists: Box<[u32]> = filters.into_iter().map(|filter| self.list_for(filter)).collect();
        for list in &lists {
            self.lists.get_mut(*list).expect("it exists").set_count += 1;
        }
        lists
    }

    fn list_for(&mut self, filter: Filter) -> u32 {
        if let Some(number) = self.list_numbers.get(&filter) {
            return *number;
        }
        let number = self.lists.free();
        self.restore_list(number, filter);
        self.changed_lists.push(number);
        number
    }

    fn count_value(&mut self, filter: &Filter, by: isize) {
        if let Some(name) = filter.keys().next().filter(|_| filter.len() == 1) {
            let count = self.values.entry_ref(name).or_default();
            *count = count.wrapping_add_signed(by);
        }
    }

    pub(super) fn get(&self, number: u32) -> Option<&RunAttributes> {
        self.sets.get(number).map(|set| &*set.attributes)
    }

    /// Returns the filtered lists to which runs with these attributes belong.
    #[inline]
    pub(super) fn lists_of(&self, number: u32) -> &[u32] {
        self.sets.get(number).map_or(&[], |set| &set.lists)
    }

    /// Returns the number of a filter's list; `None` if no run matches.
    pub(super) fn list(&self, filter: &Filter) -> Option<u32> {
        if filter.is_empty() { Some(0) } else { self.list_numbers.get(filter).copied() }
    }

    pub(super) fn has(&self, list: u32) -> bool {
        list == 0 || self.lists.get(list).is_some()
    }

    /// Changes the declared fields. Lists that remain keep their numbers.
    pub(super) fn redeclare(&mut self, declared: &[String]) {
        self.lists.all.iter_mut().flatten().for_each(|list| list.set_count = 0);
        for number in 1..=self.sets.all.len() as u32 {
            let Some(attributes) = self.sets.get(number).map(|set| Arc::clone(&set.attributes)) else {
                continue;
            };
            let lists = self.lists_for(&attributes, declared);
            self.sets.get_mut(number).expect("it exists").lists = lists;
        }
        let idle = |(at, list): (usize, &Option<AttributeList>)| {
            Some(at as u32 + 1).filter(|_| list.as_ref().is_some_and(|it| it.set_count == 0))
        };
        let idle: Vec<u32> = self.lists.all.iter().enumerate().filter_map(idle).collect();
        idle.into_iter().for_each(|number| self.remove_list(number));
    }

    pub(super) fn restore_list(&mut self, number: u32, filter: Filter) {
        self.count_value(&filter, 1);
        let filter = Arc::new(filter);
        self.list_numbers.insert(Arc::clone(&filter), number);
        self.lists.put(number, AttributeList { filter, set_count: 0 });
    }

    /// Restores attributes, after all lists.
    pub(super) fn restore(&mut self, number: u32, attributes: RunAttributes, declared: &[String]) {
        self.add_at(number, attributes, declared);
    }

    /// Called after the last record. Removes attributes that no run has.
    pub(super) fn finish_restore(&mut self) {
        self.sets.find_free();
        self.lists.find_free();
        let idle = |(at, set): (usize, &Option<AttributeSet>)| {
            Some(at as u32 + 1).filter(|_| set.as_ref().is_some_and(|it| it.runs == 0))
        };
        let idle: Vec<u32> = self.sets.all.iter().enumerate().filter_map(idle).collect();
        idle.into_iter().for_each(|number| self.remove(number));
    }

    /// Returns the numbers of attributes that changed since the previous call, with their current values.
    pub(super) fn drain_changed(&mut self) -> Vec<(u32, Option<Arc<RunAttributes>>)> {
        let now = |number: u32| self.sets.get(number).map(|set| Arc::clone(&set.attributes));
        std::mem::take(&mut self.changed).into_iter().map(|number| (number, now(number))).collect()
    }

    /// Returns the numbers of lists that changed since the previous call, with their current filters.
    pub(super) fn drain_changed_lists(&mut self) -> Vec<(u32, Option<Arc<Filter>>)> {
        let now = |number: u32| self.lists.get(number).map(|list| Arc::clone(&list.filter));
        std::mem::take(&mut self.changed_lists).into_iter().map(|number| (number, now(number))).collect()
    }
}

fn too_many(name: &str, detail: String) -> Refusal {
    let field = match name {
        SOURCE => "source".to_owned(),
        "" => "fields".to_owned(),
        name => format!("fields.{name}"),
    };
    Refusal { field: Some(field), ..Refusal::too_many(detail) }
}

/// Values by number, from 1 on. Free numbers are reused.
struct Slots<T> {
    all: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots { all: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    #[inline]
    fn get(&self, number: u32) -> Option<&T> {
        self.all.get((number as usize).wrapping_sub(1))?.as_ref()
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.all.get_mut((number as usize).wrapping_sub(1))?.as_mut()
    }

    /// Returns a number that is not in use.
    fn free(&mut self) -> u32 {
        self.free.pop().unwrap_or(self.all.len() as u32 + 1)
    }

    /// Puts a value at a number returned by `free`, or at a restored number; `find_free` must follow the restore.
    fn put(&mut self, number: u32, it: T) {
        let len = self.all.len().max(number as usize);
        self.all.resize_with(len, || None);
        self.all[number as usize - 1] = Some(it);
    }

    fn find_free(&mut self) {
        let number = |(at, it): (usize, &Option<T>)| it.is_none().then_some(at as u32 + 1);
        self.free = self.all.iter().enumerate().filter_map(number).collect();
    }

    fn take(&mut self, number: u32) -> Option<T> {
        let taken = self.all.get_mut((number as usize).wrapping_sub(1))?.take()?;
        self.free.push(number);
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(fields: &[(&str, &str)], source: Option<&str>) -> RunAttributes {
        let fields = fields.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        RunAttributes { fields, source: source.map(str::to_owned) }
    }

    fn declared() -> Vec<String> {
        ["car", "map"].map(str::to_owned).to_vec()
    }

    #[test]
    fn run_belongs_to_a_list_for_each_combination_of_declared_values() {
        let mut catalogue = AttributeCatalogue::default();
        let number = catalogue
            .intern(&attributes(&[("car", "red"), ("map", "sea"), ("ghost", "7")], Some("web")), &declared());
        assert_eq!(catalogue.lists_of(number).len(), 7);
        let both: Filter =
            [("car", "red"), ("map", "sea")].map(|(name, value)| (name.into(), value.into())).into();
        let list = catalogue.list(&both).expect("a list");
        assert!(catalogue.lists_of(number).contains(&list));
        assert_eq!(catalogue.list(&[("car".to_owned(), "blue".to_owned())].into()), None);
        assert_eq!(catalogue.list(&Filter::new()), Some(0));
        assert_eq!(catalogue.intern(&RunAttributes::default(), &declared()), 0);
    }

    #[test]
    fn attributes_and_lists_are_removed_with_their_last_run() {
        let mut catalogue = AttributeCatalogue::default();
        let red = attributes(&[("car", "red")], None);
        let number = catalogue.intern(&red, &declared());
        assert_eq!(catalogue.intern(&red, &declared()), number);
        catalogue.release(number);
        assert_eq!(catalogue.get(number), Some(&red));
        catalogue.release(number);
        assert_eq!(
            (catalogue.get(number), catalogue.list_numbers.len(), catalogue.values["car"]),
            (None, 0, 0)
        );
        assert_eq!(catalogue.intern(&attributes(&[("car", "blue")], None), &declared()), number);
    }

    #[test]
    fn refusal_names_the_field_with_too_many_values() {
        let mut catalogue = AttributeCatalogue::default();
        for value in 0..VALUES_MAX {
            catalogue.intern(&attributes(&[("car", &value.to_string())], None), &declared());
        }
        let check = |fields: &[(&str, &str)], source| {
            let refused = catalogue.check(&attributes(fields, source), &declared());
            refused.err().and_then(|refusal| refusal.field)
        };
        assert_eq!(check(&[("car", "new")], None), Some("fields.car".to_owned()));
        assert_eq!(check(&[("car", "7")], None), None);
        assert_eq!(check(&[("map", "new"), ("other", "new")], Some("web")), None);
    }
}
