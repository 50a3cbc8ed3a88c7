//! Taking a backup of a snapshot.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, ensure};
use serde::Serialize;

use crate::keys::random;
use crate::manifest::{BackupFile, BackupName, FORMAT, Manifest, ObjectRef};
use crate::repository::{CHUNK_BYTES, Repository};

/// Smaller files are always read: that costs little, and files that are replaced often may get the same identity again.
const READ_ALWAYS_BYTES: u64 = 64 << 10;

/// The files of a data folder at one moment. They do not change while the snapshot exists.
pub struct Snapshot {
    /// The files, in the order in which they are to be restored.
    pub files: Vec<SnapshotFile>,
    /// The log position up to which everything is in them.
    pub position: u64,
    /// The installation; see [`crate::installation_id`].
    pub installation: String,
    /// The time, in milliseconds since 1970.
    pub created_ms: i64,
}

/// A file of a snapshot.
pub struct SnapshotFile {
    /// The path in the data folder.
    pub name: String,
    /// Where it can be read.
    pub path: PathBuf,
    /// The part of it that belongs to the backup, from its beginning.
    pub bytes: u64,
}

/// The result of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CreatedBackup {
    /// Its name.
    pub name: BackupName,
    /// The log position up to which everything is in it.
    pub position: u64,
    /// Files in it.
    pub files: usize,
    /// Bytes of these files.
    pub bytes: u64,
    /// Objects that were not in the target before.
    pub new_objects: u64,
    /// Bytes written for them.
    pub new_bytes: u64,
    /// Time that it took, in milliseconds.
    pub took_ms: u64,
}

/// Stores a backup of the snapshot. `check` is called before each object; the backup ends with its error.
///
/// Only what the target does not have is written. After an error or a crash the earlier backups are as they were, and
/// what was written is used by the next backup or removed by the next [`crate::prune`].
pub fn create(
    repository: &Repository,
    snapshot: &Snapshot,
    check: &dyn Fn() -> anyhow::Result<()>,
) -> anyhow::Result<CreatedBackup> {
    let started = Instant::now();
    let previous = match repository.backups()?.last() {
        Some(newest) => previous_files(repository, newest, snapshot)?,
        None => HashMap::new(),
    };
    let mut writer = ObjectWriter {
        repository,
        stored: repository.objects()?,
        check,
        new_objects: 0,
        new_bytes: 0,
        buffer: Vec::new(),
    };
    let mut files = Vec::with_capacity(snapshot.files.len());
    for file in &snapshot.files {
        let stored = writer.store(file, previous.get(&file.name));
        files.push(stored.with_context(|| format!("backing up {}", file.name))?);
    }
    let name = BackupName::new(snapshot.created_ms, random()?)?;
    let ObjectWriter { new_objects, new_bytes, .. } = writer;
    let manifest = Manifest {
        format: FORMAT,
        created_ms: snapshot.created_ms,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        installation: snapshot.installation.clone(),
        position: snapshot.position,
        files,
    };
    check()?;
    repository.write_manifest(&name, &manifest)?;
    Ok(CreatedBackup {
        name,
        position: manifest.position,
        files: manifest.files(),
        bytes: manifest.bytes(),
        new_objects,
        new_bytes,
        took_ms: started.elapsed().as_millis() as u64,
    })
}

/// Returns the files of the newest backup. One that is damaged is of no use here; everything is read then.
fn previous_files(
    repository: &Repository,
    newest: &BackupName,
    snapshot: &Snapshot,
) -> anyhow::Result<HashMap<String, BackupFile>> {
    let manifest = match repository.manifest(newest) {
        Ok(manifest) => manifest,
        Err(failure) => {
            tracing::error!(failure = format!("{failure:#}"), "the newest backup is damaged");
            return Ok(HashMap::new());
        }
    };
    ensure!(
        manifest.installation == snapshot.installation,
        "{} has the backups of another installation; choose another folder or prefix",
        repository.target.description()
    );
    Ok(manifest.files.into_iter().map(|file| (file.name.clone(), file)).collect())
}

/// Stores the objects of files.
struct ObjectWriter<'a> {
    repository: &'a Repository,
    /// What the target has, by id.
    stored: HashMap<String, u64>,
    check: &'a dyn Fn() -> anyhow::Result<()>,
    new_objects: u64,
    new_bytes: u64,
    buffer: Vec<u8>,
}

impl ObjectWriter<'_> {
    fn store(&mut self, file: &SnapshotFile, previous: Option<&BackupFile>) -> anyhow::Result<BackupFile> {
        let mut opened =
            File::open(&file.path).with_context(|| format!("opening {}", file.path.display()))?;
        let found = opened.metadata().context("reading its properties")?;
        let (inode, modified_ns) = (found.ino(), found.mtime() * 1_000_000_000 + found.mtime_nsec());
        let is_same = |previous: &&BackupFile| {
            file.bytes >= READ_ALWAYS_BYTES
                && (previous.bytes, previous.inode, previous.modified_ns) == (file.bytes, inode, modified_ns)
                && previous.objects.iter().all(|object| self.stored.contains_key(&object.id))
        };
        let objects = match previous.filter(is_same) {
            Some(previous) => previous.objects.clone(),
            None => self.store_content(&mut opened, file.bytes)?,
        };
        Ok(BackupFile { name: file.name.clone(), bytes: file.bytes, inode, modified_ns, objects })
    }

    fn store_content(&mut self, file: &mut File, bytes: u64) -> anyhow::Result<Vec<ObjectRef>> {
        let (mut objects, mut left) = (Vec::new(), bytes);
        while left > 0 {
            (self.check)()?;
            let wanted = left.min(CHUNK_BYTES as u64);
            self.buffer.clear();
            let read = file.by_ref().take(wanted).read_to_end(&mut self.buffer).context("reading it")?;
            ensure!(read as u64 == wanted, "it became shorter while it was read");
            let id = self.repository.id_of(&self.buffer);
            if !self.stored.contains_key(&id) {
                let stored = self.repository.write_object(&id, &self.buffer)?;
                self.new_objects += 1;
                self.new_bytes += stored;
                self.stored.insert(id.clone(), stored);
            }
            objects.push(ObjectRef { id, bytes: wanted as u32 });
            left -= wanted;
        }
        Ok(objects)
    }
}
