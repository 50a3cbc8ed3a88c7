//! One event: which fields there are, and what each of them may be.

use super::block::special_bytes;
use super::cursor::{Broken, Cursor, Value};
use super::number::Number;
use super::text::Text;
use super::time;
use model::limits::{DIMENSION_BYTES_MAX, EVENT_BYTES_MAX, PLAYER_BYTES_MAX};
use model::placeholder_id::is_placeholder_id;
use model::uuid;
use model::{Dimension, RawEvent, Reject};
use std::borrow::Cow;

/// A key of at most eight bytes, the first one lowest, zeros behind: compared in one step. No key
/// has a zero byte, and every field's name is that short.
pub(crate) type Key = u64;

/// No name of a field.
const OTHER: Key = 0;

/// `name` as a [`Key`].
pub(super) const fn key(name: &[u8]) -> Key {
    let mut key = 0;
    let mut i = 0;
    while i < name.len() {
        key |= (name[i] as u64) << (8 * i);
        i += 1;
    }
    key
}

const EVENT: Key = key(b"event");
const ID: Key = key(b"id");
const TS: Key = key(b"ts");
const PLAYER: Key = key(b"player");
const SESSION: Key = key(b"session");
const VALUE: Key = key(b"value");
const PROPS: Key = key(b"props");
const COUNTRY: Key = key(b"country");
const SOURCE: Key = key(b"source");
const PLATFORM: Key = key(b"platform");
const VERSION: Key = key(b"version");
const LEVEL: Key = key(b"level");
const EVENTS: Key = key(b"events");

/// How reading an object as an event ended.
#[derive(Debug, PartialEq)]
pub(super) enum Read {
    /// The event is complete.
    Event,
    /// It breaks a rule; its text has been read to the end.
    Refused(Reject),
    /// It has the key `events`, and was read only up to there.
    Envelope,
}

impl<'a> Cursor<'a> {
    /// Reads an object, from its opening bracket on, into `event`, which is new.
    #[inline(always)]
    pub(super) fn event(&mut self, event: &mut RawEvent<'a>) -> Result<Read, Broken> {
        let from = self.at;
        let mut refused = None;
        self.at += 1;
        self.depth += 1;
        self.skip_space();
        let mut goes_on = !self.take(b'}');
        while goes_on {
            let key = self.field_key()?;
            if key == EVENTS && self.depth == 1 {
                return Ok(Read::Envelope);
            }
            if let Err(reject) = self.field(event, key)? {
                refused = refused.or(Some(reject));
            }
            goes_on = self.comma_or(b'}', "',' or '}'")?;
        }
        self.depth -= 1;
        if self.at - from > EVENT_BYTES_MAX {
            refused = refused.or(Some(Reject::EventTooLarge));
        }
        Ok(refused.map_or(Read::Event, Read::Refused))
    }

    /// Reads a value into the field of this name. One function for each kind of value: passing on a
    /// [`Value`] took longer than reading it.
    #[inline(always)]
    fn field(&mut self, event: &mut RawEvent<'a>, key: Key) -> Result<Result<(), Reject>, Broken> {
        match self.peek() {
            b'"' if key == ID && self.plain_id(event) => Ok(Ok(())),
            b'"' if key == TS && self.plain_ts(event) => Ok(Ok(())),
            b'"' => self.string().map(|text| put_text(event, key, text)),
            b'-' | b'0'..=b'9' => self.number().map(|number| put_number(event, key, number)),
            _ => self.value().map(|value| put_other(event, key, value)),
        }
    }

    /// Reads an id of the usual spelling, for which nobody has to look for the end of the string.
    #[inline(always)]
    fn plain_id(&mut self, event: &mut RawEvent<'a>) -> bool {
        let Some([b'"', text @ .., b'"']) = self.rest().first_chunk::<38>() else { return false };
        let Some(id) = uuid::parse(text) else { return false };
        event.id = (id != 0).then_some(id);
        self.at += 38;
        true
    }

    /// Reads a time as JavaScript writes it, with milliseconds and a `Z`.
    #[inline(always)]
    fn plain_ts(&mut self, event: &mut RawEvent<'a>) -> bool {
        let Some([b'"', text @ .., b'"']) = self.rest().first_chunk::<26>() else { return false };
        let Some(ts_ms) = time::rfc3339_ms(text) else { return false };
        event.ts_ms = Some(ts_ms);
        self.at += 26;
        true
    }

    /// A key and the colon after it. All but strange keys lie within one block.
    #[inline(always)]
    pub fn field_key(&mut self) -> Result<Key, Broken> {
        let Some((b'"', rest)) = self.rest().split_first() else { return self.strange_key() };
        let Some(block) = rest.first_chunk() else { return self.strange_key() };
        let len = special_bytes(block).trailing_zeros();
        if len > 8 || block[len as usize] != b'"' || block[len as usize + 1] != b':' {
            return self.strange_key();
        }
        let (name, _) = block.split_first_chunk().expect("eight of sixteen");
        self.at += len as usize + 3;
        self.skip_space();
        Ok(u64::from_le_bytes(*name) & !u64::MAX.unbounded_shl(8 * len))
    }

    #[cold]
    fn strange_key(&mut self) -> Result<Key, Broken> {
        let text = self.key()?;
        if text.len > 8 {
            return Ok(OTHER);
        }
        let name = text.cow();
        Ok(if name.contains('\0') { OTHER } else { key(name.as_bytes()) })
    }
}

/// The place of a dimension in an event.
#[inline(always)]
fn slot<'a, 'b>(event: &'b mut RawEvent<'a>, dimension: Dimension) -> &'b mut Option<Cow<'a, str>> {
    &mut event.dimensions[dimension as usize]
}

#[inline(always)]
fn put_text<'a>(event: &mut RawEvent<'a>, key: Key, text: Text<'a>) -> Result<(), Reject> {
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

/// The field of this name, if it holds a text or a number.
pub(crate) fn field_key(name: &str) -> Option<Key> {
    let is_plain = matches!(name, "event" | "id" | "ts" | "player" | "session" | "value");
    (is_plain || Dimension::from_label(name).is_some()).then(|| key(name.as_bytes()))
}

/// Puts text that comes without quotes, so that it may be meant as a number.
pub(crate) fn put_plain<'a>(event: &mut RawEvent<'a>, key: Key, text: &'a str) -> Result<(), Reject> {
    match (key, text.parse::<i64>()) {
        (VALUE, _) => event.value = Some(crate::decimal::finite(text)?),
        (TS, Ok(ts_ms)) if time::EPOCH_MS.contains(&ts_ms) => event.ts_ms = Some(ts_ms),
        _ => put_text(event, key, Text { raw: text, len: text.len() })?,
    }
    Ok(())
}

#[inline(always)]
fn put_number<'a>(event: &mut RawEvent<'a>, key: Key, number: Number<'a>) -> Result<(), Reject> {
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

/// Where text is due, a whole number is taken as it is written.
fn put_whole_number<'a>(event: &mut RawEvent<'a>, key: Key, number: Number<'a>) -> Result<(), Reject> {
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

/// Objects, arrays and words. `null` is an absent value, except that a name is required.
fn put_other<'a>(event: &mut RawEvent<'a>, key: Key, value: Value<'a>) -> Result<(), Reject> {
    match (key, value) {
        (ID, Value::Null) => event.id = None,
        (TS, Value::Null) => event.ts_ms = None,
        (PLAYER, Value::Null) => event.player = None,
        (SESSION, Value::Null) => event.session = None,
        (VALUE, Value::Null) => event.value = None,
        (COUNTRY, Value::Null) => *slot(event, Dimension::Country) = None,
        (SOURCE, Value::Null) => *slot(event, Dimension::Source) = None,
        (PLATFORM, Value::Null) => *slot(event, Dimension::Platform) = None,
        (VERSION, Value::Null) => *slot(event, Dimension::Version) = None,
        (LEVEL, Value::Null) => *slot(event, Dimension::Level) = None,
        (PROPS, Value::Null) => event.props = None,
        (PROPS, Value::Object(text, None)) => event.props = Some(text),
        (PROPS, Value::Object(_, Some(breach))) => return Err(breach),
        _ => return Err(wrong_type(key)),
    }
    Ok(())
}

/// What to call a value of a kind that the field of this name does not take.
#[cold]
fn wrong_type(key: Key) -> Reject {
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

/// An all-zero UUID comes from programs without a source of ids, and would make all their events
/// duplicates of the first.
#[inline(always)]
fn id(text: Text<'_>) -> Result<Option<u128>, Reject> {
    let id =
        if text.is_plain() { uuid::parse(text.raw.as_bytes()) } else { uuid::parse(text.cow().as_bytes()) };
    match id {
        Some(0) => Ok(None),
        Some(id) => Ok(Some(id)),
        None => Err(Reject::IdNotAUuid),
    }
}

/// RFC 3339 or epoch milliseconds, of the years 0 to 9999.
pub(crate) fn instant_ms(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Text(text) => rfc3339_ms(text),
        Value::Number(number) => epoch_ms(number),
        _ => None,
    }
}

#[inline(always)]
fn rfc3339_ms(text: Text<'_>) -> Option<i64> {
    if text.is_plain() {
        time::rfc3339_ms(text.raw.as_bytes())
    } else {
        time::rfc3339_ms(text.cow().as_bytes())
    }
}

#[inline(always)]
fn epoch_ms(number: Number<'_>) -> Option<i64> {
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

/// All codes there can be, one after the other, so that upper case needs no memory of its own.
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
fn finite(number: Number<'_>) -> Result<f64, Reject> {
    let value = number.value();
    if value.is_finite() { Ok(value) } else { Err(Reject::ValueNotFinite) }
}
