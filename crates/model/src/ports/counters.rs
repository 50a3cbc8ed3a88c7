//! The port for rollups.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use super::records::{RecordWrite, Records};
use crate::deltas::Deltas;
use crate::rollup::Aggregate;
use crate::series::{Cut, Resolution};

/// The store returned an error; nothing is known to have changed.
#[derive(Debug, thiserror::Error)]
#[error("store failed: {0}")]
pub struct StoreError(pub String);

/// The reason why a checkpoint was not written.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// There is no disk space for it. The caller may try again when there is.
    #[error("no disk space left for a checkpoint")]
    NoSpace,
    /// The store has to be opened again after a failure, and readers or snapshots still use it. The caller may try again
    /// when they have ended.
    #[error("the store cannot be opened again while it is being read")]
    Busy,
    /// The store failed. What was written may or may not be durable, and another attempt may not find out.
    #[error(transparent)]
    Failed(#[from] StoreError),
}

impl From<CheckpointError> for StoreError {
    fn from(error: CheckpointError) -> StoreError {
        match error {
            CheckpointError::NoSpace | CheckpointError::Busy => StoreError(error.to_string()),
            CheckpointError::Failed(failure) => failure,
        }
    }
}

/// State of other components that is stored with a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SideState {
    /// Small states by name; each replaces the previous one as a whole.
    pub states: Vec<(&'static str, Vec<u8>)>,
    /// Changed records, to be read back through [`Records`].
    pub records: Vec<RecordWrite>,
}

/// The memory that a store uses for rollups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RollupMemory {
    /// Bytes in use, estimated.
    pub bytes: u64,
    /// The budget.
    pub bytes_max: u64,
}

/// Rollups of all games, by minute and hour.
///
/// A range of the log applied twice counts once, even after a crash: the store keeps the end of the applied log
/// in the same transaction as the data. Ranges come in log order, each starting where the last one ended.
pub trait Counters: Records {
    /// Applies the changes of the log's `range`. A range that ends at or before `applied_until` changes nothing.
    ///
    /// Readers see either the whole range or nothing of it.
    fn apply(&self, range: Range<u64>, deltas: &Deltas) -> Result<(), StoreError>;

    /// Returns the end of the log that reads include.
    fn applied_until(&self) -> u64;

    /// Returns the end of the log that survives a power cut here; at start, the log is replayed from this offset.
    fn durable_until(&self) -> u64;

    /// Takes a snapshot of everything applied but not yet durable, for the caller to commit on a thread of its
    /// own.
    ///
    /// `side_state` is stored in the same transaction: state of other components that belongs to exactly this
    /// position. One checkpoint at a time: the caller takes the next only after the previous one was committed.
    fn checkpoint(&self, side_state: SideState) -> Box<dyn Checkpoint>;

    /// Returns true if memory is scarce and a checkpoint would free some.
    fn wants_checkpoint(&self) -> bool {
        false
    }

    /// Returns true if the memory of the rollups exceeds its budget: nothing more should be applied before a checkpoint
    /// was committed.
    fn is_over_budget(&self) -> bool {
        false
    }

    /// Returns the memory in use.
    fn memory(&self) -> RollupMemory {
        RollupMemory::default()
    }

    /// Returns the last durable side state of this name; it belongs to [`Counters::durable_until`] at the time of
    /// opening.
    fn side_state(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Visits the slots of one cut of a metric within `minutes` (minutes since 1970-01-01 UTC; whole hours for
    /// hour slots), passing the row's value, the first minute of the slot and its aggregate. With `values`,
    /// visits only those rows. The order is unspecified. Empty slots are not visited.
    fn visit(
        &self,
        select: SlotSelector<'_>,
        minutes: Range<u32>,
        visit: &mut dyn FnMut(&str, u32, &Aggregate),
    ) -> Result<(), StoreError>;

    /// Returns all rows of these hours (since 1970) as readers see them, and the position that they contain, for tests of
    /// an engine. Time and memory grow with the number of rows.
    fn export(&self, hours: &Range<u32>) -> Result<(u64, ExportedRows), StoreError>;

    /// Returns everything that the last checkpoint wrote, as one snapshot. Holds up neither readers nor writers, however
    /// long it lives; until then the space of what it contains is not used again.
    fn snapshot(&self) -> Result<Box<dyn StoreSnapshot>, StoreError>;

    /// Creates the folder `to` on the same disk with the files of everything durable, for a backup. The files are shared
    /// with the store where they do not change any more, so this takes moments, whatever their size. No checkpoint may be
    /// committed and nothing replaced or purged meanwhile. An engine without files returns an error.
    fn link_files(&self, to: &Path) -> Result<(), StoreError>;

    /// Replaces or removes these rows, durably, all or none. The position does not change. Everything applied must be
    /// durable, and no range may be applied and no checkpoint taken meanwhile.
    fn replace(&self, changes: &[RowChange]) -> Result<(), StoreError>;

    /// Removes rows of a deleted game, up to `rows_max` of them, durably. Returns how many there were: the caller repeats it
    /// until they are fewer. No row of the game may be applied any more; otherwise as [`Counters::replace`].
    fn remove_rows(&self, game: u32, rows_max: usize) -> Result<usize, StoreError>;

    /// Removes every trace of rows and records that were removed or replaced before the call, like [`Records::purge`]. The
    /// cost grows with the number of all rows.
    fn purge_rows(&self) -> Result<(), StoreError> {
        self.purge()
    }

    /// Returns the metrics that have rows in `minutes`, in order: event names and the server's own metrics.
    fn metrics(&self, game: u32, minutes: Range<u32>) -> Result<Vec<String>, StoreError>;
}

/// Exported rows by their stored keys, in order.
pub type ExportedRows = BTreeMap<Vec<u8>, ExportedRow>;

/// One row of one hour as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedRow {
    /// The game, the metric, the row's value and the hour in readable form, for diagnostics.
    pub name: String,
    /// The lowest log offset that contributed.
    pub since: u64,
    /// The encoded [`crate::rollup::HourBlock`]. Equal content has equal bytes.
    pub block: Vec<u8>,
}

/// What one checkpoint wrote.
pub trait StoreSnapshot: Send {
    /// Returns the end of the log that it contains.
    fn position(&self) -> u64;

    /// Returns the rows of these hours (since 1970) in the order of their keys. Needs memory for some rows only.
    fn rows(&self, hours: &Range<u32>) -> SnapshotRows<'_>;

    /// Returns a row's name in readable form, for diagnostics.
    fn row_name(&self, key: &[u8]) -> String;

    /// Reads all records and compares them with what was written.
    fn check_records(&self) -> Result<RecordsCheck, StoreError>;
}

/// The rows of a snapshot.
pub type SnapshotRows<'a> = Box<dyn Iterator<Item = Result<SnapshotRow, StoreError>> + 'a>;

/// One row of one hour in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRow {
    /// Its stored key.
    pub key: Vec<u8>,
    /// The hour since 1970.
    pub hour: u32,
    /// The lowest log offset that contributed; 0 if the block is damaged.
    pub since: u64,
    /// The encoded [`crate::rollup::HourBlock`]. Equal content has equal bytes.
    pub block: Vec<u8>,
}

/// The result of [`StoreSnapshot::check_records`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordsCheck {
    /// The number of records.
    pub count: u64,
    /// The number of records that were written and not removed.
    pub expected: u64,
    /// Whether keys and values are those that were written.
    pub agrees: bool,
}

/// A change of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowChange {
    /// Its stored key.
    pub key: Vec<u8>,
    /// Its new block, or `None` to remove the row.
    pub block: Option<Vec<u8>>,
}

/// A snapshot of applied changes on its way to the disk.
pub trait Checkpoint: Send {
    /// Makes the changes durable, all or none. May take seconds. May be called again after an error.
    fn commit(&mut self) -> Result<(), CheckpointError>;
}

/// The rows and slots to visit.
#[derive(Clone, Copy, Debug)]
pub struct SlotSelector<'a> {
    /// The tenant.
    pub game: u32,
    /// The event name, or [`crate::series::EVENTS`].
    pub metric: &'a str,
    /// How the metric is divided into rows.
    pub cut: Cut,
    /// Restricts the visit to these rows; `None` selects all.
    pub values: Option<&'a [&'a str]>,
    /// Minute or hour slots.
    pub resolution: Resolution,
}
