//! JSON as it was written: `1.0` stays `1.0`, `1e400` stays itself, and keys keep their order.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::decimal::Decimal;

/// How deep a value may nest; `[1]` has depth 1.
pub const DEPTH_MAX: usize = 16;

/// One JSON value: its text without white space between the tokens. Equal means: the same text.
#[derive(Clone)]
pub struct Json(Arc<RawValue>);

impl Json {
    /// The value of this text, if it is JSON.
    pub fn parse(text: &str) -> Option<Json> {
        serde_json::from_str(text).ok()
    }

    /// The text.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// The value as a tree, or why it may not be one: too deep, a key twice, a number without bounds.
    pub(crate) fn node(&self) -> Result<Node<'_>, String> {
        Node::read(self.text(), DEPTH_MAX)
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

/// The text of a JSON value without white space between its tokens.
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

/// A JSON value to be looked into. Equal as JSON Schema has it: `1` is `1.0`, and the order of keys does not matter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Node<'a> {
    Null,
    Bool(bool),
    Number(Decimal),
    Text(Cow<'a, str>),
    List(Vec<Node<'a>>),
    /// In the order of the keys.
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
}

impl<'a> Node<'a> {
    /// `text` is JSON without white space around it.
    fn read(text: &'a str, depth_left: usize) -> Result<Node<'a>, String> {
        let deeper = || depth_left.checked_sub(1).ok_or(format!("it nests deeper than {DEPTH_MAX}"));
        Ok(match text.as_bytes().first() {
            Some(b'{') => Node::Object(object(text, deeper()?)?),
            Some(b'[') => Node::List(list(text, deeper()?)?),
            Some(b'"') => Node::Text(read::<Text<'a>>(text)?.0),
            Some(b't') => Node::Bool(true),
            Some(b'f') => Node::Bool(false),
            Some(b'n') => Node::Null,
            _ => Node::Number(Decimal::parse(text)?),
        })
    }

    /// The node of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&Node<'a>> {
        let Node::Object(fields) = self else { return None };
        let at = fields.binary_search_by(|(key, _)| key.as_ref().cmp(name)).ok()?;
        Some(&fields[at].1)
    }

    /// What JSON Schema calls this kind of value.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::Bool(_) => "boolean",
            Node::Number(_) => "number",
            Node::Text(_) => "string",
            Node::List(_) => "array",
            Node::Object(_) => "object",
        }
    }
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("it cannot be read: {error}"))
}

fn list(text: &str, depth_left: usize) -> Result<Vec<Node<'_>>, String> {
    read::<Vec<&RawValue>>(text)?.into_iter().map(|raw| Node::read(raw.get(), depth_left)).collect()
}

fn object(text: &str, depth_left: usize) -> Result<Vec<(Cow<'_, str>, Node<'_>)>, String> {
    let fields = read::<Fields<'_>>(text)?.0.into_iter();
    let fields = fields.map(|(key, raw)| Ok((key, Node::read(raw.get(), depth_left)?)));
    let mut fields: Vec<_> = fields.collect::<Result<_, String>>()?;
    fields.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    match fields.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(format!("the key `{}` stands twice in one object", pair[0].0)),
        None => Ok(fields),
    }
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The fields of an object in the order in which they stand, doubles included.
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
    fn a_value_keeps_its_text_but_for_white_space_between_tokens() {
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
    fn what_readers_would_not_agree_on_is_refused() {
        assert!(node(r#"{"a":1,"a":2}"#).unwrap_err().contains("`a`"));
        assert!(node(r#""\ud800""#).unwrap_err().contains("cannot be read"));
        assert!(node("1e99999999999").is_err());
        assert_eq!(node(&format!("{}1{}", "[".repeat(16), "]".repeat(16))), Ok("array".into()));
        assert!(node(&format!("{}1{}", "[".repeat(17), "]".repeat(17))).is_err());
    }
}
