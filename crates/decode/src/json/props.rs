//! Iterates over the properties of an event in their stored text.

use std::borrow::Cow;

use super::cursor::{JsonCursor, JsonValue};

/// The value of a property.
#[derive(Clone, Debug, PartialEq)]
pub enum Prop<'a> {
    /// A string.
    Text(Cow<'a, str>),
    /// A number or a boolean, in its original text.
    Literal(&'a str),
    /// `null`, an object or an array.
    Other,
}

/// Iterates over the keys and values of an object in the order of its text; the content of objects and arrays is skipped.
/// The syntax was checked before: a text that is not an object yields nothing, or its valid beginning.
pub fn props(object: &str) -> PropsIter<'_> {
    PropsIter { cursor: JsonCursor::new(object, 0), is_open: object.starts_with('{') }
}

/// The iterator of [`props`].
pub struct PropsIter<'a> {
    cursor: JsonCursor<'a>,
    is_open: bool,
}

impl<'a> Iterator for PropsIter<'a> {
    type Item = (Cow<'a, str>, Prop<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let property = self.read();
        self.is_open = property.is_some();
        property
    }
}

impl<'a> PropsIter<'a> {
    fn read(&mut self) -> Option<(Cow<'a, str>, Prop<'a>)> {
        if !self.is_open || !self.has_more()? {
            return None;
        }
        let key = self.cursor.key().ok()?.cow();
        let from = self.cursor.at;
        let prop = match self.cursor.value().ok()? {
            JsonValue::String(text) => Prop::Text(text.cow()),
            JsonValue::Number(_) | JsonValue::Bool => Prop::Literal(self.cursor.since(from)),
            JsonValue::Null | JsonValue::Array | JsonValue::Object(..) => Prop::Other,
        };
        Some((key, prop))
    }

    /// Reads up to the next key.
    fn has_more(&mut self) -> Option<bool> {
        if self.cursor.at > 0 {
            return self.cursor.comma_or(b'}', "',' or '}'").ok();
        }
        self.cursor.at = 1;
        self.cursor.skip_space();
        Some(self.cursor.peek() != b'}')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(object: &str, expected: &str) {
        let described = props(object).map(|(key, prop)| match prop {
            Prop::Text(text) => format!("{key}=\"{text}\""),
            Prop::Literal(literal) => format!("{key}={literal}"),
            Prop::Other => format!("{key}=-"),
        });
        assert_eq!(described.collect::<Vec<_>>().join(" "), expected);
    }

    #[test]
    fn texts_numbers_and_booleans_are_returned_and_nested_values_skipped() {
        check("{}", "");
        check("{ }", "");
        check(r#"{"a":1}"#, "a=1");
        check(
            r#"{ "a" : "b" , "c":-1.50e2,"d":true, "e" :false,"f":null }"#,
            r#"a="b" c=-1.50e2 d=true e=false f=-"#,
        );
        check(r#"{"a":{"b":1,"c":[2]},"d":[{"e":3}],"f":4}"#, "a=- d=- f=4");
        check(r#"{"\u0061":"\"\u00e9","a":2}"#, r#"a=""é" a=2"#);
    }

    #[test]
    fn invalid_object_yields_its_valid_beginning() {
        check("", "");
        check("[1]", "");
        check(r#"{"a":1,"b""#, "a=1");
        check(r#"{"a":1 "b":2}"#, "a=1");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[{}\\[\\]:,\" a1\\\\ntruefalse]{0,60}") {
            prop_assert!(props(&text).count() <= text.len());
        }
    }
}
