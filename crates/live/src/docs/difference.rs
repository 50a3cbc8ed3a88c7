//! The shortest way from one list of documents to another.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Change, Doc, Docs, Fields, Id, Name};

/// Where each document stands.
pub(super) type Places = HashMap<Id, usize>;

impl Docs {
    pub(super) fn changes_from(&self, before: &Docs) -> Vec<Change> {
        if self.has_ids_of(before) {
            let pairs = before.list.iter().zip(&self.list);
            return pairs.filter_map(|(old, new)| changed(old, new)).collect();
        }
        let gone = before.list.iter().filter(|doc| self.place(&doc.id).is_none());
        let mut changes: Vec<Change> = gone.map(|doc| Change::Removed(Arc::clone(&doc.id))).collect();
        if self.is_ranked {
            self.arrange(before, &mut changes);
        } else {
            let new = self.list.iter().filter(|doc| before.place(&doc.id).is_none());
            changes.extend(new.map(|doc| Change::Added(Arc::clone(doc), None)));
        }
        let kept = self.list.iter().filter_map(|doc| Some((&before.list[before.place(&doc.id)?], doc)));
        changes.extend(kept.filter_map(|(old, new)| changed(old, new)));
        changes
    }

    /// The same documents in the same places: mostly the very same ones, which needs no look at their ids.
    fn has_ids_of(&self, before: &Docs) -> bool {
        let same = |(old, new): (&Arc<Doc>, &Arc<Doc>)| Arc::ptr_eq(old, new) || old.id == new.id;
        self.list.len() == before.list.len() && before.list.iter().zip(&self.list).all(same)
    }

    /// Adds and moves from the last to the first, so that the one before which to place each is there already.
    fn arrange(&self, before: &Docs, changes: &mut Vec<Change>) {
        let stays = self.longest_run(before);
        let mut next: Option<Id> = None;
        for (place, doc) in self.list.iter().enumerate().rev() {
            if before.place(&doc.id).is_none() {
                changes.push(Change::Added(Arc::clone(doc), Some(next)));
            } else if !stays[place] {
                changes.push(Change::Moved(Arc::clone(&doc.id), next));
            }
            next = Some(Arc::clone(&doc.id));
        }
    }

    /// Which documents need not move: a longest increasing subsequence of their earlier places.
    fn longest_run(&self, before: &Docs) -> Vec<bool> {
        let old: Vec<Option<usize>> = self.list.iter().map(|doc| before.place(&doc.id)).collect();
        // `ends[n]` is where the run of n + 1 with the smallest end ends; `links` leads from there to its start.
        let mut ends: Vec<usize> = Vec::new();
        let mut links: Vec<Option<usize>> = vec![None; self.list.len()];
        for (index, place) in old.iter().enumerate() {
            let Some(place) = place else { continue };
            let length = ends.partition_point(|end| old[*end].is_some_and(|other| other < *place));
            links[index] = length.checked_sub(1).map(|last| ends[last]);
            match ends.get_mut(length) {
                Some(end) => *end = index,
                None => ends.push(index),
            }
        }
        let mut stays = vec![false; self.list.len()];
        let mut at = ends.last().copied();
        while let Some(index) = at {
            stays[index] = true;
            at = links[index];
        }
        stays
    }

    fn place(&self, id: &str) -> Option<usize> {
        let places = self.places.get_or_init(|| {
            self.list.iter().enumerate().map(|(place, doc)| (Arc::clone(&doc.id), place)).collect()
        });
        places.get(id).copied()
    }
}

fn changed(old: &Arc<Doc>, new: &Arc<Doc>) -> Option<Change> {
    if Arc::ptr_eq(old, new) {
        return None;
    }
    let differs = |(name, value): &&(Name, _)| old.fields.get(name) != Some(value);
    let changed: Fields = new.fields.iter().filter(differs).cloned().collect();
    let gone = |(name, _): &&(Name, _)| new.fields.get(name).is_none();
    let cleared: Vec<Name> = old.fields.iter().filter(gone).map(|(name, _)| name.clone()).collect();
    let is_same = changed.is_empty() && cleared.is_empty();
    (!is_same).then(|| Change::Changed(Arc::clone(&new.id), changed, cleared))
}
