//! Errors that concern a whole batch.

use wal::WalError;

use super::QuotaExceeded;
use crate::catalog::GameArchived;

/// The reason why a whole batch was not appended. Nothing of it was stored.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// The log did not accept the entry.
    #[error(transparent)]
    Wal(#[from] WalError),
    /// The batch exceeds a quota.
    #[error(transparent)]
    Limited(#[from] QuotaExceeded),
    /// The game is archived.
    #[error(transparent)]
    Archived(#[from] GameArchived),
}

impl IngestError {
    /// Returns true if the same batch may succeed when it is submitted again a moment later.
    pub(super) fn is_transient(&self) -> bool {
        matches!(self, IngestError::Wal(failure) if failure.is_temporary())
    }
}
