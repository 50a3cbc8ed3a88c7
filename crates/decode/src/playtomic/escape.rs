//! Reverts the URL escaping of SDKs in seven languages.

use std::borrow::Cow;

/// Returns the first parameter of this name in a query string or form, unescaped. A parameter without `=` is empty.
pub fn query_parameter<'a>(query: &'a str, name: &str) -> Option<Cow<'a, str>> {
    raw_parameter(query, name).map(unescape)
}

/// Returns the first parameter of this name as it was sent.
pub(super) fn raw_parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// Returns a text without URL escapes and with `/` restored, which SDKs send as `\`.
///
/// SDKs also send `~` as `-`, which is left alone: almost every `-` was one.
pub(super) fn text(raw: &str) -> Cow<'_, str> {
    let text = unescape(raw);
    if text.contains('\\') { Cow::Owned(text.replace('\\', "/")) } else { text }
}

/// Reverts URL escapes: `+` is a space, `%41` a byte and `%u0041` a UTF-16 unit, as in the `escape` of browsers. Text that
/// is not an escape is left alone.
pub(super) fn unescape(raw: &str) -> Cow<'_, str> {
    if !raw.contains(['%', '+']) {
        return Cow::Borrowed(raw);
    }
    Cow::Owned(if has_units(raw) { decode_units(raw) } else { decode_bytes(raw) })
}

/// Decodes escaped UTF-8 or, if invalid, escaped Latin-1: browsers' `escape` writes `é` as `%E9`.
fn decode_bytes(raw: &str) -> String {
    let mut bytes = Vec::with_capacity(raw.len());
    for token in tokens(raw) {
        match token {
            EscapeToken::Byte(byte) => bytes.push(byte),
            EscapeToken::Unit(_) => unreachable!("text with UTF-16 units is read by `decode_units`"),
            EscapeToken::Char(char) => bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => decode_units(raw),
    }
}

/// Decodes all escapes as UTF-16 units, those of two digits as Latin-1.
fn decode_units(raw: &str) -> String {
    let mut units = Vec::with_capacity(raw.len());
    for token in tokens(raw) {
        match token {
            EscapeToken::Byte(byte) => units.push(u16::from(byte)),
            EscapeToken::Unit(unit) => units.push(unit),
            EscapeToken::Char(char) => units.extend_from_slice(char.encode_utf16(&mut [0; 2])),
        }
    }
    String::from_utf16_lossy(&units)
}

fn has_units(raw: &str) -> bool {
    raw.contains("%u") && tokens(raw).any(|token| matches!(token, EscapeToken::Unit(_)))
}

enum EscapeToken {
    Byte(u8),
    Unit(u16),
    Char(char),
}

fn tokens(raw: &str) -> impl Iterator<Item = EscapeToken> {
    let mut rest = raw;
    std::iter::from_fn(move || {
        let (token, after) = next_token(rest)?;
        rest = after;
        Some(token)
    })
}

fn next_token(rest: &str) -> Option<(EscapeToken, &str)> {
    let char = rest.chars().next()?;
    let plain = &rest[char.len_utf8()..];
    match char {
        '+' => Some((EscapeToken::Char(' '), plain)),
        '%' => Some(escaped(plain).unwrap_or((EscapeToken::Char('%'), plain))),
        char => Some((EscapeToken::Char(char), plain)),
    }
}

/// Reads the escape after a `%`, if there is one.
fn escaped(rest: &str) -> Option<(EscapeToken, &str)> {
    if let Some(digits) = rest.strip_prefix('u') {
        return Some((EscapeToken::Unit(hexadecimal(digits, 4)?), &digits[4..]));
    }
    Some((EscapeToken::Byte(hexadecimal(rest, 2)? as u8), &rest[2..]))
}

fn hexadecimal(text: &str, digits: usize) -> Option<u16> {
    let digits = text.get(..digits).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
    u16::from_str_radix(digits, 16).ok()
}
