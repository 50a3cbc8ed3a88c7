//! Queries over the rollups as JSON: reading requests and writing answers.

pub mod answer;
pub mod request;
