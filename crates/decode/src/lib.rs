//! Decodes bytes to raw events and samples: one file per protocol, pure, without I/O.
//!
//! A decoder knows the syntax of a protocol and the types of its fields. Whether an event is accepted (its name, its
//! time, its quota) is decided by the caller. Something that happened is an event ([`model::RawEvent`]), something that
//! was measured is a sample ([`sample::Sample`]), and a request over DDP is a message ([`ddp::ClientMessage`]).

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
pub mod remote_write;
pub mod rtcp;
pub mod sample;
pub mod statsd;
