//! Rollups on one disk: the hours in use in memory, every hour in the store.
//!
//! The unit of loading is the *group*: one cut of one metric in one hour, with all its rows. A group is in memory
//! entirely or not at all. Rows that the log changed since the last checkpoint are marked; the next checkpoint writes
//! them together with the position.

mod groups;
mod guard;
mod keys;
mod store;
mod value;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use model::Dimension;
use model::deltas::{DeltaRow, Deltas};
use model::ports::counters::{
    Checkpoint, Counters as Port, ExportedRow, ExportedRows, RollupMemory, RowChange, SideState,
    SlotSelector, StoreError, StoreSnapshot,
};
use model::ports::records::Records;
use model::rollup::{Aggregate, HourBlock};
use model::series::{Cut, TUPLE_SEPARATOR};
use parking_lot::RwLock;

use groups::{GroupKey, Groups};
use guard::CardinalityGuard;
use store::{DiskSnapshot, PendingCheckpoint, damaged};

pub use store::{Store, StoreOptions};

/// The rollups of the embedded engine.
pub struct EmbeddedCounters {
    store: Arc<Store>,
    memory: RwLock<Memory>,
    bytes_max: usize,
    /// The number of the last committed checkpoint.
    committed: Arc<AtomicU64>,
}

/// The default budget for rollups in memory, in bytes.
const BYTES_MAX: usize = 512 << 20;

#[derive(Default)]
struct Memory {
    applied_until: u64,
    groups: Groups,
    guard: CardinalityGuard,
    group_index: GroupIndex,
    /// The number of the last checkpoint that was taken.
    checkpoint: u64,
    /// At the last eviction: the number of the last committed checkpoint, and the size from which on to evict again.
    evicted_at: (u64, usize),
}

/// The groups of a range's rows: there are many rows and few groups.
#[derive(Default)]
struct GroupIndex {
    groups: Vec<[u32; CUTS]>,
    /// The groups of declared dimensions, by metric and minute and by the dimension's number.
    declared: HashMap<(usize, u8), u32>,
}

/// Rows that are looked up before the first of them is changed, so that their cache misses overlap.
const ROWS_PREFETCHED: usize = 64;
const CUTS: usize = Dimension::COUNT + 2;
const NOT_LOADED: u32 = u32::MAX;
/// A visit that reads more than this from the store keeps nothing of it in memory.
const KEPT_BYTES_PER_VISIT: usize = 4 << 20;

impl GroupIndex {
    fn get(&self, delta: &DeltaRow<'_>) -> Option<usize> {
        if let Cut::Declared(number) = delta.cut {
            return self.declared.get(&(delta.metric_minute, number)).map(|group| *group as usize);
        }
        let group = self.groups.get(delta.metric_minute)?[cut_index(delta.cut)];
        (group != NOT_LOADED).then_some(group as usize)
    }

    fn put(&mut self, delta: &DeltaRow<'_>, group: usize) {
        if let Cut::Declared(number) = delta.cut {
            self.declared.insert((delta.metric_minute, number), group as u32);
            return;
        }
        if self.groups.len() <= delta.metric_minute {
            self.groups.resize(delta.metric_minute + 1, [NOT_LOADED; CUTS]);
        }
        self.groups[delta.metric_minute][cut_index(delta.cut)] = group as u32;
    }

    fn clear(&mut self) {
        self.groups.clear();
        self.declared.clear();
    }
}

fn cut_index(cut: Cut) -> usize {
    match cut {
        Cut::Total => 0,
        Cut::By(dimension) => 1 + dimension as usize,
        Cut::Tuple => CUTS - 1,
        Cut::Declared(_) => unreachable!("declared dimensions are looked up by their numbers"),
    }
}

impl EmbeddedCounters {
    /// Opens the rollups in `store`.
    pub fn open(store: Arc<Store>) -> Result<EmbeddedCounters, StoreError> {
        let applied_until = store.position()?;
        let memory = RwLock::new(Memory { applied_until, ..Memory::default() });
        Ok(EmbeddedCounters { store, memory, bytes_max: BYTES_MAX, committed: Arc::default() })
    }

    /// Sets the budget for rollups in memory, in bytes.
    pub fn with_memory(self, bytes_max: usize) -> EmbeddedCounters {
        EmbeddedCounters { bytes_max, ..self }
    }

    fn committed(&self) -> u64 {
        self.committed.load(Ordering::Acquire)
    }

    /// Visits the rows of adjacent hours that are not in memory, and collects them if they are small enough to be kept.
    fn visit_stored(
        &self,
        select: &SlotSelector<'_>,
        hours: Range<u32>,
        minutes: &Range<u32>,
        kept: &mut KeptRows,
        visit: &mut dyn FnMut(&str, u32, &Aggregate),
    ) -> Result<(), StoreError> {
        self.store.visit(select, hours, &mut |hour, value, stored| {
            let is_selected = select.values.is_none_or(|values| values.contains(&value));
            if !is_selected && kept.is_full() {
                return Ok(());
            }
            let block = stored.decode()?;
            if is_selected {
                groups::visit_block(value, &block, select.resolution, minutes, hour, visit);
            }
            kept.add(hour, value, block);
            Ok(())
        })
    }

    /// Keeps groups that were read, for the next reader, unless their hours may have changed since.
    fn keep_read(&self, select: &SlotSelector<'_>, kept: KeptRows, evictions: u64) {
        let Some(hours) = kept.into_hours() else { return };
        let mut memory = self.memory.write();
        if memory.groups.evictions() != evictions {
            return;
        }
        for (hour, rows) in hours {
            memory.groups.insert_read(&GroupKey::of(select, hour), rows);
        }
    }
}

/// Rows that a visit read from the store, by hour.
struct KeptRows {
    bytes: usize,
    bytes_max: usize,
    hours: Vec<HourRows>,
}

/// The rows of one group, and its hour.
type HourRows = (u32, Vec<(Box<str>, HourBlock)>);

impl KeptRows {
    fn new(bytes_max: usize) -> KeptRows {
        KeptRows { bytes: 0, bytes_max, hours: Vec::new() }
    }

    fn is_full(&self) -> bool {
        self.bytes >= self.bytes_max
    }

    fn add(&mut self, hour: u32, value: &str, block: HourBlock) {
        if self.is_full() {
            return;
        }
        self.bytes += groups::row_bytes(value, &block);
        if self.is_full() {
            return self.hours.clear();
        }
        match self.hours.last_mut() {
            Some((last, rows)) if *last == hour => rows.push((value.into(), block)),
            _ => self.hours.push((hour, vec![(value.into(), block)])),
        }
    }

    /// Returns the rows of whole groups; `None` if there are none or too many.
    fn into_hours(self) -> Option<Vec<HourRows>> {
        (!self.is_full() && !self.hours.is_empty()).then_some(self.hours)
    }
}

impl Records for EmbeddedCounters {
    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.record(key)
    }

    fn records(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
        self.store.records(prefix, visit)
    }

    fn purge(&self) -> Result<(), StoreError> {
        self.store.purge()
    }
}

impl Port for EmbeddedCounters {
    fn apply(&self, range: Range<u64>, deltas: &Deltas) -> Result<(), StoreError> {
        let mut memory = self.memory.write();
        if range.end <= memory.applied_until {
            return Ok(());
        }
        memory.evict_above(self.bytes_max, self.committed());
        memory.add(deltas, &self.store)?;
        memory.applied_until = range.end;
        memory.evict_above(self.bytes_max, self.committed());
        Ok(())
    }

    fn wants_checkpoint(&self) -> bool {
        let memory = self.memory.read();
        // What a checkpoint could free is what was not evicted.
        memory.groups.bytes() > self.bytes_max / 4 * 3 && memory.checkpoint <= self.committed()
    }

    fn is_over_budget(&self) -> bool {
        self.memory.read().groups.bytes() > self.bytes_max
    }

    fn memory(&self) -> RollupMemory {
        let bytes = self.memory.read().groups.bytes() as u64;
        RollupMemory { bytes, bytes_max: self.bytes_max as u64 }
    }

    fn applied_until(&self) -> u64 {
        self.memory.read().applied_until
    }

    fn durable_until(&self) -> u64 {
        self.store.durable_until()
    }

    fn checkpoint(&self, kept: SideState) -> Box<dyn Checkpoint> {
        let mut memory = self.memory.write();
        let applied_until = memory.applied_until;
        let (number, rows) = memory.groups.take_changes();
        memory.checkpoint = number;
        memory.guard.take_checkpoint();
        memory.evict(self.committed());
        drop(memory);
        let committed = (number, Arc::clone(&self.committed));
        Box::new(PendingCheckpoint::new(Arc::clone(&self.store), rows, kept, applied_until, committed))
    }

    fn side_state(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.side_state(name)
    }

    fn visit(
        &self,
        select: SlotSelector<'_>,
        minutes: Range<u32>,
        visit: &mut dyn FnMut(&str, u32, &Aggregate),
    ) -> Result<(), StoreError> {
        if minutes.is_empty() {
            return Ok(());
        }
        let memory = self.memory.read();
        let newest = self.store.newest_hour().max(memory.groups.newest_hour());
        // Hours without rows are not looked up one by one: a window may reach far into the future.
        let hours = minutes.start / 60..minutes.end.div_ceil(60).min(newest.saturating_add(1));
        let mut kept = KeptRows::new(memory.groups.read_bytes_left().min(KEPT_BYTES_PER_VISIT));
        let mut unread = hours.start;
        for hour in hours.clone() {
            let Some(group) = memory.groups.group(&GroupKey::of(&select, hour)) else { continue };
            if unread < hour {
                self.visit_stored(&select, unread..hour, &minutes, &mut kept, visit)?;
            }
            memory.groups.visit(group, &select, &minutes, visit);
            unread = hour + 1;
        }
        if unread < hours.end {
            self.visit_stored(&select, unread..hours.end, &minutes, &mut kept, visit)?;
        }
        let evictions = memory.groups.evictions();
        drop(memory);
        self.keep_read(&select, kept, evictions);
        Ok(())
    }

    fn export(&self, hours: &Range<u32>) -> Result<(u64, ExportedRows), StoreError> {
        let memory = self.memory.read();
        let mut blocks = self.store.blocks(hours)?;
        memory.groups.blocks(hours, &mut blocks);
        let rows: Result<ExportedRows, StoreError> = blocks.into_iter().map(exported).collect();
        Ok((memory.applied_until, rows?))
    }

    fn snapshot(&self) -> Result<Box<dyn StoreSnapshot>, StoreError> {
        Ok(Box::new(DiskSnapshot::of(&self.store)?))
    }

    fn link_files(&self, to: &Path) -> Result<(), StoreError> {
        self.store.link_files(to)
    }

    fn replace(&self, changes: &[RowChange]) -> Result<(), StoreError> {
        let mut memory = self.memory.write();
        for change in changes {
            let (group, _) = keys::parse(&change.key).ok_or_else(|| damaged(&change.key))?;
            memory.groups.evict_hours(&(group.hour..group.hour + 1));
            memory.guard.evict_hours(&(group.hour..group.hour + 1));
        }
        self.store.replace(changes)
    }

    fn remove_rows(&self, game: u32, rows_max: usize) -> Result<usize, StoreError> {
        let mut memory = self.memory.write();
        memory.groups.evict_game(game);
        memory.guard.evict_game(game);
        self.store.remove_rows(game, rows_max)
    }

    fn purge_rows(&self) -> Result<(), StoreError> {
        self.store.purge_rows()
    }

    fn metrics(&self, game: u32, minutes: Range<u32>) -> Result<Vec<String>, StoreError> {
        let hours = minutes.start / 60..minutes.end.div_ceil(60);
        let mut metrics = std::collections::BTreeSet::new();
        self.memory.read().groups.metrics(game, &hours, &mut metrics);
        self.store.metrics(game, &hours, &mut metrics)?;
        Ok(metrics.into_iter().collect())
    }
}

impl Memory {
    /// Loads every group and day first, which may fail, then adds, which cannot fail: either everything is added or nothing.
    fn add(&mut self, deltas: &Deltas, store: &Store) -> Result<(), StoreError> {
        self.group_index.clear();
        for delta in deltas.rows() {
            if self.group_index.get(&delta).is_none() {
                let group = self.load_group(&delta, store)?;
                self.group_index.put(&delta, group);
            }
        }
        let mut rows = deltas.rows();
        let mut located = Vec::with_capacity(ROWS_PREFETCHED);
        loop {
            located.clear();
            let some = rows.by_ref().take(ROWS_PREFETCHED);
            located.extend(some.map(|delta| {
                let (group, row) = self.row_for(&delta);
                self.groups.prefetch(group, row);
                (group, row, delta)
            }));
            if located.is_empty() {
                return Ok(());
            }
            located.iter().for_each(|(group, row, _)| self.groups.prefetch_values(*group, *row));
            for (group, row, delta) in &located {
                self.groups.apply(*group, *row, delta);
            }
        }
    }

    /// Returns the row in which to count, created if it is new. The group and the day are already loaded.
    fn row_for(&mut self, delta: &DeltaRow<'_>) -> (usize, usize) {
        let group = self.group_index.get(delta).expect("the group was loaded before");
        let (key, row) = self.groups.row(group, delta.value);
        let row = match row {
            Some(row) => row,
            None => {
                let value = self.guard.admit(&key, delta.value, delta.values_max);
                self.groups.find_or_insert(group, value)
            }
        };
        (group, row)
    }

    /// Returns the group in which a metric's rows are counted, and loads it and its day.
    fn load_group(&mut self, delta: &DeltaRow<'_>, store: &Store) -> Result<usize, StoreError> {
        let hour = delta.minute / 60;
        let metric = self.guard.metric(delta.game, delta.metric, hour, Some(store))?;
        let key = GroupKey { game: delta.game, cut: delta.cut, metric, hour };
        self.guard.load(&key, Some(store))?;
        self.load_resident(&key, store)
    }

    /// Returns the index of a group, loaded from the store if it is not in memory.
    fn load_resident(&mut self, key: &GroupKey<'_>, store: &Store) -> Result<usize, StoreError> {
        if let Some(group) = self.groups.group(key) {
            return Ok(group);
        }
        Ok(self.groups.insert(key, store.group(key)?))
    }

    fn evict(&mut self, committed: u64) {
        let newest_hour = self.groups.evict(committed);
        self.guard.evict(newest_hour, committed);
    }

    /// Evicts what is in the store if the rollups exceed three quarters of the budget. Tries again only after a commit, or
    /// when they have grown further, because it looks at every group.
    fn evict_above(&mut self, bytes_max: usize, committed: u64) {
        let is_due = committed != self.evicted_at.0 || self.groups.bytes() > self.evicted_at.1;
        if self.groups.bytes() <= bytes_max / 4 * 3 || !is_due {
            return;
        }
        self.groups.evict_down_to(bytes_max / 2, committed);
        self.guard.evict(self.groups.newest_hour(), committed);
        self.evicted_at = (committed, self.groups.bytes() + bytes_max / 16);
    }
}

fn exported((key, block): (Vec<u8>, Vec<u8>)) -> Result<(Vec<u8>, ExportedRow), StoreError> {
    let since = HourBlock::decode(&block).map_err(|_| damaged(&key))?.since();
    Ok((key.clone(), ExportedRow { name: row_name(&key)?, since, block }))
}

/// Returns a row's name in readable form.
fn row_name(key: &[u8]) -> Result<String, StoreError> {
    let (group, value) = keys::parse(key).ok_or_else(|| damaged(key))?;
    let cut = match group.cut {
        Cut::Total => String::new(),
        Cut::By(dimension) => format!(" {}={value:?}", dimension.label()),
        Cut::Declared(number) => format!(" dimension {number}={value:?}"),
        Cut::Tuple => format!(" {:?}", value.split(TUPLE_SEPARATOR).collect::<Vec<_>>()),
    };
    Ok(format!("game {} {}{cut} hour {}", group.game, group.metric, group.hour))
}

#[cfg(test)]
mod tests {
    use model::ports::counters::Counters;
    use model::series::Resolution;
    use tempfile::TempDir;
    use testkit::events::{TestEvent, deltas_of};

    use super::*;

    const HOUR: Range<u32> = 60..120;
    /// Up to the year 2199.
    const FAR: Range<u32> = 0..120_000_000;

    /// The rollups in a folder, and the events that they count.
    struct World {
        folder: TempDir,
        counters: EmbeddedCounters,
        applied: u64,
    }

    impl World {
        fn new() -> World {
            let folder = TempDir::new().expect("a folder");
            let counters = World::open(&folder);
            World { folder, counters, applied: 0 }
        }

        fn open(folder: &TempDir) -> EmbeddedCounters {
            let store = Store::open(&folder.path().join("views"), &StoreOptions::default());
            EmbeddedCounters::open(store.expect("the store opens")).expect("the rollups open")
        }

        fn apply(&mut self, event: &str) {
            self.apply_event(TestEvent::read(event));
        }

        fn apply_event(&mut self, event: TestEvent) {
            let deltas = deltas_of(&[event], self.applied);
            self.counters.apply(self.applied..self.applied + 1, &deltas).expect("the store does not fail");
            self.applied += 1;
        }

        fn checkpoint(&self) {
            let mut checkpoint = self.counters.checkpoint(SideState::default());
            checkpoint.commit().expect("the store does not fail");
        }

        /// Makes the hours durable and evicts them from memory.
        fn restart(self) -> World {
            self.checkpoint();
            let World { folder, counters, applied } = self;
            drop(counters);
            let counters = World::open(&folder);
            World { folder, counters, applied }
        }

        fn count(&self, minutes: Range<u32>, values: Option<&[&str]>) -> i64 {
            let cut = Cut::By(Dimension::Country);
            let select = SlotSelector { game: 1, metric: "score", cut, values, resolution: Resolution::Hour };
            let mut count = 0;
            let visited = self.counters.visit(select, minutes, &mut |_, _, cell| count += cell.count);
            visited.expect("the store does not fail");
            count
        }

        /// The number of groups in memory and the newest hour that the log changed.
        fn in_memory(&self) -> (usize, u32) {
            let memory = self.counters.memory.read();
            (memory.groups.len(), memory.groups.newest_hour())
        }
    }

    #[test]
    fn values_that_are_not_stored_yet_keep_their_rows_when_memory_is_scarce() {
        let World { folder, counters, applied } = World::new();
        let mut world = World { folder, counters: counters.with_memory(1), applied };
        let event = |line: &str| TestEvent { values_max: 1, ..TestEvent::read(line) };
        world.apply_event(event("14400 score a BR 1 1"));
        world.apply_event(event("70 score a FR 1 1"));
        // Taken, and not committed: the store does not know FR.
        let pending = world.counters.checkpoint(SideState::default());
        world.apply_event(event("14401 score a BR 1 1"));
        world.apply_event(event("14402 score a BR 1 1"));
        world.apply_event(event("130 score a DE 1 1"));
        assert_eq!(world.count(120..180, Some(&["DE"])), 0, "FR was the first value of that day");
        assert_eq!(world.count(120..180, Some(&["(other)"])), 1);
        drop(pending);
    }

    #[test]
    fn window_into_the_far_future_creates_no_groups() {
        let mut world = World::new();
        world.apply("70 score a FR 1 1");
        let before = world.in_memory();
        assert_eq!(world.count(FAR, None), 1);
        assert_eq!(world.in_memory(), before);
        let world = world.restart();
        assert_eq!((world.count(FAR, None), world.in_memory()), (1, (1, 0)), "the hour with rows is kept");
        assert_eq!(world.count(FAR, Some(&["DE"])), 0);
    }

    #[test]
    fn hours_that_were_read_follow_later_changes() {
        let mut world = World::new();
        world.apply("70 score a FR 1 1");
        let mut world = world.restart();
        assert_eq!(world.count(HOUR, None), 1);
        world.apply("71 score a DE 1 1");
        world.apply("6000 score a DE 1 1");
        assert_eq!((world.count(HOUR, None), world.count(FAR, None)), (2, 3));
        let groups = world.in_memory().0;
        for _ in 0..4 {
            world.checkpoint();
        }
        assert_eq!(world.in_memory().0 * 2, groups, "the older of two hours was evicted");
        assert_eq!((world.count(HOUR, None), world.count(HOUR, Some(&["DE"]))), (2, 1));
    }
}
