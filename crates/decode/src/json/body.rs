//! A whole body: which of its forms it has, and where one event ends and the next begins.

use super::Malformed;
use super::cursor::{Broken, Cursor, Value};
use super::event::{Read, instant_ms};
use model::limits::EVENTS_PER_REQUEST_MAX;
use model::{RawBatch, RawEvent, Reject};

/// A field's name in a message is cut to this many characters.
const NAME_CHARS_SHOWN: usize = 64;

/// One value: an event, an array of events or an envelope; or an event and then lines.
pub(super) fn json<'a>(body: &'a [u8], out: &mut RawBatch<'a>) -> Result<(), Malformed> {
    let text = str::from_utf8(body).map_err(|error| Malformed::NotUtf8 { at: error.valid_up_to() })?;
    let mut cursor = Cursor::new(text, 0);
    match cursor.body(out) {
        Ok(End::Body) => Ok(()),
        Ok(End::Line) => all_lines(text, cursor.at, out),
        Err(Broken) => Err(cursor.fault()),
    }
}

/// One event a line.
pub(super) fn lines<'a>(body: &'a [u8], out: &mut RawBatch<'a>) -> Result<(), Malformed> {
    if body.trim_ascii().is_empty() {
        return Err(Malformed::Empty);
    }
    match str::from_utf8(body) {
        Ok(text) => all_lines(text, 0, out),
        Err(_) => body.split(|&byte| byte == b'\n').try_for_each(|bytes| match str::from_utf8(bytes) {
            Ok(line) => one_line(line, 0, out),
            Err(_) => new_slot(out).map(|slot| *slot = Err(Reject::MalformedJson)),
        }),
    }
}

fn all_lines<'a>(text: &'a str, mut from: usize, out: &mut RawBatch<'a>) -> Result<(), Malformed> {
    while from < text.len() {
        let len = memchr::memchr(b'\n', &text.as_bytes()[from..]);
        let end = len.map_or(text.len(), |len| from + len);
        one_line(&text[..end], from, out)?;
        from = end + 1;
    }
    Ok(())
}

/// Reads the line that begins at `from` and ends with the text. A blank one is no event.
#[inline(always)]
fn one_line<'a>(text: &'a str, from: usize, out: &mut RawBatch<'a>) -> Result<(), Malformed> {
    let mut cursor = Cursor::new(text, from);
    cursor.skip_space();
    if cursor.is_at_end() {
        return Ok(());
    }
    // An envelope's key means nothing here: a line's object stands inside the lines.
    cursor.depth = 1;
    let slot = new_slot(out)?;
    cursor
        .element(slot)
        .and_then(|()| cursor.end())
        .unwrap_or_else(|Broken| *slot = Err(Reject::MalformedJson));
    Ok(())
}

/// Room for one more event, unless there are too many.
#[inline(always)]
fn new_slot<'a, 'b>(out: &'b mut RawBatch<'a>) -> Result<&'b mut Result<RawEvent<'a>, Reject>, Malformed> {
    if out.events.len() == EVENTS_PER_REQUEST_MAX {
        return Err(Malformed::TooManyEvents);
    }
    // Made where it stays: `push` would make it elsewhere and copy its 300 bytes.
    out.events.extend(std::iter::once_with(|| Ok(RawEvent::default())));
    Ok(out.events.last_mut().expect("it was just pushed"))
}

/// Where reading a body stopped.
enum End {
    /// Everything was read.
    Body,
    /// The first line was read, and the next one begins with an object.
    Line,
}

impl<'a> Cursor<'a> {
    fn body(&mut self, out: &mut RawBatch<'a>) -> Result<End, Broken> {
        self.skip_space();
        match self.peek() {
            b'[' => self.events(out)?,
            b'{' => return self.object(out),
            _ if self.is_at_end() => return self.fail(Malformed::Empty),
            _ => {
                self.value()?;
                out.events.push(Err(Reject::NotAnObject));
            }
        }
        self.end().map(|()| End::Body)
    }

    /// An event, an envelope, or the first of several lines.
    fn object(&mut self, out: &mut RawBatch<'a>) -> Result<End, Broken> {
        let from = self.at;
        let mut event = RawEvent::default();
        match self.event(&mut event)? {
            Read::Event => out.events.push(Ok(event)),
            Read::Refused(reject) => out.events.push(Err(reject)),
            Read::Envelope => {
                self.at = from;
                return self.envelope(out).and_then(|()| self.end()).map(|()| End::Body);
            }
        }
        let after = self.at;
        self.skip_space();
        let is_line = self.peek() == b'{' && self.since(after).contains('\n');
        if is_line { Ok(End::Line) } else { self.end().map(|()| End::Body) }
    }

    /// An object with the key `events`, from its opening bracket on.
    fn envelope(&mut self, out: &mut RawBatch<'a>) -> Result<(), Broken> {
        self.at += 1;
        self.depth = 1;
        self.skip_space();
        let mut goes_on = true;
        while goes_on {
            let name = self.key()?.cow();
            match &*name {
                "events" => self.envelope_events(out)?,
                "sent_at" => out.sent_at_ms = self.sent_at()?,
                _ => {
                    let name = name.chars().take(NAME_CHARS_SHOWN).collect();
                    return self.fail(Malformed::UnknownField { name });
                }
            }
            goes_on = self.comma_or(b'}', "',' or '}'")?;
        }
        Ok(())
    }

    fn envelope_events(&mut self, out: &mut RawBatch<'a>) -> Result<(), Broken> {
        out.events.clear();
        if self.peek() == b'[' { self.events(out) } else { self.fail(Malformed::EventsNotAnArray) }
    }

    fn sent_at(&mut self) -> Result<Option<i64>, Broken> {
        match self.value()? {
            Value::Null => Ok(None),
            value => match instant_ms(value) {
                Some(ms) => Ok(Some(ms)),
                None => self.fail(Malformed::SentAt),
            },
        }
    }

    /// An array of events, from its opening bracket on.
    fn events(&mut self, out: &mut RawBatch<'a>) -> Result<(), Broken> {
        self.at += 1;
        self.depth += 1;
        self.skip_space();
        let mut goes_on = !self.take(b']');
        while goes_on {
            match new_slot(out) {
                Ok(slot) => self.element(slot)?,
                Err(fault) => return self.fail(fault),
            }
            goes_on = self.comma_or(b']', "',' or ']'")?;
        }
        self.depth -= 1;
        Ok(())
    }

    /// One value where an event is due, into a slot that holds a new event.
    #[inline(always)]
    fn element(&mut self, slot: &mut Result<RawEvent<'a>, Reject>) -> Result<(), Broken> {
        if self.peek() != b'{' {
            self.value()?;
            *slot = Err(Reject::NotAnObject);
        } else if let Ok(event) = slot
            && let Read::Refused(reject) = self.event(event)?
        {
            *slot = Err(reject);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Broken> {
        self.skip_space();
        if self.is_at_end() { Ok(()) } else { self.expected("the end") }
    }
}
