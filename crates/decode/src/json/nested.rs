//! Objects and arrays that are kept as text: their syntax, and the limits of properties.

use super::MalformedBody;
use super::cursor::{JsonCursor, SyntaxError};
use super::text::JsonString;
use model::Reject;
use model::limits::{
    JSON_DEPTH_MAX, PROP_KEY_BYTES_MAX, PROP_STRING_BYTES_MAX, PROPS_DEPTH_MAX, PROPS_KEYS_MAX,
};

/// The state inside a nested value, in place of a recursion.
#[derive(Default)]
struct NestingState {
    /// A bit for each open bracket, the innermost lowest: one for an object.
    kinds: u32,
    /// JsonNumber of open brackets.
    open: usize,
    /// JsonNumber of keys of all objects.
    keys: usize,
    /// The first limit that was exceeded.
    violation: Option<Reject>,
}

const _: () = assert!(JSON_DEPTH_MAX <= u32::BITS as usize);

/// The next element to read.
#[derive(PartialEq)]
enum NextElement {
    Value,
    AfterValue,
    Nothing,
}

impl<'a> JsonCursor<'a> {
    /// Reads an object or array to its end. Returns the first limit of properties that it exceeds.
    pub(crate) fn nested(&mut self) -> Result<Option<Reject>, SyntaxError> {
        let mut state = NestingState::default();
        let mut next = NextElement::Value;
        while next != NextElement::Nothing {
            next = match next {
                NextElement::Value => self.nested_value(&mut state)?,
                _ => self.after_value(&mut state)?,
            };
        }
        Ok(state.violation)
    }

    /// Reads a scalar, or an opening bracket up to the first value inside.
    #[inline(always)]
    fn nested_value(&mut self, state: &mut NestingState) -> Result<NextElement, SyntaxError> {
        match self.peek() {
            b'"' => state.string(self.string()?),
            b'{' | b'[' => return self.enter(state),
            _ => {
                self.value()?;
            }
        }
        Ok(NextElement::AfterValue)
    }

    #[inline(always)]
    fn enter(&mut self, state: &mut NestingState) -> Result<NextElement, SyntaxError> {
        let is_object = self.peek() == b'{';
        if self.depth + state.open == JSON_DEPTH_MAX {
            return self.fail(MalformedBody::TooDeep { at: self.at });
        }
        state.enter(is_object);
        self.at += 1;
        self.skip_space();
        if self.peek() == state.closing() {
            return Ok(NextElement::AfterValue);
        }
        if is_object {
            state.key(self.key()?);
        }
        Ok(NextElement::Value)
    }

    /// Reads a comma up to the next value, or a closing bracket.
    #[inline(always)]
    fn after_value(&mut self, state: &mut NestingState) -> Result<NextElement, SyntaxError> {
        let expected = if state.is_in_object() { "',' or '}'" } else { "',' or ']'" };
        if !self.comma_or(state.closing(), expected)? {
            return Ok(state.leave());
        }
        if state.is_in_object() {
            state.key(self.key()?);
        }
        Ok(NextElement::Value)
    }
}

impl NestingState {
    fn enter(&mut self, is_object: bool) {
        self.kinds = self.kinds << 1 | u32::from(is_object);
        self.open += 1;
        self.check(self.open <= PROPS_DEPTH_MAX, Reject::PropsTooDeep);
    }

    fn leave(&mut self) -> NextElement {
        self.kinds >>= 1;
        self.open -= 1;
        if self.open == 0 { NextElement::Nothing } else { NextElement::AfterValue }
    }

    fn is_in_object(&self) -> bool {
        self.kinds & 1 == 1
    }

    fn closing(&self) -> u8 {
        if self.is_in_object() { b'}' } else { b']' }
    }

    fn key(&mut self, key: JsonString<'_>) {
        self.keys += 1;
        self.check(self.keys <= PROPS_KEYS_MAX, Reject::PropsTooManyKeys);
        self.check(key.len <= PROP_KEY_BYTES_MAX, Reject::PropKeyTooLong);
    }

    fn string(&mut self, string: JsonString<'_>) {
        self.check(string.len <= PROP_STRING_BYTES_MAX, Reject::PropStringTooLong);
    }

    #[inline(always)]
    fn check(&mut self, holds: bool, reject: Reject) {
        if !holds && self.violation.is_none() {
            self.violation = Some(reject);
        }
    }
}
