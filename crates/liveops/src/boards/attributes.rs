//! What runs have beside their scores: fields and a source, each set of them kept once; and the lists that follow.
//!
//! A board that declares fields has a list for each of their values and for each combination, so that a filtered page is
//! as exact and as fast as an unfiltered one. Such a list is named by a [`Filter`] and has a number; 0 is the whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use crate::Refusal;

/// Fields that a board may declare. With the source there are at most 2^5 lists that a run belongs to.
pub const DECLARED_MAX: usize = 4;
/// Different values of one declared field, or different sources, that a board has at a time.
const VALUES_MAX: usize = 1_000;
/// Lists of values and combinations that a board has at a time.
const LISTS_MAX: usize = 20_000;
/// The source among fields: no field has a colon in its name.
pub const SOURCE: &str = ":source";

/// Values that runs have in common: of declared fields, and under [`SOURCE`] of the source.
pub type Filter = BTreeMap<String, String>;

/// What a run has beside its score.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attributes {
    /// What the game sends along.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
    /// Where it was played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl Attributes {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.source.is_none()
    }

    /// The filters to which it answers, apart from the empty one.
    fn filters(&self, declared: &[String]) -> Vec<Filter> {
        let source = self.source.iter().map(|source| (SOURCE, source));
        let fields = declared.iter().filter_map(|name| Some((name.as_str(), self.fields.get(name)?)));
        let parts: Vec<(&str, &String)> = fields.chain(source).collect();
        let part = |set: usize| move |at: &usize| set >> at & 1 == 1;
        let filter = |set: usize| {
            let own = |at: usize| (parts[at].0.to_owned(), parts[at].1.clone());
            (0..parts.len()).filter(part(set)).map(own).collect()
        };
        (1..1 << parts.len()).map(filter).collect()
    }
}

/// A set of attributes that runs have.
struct Held {
    attributes: Arc<Attributes>,
    lists: Box<[u32]>,
    runs: u32,
}

/// A list that is not the whole.
struct List {
    filter: Arc<Filter>,
    /// Sets of attributes that belong to it.
    sets: u32,
}

/// All attributes of a board, and its lists. Numbers begin with 1.
#[derive(Default)]
pub struct Catalogue {
    held: Slots<Held>,
    known: HashMap<Arc<Attributes>, u32>,
    lists: Slots<List>,
    listed: HashMap<Arc<Filter>, u32>,
    /// How many values of a field there are among the lists.
    values: HashMap<String, usize>,
    changed: Vec<u32>,
    changed_lists: Vec<u32>,
}

impl Catalogue {
    /// Whether there is room for attributes of a new run.
    pub fn check(&self, attributes: &Attributes, declared: &[String]) -> Result<(), Refusal> {
        if attributes.is_empty() || self.known.contains_key(attributes) {
            return Ok(());
        }
        let new: Vec<Filter> = attributes
            .filters(declared)
            .into_iter()
            .filter(|filter| !self.listed.contains_key(filter))
            .collect();
        for name in new.iter().filter(|filter| filter.len() == 1).flat_map(BTreeMap::keys) {
            if self.values.get(name).is_some_and(|count| *count >= VALUES_MAX) {
                return Err(too_many(
                    name,
                    format!("a board has at most {VALUES_MAX} of its values at a time"),
                ));
            }
        }
        if self.listed.len() + new.len() > LISTS_MAX {
            let detail = format!("a board has at most {LISTS_MAX} values and combinations at a time");
            return Err(too_many("", detail));
        }
        Ok(())
    }

    /// The number of a new run's attributes.
    pub fn hold(&mut self, attributes: &Attributes, declared: &[String]) -> u32 {
        if attributes.is_empty() {
            return 0;
        }
        let number = match self.known.get(attributes) {
            Some(number) => *number,
            None => self.add(attributes.clone(), declared),
        };
        self.hold_more(number);
        number
    }

    /// Another run has attributes that are known.
    pub fn hold_more(&mut self, number: u32) {
        if let Some(held) = self.held.get_mut(number) {
            held.runs += 1;
        }
    }

    /// A run with these attributes is gone.
    pub fn release(&mut self, number: u32) {
        let Some(held) = self.held.get_mut(number) else { return };
        held.runs -= 1;
        if held.runs == 0 {
            self.forget(number);
        }
    }

    fn forget(&mut self, number: u32) {
        let Some(held) = self.held.take(number) else { return };
        self.changed.push(number);
        self.known.remove(&held.attributes);
        for list in held.lists {
            let kept = self.lists.get_mut(list).expect("attributes name lists that are there");
            kept.sets -= 1;
            if kept.sets == 0 {
                self.unlist(list);
            }
        }
    }

    fn unlist(&mut self, number: u32) {
        let Some(list) = self.lists.take(number) else { return };
        self.changed_lists.push(number);
        self.listed.remove(&list.filter);
        self.count_value(&list.filter, -1);
    }

    fn add(&mut self, attributes: Attributes, declared: &[String]) -> u32 {
        let number = self.held.free();
        self.add_at(number, attributes, declared);
        self.changed.push(number);
        number
    }

    fn add_at(&mut self, number: u32, attributes: Attributes, declared: &[String]) {
        let lists = self.lists_for(&attributes, declared);
        let attributes = Arc::new(attributes);
        self.known.insert(Arc::clone(&attributes), number);
        self.held.put(number, Held { attributes, lists, runs: 0 });
    }

    fn lists_for(&mut self, attributes: &Attributes, declared: &[String]) -> Box<[u32]> {
        let filters = attributes.filters(declared);
        let lists: Box<[u32]> = filters.into_iter().map(|filter| self.list_for(filter)).collect();
        for list in &lists {
            self.lists.get_mut(*list).expect("it was just found").sets += 1;
        }
        lists
    }

    fn list_for(&mut self, filter: Filter) -> u32 {
        if let Some(number) = self.listed.get(&filter) {
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

    /// Attributes by their number; 0 has none.
    pub fn get(&self, number: u32) -> Option<&Attributes> {
        self.held.get(number).map(|held| &*held.attributes)
    }

    /// The lists to which runs with these attributes belong, apart from the whole.
    #[inline]
    pub fn lists_of(&self, number: u32) -> &[u32] {
        self.held.get(number).map_or(&[], |held| &held.lists)
    }

    /// The number of the list of a filter; `None`: there is no run of it.
    pub fn list(&self, filter: &Filter) -> Option<u32> {
        if filter.is_empty() { Some(0) } else { self.listed.get(filter).copied() }
    }

    /// Whether there is a list of this number.
    pub fn has(&self, list: u32) -> bool {
        list == 0 || self.lists.get(list).is_some()
    }

    /// Other declared fields. Lists that stay keep their numbers.
    pub fn redeclare(&mut self, declared: &[String]) {
        self.lists.all.iter_mut().flatten().for_each(|list| list.sets = 0);
        for number in 1..=self.held.all.len() as u32 {
            let Some(attributes) = self.held.get(number).map(|held| Arc::clone(&held.attributes)) else {
                continue;
            };
            let lists = self.lists_for(&attributes, declared);
            self.held.get_mut(number).expect("it was just there").lists = lists;
        }
        let idle = |(at, list): (usize, &Option<List>)| {
            Some(at as u32 + 1).filter(|_| list.as_ref().is_some_and(|it| it.sets == 0))
        };
        let idle: Vec<u32> = self.lists.all.iter().enumerate().filter_map(idle).collect();
        idle.into_iter().for_each(|number| self.unlist(number));
    }

    /// Takes a list that was written.
    pub fn restore_list(&mut self, number: u32, filter: Filter) {
        self.count_value(&filter, 1);
        let filter = Arc::new(filter);
        self.listed.insert(Arc::clone(&filter), number);
        self.lists.put(number, List { filter, sets: 0 });
    }

    /// Takes attributes that were written, after all lists.
    pub fn restore(&mut self, number: u32, attributes: Attributes, declared: &[String]) {
        self.add_at(number, attributes, declared);
    }

    /// Called after the last attributes: those that no run has are forgotten.
    pub fn restored(&mut self) {
        self.held.find_free();
        self.lists.find_free();
        let idle = |(at, held): (usize, &Option<Held>)| {
            Some(at as u32 + 1).filter(|_| held.as_ref().is_some_and(|it| it.runs == 0))
        };
        let idle: Vec<u32> = self.held.all.iter().enumerate().filter_map(idle).collect();
        idle.into_iter().for_each(|number| self.forget(number));
    }

    /// Numbers of attributes that changed since the last call, each with what it is now.
    pub fn take_changed(&mut self) -> Vec<(u32, Option<Arc<Attributes>>)> {
        let now = |number: u32| self.held.get(number).map(|held| Arc::clone(&held.attributes));
        std::mem::take(&mut self.changed).into_iter().map(|number| (number, now(number))).collect()
    }

    /// Numbers of lists that changed since the last call, each with what it is now.
    pub fn take_changed_lists(&mut self) -> Vec<(u32, Option<Arc<Filter>>)> {
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

/// Things by number from 1 on; free numbers are used again.
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

    /// A number that is not in use.
    fn free(&mut self) -> u32 {
        self.free.pop().unwrap_or(self.all.len() as u32 + 1)
    }

    /// Puts it at a number that `free` told, or that it had before; then `find_free` is called once at the end.
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

    fn attributes(fields: &[(&str, &str)], source: Option<&str>) -> Attributes {
        let fields = fields.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Attributes { fields, source: source.map(str::to_owned) }
    }

    fn declared() -> Vec<String> {
        ["car", "map"].map(str::to_owned).to_vec()
    }

    #[test]
    fn a_run_belongs_to_a_list_for_each_combination_of_declared_values() {
        let mut catalogue = Catalogue::default();
        let number = catalogue
            .hold(&attributes(&[("car", "red"), ("map", "sea"), ("ghost", "7")], Some("web")), &declared());
        assert_eq!(catalogue.lists_of(number).len(), 7);
        let both: Filter =
            [("car", "red"), ("map", "sea")].map(|(name, value)| (name.into(), value.into())).into();
        let list = catalogue.list(&both).expect("a list");
        assert!(catalogue.lists_of(number).contains(&list));
        assert_eq!(catalogue.list(&[("car".to_owned(), "blue".to_owned())].into()), None);
        assert_eq!(catalogue.list(&Filter::new()), Some(0));
        assert_eq!(catalogue.hold(&Attributes::default(), &declared()), 0);
    }

    #[test]
    fn attributes_and_lists_go_with_their_last_run() {
        let mut catalogue = Catalogue::default();
        let red = attributes(&[("car", "red")], None);
        let number = catalogue.hold(&red, &declared());
        assert_eq!(catalogue.hold(&red, &declared()), number);
        catalogue.release(number);
        assert_eq!(catalogue.get(number), Some(&red));
        catalogue.release(number);
        assert_eq!((catalogue.get(number), catalogue.listed.len(), catalogue.values["car"]), (None, 0, 0));
        assert_eq!(catalogue.hold(&attributes(&[("car", "blue")], None), &declared()), number);
    }

    #[test]
    fn too_many_values_are_refused_by_the_field_that_has_them() {
        let mut catalogue = Catalogue::default();
        for value in 0..VALUES_MAX {
            catalogue.hold(&attributes(&[("car", &value.to_string())], None), &declared());
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
