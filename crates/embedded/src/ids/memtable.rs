//! The newest ids, in memory until they are written as a run.

use super::hash::{IdKind, Probe, partition_of};
use super::table_memory::zeroed;
use super::times::TimeIntervals;

/// Initial number of homes: small, so that an idle game costs nothing.
const HOMES_MIN: usize = 1 << 10;
/// Homes for each extra slot after the last home, for hashes displaced by their neighbours.
const HOMES_PER_TAIL_SLOT: usize = 8;

/// A set of hashes with open addressing. The home of a hash is its partition of the slots, so the slots are almost
/// sorted, and only neighbours inside one cluster are out of order: sorting costs almost nothing.
pub(super) struct KeyTable {
    /// 0 marks a free slot; the last slot is always free.
    slots: Vec<u128>,
    homes: usize,
    count: usize,
    /// The hash 0 cannot be distinguished from a free slot and is stored here.
    contains_zero: bool,
}

impl KeyTable {
    /// Returns a table that fits `keys` without growing.
    pub(super) fn for_keys(keys: usize) -> KeyTable {
        KeyTable::with_homes((keys * 2).next_power_of_two().max(HOMES_MIN))
    }

    fn with_homes(homes: usize) -> KeyTable {
        KeyTable { slots: zeroed(homes + homes / HOMES_PER_TAIL_SLOT), homes, count: 0, contains_zero: false }
    }

    pub(super) fn len(&self) -> usize {
        self.count + usize::from(self.contains_zero)
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots.len() * size_of::<u128>()
    }

    #[inline]
    pub(super) fn prefetch(&self, hash: u128) {
        self.slots.get(self.home_of(hash)).into_iter().for_each(memory::prefetch);
    }

    pub(super) fn contains(&self, hash: u128) -> bool {
        if hash == 0 { self.contains_zero } else { self.find(hash).is_ok() }
    }

    /// Returns true if it was not there before.
    #[inline]
    pub(super) fn insert(&mut self, hash: u128) -> bool {
        if hash == 0 {
            return !std::mem::replace(&mut self.contains_zero, true);
        }
        match self.find(hash) {
            Ok(_) => false,
            Err(free) => {
                self.fill(free, hash);
                true
            }
        }
    }

    /// Returns true if it was there.
    pub(super) fn remove(&mut self, hash: u128) -> bool {
        if hash == 0 {
            return std::mem::replace(&mut self.contains_zero, false);
        }
        let Ok(at) = self.find(hash) else { return false };
        self.close_gap(at);
        self.count -= 1;
        true
    }

    /// Visits all hashes in ascending order.
    pub(super) fn for_each_sorted(&self, mut visit: impl FnMut(u128)) {
        if self.contains_zero {
            visit(0);
        }
        let mut cluster = Vec::new();
        for &slot in &self.slots {
            if slot == 0 {
                cluster.drain(..).for_each(&mut visit);
            } else {
                insert_sorted(&mut cluster, slot);
            }
        }
    }

    fn home_of(&self, hash: u128) -> usize {
        partition_of(hash, self.homes as u64) as usize
    }

    /// Returns the slot of the hash, or the free slot where it would go.
    #[inline]
    fn find(&self, hash: u128) -> Result<usize, usize> {
        let home = self.home_of(hash);
        for (steps, &slot) in self.slots[home..].iter().enumerate() {
            if slot == hash {
                return Ok(home + steps);
            }
            if slot == 0 {
                return Err(home + steps);
            }
        }
        unreachable!("the last slot is always free")
    }

    #[inline]
    fn fill(&mut self, free: usize, hash: u128) {
        self.slots[free] = hash;
        self.count += 1;
        if self.count * 8 > self.homes * 5 || free + 1 == self.slots.len() {
            self.grow();
        }
    }

    #[cold]
    fn grow(&mut self) {
        let mut larger = KeyTable::with_homes(self.homes * 2);
        for &hash in self.slots.iter().filter(|&&slot| slot != 0) {
            larger.insert(hash);
        }
        larger.contains_zero = self.contains_zero;
        *self = larger;
    }

    /// Frees a slot by moving back the following hashes that would not be found otherwise.
    fn close_gap(&mut self, mut gap: usize) {
        let mut at = gap + 1;
        while self.slots[at] != 0 {
            if self.home_of(self.slots[at]) <= gap {
                self.slots[gap] = self.slots[at];
                gap = at;
            }
            at += 1;
        }
        self.slots[gap] = 0;
    }
}

/// Inserts a hash into a short sorted list, usually near the end.
fn insert_sorted(hashes: &mut Vec<u128>, hash: u128) {
    let mut at = hashes.len();
    hashes.push(hash);
    while at > 0 && hashes[at - 1] > hash {
        hashes[at] = hashes[at - 1];
        at -= 1;
    }
    hashes[at] = hash;
}

/// The ids of one range of the log.
pub(super) struct Memtable {
    /// The first offset of the range.
    pub(super) from: u64,
    /// Receipt times of the first and the last claim, in milliseconds; `None` before the first.
    pub(super) received_ms: Option<(u64, u64)>,
    /// The times of the timed ids.
    pub(super) times: TimeIntervals,
    tables: [KeyTable; 2],
}

impl Memtable {
    pub(super) fn new(from: u64) -> Memtable {
        Memtable::with_capacity(from, [0, 0])
    }

    /// Returns an empty memtable with capacity for as many ids as this one contains.
    pub(super) fn next(&self, from: u64) -> Memtable {
        Memtable::with_capacity(from, self.tables.each_ref().map(KeyTable::len))
    }

    fn with_capacity(from: u64, keys: [usize; 2]) -> Memtable {
        Memtable {
            from,
            received_ms: None,
            times: TimeIntervals::default(),
            tables: keys.map(KeyTable::for_keys),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.tables.iter().map(KeyTable::len).sum()
    }

    pub(super) fn bytes(&self) -> usize {
        self.tables.iter().map(KeyTable::bytes).sum()
    }

    pub(super) fn table(&self, kind: IdKind) -> &KeyTable {
        &self.tables[kind as usize]
    }

    /// Extends the receipt times to `now_ms`.
    pub(super) fn observe_time(&mut self, now_ms: u64) {
        let (oldest, newest) = self.received_ms.unwrap_or((now_ms, now_ms));
        self.received_ms = Some((oldest.min(now_ms), newest.max(now_ms)));
    }

    /// Returns true if it was not there before.
    #[inline]
    pub(super) fn insert(&mut self, kind: IdKind, probe: &Probe) -> bool {
        if kind == IdKind::Timed {
            self.times.add(probe.step);
        }
        self.tables[kind as usize].insert(probe.hash)
    }

    /// Returns true if it was there. The times stay: covering too much costs a lookup, covering too little loses an id.
    pub(super) fn remove(&mut self, kind: IdKind, hash: u128) -> bool {
        self.tables[kind as usize].remove(hash)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Hashes that collide: few homes, the very ends, and the hash 0.
    fn colliding_hash() -> impl Strategy<Value = u128> {
        let cluster = (0u128..4, 0u128..64).prop_map(|(home, n)| (home << 126) | n);
        let end = (0u128..400).prop_map(|n| u128::MAX - n);
        prop_oneof![cluster, end, any::<u128>()]
    }

    proptest! {
        #[test]
        fn table_behaves_like_a_sorted_set(
            steps in prop::collection::vec((any::<bool>(), any::<bool>(), colliding_hash()), 0..2_000),
        ) {
            let mut table = KeyTable::for_keys(0);
            let mut expected = BTreeSet::new();
            for (insert, also, hash) in steps {
                if insert || also {
                    prop_assert_eq!(table.insert(hash), expected.insert(hash));
                } else {
                    prop_assert_eq!(table.remove(hash), expected.remove(&hash));
                }
                prop_assert_eq!(table.contains(hash), expected.contains(&hash));
            }
            let mut sorted = Vec::new();
            table.for_each_sorted(|hash| sorted.push(hash));
            prop_assert_eq!(table.len(), sorted.len());
            prop_assert_eq!(sorted, expected.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn table_keeps_all_keys_when_it_grows() {
        let mut table = KeyTable::for_keys(0);
        let hash = |n: u64| super::super::hash::hash_of(model::ports::ids::IdKey(u128::from(n)));
        assert!((0..50_000).all(|n| table.insert(hash(n))));
        assert!((0..50_000).all(|n| table.contains(hash(n))));
        assert!((50_000..100_000).all(|n| !table.contains(hash(n))));
    }
}
