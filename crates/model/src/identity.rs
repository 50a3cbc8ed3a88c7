//! Links between anonymous ids and players.
//!
//! `$identify` links an anonymous id to a player; from then on both ids count as one player. Links are never
//! changed or removed, so replaying the log always produces the same links, and data counted before a link can be
//! merged at query time. Only hashes of ids are stored.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use hashbrown::{HashMap, HashSet};
use rustc_hash::FxBuildHasher;

use crate::limits::IDENTITIES_MAX;
use crate::ports::counters::StoreError;
use crate::ports::records::{RecordWrite, Records};
use crate::reject::Reject;

/// The key prefix of link records. No game has this number and live-ops has no such subject.
///
/// ```text
/// key:   ffffffff f0 | game u32 | anonymous u64        big-endian
/// value: player u64 | offset of the log's entry u64    little-endian
/// ```
const KEY_PREFIX: [u8; 5] = [0xff, 0xff, 0xff, 0xff, 0xf0];

type Map<V> = HashMap<u64, V, FxBuildHasher>;

/// The links of all games. Written by the applier, read by every thread.
#[derive(Default)]
pub struct Identities {
    games: RwLock<HashMap<u32, Arc<Links>, FxBuildHasher>>,
    /// The records of removed games, until the next checkpoint.
    removed: RwLock<Vec<RecordWrite>>,
    /// Most installations have no links; this flag saves them the lock.
    is_used: AtomicBool,
}

/// The links of one game, between hashes of ids.
#[derive(Default)]
pub struct Links {
    table: RwLock<LinkTable>,
}

#[derive(Default)]
struct LinkTable {
    players: Map<Link>,
    /// The players that have links. They are never anonymous themselves, so a link resolves in one step.
    linked_players: HashSet<u64, FxBuildHasher>,
    /// Anonymous ids linked since the last checkpoint.
    changed: Vec<u64>,
}

#[derive(Clone, Copy)]
struct Link {
    player: u64,
    /// Offset of the log entry that created the link.
    offset: u64,
}

/// A read lock on the links of a game. Keep it short: the applier may be waiting for it.
pub struct LinksReadGuard<'a>(RwLockReadGuard<'a, LinkTable>);

impl LinksReadGuard<'_> {
    /// Returns the player that an anonymous id is linked to, otherwise the id itself.
    #[inline]
    pub(crate) fn player(&self, id: u64) -> u64 {
        self.0.players.get(&id).map_or(id, |link| link.player)
    }
}

impl Identities {
    /// Loads the links from the store's records. Fails if a record is damaged.
    pub fn restore(records: &dyn Records) -> Result<Identities, StoreError> {
        let identities = Identities::default();
        let mut is_damaged = false;
        records.records(&KEY_PREFIX, &mut |key, value| match decode_link(key, value) {
            Some((game, anonymous, link)) => identities.get_or_create(game).write().insert(anonymous, link),
            None => is_damaged = true,
        })?;
        if is_damaged {
            return Err(StoreError("a record of an identity link is damaged".to_owned()));
        }
        Ok(identities)
    }

    /// Returns the links of a game, or `None` if it has none.
    #[inline]
    pub fn game(&self, game: u32) -> Option<Arc<Links>> {
        if !self.is_used.load(Ordering::Acquire) {
            return None;
        }
        self.games.read().unwrap_or_else(PoisonError::into_inner).get(&game).cloned()
    }

    /// Links an anonymous id to a player, by the log entry at `offset`. Does nothing if the link exists; an id
    /// that cannot be linked changes nothing and returns the reason.
    pub fn link(&self, game: u32, anonymous: u64, player: u64, offset: u64) -> Result<(), Reject> {
        let links = self.get_or_create(game);
        let mut table = links.write();
        if let Some(player) = table.decide(anonymous, player)? {
            table.insert(anonymous, Link { player, offset });
            table.changed.push(anonymous);
        }
        Ok(())
    }

    /// Returns a copy of the links as they were before the log entry at `offset`.
    pub fn before(&self, offset: u64) -> Identities {
        let earlier = Identities::default();
        earlier.insert_from(self, &(0..offset));
        earlier
    }

    /// Inserts the links that the log entries at these offsets have added to `other`. For a replay that cannot read
    /// them.
    pub fn insert_from(&self, other: &Identities, offsets: &Range<u64>) {
        for (game, links) in other.games.read().unwrap_or_else(PoisonError::into_inner).iter() {
            let table = links.read().0;
            for (anonymous, link) in table.players.iter().filter(|(_, link)| offsets.contains(&link.offset)) {
                self.get_or_create(*game).write().insert(*anonymous, *link);
            }
        }
    }

    /// Removes the links of a deleted game. Its records are removed by the next checkpoint.
    pub fn remove_game(&self, game: u32) {
        let links = self.games.write().unwrap_or_else(PoisonError::into_inner).remove(&game);
        let Some(links) = links else { return };
        let table = links.read();
        let removals = table
            .0
            .players
            .keys()
            .map(|anonymous| RecordWrite { key: link_key(game, *anonymous), value: None });
        self.removed.write().unwrap_or_else(PoisonError::into_inner).extend(removals);
    }

    /// Returns the records changed since the last call, for the next checkpoint.
    pub fn changes(&self) -> Vec<RecordWrite> {
        let mut removed = self.removed.write().unwrap_or_else(PoisonError::into_inner);
        let mut writes = std::mem::take(&mut *removed);
        for (game, links) in self.games.read().unwrap_or_else(PoisonError::into_inner).iter() {
            let mut table = links.write();
            for anonymous in std::mem::take(&mut table.changed) {
                writes.push(encode_link(*game, anonymous, table.players[&anonymous]));
            }
        }
        writes
    }

    fn get_or_create(&self, game: u32) -> Arc<Links> {
        self.is_used.store(true, Ordering::Release);
        Arc::clone(self.games.write().unwrap_or_else(PoisonError::into_inner).entry(game).or_default())
    }
}

impl Links {
    /// Returns the player that an anonymous id is linked to, otherwise the id itself.
    #[inline]
    pub fn player(&self, id: u64) -> u64 {
        self.read().player(id)
    }

    /// Returns an error if these two ids cannot be linked.
    pub fn check(&self, anonymous: u64, player: u64) -> Result<(), Reject> {
        self.read().0.decide(anonymous, player).map(drop)
    }

    /// Returns a copy of all links: the anonymous id and its player.
    pub fn pairs(&self) -> Vec<(u64, u64)> {
        self.read().0.players.iter().map(|(anonymous, link)| (*anonymous, link.player)).collect()
    }

    /// Locks the links for several lookups.
    pub(crate) fn read(&self) -> LinksReadGuard<'_> {
        LinksReadGuard(self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the number of linked anonymous ids.
    pub(crate) fn len(&self) -> usize {
        self.read().0.players.len()
    }

    /// Returns true if no id is linked.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, LinkTable> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LinkTable {
    /// Returns the player to link the anonymous id to, or `None` if the link exists already.
    fn decide(&self, anonymous: u64, player: u64) -> Result<Option<u64>, Reject> {
        let player = self.players.get(&player).map_or(player, |link| link.player);
        if anonymous == player {
            return Ok(None);
        }
        match self.players.get(&anonymous) {
            Some(link) if link.player == player => Ok(None),
            Some(_) => Err(Reject::IdentityTaken),
            None if self.linked_players.contains(&anonymous) => Err(Reject::IdentityTaken),
            None if self.players.len() >= IDENTITIES_MAX => Err(Reject::IdentitiesFull),
            None => Ok(Some(player)),
        }
    }

    fn insert(&mut self, anonymous: u64, link: Link) {
        self.players.insert(anonymous, link);
        self.linked_players.insert(link.player);
    }
}

fn link_key(game: u32, anonymous: u64) -> Vec<u8> {
    [KEY_PREFIX.as_slice(), &game.to_be_bytes(), &anonymous.to_be_bytes()].concat()
}

fn encode_link(game: u32, anonymous: u64, link: Link) -> RecordWrite {
    let key = link_key(game, anonymous);
    let value = [link.player.to_le_bytes(), link.offset.to_le_bytes()].concat();
    RecordWrite { key, value: Some(value) }
}

fn decode_link(key: &[u8], value: &[u8]) -> Option<(u32, u64, Link)> {
    let (game, anonymous) = key.strip_prefix(&KEY_PREFIX)?.split_first_chunk()?;
    let (player, offset) = value.split_first_chunk()?;
    let link =
        Link { player: u64::from_le_bytes(*player), offset: u64::from_le_bytes(offset.try_into().ok()?) };
    Some((u32::from_be_bytes(*game), u64::from_be_bytes(anonymous.try_into().ok()?), link))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    /// Records in memory.
    #[derive(Default)]
    struct MemoryRecords(BTreeMap<Vec<u8>, Vec<u8>>);

    impl MemoryRecords {
        fn write(&mut self, writes: Vec<RecordWrite>) {
            for RecordWrite { key, value } in writes {
                match value {
                    Some(value) => self.0.insert(key, value),
                    None => self.0.remove(&key),
                };
            }
        }
    }

    impl Records for MemoryRecords {
        fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            Ok(self.0.get(key).cloned())
        }

        fn records(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
            let wanted = self.0.iter().filter(|(key, _)| key.starts_with(prefix));
            wanted.for_each(|(key, value)| visit(key, value));
            Ok(())
        }
    }

    /// Each word is `anonymous>player`; a trailing `!` marks a link that is rejected.
    fn check(script: &str, expected: &str) {
        let identities = Identities::default();
        let id = |text: &str| u64::from(text.as_bytes()[0]);
        for (offset, word) in script.split(' ').enumerate() {
            let (link, expected) = match word.strip_suffix('!') {
                Some(link) => (link, Err(Reject::IdentityTaken)),
                None => (word, Ok(())),
            };
            let (anonymous, player) = link.split_once('>').expect("anonymous>player");
            let links = identities.game(7);
            let checked = links.map_or(Ok(()), |links| links.check(id(anonymous), id(player)));
            assert_eq!(checked, expected, "{word}");
            assert_eq!(identities.link(7, id(anonymous), id(player), offset as u64), expected, "{word}");
        }
        let links = identities.game(7).expect("a link exists");
        let player_of = |id: char| char::from(links.player(id as u64) as u8);
        let resolved: Vec<String> = ('a'..='f')
            .filter(|id| player_of(*id) != *id)
            .map(|id| format!("{id}={}", player_of(id)))
            .collect();
        assert_eq!(resolved.join(" "), expected);
    }

    #[test]
    fn anonymous_id_is_linked_once() {
        check("a>d", "a=d");
        check("a>d a>d b>d", "a=d b=d");
        check("a>d a>e! a>d", "a=d");
    }

    #[test]
    fn link_to_a_linked_id_resolves_to_its_player() {
        check("a>d b>a", "a=d b=d");
        check("a>d d>a", "a=d");
        check("a>d b>a a>b", "a=d b=d");
    }

    #[test]
    fn player_cannot_be_linked_as_an_anonymous_id() {
        check("a>d d>e!", "a=d");
        check("a>d a>a", "a=d");
    }

    #[test]
    fn links_do_not_cross_games() {
        let identities = Identities::default();
        identities.link(1, 5, 6, 0).expect("the id is not linked");
        assert!(identities.game(2).is_none());
    }

    #[test]
    fn links_of_a_removed_game_are_gone_after_the_next_checkpoint() {
        let (identities, mut stored) = (Identities::default(), MemoryRecords::default());
        for (game, anonymous) in [(1, 5), (1, 6), (2, 5)] {
            identities.link(game, anonymous, 9, 0).expect("the id is not linked");
        }
        stored.write(identities.changes());
        identities.remove_game(1);
        assert!(identities.game(1).is_none() && identities.game(2).is_some());
        stored.write(identities.changes());
        assert_eq!(stored.0.len(), 1);
        let restored = Identities::restore(&stored).expect("the encoding is valid");
        assert!(restored.game(1).is_none() && restored.game(2).is_some());
    }

    #[test]
    fn links_per_game_are_limited() {
        let identities = Identities::default();
        for anonymous in 0..IDENTITIES_MAX as u64 {
            identities.link(1, anonymous, u64::MAX, 0).expect("there is room");
        }
        assert_eq!(identities.link(1, u64::MAX / 2, u64::MAX, 0), Err(Reject::IdentitiesFull));
        assert_eq!(identities.link(1, 5, u64::MAX, 0), Ok(()));
    }

    fn links() -> impl Strategy<Value = Vec<(u64, u64)>> {
        prop::collection::vec((0u64..12, 0u64..12), 0..40)
    }

    proptest! {
        #[test]
        fn stored_links_plus_the_rest_of_the_log_give_the_same_links(
            links in links(), cut in 0usize..40,
        ) {
            let (whole, mut stored) = (Identities::default(), MemoryRecords::default());
            let apply = |identities: &Identities, from: usize, until: usize| {
                for (offset, (anonymous, player)) in links.iter().enumerate().take(until).skip(from) {
                    let _ = identities.link(1, *anonymous, *player, offset as u64);
                }
            };
            apply(&whole, 0, links.len());
            let cut = cut.min(links.len());
            let first = Identities::default();
            apply(&first, 0, cut);
            stored.write(first.changes());
            let restored = Identities::restore(&stored).expect("the encoding is valid");
            let earlier = whole.before(cut as u64);
            for again in [restored, earlier] {
                apply(&again, cut, links.len());
                for id in 0..12 {
                    let player_of = |identities: &Identities| identities.game(1).map_or(id, |links| links.player(id));
                    prop_assert_eq!(player_of(&again), player_of(&whole));
                }
            }
        }

        #[test]
        fn links_resolve_in_one_step(links in links()) {
            let identities = Identities::default();
            for (anonymous, player) in links {
                let _ = identities.link(1, anonymous, player, 0);
            }
            for id in 0..12 {
                let player_of = |id| identities.game(1).map_or(id, |links| links.player(id));
                prop_assert_eq!(player_of(player_of(id)), player_of(id));
            }
        }
    }
}
