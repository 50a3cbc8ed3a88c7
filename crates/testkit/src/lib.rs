//! testkit

pub mod conformance;
pub mod ids;
