//! What every engine promises, one file for each port.

pub mod ids;
