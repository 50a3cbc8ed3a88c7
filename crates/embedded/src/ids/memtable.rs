//! The newest ids, in memory until they are a run.

use super::memory::{prefetch, zeros};
use super::place::{Kind, Probe, share_of};
use super::times::Times;

/// A table starts this small: an idle game costs nothing.
const HOMES_MIN: usize = 1 << 10;
/// One slot behind the last home for each so many homes, for places pushed along by their neighbours.
const HOMES_PER_TAIL_SLOT: usize = 8;

/// A set of places with open addressing. A place's home is its share of the slots, so walking the slots meets the
/// places almost in order, and what is out of order is within one cluster of neighbours: sorting costs next to nothing.
pub(super) struct Table {
    /// 0 is a free slot; the last slot is always free.
    slots: Vec<u128>,
    homes: usize,
    count: usize,
    /// The place 0 cannot be told from a free slot and is remembered here.
    holds_zero: bool,
}

impl Table {
    /// A table that takes `keys` without growing.
    pub(super) fn for_keys(keys: usize) -> Table {
        Table::with_homes((keys * 2).next_power_of_two().max(HOMES_MIN))
    }

    fn with_homes(homes: usize) -> Table {
        Table { slots: zeros(homes + homes / HOMES_PER_TAIL_SLOT), homes, count: 0, holds_zero: false }
    }

    pub(super) fn len(&self) -> usize {
        self.count + usize::from(self.holds_zero)
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots.len() * size_of::<u128>()
    }

    #[inline]
    pub(super) fn prefetch(&self, place: u128) {
        prefetch(self.slots.get(self.home_of(place)));
    }

    pub(super) fn contains(&self, place: u128) -> bool {
        if place == 0 { self.holds_zero } else { self.find(place).is_ok() }
    }

    /// Whether it was not there before.
    #[inline]
    pub(super) fn insert(&mut self, place: u128) -> bool {
        if place == 0 {
            return !std::mem::replace(&mut self.holds_zero, true);
        }
        match self.find(place) {
            Ok(_) => false,
            Err(free) => {
                self.fill(free, place);
                true
            }
        }
    }

    /// Whether it was there.
    pub(super) fn remove(&mut self, place: u128) -> bool {
        if place == 0 {
            return std::mem::replace(&mut self.holds_zero, false);
        }
        let Ok(at) = self.find(place) else { return false };
        self.close_gap(at);
        self.count -= 1;
        true
    }

    /// Visits all places in ascending order.
    pub(super) fn for_each_sorted(&self, mut visit: impl FnMut(u128)) {
        if self.holds_zero {
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

    fn home_of(&self, place: u128) -> usize {
        share_of(place, self.homes as u64) as usize
    }

    /// The slot of the place, or the free slot where it would go.
    #[inline]
    fn find(&self, place: u128) -> Result<usize, usize> {
        let home = self.home_of(place);
        for (steps, &slot) in self.slots[home..].iter().enumerate() {
            if slot == place {
                return Ok(home + steps);
            }
            if slot == 0 {
                return Err(home + steps);
            }
        }
        unreachable!("the last slot is always free")
    }

    #[inline]
    fn fill(&mut self, free: usize, place: u128) {
        self.slots[free] = place;
        self.count += 1;
        if self.count * 8 > self.homes * 5 || free + 1 == self.slots.len() {
            self.grow();
        }
    }

    #[cold]
    fn grow(&mut self) {
        let mut larger = Table::with_homes(self.homes * 2);
        for &place in self.slots.iter().filter(|&&slot| slot != 0) {
            larger.insert(place);
        }
        larger.holds_zero = self.holds_zero;
        *self = larger;
    }

    /// Frees a slot by moving back those after it that would not be found any more.
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

/// Puts a place among a few others, near the end most of the time.
fn insert_sorted(places: &mut Vec<u128>, place: u128) {
    let mut at = places.len();
    places.push(place);
    while at > 0 && places[at - 1] > place {
        places[at] = places[at - 1];
        at -= 1;
    }
    places[at] = place;
}

/// The ids of one range of the log.
pub(super) struct Memtable {
    /// The first offset of the range.
    pub(super) from: u64,
    /// Receipt of the first and the last claim, in milliseconds; `None` before there was one.
    pub(super) received_ms: Option<(u64, u64)>,
    /// When the timed ids were made.
    pub(super) times: Times,
    tables: [Table; 2],
}

impl Memtable {
    pub(super) fn new(from: u64) -> Memtable {
        Memtable::with_room(from, [0, 0])
    }

    /// An empty one, with room for as many ids as this one holds.
    pub(super) fn next(&self, from: u64) -> Memtable {
        Memtable::with_room(from, self.tables.each_ref().map(Table::len))
    }

    fn with_room(from: u64, keys: [usize; 2]) -> Memtable {
        Memtable { from, received_ms: None, times: Times::default(), tables: keys.map(Table::for_keys) }
    }

    pub(super) fn len(&self) -> usize {
        self.tables.iter().map(Table::len).sum()
    }

    pub(super) fn bytes(&self) -> usize {
        self.tables.iter().map(Table::bytes).sum()
    }

    pub(super) fn table(&self, kind: Kind) -> &Table {
        &self.tables[kind as usize]
    }

    /// Time has come to `now_ms` while this was the newest.
    pub(super) fn saw(&mut self, now_ms: u64) {
        let (oldest, newest) = self.received_ms.unwrap_or((now_ms, now_ms));
        self.received_ms = Some((oldest.min(now_ms), newest.max(now_ms)));
    }

    /// Whether it was not there before.
    #[inline]
    pub(super) fn insert(&mut self, kind: Kind, probe: &Probe) -> bool {
        if kind == Kind::Timed {
            self.times.add(probe.step);
        }
        self.tables[kind as usize].insert(probe.place)
    }

    /// Whether it was there. The times stay: covering too much costs a look, covering too little an id.
    pub(super) fn remove(&mut self, kind: Kind, place: u128) -> bool {
        self.tables[kind as usize].remove(place)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Places that crowd: few homes, the very ends, and the place 0.
    fn crowded_place() -> impl Strategy<Value = u128> {
        let crowd = (0u128..4, 0u128..64).prop_map(|(home, n)| (home << 126) | n);
        let end = (0u128..400).prop_map(|n| u128::MAX - n);
        prop_oneof![crowd, end, any::<u128>()]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_table_is_a_sorted_set(
            steps in prop::collection::vec((any::<bool>(), any::<bool>(), crowded_place()), 0..2_000),
        ) {
            let mut table = Table::for_keys(0);
            let mut expected = BTreeSet::new();
            for (insert, also, place) in steps {
                if insert || also {
                    prop_assert_eq!(table.insert(place), expected.insert(place));
                } else {
                    prop_assert_eq!(table.remove(place), expected.remove(&place));
                }
                prop_assert_eq!(table.contains(place), expected.contains(&place));
            }
            let mut sorted = Vec::new();
            table.for_each_sorted(|place| sorted.push(place));
            prop_assert_eq!(table.len(), sorted.len());
            prop_assert_eq!(sorted, expected.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_table_grows_and_forgets_nothing() {
        let mut table = Table::for_keys(0);
        let place = |n: u64| super::super::place::place_of(model::ports::ids::IdKey(u128::from(n)));
        assert!((0..50_000).all(|n| table.insert(place(n))));
        assert!((0..50_000).all(|n| table.contains(place(n))));
        assert!((50_000..100_000).all(|n| !table.contains(place(n))));
    }
}
