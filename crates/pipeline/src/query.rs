//! Queries over the rollups: parsing requests, running them within bounds and encoding results.

pub mod pool;
pub mod request;
pub mod result;
