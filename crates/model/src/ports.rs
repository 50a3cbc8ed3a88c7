//! What the server needs of an engine: small interfaces, each with its promise above it.

pub mod counters;
pub mod ids;
pub mod records;
