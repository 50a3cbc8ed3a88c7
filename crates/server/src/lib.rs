//! server

pub mod enrich;
