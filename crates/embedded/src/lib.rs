//! embedded
pub mod counters;
pub mod ids;
