//! Properties as flat lists of named values, and back to JSON.
//!
//! A scalar inside an object is named by its path, joined with dots: `{"weapon": {"kind": "axe"}}` has one value,
//! `weapon.kind`. Arrays, nulls and empty objects are values that only JSON can hold.

use std::fmt::Write;

use crate::columns::Value;

/// Objects in objects; admission permits far fewer.
const DEPTH_MAX: usize = 32;
/// A whole number of at most this many digits is the same number as a double.
const EXACT_DIGITS: usize = 15;

/// A value without name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Leaf<'a> {
    Text(&'a str),
    Number(f64),
    Flag(bool),
    /// A whole number that a double cannot hold; the nearest one.
    LargeNumber(f64),
    /// An array, null or an empty object.
    Other,
}

/// The text is not one JSON object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MalformedJson;

/// Calls `visit` with the name, the value and the JSON text of each value of an object, in order.
pub(crate) fn flatten<'a>(
    json: &'a str,
    scratch: &mut Scratch,
    mut visit: impl FnMut(&str, Leaf<'_>, &'a str),
) -> Result<(), MalformedJson> {
    scratch.path.clear();
    let mut reader = Reader { json, at: 0, scratch };
    reader.space();
    reader.object(0, &mut visit)?;
    reader.space();
    if reader.at == json.len() { Ok(()) } else { Err(MalformedJson) }
}

/// Buffers that are used again.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    path: String,
    text: String,
}

struct Reader<'a, 's> {
    json: &'a str,
    at: usize,
    scratch: &'s mut Scratch,
}

impl<'a> Reader<'a, '_> {
    #[inline]
    fn peek(&self) -> Option<u8> {
        self.json.as_bytes().get(self.at).copied()
    }

    #[inline]
    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Result<(), MalformedJson> {
        if self.peek() != Some(byte) {
            return Err(MalformedJson);
        }
        self.at += 1;
        Ok(())
    }

    fn object(
        &mut self,
        depth: usize,
        visit: &mut impl FnMut(&str, Leaf<'_>, &'a str),
    ) -> Result<(), MalformedJson> {
        if depth > DEPTH_MAX {
            return Err(MalformedJson);
        }
        let start = self.at;
        self.expect(b'{')?;
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            if depth > 0 {
                visit(&self.scratch.path, Leaf::Other, &self.json[start..self.at]);
            }
            return Ok(());
        }
        let prefix = self.scratch.path.len();
        loop {
            if depth > 0 {
                self.scratch.path.push('.');
            }
            let json = self.json;
            match self.string()? {
                Text::Plain(from, to) => self.scratch.path.push_str(&json[from..to]),
                Text::Escaped => {
                    let Scratch { path, text } = &mut *self.scratch;
                    path.push_str(text);
                }
            }
            self.space();
            self.expect(b':')?;
            self.space();
            self.member(depth, visit)?;
            self.scratch.path.truncate(prefix);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(MalformedJson),
            }
            self.space();
        }
    }

    fn member(
        &mut self,
        depth: usize,
        visit: &mut impl FnMut(&str, Leaf<'_>, &'a str),
    ) -> Result<(), MalformedJson> {
        let (start, json) = (self.at, self.json);
        match self.peek().ok_or(MalformedJson)? {
            b'{' => self.object(depth + 1, visit)?,
            b'"' => match self.string()? {
                Text::Plain(from, to) => {
                    visit(&self.scratch.path, Leaf::Text(&json[from..to]), &json[start..self.at]);
                }
                Text::Escaped => {
                    visit(&self.scratch.path, Leaf::Text(&self.scratch.text), &json[start..self.at]);
                }
            },
            b'[' => {
                self.skip_array()?;
                visit(&self.scratch.path, Leaf::Other, &json[start..self.at]);
            }
            _ => {
                let leaf = self.word()?;
                visit(&self.scratch.path, leaf, &json[start..self.at]);
            }
        }
        Ok(())
    }

    /// Reads `true`, `false`, `null` or a number.
    fn word(&mut self) -> Result<Leaf<'static>, MalformedJson> {
        let rest = &self.json.as_bytes()[self.at..];
        let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
        let length = rest.iter().position(is_end).unwrap_or(rest.len());
        let text = &self.json[self.at..self.at + length];
        self.at += length;
        match text {
            "true" => return Ok(Leaf::Flag(true)),
            "false" => return Ok(Leaf::Flag(false)),
            "null" => return Ok(Leaf::Other),
            _ => {}
        }
        if !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')) {
            return Err(MalformedJson);
        }
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.len() <= EXACT_DIGITS
            && !digits.is_empty()
            && digits.bytes().all(|digit| digit.is_ascii_digit())
        {
            let whole = digits.bytes().fold(0i64, |whole, digit| whole * 10 + i64::from(digit - b'0')) as f64;
            return Ok(Leaf::Number(if digits.len() < text.len() { -whole } else { whole }));
        }
        let number: f64 = text.parse().map_err(|_| MalformedJson)?;
        let is_whole = digits.bytes().all(|digit| digit.is_ascii_digit());
        Ok(match number {
            _ if !number.is_finite() => Leaf::Other,
            _ if is_whole && number.abs() >= (1u64 << 53) as f64 => Leaf::LargeNumber(number),
            _ => Leaf::Number(number),
        })
    }

    /// Reads a string and returns where it lies, or writes it to `scratch.text` if it has escapes.
    fn string(&mut self) -> Result<Text, MalformedJson> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            match self.peek().ok_or(MalformedJson)? {
                b'"' => {
                    self.at += 1;
                    return Ok(Text::Plain(start, self.at - 1));
                }
                b'\\' => break,
                _ => self.at += 1,
            }
        }
        self.scratch.text.clear();
        let mut plain = start;
        loop {
            match self.peek().ok_or(MalformedJson)? {
                b'"' => {
                    self.scratch.text.push_str(&self.json[plain..self.at]);
                    self.at += 1;
                    return Ok(Text::Escaped);
                }
                b'\\' => {
                    self.scratch.text.push_str(&self.json[plain..self.at]);
                    self.at += 1;
                    let escaped = self.escape()?;
                    self.scratch.text.push(escaped);
                    plain = self.at;
                }
                _ => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<char, MalformedJson> {
        let byte = self.peek().ok_or(MalformedJson)?;
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let high = self.unit()?;
                if !(0xd800..0xdc00).contains(&high) {
                    return char::from_u32(high).ok_or(MalformedJson);
                }
                self.expect(b'\\')?;
                self.expect(b'u')?;
                let low = self.unit()?;
                if !(0xdc00..0xe000).contains(&low) {
                    return Err(MalformedJson);
                }
                return char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
                    .ok_or(MalformedJson);
            }
            _ => return Err(MalformedJson),
        })
    }

    fn unit(&mut self) -> Result<u32, MalformedJson> {
        let digits = self.json.as_bytes().get(self.at..self.at + 4).ok_or(MalformedJson)?;
        self.at += 4;
        digits
            .iter()
            .try_fold(0, |unit, digit| Ok(unit * 16 + char::from(*digit).to_digit(16).ok_or(MalformedJson)?))
    }

    /// Skips an array by its brackets; admission has parsed it.
    fn skip_array(&mut self) -> Result<(), MalformedJson> {
        let mut open = 0usize;
        loop {
            match self.peek().ok_or(MalformedJson)? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'[' | b'{' => open += 1,
                b']' | b'}' => open -= 1,
                _ => {}
            }
            self.at += 1;
            if open == 0 {
                return Ok(());
            }
        }
    }
}

enum Text {
    Plain(usize, usize),
    Escaped,
}

/// Writes an object member by member.
#[derive(Debug, Default)]
pub(crate) struct ObjectWriter {
    pub(crate) text: String,
}

impl ObjectWriter {
    /// Appends a member whose value is JSON text.
    pub(crate) fn push(&mut self, name: &str, value: &str) {
        self.name(name);
        self.text.push_str(value);
    }

    pub(crate) fn push_value(&mut self, name: &str, value: Value<'_>) {
        self.name(name);
        self.push_json_value(value);
    }

    /// Appends a value as JSON text.
    pub(crate) fn push_json_value(&mut self, value: Value<'_>) {
        match value {
            Value::Text(text) => self.string(text),
            Value::Number(number) => write!(self.text, "{number}").expect("a string"),
            Value::Flag(flag) => write!(self.text, "{flag}").expect("a string"),
        }
    }

    /// Ends the object and returns its text; `None` if it has no members.
    pub(crate) fn finish(&mut self) -> Option<&str> {
        if self.text.is_empty() {
            return None;
        }
        self.text.push('}');
        Some(&self.text)
    }

    fn name(&mut self, name: &str) {
        self.text.push(if self.text.is_empty() { '{' } else { ',' });
        self.string(name);
        self.text.push(':');
    }

    fn string(&mut self, text: &str) {
        self.text.push('"');
        for char in text.chars() {
            match char {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\0'..='\x1f' => write!(self.text, "\\u{:04x}", char as u32).expect("a string"),
                _ => self.text.push(char),
            }
        }
        self.text.push('"');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value as Json};

    use super::*;

    fn leaves(json: &str) -> Result<Vec<(String, String)>, MalformedJson> {
        let mut leaves = Vec::new();
        flatten(json, &mut Scratch::default(), |name, leaf, raw| {
            leaves.push((
                name.to_owned(),
                if leaf == Leaf::Other { raw.to_owned() } else { format!("{leaf:?}") },
            ));
        })?;
        Ok(leaves)
    }

    #[test]
    fn nested_scalars_are_named_by_their_path_and_arrays_stay_json() {
        let json = r#" {"a": 1, "weapon": {"kind": "ax\u0065\n", "sharp": true, "none": {}}, "list": [1, {"x": "]"}], "big": 12345678901234567890, "n": null, "d": -1.5e3} "#;
        let names: Vec<String> =
            leaves(json).unwrap().into_iter().map(|(name, leaf)| format!("{name}={leaf}")).collect();
        assert_eq!(
            names,
            [
                "a=Number(1.0)",
                "weapon.kind=Text(\"axe\\n\")",
                "weapon.sharp=Flag(true)",
                "weapon.none={}",
                r#"list=[1, {"x": "]"}]"#,
                "big=LargeNumber(1.2345678901234567e19)",
                "n=null",
                "d=Number(-1500.0)"
            ]
        );
    }

    #[test]
    fn malformed_text_is_an_error() {
        for text in ["", "{", "[]", "{\"a\":}", "{\"a\":1,}", "{\"a\":\"\\ud800\"}", "{\"a\":tru}", "{} x"] {
            assert_eq!(leaves(text), Err(MalformedJson), "{text}");
        }
    }

    fn flat(name: &str, value: &Json, into: &mut Map<String, Json>) {
        match value {
            Json::Object(object) if !object.is_empty() => {
                for (key, value) in object {
                    let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                    flat(&name, value, into);
                }
            }
            _ => {
                into.insert(name.to_owned(), value.clone());
            }
        }
    }

    fn json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            any::<i32>().prop_map(|number| Json::from(f64::from(number) / 8.0)),
            any::<String>().prop_map(Json::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Json::from),
                prop::collection::btree_map("[a-c\"\\\\é\n]{1,3}", inner, 0..4)
                    .prop_map(|map| Json::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn flattened_properties_are_written_back(
            object in prop::collection::btree_map("[a-c\"\\\\é]{1,3}", json(), 0..5)
        ) {
            let object = Json::Object(object.into_iter().collect());
            let mut expected = Map::new();
            if object.as_object().is_some_and(|object| !object.is_empty()) {
                flat("", &object, &mut expected);
            }
            for text in [object.to_string(), serde_json::to_string_pretty(&object).unwrap()] {
                let mut writer = ObjectWriter::default();
                flatten(&text, &mut Scratch::default(), |name, leaf, raw| match leaf {
                    Leaf::Text(text) => writer.push_value(name, Value::Text(text)),
                    Leaf::Flag(flag) => writer.push_value(name, Value::Flag(flag)),
                    _ => writer.push(name, raw),
                }).unwrap();
                let written = writer.finish().unwrap_or("{}");
                prop_assert_eq!(serde_json::from_str::<Map<String, Json>>(written).unwrap(), expected.clone());
            }
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in "[\\[\\]{}\",:\\\\a1u. etrufals-]{0,30}") {
            let _ = leaves(&text);
        }
    }
}
