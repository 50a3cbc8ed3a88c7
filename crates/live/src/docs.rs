//! A topic as documents, and what changed from one state to another.
//!
//! A state is made once and never changed; all who watch hold the same one, and states that follow each other share
//! the documents that stayed as they were. A step from one state to the next is found once and encoded once. Whoever
//! has missed states in between is told the step from the one it knows to the newest: there is no queue.

mod difference;
mod fields;
#[cfg(test)]
mod tests;

pub use fields::{Fields, Json, Name};

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;

use difference::Places;

/// Steps to one state that are kept: from the one before, and from those that slower watchers were at.
const STEPS_MAX: usize = 8;
/// Encodings kept of one step; there is one per collection under which somebody watches.
const ENCODINGS_MAX: usize = 16;

/// Names a document in its collection.
pub type Id = Arc<str>;

/// One document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doc {
    /// Unique in its collection, whatever else is watched there.
    pub id: Id,
    /// What it says.
    pub fields: Fields,
}

/// What is to be told of one document.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It is new. In a ranked list it stands before that one; before `None`: at the end.
    Added(Arc<Doc>, Option<Option<Id>>),
    /// Fields have new values, others are gone.
    Changed(Id, Fields, Vec<Name>),
    /// In a ranked list it stands elsewhere: before that one, or at the end.
    Moved(Id, Option<Id>),
    /// It is gone.
    Removed(Id),
}

/// How a step is put into bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodingKey {
    /// What the collection is called.
    pub collection: Arc<str>,
    /// Whether places in a ranked list are told.
    pub is_ordered: bool,
}

/// What changed from one state to another; shared by all who were at the one.
#[derive(Debug, Default)]
pub struct Step {
    /// In the order in which they have to be followed.
    pub changes: Vec<Change>,
    encodings: Mutex<Vec<(EncodingKey, Bytes)>>,
}

impl Step {
    /// A step of these changes.
    pub fn new(changes: Vec<Change>) -> Step {
        Step { changes, encodings: Mutex::default() }
    }

    /// About how much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        let text = |fields: &Fields| fields.iter().map(|(name, value)| name.len() + value.text().len()).sum();
        let of = |change: &Change| match change {
            Change::Added(doc, _) => text(&doc.fields),
            Change::Changed(_, fields, _) => text(fields),
            Change::Moved(..) | Change::Removed(_) => 0_usize,
        };
        self.changes.iter().map(|change| size_of::<Change>() + of(change)).sum()
    }

    /// The changes in bytes: encoded by the first who asks for them this way, shared by all others.
    pub fn encoded(&self, key: &EncodingKey, encode: impl FnOnce(&[Change]) -> Bytes) -> Bytes {
        let mut encodings = self.encodings.lock();
        if let Some((_, bytes)) = encodings.iter().find(|(other, _)| other == key) {
            return bytes.clone();
        }
        let bytes = encode(&self.changes);
        if encodings.len() < ENCODINGS_MAX {
            encodings.push((key.clone(), bytes.clone()));
        }
        bytes
    }
}

/// All documents of a topic at one time.
#[derive(Debug, Default)]
pub struct Docs {
    /// The number of the change that made it.
    pub number: u64,
    /// The number of the state before it, if that is known.
    pub before: Option<u64>,
    /// Whether the order of the documents is part of the state.
    pub is_ranked: bool,
    list: Vec<Arc<Doc>>,
    places: OnceLock<Places>,
    whole: OnceLock<Arc<Step>>,
    steps: Mutex<VecDeque<(u64, Arc<Step>)>>,
}

impl Docs {
    /// A state of these documents, whose ids differ.
    pub fn new(number: u64, is_ranked: bool, list: Vec<Arc<Doc>>) -> Docs {
        Docs { number, is_ranked, list, ..Docs::default() }
    }

    /// The documents, in their order.
    pub fn list(&self) -> &[Arc<Doc>] {
        &self.list
    }

    /// Everything, for somebody who knows nothing.
    pub fn whole(&self) -> Arc<Step> {
        let step = || Arc::new(Step::new(self.changes_from(&Docs::default())));
        Arc::clone(self.whole.get_or_init(step))
    }

    /// What is to be told to somebody who knows `before`, which is an earlier state of the same topic.
    pub fn since(&self, before: &Docs) -> Arc<Step> {
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

    /// Everything gone.
    pub fn gone(&self) -> Vec<Change> {
        self.list.iter().map(|doc| Change::Removed(Arc::clone(&doc.id))).collect()
    }
}
