//! Playtomic: what games send that were built with the SDKs of that service, byte for byte as those SDKs write it.
//!
//! There are two forms. The tracker ([`tracker`]) is a GET whose query string holds events; it becomes raw events like
//! any other. The API ([`form`]) is a POST of a form that holds JSON with a signature; what it asks for is for the
//! server to read.

mod escape;
mod form;
mod source;
mod tracker;

pub use escape::parameter;
pub use form::{BadForm, SignedForm, form};
pub use source::source;
pub use tracker::{Tracked, TrackerError, tracker};
