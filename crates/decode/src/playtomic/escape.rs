//! Undoing what SDKs in seven languages take for URL escaping.

use std::borrow::Cow;

/// The first parameter of this name in a query string or form, unescaped. A parameter without `=` is empty.
pub fn parameter<'a>(query: &'a str, name: &str) -> Option<Cow<'a, str>> {
    raw_parameter(query, name).map(unescape)
}

/// The first parameter of this name as it was sent.
pub(super) fn raw_parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// A piece of text: URL escapes undone, then `/`, which was sent as `\`.
///
/// `~` was sent as `-`, which is left alone: almost every `-` was one.
pub(super) fn text(raw: &str) -> Cow<'_, str> {
    let text = unescape(raw);
    if text.contains('\\') { Cow::Owned(text.replace('\\', "/")) } else { text }
}

/// `+` is a space, `%41` a byte and `%u0041` a UTF-16 unit, as the `escape` of browsers writes it. What is no escape
/// stands for itself.
pub(super) fn unescape(raw: &str) -> Cow<'_, str> {
    if !raw.contains(['%', '+']) {
        return Cow::Borrowed(raw);
    }
    Cow::Owned(if has_units(raw) { of_units(raw) } else { of_bytes(raw) })
}

/// Escaped UTF-8 or, if it is none, escaped Latin-1: browsers' `escape` writes `é` as `%E9`.
fn of_bytes(raw: &str) -> String {
    let mut bytes = Vec::with_capacity(raw.len());
    for step in steps(raw) {
        match step {
            Step::Byte(byte) => bytes.push(byte),
            Step::Unit(_) => unreachable!("text with UTF-16 units is read by `of_units`"),
            Step::Char(char) => bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => of_units(raw),
    }
}

/// All escapes are UTF-16 units, those of two digits Latin-1.
fn of_units(raw: &str) -> String {
    let mut units = Vec::with_capacity(raw.len());
    for step in steps(raw) {
        match step {
            Step::Byte(byte) => units.push(u16::from(byte)),
            Step::Unit(unit) => units.push(unit),
            Step::Char(char) => units.extend_from_slice(char.encode_utf16(&mut [0; 2])),
        }
    }
    String::from_utf16_lossy(&units)
}

fn has_units(raw: &str) -> bool {
    raw.contains("%u") && steps(raw).any(|step| matches!(step, Step::Unit(_)))
}

enum Step {
    Byte(u8),
    Unit(u16),
    Char(char),
}

fn steps(raw: &str) -> impl Iterator<Item = Step> {
    let mut rest = raw;
    std::iter::from_fn(move || {
        let (step, after) = next_step(rest)?;
        rest = after;
        Some(step)
    })
}

fn next_step(rest: &str) -> Option<(Step, &str)> {
    let char = rest.chars().next()?;
    let plain = &rest[char.len_utf8()..];
    match char {
        '+' => Some((Step::Char(' '), plain)),
        '%' => Some(escaped(plain).unwrap_or((Step::Char('%'), plain))),
        char => Some((Step::Char(char), plain)),
    }
}

/// What stands behind a `%`, if it is an escape.
fn escaped(rest: &str) -> Option<(Step, &str)> {
    if let Some(digits) = rest.strip_prefix('u') {
        return Some((Step::Unit(hexadecimal(digits, 4)?), &digits[4..]));
    }
    Some((Step::Byte(hexadecimal(rest, 2)? as u8), &rest[2..]))
}

fn hexadecimal(text: &str, digits: usize) -> Option<u16> {
    let digits = text.get(..digits).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
    u16::from_str_radix(digits, 16).ok()
}
