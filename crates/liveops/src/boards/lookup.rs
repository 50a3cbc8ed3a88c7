//! A hash table from players' ids to their numbers: open addressing with four bytes per slot, so that a lookup costs
//! one cache miss.
//!
//! A slot holds a number and, in its remaining bits, a part of the hash. Most slots of other players are skipped
//! without reading those players.

/// Slots of the smallest table.
const SLOTS_MIN: usize = 16;
const EMPTY: u32 = 0;

/// Numbers by hash.
#[derive(Default)]
pub(super) struct PlayerLookup {
    slots: Vec<u32>,
    used: usize,
    /// The lower bits of a slot that hold a number, counted from 1.
    number_bits: u32,
}

impl PlayerLookup {
    /// Creates a table with room for `count` numbers up to `number_max`.
    pub(super) fn with_room(count: usize, number_max: u32) -> PlayerLookup {
        // A quarter stays empty, so that probe sequences are short.
        let slots = (count + count / 3).max(SLOTS_MIN);
        let mut room = Vec::new();
        room.reserve_exact(slots);
        memory::advise_huge_pages(&room);
        room.resize(slots, EMPTY);
        let number_bits = (u32::BITS - number_max.saturating_add(1).leading_zeros()).clamp(8, 31);
        PlayerLookup { slots: room, used: 0, number_bits }
    }

    /// Returns true if this number can be put.
    pub(super) fn has_room(&self, number: u32) -> bool {
        self.used + self.used / 5 < self.slots.len() && number < (1 << self.number_bits) - 1
    }

    pub(super) fn len(&self) -> usize {
        self.used
    }

    /// Returns the number with this hash for which `is_it` is true.
    #[inline]
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.slot(hash, is_it).map(|at| self.number(at))
    }

    /// Prefetches the slot of a hash.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        self.slots.get(self.home(hash)).into_iter().for_each(memory::prefetch);
    }

    #[inline]
    fn slot(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let tag = self.tag(hash);
        let mut at = self.home(hash);
        while self.slots[at] != EMPTY {
            if self.slots[at] >> self.number_bits == tag && is_it(self.number(at)) {
                return Some(at);
            }
            at = self.next(at);
        }
        None
    }

    /// Puts a number that is not in the table. The table must have room.
    pub(super) fn put(&mut self, hash: u64, number: u32) {
        let mut at = self.home(hash);
        while self.slots[at] != EMPTY {
            at = self.next(at);
        }
        self.slots[at] = self.tag(hash) << self.number_bits | (number + 1);
        self.used += 1;
    }

    pub(super) fn remove(&mut self, hash: u64, number: u32, hash_of: impl Fn(u32) -> u64) {
        let Some(mut hole) = self.slot(hash, |it| it == number) else { return };
        let mut at = self.next(hole);
        while self.slots[at] != EMPTY {
            // It may move into the hole if its home is not between the two.
            let (from_home, from_hole) =
                (self.distance(self.home(hash_of(self.number(at))), at), self.distance(hole, at));
            if from_home >= from_hole {
                self.slots[hole] = self.slots[at];
                hole = at;
            }
            at = self.next(at);
        }
        self.slots[hole] = EMPTY;
        self.used -= 1;
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        (0..self.slots.len()).filter(|at| self.slots[*at] != EMPTY).map(|at| self.number(at))
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u32>()
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.slots.len() as u128) >> 64) as usize
    }

    #[inline]
    fn tag(&self, hash: u64) -> u32 {
        hash as u32 & ((1 << (32 - self.number_bits)) - 1)
    }

    #[inline]
    fn number(&self, at: usize) -> u32 {
        (self.slots[at] & ((1 << self.number_bits) - 1)) - 1
    }

    #[inline]
    fn next(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    /// Returns the distance between two slots, with wrap-around.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.slots.len() - from }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Few distinct values, so that many numbers have the same home.
    fn hash(number: u32) -> u64 {
        u64::from(number % 7) << 61 | u64::from(number % 3)
    }

    proptest! {
        #[test]
        fn present_numbers_are_found_and_removed_ones_are_not(changes in prop::collection::vec(0u32..40, 0..200)) {
            let mut lookup = PlayerLookup::with_room(40, 40);
            let mut present = std::collections::BTreeSet::new();
            for number in changes {
                if present.insert(number) {
                    prop_assert!(lookup.has_room(number));
                    lookup.put(hash(number), number);
                } else {
                    present.remove(&number);
                    lookup.remove(hash(number), number, hash);
                }
                for number in 0..40 {
                    let found = lookup.find(hash(number), |it| it == number);
                    prop_assert_eq!(found.is_some(), present.contains(&number));
                }
                let mut numbers: Vec<u32> = lookup.numbers().collect();
                numbers.sort_unstable();
                prop_assert!(numbers.iter().eq(&present) && lookup.len() == present.len());
            }
        }
    }
}
