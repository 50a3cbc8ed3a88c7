//! The interface between subjects and the store.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use model::ports::counters::StoreError;
use model::ports::records::{RecordWrite, Records};

/// An error for a record that cannot be restored.
#[derive(Debug, thiserror::Error)]
#[error("live-ops record cannot be restored: {0}")]
pub struct RecordError(pub String);

impl From<serde_json::Error> for RecordError {
    fn from(error: serde_json::Error) -> RecordError {
        RecordError(error.to_string())
    }
}

/// One part of a game's live-ops. Its state is in memory and is stored as records.
///
/// Restoring all records that `write_changes` has put and not removed gives the same state.
pub(crate) trait Subject: Default {
    /// Restores a record. Called for each in key order, before anything else.
    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecordError>;

    /// Called once after the last record.
    fn finish_restore(&mut self) {}

    /// Writes the records that changed since the previous call. The cost must follow the changes, not the size of the
    /// state.
    fn write_changes(&mut self, writer: &mut RecordWriter<'_>);
}

/// Collects the changed records of a subject. Prefixes keys with the game and the subject.
pub struct RecordWriter<'a> {
    prefix: [u8; 5],
    writes: &'a mut Vec<RecordWrite>,
}

impl<'a> RecordWriter<'a> {
    /// Creates a writer for one subject of one game. `subject` is stored and must never be reused.
    pub fn new(game: u32, subject: u8, writes: &'a mut Vec<RecordWrite>) -> RecordWriter<'a> {
        let mut prefix = [0; 5];
        prefix[..4].copy_from_slice(&game.to_be_bytes());
        prefix[4] = subject;
        RecordWriter { prefix, writes }
    }

    /// Writes a record.
    pub fn put(&mut self, key: &[u8], value: impl Into<Vec<u8>>) {
        self.write(key, Some(value.into()));
    }

    /// Removes a record.
    pub fn remove(&mut self, key: &[u8]) {
        self.write(key, None);
    }

    fn write(&mut self, key: &[u8], value: Option<Vec<u8>>) {
        self.writes.push(RecordWrite { key: [self.prefix.as_slice(), key].concat(), value });
    }
}

/// Large values that are only on disk once they are stored: level data and the bodies of feed items.
///
/// A value can be read from the moment it is put: it stays in memory until the checkpoint that writes it is complete.
#[derive(Default)]
pub(crate) struct BlobStore {
    prefix: [u8; 5],
    records: Option<Arc<dyn Records>>,
    new: HashMap<Vec<u8>, Option<Arc<[u8]>>>,
    being_written: HashMap<Vec<u8>, Option<Arc<[u8]>>>,
}

impl BlobStore {
    /// Attaches the store. `subject` is a number of its own, so that blobs are not read at start.
    pub(crate) fn open(&mut self, game: u32, subject: u8, records: Arc<dyn Records>) {
        self.prefix[..4].copy_from_slice(&game.to_be_bytes());
        self.prefix[4] = subject;
        self.records = Some(records);
    }

    pub(crate) fn put(&mut self, key: &[u8], value: impl Into<Arc<[u8]>>) {
        self.new.insert(key.to_vec(), Some(value.into()));
    }

    pub(crate) fn remove(&mut self, key: &[u8]) {
        self.new.insert(key.to_vec(), None);
    }

    /// Returns the value of a key. Reads the store if the value is no longer in memory.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Arc<[u8]>>, StoreError> {
        if let Some(value) = self.new.get(key).or_else(|| self.being_written.get(key)) {
            return Ok(value.clone());
        }
        let Some(records) = &self.records else { return Ok(None) };
        Ok(records.record(&[self.prefix.as_slice(), key].concat())?.map(Arc::from))
    }

    /// Returns the keys with this prefix, in order. Reads the store.
    pub(crate) fn keys(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut keys: BTreeSet<Vec<u8>> = BTreeSet::new();
        if let Some(records) = &self.records {
            let stored = [self.prefix.as_slice(), prefix].concat();
            records.records(&stored, &mut |key, _| {
                keys.insert(key[self.prefix.len()..].to_vec());
            })?;
        }
        for (key, value) in self.being_written.iter().chain(&self.new).filter(|it| it.0.starts_with(prefix)) {
            if value.is_some() {
                keys.insert(key.clone())
            } else {
                keys.remove(key)
            };
        }
        Ok(keys.into_iter().collect())
    }

    /// Writes the values that changed since the previous call. A checkpoint starts only when the previous one is in the
    /// store, so the values of the previous call can be read from there.
    pub(crate) fn write_changes(&mut self, writes: &mut Vec<RecordWrite>) {
        self.being_written = std::mem::take(&mut self.new);
        for (key, value) in &self.being_written {
            let key = [self.prefix.as_slice(), key.as_slice()].concat();
            writes.push(RecordWrite { key, value: value.as_ref().map(|value| value.to_vec()) });
        }
    }
}
