//! Playtomic: requests of games built with the SDKs of that service.
//!
//! The tracker ([`parse_tracker`]) is a GET whose query string contains events, which become raw events. The API
//! ([`parse_form`]) is a POST of a form that contains signed JSON, which the server interprets; SDK 2 sends signed fields
//! instead ([`parse_v3_form`]) and events of players ([`translate_pevent`]).

mod escape;
mod form;
mod pevent;
mod source;
mod tracker;
mod v3;

pub use escape::query_parameter;
pub use form::{FormError, SignedForm, parse_form};
pub use pevent::translate_pevent;
pub use source::source;
pub use tracker::{TrackerError, TrackerEvents, parse_tracker};
pub use v3::{V3Call, V3Form, parse_v3_form};
