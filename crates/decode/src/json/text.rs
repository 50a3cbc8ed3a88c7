//! A JSON string: where it stands in the source, and what it says.

use std::borrow::Cow;

/// The inside of a string whose syntax has been checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'a> {
    /// Between the quotes, as it was sent.
    pub raw: &'a str,
    /// Bytes after unescaping. Every escape is longer than what it stands for, so a length that
    /// equals the source's means that there are none.
    pub len: usize,
}

impl<'a> Text<'a> {
    /// Whether it has no escapes.
    #[inline(always)]
    pub fn is_plain(self) -> bool {
        self.len == self.raw.len()
    }

    /// What the string says, borrowed if it has no escapes. A lone surrogate becomes U+FFFD.
    #[inline(always)]
    pub fn cow(self) -> Cow<'a, str> {
        if self.is_plain() { Cow::Borrowed(self.raw) } else { Cow::Owned(unescape(self)) }
    }
}

#[cold]
fn unescape(text: Text<'_>) -> String {
    let mut said = String::with_capacity(text.len);
    let mut rest = text.raw;
    while let Some(backslash) = rest.find('\\') {
        said.push_str(&rest[..backslash]);
        let (character, len) = escape(&rest.as_bytes()[backslash..]).expect("the syntax has been checked");
        said.push(character);
        rest = &rest[backslash + len..];
    }
    said.push_str(rest);
    said
}

/// The character that the escape at the start of `source` stands for, and the escape's length.
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

/// The four digits of a `\u` escape.
fn code_unit(source: &[u8]) -> Option<u32> {
    let [b'\\', b'u', digits @ ..] = source.first_chunk::<6>()? else { return None };
    digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | char::from(digit).to_digit(16)?))
}
