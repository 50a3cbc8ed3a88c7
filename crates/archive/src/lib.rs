//! Raw events as Parquet, and the questions over them.
//!
//! [`scan`] is the line between the two: files and the newest events are a [`scan::Source`], and a question reads
//! nothing else.

pub mod columns;
pub mod scan;
