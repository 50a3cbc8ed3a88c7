//! testkit

pub mod conformance;
pub mod counters;
pub mod events;
pub mod ids;
