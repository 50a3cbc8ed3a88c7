//! What can go wrong with a log, and what the caller may do about it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why the log did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WalError {
    /// The disk has no room. Nothing of the entry was kept; the same entry may be sent again later.
    #[error("the disk is full: the log takes entries again when there is room")]
    Full,
    /// Too much is waiting already. Nothing of the entry was kept; it may be sent again.
    #[error("the log's queue is full: {queued_bytes} of {limit_bytes} bytes are waiting")]
    Overloaded {
        /// Bytes that wait or are being written.
        queued_bytes: usize,
        /// The queue's bound.
        limit_bytes: usize,
    },
    /// No log takes an entry of this size.
    #[error("an entry of {bytes} bytes is larger than the limit of {limit_bytes}")]
    TooLarge {
        /// Size of the entry.
        bytes: usize,
        /// The largest that is taken.
        limit_bytes: usize,
    },
    /// The disk failed while writing or syncing. Entries not yet answered may or may not be on disk;
    /// nothing is acknowledged any more, and the process is expected to end.
    #[error("the log has stopped after a disk failure")]
    Stopped,
    /// The log was closed; the entry was not written.
    #[error("the log is closed")]
    Closed,
    /// What was asked for has been given back to the disk.
    #[error("the log starts at offset {first}: everything before it was removed")]
    Trimmed {
        /// The first offset that is still there.
        first: u64,
    },
    /// The segment was written by a newer program. Nothing was changed.
    #[error(
        "{} has log format {found}, this program reads up to {known}: use a newer program",
        path.display()
    )]
    Version {
        /// The segment.
        path: PathBuf,
        /// Its format version.
        found: u32,
        /// The newest version this program reads.
        known: u32,
    },
    /// The newest segment cannot be read at all, so the next offset is unknown. Nothing was changed.
    #[error("{} is damaged: {reason}; restore it, or move it away to go on without it", path.display())]
    Unreadable {
        /// The segment.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The operating system refused.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
}

impl WalError {
    /// For `map_err`: names the action and the file.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WalError {
        let path = path.to_path_buf();
        move |source| WalError::Io { action, path, source: Arc::new(source) }
    }

    /// True when sending the same entry again, later, can succeed.
    pub fn is_temporary(&self) -> bool {
        matches!(self, WalError::Full | WalError::Overloaded { .. })
    }
}

/// A place in the log whose content is not what was written. It is left as it is, and passed over
/// by readers, who are told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Damage {
    /// First offset of the segment, which is also its name.
    pub segment: u64,
    /// Where in the file the damage begins.
    pub byte_from: u64,
    /// The first byte after it.
    pub byte_to: u64,
    /// The first offset that is lost.
    pub offset_from: u64,
    /// The first offset after it that is there again.
    pub offset_to: u64,
}

/// True for the errors that go away when something is deleted.
pub(crate) fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
