//! What every part of live-ops does with the store.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use model::ports::counters::StoreError;
use model::ports::records::{RecordWrite, Records};

/// A record that is not what was written.
#[derive(Debug, thiserror::Error)]
#[error("a record is damaged: {0}")]
pub struct Damaged(pub String);

impl From<serde_json::Error> for Damaged {
    fn from(error: serde_json::Error) -> Damaged {
        Damaged(error.to_string())
    }
}

/// One part of a game's live-ops: kept in memory, written down record by record.
///
/// `restore` of every record that `changes` ever put and did not remove gives back the same state.
pub trait Subject: Default {
    /// Takes a record that an earlier `changes` put. Called for each, in the order of the keys, before anything else.
    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), Damaged>;

    /// Called once after the last record.
    fn restored(&mut self) {}

    /// Puts the records that changed since the last call. Its cost follows what changed, not what there is.
    fn changes(&mut self, changes: &mut Changes<'_>);
}

/// Where a subject puts its changed records. Keys are the subject's own; the game and the subject go before them.
pub struct Changes<'a> {
    prefix: [u8; 5],
    writes: &'a mut Vec<RecordWrite>,
}

impl<'a> Changes<'a> {
    /// Changes of one subject of one game. `subject` is stored and never reused.
    pub fn new(game: u32, subject: u8, writes: &'a mut Vec<RecordWrite>) -> Changes<'a> {
        let mut prefix = [0; 5];
        prefix[..4].copy_from_slice(&game.to_be_bytes());
        prefix[4] = subject;
        Changes { prefix, writes }
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

/// Large values that are not kept in memory once they are in the store: levels' data, the bodies of feed items.
///
/// A value is found from the moment it is put: until the checkpoint that writes it is done, it is in memory.
#[derive(Default)]
pub struct Blobs {
    prefix: [u8; 5],
    records: Option<Arc<dyn Records>>,
    new: HashMap<Vec<u8>, Option<Arc<[u8]>>>,
    being_written: HashMap<Vec<u8>, Option<Arc<[u8]>>>,
}

impl Blobs {
    /// The blobs of one game in a store. `subject` is a number of their own, so that they are not read at start.
    pub fn open(&mut self, game: u32, subject: u8, records: Arc<dyn Records>) {
        self.prefix[..4].copy_from_slice(&game.to_be_bytes());
        self.prefix[4] = subject;
        self.records = Some(records);
    }

    /// Keeps a value.
    pub fn put(&mut self, key: &[u8], value: impl Into<Arc<[u8]>>) {
        self.new.insert(key.to_vec(), Some(value.into()));
    }

    /// Forgets a value.
    pub fn remove(&mut self, key: &[u8]) {
        self.new.insert(key.to_vec(), None);
    }

    /// The value of this key. Reads the store when it is not in memory any more.
    pub fn get(&self, key: &[u8]) -> Result<Option<Arc<[u8]>>, StoreError> {
        if let Some(value) = self.new.get(key).or_else(|| self.being_written.get(key)) {
            return Ok(value.clone());
        }
        let Some(records) = &self.records else { return Ok(None) };
        Ok(records.record(&[self.prefix.as_slice(), key].concat())?.map(Arc::from))
    }

    /// The keys that begin with `prefix`, in order. Reads the store.
    pub fn keys(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
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

    /// Puts what changed since the last call. A checkpoint is taken only after the one before is in the store, so what
    /// was put last time is found there now.
    pub fn changes(&mut self, writes: &mut Vec<RecordWrite>) {
        self.being_written = std::mem::take(&mut self.new);
        for (key, value) in &self.being_written {
            let key = [self.prefix.as_slice(), key.as_slice()].concat();
            writes.push(RecordWrite { key, value: value.as_ref().map(|value| value.to_vec()) });
        }
    }
}
