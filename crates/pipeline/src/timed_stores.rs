//! Timed stores: the same ports, with the time that is spent in each store.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use model::deltas::Deltas;
use model::ports::counters::{
    Checkpoint, CheckpointError, Counters, ExportedRows, RollupMemory, RowChange, SideState, SlotSelector,
    StoreError, StoreSnapshot,
};
use model::ports::ids::{Claim, IdStats, Ids, IdsError};
use model::ports::records::Records;
use model::rollup::Aggregate;
use parking_lot::Mutex;

use crate::engine::Engine;

/// The number of reads and writes of a store and the total time spent in them.
#[derive(Debug, Default)]
pub struct StoreTimer {
    reads: OperationTimer,
    writes: OperationTimer,
}

#[derive(Debug, Default)]
struct OperationTimer {
    count: AtomicU64,
    ns: AtomicU64,
}

/// A snapshot of a [`StoreTimer`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreTimes {
    /// The number of reads.
    pub reads: u64,
    /// The time spent in reads, in microseconds.
    pub read_us: u64,
    /// The number of writes.
    pub writes: u64,
    /// The time spent in writes, in microseconds.
    pub write_us: u64,
}

impl StoreTimer {
    fn read<T>(&self, work: impl FnOnce() -> T) -> T {
        self.reads.time(work)
    }

    fn write<T>(&self, work: impl FnOnce() -> T) -> T {
        self.writes.time(work)
    }

    /// Returns the current counts and times.
    pub fn times(&self) -> StoreTimes {
        let ((reads, read_us), (writes, write_us)) = (self.reads.read(), self.writes.read());
        StoreTimes { reads, read_us, writes, write_us }
    }
}

impl OperationTimer {
    fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = work();
        self.ns.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
        result
    }

    fn read(&self) -> (u64, u64) {
        (self.count.load(Ordering::Relaxed), self.ns.load(Ordering::Relaxed) / 1_000)
    }
}

/// A timer for each store.
#[derive(Clone, Default)]
pub struct StoreTimers {
    /// The timer of the rollups and of checkpoints.
    pub rollups: Arc<StoreTimer>,
    /// The timer of the records.
    pub records: Arc<StoreTimer>,
    /// The timer of the event ids.
    pub ids: Arc<StoreTimer>,
    /// The size of the set of event ids after the last commit.
    pub id_stats: Arc<Mutex<IdStats>>,
}

impl StoreTimers {
    /// Wraps the stores of an engine in timers.
    pub fn wrap(&self, engine: Engine) -> Engine {
        let (rollups, records) = (Arc::clone(&self.rollups), Arc::clone(&self.records));
        let counters = Arc::new(TimedCounters::new(engine.counters, rollups, records));
        let (ids, timer, id_stats) = (engine.ids, Arc::clone(&self.ids), Arc::clone(&self.id_stats));
        let ids = move |log_end| Ok(Box::new(TimedIds::new(ids(log_end)?, timer, id_stats)) as Box<_>);
        Engine { counters, ids: Box::new(ids), ..engine }
    }
}

/// Rollups and records with a timer each.
struct TimedCounters {
    inner: Arc<dyn Counters>,
    rollups: Arc<StoreTimer>,
    records: Arc<StoreTimer>,
}

impl TimedCounters {
    fn new(inner: Arc<dyn Counters>, rollups: Arc<StoreTimer>, records: Arc<StoreTimer>) -> TimedCounters {
        TimedCounters { inner, rollups, records }
    }
}

impl Records for TimedCounters {
    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.records.read(|| self.inner.record(key))
    }

    fn records(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
        self.records.read(|| self.inner.records(prefix, visit))
    }

    fn purge(&self) -> Result<(), StoreError> {
        self.records.write(|| self.inner.purge())
    }
}

impl Counters for TimedCounters {
    fn apply(&self, range: Range<u64>, deltas: &Deltas) -> Result<(), StoreError> {
        self.rollups.write(|| self.inner.apply(range, deltas))
    }

    fn applied_until(&self) -> u64 {
        self.inner.applied_until()
    }

    fn durable_until(&self) -> u64 {
        self.inner.durable_until()
    }

    fn checkpoint(&self, kept: SideState) -> Box<dyn Checkpoint> {
        let inner = self.rollups.write(|| self.inner.checkpoint(kept));
        Box::new(TimedCheckpoint { inner, timer: Arc::clone(&self.rollups) })
    }

    fn wants_checkpoint(&self) -> bool {
        self.inner.wants_checkpoint()
    }

    fn is_over_budget(&self) -> bool {
        self.inner.is_over_budget()
    }

    fn memory(&self) -> RollupMemory {
        self.inner.memory()
    }

    fn side_state(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.side_state(name)
    }

    fn visit(
        &self,
        select: SlotSelector<'_>,
        minutes: Range<u32>,
        visit: &mut dyn FnMut(&str, u32, &Aggregate),
    ) -> Result<(), StoreError> {
        self.rollups.read(|| self.inner.visit(select, minutes, visit))
    }

    fn export(&self, hours: &Range<u32>) -> Result<(u64, ExportedRows), StoreError> {
        self.rollups.read(|| self.inner.export(hours))
    }

    fn snapshot(&self) -> Result<Box<dyn StoreSnapshot>, StoreError> {
        self.inner.snapshot()
    }

    fn link_files(&self, to: &Path) -> Result<(), StoreError> {
        self.inner.link_files(to)
    }

    fn replace(&self, changes: &[RowChange]) -> Result<(), StoreError> {
        self.rollups.write(|| self.inner.replace(changes))
    }

    fn remove_rows(&self, game: u32, rows_max: usize) -> Result<usize, StoreError> {
        self.rollups.write(|| self.inner.remove_rows(game, rows_max))
    }

    fn purge_rows(&self) -> Result<(), StoreError> {
        self.rollups.write(|| self.inner.purge_rows())
    }

    fn metrics(&self, game: u32, minutes: Range<u32>) -> Result<Vec<String>, StoreError> {
        self.rollups.read(|| self.inner.metrics(game, minutes))
    }
}

struct TimedCheckpoint {
    inner: Box<dyn Checkpoint>,
    timer: Arc<StoreTimer>,
}

impl Checkpoint for TimedCheckpoint {
    fn commit(&mut self) -> Result<(), CheckpointError> {
        self.timer.write(|| self.inner.commit())
    }
}

/// Event ids with a timer, and with their statistics as of the last claim.
struct TimedIds {
    inner: Box<dyn Ids>,
    timer: Arc<StoreTimer>,
    id_stats: Arc<Mutex<IdStats>>,
}

impl TimedIds {
    fn new(inner: Box<dyn Ids>, timer: Arc<StoreTimer>, id_stats: Arc<Mutex<IdStats>>) -> TimedIds {
        *id_stats.lock() = inner.stats();
        TimedIds { inner, timer, id_stats }
    }
}

impl Ids for TimedIds {
    fn claim(
        &mut self,
        offset: u64,
        now_ms: u64,
        claims: &[Claim],
        fresh: &mut Vec<bool>,
    ) -> Result<(), IdsError> {
        let claimed = self.timer.write(|| self.inner.claim(offset, now_ms, claims, fresh));
        // A reader may hold the lock for a moment. Then the statistics stay as of the commit before.
        if let Some(mut id_stats) = self.id_stats.try_lock() {
            *id_stats = self.inner.stats();
        }
        claimed
    }

    fn release(&mut self, claims: &[Claim]) {
        self.inner.release(claims);
    }

    fn registered_until(&self) -> u64 {
        self.inner.registered_until()
    }

    fn stats(&self) -> IdStats {
        self.inner.stats()
    }
}
