//! What is true of Playmeter without a disk, a socket or a clock.
//!
//! No I/O, no time of its own, no randomness, no JSON.

pub mod admit;
pub mod deltas;
pub mod event;
pub mod flows;
pub mod identity;
pub mod limits;
pub mod ports;
pub mod query;
pub mod record;
pub mod reject;
pub mod rollup;
pub mod series;
pub mod sessions;
pub mod uuid;
pub mod worthless;

pub use event::{Dimension, RawEvent};
pub use reject::{Outcome, Reject};
