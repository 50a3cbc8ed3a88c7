//! The files of a log while nothing removes or rewrites them, for a backup.

use std::path::PathBuf;

use parking_lot::MutexGuard;

use crate::shared::{Core, Rewriting};

/// Keeps the files of a log until it is dropped; see [`crate::Wal::hold_files`].
pub struct HeldFiles<'a> {
    core: &'a Core,
    /// Locked in the order in which a rewrite locks them.
    _rewriting: MutexGuard<'a, Rewriting>,
    _trimming: MutexGuard<'a, ()>,
}

/// A segment on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentFile {
    /// Its path.
    pub path: PathBuf,
    /// The bytes from its beginning that are durable and do not change any more.
    pub bytes: u64,
}

impl<'a> HeldFiles<'a> {
    pub(crate) fn of(core: &'a Core) -> HeldFiles<'a> {
        let rewriting = core.rewriting.lock();
        HeldFiles { core, _rewriting: rewriting, _trimming: core.trimming.lock() }
    }

    /// Returns the segments, oldest first, and the offset before which they contain everything that the log has.
    pub fn segments(&self) -> (Vec<SegmentFile>, u64) {
        // The writer makes the bytes known before the offset, so the bytes contain at least these offsets.
        let until = self.core.tail.durable_until();
        let segments = self.core.segments.lock();
        let file = |first, bytes| SegmentFile { path: self.core.folder.segment_path(first), bytes };
        let mut files: Vec<SegmentFile> =
            segments.list.iter().map(|segment| file(segment.first, segment.bytes)).collect();
        if let Some(active) = files.last_mut() {
            active.bytes = segments.durable_at;
        }
        (files, until)
    }
}
