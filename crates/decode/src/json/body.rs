//! A whole body: detects its format and separates its events.

use super::MalformedBody;
use super::cursor::{JsonCursor, JsonValue, SyntaxError};
use super::event::{ObjectResult, instant_ms};
use model::limits::EVENTS_PER_REQUEST_MAX;
use model::{RawBatch, RawEvent, Reject};

/// Maximum characters of a field's name in an error message.
const NAME_CHARS_SHOWN: usize = 64;

/// Reads one value: an event, an array of events or an envelope; or an event followed by lines.
pub(super) fn json<'a>(body: &'a [u8], out: &mut RawBatch<'a>) -> Result<(), MalformedBody> {
    let text = str::from_utf8(body).map_err(|error| MalformedBody::NotUtf8 { at: error.valid_up_to() })?;
    let mut cursor = JsonCursor::new(text, 0);
    match cursor.body(out) {
        Ok(BodyEnd::Body) => Ok(()),
        Ok(BodyEnd::Line) => all_lines(text, cursor.at, out),
        Err(SyntaxError) => Err(cursor.into_error()),
    }
}

/// Reads one event per line.
pub(super) fn lines<'a>(body: &'a [u8], out: &mut RawBatch<'a>) -> Result<(), MalformedBody> {
    if body.trim_ascii().is_empty() {
        return Err(MalformedBody::Empty);
    }
    match str::from_utf8(body) {
        Ok(text) => all_lines(text, 0, out),
        Err(_) => body.split(|&byte| byte == b'\n').try_for_each(|bytes| match str::from_utf8(bytes) {
            Ok(line) => one_line(line, 0, out),
            Err(_) => new_slot(out).map(|slot| *slot = Err(Reject::MalformedJson)),
        }),
    }
}

fn all_lines<'a>(text: &'a str, mut from: usize, out: &mut RawBatch<'a>) -> Result<(), MalformedBody> {
    while from < text.len() {
        let len = memchr::memchr(b'\n', &text.as_bytes()[from..]);
        let end = len.map_or(text.len(), |len| from + len);
        one_line(&text[..end], from, out)?;
        from = end + 1;
    }
    Ok(())
}

/// Reads the line that starts at `from` and ends with the text. A blank line is not an event.
#[inline(always)]
fn one_line<'a>(text: &'a str, from: usize, out: &mut RawBatch<'a>) -> Result<(), MalformedBody> {
    let mut cursor = JsonCursor::new(text, from);
    cursor.skip_space();
    if cursor.is_at_end() {
        return Ok(());
    }
    // At depth 1 an object is not an envelope, even with the key `events`.
    cursor.depth = 1;
    let slot = new_slot(out)?;
    cursor
        .element(slot)
        .and_then(|()| cursor.end())
        .unwrap_or_else(|SyntaxError| *slot = Err(Reject::MalformedJson));
    Ok(())
}

/// Appends a new event, unless there are too many.
#[inline(always)]
fn new_slot<'a, 'b>(
    out: &'b mut RawBatch<'a>,
) -> Result<&'b mut Result<RawEvent<'a>, Reject>, MalformedBody> {
    if out.events.len() == EVENTS_PER_REQUEST_MAX {
        return Err(MalformedBody::TooManyEvents);
    }
    // Constructed in place: `push` would construct it elsewhere and copy its 300 bytes.
    out.events.extend(std::iter::once_with(|| Ok(RawEvent::default())));
    Ok(out.events.last_mut().expect("it was just pushed"))
}

/// The position where reading a body stopped.
enum BodyEnd {
    /// At the end of the body.
    Body,
    /// After the first line; the next one starts with an object.
    Line,
}

impl<'a> JsonCursor<'a> {
    fn body(&mut self, out: &mut RawBatch<'a>) -> Result<BodyEnd, SyntaxError> {
        self.skip_space();
        match self.peek() {
            b'[' => self.events(out)?,
            b'{' => return self.object(out),
            _ if self.is_at_end() => return self.fail(MalformedBody::Empty),
            _ => {
                self.value()?;
                out.events.push(Err(Reject::NotAnObject));
            }
        }
        self.end().map(|()| BodyEnd::Body)
    }

    /// Reads an event, an envelope, or the first of several lines.
    fn object(&mut self, out: &mut RawBatch<'a>) -> Result<BodyEnd, SyntaxError> {
        let from = self.at;
        let mut event = RawEvent::default();
        match self.event(&mut event)? {
            ObjectResult::Event => out.events.push(Ok(event)),
            ObjectResult::Rejected(reject) => out.events.push(Err(reject)),
            ObjectResult::Envelope => {
                self.at = from;
                return self.envelope(out).and_then(|()| self.end()).map(|()| BodyEnd::Body);
            }
        }
        let after = self.at;
        self.skip_space();
        let is_line = self.peek() == b'{' && self.since(after).contains('\n');
        if is_line { Ok(BodyEnd::Line) } else { self.end().map(|()| BodyEnd::Body) }
    }

    /// Reads an object with the key `events`, starting at its opening bracket.
    fn envelope(&mut self, out: &mut RawBatch<'a>) -> Result<(), SyntaxError> {
        self.at += 1;
        self.depth = 1;
        self.skip_space();
        let mut has_more = true;
        while has_more {
            let name = self.key()?.cow();
            match &*name {
                "events" => self.envelope_events(out)?,
                "sent_at" => out.sent_at_ms = self.sent_at()?,
                _ => {
                    let name = name.chars().take(NAME_CHARS_SHOWN).collect();
                    return self.fail(MalformedBody::UnknownField { name });
                }
            }
            has_more = self.comma_or(b'}', "',' or '}'")?;
        }
        Ok(())
    }

    fn envelope_events(&mut self, out: &mut RawBatch<'a>) -> Result<(), SyntaxError> {
        out.events.clear();
        if self.peek() == b'[' { self.events(out) } else { self.fail(MalformedBody::EventsNotAnArray) }
    }

    fn sent_at(&mut self) -> Result<Option<i64>, SyntaxError> {
        match self.value()? {
            JsonValue::Null => Ok(None),
            value => match instant_ms(value) {
                Some(ms) => Ok(Some(ms)),
                None => self.fail(MalformedBody::SentAt),
            },
        }
    }

    /// Reads an array of events, starting at its opening bracket.
    fn events(&mut self, out: &mut RawBatch<'a>) -> Result<(), SyntaxError> {
        self.at += 1;
        self.depth += 1;
        self.skip_space();
        let mut has_more = !self.consume(b']');
        while has_more {
            match new_slot(out) {
                Ok(slot) => self.element(slot)?,
                Err(error) => return self.fail(error),
            }
            has_more = self.comma_or(b']', "',' or ']'")?;
        }
        self.depth -= 1;
        Ok(())
    }

    /// Reads one value in the position of an event, into a slot with a new event.
    #[inline(always)]
    fn element(&mut self, slot: &mut Result<RawEvent<'a>, Reject>) -> Result<(), SyntaxError> {
        if self.peek() != b'{' {
            self.value()?;
            *slot = Err(Reject::NotAnObject);
        } else if let Ok(event) = slot
            && let ObjectResult::Rejected(reject) = self.event(event)?
        {
            *slot = Err(reject);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), SyntaxError> {
        self.skip_space();
        if self.is_at_end() { Ok(()) } else { self.expected("the end") }
    }
}
