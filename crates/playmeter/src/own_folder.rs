//! Whether a folder is a data folder of this program, checked before anything in it is changed.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use pipeline::catalog::check_format;

/// The file that every data folder has.
const CATALOG: &str = "catalog.json";
/// The first file that a start creates.
const LOCK: &str = "lock";
/// What a restore leaves until it is complete.
const RESTORING: &str = "restore.unfinished";
/// What a first start may leave that was interrupted before it wrote the catalog.
const FIRST_START: [&str; 16] = [
    LOCK,
    "archive",
    "bootstrap.json",
    "bootstrap.json.new",
    "catalog.json.new",
    "control.sock",
    "flows",
    "ids",
    "keys_used.json",
    "log",
    "panics.json",
    "reserve",
    "reserve.unfinished",
    "server.pid",
    "views",
    "views.unfinished",
];
/// What a new file system contains.
const LOST_AND_FOUND: &str = "lost+found";

/// Checks that a folder is new, empty, or a data folder in a format that this program reads. Changes nothing.
pub(crate) fn check(folder: &Path) -> anyhow::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.with_context(|| format!("reading the folder {}", folder.display()))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("reading the folder {}", folder.display()))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    let has = |name: &str| names.iter().any(|known| known == name);
    if has(RESTORING) {
        bail!("{} has an unfinished restore; remove the folder and restore again", folder.display());
    }
    if has(CATALOG) {
        return check_format(folder);
    }
    // Other disks may be mounted in a new data folder.
    let is_own = |name: &str| {
        name == LOST_AND_FOUND || FIRST_START.contains(&name) && (has(LOCK) || is_empty(&folder.join(name)))
    };
    if let Some(foreign) = names.iter().filter(|name| !is_own(name)).min() {
        bail!(
            "{} is not empty and not a data folder (it contains `{foreign}`); choose a new or empty folder with --data",
            folder.display()
        );
    }
    ensure!(folder.is_dir(), "{} is not a folder", folder.display());
    Ok(())
}

/// Returns true for a folder without content.
fn is_empty(folder: &Path) -> bool {
    let is_content = |entry: std::io::Result<fs::DirEntry>| {
        entry.map_or(true, |entry| entry.file_name() != LOST_AND_FOUND)
    };
    fs::read_dir(folder).is_ok_and(|mut entries| !entries.any(is_content))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[track_caller]
    fn check_with(names: &[&str], expected: bool) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in names {
            let path = folder.path().join(name);
            fs::write(&path, r#"{"format":1}"#).expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is owned");
        }
        let checked = check(folder.path());
        assert_eq!(checked.is_ok(), expected, "{names:?}: {checked:?}");
    }

    #[test]
    fn only_empty_folders_and_own_ones_are_served() {
        check_with(&[], true);
        check_with(&["lost+found"], true);
        check_with(&["lock"], true);
        check_with(&["lock", "bootstrap.json", "log", "views", "ids"], true);
        check_with(&["catalog.json", "anything"], true);
        check_with(&["letter.txt"], false);
        check_with(&["lock", "letter.txt"], false);
        check_with(&["log"], false);
        check_with(&["catalog.json", "restore.unfinished"], false);
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir_all(folder.path().join("log/lost+found")).expect("a folder");
        assert!(check(folder.path()).is_ok(), "a disk is mounted for the log");
        assert!(check(Path::new("/nonexistent/folder")).is_ok());
        assert!(check(Path::new("/etc/hostname")).is_err());
    }
}
