//! Where live-ops keep what they know: records by key.

use super::counters::StoreError;

/// Records by key, as of the last checkpoint.
///
/// Records are written only by [`Counters::freeze`](super::counters::Counters::freeze), in the same transaction as the
/// rollups and the log position that both contain. So after a crash they stand at exactly that position, and the log
/// is applied again from there.
pub trait Records: Send + Sync {
    /// The record of this key.
    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Visits the records whose keys begin with `prefix`, in the order of their keys.
    fn records(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError>;

    /// When it returns, no file holds a byte of the records that were removed or replaced before it was called. Blocks;
    /// its cost follows all records there are. An engine without files has nothing to do.
    fn purge(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A record to be written, or with `None` to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Begins with the game and the subject; see `docs/data_files.md`.
    pub key: Vec<u8>,
    /// Its new bytes.
    pub value: Option<Vec<u8>>,
}
