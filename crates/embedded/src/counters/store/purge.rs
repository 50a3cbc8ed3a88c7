//! Purge: removes the bytes of deleted records from the disk.
//!
//! The key-value store keeps deleted data in two places: in sorted files until they are merged, and in its journal until
//! that has grown to 64 MB and all its content is in sorted files. A purge forces both at once. No call starts the next
//! journal, so a purge fills the current one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fjall::{Keyspace, KeyspaceCreateOptions};
use model::ports::counters::StoreError;

use super::{Store, Tables, failed};

/// Size of one write that fills the journal.
const FILLING_BYTES: usize = 4 << 20;
/// Maximum number of writes. A journal fits 16 of them; readers may keep files open a moment longer.
const WRITES_MAX: usize = 60;
const FILLER: &str = "filler";

impl Store {
    /// See [`model::ports::records::Records::purge`].
    pub(in super::super) fn purge(&self) -> Result<(), StoreError> {
        let tables = &*self.tables()?;
        self.purge_keyspaces(tables, &[&tables.records])
    }

    /// See [`model::ports::counters::Counters::purge_rows`].
    pub(in super::super) fn purge_rows(&self) -> Result<(), StoreError> {
        let tables = &*self.tables()?;
        self.purge_keyspaces(tables, &[&tables.records, &tables.hours, &tables.meta])
    }

    fn purge_keyspaces(&self, tables: &Tables, keyspaces: &[&Keyspace]) -> Result<(), StoreError> {
        tables.flush()?;
        let old = self.files(keyspaces).map_err(list_failed)?;
        for keyspace in keyspaces {
            keyspace.major_compact().map_err(failed)?;
        }
        let filler = tables.database.keyspace(FILLER, KeyspaceCreateOptions::default).map_err(failed)?;
        for _ in 0..WRITES_MAX {
            if old.iter().all(|path| !path.exists()) {
                return filler.remove(FILLER).map_err(failed);
            }
            filler.insert(FILLER, vec![0; FILLING_BYTES]).map_err(failed)?;
            filler.rotate_memtable_and_wait().map_err(failed)?;
            tables.flush()?;
        }
        let left = old.iter().find(|path| path.exists());
        Err(StoreError(format!("cannot purge deleted records: {left:?} still contains them")))
    }

    /// Returns the files that may contain something of these keyspaces: journals, and their sorted files.
    fn files(&self, keyspaces: &[&Keyspace]) -> std::io::Result<BTreeSet<PathBuf>> {
        let mut files = BTreeSet::new();
        for keyspace in keyspaces {
            files.extend(files_in(&keyspace.path().join("tables"))?);
        }
        let journals = files_in(&self.folder)?.into_iter();
        files.extend(journals.filter(|path| path.extension().is_some_and(|kind| kind == "jnl")));
        Ok(files)
    }
}

impl Tables {
    /// Flushes everything in memory and in the journal to sorted files.
    fn flush(&self) -> Result<(), StoreError> {
        for keyspace in [&self.hours, &self.records, &self.meta] {
            keyspace.rotate_memtable_and_wait().map_err(failed)?;
        }
        Ok(())
    }
}

/// Returns the files in a folder.
fn files_in(folder: &Path) -> std::io::Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    for item in fs::read_dir(folder)? {
        let item = item?;
        if item.file_type()?.is_file() {
            files.insert(item.path());
        }
    }
    Ok(files)
}

fn list_failed(error: std::io::Error) -> StoreError {
    StoreError(format!("listing the files of the store: {error}"))
}
