//! A JSON string: its source text and its value.

use std::borrow::Cow;

/// The inside of a string whose syntax has been checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonString<'a> {
    /// The text between the quotes, as it was sent.
    pub raw: &'a str,
    /// Bytes after unescaping. Every escape is longer than its character, so a length equal to that of the source means that
    /// there are no escapes.
    pub len: usize,
}

impl<'a> JsonString<'a> {
    /// Returns true if it has no escapes.
    #[inline(always)]
    pub(crate) fn is_plain(self) -> bool {
        self.len == self.raw.len()
    }

    /// Returns the value, borrowed if it has no escapes. A lone surrogate becomes U+FFFD.
    #[inline(always)]
    pub(crate) fn cow(self) -> Cow<'a, str> {
        if self.is_plain() { Cow::Borrowed(self.raw) } else { Cow::Owned(unescape(self)) }
    }
}

#[cold]
fn unescape(text: JsonString<'_>) -> String {
    let mut unescaped = String::with_capacity(text.len);
    let mut rest = text.raw;
    while let Some(backslash) = rest.find('\\') {
        unescaped.push_str(&rest[..backslash]);
        let (character, len) = escape(&rest.as_bytes()[backslash..]).expect("the syntax has been checked");
        unescaped.push(character);
        rest = &rest[backslash + len..];
    }
    unescaped.push_str(rest);
    unescaped
}

/// Returns the character of the escape at the start of `source`, and the escape's length.
pub(super) fn escape(source: &[u8]) -> Option<(char, usize)> {
    let character = match source.get(1)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unicode_escape(source),
        _ => return None,
    };
    Some((character, 2))
}

fn unicode_escape(source: &[u8]) -> Option<(char, usize)> {
    let unit = code_unit(source)?;
    if let (0xd800..=0xdbff, Some(low @ 0xdc00..=0xdfff)) = (unit, source.get(6..).and_then(code_unit)) {
        let character = char::from_u32(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
        return character.map(|character| (character, 12));
    }
    Some((char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER), 6))
}

/// Reads the four digits of a `\u` escape.
fn code_unit(source: &[u8]) -> Option<u32> {
    let [b'\\', b'u', digits @ ..] = source.first_chunk::<6>()? else { return None };
    digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | char::from(digit).to_digit(16)?))
}
