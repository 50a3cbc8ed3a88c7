//! The memory engine for rollups: the simplest implementation of the port.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use model::deltas::{DeltaRow, Deltas};
use model::limits::{METRICS_MAX, TUPLES_MAX};
use model::ports::counters::{
    Checkpoint, CheckpointError, Counters, ExportedRow, ExportedRows, RecordsCheck, RowChange, SideState,
    SlotSelector, SnapshotRow, SnapshotRows, StoreError, StoreSnapshot,
};
use model::ports::records::{RecordWrite, Records};
use model::rollup::{Aggregate, HourBlock};
use model::series::{Cut, OTHER, Resolution, SAMPLES, TUPLE_SEPARATOR};

/// Rollups of all games; nothing is ever evicted.
pub struct MemoryCounters {
    disk: MemoryDisk,
    now: RwLock<State>,
}

/// The state that survives a restart: that of the last checkpoint.
pub type MemoryDisk = Arc<Mutex<SavedState>>;

/// The state of a checkpoint, with the side state.
#[derive(Clone, Default)]
pub struct SavedState {
    state: State,
    named: BTreeMap<&'static str, Vec<u8>>,
    records: BTreeMap<Vec<u8>, Vec<u8>>,
}

#[derive(Clone, Default)]
struct State {
    applied_until: u64,
    rows: BTreeMap<Key, HourBlock>,
    /// The values that have rows, by metric, cut and day.
    admitted: BTreeMap<(u32, u8, String, u32), BTreeSet<String>>,
}

/// The key of a row. Ordered like the stored keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    game: u32,
    cut: u8,
    /// The name, preceded by its length.
    metric: (u8, String),
    hour: u32,
    value: String,
}

impl MemoryCounters {
    /// Opens the state of the last checkpoint.
    pub fn open(disk: &MemoryDisk) -> MemoryCounters {
        let state = disk.lock().unwrap_or_else(PoisonError::into_inner).state.clone();
        MemoryCounters { disk: Arc::clone(disk), now: RwLock::new(state) }
    }

    fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn add(&mut self, row: &DeltaRow<'_>) {
        let hour = row.minute / 60;
        let metric = self.admitted_metric(row.game, row.metric, hour / 24);
        let value = self.admitted_value(row, &metric, hour / 24);
        let metric = (metric.len() as u8, metric);
        let key = Key { game: row.game, cut: row.cut.code(), metric, hour, value };
        self.rows.entry(key).or_default().apply((row.minute % 60) as u8, row.since, &row.aggregate());
    }

    fn admitted_metric(&mut self, game: u32, metric: &str, day: u32) -> String {
        if metric.starts_with('$') {
            return metric.to_owned();
        }
        self.admit((game, Cut::Total.code(), String::new(), day), metric, METRICS_MAX)
    }

    fn admitted_value(&mut self, row: &DeltaRow<'_>, metric: &str, day: u32) -> String {
        let values_max = match row.cut {
            Cut::Total => return row.value.to_owned(),
            Cut::Declared(_) if metric == SAMPLES => METRICS_MAX,
            Cut::By(_) | Cut::Declared(_) => row.values_max as usize,
            Cut::Tuple => TUPLES_MAX,
        };
        self.admit((row.game, row.cut.code(), metric.to_owned(), day), row.value, values_max)
    }

    /// Keeps the first values of a day; all others share one row.
    fn admit(&mut self, group: (u32, u8, String, u32), value: &str, values_max: usize) -> String {
        let admitted = self.admitted.entry(group).or_default();
        if value != OTHER && !admitted.contains(value) {
            if admitted.len() >= values_max {
                return OTHER.to_owned();
            }
            admitted.insert(value.to_owned());
        }
        value.to_owned()
    }

    fn replace(&mut self, changes: &[RowChange]) {
        for RowChange { key, block } in changes {
            let key = Key::read(key).expect("keys come from a snapshot");
            match block {
                Some(block) => {
                    let block = HourBlock::decode(block).expect("blocks come from a snapshot");
                    self.rows.insert(key, block)
                }
                None => self.rows.remove(&key),
            };
        }
        self.admitted.clear();
        for key in self.rows.keys() {
            let (day, metric) = (key.hour / 24, key.metric.1.clone());
            if [&key.value, &metric].into_iter().any(|text| text == OTHER) {
                continue;
            }
            if key.cut != Cut::Total.code() {
                let group = (key.game, key.cut, metric, day);
                self.admitted.entry(group).or_default().insert(key.value.clone());
            } else if !metric.starts_with('$') {
                let group = (key.game, key.cut, String::new(), day);
                self.admitted.entry(group).or_default().insert(metric);
            }
        }
    }
}

impl Records for MemoryCounters {
    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.disk.lock().unwrap_or_else(PoisonError::into_inner).records.get(key).cloned())
    }

    fn records(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
        let records = self.disk.lock().unwrap_or_else(PoisonError::into_inner).records.clone();
        let wanted = records.range(prefix.to_vec()..).take_while(|(key, _)| key.starts_with(prefix));
        wanted.for_each(|(key, value)| visit(key, value));
        Ok(())
    }
}

impl Counters for MemoryCounters {
    fn apply(&self, range: Range<u64>, deltas: &Deltas) -> Result<(), StoreError> {
        let mut state = self.now.write().unwrap_or_else(PoisonError::into_inner);
        if range.end > state.applied_until {
            deltas.rows().for_each(|row| state.add(&row));
            state.applied_until = range.end;
        }
        Ok(())
    }

    fn applied_until(&self) -> u64 {
        self.read(|state| state.applied_until)
    }

    fn durable_until(&self) -> u64 {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner).state.applied_until
    }

    fn checkpoint(&self, side_state: SideState) -> Box<dyn Checkpoint> {
        Box::new(PendingCheckpoint {
            disk: Arc::clone(&self.disk),
            state: self.read(State::clone),
            side_state,
        })
    }

    fn side_state(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.disk.lock().unwrap_or_else(PoisonError::into_inner).named.get(name).cloned())
    }

    fn visit(
        &self,
        select: SlotSelector<'_>,
        minutes: Range<u32>,
        visit: &mut dyn FnMut(&str, u32, &Aggregate),
    ) -> Result<(), StoreError> {
        self.read(|state| {
            let rows = state.rows.iter().filter(|(key, _)| key.is_selected(&select));
            for (key, block) in rows {
                for (minute, aggregate) in slots(key.hour, block, select.resolution) {
                    if minutes.contains(&minute) {
                        visit(&key.value, minute, &aggregate);
                    }
                }
            }
        });
        Ok(())
    }

    fn export(&self, hours: &Range<u32>) -> Result<(u64, ExportedRows), StoreError> {
        Ok(self.read(|state| {
            let rows = state.rows.iter().filter(|(key, _)| hours.contains(&key.hour));
            (state.applied_until, rows.map(|(key, block)| (key.bytes(), key.exported(block))).collect())
        }))
    }

    fn snapshot(&self) -> Result<Box<dyn StoreSnapshot>, StoreError> {
        Ok(Box::new(self.disk.lock().unwrap_or_else(PoisonError::into_inner).clone()))
    }

    fn link_files(&self, _: &Path) -> Result<(), StoreError> {
        Err(StoreError("the memory engine has no files".into()))
    }

    fn replace(&self, changes: &[RowChange]) -> Result<(), StoreError> {
        self.now.write().unwrap_or_else(PoisonError::into_inner).replace(changes);
        self.disk.lock().unwrap_or_else(PoisonError::into_inner).state.replace(changes);
        Ok(())
    }

    fn remove_rows(&self, game: u32, rows_max: usize) -> Result<usize, StoreError> {
        let keys = self.read(|state| {
            let keys = state.rows.keys().filter(|key| key.game == game).take(rows_max);
            keys.map(|key| RowChange { key: key.bytes(), block: None }).collect::<Vec<_>>()
        });
        self.replace(&keys)?;
        Ok(keys.len())
    }

    fn metrics(&self, game: u32, minutes: Range<u32>) -> Result<Vec<String>, StoreError> {
        let hours = minutes.start / 60..minutes.end.div_ceil(60);
        let names: BTreeSet<String> = self.read(|state| {
            let rows = state.rows.keys().filter(|key| key.game == game && key.cut == Cut::Total.code());
            let rows = rows.filter(|key| hours.contains(&key.hour));
            rows.map(|key| key.metric.1.clone()).collect()
        });
        Ok(names.into_iter().collect())
    }
}

impl StoreSnapshot for SavedState {
    fn position(&self) -> u64 {
        self.state.applied_until
    }

    fn rows(&self, hours: &Range<u32>) -> SnapshotRows<'_> {
        let hours = hours.clone();
        let rows = self.state.rows.iter().filter(move |(key, _)| hours.contains(&key.hour));
        Box::new(rows.map(|(key, block)| {
            let ExportedRow { since, block, .. } = key.exported(block);
            Ok(SnapshotRow { key: key.bytes(), hour: key.hour, since, block })
        }))
    }

    fn row_name(&self, key: &[u8]) -> String {
        let key = Key::read(key).expect("keys come from a snapshot");
        key.exported(&HourBlock::default()).name
    }

    fn check_records(&self) -> Result<RecordsCheck, StoreError> {
        let count = self.records.len() as u64;
        Ok(RecordsCheck { count, expected: count, agrees: true })
    }
}

struct PendingCheckpoint {
    disk: MemoryDisk,
    state: State,
    side_state: SideState,
}

impl Checkpoint for PendingCheckpoint {
    fn commit(&mut self) -> Result<(), CheckpointError> {
        let mut disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        disk.state = self.state.clone();
        disk.named.extend(self.side_state.states.clone());
        for RecordWrite { key, value } in self.side_state.records.clone() {
            match value {
                Some(value) => disk.records.insert(key, value),
                None => disk.records.remove(&key),
            };
        }
        Ok(())
    }
}

fn slots(hour: u32, block: &HourBlock, resolution: Resolution) -> Vec<(u32, Aggregate)> {
    match resolution {
        Resolution::Hour => vec![(hour * 60, block.total().into_owned())],
        Resolution::Minute => {
            block.slots().map(|(slot, aggregate)| (hour * 60 + u32::from(slot), aggregate.clone())).collect()
        }
    }
}

impl Key {
    fn is_selected(&self, select: &SlotSelector<'_>) -> bool {
        (self.game, self.cut, &self.metric.1[..]) == (select.game, select.cut.code(), select.metric)
            && select.values.is_none_or(|values| values.contains(&&self.value[..]))
    }

    fn bytes(&self) -> Vec<u8> {
        let (game, hour) = (self.game.to_be_bytes(), self.hour.to_be_bytes());
        let (length, metric) = &self.metric;
        [&game[..], &[self.cut, *length], metric.as_bytes(), &hour, self.value.as_bytes()].concat()
    }

    fn read(bytes: &[u8]) -> Option<Key> {
        let (game, bytes) = bytes.split_first_chunk()?;
        let ([cut, length], bytes) = bytes.split_first_chunk()?;
        let (metric, bytes) = bytes.split_at_checked(usize::from(*length))?;
        let (hour, value) = bytes.split_first_chunk()?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        let (game, hour) = (u32::from_be_bytes(*game), u32::from_be_bytes(*hour));
        Some(Key { game, cut: *cut, metric: (*length, text(metric)?), hour, value: text(value)? })
    }

    fn exported(&self, block: &HourBlock) -> ExportedRow {
        let cut = match Cut::from_code(self.cut).expect("stored cuts are valid") {
            Cut::Total => String::new(),
            Cut::By(dimension) => format!(" {}={:?}", dimension.label(), self.value),
            Cut::Declared(number) => format!(" dimension {number}={:?}", self.value),
            Cut::Tuple => format!(" {:?}", self.value.split(TUPLE_SEPARATOR).collect::<Vec<_>>()),
        };
        let name = format!("game {} {}{cut} hour {}", self.game, self.metric.1, self.hour);
        let mut bytes = Vec::new();
        block.encode(&mut bytes);
        ExportedRow { name, since: block.since(), block: bytes }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::conformance::counters::{check_event_order, check_log_split, counters_conform, steps};
    use crate::events::events;

    fn new_store() -> impl Fn() -> Arc<dyn Counters> {
        let disk = MemoryDisk::default();
        move || Arc::new(MemoryCounters::open(&disk))
    }

    #[test]
    fn memory_engine_conforms() {
        counters_conform(new_store);
    }

    proptest! {
        #[test]
        fn log_split_does_not_change_the_rollups(events in events(0..120), steps in steps()) {
            check_log_split(new_store(), &events, &steps);
        }

        #[test]
        fn event_order_does_not_change_the_rollups(events in events(0..120), seed: u64) {
            check_event_order(new_store(), &events, seed);
        }
    }
}
