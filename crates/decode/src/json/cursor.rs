//! The syntax of JSON (RFC 8259), independent of events.

use super::MalformedBody;
use super::block::{BLOCK, block_at, special_bytes};
use super::number::JsonNumber;
use super::text::{JsonString, escape};
use model::Reject;

/// A position in a text that is read once from start to end.
pub(crate) struct JsonCursor<'a> {
    text: &'a str,
    /// Bytes read so far.
    pub at: usize,
    /// JsonNumber of arrays and objects around the next value.
    pub depth: usize,
    error: Option<MalformedBody>,
}

/// The text is not JSON. The cursor keeps the details, so that results stay small.
#[derive(Debug, PartialEq)]
pub(crate) struct SyntaxError;

/// A value, in the detail that the fields of an event need.
#[derive(Debug)]
pub(crate) enum JsonValue<'a> {
    Null,
    Bool,
    String(JsonString<'a>),
    Number(JsonNumber<'a>),
    Array,
    /// Its text, and the first limit of properties that it exceeds.
    Object(&'a str, Option<Reject>),
}

impl<'a> JsonCursor<'a> {
    pub(crate) fn new(text: &'a str, at: usize) -> Self {
        JsonCursor { text, at, depth: 0, error: None }
    }

    /// Returns the details after a [`SyntaxError`] error.
    pub(crate) fn into_error(self) -> MalformedBody {
        self.error.expect("every `SyntaxError` sets the error")
    }

    /// Returns the bytes that have not been read yet.
    #[inline(always)]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes().get(self.at..).unwrap_or_default()
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    /// Returns the next byte; zero, which is never valid, at the end.
    #[inline(always)]
    pub(crate) fn peek(&self) -> u8 {
        self.bytes().get(self.at).copied().unwrap_or(0)
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    #[inline(always)]
    pub(crate) fn skip_space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
    }

    /// Consumes `byte` if it is the next one.
    #[inline(always)]
    pub(crate) fn consume(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == byte;
        self.at += usize::from(is_next);
        is_next
    }

    /// Returns the text from `from` to here. Both positions are next to ASCII characters, so no character is split.
    #[inline(always)]
    pub(crate) fn since(&self, from: usize) -> &'a str {
        &self.text[from..self.at]
    }

    #[cold]
    pub(crate) fn expected<T>(&mut self, expected: &'static str) -> Result<T, SyntaxError> {
        self.fail(MalformedBody::Syntax { at: self.at.min(self.text.len()), expected })
    }

    #[cold]
    pub(crate) fn fail<T>(&mut self, error: MalformedBody) -> Result<T, SyntaxError> {
        self.error = Some(error);
        Err(SyntaxError)
    }

    /// Reads one value of any kind.
    #[inline(always)]
    pub(crate) fn value(&mut self) -> Result<JsonValue<'a>, SyntaxError> {
        match self.peek() {
            b'"' => self.string().map(JsonValue::String),
            b'-' | b'0'..=b'9' => self.number().map(JsonValue::Number),
            _ => self.other_value(),
        }
    }

    #[inline(never)]
    fn other_value(&mut self) -> Result<JsonValue<'a>, SyntaxError> {
        match self.peek() {
            b'{' => {
                let from = self.at;
                let violation = self.nested()?;
                Ok(JsonValue::Object(self.since(from), violation))
            }
            b'[' => self.nested().map(|_| JsonValue::Array),
            b'n' => self.literal("null", JsonValue::Null),
            b't' => self.literal("true", JsonValue::Bool),
            b'f' => self.literal("false", JsonValue::Bool),
            _ => self.expected("a value"),
        }
    }

    fn literal(&mut self, literal: &'static str, value: JsonValue<'a>) -> Result<JsonValue<'a>, SyntaxError> {
        if !self.bytes()[self.at..].starts_with(literal.as_bytes()) {
            return self.expected("a value");
        }
        self.at += literal.len();
        Ok(value)
    }

    /// Reads a key and the colon after it.
    #[inline(always)]
    pub(crate) fn key(&mut self) -> Result<JsonString<'a>, SyntaxError> {
        if self.peek() != b'"' {
            return self.expected("a key in double quotes");
        }
        let key = self.string()?;
        self.colon()?;
        Ok(key)
    }

    /// Reads the colon after a key, and the white space around it.
    #[inline(always)]
    pub(crate) fn colon(&mut self) -> Result<(), SyntaxError> {
        self.skip_space();
        if self.peek() != b':' {
            return self.expected("':'");
        }
        self.at += 1;
        self.skip_space();
        Ok(())
    }

    /// After a value, returns true if a comma and another value follow, and false at the closing bracket.
    ///
    /// A branch for each case and no arithmetic: the processor then predicts early where the next key starts.
    #[inline(always)]
    pub(crate) fn comma_or(&mut self, closing: u8, expected: &'static str) -> Result<bool, SyntaxError> {
        self.skip_space();
        let next = self.peek();
        if next == b',' {
            self.at += 1;
            self.skip_space();
            Ok(true)
        } else if next == closing {
            self.at += 1;
            Ok(false)
        } else {
            self.expected(expected)
        }
    }

    /// Reads a string, starting at its opening quote.
    #[inline(always)]
    pub(crate) fn string(&mut self) -> Result<JsonString<'a>, SyntaxError> {
        let from = self.at + 1;
        self.at = self.next_special(from);
        if self.peek() != b'"' {
            return self.string_with_escapes(from);
        }
        let raw = self.since(from);
        self.at += 1;
        Ok(JsonString { raw, len: raw.len() })
    }

    /// Returns the position of the next quote, backslash or control character, or the end.
    #[inline(always)]
    fn next_special(&self, mut at: usize) -> usize {
        loop {
            let special = special_bytes(&block_at(self.bytes(), at));
            if special != 0 {
                return at + special.trailing_zeros() as usize;
            }
            at += BLOCK;
        }
    }

    #[cold]
    fn string_with_escapes(&mut self, from: usize) -> Result<JsonString<'a>, SyntaxError> {
        let mut saved = 0;
        while self.peek() == b'\\' {
            let Some((character, len)) = escape(&self.bytes()[self.at..]) else {
                return self.expected("a valid escape");
            };
            saved += len - character.len_utf8();
            self.at = self.next_special(self.at + len);
        }
        if self.peek() != b'"' {
            return self.expected("'\"' at the end of the string");
        }
        let raw = self.since(from);
        self.at += 1;
        Ok(JsonString { raw, len: raw.len() - saved })
    }

    /// Reads a number, starting at its sign or first digit.
    #[inline(always)]
    pub(crate) fn number(&mut self) -> Result<JsonNumber<'a>, SyntaxError> {
        let from = self.at;
        self.consume(b'-');
        let mut mantissa = 0;
        let leads_with_zero = self.peek() == b'0';
        let mut digits = self.digits(&mut mantissa)?;
        if leads_with_zero && digits > 1 {
            return self.expected("no digit after a leading zero");
        }
        let decimals = if self.consume(b'.') { self.digits(&mut mantissa)? } else { 0 };
        digits += decimals;
        let has_exponent = matches!(self.peek(), b'e' | b'E');
        if has_exponent {
            self.exponent()?;
        }
        Ok(JsonNumber { text: self.since(from), mantissa, digits, decimals, has_exponent })
    }

    /// Reads at least one digit; `mantissa` wraps if there are more than fit, and is not used then.
    #[inline(always)]
    fn digits(&mut self, mantissa: &mut u64) -> Result<usize, SyntaxError> {
        let from = self.at;
        while let digit @ b'0'..=b'9' = self.peek() {
            *mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            self.at += 1;
        }
        if self.at == from { self.expected("a digit") } else { Ok(self.at - from) }
    }

    #[cold]
    fn exponent(&mut self) -> Result<(), SyntaxError> {
        self.at += 1;
        if matches!(self.peek(), b'+' | b'-') {
            self.at += 1;
        }
        self.digits(&mut 0).map(|_| ())
    }
}
