//! The changes from one state of a topic to another.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::{DocumentChange, DocumentFields};

/// Encodings kept of one step. There is one for each collection in which the step is delivered.
const ENCODINGS_MAX: usize = 16;

/// The changes from one state to another, shared by all subscribers that know the first state.
#[derive(Debug, Default)]
pub struct Step {
    pub(crate) changes: Vec<DocumentChange>,
    encodings: Mutex<Vec<(EncodingKey, Bytes)>>,
}

/// Identifies an encoding of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodingKey {
    /// The name of the collection.
    pub collection: Arc<str>,
    /// True if the order of a ranked list is encoded.
    pub is_ordered: bool,
}

impl Step {
    /// Returns a step of these changes, which must be applied in order.
    pub(crate) fn new(changes: Vec<DocumentChange>) -> Step {
        Step { changes, encodings: Mutex::default() }
    }

    /// Returns approximately how much memory the step takes.
    pub(crate) fn bytes(&self) -> usize {
        let text = |fields: &DocumentFields| {
            fields.iter().map(|(name, value)| name.len() + value.text().len()).sum()
        };
        let of = |change: &DocumentChange| match change {
            DocumentChange::Added(document, _) => text(&document.fields),
            DocumentChange::Changed(_, fields, _) => text(fields),
            DocumentChange::Moved(..) | DocumentChange::Removed(_) => 0_usize,
        };
        self.changes.iter().map(|change| size_of::<DocumentChange>() + of(change)).sum()
    }

    /// Returns the encoded changes. The first call with a key encodes them; later calls share the result.
    pub fn encoded(&self, key: &EncodingKey, encode: impl FnOnce(&[DocumentChange]) -> Bytes) -> Bytes {
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
