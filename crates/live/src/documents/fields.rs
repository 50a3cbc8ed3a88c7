//! The fields of a document: names and JSON texts.
//!
//! A value is stored as the text in which it is sent. So documents share the memory of a time or a key, comparing values
//! is comparing bytes, and encoding is copying.

use std::borrow::Cow;
use std::sync::Arc;

use serde::ser::{Error, Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The name of a field.
pub type FieldName = Cow<'static, str>;

/// A value as JSON text. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonText(Arc<str>);

impl JsonText {
    /// Serializes a value.
    pub fn of(value: &(impl Serialize + ?Sized)) -> JsonText {
        JsonText(serde_json::to_string(value).expect("a value in memory can be serialized").into())
    }

    /// Wraps a text, which must be JSON.
    pub fn raw(text: &str) -> JsonText {
        JsonText(text.into())
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// The fields of a document, in order. Each name occurs once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentFields(Vec<(FieldName, JsonText)>);

impl DocumentFields {
    /// Returns the fields of an object.
    pub(crate) fn of(object: &Map<String, Value>) -> DocumentFields {
        let field = |(name, value): (&String, &Value)| (name.clone().into(), JsonText::of(value));
        DocumentFields(object.iter().map(field).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&JsonText> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value)
    }

    /// Returns names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = &(FieldName, JsonText)> {
        self.0.iter()
    }

    /// Returns true if there are no fields.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(FieldName, JsonText)> for DocumentFields {
    fn from_iter<T: IntoIterator<Item = (FieldName, JsonText)>>(fields: T) -> DocumentFields {
        DocumentFields(fields.into_iter().collect())
    }
}

impl<const N: usize> From<[(&'static str, JsonText); N]> for DocumentFields {
    fn from(fields: [(&'static str, JsonText); N]) -> DocumentFields {
        fields.into_iter().map(|(name, value)| (name.into(), value)).collect()
    }
}

impl Serialize for DocumentFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            let value: &RawValue = serde_json::from_str(value.text()).map_err(S::Error::custom)?;
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}
