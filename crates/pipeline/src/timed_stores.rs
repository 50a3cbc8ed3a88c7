//! The stores behind a clock: the same ports, with the time spent in each.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use model::deltas::Deltas;
use model::ports::counters::{Checkpoint, Counters, ExportedRows, SideState, SlotSelector, StoreError};
use model::ports::ids::{Claim, IdStats, Ids, IdsError};
use model::ports::records::Records;
use model::rollup::Aggregate;
use parking_lot::Mutex;

use crate::engine::Engine;

/// How often a store was read and written, and how long that took together.
#[derive(Debug, Default)]
pub struct Clock {
    reads: Timed,
    writes: Timed,
}

#[derive(Debug, Default)]
struct Timed {
    count: AtomicU64,
    ns: AtomicU64,
}

/// What a clock shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Reads.
    pub reads: u64,
    /// Microseconds in them.
    pub read_us: u64,
    /// Writes.
    pub writes: u64,
    /// Microseconds in them.
    pub write_us: u64,
}

impl Clock {
    fn read<T>(&self, work: impl FnOnce() -> T) -> T {
        self.reads.time(work)
    }

    fn write<T>(&self, work: impl FnOnce() -> T) -> T {
        self.writes.time(work)
    }

    /// What it shows now.
    pub fn spent(&self) -> Spent {
        let ((reads, read_us), (writes, write_us)) = (self.reads.read(), self.writes.read());
        Spent { reads, read_us, writes, write_us }
    }
}

impl Timed {
    fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let done = work();
        self.ns.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
        done
    }

    fn read(&self) -> (u64, u64) {
        (self.count.load(Ordering::Relaxed), self.ns.load(Ordering::Relaxed) / 1_000)
    }
}

/// A clock for each store.
#[derive(Clone, Default)]
pub struct Clocks {
    /// Of the rollups.
    pub rollups: Arc<Clock>,
    /// Of the records.
    pub records: Arc<Clock>,
    /// Of the event ids.
    pub ids: Arc<Clock>,
    /// The size of the set of event ids after the last commit.
    pub held: Arc<Mutex<IdStats>>,
}

impl Clocks {
    /// The same engine, with a clock in front of each store.
    pub fn before(&self, engine: Engine) -> Engine {
        let (rollups, records) = (Arc::clone(&self.rollups), Arc::clone(&self.records));
        let counters = Arc::new(ClockedCounters::new(engine.counters, rollups, records));
        let (ids, clock, held) = (engine.ids, Arc::clone(&self.ids), Arc::clone(&self.held));
        let ids = move |log_end| Ok(Box::new(ClockedIds::new(ids(log_end)?, clock, held)) as Box<_>);
        Engine { counters, ids: Box::new(ids), ..engine }
    }
}

/// Rollups and records behind a clock each.
pub struct ClockedCounters {
    inner: Arc<dyn Counters>,
    rollups: Arc<Clock>,
    records: Arc<Clock>,
}

impl ClockedCounters {
    /// The same store. Time in rollups, checkpoints among it, goes to one clock, time in records to the other.
    pub fn new(inner: Arc<dyn Counters>, rollups: Arc<Clock>, records: Arc<Clock>) -> ClockedCounters {
        ClockedCounters { inner, rollups, records }
    }
}

impl Records for ClockedCounters {
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

impl Counters for ClockedCounters {
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
        Box::new(ClockedCheckpoint { inner, clock: Arc::clone(&self.rollups) })
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

    fn replace(&self, hours: &Range<u32>, rows: &ExportedRows) -> Result<(), StoreError> {
        self.rollups.write(|| self.inner.replace(hours, rows))
    }

    fn metrics(&self, game: u32, minutes: Range<u32>) -> Result<Vec<String>, StoreError> {
        self.rollups.read(|| self.inner.metrics(game, minutes))
    }
}

struct ClockedCheckpoint {
    inner: Box<dyn Checkpoint>,
    clock: Arc<Clock>,
}

impl Checkpoint for ClockedCheckpoint {
    fn commit(&mut self) -> Result<(), StoreError> {
        self.clock.write(|| self.inner.commit())
    }
}

/// Event ids behind a clock, with what they held when they were last asked.
pub struct ClockedIds {
    inner: Box<dyn Ids>,
    clock: Arc<Clock>,
    held: Arc<Mutex<IdStats>>,
}

impl ClockedIds {
    /// The same ids.
    pub fn new(inner: Box<dyn Ids>, clock: Arc<Clock>, held: Arc<Mutex<IdStats>>) -> ClockedIds {
        *held.lock() = inner.stats();
        ClockedIds { inner, clock, held }
    }
}

impl Ids for ClockedIds {
    fn claim(
        &mut self,
        offset: u64,
        now_ms: u64,
        claims: &[Claim],
        fresh: &mut Vec<bool>,
    ) -> Result<(), IdsError> {
        let claimed = self.clock.write(|| self.inner.claim(offset, now_ms, claims, fresh));
        // Whoever looks holds the lock for a moment; then what it saw is a commit older.
        if let Some(mut held) = self.held.try_lock() {
            *held = self.inner.stats();
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
