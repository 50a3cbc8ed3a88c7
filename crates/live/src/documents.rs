//! A topic as documents, and the changes from one state to another.
//!
//! A state is built once and is immutable; all subscribers share it, and successive states share the documents that did
//! not change. The step between two states is computed once and encoded once. A subscriber that missed states gets the
//! step from the state it knows to the newest, so there is no queue.

mod difference;
mod fields;
mod step;
#[cfg(test)]
mod tests;

pub use fields::{DocumentFields, FieldName, JsonText};
pub use step::{EncodingKey, Step};

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use difference::Positions;

/// Steps kept to one state: from the previous state, and from older states that slower subscribers know.
const STEPS_MAX: usize = 8;

/// The id of a document in its collection.
pub type DocumentId = Arc<str>;

/// One document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Unique in its collection, even if several topics share the collection.
    pub id: DocumentId,
    /// The content.
    pub fields: DocumentFields,
}

/// A change of one document.
#[derive(Clone, Debug, PartialEq)]
pub enum DocumentChange {
    /// The document is new. In a ranked list it is inserted before the given document; before `None`: at the end.
    Added(Arc<Document>, Option<Option<DocumentId>>),
    /// Fields have new values, and the named fields are removed.
    Changed(DocumentId, DocumentFields, Vec<FieldName>),
    /// In a ranked list, the document moves before the given document, or to the end.
    Moved(DocumentId, Option<DocumentId>),
    /// The document is removed.
    Removed(DocumentId),
}

/// All documents of a topic in one state.
#[derive(Debug, Default)]
pub(crate) struct DocumentSet {
    /// The number of the change that created this state.
    pub(crate) number: u64,
    /// The number of the previous state, if it is known.
    pub(crate) previous: Option<u64>,
    /// True if the order of the documents is part of the state.
    is_ranked: bool,
    list: Vec<Arc<Document>>,
    positions: OnceLock<Positions>,
    full_step: OnceLock<Arc<Step>>,
    steps: Mutex<VecDeque<(u64, Arc<Step>)>>,
}

impl DocumentSet {
    /// Returns a state of these documents, which must have different ids.
    pub(crate) fn new(number: u64, is_ranked: bool, list: Vec<Arc<Document>>) -> DocumentSet {
        DocumentSet { number, is_ranked, list, ..DocumentSet::default() }
    }

    #[cfg(test)]
    pub(crate) fn list(&self) -> &[Arc<Document>] {
        &self.list
    }

    /// Returns the step from no documents to this state.
    pub(crate) fn full_step(&self) -> Arc<Step> {
        let step = || Arc::new(Step::new(self.changes_from(&DocumentSet::default())));
        Arc::clone(self.full_step.get_or_init(step))
    }

    /// Returns the step from `before`, an earlier state of the same topic, to this state.
    pub(crate) fn step_since(&self, before: &DocumentSet) -> Arc<Step> {
        let mut steps = self.steps.lock();
        if let Some((_, step)) = steps.iter().find(|(number, _)| *number == before.number) {
            return Arc::clone(step);
        }
        let step = Arc::new(Step::new(self.changes_from(before)));
        if steps.len() == STEPS_MAX {
            steps.pop_front();
        }
        steps.push_back((before.number, Arc::clone(&step)));
        step
    }

    /// Returns changes that remove every document.
    pub(crate) fn removals(&self) -> Vec<DocumentChange> {
        self.list.iter().map(|document| DocumentChange::Removed(Arc::clone(&document.id))).collect()
    }
}
