//! What every engine promises, one file for each port.

pub mod counters;
pub mod ids;
