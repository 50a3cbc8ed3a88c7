//! Test support: conformance suites for the ports of the storage engine, and an engine in memory.

pub mod conformance;
pub mod counters;
pub mod events;
pub mod ids;
pub mod skip;
pub mod tmpfs;
