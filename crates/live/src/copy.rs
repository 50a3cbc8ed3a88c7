//! Documents as a client has them that follows what it is told. For tests.

use std::sync::Arc;

use super::docs::{Change, Doc, Docs, Fields, Id};

/// A client's documents, in their order.
#[derive(Default)]
pub(crate) struct Copy(Vec<Doc>);

impl Copy {
    /// What a client would have that knows this state.
    pub(crate) fn of(docs: &Docs) -> Copy {
        Copy(docs.list().iter().map(|doc| Doc::clone(doc)).collect())
    }

    /// Panics where a change does not fit: something is added twice, or changed that is not there.
    pub(crate) fn follow(&mut self, changes: &[Change]) {
        changes.iter().for_each(|change| self.follow_one(change));
    }

    /// The documents with a line for each field, sorted by id where their order does not count.
    pub(crate) fn read(&self, is_ranked: bool) -> Vec<(Id, String)> {
        let text = |doc: &Doc| {
            let mut fields: Vec<String> =
                doc.fields.iter().map(|(name, value)| format!("{name}={}", value.text())).collect();
            fields.sort();
            (Arc::clone(&doc.id), fields.join("\n"))
        };
        let mut docs: Vec<_> = self.0.iter().map(text).collect();
        if !is_ranked {
            docs.sort();
        }
        docs
    }

    fn follow_one(&mut self, change: &Change) {
        match change {
            Change::Added(doc, before) => {
                assert!(self.0.iter().all(|other| other.id != doc.id), "{} is there already", doc.id);
                let place = self.before(before.as_ref().and_then(Option::as_ref));
                self.0.insert(place, Doc::clone(doc));
            }
            Change::Changed(id, changed, cleared) => {
                let place = self.place(id);
                let doc = &mut self.0[place];
                let kept = doc.fields.iter().filter(|(name, _)| changed.get(name).is_none());
                let kept = kept.filter(|(name, _)| !cleared.contains(name)).cloned();
                doc.fields = kept.chain(changed.iter().cloned()).collect::<Fields>();
            }
            Change::Moved(id, before) => {
                let place = self.place(id);
                let doc = self.0.remove(place);
                let place = self.before(before.as_ref());
                self.0.insert(place, doc);
            }
            Change::Removed(id) => {
                let place = self.place(id);
                self.0.remove(place);
            }
        }
    }

    fn place(&self, id: &str) -> usize {
        self.0.iter().position(|doc| *doc.id == *id).unwrap_or_else(|| panic!("{id} is not there"))
    }

    fn before(&self, id: Option<&Id>) -> usize {
        id.map_or(self.0.len(), |id| self.place(id))
    }
}
