//! The hours in memory: rows are found by hash and their blocks changed in index.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::{DefaultHashBuilder, HashTable};
use model::deltas::DeltaRow;
use model::ports::counters::SlotSelector;
use model::rollup::{Aggregate, HourBlock};
use model::series::{Cut, Resolution};

use super::keys;
use super::value::RowValue;

/// Maximum number of rows of a group that is searched linearly.
const LINEAR_ROWS: usize = 8;
/// Number of newest hours whose groups stay in memory even if unused.
const HOT_HOURS: u32 = 2;
/// Memory of the groups that are kept only because queries read them.
const READ_BYTES_MAX: usize = 64 << 20;

/// One cut of one metric in one hour (hours since 1970-01-01 UTC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupKey<'a> {
    pub(super) game: u32,
    pub(super) cut: Cut,
    pub(super) metric: &'a str,
    pub(super) hour: u32,
}

impl<'a> GroupKey<'a> {
    pub(super) fn of(select: &SlotSelector<'a>, hour: u32) -> GroupKey<'a> {
        GroupKey { game: select.game, cut: select.cut, metric: select.metric, hour }
    }
}

/// One row in one hour.
struct StoredRow {
    value: RowValue,
    block: HourBlock,
    changed: bool,
}

/// Estimated overhead of the allocator and of the indexes per group, in bytes.
const GROUP_OVERHEAD: usize = 96;

impl StoredRow {
    fn visit(
        &self,
        level: Resolution,
        minutes: &Range<u32>,
        hour: u32,
        visit: &mut dyn FnMut(&str, u32, &Aggregate),
    ) {
        visit_block(self.value.as_str(), &self.block, level, minutes, hour, visit);
    }
}

/// Visits the slots of one row in one hour.
pub(super) fn visit_block(
    value: &str,
    block: &HourBlock,
    level: Resolution,
    minutes: &Range<u32>,
    hour: u32,
    visit: &mut dyn FnMut(&str, u32, &Aggregate),
) {
    match level {
        Resolution::Hour => visit(value, hour * 60, &block.total()),
        Resolution::Minute => {
            for (slot, cell) in block.slots() {
                let minute = hour * 60 + u32::from(slot);
                if minutes.contains(&minute) {
                    visit(value, minute, cell);
                }
            }
        }
    }
}

/// Returns the memory that a row takes, about.
pub(super) fn row_bytes(value: &str, block: &HourBlock) -> usize {
    size_of::<StoredRow>() + value.len() + block.heap_bytes()
}

struct Group {
    game: u32,
    cut: Cut,
    metric: Box<str>,
    hour: u32,
    rows: Vec<StoredRow>,
    /// Empty while the rows are few.
    index: HashTable<u32>,
    used: AtomicBool,
    /// Estimated memory, kept up to date with each change and exact after each checkpoint.
    bytes: usize,
    /// Number of rows that the next checkpoint writes.
    changed: u32,
    /// The last checkpoint that took rows of this group.
    taken_by: u64,
    /// Its memory when a query read it from the store; 0 for groups that the log changes.
    read_bytes: usize,
}

impl Group {
    fn key(&self) -> GroupKey<'_> {
        GroupKey { game: self.game, cut: self.cut, metric: &self.metric, hour: self.hour }
    }

    fn find(&self, hasher: &DefaultHashBuilder, value: &str) -> Option<usize> {
        if self.rows.len() <= LINEAR_ROWS {
            return self.rows.iter().position(|row| row.value.as_bytes() == value.as_bytes());
        }
        let same = |row: &u32| self.rows[*row as usize].value.as_bytes() == value.as_bytes();
        self.index.find(hasher.hash_one(value.as_bytes()), same).map(|row| *row as usize)
    }

    /// Returns the memory of the group and its rows, in bytes.
    fn measure(&self) -> usize {
        let rows = self.rows.iter().map(|row| row.value.heap_bytes() + row.block.heap_bytes()).sum::<usize>();
        let spare = self.rows.capacity() * size_of::<StoredRow>() + self.index.allocation_size();
        GROUP_OVERHEAD + size_of::<Group>() + self.metric.len() + spare + rows
    }

    /// Returns true if everything in the group is in the store.
    fn is_stored(&self, committed: u64) -> bool {
        self.changed == 0 && self.taken_by <= committed
    }

    fn push(&mut self, hasher: &DefaultHashBuilder, row: StoredRow) -> usize {
        let before = self.rows.capacity() * size_of::<StoredRow>() + self.index.allocation_size();
        if self.rows.len() == self.rows.capacity() {
            // Most groups have one row: the usual growth would leave room for three more.
            self.rows.reserve_exact((self.rows.len() / 2).max(1));
        }
        self.bytes += row.value.heap_bytes() + row.block.heap_bytes();
        self.rows.push(row);
        let rows = &self.rows;
        let hash = |row: &u32| hasher.hash_one(rows[*row as usize].value.as_bytes());
        if rows.len() == LINEAR_ROWS + 1 {
            for index in 0..rows.len() as u32 {
                self.index.insert_unique(hash(&index), index, hash);
            }
        } else if rows.len() > LINEAR_ROWS {
            let index = rows.len() as u32 - 1;
            self.index.insert_unique(hash(&index), index, hash);
        }
        let after = self.rows.capacity() * size_of::<StoredRow>() + self.index.allocation_size();
        self.bytes += after - before;
        self.rows.len() - 1
    }
}

/// Changed rows in the form of the store: key and block.
pub(super) type EncodedRows = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Default)]
pub(super) struct Groups {
    groups: Vec<Option<Group>>,
    free: Vec<u32>,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
    changed: Vec<(u32, u32)>,
    /// The newest hour that the log changed.
    newest_hour: u32,
    /// The memory of all groups.
    bytes: usize,
    /// The number of checkpoints so far.
    checkpoints: u64,
    /// The sum of `read_bytes` of all groups.
    read_bytes: usize,
    /// The number of times that groups were evicted. What was read from the store before may be older than the store.
    evictions: u64,
}

impl Groups {
    pub(super) fn newest_hour(&self) -> u32 {
        self.newest_hour
    }

    pub(super) fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Returns the memory in which further groups that queries read may be kept.
    pub(super) fn read_bytes_left(&self) -> usize {
        READ_BYTES_MAX.saturating_sub(self.read_bytes)
    }

    pub(super) fn group(&self, key: &GroupKey<'_>) -> Option<usize> {
        let same = |group: &u32| self.at(*group as usize).key() == *key;
        self.index.find(hash(&self.hasher, key), same).map(|group| *group as usize)
    }

    /// Inserts a group that the log changes, with its rows from the store.
    pub(super) fn insert(&mut self, key: &GroupKey<'_>, rows: Vec<(Box<str>, HourBlock)>) -> usize {
        self.newest_hour = self.newest_hour.max(key.hour);
        self.insert_rows(key, rows)
    }

    /// Inserts a group that a query read, if there is memory for it and it is not there yet.
    pub(super) fn insert_read(&mut self, key: &GroupKey<'_>, rows: Vec<(Box<str>, HourBlock)>) {
        let bytes: usize = rows.iter().map(|(value, block)| row_bytes(value, block)).sum();
        let bytes = bytes + size_of::<Group>() + key.metric.len();
        if bytes > self.read_bytes_left() || self.group(key).is_some() {
            return;
        }
        let index = self.insert_rows(key, rows);
        self.groups[index].as_mut().expect("it was just inserted").read_bytes = bytes;
        self.read_bytes += bytes;
    }

    fn insert_rows(&mut self, key: &GroupKey<'_>, rows: Vec<(Box<str>, HourBlock)>) -> usize {
        let mut group = Group {
            game: key.game,
            cut: key.cut,
            metric: key.metric.into(),
            hour: key.hour,
            rows: Vec::with_capacity(rows.len()),
            index: HashTable::new(),
            used: AtomicBool::new(true),
            bytes: 0,
            changed: 0,
            taken_by: 0,
            read_bytes: 0,
        };
        for (value, block) in rows {
            group.push(&self.hasher, StoredRow { value: value[..].into(), block, changed: false });
        }
        group.bytes = group.measure();
        self.bytes += group.bytes;
        let index = self.free.pop().unwrap_or(self.groups.len() as u32);
        if index as usize == self.groups.len() {
            self.groups.push(None);
        }
        self.groups[index as usize] = Some(group);
        let (groups, hasher) = (&self.groups, &self.hasher);
        let rehash = |index: &u32| hash(hasher, &resident(groups, *index as usize).key());
        self.index.insert_unique(hash(hasher, key), index, rehash);
        index as usize
    }

    /// Returns the group's key, and the index of the value's row in it.
    pub(super) fn row(&self, group: usize, value: &str) -> (GroupKey<'_>, Option<usize>) {
        let group = self.at(group);
        (group.key(), group.find(&self.hasher, value))
    }

    pub(super) fn find_or_insert(&mut self, group: usize, value: &str) -> usize {
        let hasher = &self.hasher;
        let group = self.groups[group].as_mut().expect("group numbers come from the index");
        group.find(hasher, value).unwrap_or_else(|| {
            let before = group.bytes;
            let row = StoredRow { value: value.into(), block: HourBlock::default(), changed: false };
            let row = group.push(hasher, row);
            self.bytes += group.bytes - before;
            row
        })
    }

    /// Prefetches a row that will be changed soon.
    #[inline]
    pub(super) fn prefetch(&self, group: usize, row: usize) {
        self.at(group).rows[row].block.last().into_iter().for_each(memory::prefetch);
    }

    /// Prefetches the row's values, once the lines of [`Groups::prefetch`] have arrived.
    #[inline]
    pub(super) fn prefetch_values(&self, group: usize, row: usize) {
        let values = self.at(group).rows[row].block.last().and_then(|cell| cell.values.as_deref());
        values.into_iter().for_each(memory::prefetch);
    }

    pub(super) fn apply(&mut self, group: usize, row: usize, delta: &DeltaRow<'_>) {
        let resident = self.groups[group].as_mut().expect("group numbers come from the index");
        *resident.used.get_mut() = true;
        let found = &mut resident.rows[row];
        let (grown, slots) = (Cell::new(0), found.block.slot_bytes());
        found.block.add((delta.minute % 60) as u8, delta.since, |cell| {
            let before = cell.heap_bytes();
            delta.add_to(cell);
            grown.set(grown.get() + cell.heap_bytes().saturating_sub(before));
        });
        let grown = grown.get() + found.block.slot_bytes() - slots;
        resident.bytes += grown;
        self.bytes += grown;
        if !found.changed {
            found.changed = true;
            resident.changed += 1;
            self.changed.push((group as u32, row as u32));
        }
    }

    fn measure(&mut self, group: usize) {
        let group = self.groups[group].as_mut().expect("group numbers come from the index");
        self.bytes = self.bytes + group.measure() - group.bytes;
        group.bytes = group.measure();
    }

    /// Returns the estimated memory of all groups in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the rows changed since the last call, and the number of the checkpoint that writes them.
    pub(super) fn take_changes(&mut self) -> (u64, EncodedRows) {
        self.checkpoints += 1;
        let mut changed = std::mem::take(&mut self.changed);
        let rows = changed.iter().map(|(group, row)| self.encode(*group as usize, *row as usize)).collect();
        changed.dedup_by_key(|(group, _)| *group);
        for (group, _) in changed {
            self.measure(group as usize);
        }
        (self.checkpoints, rows)
    }

    fn encode(&mut self, group: usize, row: usize) -> (Vec<u8>, Vec<u8>) {
        let group = self.groups[group].as_mut().expect("changed groups stay in memory");
        group.rows[row].changed = false;
        (group.changed, group.taken_by) = (0, self.checkpoints);
        let row = &group.rows[row];
        let mut block = Vec::new();
        row.block.encode(&mut block);
        (keys::row_key(&group.key(), row.value.as_str()), block)
    }

    /// Evicts stored groups of old hours that were not used since the last call. Returns the newest hour.
    pub(super) fn evict(&mut self, committed: u64) -> u32 {
        self.evictions += 1;
        let oldest_kept = self.newest_hour.saturating_sub(HOT_HOURS - 1);
        for index in 0..self.groups.len() {
            let Some(group) = &self.groups[index] else { continue };
            let used = group.used.swap(false, Ordering::Relaxed);
            if !used && group.hour < oldest_kept && group.is_stored(committed) {
                self.remove(index);
            }
        }
        self.newest_hour
    }

    /// Evicts stored groups until all take at most `bytes_max`: first those that were not used since the last call, then
    /// those of old hours, then any.
    pub(super) fn evict_down_to(&mut self, bytes_max: usize, committed: u64) {
        self.evictions += 1;
        let oldest_kept = self.newest_hour.saturating_sub(HOT_HOURS - 1);
        for round in 0..3 {
            for index in 0..self.groups.len() {
                if self.bytes <= bytes_max {
                    return;
                }
                let Some(group) = &self.groups[index] else { continue };
                let used = round == 0 && group.used.swap(false, Ordering::Relaxed);
                if !used && (round == 2 || group.hour < oldest_kept) && group.is_stored(committed) {
                    self.remove(index);
                }
            }
        }
    }

    fn remove(&mut self, index: usize) {
        let group = self.groups[index].take().expect("the group was just checked");
        self.bytes -= group.bytes;
        self.read_bytes -= group.read_bytes;
        let hash = hash(&self.hasher, &group.key());
        if let Ok(entry) = self.index.find_entry(hash, |other| *other as usize == index) {
            entry.remove();
        }
        self.free.push(index as u32);
    }

    pub(super) fn visit(
        &self,
        group: usize,
        select: &SlotSelector<'_>,
        minutes: &Range<u32>,
        visit: &mut dyn FnMut(&str, u32, &Aggregate),
    ) {
        let group = self.at(group);
        group.used.store(true, Ordering::Relaxed);
        match select.values {
            None => {
                group.rows.iter().for_each(|row| row.visit(select.resolution, minutes, group.hour, visit))
            }
            Some(values) => {
                for row in values.iter().filter_map(|value| group.find(&self.hasher, value)) {
                    group.rows[row].visit(select.resolution, minutes, group.hour, visit);
                }
            }
        }
    }

    pub(super) fn metrics(&self, game: u32, hours: &Range<u32>, metrics: &mut BTreeSet<String>) {
        let groups = self.groups.iter().flatten();
        let of_game = groups
            .filter(|group| group.game == game && hours.contains(&group.hour) && !group.rows.is_empty());
        let totals = of_game.filter(|group| group.cut == Cut::Total);
        metrics.extend(totals.map(|group| group.metric.to_string()));
    }

    /// Adds or overwrites the rows of these hours that are in memory.
    pub(super) fn blocks(&self, hours: &Range<u32>, blocks: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
        for group in self.groups.iter().flatten().filter(|group| hours.contains(&group.hour)) {
            for row in &group.rows {
                let mut block = Vec::new();
                row.block.encode(&mut block);
                blocks.insert(keys::row_key(&group.key(), row.value.as_str()), block);
            }
        }
    }

    /// Returns the number of groups.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.groups.iter().flatten().count()
    }

    /// Evicts the groups of these hours; none of their rows may be waiting for a checkpoint.
    pub(super) fn evict_hours(&mut self, hours: &Range<u32>) {
        self.evict_where(|group| hours.contains(&group.hour));
    }

    /// Evicts the groups of a game; none of their rows may be waiting for a checkpoint.
    pub(super) fn evict_game(&mut self, game: u32) {
        self.evict_where(|group| group.game == game);
    }

    fn evict_where(&mut self, is_evicted: impl Fn(&Group) -> bool) {
        self.evictions += 1;
        for index in 0..self.groups.len() {
            if self.groups[index].as_ref().is_some_and(&is_evicted) {
                self.remove(index);
            }
        }
        self.changed.retain(|(group, _)| self.groups[*group as usize].is_some());
    }

    fn at(&self, index: usize) -> &Group {
        resident(&self.groups, index)
    }
}

fn resident(groups: &[Option<Group>], index: usize) -> &Group {
    groups[index].as_ref().expect("group numbers come from the index")
}

fn hash(hasher: &DefaultHashBuilder, key: &GroupKey<'_>) -> u64 {
    hasher.hash_one((key.game, key.cut.code(), key.hour, key.metric))
}
