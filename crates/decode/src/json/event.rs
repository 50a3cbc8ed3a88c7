//! One event: its fields and their valid values.

use super::block::special_bytes;
use super::cursor::{JsonCursor, JsonValue, SyntaxError};
use super::number::JsonNumber;
use super::text::JsonString;
use super::time;
use model::limits::{DIMENSION_BYTES_MAX, EVENT_BYTES_MAX, PLAYER_BYTES_MAX};
use model::placeholder_id::is_placeholder_id;
use model::uuid;
use model::{Dimension, RawEvent, Reject};
use std::borrow::Cow;

/// A key of at most eight bytes, the first one lowest, padded with zeros: compared in one step. No key has a zero byte,
/// and every field's name is short enough.
pub(crate) type FieldKey = u64;

/// A key that is not the name of a field.
const OTHER: FieldKey = 0;

/// Returns `name` as a [`FieldKey`].
pub(super) const fn key(name: &[u8]) -> FieldKey {
    let mut key = 0;
    let mut i = 0;
    while i < name.len() {
        key |= (name[i] as u64) << (8 * i);
        i += 1;
    }
    key
}

const EVENT: FieldKey = key(b"event");
const ID: FieldKey = key(b"id");
const TS: FieldKey = key(b"ts");
const PLAYER: FieldKey = key(b"player");
const SESSION: FieldKey = key(b"session");
const VALUE: FieldKey = key(b"value");
const PROPS: FieldKey = key(b"props");
const COUNTRY: FieldKey = key(b"country");
const SOURCE: FieldKey = key(b"source");
const PLATFORM: FieldKey = key(b"platform");
const VERSION: FieldKey = key(b"version");
const LEVEL: FieldKey = key(b"level");
const EVENTS: FieldKey = key(b"events");

/// The result of reading an object as an event.
#[derive(Debug, PartialEq)]
pub(super) enum ObjectResult {
    /// The event is complete.
    Event,
    /// The event violates a rule; its text has been read to the end.
    Rejected(Reject),
    /// The object has the key `events`, and was read only up to there.
    Envelope,
}

impl<'a> JsonCursor<'a> {
    /// Reads an object, starting at its opening bracket, into `event`, which is new.
    #[inline(always)]
    pub(super) fn event(&mut self, event: &mut RawEvent<'a>) -> Result<ObjectResult, SyntaxError> {
        let from = self.at;
        let mut rejected = None;
        self.at += 1;
        self.depth += 1;
        self.skip_space();
        let mut has_more = !self.consume(b'}');
        while has_more {
            let key = self.field_key()?;
            if key == EVENTS && self.depth == 1 {
                return Ok(ObjectResult::Envelope);
            }
            if let Err(reject) = self.field(event, key)? {
                rejected = rejected.or(Some(reject));
            }
            has_more = self.comma_or(b'}', "',' or '}'")?;
        }
        self.depth -= 1;
        if self.at - from > EVENT_BYTES_MAX {
            rejected = rejected.or(Some(Reject::EventTooLarge));
        }
        Ok(rejected.map_or(ObjectResult::Event, ObjectResult::Rejected))
    }

    /// Reads a value into the field of this name. One function for each kind of value: passing on a [`JsonValue`] was slower
    /// than reading it.
    #[inline(always)]
    fn field(&mut self, event: &mut RawEvent<'a>, key: FieldKey) -> Result<Result<(), Reject>, SyntaxError> {
        match self.peek() {
            b'"' if key == ID && self.canonical_id(event) => Ok(Ok(())),
            b'"' if key == TS && self.canonical_ts(event) => Ok(Ok(())),
            b'"' => self.string().map(|text| put_text(event, key, text)),
            b'-' | b'0'..=b'9' => self.number().map(|number| put_number(event, key, number)),
            _ => self.value().map(|value| put_other(event, key, value)),
        }
    }

    /// Reads an id of the usual form without a search for the end of the string.
    #[inline(always)]
    fn canonical_id(&mut self, event: &mut RawEvent<'a>) -> bool {
        let Some([b'"', text @ .., b'"']) = self.rest().first_chunk::<38>() else { return false };
        let Some(id) = uuid::parse(text) else { return false };
        event.id = (id != 0).then_some(id);
        self.at += 38;
        true
    }

    /// Reads a time in the form of JavaScript, with milliseconds and a `Z`.
    #[inline(always)]
    fn canonical_ts(&mut self, event: &mut RawEvent<'a>) -> bool {
        let Some([b'"', text @ .., b'"']) = self.rest().first_chunk::<26>() else { return false };
        let Some(ts_ms) = time::rfc3339_ms(text) else { return false };
        event.ts_ms = Some(ts_ms);
        self.at += 26;
        true
    }

    /// Reads a key and the colon after it. All common keys fit one block.
    #[inline(always)]
    pub(crate) fn field_key(&mut self) -> Result<FieldKey, SyntaxError> {
        let Some((b'"', rest)) = self.rest().split_first() else { return self.uncommon_key() };
        let Some(block) = rest.first_chunk() else { return self.uncommon_key() };
        let len = special_bytes(block).trailing_zeros();
        if len > 8 || block[len as usize] != b'"' || block[len as usize + 1] != b':' {
            return self.uncommon_key();
        }
        let (name, _) = block.split_first_chunk().expect("eight of sixteen");
        self.at += len as usize + 3;
        self.skip_space();
        Ok(u64::from_le_bytes(*name) & !u64::MAX.unbounded_shl(8 * len))
    }

    #[cold]
    fn uncommon_key(&mut self) -> Result<FieldKey, SyntaxError> {
        let text = self.key()?;
        if text.len > 8 {
            return Ok(OTHER);
        }
        let name = text.cow();
        Ok(if name.contains('\0') { OTHER } else { key(name.as_bytes()) })
    }
}

/// Returns the slot of a dimension in an event.
#[inline(always)]
fn slot<'a, 'b>(event: &'b mut RawEvent<'a>, dimension: Dimension) -> &'b mut Option<Cow<'a, str>> {
    &mut event.dimensions[dimension as usize]
}

#[inline(always)]
fn put_text<'a>(event: &mut RawEvent<'a>, key: FieldKey, text: JsonString<'a>) -> Result<(), Reject> {
    match key {
        EVENT => event.name = Some(text.cow()),
        ID => event.id = id(text)?,
        TS => event.ts_ms = Some(rfc3339_ms(text).ok_or(Reject::TimestampInvalid)?),
        PLAYER => event.player = opaque_id(text.cow(), Reject::PlayerTooLong)?,
        SESSION => event.session = opaque_id(text.cow(), Reject::SessionTooLong)?,
        COUNTRY => *slot(event, Dimension::Country) = country(text.cow())?,
        SOURCE => *slot(event, Dimension::Source) = dimension(text.cow())?,
        PLATFORM => *slot(event, Dimension::Platform) = dimension(text.cow())?,
        VERSION => *slot(event, Dimension::Version) = dimension(text.cow())?,
        LEVEL => *slot(event, Dimension::Level) = dimension(text.cow())?,
        _ => return Err(wrong_type(key)),
    }
    Ok(())
}

/// Returns the field of this name if it takes a text or a number.
pub(crate) fn field_key(name: &str) -> Option<FieldKey> {
    let is_plain = matches!(name, "event" | "id" | "ts" | "player" | "session" | "value");
    (is_plain || Dimension::from_label(name).is_some()).then(|| key(name.as_bytes()))
}

/// Sets a field to an unquoted text, which may be meant as a number.
pub(crate) fn put_plain<'a>(event: &mut RawEvent<'a>, key: FieldKey, text: &'a str) -> Result<(), Reject> {
    match (key, text.parse::<i64>()) {
        (VALUE, _) => event.value = Some(crate::decimal::parse_finite(text)?),
        (TS, Ok(ts_ms)) if time::EPOCH_MS.contains(&ts_ms) => event.ts_ms = Some(ts_ms),
        _ => put_text(event, key, JsonString { raw: text, len: text.len() })?,
    }
    Ok(())
}

#[inline(always)]
fn put_number<'a>(event: &mut RawEvent<'a>, key: FieldKey, number: JsonNumber<'a>) -> Result<(), Reject> {
    match key {
        VALUE => event.value = Some(finite(number)?),
        TS => event.ts_ms = Some(epoch_ms(number).ok_or(Reject::TimestampInvalid)?),
        PLAYER | SESSION | COUNTRY | SOURCE | PLATFORM | VERSION | LEVEL => {
            return put_whole_number(event, key, number);
        }
        _ => return Err(wrong_type(key)),
    }
    Ok(())
}

/// Sets a text field to a whole number, as it is written.
fn put_whole_number<'a>(
    event: &mut RawEvent<'a>,
    key: FieldKey,
    number: JsonNumber<'a>,
) -> Result<(), Reject> {
    let text = number.whole().ok_or(wrong_type(key))?;
    match key {
        PLAYER => event.player = opaque_id(text, Reject::PlayerTooLong)?,
        SESSION => event.session = opaque_id(text, Reject::SessionTooLong)?,
        COUNTRY => *slot(event, Dimension::Country) = country(text)?,
        SOURCE => *slot(event, Dimension::Source) = dimension(text)?,
        PLATFORM => *slot(event, Dimension::Platform) = dimension(text)?,
        VERSION => *slot(event, Dimension::Version) = dimension(text)?,
        _ => *slot(event, Dimension::Level) = dimension(text)?,
    }
    Ok(())
}

/// Sets a field to an object, array or literal. `null` means an absent value, except for the required name.
fn put_other<'a>(event: &mut RawEvent<'a>, key: FieldKey, value: JsonValue<'a>) -> Result<(), Reject> {
    match (key, value) {
        (ID, JsonValue::Null) => event.id = None,
        (TS, JsonValue::Null) => event.ts_ms = None,
        (PLAYER, JsonValue::Null) => event.player = None,
        (SESSION, JsonValue::Null) => event.session = None,
        (VALUE, JsonValue::Null) => event.value = None,
        (COUNTRY, JsonValue::Null) => *slot(event, Dimension::Country) = None,
        (SOURCE, JsonValue::Null) => *slot(event, Dimension::Source) = None,
        (PLATFORM, JsonValue::Null) => *slot(event, Dimension::Platform) = None,
        (VERSION, JsonValue::Null) => *slot(event, Dimension::Version) = None,
        (LEVEL, JsonValue::Null) => *slot(event, Dimension::Level) = None,
        (PROPS, JsonValue::Null) => event.props = None,
        (PROPS, JsonValue::Object(text, None)) => event.props = Some(text),
        (PROPS, JsonValue::Object(_, Some(violation))) => return Err(violation),
        _ => return Err(wrong_type(key)),
    }
    Ok(())
}

/// Returns the reason for a value of the wrong type in the field of this name.
#[cold]
fn wrong_type(key: FieldKey) -> Reject {
    match key {
        EVENT => Reject::EventNameNotAString,
        ID => Reject::IdNotAUuid,
        TS => Reject::TimestampInvalid,
        PLAYER => Reject::PlayerNotAString,
        SESSION => Reject::SessionNotAString,
        VALUE => Reject::ValueNotANumber,
        PROPS => Reject::PropsNotAnObject,
        COUNTRY | SOURCE | PLATFORM | VERSION | LEVEL => Reject::DimensionNotAString,
        _ => Reject::UnknownField,
    }
}

/// Parses an id. An all-zero UUID comes from programs without a source of ids and would make all their events duplicates
/// of the first.
#[inline(always)]
fn id(text: JsonString<'_>) -> Result<Option<u128>, Reject> {
    let id =
        if text.is_plain() { uuid::parse(text.raw.as_bytes()) } else { uuid::parse(text.cow().as_bytes()) };
    match id {
        Some(0) => Ok(None),
        Some(id) => Ok(Some(id)),
        None => Err(Reject::IdNotAUuid),
    }
}

/// Reads RFC 3339 or epoch milliseconds, of the years 0 to 9999.
pub(crate) fn instant_ms(value: JsonValue<'_>) -> Option<i64> {
    match value {
        JsonValue::String(text) => rfc3339_ms(text),
        JsonValue::Number(number) => epoch_ms(number),
        _ => None,
    }
}

#[inline(always)]
fn rfc3339_ms(text: JsonString<'_>) -> Option<i64> {
    if text.is_plain() {
        time::rfc3339_ms(text.raw.as_bytes())
    } else {
        time::rfc3339_ms(text.cow().as_bytes())
    }
}

#[inline(always)]
fn epoch_ms(number: JsonNumber<'_>) -> Option<i64> {
    number.truncated().filter(|ms| time::EPOCH_MS.contains(ms))
}

#[inline(always)]
fn opaque_id(id: Cow<'_, str>, too_long: Reject) -> Result<Option<Cow<'_, str>>, Reject> {
    if id.len() > PLAYER_BYTES_MAX {
        return Err(too_long);
    }
    Ok(if is_placeholder_id(&id) { None } else { Some(id) })
}

#[inline(always)]
fn dimension(text: Cow<'_, str>) -> Result<Option<Cow<'_, str>>, Reject> {
    if text.len() > DIMENSION_BYTES_MAX {
        return Err(Reject::DimensionTooLong);
    }
    Ok(if text.is_empty() { None } else { Some(text) })
}

/// All possible codes, so that upper case needs no allocation.
static COUNTRIES: [u8; 2 * 26 * 26] = {
    let mut codes = [0; 2 * 26 * 26];
    let mut i = 0;
    while i < 26 * 26 {
        codes[2 * i] = b'A' + (i / 26) as u8;
        codes[2 * i + 1] = b'A' + (i % 26) as u8;
        i += 1;
    }
    codes
};

#[inline(always)]
fn country(text: Cow<'_, str>) -> Result<Option<Cow<'_, str>>, Reject> {
    match *text.as_bytes() {
        [] => Ok(None),
        [first, second] if first.is_ascii_alphabetic() && second.is_ascii_alphabetic() => {
            Ok(Some(Cow::Borrowed(country_code(first, second))))
        }
        _ => Err(Reject::CountryInvalid),
    }
}

#[inline(always)]
fn country_code(first: u8, second: u8) -> &'static str {
    let place = |letter: u8| usize::from(letter.to_ascii_uppercase() - b'A');
    let at = 2 * (26 * place(first) + place(second));
    str::from_utf8(&COUNTRIES[at..at + 2]).expect("letters are UTF-8")
}

#[inline(always)]
fn finite(number: JsonNumber<'_>) -> Result<f64, Reject> {
    let value = number.value();
    if value.is_finite() { Ok(value) } else { Err(Reject::ValueNotFinite) }
}
