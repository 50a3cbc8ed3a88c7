//! Conformance suites that every engine must pass, one file per port.

pub mod counters;
pub mod ids;
