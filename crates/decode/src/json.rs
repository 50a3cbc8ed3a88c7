//! Events as JSON: one event, an array, lines, or an envelope with the time of sending.
//!
//! The parser is strict (RFC 8259, nothing more), reads each byte once, borrows every string without escapes, and knows
//! the fields of an event, so that admission costs little more than a scan of the bytes. It has no state between bodies
//! and does not recurse.

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

pub(crate) use event::{FieldKey, field_key, put_plain};
pub(crate) use number::is_plain_number;

pub(crate) use cursor::{JsonCursor, JsonValue, SyntaxError};
pub(crate) use event::instant_ms;
pub use props::{Prop, PropsIter, props};
pub(crate) use time::{EPOCH_MS, rfc3339_ms};
pub use write::{push_string, write_event};

use model::RawBatch;
use model::limits::{EVENTS_PER_REQUEST_MAX, JSON_DEPTH_MAX};

/// The format of a body, as declared by the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFormat {
    /// `application/json`, or the `text/plain` of a beacon: one event, an array or an envelope; also lines, if the first
    /// object is followed by a newline and another object.
    Json,
    /// `application/x-ndjson`: one event per line. A malformed line is rejected alone.
    Lines,
}

/// The error of a body that is rejected as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedBody {
    /// The body is empty or white space.
    #[error("body is empty")]
    Empty,
    /// The body is not UTF-8.
    #[error("body is not UTF-8 at byte {at}")]
    NotUtf8 {
        /// Bytes before the first invalid one.
        at: usize,
    },
    /// The text violates RFC 8259.
    #[error("body is not JSON: expected {expected} at byte {at}")]
    Syntax {
        /// Bytes before the error.
        at: usize,
        /// The syntax that was expected there.
        expected: &'static str,
    },
    /// Objects and arrays are nested deeper than any event needs.
    #[error("body is not JSON: nested deeper than {JSON_DEPTH_MAX} at byte {at}")]
    TooDeep {
        /// Bytes before the first bracket that exceeds the limit.
        at: usize,
    },
    /// An envelope has a field other than `sent_at` and `events`.
    #[error("unknown field {name:?} next to `events`")]
    UnknownField {
        /// The field's name, truncated to 64 characters.
        name: String,
    },
    /// `sent_at` of the envelope cannot be read.
    #[error("`sent_at` must be RFC 3339 or epoch milliseconds")]
    SentAt,
    /// `events` of the envelope is not an array.
    #[error("`events` must be an array")]
    EventsNotAnArray,
    /// The body has more events than one request may have.
    #[error("more than {EVENTS_PER_REQUEST_MAX} events in one body")]
    TooManyEvents,
}

/// Decodes a whole body into `out`, which is emptied first.
///
/// A rejected event is an entry of `out.events`; an error means that the whole body is rejected and `out` is empty. If an
/// event violates several rules, the first in the order of its text is reported. If a key occurs twice, the last value
/// counts.
pub fn decode<'a>(body: &'a [u8], format: BodyFormat, out: &mut RawBatch<'a>) -> Result<(), MalformedBody> {
    out.sent_at_ms = None;
    out.events.clear();
    let decoded = match format {
        BodyFormat::Json => body::json(body, out),
        BodyFormat::Lines => body::lines(body, out),
    };
    if decoded.is_err() {
        out.sent_at_ms = None;
        out.events.clear();
    }
    decoded
}
