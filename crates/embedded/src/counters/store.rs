//! The rows on disk, in a key-value store, with the log position they contain.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use hashbrown::HashSet;
use model::ports::counters::{Checkpoint, ExportedRows, SideState, StoreError};
use model::ports::records::RecordWrite;
use model::rollup::HourBlock;
use model::series::{Cut, OTHER};

use super::groups::{EncodedRows, GroupKey};
use super::keys;

mod purge;

const FORMAT: u32 = 1;
const JOURNAL_BYTES_MAX: u64 = 128 << 20;
const POSITION: &str = "applied_until";
const NEWEST_HOUR: &str = "newest_hour";

/// The memory settings of a store. The defaults are those of the product; tests use smaller values.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Bytes of the newest entries that are kept in memory, in addition to the journal, before they become a sorted file.
    pub memtable_bytes: u64,
    /// Memory for cached blocks of files, in bytes.
    pub cache_bytes: u64,
    /// A deliberate bug that a crash test has to detect.
    #[cfg(feature = "fault-injection")]
    pub injected_fault: Option<crate::InjectedFault>,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            memtable_bytes: 64 << 20,
            cache_bytes: 32 << 20,
            #[cfg(feature = "fault-injection")]
            injected_fault: None,
        }
    }
}

/// The key-value store of a folder. One process at a time may open it.
pub struct Store {
    folder: PathBuf,
    database: Database,
    hours: Keyspace,
    records: Keyspace,
    meta: Keyspace,
    durable_until: AtomicU64,
    /// No row of a later hour is on disk.
    newest_hour: AtomicU64,
    #[cfg(feature = "fault-injection")]
    injected_fault: Option<crate::InjectedFault>,
}

impl Store {
    /// Opens the store, or creates an empty one.
    pub fn open(folder: &Path, options: &StoreOptions) -> Result<Arc<Store>, StoreError> {
        if !folder.exists() {
            Store::create(folder, options).map_err(|failure| StoreError(failure.to_string()))?;
        }
        Ok(Arc::new(Store::open_in(folder, options)?))
    }

    /// Creates an empty store under another name and renames it when it is complete: the key-value store cannot open one
    /// whose creation was interrupted by a kill.
    fn create(folder: &Path, options: &StoreOptions) -> Result<(), Box<dyn std::error::Error>> {
        let unfinished = folder.with_extension("unfinished");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)?;
        }
        Store::open_in(&unfinished, options)?.database.persist(PersistMode::SyncAll)?;
        fs::rename(&unfinished, folder)?;
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        Ok(File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?)
    }

    fn open_in(folder: &Path, options: &StoreOptions) -> Result<Store, StoreError> {
        let database = Database::builder(folder)
            .max_journaling_size(JOURNAL_BYTES_MAX)
            .cache_size(options.cache_bytes)
            .worker_threads(1)
            // A row is mostly hashes and packed bits, and the journal is read once at most.
            .journal_compression(CompressionType::None)
            .open()
            .map_err(failed)?;
        let keyspace = || KeyspaceCreateOptions::default().max_memtable_size(options.memtable_bytes);
        let hours = database.keyspace("hours", keyspace).map_err(failed)?;
        let records = database.keyspace("records", keyspace).map_err(failed)?;
        let meta = database.keyspace("meta", KeyspaceCreateOptions::default).map_err(failed)?;
        let store = Store {
            folder: folder.to_path_buf(),
            database,
            hours,
            records,
            meta,
            durable_until: AtomicU64::new(0),
            newest_hour: AtomicU64::new(0),
            #[cfg(feature = "fault-injection")]
            injected_fault: options.injected_fault,
        };
        store.check_format()?;
        store.durable_until.store(store.number(POSITION)?, Ordering::Release);
        store.newest_hour.store(store.number(NEWEST_HOUR)?, Ordering::Release);
        Ok(store)
    }

    fn check_format(&self) -> Result<(), StoreError> {
        match self.number("format")? {
            0 => self.meta.insert("format", u64::from(FORMAT).to_le_bytes()).map_err(failed),
            format if format <= u64::from(FORMAT) => Ok(()),
            format => Err(StoreError(format!(
                "the store has format {format}, but this program reads formats up to {FORMAT}: use a newer program"
            ))),
        }
    }

    pub(super) fn position(&self) -> Result<u64, StoreError> {
        self.number(POSITION)
    }

    pub(super) fn durable_until(&self) -> u64 {
        self.durable_until.load(Ordering::Acquire)
    }

    pub(super) fn side_state(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let kept = self.meta.get(side_state_key(name)).map_err(failed)?;
        Ok(kept.map(|bytes| bytes.to_vec()))
    }

    pub(super) fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.records.get(key).map_err(failed)?;
        Ok(value.map(|bytes| bytes.to_vec()))
    }

    pub(super) fn records(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), StoreError> {
        for entry in self.records.prefix(prefix) {
            let (key, value) = entry.into_inner().map_err(failed)?;
            visit(&key, &value);
        }
        Ok(())
    }

    pub(super) fn group(&self, key: &GroupKey<'_>) -> Result<Vec<(Box<str>, HourBlock)>, StoreError> {
        if u64::from(key.hour) > self.newest_hour.load(Ordering::Acquire) {
            return Ok(Vec::new());
        }
        let mut rows = Vec::new();
        for entry in self.hours.prefix(keys::group_prefix(key)) {
            let (row_key, block) = entry.into_inner().map_err(failed)?;
            let (_, value) = keys::parse(&row_key).ok_or_else(|| damaged(&row_key))?;
            let block = HourBlock::decode(&block).map_err(|_| damaged(&row_key))?;
            rows.push((value.into(), block));
        }
        Ok(rows)
    }

    /// Returns the values that have rows on a UTC day; without a metric, the names of the metrics.
    pub(super) fn values(
        &self,
        game: u32,
        cut: Cut,
        metric: Option<&str>,
        day: u32,
    ) -> Result<HashSet<Box<str>>, StoreError> {
        let hours = day * 24..day * 24 + 24;
        let mut values = HashSet::new();
        if u64::from(hours.start) > self.newest_hour.load(Ordering::Acquire) {
            return Ok(values);
        }
        let Some(metric) = metric else {
            let mut metrics = BTreeSet::new();
            self.metrics(game, &hours, &mut metrics)?;
            let named = metrics.into_iter().filter(|metric| !metric.starts_with('$'));
            values.extend(named.filter(|metric| metric != OTHER).map(String::into_boxed_str));
            return Ok(values);
        };
        for entry in self.hours.range(keys::hour_range(game, cut, metric, &hours)) {
            let key = entry.key().map_err(failed)?;
            let (_, value) = keys::parse(&key).ok_or_else(|| damaged(&key))?;
            if value != OTHER {
                values.insert(value.into());
            }
        }
        Ok(values)
    }

    /// Adds the metrics with rows in these hours. Seeks from name to name, so its cost follows their number.
    pub(super) fn metrics(
        &self,
        game: u32,
        hours: &Range<u32>,
        metrics: &mut BTreeSet<String>,
    ) -> Result<(), StoreError> {
        let prefix = keys::cut_prefix(game, Cut::Total);
        let mut from = prefix.clone();
        while let Some(metric) = self.next_metric(&prefix, &from)? {
            let range = keys::hour_range(game, Cut::Total, &metric, hours);
            if self.hours.range(range).next().is_some() {
                metrics.insert(metric.clone());
            }
            from = keys::metric_prefix(game, Cut::Total, &metric);
            from.extend_from_slice(&[0xff; 5]);
        }
        Ok(())
    }

    fn next_metric(&self, prefix: &[u8], from: &[u8]) -> Result<Option<String>, StoreError> {
        let Some(entry) = self.hours.range(from.to_vec()..).next() else { return Ok(None) };
        let key = entry.key().map_err(failed)?;
        if !key.starts_with(prefix) {
            return Ok(None);
        }
        let (group, _) = keys::parse(&key).ok_or_else(|| damaged(&key))?;
        Ok(Some(group.metric.to_owned()))
    }

    pub(super) fn blocks(&self, hours: &Range<u32>) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, StoreError> {
        let mut rows = BTreeMap::new();
        for entry in self.hours.iter() {
            let (key, block) = entry.into_inner().map_err(failed)?;
            let (group, _) = keys::parse(&key).ok_or_else(|| damaged(&key))?;
            if hours.contains(&group.hour) {
                rows.insert(key.to_vec(), block.to_vec());
            }
        }
        Ok(rows)
    }

    /// Replaces the rows of the hours by these, atomically.
    pub(super) fn replace(&self, hours: &Range<u32>, rows: &ExportedRows) -> Result<(), StoreError> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncAll));
        for key in self.blocks(hours)?.into_keys().filter(|key| !rows.contains_key(key)) {
            batch.remove(&self.hours, key);
        }
        let mut newest_hour = self.newest_hour.load(Ordering::Acquire);
        for (key, row) in rows {
            let (group, _) = keys::parse(key).ok_or_else(|| damaged(key))?;
            newest_hour = newest_hour.max(u64::from(group.hour));
            batch.insert(&self.hours, key.as_slice(), row.block.as_slice());
        }
        batch.insert(&self.meta, NEWEST_HOUR, newest_hour.to_le_bytes());
        batch.commit().map_err(failed)?;
        self.newest_hour.fetch_max(newest_hour, Ordering::AcqRel);
        Ok(())
    }

    #[cfg(not(feature = "fault-injection"))]
    fn writes_positions(&self) -> bool {
        true
    }

    #[cfg(feature = "fault-injection")]
    fn writes_positions(&self) -> bool {
        self.injected_fault != Some(crate::InjectedFault::DropCheckpointPosition)
    }

    fn number(&self, name: &str) -> Result<u64, StoreError> {
        let bytes = self.meta.get(name).map_err(failed)?;
        let number =
            |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).map_err(|_| damaged(name.as_bytes()));
        bytes.map_or(Ok(0), |bytes| number(&bytes))
    }
}

/// A checkpoint that was taken and not yet committed.
pub(super) struct PendingCheckpoint {
    store: Option<Arc<Store>>,
    rows: EncodedRows,
    kept: SideState,
    applied_until: u64,
}

impl PendingCheckpoint {
    pub(super) fn new(
        store: Option<Arc<Store>>,
        rows: EncodedRows,
        kept: SideState,
        applied_until: u64,
    ) -> PendingCheckpoint {
        PendingCheckpoint { store, rows, kept, applied_until }
    }
}

impl Checkpoint for PendingCheckpoint {
    fn commit(&mut self) -> Result<(), StoreError> {
        let Some(store) = &self.store else { return Ok(()) };
        let hours = self.rows.iter().filter_map(|(key, _)| Some(u64::from(keys::parse(key)?.0.hour)));
        let newest_hour = hours.max().unwrap_or(0).max(store.newest_hour.load(Ordering::Acquire));
        let mut batch = store.database.batch().durability(Some(PersistMode::SyncAll));
        for (key, block) in &self.rows {
            batch.insert(&store.hours, key.as_slice(), block.as_slice());
        }
        for (name, bytes) in &self.kept.states {
            batch.insert(&store.meta, side_state_key(name), bytes.as_slice());
        }
        for RecordWrite { key, value } in &self.kept.records {
            match value {
                Some(value) => batch.insert(&store.records, key.as_slice(), value.as_slice()),
                None => batch.remove(&store.records, key.as_slice()),
            }
        }
        if store.writes_positions() {
            batch.insert(&store.meta, POSITION, self.applied_until.to_le_bytes());
        }
        batch.insert(&store.meta, NEWEST_HOUR, newest_hour.to_le_bytes());
        batch.commit().map_err(failed)?;
        store.newest_hour.fetch_max(newest_hour, Ordering::AcqRel);
        store.durable_until.store(self.applied_until, Ordering::Release);
        self.rows.clear();
        self.kept = SideState::default();
        Ok(())
    }
}

fn side_state_key(name: &str) -> String {
    format!("kept/{name}")
}

fn failed(error: fjall::Error) -> StoreError {
    StoreError(error.to_string())
}

pub(super) fn damaged(key: &[u8]) -> StoreError {
    StoreError(format!(
        "entry {:?} is damaged: run `playmeter rebuild` to derive it again from the log",
        String::from_utf8_lossy(key)
    ))
}
