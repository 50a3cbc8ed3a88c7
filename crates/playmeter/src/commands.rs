//! The commands, one module each.

pub(crate) mod agent;
pub(crate) mod alerts;
pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod collectors;
pub(crate) mod config;
pub(crate) mod export;
pub(crate) mod games;
pub(crate) mod import;
pub(crate) mod keys;
pub(crate) mod rebuild;
pub(crate) mod repair;
pub(crate) mod serve;
pub(crate) mod shell;
pub(crate) mod top;
pub(crate) mod verify;
pub(crate) mod version;
