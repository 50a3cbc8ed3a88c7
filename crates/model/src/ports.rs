//! The ports: small interfaces to the storage engine, each documented with its guarantees.

pub mod counters;
pub mod ids;
pub mod records;
