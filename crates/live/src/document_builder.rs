//! Documents of one topic, with ids that no other topic uses.

use std::fmt::Display;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::documents::{Document, DocumentFields, DocumentId};
use crate::topic::Topic;

/// Builds the documents of one topic. Their ids start with a hash of the topic, so documents of several topics can be in
/// one collection.
#[derive(Clone, Debug)]
pub(crate) struct DocumentBuilder {
    prefix: String,
}

impl DocumentBuilder {
    pub(crate) fn new(topic: &Topic) -> DocumentBuilder {
        let mut hasher = DefaultHasher::new();
        topic.hash(&mut hasher);
        DocumentBuilder { prefix: format!("{:x}", hasher.finish()) }
    }

    pub(crate) fn id(&self, row: impl Display) -> DocumentId {
        format!("{}/{row}", self.prefix).into()
    }

    pub(crate) fn document(&self, row: impl Display, fields: impl Into<DocumentFields>) -> Arc<Document> {
        Arc::new(Document { id: self.id(row), fields: fields.into() })
    }

    /// Returns a document with the fields of an object.
    pub(crate) fn document_of_object(&self, row: impl Display, object: &Value) -> Arc<Document> {
        self.document(row, object.as_object().map(DocumentFields::of).unwrap_or_default())
    }

    /// Returns the one document of a topic without a result, which says why.
    pub(crate) fn error(&self, why: &str) -> Vec<Arc<Document>> {
        vec![self.document_of_object("error", &json!({ "error": why }))]
    }
}
