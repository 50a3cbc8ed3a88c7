//! The folder that receives files.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

/// How the names of files begin that are being uploaded. Readers of the folder skip names that begin with a dot.
const TEMPORARY: &str = ".upload-";
/// Names of folders, some of which the reader of the files creates.
const RESERVED: [&str; 4] = [".", "..", "archive", "failed"];
const NAME_BYTES_MAX: usize = 200;
/// Files in one listing.
const LISTED_MAX: usize = 10_000;

/// A folder that receives files, held open.
pub struct Inbox {
    folder: OwnedFd,
    file_bytes_max: u64,
}

/// Why a file was not received.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// The path does not name a file in the folder.
    #[error(
        "the name must be that of a file in this folder: 1 to {NAME_BYTES_MAX} bytes without `/`, and not `archive`, \
         `failed` or `.upload-...`"
    )]
    Name,
    /// The client wrote at another place than the end.
    #[error(
        "a file must be written from its beginning to its end: {len} bytes are there, the next was {offset}"
    )]
    NotInOrder {
        /// The bytes received.
        len: u64,
        /// The position of the bytes refused.
        offset: u64,
    },
    /// The file is larger than allowed.
    #[error("the file must have at most {0} bytes (file_bytes_max)")]
    TooLarge(u64),
    /// An earlier write of this file failed.
    #[error("the file is incomplete, because an earlier write failed")]
    Incomplete,
    /// The operating system reported this.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Errno> for UploadError {
    fn from(failure: Errno) -> UploadError {
        UploadError::Io(failure.into())
    }
}

/// A complete file in the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedFile {
    pub(crate) name: String,
    pub(crate) len: u64,
    /// Seconds since 1970.
    pub(crate) modified_s: u32,
}

impl Inbox {
    /// Opens the folder and removes what uploads left that a crash interrupted. Fails if the path is a link, or if
    /// another inbox has the folder open.
    pub fn open(path: &Path, file_bytes_max: u64) -> anyhow::Result<Inbox> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty());
        let folder = folder.with_context(|| format!("path: opening the folder {}", path.display()))?;
        rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive)
            .with_context(|| format!("path: another collector receives files in {}", path.display()))?;
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            if entry.file_name().to_bytes().starts_with(TEMPORARY.as_bytes()) {
                rustix::fs::unlinkat(&folder, entry.file_name(), AtFlags::empty())
                    .context("path: removing an incomplete file")?;
            }
        }
        Ok(Inbox { folder, file_bytes_max })
    }

    /// Begins to receive a file under this name.
    pub(crate) fn create(self: &Arc<Inbox>, path: &str) -> Result<Upload, UploadError> {
        let name = file_name(path)?.to_owned();
        let random = getrandom::u64().map_err(io::Error::from)?;
        let temporary = format!("{TEMPORARY}{random:016x}");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, &temporary, flags, Mode::from_raw_mode(0o640))?;
        Ok(Upload { inbox: Arc::clone(self), file: File::from(file), temporary, name, len: 0, failed: false })
    }

    /// Returns the complete file of this name.
    pub(crate) fn stat(&self, path: &str) -> Result<ListedFile, UploadError> {
        let name = file_name(path)?;
        let stat = rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        listed(name, &stat).ok_or_else(|| Errno::NOENT.into())
    }

    /// Returns the complete files.
    pub(crate) fn list(&self) -> Result<Vec<ListedFile>, UploadError> {
        let mut files = Vec::new();
        for entry in Dir::read_from(&self.folder)? {
            let entry = entry?;
            if let Some(file) = self.listed_entry(entry.file_name())
                && files.len() < LISTED_MAX
            {
                files.push(file);
            }
        }
        files.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(files)
    }

    fn listed_entry(&self, name: &CStr) -> Option<ListedFile> {
        let name = file_name(name.to_str().ok()?).ok()?;
        listed(name, &rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?)
    }

    /// Renames a file. Fails if the new name is taken.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), UploadError> {
        let (from, to) = (file_name(from)?, file_name(to)?);
        rustix::fs::renameat_with(&self.folder, from, &self.folder, to, RenameFlags::NOREPLACE)?;
        Ok(rustix::fs::fsync(&self.folder)?)
    }

    /// Removes a file.
    pub(crate) fn remove(&self, path: &str) -> Result<(), UploadError> {
        Ok(rustix::fs::unlinkat(&self.folder, file_name(path)?, AtFlags::empty())?)
    }
}

/// A file that is being received. Dropping it discards what was received.
pub(crate) struct Upload {
    inbox: Arc<Inbox>,
    file: File,
    temporary: String,
    name: String,
    len: u64,
    failed: bool,
}

impl Upload {
    /// Appends bytes, which must begin at the end of what was received.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), UploadError> {
        let written = self.append(offset, bytes);
        self.failed |= written.is_err();
        written
    }

    fn append(&mut self, offset: u64, bytes: &[u8]) -> Result<(), UploadError> {
        if offset != self.len {
            return Err(UploadError::NotInOrder { len: self.len, offset });
        }
        let len = self.len + bytes.len() as u64;
        if len > self.inbox.file_bytes_max {
            return Err(UploadError::TooLarge(self.inbox.file_bytes_max));
        }
        self.file.write_all(bytes)?;
        self.len = len;
        Ok(())
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Makes the file durable and gives it its name. A file that had the name before is replaced.
    pub(crate) fn finish(self) -> Result<(), UploadError> {
        if self.failed {
            return Err(UploadError::Incomplete);
        }
        self.file.sync_all()?;
        let folder = &self.inbox.folder;
        rustix::fs::renameat(folder, &self.temporary, folder, &self.name)?;
        Ok(rustix::fs::fsync(folder)?)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // Fails if the file has its name already.
        let _ = rustix::fs::unlinkat(&self.inbox.folder, &self.temporary, AtFlags::empty());
    }
}

/// Returns the name of a file in the folder, which clients may write as `name`, `./name` or `/name`. It may begin with a
/// dot: some clients use such a name until the file is complete.
pub(crate) fn file_name(path: &str) -> Result<&str, UploadError> {
    let name = path.trim_start_matches("./").trim_start_matches('/');
    let is_valid = (1..=NAME_BYTES_MAX).contains(&name.len())
        && !name.starts_with(TEMPORARY)
        && !name.contains(|char: char| char == '/' || char.is_control())
        && !RESERVED.contains(&name);
    is_valid.then_some(name).ok_or(UploadError::Name)
}

fn listed(name: &str, stat: &Stat) -> Option<ListedFile> {
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let modified_s = u32::try_from(stat.st_mtime).unwrap_or_default();
    is_file.then(|| ListedFile { name: name.to_owned(), len: stat.st_size as u64, modified_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_files_in_the_folder_are_valid() {
        for path in ["a.json", "/a.json", "./a.json", "a b", "ä.csv", "a.json.part", ".in.a.json"] {
            assert!(file_name(path).is_ok(), "{path}");
        }
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        for path in
            ["", "/", ".", "..", "../a", "a/b", "/etc/passwd", ".upload-1", "a\nb", "a\0b", "failed", &long]
        {
            assert!(file_name(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn file_has_its_name_when_it_is_finished_and_nothing_is_left_of_others() {
        let root = tempfile::tempdir().expect("a folder");
        let inbox = Arc::new(Inbox::open(root.path(), 5).expect("a folder"));
        let names = || std::fs::read_dir(root.path()).expect("a folder").count();
        let mut upload = inbox.create("a").expect("a file");
        upload.write(0, b"abc").expect("there is room");
        assert_eq!(inbox.list().expect("a folder"), []);
        upload.write(3, b"de").expect("there is room");
        upload.finish().expect("it is complete");
        assert_eq!(std::fs::read(root.path().join("a")).expect("a file"), b"abcde");
        for (offset, bytes) in [(1, &b"a"[..]), (0, &b"abcdef"[..])] {
            let mut upload = inbox.create("b").expect("a file");
            assert!(upload.write(offset, bytes).is_err());
            let _ = upload.write(0, b"a");
            assert!(matches!(upload.finish(), Err(UploadError::Incomplete)));
        }
        drop(inbox.create("b").expect("a file"));
        assert_eq!(names(), 1);
        inbox.create("a").and_then(Upload::finish).expect("a file is replaced");
        assert_eq!(inbox.stat("/a").expect("a file").len, 0);
        assert!(Inbox::open(root.path(), 5).is_err(), "only one may receive files in a folder");
        drop(inbox);
        std::fs::write(root.path().join(".upload-1"), "half").expect("a file");
        Inbox::open(root.path(), 5).expect("a folder");
        assert_eq!(names(), 1);
    }
}
