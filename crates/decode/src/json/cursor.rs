//! JSON as a sequence of steps: the syntax of RFC 8259 and no word about events.

use super::Malformed;
use super::block::{BLOCK, block_at, special_bytes};
use super::number::Number;
use super::text::{Text, escape};
use model::Reject;

/// A place in a text that is read from its beginning to its end, once.
pub(crate) struct Cursor<'a> {
    text: &'a str,
    /// Bytes read so far.
    pub at: usize,
    /// How many arrays and objects are around the next value.
    pub depth: usize,
    fault: Option<Malformed>,
}

/// The text is not JSON; why is kept by the cursor, so that answers stay small.
#[derive(Debug, PartialEq)]
pub(crate) struct Broken;

/// What stands after a key, as far as the fields of an event have to know.
#[derive(Debug)]
pub(crate) enum Value<'a> {
    Null,
    Bool,
    Text(Text<'a>),
    Number(Number<'a>),
    Array,
    /// Its text, and the first limit of properties that it breaks.
    Object(&'a str, Option<Reject>),
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str, at: usize) -> Self {
        Cursor { text, at, depth: 0, fault: None }
    }

    /// What was wrong, after an answer of [`Broken`].
    pub fn fault(self) -> Malformed {
        self.fault.expect("who answers `Broken` says why")
    }

    /// What has not been read yet.
    #[inline(always)]
    pub fn rest(&self) -> &'a [u8] {
        self.bytes().get(self.at..).unwrap_or_default()
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    /// The next byte; zero, which is nowhere allowed, at the end.
    #[inline(always)]
    pub fn peek(&self) -> u8 {
        self.bytes().get(self.at).copied().unwrap_or(0)
    }

    pub fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    #[inline(always)]
    pub fn skip_space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
    }

    /// Takes `byte` if it is the next one.
    #[inline(always)]
    pub fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == byte;
        self.at += usize::from(is_next);
        is_next
    }

    /// The text from `from` to here. Both are places beside ASCII, so no character is cut.
    #[inline(always)]
    pub fn since(&self, from: usize) -> &'a str {
        &self.text[from..self.at]
    }

    #[cold]
    pub fn expected<T>(&mut self, expected: &'static str) -> Result<T, Broken> {
        self.fail(Malformed::Syntax { at: self.at.min(self.text.len()), expected })
    }

    #[cold]
    pub fn fail<T>(&mut self, fault: Malformed) -> Result<T, Broken> {
        self.fault = Some(fault);
        Err(Broken)
    }

    /// Reads one value of any kind.
    #[inline(always)]
    pub fn value(&mut self) -> Result<Value<'a>, Broken> {
        match self.peek() {
            b'"' => self.string().map(Value::Text),
            b'-' | b'0'..=b'9' => self.number().map(Value::Number),
            _ => self.other_value(),
        }
    }

    #[inline(never)]
    fn other_value(&mut self) -> Result<Value<'a>, Broken> {
        match self.peek() {
            b'{' => {
                let from = self.at;
                let breach = self.nested()?;
                Ok(Value::Object(self.since(from), breach))
            }
            b'[' => self.nested().map(|_| Value::Array),
            b'n' => self.word("null", Value::Null),
            b't' => self.word("true", Value::Bool),
            b'f' => self.word("false", Value::Bool),
            _ => self.expected("a value"),
        }
    }

    fn word(&mut self, word: &'static str, value: Value<'a>) -> Result<Value<'a>, Broken> {
        if !self.bytes()[self.at..].starts_with(word.as_bytes()) {
            return self.expected("a value");
        }
        self.at += word.len();
        Ok(value)
    }

    /// A key and the colon after it.
    #[inline(always)]
    pub fn key(&mut self) -> Result<Text<'a>, Broken> {
        if self.peek() != b'"' {
            return self.expected("a key in double quotes");
        }
        let key = self.string()?;
        self.colon()?;
        Ok(key)
    }

    /// The colon after a key, and the space around it.
    #[inline(always)]
    pub fn colon(&mut self) -> Result<(), Broken> {
        self.skip_space();
        if self.peek() != b':' {
            return self.expected("':'");
        }
        self.at += 1;
        self.skip_space();
        Ok(())
    }

    /// After a value: whether a comma follows, and so something after it, rather than the bracket.
    ///
    /// A branch for each, and no arithmetic: where the next key begins is then guessed early.
    #[inline(always)]
    pub fn comma_or(&mut self, closing: u8, expected: &'static str) -> Result<bool, Broken> {
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

    /// A string, from its opening quote on.
    #[inline(always)]
    pub fn string(&mut self) -> Result<Text<'a>, Broken> {
        let from = self.at + 1;
        self.at = self.next_special(from);
        if self.peek() != b'"' {
            return self.string_with_escapes(from);
        }
        let raw = self.since(from);
        self.at += 1;
        Ok(Text { raw, len: raw.len() })
    }

    /// The place of the next quote, backslash, control character or the end.
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
    fn string_with_escapes(&mut self, from: usize) -> Result<Text<'a>, Broken> {
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
        Ok(Text { raw, len: raw.len() - saved })
    }

    /// A number, from its sign or first digit on.
    #[inline(always)]
    pub fn number(&mut self) -> Result<Number<'a>, Broken> {
        let from = self.at;
        self.take(b'-');
        let mut mantissa = 0;
        let leads_with_zero = self.peek() == b'0';
        let mut digits = self.digits(&mut mantissa)?;
        if leads_with_zero && digits > 1 {
            return self.expected("no digit after a leading zero");
        }
        let decimals = if self.take(b'.') { self.digits(&mut mantissa)? } else { 0 };
        digits += decimals;
        let has_exponent = matches!(self.peek(), b'e' | b'E');
        if has_exponent {
            self.exponent()?;
        }
        Ok(Number { text: self.since(from), mantissa, digits, decimals, has_exponent })
    }

    /// At least one digit; `mantissa` wraps if there are more than fit, and then it is not used.
    #[inline(always)]
    fn digits(&mut self, mantissa: &mut u64) -> Result<usize, Broken> {
        let from = self.at;
        while let digit @ b'0'..=b'9' = self.peek() {
            *mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            self.at += 1;
        }
        if self.at == from { self.expected("a digit") } else { Ok(self.at - from) }
    }

    #[cold]
    fn exponent(&mut self) -> Result<(), Broken> {
        self.at += 1;
        if matches!(self.peek(), b'+' | b'-') {
            self.at += 1;
        }
        self.digits(&mut 0).map(|_| ())
    }
}
