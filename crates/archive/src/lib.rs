//! Raw events as Parquet, and the questions over them.
//!
//! [`scan`] is the line between the two: files and the newest events are a [`scan::Source`], and a question reads
//! nothing else.
//!
//! [`Archive`] is the storage. Its caller appends the batches of the log in log order ([`Archive::append`]), starting at
//! [`Archive::position`] after a start; waits while [`Archive::is_over_budget`]; calls [`Archive::maintain`] every few
//! seconds on a thread of its own and [`Archive::advance`] with each checkpoint; and trims the log below the position
//! only. The format of the files is described in `docs/archive.md`.

pub mod columns;
pub mod pages;
pub mod questions;
pub mod scan;

mod archive;
mod bits;
mod builder;
mod column_builder;
mod decode;
mod encode;
mod files;
mod json;
mod merge;
mod part;
mod shape;
mod snapshot;

pub use archive::{
    Archive, ArchiveError, ArchiveMemory, ArchiveOptions, Erased, FileInventory, GameInventory, Maintained,
    OpenReport,
};
pub use snapshot::{Snapshot, WriteFailure};
