//! Queries over the rollups: parsing requests and encoding results.

pub mod request;
pub mod result;
