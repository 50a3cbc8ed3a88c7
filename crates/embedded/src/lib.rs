//! embedded
pub mod ids;
