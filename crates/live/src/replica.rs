//! A client's copy of the documents, for tests.

use std::sync::Arc;

use crate::documents::{Document, DocumentChange, DocumentFields, DocumentId, DocumentSet};

/// The documents of a client, in order.
#[derive(Default)]
pub(crate) struct DocumentReplica(Vec<Document>);

impl DocumentReplica {
    /// Returns the replica of a client that has this state.
    pub(crate) fn of(set: &DocumentSet) -> DocumentReplica {
        DocumentReplica(set.list().iter().map(|document| Document::clone(document)).collect())
    }

    /// Applies changes. Panics if a change does not fit: if a document is added twice, or is changed and does not exist.
    pub(crate) fn apply(&mut self, changes: &[DocumentChange]) {
        changes.iter().for_each(|change| self.apply_one(change));
    }

    /// Returns the ids and fields, with a line for each field. Sorted by id if the order is not part of the state.
    pub(crate) fn read(&self, is_ranked: bool) -> Vec<(DocumentId, String)> {
        let text = |document: &Document| {
            let mut fields: Vec<String> =
                document.fields.iter().map(|(name, value)| format!("{name}={}", value.text())).collect();
            fields.sort();
            (Arc::clone(&document.id), fields.join("\n"))
        };
        let mut documents: Vec<_> = self.0.iter().map(text).collect();
        if !is_ranked {
            documents.sort();
        }
        documents
    }

    fn apply_one(&mut self, change: &DocumentChange) {
        match change {
            DocumentChange::Added(document, before) => {
                let id = &document.id;
                assert!(self.0.iter().all(|other| other.id != *id), "{id} exists already");
                let position = self.position_before(before.as_ref().and_then(Option::as_ref));
                self.0.insert(position, Document::clone(document));
            }
            DocumentChange::Changed(id, changed, cleared) => {
                let position = self.position(id);
                let document = &mut self.0[position];
                let kept = document.fields.iter().filter(|(name, _)| changed.get(name).is_none());
                let kept = kept.filter(|(name, _)| !cleared.contains(name)).cloned();
                document.fields = kept.chain(changed.iter().cloned()).collect::<DocumentFields>();
            }
            DocumentChange::Moved(id, before) => {
                let position = self.position(id);
                let document = self.0.remove(position);
                let position = self.position_before(before.as_ref());
                self.0.insert(position, document);
            }
            DocumentChange::Removed(id) => {
                let position = self.position(id);
                self.0.remove(position);
            }
        }
    }

    fn position(&self, id: &str) -> usize {
        let position = self.0.iter().position(|document| *document.id == *id);
        position.unwrap_or_else(|| panic!("{id} does not exist"))
    }

    fn position_before(&self, id: Option<&DocumentId>) -> usize {
        id.map_or(self.0.len(), |id| self.position(id))
    }
}
