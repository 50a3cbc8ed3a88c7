//! Restoring a backup, and checking one without restoring it.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde::Serialize;

use crate::manifest::{BackupFile, BackupName, Manifest};
use crate::repository::Repository;

/// What a restore leaves in the folder until it is complete.
const UNFINISHED: &str = "restore.unfinished";

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RestoredBackup {
    /// The backup.
    pub name: BackupName,
    /// When it was taken, in milliseconds since 1970.
    pub created_ms: i64,
    /// The log position up to which everything is in it.
    pub position: u64,
    /// Restored files.
    pub files: usize,
    /// Bytes of these files.
    pub bytes: u64,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckedBackup {
    /// The backup.
    pub name: BackupName,
    /// Objects that were read.
    pub objects: usize,
    /// What is damaged; empty if nothing is.
    pub damaged: Vec<String>,
}

/// Returns true if a folder does not exist or contains nothing.
pub fn is_empty_folder(folder: &Path) -> anyhow::Result<bool> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error).with_context(|| format!("reading {}", folder.display())),
    }
}

/// Restores a backup to an empty folder. A folder whose restore was interrupted is not taken for a data folder: its files
/// are restored in the order of the snapshot, and a marker stays until all of them are on disk.
///
/// # Errors
///
/// If the folder is not empty, has no room, or something in the backup is damaged; the message names it.
pub fn restore(repository: &Repository, name: &BackupName, folder: &Path) -> anyhow::Result<RestoredBackup> {
    let unfinished = folder.join(UNFINISHED);
    if unfinished.exists() {
        bail!("{} has an unfinished restore; remove the folder and start again", folder.display());
    }
    ensure!(is_empty_folder(folder)?, "{} is not empty; restore to a new folder", folder.display());
    let manifest = repository.manifest(name)?;
    create_folder(folder)?;
    write_synced(&unfinished, name.to_string().as_bytes())?;
    for file in &manifest.files {
        restore_file(repository, file, folder).with_context(|| format!("restoring {}", file.name))?;
    }
    sync_folders(folder, &manifest)?;
    fs::remove_file(&unfinished).with_context(|| format!("removing {}", unfinished.display()))?;
    sync_folder(folder)?;
    Ok(RestoredBackup {
        name: name.clone(),
        created_ms: manifest.created_ms,
        position: manifest.position,
        files: manifest.files(),
        bytes: manifest.bytes(),
    })
}

fn restore_file(repository: &Repository, file: &BackupFile, folder: &Path) -> anyhow::Result<()> {
    let path = folder.join(&file.name);
    create_folder(path.parent().unwrap_or(folder))?;
    let mut restored = create_private(&path)?;
    for object in &file.objects {
        let content = repository.read_object(&object.id)?;
        ensure!(content.len() as u64 == u64::from(object.bytes), "the object {} has another size", object.id);
        restored.write_all(&content).with_context(|| format!("writing {}", path.display()))?;
    }
    restored.sync_all().with_context(|| format!("writing {}", path.display()))
}

/// Reads every object of a backup.
pub fn check(repository: &Repository, name: &BackupName) -> anyhow::Result<CheckedBackup> {
    let mut checked = CheckedBackup { name: name.clone(), objects: 0, damaged: Vec::new() };
    let manifest = match repository.manifest(name) {
        Ok(manifest) => manifest,
        Err(failure) => {
            checked.damaged.push(format!("{failure:#}"));
            return Ok(checked);
        }
    };
    let mut seen = HashSet::new();
    for file in &manifest.files {
        for object in file.objects.iter().filter(|object| seen.insert(object.id.clone())) {
            checked.objects += 1;
            if let Err(failure) = repository.read_object(&object.id) {
                checked.damaged.push(format!("{}: {failure:#}", file.name));
            }
        }
    }
    Ok(checked)
}

fn create_folder(folder: &Path) -> anyhow::Result<()> {
    let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    created.with_context(|| format!("creating {}", folder.display()))
}

fn create_private(path: &Path) -> anyhow::Result<File> {
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    created.with_context(|| format!("creating {}", path.display()))
}

fn write_synced(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let mut file = create_private(path)?;
    file.write_all(content)
        .and_then(|()| file.sync_all())
        .with_context(|| format!("writing {}", path.display()))
}

/// Makes the names of all restored files durable.
fn sync_folders(folder: &Path, manifest: &Manifest) -> anyhow::Result<()> {
    let mut folders = HashSet::new();
    for file in &manifest.files {
        folders.extend(Path::new(&file.name).ancestors().skip(1));
    }
    folders.into_iter().try_for_each(|name| sync_folder(&folder.join(name)))
}

fn sync_folder(folder: &Path) -> anyhow::Result<()> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .with_context(|| format!("syncing {}", folder.display()))
}
