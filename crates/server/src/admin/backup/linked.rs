//! A snapshot of the data folder that shares its disk space.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use backup::{Snapshot, SnapshotFile, installation_id};
use pipeline::time::now_ms;

use super::super::Admin;

/// The name of the folders with the links. They are in the folders of the originals, which may be on other disks.
const NAME: &str = "backup.unfinished";
/// The folders whose files are linked.
const LINKED: [&str; 4] = ["log", "ids", "views", "archive"];
/// Files and sockets of the running process, and what it can create again.
const NOT_COPIED: [&str; 6] =
    ["lock", "control.sock", "server.pid", "reserve", "flows.damaged", "lost+found"];
/// The extension of what is being created.
const UNFINISHED: &str = "unfinished";
/// Event ids that are being written.
const TEMPORARY: &str = "tmp";
/// The catalog is restored last: without it, nothing takes the folder for a data folder.
const CATALOG: &str = "catalog.json";
/// The settings of the server in a backup.
const SETTINGS: &str = "restored-settings.toml";
/// The most bytes that are copied beside the originals.
const OTHERS_BYTES_MAX: u64 = 1 << 30;
/// How often linking the event ids is tried while merges interfere.
const ATTEMPTS: usize = 50;

/// The snapshot and its folders, which are removed when it is dropped.
pub(super) struct LinkedSnapshot {
    snapshot: Snapshot,
    _folders: Folders,
}

/// The folders that contain the links.
struct Folders(PathBuf);

impl Drop for Folders {
    fn drop(&mut self) {
        if let Err(failure) = remove_leftover(&self.0) {
            tracing::warn!("{failure:#}");
        }
    }
}

/// Removes what a backup has left that was killed.
pub(crate) fn remove_leftover(data: &Path) -> anyhow::Result<()> {
    let folders = LINKED.iter().map(|name| data.join(name).join(NAME)).chain([data.join(NAME)]);
    for folder in folders {
        match fs::remove_dir_all(&folder) {
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Err(error).with_context(|| format!("removing {}", folder.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

impl LinkedSnapshot {
    pub(super) fn create(admin: &Admin<'_>, settings: Option<&Path>) -> anyhow::Result<LinkedSnapshot> {
        remove_leftover(admin.folder)?;
        let folders = Folders(admin.folder.to_owned());
        let mut files = Vec::new();
        let position = link_pipeline(admin, &mut files)?;
        // After the log: every game that the log mentions is in the catalog.
        copy_others(admin, settings, &mut files)?;
        let snapshot = Snapshot {
            files,
            position,
            installation: installation_id(&admin.catalog.id_secret()),
            created_ms: now_ms(),
        };
        Ok(LinkedSnapshot { snapshot, _folders: folders })
    }

    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }
}

/// Links the files of views, event ids, archive and log. The log contains the position of the views, and everything whose ids are
/// registered; a start removes ids beyond it.
fn link_pipeline(admin: &Admin<'_>, files: &mut Vec<SnapshotFile>) -> anyhow::Result<u64> {
    admin.views.wait_caught_up(admin.log.durable_until())?;
    let _paused = admin.views.pause_at_checkpoint().context("writing a checkpoint")?;
    let [log, ids, views, archive] = LINKED.map(|name| admin.folder.join(name).join(NAME));
    admin.views.counters.link_files(&views).context("views")?;
    link_ids(&admin.folder.join("ids"), &ids).context("ids")?;
    // Before the log, which then contains every event that is in no file of the archive.
    {
        let _unchanged = admin.views.archive_files.lock();
        let originals = admin.folder.join("archive");
        // A folder of an older version has none before its first start.
        fs::create_dir_all(&originals).with_context(|| format!("creating {}", originals.display()))?;
        link_archive(&originals, &archive)?;
    }
    let held = admin.log.hold_files();
    let (segments, position) = held.segments();
    fs::create_dir(&log).with_context(|| format!("creating {}", log.display()))?;
    for segment in segments {
        let name = segment.path.file_name().context("a segment without a name")?;
        let path = log.join(name);
        fs::hard_link(&segment.path, &path).with_context(|| format!("linking {}", segment.path.display()))?;
        let name = format!("log/{}", name.display());
        files.push(SnapshotFile { name, path, bytes: segment.bytes });
    }
    drop(held);
    list(&ids, "ids", files)?;
    list(&views, "views", files)?;
    list(&archive, "archive", files)?;
    Ok(position)
}

/// Links the runs of event ids. A run never changes; a merge may remove it after its result is there.
fn link_ids(from: &Path, to: &Path) -> anyhow::Result<()> {
    for _ in 0..ATTEMPTS {
        fs::create_dir(to).with_context(|| format!("creating {}", to.display()))?;
        match try_link(from, to) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            linked => return linked.with_context(|| format!("linking {}", from.display())),
        }
        fs::remove_dir_all(to).with_context(|| format!("removing {}", to.display()))?;
    }
    Err(anyhow!("merges do not pause long enough to link the files"))
}

fn try_link(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let is_temporary = entry.path().extension().is_some_and(|kind| kind == TEMPORARY);
        if entry.file_type()?.is_file() && !is_temporary {
            fs::hard_link(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Links the files of the archive and of the folders in it.
fn link_archive(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to).with_context(|| format!("creating {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("listing {}", from.display()))? {
        let entry = entry.with_context(|| format!("listing {}", from.display()))?;
        let (path, name) = (entry.path(), entry.file_name());
        if name == NAME || path.extension().is_some_and(|kind| kind == UNFINISHED) {
            continue;
        }
        let kind = entry.file_type().with_context(|| format!("reading {}", path.display()))?;
        if kind.is_dir() {
            link_archive(&path, &to.join(name))?;
        } else if kind.is_file() {
            fs::hard_link(&path, to.join(name)).with_context(|| format!("linking {}", path.display()))?;
        }
    }
    Ok(())
}

/// Copies everything else in the data folder, whatever it is, and the settings of the server.
fn copy_others(
    admin: &Admin<'_>,
    settings: Option<&Path>,
    files: &mut Vec<SnapshotFile>,
) -> anyhow::Result<()> {
    let copies = admin.folder.join(NAME);
    let is_left_out = |name: &str| LINKED.contains(&name) || NOT_COPIED.contains(&name);
    let mut bytes_left = OTHERS_BYTES_MAX;
    copy_folder(admin.folder, &copies, &is_left_out, &mut bytes_left)?;
    if let Some(settings) = admin.backups.settings_file.as_deref().or(settings) {
        let copied = fs::copy(settings, copies.join(SETTINGS));
        copied.with_context(|| format!("copying {}", settings.display()))?;
    }
    let mut others = Vec::new();
    list(&copies, "", &mut others)?;
    others.sort_by_key(|file| file.name == CATALOG);
    files.extend(others);
    Ok(())
}

/// Copies the files of a folder and of those in it, `bytes_left` of them at most.
fn copy_folder(
    from: &Path,
    to: &Path,
    is_left_out: &dyn Fn(&str) -> bool,
    bytes_left: &mut u64,
) -> anyhow::Result<()> {
    fs::create_dir(to).with_context(|| format!("creating {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("listing {}", from.display()))? {
        let entry = entry.with_context(|| format!("listing {}", from.display()))?;
        let (path, name) = (entry.path(), entry.file_name());
        let is_unfinished = path.extension().is_some_and(|kind| kind == UNFINISHED);
        if is_unfinished || name.to_str().is_none_or(is_left_out) {
            continue;
        }
        // A file may be replaced or removed at any moment.
        let Ok(found) = fs::metadata(&path) else { continue };
        if found.is_dir() {
            // A link may lead to a folder that contains it.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                copy_folder(&path, &to.join(name), &|_| false, bytes_left)?;
            }
        } else if found.is_file() {
            *bytes_left = bytes_left.checked_sub(found.len()).with_context(|| {
                format!(
                    "{} does not fit: besides log, ids, views and archive a backup takes {OTHERS_BYTES_MAX} bytes; move it out of \
                     the data folder",
                    path.display()
                )
            })?;
            match fs::copy(&path, to.join(name)) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                copied => drop(copied.with_context(|| format!("copying {}", path.display()))?),
            }
        }
    }
    Ok(())
}

/// Adds the files of a folder and of those in it, in order.
fn list(folder: &Path, prefix: &str, files: &mut Vec<SnapshotFile>) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut entries = entries.with_context(|| format!("listing {}", folder.display()))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name();
        let name = name
            .to_str()
            .with_context(|| format!("{} has a name that is not text", entry.path().display()))?;
        let name = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
        let found = entry.metadata().with_context(|| format!("reading {name}"))?;
        match found.is_dir() {
            true => list(&entry.path(), &name, files)?,
            false => files.push(SnapshotFile { name, path: entry.path(), bytes: found.len() }),
        }
    }
    Ok(())
}
