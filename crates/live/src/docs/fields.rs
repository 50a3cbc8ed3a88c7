//! The fields of a document: names and JSON texts.
//!
//! Values are kept as the text in which they are sent. So a time or a key stands in memory once, however many documents
//! have it, comparing is comparing bytes, and encoding is copying.

use std::borrow::Cow;
use std::sync::Arc;

use serde::ser::{Error, Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The name of a field.
pub type Name = Cow<'static, str>;

/// A value as JSON text; cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Json(Arc<str>);

impl Json {
    /// The text of a value.
    pub fn of(value: &(impl Serialize + ?Sized)) -> Json {
        Json(serde_json::to_string(value).expect("a value in memory can be written").into())
    }

    /// A text that is JSON already.
    pub fn raw(text: &str) -> Json {
        Json(text.into())
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Fields in their order; a name is there once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(Name, Json)>);

impl Fields {
    /// The fields of an object.
    pub fn of(object: &Map<String, Value>) -> Fields {
        Fields(object.iter().map(|(name, value)| (name.clone().into(), Json::of(value))).collect())
    }

    /// The field of this name.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value)
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = &(Name, Json)> {
        self.0.iter()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(Name, Json)> for Fields {
    fn from_iter<T: IntoIterator<Item = (Name, Json)>>(fields: T) -> Fields {
        Fields(fields.into_iter().collect())
    }
}

impl<const N: usize> From<[(&'static str, Json); N]> for Fields {
    fn from(fields: [(&'static str, Json); N]) -> Fields {
        fields.into_iter().map(|(name, value)| (name.into(), value)).collect()
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            let value: &RawValue = serde_json::from_str(value.text()).map_err(S::Error::custom)?;
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}
