//! The port for live-ops records: values by key.

use super::counters::StoreError;

/// Live-ops records by key, as of the last checkpoint.
///
/// Records are written only by [`Counters::checkpoint`](super::counters::Counters::checkpoint), in the same
/// transaction as the rollups and the log position that both contain. After a crash they are therefore at exactly
/// that position, and the log is applied again from there.
pub trait Records: Send + Sync {
    /// Returns the value of this key.
    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Visits the records whose keys start with `prefix`, in key order.
    fn records(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError>;

    /// Removes every trace of records that were deleted or replaced before the call: when it returns, no file
    /// holds a byte of them. Blocks; the cost grows with the number of all records. An engine without files has
    /// nothing to do.
    fn purge(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A record to write or, with `None` as the value, to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordWrite {
    /// Starts with the game and the subject; see `docs/data_files.md`.
    pub key: Vec<u8>,
    /// The new value.
    pub value: Option<Vec<u8>>,
}
