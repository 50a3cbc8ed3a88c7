//! A part: one Parquet file with the events of one day from one range of the log, sorted by player and time.
//!
//! Row groups hold about 256k rows and end where a player ends; pages of all columns begin at the same rows. The
//! metadata of the file holds, for each row group, its players and times and a checksum of each column; the manifest
//! holds the checksum of the metadata. So every byte that is read is checked first.

mod reader;
mod writer;

use std::io;

use parquet::errors::ParquetError;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

pub(crate) use reader::{PartReader, RowGroupReader};
pub(crate) use writer::PartWriter;

use crate::builder::Day;
use crate::decode::Content;
use crate::shape::{FIXED, Kind, Shape};

/// Written to the metadata of each file; a newer one is refused.
pub(crate) const FORMAT: u32 = 1;
/// The key of our metadata in the file.
const METADATA_KEY: &str = "playmeter";
const MAGIC: &[u8; 4] = b"PAR1";
/// Time and hash of the player come before the columns of the shape.
const LEADING: usize = 2;

/// A part as the manifest lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartInfo {
    /// The UTC day, counted from 1970-01-01.
    pub(crate) day: Day,
    /// The range of the log whose events of the day it holds.
    pub(crate) log: (u64, u64),
    /// Counts how often the rows were rewritten.
    pub(crate) revision: u32,
    pub(crate) rows: u64,
    /// Different players.
    pub(crate) players: u64,
    /// The hashes of the first and the last player.
    pub(crate) hashes: (u64, u64),
    /// The first time, and the last one plus one.
    pub(crate) times: (i64, i64),
    pub(crate) bytes: u64,
    /// Where the metadata of the file begins, and its checksum up to the end of the file.
    pub(crate) footer: (u64, u64),
}

impl PartInfo {
    /// Returns the path below the folder of the game.
    pub(crate) fn path(&self) -> String {
        let (from, to) = self.log;
        let name = match self.revision {
            0 => format!("{from:020}-{to:020}.parquet"),
            revision => format!("{from:020}-{to:020}.{revision}.parquet"),
        };
        format!("{}/{name}", day_name(self.day))
    }
}

/// Returns a day as `2026-11-19`.
pub(crate) fn day_name(day: Day) -> String {
    jiff::civil::date(1970, 1, 1)
        .checked_add(jiff::Span::new().days(day.clamp(-700_000, 2_900_000)))
        .map_or_else(|_| format!("day {day}"), |date| date.to_string())
}

/// What the file says about itself, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Metadata {
    format: u32,
    game: u32,
    day: String,
    log: (u64, u64),
    shape: Shape,
    row_groups: Vec<RowGroupMetadata>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RowGroupMetadata {
    pub(crate) rows: u64,
    /// The hashes of the first and the last player.
    pub(crate) hashes: (u64, u64),
    /// The first time, and the last one plus one.
    pub(crate) times: (i64, i64),
    /// Of each column, in the order of the file.
    checksums: Vec<u64>,
}

/// Returns what a column of a shape holds.
fn content(shape: &Shape, place: usize) -> Content {
    use crate::columns::Field;
    match FIXED.get(place) {
        Some(Field::Value) => Content::Numbers,
        Some(Field::Received) => Content::WholeNumbers,
        Some(Field::Id) => Content::Uuids,
        Some(_) => Content::Texts,
        None => match shape.properties.get(place - FIXED.len()).map(|property| property.kind) {
            Some(Kind::Number) => Content::Numbers,
            Some(Kind::Flag) => Content::Flags,
            Some(Kind::Text) | None => Content::Texts,
        },
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(source) => io::Error::other(source),
        },
        error => io::Error::other(error),
    }
}
