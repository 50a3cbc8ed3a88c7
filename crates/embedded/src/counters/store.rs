//! The rows on disk, in a key-value store, with the log position they contain.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, LsmError, PersistMode};
use hashbrown::HashSet;
use model::ports::counters::{Checkpoint, CheckpointError, RowChange, SideState, SlotSelector, StoreError};
use model::ports::records::RecordWrite;
use model::rollup::HourBlock;
use model::series::{Cut, OTHER};
use parking_lot::{MappedRwLockReadGuard, Mutex, RwLock, RwLockReadGuard};
use tracing::{info, warn};

use super::groups::{EncodedRows, GroupKey};
use super::keys;
use seal::{RecordsSum, SEAL};

mod files;
mod link;
mod purge;
mod seal;
mod snapshot;

pub(super) use snapshot::DiskSnapshot;

const FORMAT: u32 = 1;
const JOURNAL_BYTES_MAX: u64 = 128 << 20;
/// Bytes of rows that a scratch store writes at once.
const BATCH_BYTES: usize = 1 << 20;
const POSITION: &str = "applied_until";
const NEWEST_HOUR: &str = "newest_hour";
/// Room for a checkpoint besides its own bytes, which are written to the journal first and to a sorted file later.
const CHECKPOINT_MARGIN_BYTES: u64 = 4 << 20;
/// The time that reopening waits for readers.
const READERS_WAIT: Duration = Duration::from_secs(10);
/// The interval at which reopening tries again while a snapshot keeps the former database open.
const LOCKED_RETRY: Duration = Duration::from_millis(20);

/// The memory settings of a store. The defaults are those of the product; tests use smaller values.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Bytes of the newest entries that are kept in memory, in addition to the journal, before they become a sorted file.
    pub memtable_bytes: u64,
    /// Memory for cached blocks of files, in bytes.
    pub cache_bytes: u64,
    /// The store is removed after use: nothing has to survive a power cut.
    pub is_scratch: bool,
    /// A deliberate bug that a crash test has to detect.
    #[cfg(feature = "fault-injection")]
    pub injected_fault: Option<crate::InjectedFault>,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            memtable_bytes: 64 << 20,
            cache_bytes: 32 << 20,
            is_scratch: false,
            #[cfg(feature = "fault-injection")]
            injected_fault: None,
        }
    }
}

/// The key-value store of a folder. One process at a time may open it.
pub struct Store {
    folder: PathBuf,
    options: StoreOptions,
    /// `None` if it could not be opened again after a failure.
    tables: RwLock<Option<Tables>>,
    /// A write has failed, so that the database accepts no more of them until it is opened again.
    broken: AtomicBool,
    durable_until: AtomicU64,
    /// How durable a checkpoint is when it is committed.
    durability: PersistMode,
    /// Of the records as of the last checkpoint.
    records_sum: Mutex<RecordsSum>,
    /// No row of a later hour is on disk.
    newest_hour: AtomicU64,
    /// Held by every snapshot.
    snapshots: Arc<()>,
}

/// The open database and its keyspaces.
struct Tables {
    database: Database,
    hours: Keyspace,
    records: Keyspace,
    meta: Keyspace,
}

impl Tables {
    fn open(folder: &Path, options: &StoreOptions) -> Result<Tables, StoreError> {
        Tables::try_open(folder, options)?.map_err(failed)
    }

    /// Opens the database again. A snapshot may keep the former one open for a moment.
    fn reopen(folder: &Path, options: &StoreOptions) -> Result<Tables, StoreError> {
        let started = Instant::now();
        loop {
            match Tables::try_open(folder, options)? {
                Err(fjall::Error::Locked) if started.elapsed() < READERS_WAIT => {
                    std::thread::sleep(LOCKED_RETRY);
                }
                opened => return opened.map_err(failed),
            }
        }
    }

    fn try_open(folder: &Path, options: &StoreOptions) -> Result<Result<Tables, fjall::Error>, StoreError> {
        let builder = Database::builder(folder)
            .max_journaling_size(JOURNAL_BYTES_MAX)
            .cache_size(options.cache_bytes)
            .worker_threads(1)
            // A row is mostly hashes and packed bits, and the journal is read once at most.
            .journal_compression(CompressionType::None);
        // Some damaged files make it panic.
        let opened = catch_unwind(AssertUnwindSafe(|| builder.open()));
        let opened = opened.map_err(|_| StoreError("its files contradict each other".into()))?;
        Ok(opened.and_then(|database| Tables::of(database, options)))
    }

    fn of(database: Database, options: &StoreOptions) -> Result<Tables, fjall::Error> {
        let keyspace = || KeyspaceCreateOptions::default().max_memtable_size(options.memtable_bytes);
        let hours = database.keyspace("hours", keyspace)?;
        let records = database.keyspace("records", keyspace)?;
        let meta = database.keyspace("meta", KeyspaceCreateOptions::default)?;
        Ok(Tables { database, hours, records, meta })
    }
}

impl Store {
    /// Opens the store, or creates an empty one.
    pub fn open(folder: &Path, options: &StoreOptions) -> Result<Arc<Store>, StoreError> {
        if folder.exists() {
            files::check(folder)?;
        } else {
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
        Store::open_in(&unfinished, options)?.tables()?.database.persist(PersistMode::SyncAll)?;
        fs::rename(&unfinished, folder)?;
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        Ok(File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?)
    }

    fn open_in(folder: &Path, options: &StoreOptions) -> Result<Store, StoreError> {
        let store = Store {
            folder: folder.to_path_buf(),
            options: options.clone(),
            tables: RwLock::new(Some(Tables::open(folder, options)?)),
            broken: AtomicBool::new(false),
            durable_until: AtomicU64::new(0),
            durability: if options.is_scratch { PersistMode::Buffer } else { PersistMode::SyncAll },
            records_sum: Mutex::default(),
            newest_hour: AtomicU64::new(0),
            snapshots: Arc::default(),
        };
        store.check_format()?;
        store.check_seals()?;
        store.write_list_of_keyspaces()?;
        store.durable_until.store(store.number(POSITION)?, Ordering::Release);
        store.newest_hour.store(store.number(NEWEST_HOUR)?, Ordering::Release);
        Ok(store)
    }

    /// Returns the open database.
    fn tables(&self) -> Result<MappedRwLockReadGuard<'_, Tables>, StoreError> {
        // Recursive: a call inside another must not wait for one that reopens.
        let tables = RwLockReadGuard::try_map(self.tables.read_recursive(), Option::as_ref);
        tables.map_err(|_| StoreError("the store could not be opened again after a failure".into()))
    }

    /// Opens the database again if a write has failed: it accepts no more writes, even if the cause is gone. What it has
    /// acknowledged is on disk. A snapshot keeps the former database open, so it has to end first.
    fn reopen_if_broken(&self) -> Result<(), CheckpointError> {
        if !self.broken.load(Ordering::Acquire) {
            return Ok(());
        }
        let is_snapshot_open = || Arc::strong_count(&self.snapshots) > 1;
        let tables = self.tables.try_write_for(READERS_WAIT).filter(|_| !is_snapshot_open());
        let Some(mut tables) = tables else { return Err(CheckpointError::Busy) };
        drop(tables.take());
        *tables = Some(Tables::reopen(&self.folder, &self.options)?);
        drop(tables);
        // The write that failed may have reached the disk.
        self.check_seals()?;
        self.broken.store(false, Ordering::Release);
        info!("the store of the views was opened again");
        Ok(())
    }

    /// Returns an error if there is no room for a checkpoint of this size.
    fn check_space(&self, bytes: u64) -> Result<(), CheckpointError> {
        let Ok(found) = rustix::fs::statvfs(&self.folder) else { return Ok(()) };
        let wanted = bytes.saturating_mul(2).saturating_add(CHECKPOINT_MARGIN_BYTES);
        if found.f_bavail * found.f_frsize < wanted { Err(CheckpointError::NoSpace) } else { Ok(()) }
    }

    fn write_list_of_keyspaces(&self) -> Result<(), StoreError> {
        let tables = self.tables()?;
        let written = files::write_list(&self.folder, &[&tables.hours, &tables.records, &tables.meta]);
        written.map_err(|error| StoreError(format!("{}: {error}", self.folder.display())))
    }

    fn check_format(&self) -> Result<(), StoreError> {
        match self.number("format")? {
            0 => self.tables()?.meta.insert("format", u64::from(FORMAT).to_le_bytes()).map_err(failed),
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
        let kept = self.tables()?.meta.get(side_state_key(name)).map_err(failed)?;
        Ok(kept.map(|bytes| bytes.to_vec()))
    }

    pub(super) fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.tables()?.records.get(key).map_err(failed)?;
        Ok(value.map(|bytes| bytes.to_vec()))
    }

    pub(super) fn records(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), StoreError> {
        for entry in self.tables()?.records.prefix(prefix) {
            let (key, value) = entry.into_inner().map_err(failed)?;
            if *key != *SEAL {
                visit(&key, &value);
            }
        }
        Ok(())
    }

    pub(super) fn group(&self, key: &GroupKey<'_>) -> Result<Vec<(Box<str>, HourBlock)>, StoreError> {
        if u64::from(key.hour) > self.newest_hour.load(Ordering::Acquire) {
            return Ok(Vec::new());
        }
        let mut rows = Vec::new();
        for entry in self.tables()?.hours.prefix(keys::group_prefix(key)) {
            let (row_key, block) = entry.into_inner().map_err(failed)?;
            let (_, value) = keys::parse(&row_key).ok_or_else(|| damaged(&row_key))?;
            let block = HourBlock::decode(&block).map_err(|_| damaged(&row_key))?;
            rows.push((value.into(), block));
        }
        Ok(rows)
    }

    /// Visits the rows of one cut of a metric in these hours, in order. Holds one row at a time.
    pub(super) fn visit(
        &self,
        select: &SlotSelector<'_>,
        hours: Range<u32>,
        visit: &mut dyn FnMut(u32, &str, StoredRow<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let hours = hours.start..hours.end.min(self.newest_hour().saturating_add(1));
        if hours.is_empty() {
            return Ok(());
        }
        let range = keys::hour_range(select.game, select.cut, select.metric, &hours);
        for entry in self.tables()?.hours.range(range) {
            let (key, block) = entry.into_inner().map_err(failed)?;
            let (group, value) = keys::parse(&key).ok_or_else(|| damaged(&key))?;
            visit(group.hour, value, StoredRow { key: &key, block: &block })?;
        }
        Ok(())
    }

    /// Returns the hour after which no row is on disk.
    pub(super) fn newest_hour(&self) -> u32 {
        self.newest_hour.load(Ordering::Acquire).min(u64::from(u32::MAX)) as u32
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
        for entry in self.tables()?.hours.range(keys::hour_range(game, cut, metric, &hours)) {
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
            if self.tables()?.hours.range(range).next().is_some() {
                metrics.insert(metric.clone());
            }
            from = keys::metric_prefix(game, Cut::Total, &metric);
            from.extend_from_slice(&[0xff; 5]);
        }
        Ok(())
    }

    fn next_metric(&self, prefix: &[u8], from: &[u8]) -> Result<Option<String>, StoreError> {
        let Some(entry) = self.tables()?.hours.range(from.to_vec()..).next() else { return Ok(None) };
        let key = entry.key().map_err(failed)?;
        if !key.starts_with(prefix) {
            return Ok(None);
        }
        let (group, _) = keys::parse(&key).ok_or_else(|| damaged(&key))?;
        Ok(Some(group.metric.to_owned()))
    }

    pub(super) fn blocks(&self, hours: &Range<u32>) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, StoreError> {
        let mut rows = BTreeMap::new();
        for entry in self.tables()?.hours.iter() {
            let (key, block) = entry.into_inner().map_err(failed)?;
            if *key == *SEAL {
                continue;
            }
            let (group, _) = keys::parse(&key).ok_or_else(|| damaged(&key))?;
            if hours.contains(&group.hour) {
                rows.insert(key.to_vec(), block.to_vec());
            }
        }
        Ok(rows)
    }

    /// Writes rows in small batches.
    fn write_rows(&self, rows: EncodedRows) -> Result<(), StoreError> {
        let tables = self.tables()?;
        let mut rows = rows.into_iter().peekable();
        while rows.peek().is_some() {
            let (mut batch, mut bytes) = (tables.database.batch().durability(Some(self.durability)), 0);
            while let Some((key, block)) = rows.next_if(|_| bytes < BATCH_BYTES) {
                bytes += block.len();
                batch.insert(&tables.hours, key, block);
            }
            batch.commit().map_err(failed)?;
        }
        Ok(())
    }

    /// Replaces or removes these rows, atomically.
    pub(super) fn replace(&self, changes: &[RowChange]) -> Result<(), StoreError> {
        self.reopen_if_broken()?;
        let tables = self.tables()?;
        let mut batch = tables.database.batch().durability(Some(PersistMode::SyncAll));
        let mut newest_hour = self.newest_hour.load(Ordering::Acquire);
        for RowChange { key, block } in changes {
            let (group, _) = keys::parse(key).ok_or_else(|| damaged(key))?;
            match block {
                Some(block) => {
                    newest_hour = newest_hour.max(u64::from(group.hour));
                    batch.insert(&tables.hours, key.as_slice(), block.as_slice());
                }
                None => batch.remove(&tables.hours, key.as_slice()),
            }
        }
        batch.insert(&tables.meta, NEWEST_HOUR, newest_hour.to_le_bytes());
        batch.commit().map_err(|error| {
            self.broken.store(true, Ordering::Release);
            failed(error)
        })?;
        self.newest_hour.fetch_max(newest_hour, Ordering::AcqRel);
        Ok(())
    }

    /// Removes up to `rows_max` rows of a game, all or none. Returns how many there were.
    pub(super) fn remove_rows(&self, game: u32, rows_max: usize) -> Result<usize, StoreError> {
        self.reopen_if_broken()?;
        let tables = self.tables()?;
        let mut batch = tables.database.batch().durability(Some(PersistMode::SyncAll));
        let mut removed = 0;
        for entry in tables.hours.prefix(game.to_be_bytes()).take(rows_max) {
            batch.remove(&tables.hours, entry.key().map_err(failed)?);
            removed += 1;
        }
        if removed > 0 {
            batch.commit().map_err(|error| {
                self.broken.store(true, Ordering::Release);
                failed(error)
            })?;
        }
        Ok(removed)
    }

    #[cfg(not(feature = "fault-injection"))]
    fn writes_positions(&self) -> bool {
        true
    }

    #[cfg(feature = "fault-injection")]
    fn writes_positions(&self) -> bool {
        self.options.injected_fault != Some(crate::InjectedFault::DropCheckpointPosition)
    }

    fn number(&self, name: &str) -> Result<u64, StoreError> {
        let bytes = self.tables()?.meta.get(name).map_err(failed)?;
        let number =
            |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).map_err(|_| damaged(name.as_bytes()));
        bytes.map_or(Ok(0), |bytes| number(&bytes))
    }
}

/// A row as it is on disk.
pub(super) struct StoredRow<'a> {
    key: &'a [u8],
    block: &'a [u8],
}

impl StoredRow<'_> {
    pub(super) fn decode(&self) -> Result<HourBlock, StoreError> {
        HourBlock::decode(self.block).map_err(|_| damaged(self.key))
    }
}

/// A checkpoint that was taken and not yet committed.
pub(super) struct PendingCheckpoint {
    store: Arc<Store>,
    rows: EncodedRows,
    kept: SideState,
    applied_until: u64,
    /// The number of the checkpoint, and where to store it once it is committed.
    committed: (u64, Arc<AtomicU64>),
}

impl PendingCheckpoint {
    pub(super) fn new(
        store: Arc<Store>,
        rows: EncodedRows,
        kept: SideState,
        applied_until: u64,
        committed: (u64, Arc<AtomicU64>),
    ) -> PendingCheckpoint {
        PendingCheckpoint { store, rows, kept, applied_until, committed }
    }
}

impl PendingCheckpoint {
    /// Returns the bytes that are written.
    fn bytes(&self) -> u64 {
        let rows = self.rows.iter().map(|(key, block)| key.len() + block.len());
        let states = self.kept.states.iter().map(|(_, bytes)| bytes.len());
        let records = self.kept.records.iter();
        let records = records.map(|record| record.key.len() + record.value.as_ref().map_or(0, Vec::len));
        rows.chain(states).chain(records).sum::<usize>() as u64
    }

    fn write(&self, store: &Store, newest_hour: u64) -> Result<(), WriteError> {
        let tables = store.tables().map_err(WriteError::Closed)?;
        let records_sum = store.sum_after(&tables, &self.kept.records).map_err(WriteError::Closed)?;
        let mut batch = tables.database.batch().durability(Some(store.durability));
        for (key, block) in &self.rows {
            batch.insert(&tables.hours, key.as_slice(), block.as_slice());
        }
        for (name, bytes) in &self.kept.states {
            batch.insert(&tables.meta, side_state_key(name), bytes.as_slice());
        }
        for RecordWrite { key, value } in &self.kept.records {
            match value {
                Some(value) => batch.insert(&tables.records, key.as_slice(), value.as_slice()),
                None => batch.remove(&tables.records, key.as_slice()),
            }
        }
        if store.writes_positions() {
            seal::write(&tables, &mut batch, self.applied_until, records_sum);
        }
        batch.insert(&tables.meta, NEWEST_HOUR, newest_hour.to_le_bytes());
        batch.commit().map_err(WriteError::of)?;
        *store.records_sum.lock() = records_sum;
        Ok(())
    }
}

impl Checkpoint for PendingCheckpoint {
    fn commit(&mut self) -> Result<(), CheckpointError> {
        let store = &self.store;
        store.check_space(self.bytes())?;
        store.reopen_if_broken()?;
        let hours = self.rows.iter().filter_map(|(key, _)| Some(u64::from(keys::parse(key)?.0.hour)));
        let newest_hour = hours.max().unwrap_or(0).max(store.newest_hour.load(Ordering::Acquire));
        if store.durability == PersistMode::Buffer {
            // Nothing reads it before the recount is complete, so it need not be one transaction, which is large.
            store.write_rows(std::mem::take(&mut self.rows))?;
        }
        let mut written = self.write(store, newest_hour);
        if let Err(WriteError::Poisoned) = written {
            warn!("the store of the views failed in the background; it is opened again");
            store.broken.store(true, Ordering::Release);
            store.reopen_if_broken()?;
            written = self.write(store, newest_hour);
        }
        if let Err(failure) = written {
            store.broken.store(true, Ordering::Release);
            return Err(failure.into());
        }
        store.newest_hour.fetch_max(newest_hour, Ordering::AcqRel);
        store.durable_until.store(self.applied_until, Ordering::Release);
        self.committed.1.store(self.committed.0, Ordering::Release);
        self.rows.clear();
        self.kept = SideState::default();
        Ok(())
    }
}

/// The error of a write of the database.
enum WriteError {
    /// It could not be opened again, or not be read.
    Closed(StoreError),
    /// It accepts no writes, because an earlier one failed.
    Poisoned,
    NoSpace,
    Failed(fjall::Error),
}

impl WriteError {
    fn of(error: fjall::Error) -> WriteError {
        match error {
            fjall::Error::Poisoned => WriteError::Poisoned,
            error if is_no_space(&error) => WriteError::NoSpace,
            error => WriteError::Failed(error),
        }
    }
}

impl From<WriteError> for CheckpointError {
    fn from(error: WriteError) -> CheckpointError {
        match error {
            WriteError::NoSpace => CheckpointError::NoSpace,
            WriteError::Closed(failure) => failure.into(),
            WriteError::Failed(failure) => failed(failure).into(),
            WriteError::Poisoned => failed(fjall::Error::Poisoned).into(),
        }
    }
}

/// Returns true for errors that go away when files are deleted.
fn is_no_space(error: &fjall::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        }
        cause = error.source();
    }
    false
}

fn side_state_key(name: &str) -> String {
    format!("kept/{name}")
}

/// Says what the key-value store cannot do, in words for its operator.
fn failed(error: fjall::Error) -> StoreError {
    StoreError(match error {
        fjall::Error::Io(error) | fjall::Error::Storage(LsmError::Io(error)) => {
            format!("the disk returned an error: {error}")
        }
        fjall::Error::Poisoned => "an earlier write to it failed".to_owned(),
        fjall::Error::Locked => "another process has it open".to_owned(),
        fjall::Error::Storage(LsmError::ChecksumMismatch { .. }) => {
            "a file differs from what was written to it".to_owned()
        }
        fjall::Error::Storage(LsmError::Unrecoverable) | fjall::Error::Unrecoverable => {
            "files are missing or damaged".to_owned()
        }
        other => format!("a file is not valid ({other:?})"),
    })
}

pub(super) fn damaged(key: &[u8]) -> StoreError {
    StoreError(format!(
        "entry {:?} is damaged: run `playmeter rebuild` to derive it again from the log",
        String::from_utf8_lossy(key)
    ))
}
