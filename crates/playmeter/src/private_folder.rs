//! The permissions of a data folder: only its owner may enter it and read its files.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::Mode;
use rustix::process::umask;
use tracing::warn;

/// The permissions of the group and of all other users.
const NOT_OWNER: u32 = 0o077;
/// Everybody may create files in such a folder, for example in `/tmp`.
const STICKY: u32 = 0o1000;
/// The folders whose whole content is restricted.
const FOLDERS: [&str; 4] = ["log", "ids", "views", "archive"];
/// Files beside them. `catalog.json` and `bootstrap.json` are not among them: if others could read their keys, the start
/// fails, so that the keys are rotated.
const FILES: [&str; 7] =
    ["flows", "flows.damaged", "keys_used.json", "lock", "panics.json", "reserve", "server.pid"];

/// Restricts every file and folder that this process creates from now on to its owner.
pub(crate) fn restrict_new_files() {
    umask(Mode::from_raw_mode(NOT_OWNER));
}

/// Restricts what exists already: earlier versions created files that every user of the machine could read. A file that
/// belongs to another user stays as it is.
pub(crate) fn restrict_existing_files(folder: &Path) {
    restrict(folder);
    FILES.iter().for_each(|name| restrict(&folder.join(name)));
    FOLDERS.iter().for_each(|name| restrict_tree(&folder.join(name)));
}

fn restrict_tree(path: &Path) {
    restrict(path);
    let Ok(entries) = fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => restrict_tree(&entry.path()),
            Ok(kind) if kind.is_file() => restrict(&entry.path()),
            // Links lead to files that belong to something else.
            _ => {}
        }
    }
}

fn restrict(path: &Path) {
    match try_restrict(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            warn!(%error, path = %path.display(), "other users of this machine may read this: its permissions cannot be changed");
        }
        _ => {}
    }
}

fn try_restrict(path: &Path) -> io::Result<()> {
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & NOT_OWNER == 0 {
        return Ok(());
    }
    if mode & STICKY != 0 {
        return Err(io::Error::other("the folder is shared by all users; choose another one"));
    }
    fs::set_permissions(path, PermissionsExt::from_mode(mode & 0o7777 & !NOT_OWNER))
}
