//! Bytes to raw events and samples: one file per protocol, pure, no input or output.
//!
//! A decoder knows how a protocol is written and which types its fields have. Whether an event is
//! welcome (its name, its time, its quota) is decided by whoever asked for the decoding. What
//! happened is an event ([`model::RawEvent`]); what was measured is a sample ([`sample::Sample`]). What is wanted is a
//! message ([`ddp::Inbound`]).

pub mod base64;
pub mod capture;
pub mod csv;
pub mod ddp;
mod decimal;
pub mod flow;
pub mod influx;
pub mod json;
pub mod lines;
pub mod otlp;
pub mod playtomic;
pub mod rtcp;
pub mod sample;
pub mod statsd;
