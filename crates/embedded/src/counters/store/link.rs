//! Linking the files of the store, for a backup.
//!
//! Sorted files and the lists of a keyspace's files never change once they have their name, so a link keeps them even when
//! a merge removes the name. The newest journal is written in place and is copied. Merges and flushes go on in the
//! background: if one has changed what a keyspace consists of, everything is linked again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use model::ports::counters::StoreError;
use rustix::fs::{SeekFrom, seek};

use super::Store;

/// How often linking is tried while merges interfere.
const ATTEMPTS: usize = 50;
/// The extension of a journal.
const JOURNAL: &str = "jnl";
/// The file that names the newest list of a keyspace's files. It is replaced as a whole.
const CURRENT: &str = "current";
/// Locked by the process that has the store open; a link to it would be locked as well.
const LOCK: &str = "lock";
const BLOCK_BYTES: u64 = 1 << 20;

impl Store {
    /// See [`model::ports::counters::Counters::link_files`].
    pub(in super::super) fn link_files(&self, to: &Path) -> Result<(), StoreError> {
        // While this is held, the database is not opened again.
        let _tables = self.tables()?;
        for _ in 0..ATTEMPTS {
            match try_link(&self.folder, to) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(failed(&self.folder, &error)),
            }
            fs::remove_dir_all(to).map_err(|error| failed(to, &error))?;
        }
        Err(StoreError("merges do not pause long enough to link the files of the views".into()))
    }
}

fn failed(path: &Path, error: &io::Error) -> StoreError {
    StoreError(format!("linking the files of {}: {error}", path.display()))
}

/// Links everything. Returns false if the store consists of other files now.
fn try_link(from: &Path, to: &Path) -> io::Result<bool> {
    fs::create_dir_all(to)?;
    let before = composition(from)?;
    let journals = before.keys().filter(|path| path.extension().is_some_and(|kind| kind == JOURNAL));
    let newest_journal = journals.max_by_key(|path| journal_number(path)).cloned();
    let may_change = |path: &Path| {
        let is_copied = path.file_name().is_some_and(|name| name == CURRENT || name == LOCK);
        is_copied || Some(path) == newest_journal.as_deref()
    };
    link_tree(from, to, to, &may_change)?;
    Ok(composition(from)? == before)
}

/// Returns the number of a journal, by which journals are ordered.
fn journal_number(path: &Path) -> Option<u64> {
    path.file_stem()?.to_str()?.parse().ok()
}

/// Returns what the store consists of: the journals, and for each keyspace the content of its file `current`.
fn composition(folder: &Path) -> io::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == JOURNAL) {
            found.insert(path, Vec::new());
        }
    }
    for keyspace in fs::read_dir(folder.join("keyspaces"))? {
        let current = keyspace?.path().join(CURRENT);
        if let Ok(content) = fs::read(&current) {
            found.insert(current, content);
        }
    }
    Ok(found)
}

/// Links the files of a folder and of those in it, and copies those that may change. `links`, the folder with all links,
/// may be inside the store's own.
fn link_tree(from: &Path, to: &Path, links: &Path, may_change: &dyn Fn(&Path) -> bool) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path == links {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::create_dir_all(&to)?;
            link_tree(&path, &to, links, may_change)?;
        } else if may_change(&path) {
            copy_data(&path, &to)?;
        } else {
            fs::hard_link(&path, &to)?;
        }
    }
    Ok(())
}

/// Copies a file without its holes: a journal is mostly preallocated.
fn copy_data(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (File::open(from)?, File::create_new(to)?);
    let bytes = from.metadata()?.len();
    to.set_len(bytes)?;
    let (mut at, mut block) = (0, vec![0; BLOCK_BYTES as usize]);
    while at < bytes {
        let (start, end) = match seek(&from, SeekFrom::Data(at)) {
            Ok(start) => (start, seek(&from, SeekFrom::Hole(start))?.min(bytes)),
            Err(rustix::io::Errno::NXIO) => break,
            // The file system does not know holes.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => (at, bytes),
            Err(error) => return Err(error.into()),
        };
        at = start;
        while at < end {
            let part = (end - at).min(BLOCK_BYTES) as usize;
            from.read_exact_at(&mut block[..part], at)?;
            to.write_all_at(&block[..part], at)?;
            at += part as u64;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};
    use std::sync::Arc;

    use model::ports::counters::{Checkpoint, SideState};
    use model::ports::records::RecordWrite;

    use super::super::{PendingCheckpoint, StoreOptions};
    use super::*;

    fn commit(store: &Arc<Store>, position: u64) {
        let write = |key: u64| RecordWrite {
            key: (position * 1_000 + key).to_be_bytes().to_vec(),
            value: Some(vec![key as u8; 2_000]),
        };
        let kept = SideState { records: (0..50).map(write).collect(), ..SideState::default() };
        PendingCheckpoint::new(Arc::clone(store), Vec::new(), kept, position, (1, Arc::default()))
            .commit()
            .expect("the disk works");
    }

    #[test]
    fn linked_files_are_a_store_as_of_the_checkpoint_while_the_store_goes_on() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = StoreOptions { memtable_bytes: 300_000, ..StoreOptions::default() };
        let store = Store::open(&folder.path().join("views"), &options).expect("it opens");
        let mut linked = Vec::new();
        for position in 1..=30 {
            commit(&store, position);
            let to = folder.path().join(format!("linked-{position}"));
            store.link_files(&to).expect("the disk works");
            linked.push((position, to));
        }
        store.purge().expect("the disk works");
        commit(&store, 31);
        for (position, folder) in linked {
            let store = Store::open(&folder, &options).expect("it is a store");
            assert_eq!(store.durable_until(), position);
            let mut records = 0;
            store.records(&[], &mut |_, _| records += 1).expect("the disk works");
            assert_eq!(records, position * 50);
        }
    }

    #[test]
    fn copies_have_the_same_content_and_holes() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        let mut file = File::create_new(&from).expect("a file");
        let written = file
            .write_all(b"begin")
            .and_then(|()| file.seek(io::SeekFrom::Start(9 << 20)))
            .and_then(|_| file.write_all(b"middle"))
            .and_then(|()| file.set_len(64 << 20));
        written.expect("the disk works");
        copy_data(&from, &to).expect("the disk works");
        assert!(fs::read(&from).expect("a file") == fs::read(&to).expect("a file"));
        let blocks = std::os::unix::fs::MetadataExt::blocks(&fs::metadata(&to).expect("a file"));
        assert!(blocks * 512 < 32 << 20, "{blocks} blocks");
    }
}
