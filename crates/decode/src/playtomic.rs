//! Playtomic: requests of games built with the SDKs of that service.
//!
//! There are two request types. The tracker ([`parse_tracker`]) is a GET whose query string contains events, which become raw
//! events. The API ([`parse_form`]) is a POST of a form that contains signed JSON, which the server interprets.

mod escape;
mod form;
mod source;
mod tracker;

pub use escape::query_parameter;
pub use form::{FormError, SignedForm, parse_form};
pub use source::source;
pub use tracker::{TrackerError, TrackerEvents, parse_tracker};
