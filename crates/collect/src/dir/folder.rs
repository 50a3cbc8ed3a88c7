//! The watched folder: finds complete files, and archives, deletes or sets aside ingested ones.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, StatxFlags};
use rustix::io::Errno;

/// Name endings that common tools use for files they are still writing.
const UNFINISHED_ENDINGS: [&str; 5] = [".part", ".tmp", ".partial", ".filepart", ".crdownload"];
/// Files returned by one scan. The next scan finds the others.
const FOUND_MAX: usize = 10_000;
/// Files with the same original name in one target folder.
const SAME_NAME_MAX: u32 = 100_000;

const ARCHIVE: &str = "archive";
const FAILED: &str = "failed";

/// A watched folder, held open.
pub(super) struct WatchedFolder(OwnedFd);

/// A complete file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundFile {
    pub(super) name: OsString,
    /// Its size in bytes.
    pub(super) len: u64,
    /// The time of its last change, since 1970.
    changed: Duration,
    /// Distinguishes it from every other file that is or was in the folder.
    pub(super) identity: FileIdentity,
}

/// Device, inode and creation time. The creation time is included because inodes are reused; not all file systems have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileIdentity {
    device: u64,
    inode: u64,
    born: Duration,
}

impl FileIdentity {
    /// Returns the bytes from which the ids of its events are derived.
    pub(super) fn to_bytes(self) -> [u8; 24] {
        let FileIdentity { device, inode, born } = self;
        let mut bytes = [0; 24];
        for (target, number) in bytes.chunks_exact_mut(8).zip([device, inode, born.as_nanos() as u64]) {
            target.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }
}

impl WatchedFolder {
    /// Opens the folder. Fails if the path is a link.
    pub(super) fn open(path: &Path) -> anyhow::Result<WatchedFolder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty());
        Ok(WatchedFolder(opened.with_context(|| format!("path: opening the folder {}", path.display()))?))
    }

    /// Returns regular files that have a finished name and have not changed for `settle`, oldest first.
    pub(super) fn complete_files(&self, settle: Duration) -> io::Result<Vec<FoundFile>> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut found = BTreeMap::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if is_unfinished(name) || !matches!(entry.file_type(), FileType::RegularFile | FileType::Unknown)
            {
                continue;
            }
            let name = OsString::from_vec(name.to_vec());
            let Some(file) = self.stat(&name)? else { continue };
            if file.changed + settle <= now && found.len() < FOUND_MAX {
                found.insert((file.changed, name), file);
            }
        }
        Ok(found.into_values().collect())
    }

    /// Returns the regular file that currently has this name, if there is one.
    fn stat(&self, name: &OsStr) -> io::Result<Option<FoundFile>> {
        let flags = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let stat = match rustix::fs::statx(&self.0, name, AtFlags::SYMLINK_NOFOLLOW, flags) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(failure) => return Err(failure.into()),
        };
        if FileType::from_raw_mode(stat.stx_mode.into()) != FileType::RegularFile {
            return Ok(None);
        }
        let time = |s: i64, ns: u32| Duration::new(s.max(0) as u64, ns);
        let written = time(stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec);
        let moved = time(stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec);
        let device = u64::from(stat.stx_dev_major) << 32 | u64::from(stat.stx_dev_minor);
        let born = time(stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec);
        let identity = FileIdentity { device, inode: stat.stx_ino, born };
        Ok(Some(FoundFile {
            name: name.to_owned(),
            len: stat.stx_size,
            changed: written.max(moved),
            identity,
        }))
    }

    /// Returns true if the file has not changed since it was found.
    pub(super) fn is_unchanged(&self, found: &FoundFile) -> io::Result<bool> {
        Ok(self.stat(&found.name)?.as_ref() == Some(found))
    }

    /// Opens the file. Returns `None` if it changed or was replaced. If a device or a pipe replaced it, opening does not
    /// block.
    pub(super) fn open_file(&self, found: &FoundFile) -> io::Result<Option<File>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.0, &found.name, flags, Mode::empty())?);
        let stat = rustix::fs::fstat(&file)?;
        Ok((stat.st_ino == found.identity.inode && self.is_unchanged(found)?).then_some(file))
    }

    pub(super) fn delete(&self, found: &FoundFile) -> anyhow::Result<()> {
        rustix::fs::unlinkat(&self.0, &found.name, AtFlags::empty()).context("deleting the file")
    }

    pub(super) fn archive(&self, found: &FoundFile) -> anyhow::Result<()> {
        self.move_to(ARCHIVE, found).map(drop)
    }

    /// Moves the file to the folder `failed`, and writes the reason to a file next to it.
    pub(super) fn move_to_failed(&self, found: &FoundFile, reason: &str) -> anyhow::Result<()> {
        let mut name = self.move_to(FAILED, found)?;
        name.push(".reason.txt");
        let path = Path::new(FAILED).join(name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.0, &path, flags, Mode::from_raw_mode(0o644));
        let file = file.context("writing the reason")?;
        writeln!(File::from(file), "{reason}").context("writing the reason")
    }

    /// Moves the file into a folder inside the watched folder, under a name that is free there. Returns that name.
    fn move_to(&self, folder: &str, found: &FoundFile) -> anyhow::Result<OsString> {
        match rustix::fs::mkdirat(&self.0, folder, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(failure) => return Err(failure).with_context(|| format!("creating the folder {folder}")),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let target = rustix::fs::openat(&self.0, folder, flags, Mode::empty());
        let target = target.with_context(|| format!("opening the folder {folder}"))?;
        for number in 0..SAME_NAME_MAX {
            let mut name = found.name.clone();
            if number > 0 {
                name.push(format!("-{number}"));
            }
            match rustix::fs::renameat_with(&self.0, &found.name, &target, &name, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(name),
                Err(Errno::EXIST) => {}
                Err(failure) => return Err(failure).with_context(|| format!("moving the file to {folder}")),
            }
        }
        bail!("{folder} already has {SAME_NAME_MAX} files with this name: delete or move some of them")
    }
}

fn is_unfinished(name: &[u8]) -> bool {
    name.first() == Some(&b'.') || UNFINISHED_ENDINGS.iter().any(|end| name.ends_with(end.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn names(folder: &Path, settle: Duration) -> Vec<String> {
        let found =
            WatchedFolder::open(folder).expect("a folder").complete_files(settle).expect("it can be read");
        found.into_iter().map(|found| found.name.to_string_lossy().into_owned()).collect()
    }

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary folder")
    }

    fn write(folder: &Path, name: &str) {
        std::fs::write(folder.join(name), "{}\n").expect("a file");
    }

    #[test]
    fn only_regular_files_with_finished_names_are_found() {
        let (folder, outside) = (folder(), folder());
        for name in ["one.json", ".hidden", "two.json.part", "three.tmp", "four"] {
            write(folder.path(), name);
        }
        write(outside.path(), "secret");
        symlink(outside.path().join("secret"), folder.path().join("link.json")).expect("a link");
        std::fs::create_dir(folder.path().join("deeper")).expect("a folder");
        write(&folder.path().join("deeper"), "five.json");
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join("pipe.json"), Mode::RWXU).expect("a pipe");
        let mut found = names(folder.path(), Duration::ZERO);
        found.sort();
        assert_eq!(found, ["four", "one.json"]);
    }

    #[test]
    fn file_is_complete_after_the_settle_time() {
        let folder = folder();
        write(folder.path(), "one.json");
        assert_eq!(names(folder.path(), Duration::from_secs(3600)), [""; 0]);
        assert_eq!(names(folder.path(), Duration::ZERO), ["one.json"]);
    }

    #[test]
    fn changed_or_replaced_file_is_not_opened() {
        let root = folder();
        let folder = WatchedFolder::open(root.path()).expect("a folder");
        write(root.path(), "one.json");
        let found = folder.complete_files(Duration::ZERO).expect("it can be read").remove(0);
        assert!(folder.is_unchanged(&found).expect("it is there"));
        std::fs::write(root.path().join("one.json"), "{}\n{}\n").expect("a file");
        assert!(!folder.is_unchanged(&found).expect("it is there"));
        assert!(folder.open_file(&found).expect("it can be opened").is_none());
        let outside = self::folder();
        write(outside.path(), "secret");
        std::fs::remove_file(root.path().join("one.json")).expect("it is there");
        symlink(outside.path().join("secret"), root.path().join("one.json")).expect("a link");
        assert!(folder.open_file(&found).is_err(), "links are not followed");
    }

    #[test]
    fn archived_files_with_the_same_name_are_all_kept() {
        let root = folder();
        let folder = WatchedFolder::open(root.path()).expect("a folder");
        for _ in 0..3 {
            write(root.path(), "one.json");
            let found = folder.complete_files(Duration::ZERO).expect("it can be read").remove(0);
            folder.archive(&found).expect("there is room");
        }
        write(root.path(), "one.json");
        let found = folder.complete_files(Duration::ZERO).expect("it can be read").remove(0);
        folder.move_to_failed(&found, "it has no header").expect("there is room");
        let kept = |name: &str| std::fs::read_to_string(root.path().join(name)).expect("it was kept");
        for name in ["archive/one.json", "archive/one.json-1", "archive/one.json-2", "failed/one.json"] {
            assert_eq!(kept(name), "{}\n");
        }
        assert_eq!(kept("failed/one.json.reason.txt"), "it has no header\n");
    }
}
