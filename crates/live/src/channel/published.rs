//! The published state of a channel.

use std::sync::Arc;

use bytes::Bytes;

use crate::documents::{DocumentSet, Step};
use crate::history::History;
use crate::source::Update;

/// The latest messages, documents and steps of a channel.
pub(super) struct PublishedState {
    pub(super) messages: History<Bytes>,
    /// The newest state as documents; `None`: no subscriber wanted documents when it was published.
    pub(super) documents: Option<Arc<DocumentSet>>,
    pub(super) steps: History<Arc<Step>>,
}

/// Documents that have no number yet, and the step from the documents before them.
pub(super) type NewDocuments = (DocumentSet, Option<Arc<Step>>);

impl PublishedState {
    /// Returns an empty state. Changes start after this number.
    pub(super) fn new(number: u64) -> PublishedState {
        PublishedState { messages: History::new(number), documents: None, steps: History::new(number) }
    }

    pub(super) fn publish(&mut self, number: u64, update: Update, documents: Option<NewDocuments>) {
        match update {
            Update::Changed(fields) => self.messages.push(number, fields.len(), fields),
            Update::Replaced(fields) => self.messages.replace(number, fields.len(), fields),
            // Changes no longer lead from an older state to the new one, so every subscriber gets the full state.
            Update::Reset | Update::Unchanged => self.messages = History::new(number),
        }
        let Some((mut documents, step)) = documents else {
            (self.documents, self.steps) = (None, History::new(number));
            return;
        };
        let previous = self.documents.as_ref().map(|documents| documents.number);
        (documents.number, documents.previous) = (number, previous);
        match step {
            Some(step) if step.changes.is_empty() => return,
            Some(step) => self.steps.push(number, step.bytes(), step),
            None => self.steps = History::new(number),
        }
        self.documents = Some(Arc::new(documents));
    }
}
