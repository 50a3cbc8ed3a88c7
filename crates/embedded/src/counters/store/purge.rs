//! How removed records leave the disk.
//!
//! The key-value store keeps what was removed in two places: in sorted files until these are merged, and in its journal
//! until that has grown to 64 MB and everything in it is in sorted files. Both are done here at once. There is no call
//! that begins the next journal, so it is filled.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fjall::KeyspaceCreateOptions;
use model::ports::counters::StoreError;

use super::{Store, failed};

/// What is written at once to fill a journal.
const FILLING_BYTES: usize = 4 << 20;
/// A journal takes 16 of these; files may be held a moment longer by readers.
const TRIES: usize = 60;
const FILLER: &str = "filler";

impl Store {
    /// See [`model::ports::records::Records::purge`].
    pub(in super::super) fn purge(&self) -> Result<(), StoreError> {
        self.flush()?;
        let old = self.files().map_err(unreadable)?;
        self.records.major_compact().map_err(failed)?;
        let filler = self.database.keyspace(FILLER, KeyspaceCreateOptions::default).map_err(failed)?;
        for _ in 0..TRIES {
            if old.iter().all(|path| !path.exists()) {
                return filler.remove(FILLER).map_err(failed);
            }
            filler.insert(FILLER, vec![0; FILLING_BYTES]).map_err(failed)?;
            filler.rotate_memtable_and_wait().map_err(failed)?;
            self.flush()?;
        }
        let left = old.iter().find(|path| path.exists());
        Err(StoreError(format!("{left:?} holds what was removed and does not go away")))
    }

    /// Brings everything that is in memory and in the journal to sorted files.
    fn flush(&self) -> Result<(), StoreError> {
        for keyspace in [&self.hours, &self.records, &self.meta] {
            keyspace.rotate_memtable_and_wait().map_err(failed)?;
        }
        Ok(())
    }

    /// The files that may hold a record: journals, and the sorted files of records.
    fn files(&self) -> std::io::Result<BTreeSet<PathBuf>> {
        let mut files: BTreeSet<PathBuf> = below(&self.records.path().join("tables"))?;
        let journals = below(&self.folder)?.into_iter();
        files.extend(journals.filter(|path| path.extension().is_some_and(|kind| kind == "jnl")));
        Ok(files)
    }
}

/// The files in a folder.
fn below(folder: &Path) -> std::io::Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    for item in fs::read_dir(folder)? {
        let item = item?;
        if item.file_type()?.is_file() {
            files.insert(item.path());
        }
    }
    Ok(files)
}

fn unreadable(error: std::io::Error) -> StoreError {
    StoreError(format!("listing its files: {error}"))
}
