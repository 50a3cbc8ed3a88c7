//! Sets of players, identity links as questions read them, and what a question keeps of each player.

use std::ops::RangeInclusive;

use hashbrown::HashMap;
use model::identity::Links;
use rustc_hash::FxBuildHasher;

/// A set of players: their hashes, ascending. Linked anonymous ids are represented by their players.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlayerSet(Box<[u64]>);

impl PlayerSet {
    /// Returns true if the player is in the set.
    pub fn contains(&self, player: u64) -> bool {
        self.0.binary_search(&player).is_ok()
    }

    /// Returns the hashes, ascending.
    pub fn hashes(&self) -> &[u64] {
        &self.0
    }

    /// Returns the number of players.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no players.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<u64> for PlayerSet {
    fn from_iter<T: IntoIterator<Item = u64>>(hashes: T) -> PlayerSet {
        let mut hashes: Vec<u64> = hashes.into_iter().collect();
        hashes.sort_unstable();
        hashes.dedup();
        PlayerSet(hashes.into_boxed_slice())
    }
}

/// The identity links of a game at one moment.
#[derive(Default)]
pub struct PlayerLinks {
    /// The player of each id that has links: of anonymous ids, and of the players themselves.
    players: HashMap<u64, u64, FxBuildHasher>,
    /// A bit for the first bits of each hash in the map. Most players have no links, and a look here tells so.
    bitmap: Vec<u64>,
    shift: u32,
    /// Ids whose events are in no answer.
    hidden: PlayerSet,
}

impl PlayerLinks {
    /// Copies the links of a game.
    pub fn new(links: &Links) -> PlayerLinks {
        PlayerLinks::of(&links.pairs())
    }

    pub(super) fn of(pairs: &[(u64, u64)]) -> PlayerLinks {
        if pairs.is_empty() {
            return PlayerLinks::default();
        }
        let mut players: HashMap<u64, u64, FxBuildHasher> = HashMap::default();
        for (anonymous, player) in pairs {
            players.insert(*anonymous, *player);
            players.insert(*player, *player);
        }
        let bits = (players.len() * 8).next_power_of_two().max(64);
        let (mut bitmap, shift) = (vec![0u64; bits / 64], 64 - bits.trailing_zeros());
        for hash in players.keys() {
            let bit = hash >> shift;
            bitmap[(bit / 64) as usize] |= 1 << (bit % 64);
        }
        PlayerLinks { players, bitmap, shift, hidden: PlayerSet::default() }
    }

    /// Hides the events of these ids: of players whose erasure is in progress.
    pub fn hiding(self, ids: impl IntoIterator<Item = u64>) -> PlayerLinks {
        PlayerLinks { hidden: ids.into_iter().collect(), ..self }
    }

    /// Returns the ids whose events are in no answer.
    pub(super) fn hidden(&self) -> &PlayerSet {
        &self.hidden
    }

    /// Returns the player of an id that has links.
    #[inline]
    pub(super) fn linked(&self, hash: u64) -> Option<u64> {
        if self.bitmap.is_empty() {
            return None;
        }
        let bit = hash >> self.shift;
        if self.bitmap[(bit / 64) as usize] >> (bit % 64) & 1 == 0 {
            return None;
        }
        self.players.get(&hash).copied()
    }

    /// Returns the player of an id, which is itself unless the id is anonymous and linked.
    #[inline]
    pub fn player(&self, hash: u64) -> u64 {
        self.linked(hash).unwrap_or(hash)
    }

    /// Returns true if no id is linked.
    pub fn is_empty(&self) -> bool {
        self.players.is_empty()
    }

    /// Returns the player and all ids that are linked to it.
    pub fn ids_of(&self, hash: u64) -> Vec<u64> {
        let player = self.player(hash);
        let linked = self.players.iter().filter(|(id, of)| **of == player && **id != player);
        let mut ids: Vec<u64> = linked.map(|(id, _)| *id).collect();
        ids.push(player);
        ids.sort_unstable();
        ids
    }
}

/// What a question keeps of each player of a range of hashes.
///
/// Places are in the order of hashes. Events of one day come in that order as well, so the table is read from its
/// start to its end, which costs a fraction of random access. The bits that all hashes of the range share are taken
/// off first: otherwise all players would have the same place.
pub(super) struct PlayerTable<S> {
    start: u64,
    span: u64,
    /// Places per hash of the range, as a fraction of 2^64.
    factor: u128,
    slots: Vec<(u64, S)>,
    used: usize,
}

const SLOTS_MIN: usize = 256;

impl<S: Copy + Default> PlayerTable<S> {
    pub(super) fn new(range: &RangeInclusive<u64>) -> PlayerTable<S> {
        let span = range.end() - range.start();
        let mut table = PlayerTable { start: *range.start(), span, factor: 0, slots: Vec::new(), used: 0 };
        table.set_slots(SLOTS_MIN);
        table
    }

    fn set_slots(&mut self, slots: usize) {
        self.factor = ((slots as u128) << 64) / (u128::from(self.span) + 1);
        self.slots = vec![(0, S::default()); slots];
        memory::advise_huge_pages(&self.slots);
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash.wrapping_sub(self.start)) * self.factor) >> 64) as usize & (self.slots.len() - 1)
    }

    /// Fetches the place of a player whose state will be needed soon.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        memory::prefetch(&self.slots[self.home(hash)]);
    }

    /// Returns the state of a player, whose hash is not 0.
    #[inline]
    pub(super) fn get_or_insert(&mut self, hash: u64) -> &mut S {
        let mask = self.slots.len() - 1;
        let mut at = self.home(hash);
        loop {
            let found = self.slots[at].0;
            if found == hash {
                break;
            }
            if found == 0 {
                if self.used * 5 >= self.slots.len() * 3 {
                    self.grow();
                    return self.get_or_insert(hash);
                }
                self.slots[at].0 = hash;
                self.used += 1;
                break;
            }
            at = (at + 1) & mask;
        }
        &mut self.slots[at].1
    }

    #[cold]
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.set_slots(old.len() * 2);
        let mask = self.slots.len() - 1;
        for slot in old.into_iter().filter(|(hash, _)| *hash != 0) {
            let mut at = self.home(slot.0);
            while self.slots[at].0 != 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = slot;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &S)> {
        self.slots.iter().filter(|(hash, _)| *hash != 0).map(|(hash, state)| (*hash, state))
    }

    /// Returns the memory in use, and that needed while the table grows.
    pub(super) fn bytes(&self) -> usize {
        let own = self.slots.capacity() * size_of::<(u64, S)>();
        if self.used * 2 >= self.slots.len() { 3 * own } else { own }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn table_counts_like_a_map(
            start in any::<u64>(),
            offsets in prop::collection::vec(prop_oneof![0u64..50, any::<u64>()], 0..2_000),
        ) {
            let range = start..=start.saturating_add(u64::MAX / 3);
            let (mut table, mut map) = (PlayerTable::<u32>::new(&range), BTreeMap::new());
            for offset in offsets {
                let hash = (start + offset % (range.end() - start + 1)).max(1);
                *table.get_or_insert(hash) += 1;
                *map.entry(hash).or_insert(0u32) += 1;
            }
            let found: BTreeMap<u64, u32> = table.iter().map(|(hash, count)| (hash, *count)).collect();
            prop_assert_eq!(found, map);
        }

        #[test]
        fn links_resolve_ids_and_nothing_else(pairs in prop::collection::btree_map(0u64..50, 50u64..60, 0..20)) {
            let spread = |id: u64| id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let spread_pairs: Vec<(u64, u64)> = pairs.iter().map(|(a, p)| (spread(*a), spread(*p))).collect();
            let links = PlayerLinks::of(&spread_pairs);
            for id in 0..60 {
                let expected = pairs.get(&id).copied().unwrap_or(id);
                prop_assert_eq!(links.player(spread(id)), spread(expected));
                let involved = pairs.contains_key(&id) || pairs.values().any(|player| *player == id);
                prop_assert_eq!(links.linked(spread(id)).is_some(), involved);
                let mut ids: Vec<u64> = (0..60).filter(|other| pairs.get(other) == Some(&expected)).chain([expected]).map(spread).collect();
                ids.sort_unstable();
                prop_assert_eq!(links.ids_of(spread(id)), ids);
            }
        }
    }
}
