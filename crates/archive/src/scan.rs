//! How a question reads events.

use std::ops::{Range, RangeInclusive};

use model::query::{QueryControl, QueryStopped};

use crate::columns::{Chunk, Field};

/// What a question reads.
#[derive(Clone, Debug)]
pub struct ScanRequest {
    /// The times of the events, milliseconds since 1970.
    pub times: Range<i64>,
    /// The columns of the chunks, in this order. Players and times are always there.
    pub fields: Vec<Field>,
    /// Only events with these names; all if `None`. A source may hand out others: it is a hint that saves work.
    pub events: Option<Vec<Box<str>>>,
    /// The hashes of players to read, both ends included. All: `0..=u64::MAX`.
    pub players: RangeInclusive<u64>,
    /// The order of the rows.
    pub order: Order,
}

/// The order in which a scan hands out rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Any.
    Any,
    /// Each player's rows come by time, those of the same time in the order of the log. Players may come in turns:
    /// a player's later rows can be in a later chunk, between those of others.
    ByPlayer,
}

/// Why a scan ended early.
#[derive(Debug, thiserror::Error)]
pub enum ScanFailure {
    /// The question was stopped.
    #[error(transparent)]
    Stopped(#[from] QueryStopped),
    /// A file could not be read or is damaged.
    #[error("{path}: {problem}")]
    Damaged {
        /// The file, below the data folder.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// All raw events of one game at one position of the log, each exactly once.
pub trait Source: Sync {
    /// Cuts the hashes of all players into ranges, ascending and without gaps, so that each holds a bounded number of
    /// players (about a million). A question that keeps state per player reads one range after the other.
    fn player_ranges(&self, times: Range<i64>) -> Vec<RangeInclusive<u64>>;

    /// Hands out the rows of a request in chunks of at most 65,536 rows. Ends with the failure of `rows`, if it fails.
    ///
    /// Asks `control` at least once per chunk, with the memory that the scan itself uses.
    fn scan(
        &self,
        request: &ScanRequest,
        control: &dyn QueryControl,
        rows: &mut dyn FnMut(&Chunk) -> Result<(), QueryStopped>,
    ) -> Result<(), ScanFailure>;
}
