//! One file per command.

pub mod agent;
pub mod bench;
pub mod collectors;
pub mod config;
pub mod games;
pub mod import;
pub mod keys;
pub mod rebuild;
pub mod serve;
pub mod top;
pub mod verify;
