//! Disk space for the views and the event ids, and the reserve that lets checkpoints finish on a full disk.
//!
//! The log checks the room in its own folder. The store of the views cannot be written to any more after it has found the
//! disk full once, so writes stop before that: while less than the minimum is free, no entry is accepted. A checkpoint
//! that does not fit all the same gets the room of a file that is kept for this, the *reserve*.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use tracing::{debug, warn};

/// The name of the reserve in the data folder.
const RESERVE: &str = "reserve";
/// The reserve while it is being created.
const UNFINISHED: &str = "reserve.unfinished";
/// The time for which the result of a check is used again.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Bytes of one write where the file system cannot reserve space.
const WRITE_BYTES: usize = 1 << 20;

/// The room for views and event ids.
#[derive(Default)]
pub struct DiskSpace {
    /// The folders that need room; the first is the data folder itself.
    folders: Vec<PathBuf>,
    free_bytes_min: u64,
    reserve_bytes: u64,
    last_check: Mutex<Option<(Instant, bool)>>,
    /// A checkpoint waits for room.
    checkpoint_waits: AtomicBool,
}

impl DiskSpace {
    /// Watches a data folder. `free_bytes_min` is the room that must be left, `reserve_bytes` the size of the reserve.
    pub fn new(data: &Path, free_bytes_min: u64, reserve_bytes: u64) -> DiskSpace {
        let folders = vec![data.to_owned(), data.join("views"), data.join("ids")];
        DiskSpace { folders, free_bytes_min, reserve_bytes, ..DiskSpace::default() }
    }

    /// Returns true if views or event ids have no room, so that no entry may be accepted.
    pub fn is_full(&self) -> bool {
        if self.checkpoint_waits.load(Ordering::Acquire) {
            return true;
        }
        let (mut last_check, now) = (self.last_check.lock(), Instant::now());
        if let Some((_, is_full)) = last_check.filter(|(at, _)| now - *at < CHECK_INTERVAL) {
            return is_full;
        }
        // The log checks the data folder's own file system, unless its folder is on another.
        let lacks_room = |folder: &PathBuf| free_bytes(folder).is_some_and(|free| free < self.free_bytes_min);
        let is_full = self.folders.iter().skip(1).any(lacks_room);
        *last_check = Some((now, is_full));
        is_full
    }

    /// Returns true if the data folder has room for work that is not needed to accept entries: more than twice the minimum.
    pub fn has_room_to_spare(&self) -> bool {
        let free = self.folders.first().and_then(|data| free_bytes(data));
        free.is_none_or(|free| free > self.free_bytes_min.saturating_mul(2))
    }

    /// Sets whether a checkpoint waits for room.
    pub(crate) fn set_checkpoint_waits(&self, waits: bool) {
        self.checkpoint_waits.store(waits, Ordering::Release);
    }

    /// Deletes the reserve. Returns false if there is none.
    pub(crate) fn release_reserve(&self) -> bool {
        let Some(data) = self.folders.first() else { return false };
        let released = fs::remove_file(data.join(RESERVE)).is_ok();
        if released {
            warn!("the disk is full; the reserve was deleted so that the checkpoint can finish");
        }
        released
    }

    /// Creates the reserve if it is missing and there is room for it.
    pub(crate) fn restore_reserve(&self) {
        let Some(data) = self.folders.first().filter(|_| self.reserve_bytes > 0) else { return };
        let path = data.join(RESERVE);
        if fs::metadata(&path).is_ok_and(|found| found.len() == self.reserve_bytes) {
            return;
        }
        // The room of the reserve must not be missing elsewhere right away.
        let wanted = self.reserve_bytes.saturating_add(self.free_bytes_min.saturating_mul(2));
        if free_bytes(data).is_some_and(|free| free < wanted) {
            return;
        }
        match create(data, self.reserve_bytes) {
            Ok(()) => debug!(bytes = self.reserve_bytes, "created the reserve of disk space"),
            Err(error) => {
                warn!(%error, "cannot create the reserve of disk space");
                let _ = fs::remove_file(data.join(UNFINISHED));
            }
        }
    }
}

/// Returns the bytes that can still be written to a folder; `None` if they are unknown.
fn free_bytes(folder: &Path) -> Option<u64> {
    let found = statvfs(folder).ok()?;
    Some(found.f_bavail * found.f_frsize)
}

/// Creates the reserve under its name once its space is reserved.
fn create(data: &Path, bytes: u64) -> std::io::Result<()> {
    let unfinished = data.join(UNFINISHED);
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) => {}
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => write_zeros(&file, bytes)?,
        Err(error) => return Err(error.into()),
    }
    // No sync: a reserve that a power cut removes is created again.
    fs::rename(&unfinished, data.join(RESERVE))
}

fn write_zeros(mut file: &File, bytes: u64) -> std::io::Result<()> {
    let zeros = vec![0; WRITE_BYTES];
    let mut left = bytes;
    while left > 0 {
        let part = left.min(WRITE_BYTES as u64);
        std::io::Write::write_all(&mut file, &zeros[..part as usize])?;
        left -= part;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_takes_its_room_until_it_is_released() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let space = DiskSpace::new(folder.path(), 0, 3 << 20);
        assert!(!space.release_reserve(), "there is none yet");
        space.restore_reserve();
        let found = fs::metadata(folder.path().join(RESERVE)).expect("the reserve exists");
        let blocks = std::os::unix::fs::MetadataExt::blocks(&found);
        assert!(found.len() == 3 << 20 && blocks * 512 >= 3 << 20, "{blocks} blocks");
        space.restore_reserve();
        assert!(space.release_reserve() && !space.release_reserve());
        space.restore_reserve();
        assert!(folder.path().join(RESERVE).exists());
    }

    #[test]
    fn the_disk_counts_as_full_below_the_minimum_and_while_a_checkpoint_waits() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(folder.path().join("views")).expect("a folder");
        let space = DiskSpace::new(folder.path(), 0, 0);
        assert!(!space.is_full());
        space.set_checkpoint_waits(true);
        assert!(space.is_full());
        space.set_checkpoint_waits(false);
        assert!(!space.is_full());
        assert!(DiskSpace::new(folder.path(), u64::MAX, 0).is_full());
        let space = DiskSpace::new(folder.path(), u64::MAX, 1 << 20);
        space.restore_reserve();
        assert!(!folder.path().join(RESERVE).exists(), "there is no room for it");
    }
}
