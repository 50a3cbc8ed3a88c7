//! Raw events as Parquet, and the questions over them.
//!
//! [`scan`] is the line between the two: files and the newest events are a [`scan::Source`], and a question reads
//! nothing else.

pub mod columns;
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

pub use archive::{Archive, ArchiveError, ArchiveMemory, ArchiveOptions, Erased, Maintained, OpenReport};
pub use snapshot::Snapshot;
