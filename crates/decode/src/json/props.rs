//! The properties of an event, one after the other, from the text that is kept of them.

use std::borrow::Cow;

use super::cursor::{Cursor, Value};

/// What stands under a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Prop<'a> {
    /// A string.
    Text(Cow<'a, str>),
    /// A number or a truth value, as it is written.
    Word(&'a str),
    /// `null`, an object or an array.
    Other,
}

/// The keys of an object and what stands under them, in the order of its text; what is inside of objects and arrays is
/// passed over. The syntax has been checked: of a text that is no object nothing or only the valid beginning comes.
pub fn props(object: &str) -> Props<'_> {
    Props { cursor: Cursor::new(object, 0), is_open: object.starts_with('{') }
}

/// See [`props`].
pub struct Props<'a> {
    cursor: Cursor<'a>,
    is_open: bool,
}

impl<'a> Iterator for Props<'a> {
    type Item = (Cow<'a, str>, Prop<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.read();
        self.is_open = found.is_some();
        found
    }
}

impl<'a> Props<'a> {
    fn read(&mut self) -> Option<(Cow<'a, str>, Prop<'a>)> {
        if !self.is_open || !self.goes_on()? {
            return None;
        }
        let key = self.cursor.key().ok()?.cow();
        let from = self.cursor.at;
        let prop = match self.cursor.value().ok()? {
            Value::Text(text) => Prop::Text(text.cow()),
            Value::Number(_) | Value::Bool => Prop::Word(self.cursor.since(from)),
            Value::Null | Value::Array | Value::Object(..) => Prop::Other,
        };
        Some((key, prop))
    }

    /// Reads up to the next key.
    fn goes_on(&mut self) -> Option<bool> {
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
        let told = props(object).map(|(key, prop)| match prop {
            Prop::Text(text) => format!("{key}=\"{text}\""),
            Prop::Word(word) => format!("{key}={word}"),
            Prop::Other => format!("{key}=-"),
        });
        assert_eq!(told.collect::<Vec<_>>().join(" "), expected);
    }

    #[test]
    fn texts_numbers_and_truth_values_are_told_and_nothing_inside_of_others() {
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
    fn of_what_is_no_object_the_valid_beginning_is_told() {
        check("", "");
        check("[1]", "");
        check(r#"{"a":1,"b""#, "a=1");
        check(r#"{"a":1 "b":2}"#, "a=1");
    }

    proptest! {
        #[test]
        fn any_text_is_read_to_an_end(text in "[{}\\[\\]:,\" a1\\\\ntruefalse]{0,60}") {
            prop_assert!(props(&text).count() <= text.len());
        }
    }
}
