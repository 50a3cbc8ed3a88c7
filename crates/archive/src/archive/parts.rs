//! A file of the archive as snapshots share it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wal::Disk;

use crate::part::{PartInfo, PartReader};
use crate::scan::ScanFailure;

/// A part. A file that was replaced is removed when the last snapshot with it is dropped.
pub(crate) struct Part {
    pub(crate) info: PartInfo,
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// The path below the folder of the archive.
    name: String,
    is_obsolete: AtomicBool,
}

impl Part {
    pub(crate) fn new(disk: Arc<dyn Disk>, folder: &std::path::Path, game: u32, info: PartInfo) -> Part {
        let name = format!("{game}/{}", info.path());
        Part { disk, path: folder.join(&name), name, info, is_obsolete: AtomicBool::new(false) }
    }

    pub(crate) fn open(&self) -> Result<PartReader, ScanFailure> {
        PartReader::open(&*self.disk, &self.path, self.name.clone(), &self.info)
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns what is wrong with the file at first sight.
    pub(crate) fn problem(&self) -> Option<String> {
        match self.disk.open(&self.path).and_then(|file| file.bytes()) {
            Ok(bytes) if bytes == self.info.bytes => None,
            Ok(bytes) => Some(format!("has {bytes} bytes instead of {}", self.info.bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some("is missing".to_owned()),
            Err(error) => Some(format!("cannot be read: {error}")),
        }
    }

    /// Lets the file be removed when it is no longer used.
    pub(crate) fn set_obsolete(&self) {
        self.is_obsolete.store(true, Ordering::Release);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.is_obsolete.load(Ordering::Acquire) {
            return;
        }
        if let Err(error) = self.disk.remove(&self.path) {
            tracing::warn!(path = self.name, %error, "cannot remove a replaced file; the next start will");
            return;
        }
        if let Some(folder) = self.path.parent() {
            // The folder of a day without files; it fails if there are any.
            let _ = std::fs::remove_dir(folder);
            let _ = folder.parent().map(|folder| self.disk.sync_folder(folder));
        }
    }
}
