//! A folder, such as a mounted disk of another machine.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use rustix::fs::{FlockOperation, flock};

use super::Target;

/// Locked by the process that writes.
const LOCK: &str = "lock";
/// A file that is being written.
const UNFINISHED: &str = "next.unfinished";
/// What a new file system contains.
const LOST_AND_FOUND: &str = "lost+found";

pub(super) struct FolderTarget {
    folder: PathBuf,
}

impl FolderTarget {
    pub(super) fn new(folder: &Path) -> FolderTarget {
        FolderTarget { folder: folder.to_owned() }
    }

    fn visit(&self, folder: &str, found: &mut Vec<(String, u64)>) -> anyhow::Result<()> {
        let path = self.folder.join(folder);
        let entries = match fs::read_dir(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries.with_context(|| format!("listing {}", path.display()))?,
        };
        for entry in entries {
            let entry = entry.with_context(|| format!("listing {}", path.display()))?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if folder.is_empty() && [LOCK, UNFINISHED, LOST_AND_FOUND].contains(&name.as_str()) {
                continue;
            }
            let name = format!("{folder}{name}");
            let found_entry = entry.metadata().with_context(|| format!("reading {name}"))?;
            if found_entry.is_dir() {
                self.visit(&format!("{name}/"), found)?;
            } else {
                found.push((name, found_entry.len()));
            }
        }
        Ok(())
    }

    fn write_unfinished(&self, bytes: &[u8]) -> std::io::Result<PathBuf> {
        let unfinished = self.folder.join(UNFINISHED);
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(unfinished)
    }

    fn create_folder(&self, folder: &Path) -> std::io::Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        folder.parent().map_or(Ok(()), sync)
    }
}

fn sync(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

impl Target for FolderTarget {
    fn begin_writing(&self) -> anyhow::Result<Option<File>> {
        self.create_folder(&self.folder).with_context(|| format!("creating {}", self.folder.display()))?;
        let path = self.folder.join(LOCK);
        let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = opened.with_context(|| format!("opening {}", path.display()))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                bail!("another process writes a backup to {}; try again later", self.folder.display())
            }
            // Some network file systems have no locks.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS | rustix::io::Errno::NOLCK) => {
                Ok(None)
            }
            Err(error) => Err(error).with_context(|| format!("locking {}", path.display())),
        }
    }

    fn list(&self, prefix: &str) -> anyhow::Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        self.visit(prefix, &mut found)?;
        Ok(found)
    }

    fn read(&self, name: &str, bytes_max: u64) -> anyhow::Result<Option<Vec<u8>>> {
        let path = self.folder.join(name);
        let file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.with_context(|| format!("opening {}", path.display()))?,
        };
        let mut bytes = Vec::new();
        file.take(bytes_max + 1)
            .read_to_end(&mut bytes)
            .with_context(|| format!("reading {}", path.display()))?;
        ensure!(bytes.len() as u64 <= bytes_max, "{} is larger than {bytes_max} bytes", path.display());
        Ok(Some(bytes))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let path = self.folder.join(name);
        let folder = path.parent().unwrap_or(&self.folder);
        let write = || {
            self.create_folder(folder)?;
            let unfinished = self.write_unfinished(bytes)?;
            fs::rename(unfinished, &path)?;
            sync(folder)
        };
        write().with_context(|| format!("writing {}", path.display())).inspect_err(|_| {
            // On a full disk the file would take the room that others need.
            let _ = fs::remove_file(self.folder.join(UNFINISHED));
        })
    }

    fn remove(&self, name: &str) -> anyhow::Result<()> {
        let path = self.folder.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("removing {}", path.display()))
            }
            _ => Ok(()),
        }
    }

    fn description(&self) -> String {
        self.folder.display().to_string()
    }
}
