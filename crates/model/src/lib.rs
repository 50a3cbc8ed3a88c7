//! The domain model of Playmeter: everything that needs no disk, socket or clock.
//!
//! No I/O, no clock, no randomness and no JSON in this crate.

pub mod admit;
pub mod batch;
pub mod csv;
pub mod deltas;
pub mod event;
pub mod flows;
pub mod identity;
pub mod limits;
pub mod placeholder_id;
pub mod ports;
pub mod query;
pub mod reject;
pub mod rollup;
pub mod series;
pub mod sessions;
pub mod steady_clock;
pub mod uuid;

pub use event::{Dimension, RawBatch, RawEvent};
pub use reject::{Outcome, Reject};
