//! From an id's hash to a player's number: open addressing in four bytes a place, so that a look costs one miss.
//!
//! A place holds a number and, in the bits that the number leaves free, some bits of the hash: most places that are
//! another player's are told apart without looking at that player.

use super::memory;

/// Places of the first table.
const PLACES_MIN: usize = 16;
const EMPTY: u32 = 0;

/// Numbers by hash.
#[derive(Default)]
pub struct Lookup {
    places: Vec<u32>,
    used: usize,
    /// A place's lower bits are a number, counted from 1.
    number_bits: u32,
}

impl Lookup {
    /// A table with room for so many, none of them above `number_max`.
    pub fn with_room(count: usize, number_max: u32) -> Lookup {
        // A quarter is left empty, so that what is looked for is nearly always near.
        let places = (count + count / 3).max(PLACES_MIN);
        let mut room = Vec::new();
        room.reserve_exact(places);
        memory::in_large_pages(&room);
        room.resize(places, EMPTY);
        let number_bits = (u32::BITS - number_max.saturating_add(1).leading_zeros()).clamp(8, 31);
        Lookup { places: room, used: 0, number_bits }
    }

    /// Whether another one of this number can be put.
    pub fn has_room(&self, number: u32) -> bool {
        self.used + self.used / 5 < self.places.len() && number < (1 << self.number_bits) - 1
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.used
    }

    /// The number with this hash that is the one.
    #[inline]
    pub fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.place(hash, is_it).map(|at| self.number(at))
    }

    /// A number with this hash will be put or looked for soon.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.places.get(self.home(hash)).into_iter().for_each(memory::prefetch);
    }

    #[inline]
    fn place(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let tag = self.tag(hash);
        let mut at = self.home(hash);
        while self.places[at] != EMPTY {
            if self.places[at] >> self.number_bits == tag && is_it(self.number(at)) {
                return Some(at);
            }
            at = self.next(at);
        }
        None
    }

    /// Puts a number that is not there, where there is room.
    pub fn put(&mut self, hash: u64, number: u32) {
        let mut at = self.home(hash);
        while self.places[at] != EMPTY {
            at = self.next(at);
        }
        self.places[at] = self.tag(hash) << self.number_bits | (number + 1);
        self.used += 1;
    }

    /// Removes a number that is there.
    pub fn remove(&mut self, hash: u64, number: u32, hash_of: impl Fn(u32) -> u64) {
        let Some(mut hole) = self.place(hash, |it| it == number) else { return };
        let mut at = self.next(hole);
        while self.places[at] != EMPTY {
            // It may move into the hole if its home is not between the two.
            let (from_home, from_hole) =
                (self.away(self.home(hash_of(self.number(at))), at), self.away(hole, at));
            if from_home >= from_hole {
                self.places[hole] = self.places[at];
                hole = at;
            }
            at = self.next(at);
        }
        self.places[hole] = EMPTY;
        self.used -= 1;
    }

    /// All numbers.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        (0..self.places.len()).filter(|at| self.places[*at] != EMPTY).map(|at| self.number(at))
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<u32>()
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.places.len() as u128) >> 64) as usize
    }

    #[inline]
    fn tag(&self, hash: u64) -> u32 {
        hash as u32 & ((1 << (32 - self.number_bits)) - 1)
    }

    #[inline]
    fn number(&self, at: usize) -> u32 {
        (self.places[at] & ((1 << self.number_bits) - 1)) - 1
    }

    #[inline]
    fn next(&self, at: usize) -> usize {
        if at + 1 == self.places.len() { 0 } else { at + 1 }
    }

    /// How many places from one on to another.
    fn away(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.places.len() - from }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// So few values that many have the same home.
    fn hash(number: u32) -> u64 {
        u64::from(number % 7) << 61 | u64::from(number % 3)
    }

    proptest! {
        #[test]
        fn what_was_put_and_not_removed_is_found(changes in prop::collection::vec(0u32..40, 0..200)) {
            let mut lookup = Lookup::with_room(40, 40);
            let mut there = std::collections::BTreeSet::new();
            for number in changes {
                if there.insert(number) {
                    prop_assert!(lookup.has_room(number));
                    lookup.put(hash(number), number);
                } else {
                    there.remove(&number);
                    lookup.remove(hash(number), number, hash);
                }
                for number in 0..40 {
                    let found = lookup.find(hash(number), |it| it == number);
                    prop_assert_eq!(found.is_some(), there.contains(&number));
                }
                let mut numbers: Vec<u32> = lookup.numbers().collect();
                numbers.sort_unstable();
                prop_assert!(numbers.iter().eq(&there) && lookup.len() == there.len());
            }
        }
    }
}
