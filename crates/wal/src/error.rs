//! The errors of a log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An error of the log.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WalError {
    /// The disk is full. Nothing of the entry was stored; it may be retried later.
    #[error("the disk is full: the log accepts entries again when space is free")]
    Full,
    /// The queue is full. Nothing of the entry was stored; it may be retried.
    #[error("the log's queue is full: {queued_bytes} of {limit_bytes} bytes are waiting")]
    Overloaded {
        /// Bytes that are queued or being written.
        queued_bytes: usize,
        /// The queue's limit.
        limit_bytes: usize,
    },
    /// The sequencer could not decide about the entry. Nothing of it was stored; it may be retried.
    #[error("{reason}; send it again")]
    Rejected {
        /// The reason.
        reason: String,
    },
    /// The entry is larger than any log accepts.
    #[error("an entry of {bytes} bytes is larger than the limit of {limit_bytes} bytes")]
    TooLarge {
        /// Size of the entry.
        bytes: usize,
        /// The largest size accepted.
        limit_bytes: usize,
    },
    /// The disk failed while writing or syncing. Unacknowledged entries may or may not be on disk. Nothing is
    /// acknowledged any more, and the process is expected to exit.
    #[error("the log has stopped after a disk failure")]
    Stopped,
    /// The log was closed; the entry was not written.
    #[error("the log is closed")]
    Closed,
    /// The requested offset was trimmed.
    #[error("the log starts at offset {first}: everything before it was removed")]
    Trimmed {
        /// The first offset that was not trimmed.
        first: u64,
    },
    /// The segment was written by a newer version of the program. Nothing was changed.
    #[error(
        "{} has log format {found}, this program reads up to {known}: use a newer program",
        path.display()
    )]
    Version {
        /// The segment.
        path: PathBuf,
        /// Its format version.
        found: u32,
        /// The newest format version this program reads.
        known: u32,
    },
    /// The log does not contain the offset at which its reader continues: files are missing, or of another time than
    /// what the reader has stored. Nothing was changed.
    #[error("{} contains offsets {first} to {next}, but offset {needed} is needed to continue", path.display())]
    Mismatch {
        /// The folder of the log.
        path: PathBuf,
        /// The first offset of the log.
        first: u64,
        /// The offset after its last.
        next: u64,
        /// The offset at which the reader continues.
        needed: u64,
    },
    /// The newest segment is missing. Nothing was changed.
    #[error("{}, the newest segment of the log, is missing", path.display())]
    Lost {
        /// The segment.
        path: PathBuf,
        /// Its first offset.
        first: u64,
    },
    /// The segment cannot be read. Of the newest one, the next offset is then unknown. Nothing was changed.
    #[error("{} is damaged: {reason}", path.display())]
    Unreadable {
        /// The segment.
        path: PathBuf,
        /// The damage that was found.
        reason: &'static str,
    },
    /// The operating system returned an error. A closed segment that cannot be read is damage and no error.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: Arc<io::Error>,
    },
}

impl WalError {
    /// Returns a closure for `map_err` that adds the action and the file.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WalError {
        let path = path.to_path_buf();
        move |source| WalError::Io { action, path, source: Arc::new(source) }
    }

    /// Returns true if a retry with the same entry can succeed later.
    pub fn is_temporary(&self) -> bool {
        matches!(self, WalError::Full | WalError::Overloaded { .. } | WalError::Rejected { .. })
    }
}

/// A range of the log whose bytes differ from what was written. It is quarantined: left as it is, skipped by
/// readers, and reported to them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Damage {
    /// First offset of the segment, which is also its file name.
    pub segment: u64,
    /// The first damaged byte of the file.
    pub byte_from: u64,
    /// The first byte after the damage.
    pub byte_to: u64,
    /// The first offset that is lost.
    pub offset_from: u64,
    /// The first readable offset after it.
    pub offset_to: u64,
}

/// Returns true if the device cannot read what was written, or the file is gone. Another attempt does not help.
pub(crate) fn is_unreadable(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// Returns true for errors that go away when files are deleted.
pub(crate) fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
