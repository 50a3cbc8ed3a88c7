//! JSON that keeps its text: `1.0` stays `1.0`, `1e400` stays itself, and keys keep their order.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::decimal::JsonDecimal;

/// The greatest nesting depth; `[1]` has depth 1.
pub(crate) const DEPTH_MAX: usize = 16;

/// A JSON value as text, without white space between tokens. Values are equal if their texts are.
#[derive(Clone)]
pub struct Json(Arc<RawValue>);

impl Json {
    /// Parses a JSON text.
    pub fn parse(text: &str) -> Option<Json> {
        serde_json::from_str(text).ok()
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Parses the value into a tree. Fails if it is nested too deeply, has a duplicate key, or has a number out of
    /// range.
    pub(crate) fn node(&self) -> Result<JsonNode<'_>, String> {
        JsonNode::read(self.text(), DEPTH_MAX)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.text())
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Json) -> bool {
        self.text() == other.text()
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let raw = match without_space(raw.get()) {
            Cow::Borrowed(_) => raw,
            Cow::Owned(text) => RawValue::from_string(text).map_err(D::Error::custom)?,
        };
        Ok(Json(Arc::from(raw)))
    }
}

/// Removes white space between the tokens of a JSON text.
fn without_space(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(is_space) {
        return Cow::Borrowed(text);
    }
    let (mut in_string, mut escaped) = (false, false);
    let kept = text.chars().filter(|char| {
        let keep = in_string || !u8::try_from(*char).is_ok_and(is_space);
        in_string ^= *char == '"' && !escaped;
        escaped = in_string && *char == '\\' && !escaped;
        keep
    });
    Cow::Owned(kept.collect())
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// A parsed JSON value. Equality is that of JSON Schema: `1` equals `1.0`, and the order of keys does not matter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum JsonNode<'a> {
    Null,
    Bool(bool),
    Number(JsonDecimal),
    String(Cow<'a, str>),
    Array(Vec<JsonNode<'a>>),
    /// Sorted by key.
    Object(Vec<(Cow<'a, str>, JsonNode<'a>)>),
}

impl<'a> JsonNode<'a> {
    /// Parses a JSON text without surrounding white space.
    fn read(text: &'a str, depth_left: usize) -> Result<JsonNode<'a>, String> {
        let deeper = || {
            depth_left.checked_sub(1).ok_or(format!("must not be nested more than {DEPTH_MAX} levels deep"))
        };
        Ok(match text.as_bytes().first() {
            Some(b'{') => JsonNode::Object(object(text, deeper()?)?),
            Some(b'[') => JsonNode::Array(list(text, deeper()?)?),
            Some(b'"') => JsonNode::String(read::<Text<'a>>(text)?.0),
            Some(b't') => JsonNode::Bool(true),
            Some(b'f') => JsonNode::Bool(false),
            Some(b'n') => JsonNode::Null,
            _ => JsonNode::Number(JsonDecimal::parse(text)?),
        })
    }

    /// Returns the value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&JsonNode<'a>> {
        let JsonNode::Object(fields) = self else { return None };
        let at = fields.binary_search_by(|(key, _)| key.as_ref().cmp(name)).ok()?;
        Some(&fields[at].1)
    }

    /// Returns the name of the type in JSON Schema.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            JsonNode::Null => "null",
            JsonNode::Bool(_) => "boolean",
            JsonNode::Number(_) => "number",
            JsonNode::String(_) => "string",
            JsonNode::Array(_) => "array",
            JsonNode::Object(_) => "object",
        }
    }
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("cannot be parsed: {error}"))
}

fn list(text: &str, depth_left: usize) -> Result<Vec<JsonNode<'_>>, String> {
    read::<Vec<&RawValue>>(text)?.into_iter().map(|raw| JsonNode::read(raw.get(), depth_left)).collect()
}

fn object(text: &str, depth_left: usize) -> Result<Vec<(Cow<'_, str>, JsonNode<'_>)>, String> {
    let fields = read::<Fields<'_>>(text)?.0.into_iter();
    let fields = fields.map(|(key, raw)| Ok((key, JsonNode::read(raw.get(), depth_left)?)));
    let mut fields: Vec<_> = fields.collect::<Result<_, String>>()?;
    fields.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    match fields.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(format!("the key `{}` occurs twice in one object", pair[0].0)),
        None => Ok(fields),
    }
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The fields of an object in their order, including duplicates.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields<'de>, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let mut fields = Vec::new();
        while let Some((key, value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
            fields.push((key.0, value));
        }
        Ok(Fields(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(text: &str) -> Result<String, String> {
        let json = Json::parse(text).expect("the test gives JSON");
        json.node().map(|node| node.kind().to_owned())
    }

    #[test]
    fn value_keeps_its_text_except_white_space_between_tokens() {
        for (text, kept) in [
            ("1.0", "1.0"),
            (" 1e400 ", "1e400"),
            ("{ \"b c\" : [ 1 , 2.50 ] ,\n\"a\" : \" x \\\" y \" }", r#"{"b c":[1,2.50],"a":" x \" y "}"#),
            (r#"["\\", " \\\" "]"#, r#"["\\"," \\\" "]"#),
        ] {
            let json = Json::parse(text).unwrap();
            assert_eq!(json.text(), kept);
            assert_eq!(serde_json::to_string(&json).unwrap(), kept);
        }
    }

    #[test]
    fn numbers_compare_by_value_and_objects_without_order() {
        let same = |one: &str, other: &str| {
            let (one, other) = (Json::parse(one).unwrap(), Json::parse(other).unwrap());
            one.node().unwrap() == other.node().unwrap()
        };
        assert!(same(r#"{"a":1,"b":[10]}"#, r#"{"b":[1e1],"a":1.0}"#));
        assert!(same(r#""\u0041""#, r#""A""#));
        assert!(!same("1", "\"1\""));
        assert!(!same("[1,2]", "[2,1]"));
    }

    #[test]
    fn ambiguous_json_is_refused() {
        assert!(node(r#"{"a":1,"a":2}"#).unwrap_err().contains("`a`"));
        assert!(node(r#""\ud800""#).unwrap_err().contains("cannot be parsed"));
        assert!(node("1e99999999999").is_err());
        assert_eq!(node(&format!("{}1{}", "[".repeat(16), "]".repeat(16))), Ok("array".into()));
        assert!(node(&format!("{}1{}", "[".repeat(17), "]".repeat(17))).is_err());
    }
}
