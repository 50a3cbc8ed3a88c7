//! Where rollups are kept.

use std::collections::BTreeMap;
use std::ops::Range;

use super::records::{Records, Write};
use crate::deltas::Deltas;
use crate::rollup::Cell;
use crate::series::{Cut, Level};

/// The store answered with an error; nothing is known to have changed.
#[derive(Debug, thiserror::Error)]
#[error("store failed: {0}")]
pub struct StoreError(pub String);

/// What others than the rollups keep with a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Small states by name, each replaced as a whole.
    pub states: Vec<(&'static str, Vec<u8>)>,
    /// The records that changed, to be read back through [`Records`](super::records::Records).
    pub records: Vec<Write>,
}

/// Rollups of every game by minute and hour.
///
/// A range of the log applied twice counts once, also when a crash came between: the store keeps the end of what it
/// has applied in the same transaction as the data. Ranges come in log order, each starting where the last one ended.
pub trait Counters: Records {
    /// Adds what the log's `range` changed. A range that ends at or before `applied_until` changes nothing.
    ///
    /// Readers see the whole of it or nothing of it.
    fn apply(&self, range: Range<u64>, deltas: &Deltas) -> Result<(), StoreError>;

    /// The end of the log that reads include.
    fn applied_until(&self) -> u64;

    /// The end of the log that would survive a power cut here; the log is replayed from this offset at start.
    fn durable_until(&self) -> u64;

    /// Takes what is applied but not yet durable aside, to be made durable by the caller's own thread.
    ///
    /// `kept` is stored in the same transaction: what others know that belongs to exactly this position. One
    /// checkpoint at a time: the next is frozen only after the one before was committed.
    fn freeze(&self, kept: Kept) -> Box<dyn Checkpoint>;

    /// What was last kept durably under this name; it belongs to [`Counters::durable_until`] at the time of opening.
    fn kept(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Visits the slots of one cut of a metric that lie in `minutes` (minutes since 1970-01-01 UTC; for hour slots both
    /// ends are whole hours): the row's value, the first minute of the slot, the slot. With `values`, only those rows.
    /// No order is promised. Slots in which nothing happened are not visited.
    fn visit(
        &self,
        select: Select<'_>,
        minutes: Range<u32>,
        visit: &mut dyn FnMut(&str, u32, &Cell),
    ) -> Result<(), StoreError>;

    /// Every row of these hours (since 1970) and the position that they contain. For comparing and for replacing; its
    /// cost and memory follow the rows.
    fn export(&self, hours: &Range<u32>) -> Result<(u64, Rows), StoreError>;

    /// Puts these rows in the place of all rows of the hours, durably. The position stays as it is. Nothing is applied
    /// and nothing frozen meanwhile.
    fn replace(&self, hours: &Range<u32>, rows: &Rows) -> Result<(), StoreError>;

    /// The metrics that have rows in `minutes`, in order: event names and the server's own.
    fn metrics(&self, game: u32, minutes: Range<u32>) -> Result<Vec<String>, StoreError>;
}

/// Rows by their stored keys, in order.
pub type Rows = BTreeMap<Vec<u8>, ExportedRow>;

/// One row of one hour as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedRow {
    /// For people: the game, the metric, the row's value and the hour.
    pub name: String,
    /// The lowest log offset that contributed.
    pub since: u64,
    /// The encoded [`crate::rollup::HourBlock`]: the same content has the same bytes.
    pub block: Vec<u8>,
}

/// Applied additions on their way to the disk.
pub trait Checkpoint: Send {
    /// Makes them durable, all or none. May take seconds. After an error it may be called again.
    fn commit(&mut self) -> Result<(), StoreError>;
}

/// What to visit.
#[derive(Clone, Copy, Debug)]
pub struct Select<'a> {
    /// The tenant.
    pub game: u32,
    /// The event name, or [`crate::series::EVENTS`].
    pub metric: &'a str,
    /// How it is cut.
    pub cut: Cut,
    /// Only these rows; `None` for all rows.
    pub values: Option<&'a [&'a str]>,
    /// Minute or hour slots.
    pub level: Level,
}
