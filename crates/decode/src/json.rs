//! Events as JSON: one event, an array, lines, or an envelope with the time of sending.
//!
//! The parser is strict (RFC 8259, nothing more), reads each byte once, borrows every string that
//! has no escapes, and knows the fields of an event, so that admission costs little more than
//! looking at the bytes. It holds no state between bodies and cannot recurse.

mod block;
mod body;
mod cursor;
mod event;
mod nested;
mod number;
mod props;
mod text;
mod time;
mod write;

pub(crate) use event::{Key, field_key, put_plain};
pub(crate) use number::is_plain_number;

pub(crate) use cursor::{Broken, Cursor, Value};
pub(crate) use event::instant_ms;
pub use props::{Prop, Props, props};
pub(crate) use time::{EPOCH_MS, rfc3339_ms};
pub use write::{push_string, write_event};

use model::RawBatch;
use model::limits::{EVENTS_PER_REQUEST_MAX, JSON_DEPTH_MAX};

/// How the sender says the body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `application/json`, or a beacon's `text/plain`: one event, an array, an envelope; also lines,
    /// if the first object is followed by a newline and another object.
    Json,
    /// `application/x-ndjson`: one event a line. A broken line is refused alone.
    Lines,
}

/// Why nothing of a body was taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// There is nothing but white space.
    #[error("body is empty")]
    Empty,
    /// `at` is where the valid text ends.
    #[error("body is not UTF-8 at byte {at}")]
    NotUtf8 {
        /// Bytes before the first invalid one.
        at: usize,
    },
    /// The text breaks RFC 8259.
    #[error("body is not JSON: expected {expected} at byte {at}")]
    Syntax {
        /// Bytes before the place.
        at: usize,
        /// What would have been right there.
        expected: &'static str,
    },
    /// More objects and arrays inside each other than any event needs.
    #[error("body is not JSON: nested deeper than {JSON_DEPTH_MAX} at byte {at}")]
    TooDeep {
        /// Bytes before the bracket that is one too many.
        at: usize,
    },
    /// An envelope has a field beside `sent_at` and `events`.
    #[error("unknown field {name:?} beside `events`")]
    UnknownField {
        /// The field's name, cut to 64 characters.
        name: String,
    },
    /// `sent_at` of the envelope cannot be read.
    #[error("`sent_at` is neither RFC 3339 nor epoch milliseconds")]
    SentAt,
    /// `events` of the envelope is something else.
    #[error("`events` is not an array")]
    EventsNotAnArray,
    /// Over the limit of one request.
    #[error("more than {EVENTS_PER_REQUEST_MAX} events in one body")]
    TooManyEvents,
}

/// Decodes a whole body into `out`, which is emptied first.
///
/// A refused event is an entry in `out.events`; an error means that nothing was taken and `out` is
/// empty. Of several broken rules an event names the first in the order of its text. Of a key that
/// comes twice the last value counts.
pub fn decode<'a>(body: &'a [u8], form: Form, out: &mut RawBatch<'a>) -> Result<(), Malformed> {
    out.sent_at_ms = None;
    out.events.clear();
    let decoded = match form {
        Form::Json => body::json(body, out),
        Form::Lines => body::lines(body, out),
    };
    if decoded.is_err() {
        out.sent_at_ms = None;
        out.events.clear();
    }
    decoded
}
