//! Bytes to raw events: one file per protocol, pure, no input or output.
//!
//! A decoder knows how a protocol is written and which types its fields have. Whether an event is
//! welcome (its name, its time, its quota) is decided by whoever asked for the decoding.

pub mod json;
pub mod playtomic;
