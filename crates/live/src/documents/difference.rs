//! The smallest set of changes from one list of documents to another.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Document, DocumentChange, DocumentFields, DocumentId, DocumentSet, FieldName};

/// The position of each document in its list.
pub(super) type Positions = HashMap<DocumentId, usize>;

impl DocumentSet {
    pub(super) fn changes_from(&self, before: &DocumentSet) -> Vec<DocumentChange> {
        if self.has_same_ids(before) {
            let pairs = before.list.iter().zip(&self.list);
            return pairs.filter_map(|(old, new)| field_changes(old, new)).collect();
        }
        let removed = before.list.iter().filter(|document| self.position(&document.id).is_none());
        let mut changes: Vec<DocumentChange> =
            removed.map(|document| DocumentChange::Removed(Arc::clone(&document.id))).collect();
        if self.is_ranked {
            self.add_and_move(before, &mut changes);
        } else {
            let added = self.list.iter().filter(|document| before.position(&document.id).is_none());
            changes.extend(added.map(|document| DocumentChange::Added(Arc::clone(document), None)));
        }
        let kept = self
            .list
            .iter()
            .filter_map(|document| Some((&before.list[before.position(&document.id)?], document)));
        changes.extend(kept.filter_map(|(old, new)| field_changes(old, new)));
        changes
    }

    /// Returns true if both states have the same ids at the same positions. Most documents are the same `Arc` in both, so
    /// their ids need not be compared.
    fn has_same_ids(&self, before: &DocumentSet) -> bool {
        let same = |(old, new): (&Arc<Document>, &Arc<Document>)| Arc::ptr_eq(old, new) || old.id == new.id;
        self.list.len() == before.list.len() && before.list.iter().zip(&self.list).all(same)
    }

    /// Adds and moves documents from the last to the first, so that the document before which each one is inserted is
    /// already in place.
    fn add_and_move(&self, before: &DocumentSet, changes: &mut Vec<DocumentChange>) {
        let stays = self.documents_that_stay(before);
        let mut next: Option<DocumentId> = None;
        for (position, document) in self.list.iter().enumerate().rev() {
            if before.position(&document.id).is_none() {
                changes.push(DocumentChange::Added(Arc::clone(document), Some(next)));
            } else if !stays[position] {
                changes.push(DocumentChange::Moved(Arc::clone(&document.id), next));
            }
            next = Some(Arc::clone(&document.id));
        }
    }

    /// Marks the documents that need not move: a longest increasing subsequence of the old positions.
    fn documents_that_stay(&self, before: &DocumentSet) -> Vec<bool> {
        let old: Vec<Option<usize>> =
            self.list.iter().map(|document| before.position(&document.id)).collect();
        // `ends[n]` is the index at which the subsequence of length n + 1 with the smallest end ends. `links` leads from
        // there to its start.
        let mut ends: Vec<usize> = Vec::new();
        let mut links: Vec<Option<usize>> = vec![None; self.list.len()];
        for (index, position) in old.iter().enumerate() {
            let Some(position) = position else { continue };
            let length = ends.partition_point(|end| old[*end].is_some_and(|other| other < *position));
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

    fn position(&self, id: &str) -> Option<usize> {
        let positions = self.positions.get_or_init(|| {
            let indexed = self.list.iter().enumerate();
            indexed.map(|(position, document)| (Arc::clone(&document.id), position)).collect()
        });
        positions.get(id).copied()
    }
}

fn field_changes(old: &Arc<Document>, new: &Arc<Document>) -> Option<DocumentChange> {
    if Arc::ptr_eq(old, new) {
        return None;
    }
    let differs = |(name, value): &&(FieldName, _)| old.fields.get(name) != Some(value);
    let changed: DocumentFields = new.fields.iter().filter(differs).cloned().collect();
    let is_missing = |(name, _): &&(FieldName, _)| new.fields.get(name).is_none();
    let cleared: Vec<FieldName> =
        old.fields.iter().filter(is_missing).map(|(name, _)| name.clone()).collect();
    let is_same = changed.is_empty() && cleared.is_empty();
    (!is_same).then(|| DocumentChange::Changed(Arc::clone(&new.id), changed, cleared))
}
