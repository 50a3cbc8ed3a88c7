//! Which anonymous ids belong to which players.
//!
//! `$identify` links an anonymous id to a player; from then on the two are one. Links are never changed and never
//! removed, so the same log always gives the same links, and what was counted before a link can be brought together
//! when it is read. Only hashes are kept.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use hashbrown::{HashMap, HashSet};
use rustc_hash::FxBuildHasher;

use crate::limits::IDENTITIES_MAX;
use crate::ports::counters::StoreError;
use crate::ports::records::{Records, Write};
use crate::reject::Reject;

/// What the keys of links begin with: no game has this number, and live-ops have no such subject.
///
/// ```text
/// key:   ffffffff f0 | game u32 | anonymous u64        big-endian
/// value: player u64 | offset of the log's entry u64    little-endian
/// ```
const PREFIX: [u8; 5] = [0xff, 0xff, 0xff, 0xff, 0xf0];

type Map<V> = HashMap<u64, V, FxBuildHasher>;

/// The links of every game. Changed by whoever applies the log, read by everyone.
#[derive(Default)]
pub struct Identities {
    games: RwLock<HashMap<u32, Arc<Links>, FxBuildHasher>>,
    /// Most installations never link anybody, and then nobody looks.
    is_used: AtomicBool,
}

/// The links of one game, between hashes of ids.
#[derive(Default)]
pub struct Links {
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    players: Map<Link>,
    /// Who anonymous ids are linked to. Never anonymous themselves, so that a link is one step.
    named: HashSet<u64, FxBuildHasher>,
    /// Since the last checkpoint.
    changed: Vec<u64>,
}

#[derive(Clone, Copy)]
struct Link {
    player: u64,
    /// The log's entry that made it.
    offset: u64,
}

/// Links that do not change while it lives. Short, because whoever applies the log may wait for it.
pub struct LinksRead<'a>(RwLockReadGuard<'a, Known>);

impl LinksRead<'_> {
    /// Who this is: the player that an anonymous id is linked to, otherwise the id itself.
    #[inline]
    pub fn player(&self, id: u64) -> u64 {
        self.0.players.get(&id).map_or(id, |link| link.player)
    }
}

impl Identities {
    /// What the store's records say.
    pub fn restore(records: &dyn Records) -> Result<Identities, StoreError> {
        let identities = Identities::default();
        let mut is_damaged = false;
        records.records(&PREFIX, &mut |key, value| match read(key, value) {
            Some((game, anonymous, link)) => identities.changing(game).write().insert(anonymous, link),
            None => is_damaged = true,
        })?;
        if is_damaged {
            return Err(StoreError("a link of an anonymous id is damaged".to_owned()));
        }
        Ok(identities)
    }

    /// The links of a game; `None`: it has none.
    #[inline]
    pub fn game(&self, game: u32) -> Option<Arc<Links>> {
        if !self.is_used.load(Ordering::Acquire) {
            return None;
        }
        self.games.read().unwrap_or_else(PoisonError::into_inner).get(&game).cloned()
    }

    /// Links an anonymous id to a player, as the log's entry at `offset` says. One that is linked to this player already
    /// stays so; one that cannot be linked changes nothing.
    pub fn link(&self, game: u32, anonymous: u64, player: u64, offset: u64) -> Result<(), Reject> {
        let links = self.changing(game);
        let mut known = links.write();
        if let Some(player) = known.decide(anonymous, player)? {
            known.insert(anonymous, Link { player, offset });
            known.changed.push(anonymous);
        }
        Ok(())
    }

    /// The links as they were before the log's entry at `offset`.
    pub fn before(&self, offset: u64) -> Identities {
        let earlier = Identities::default();
        for (game, links) in self.games.read().unwrap_or_else(PoisonError::into_inner).iter() {
            let known = links.read().0;
            let links = known.players.iter().filter(|(_, link)| link.offset < offset);
            links.for_each(|(anonymous, link)| earlier.changing(*game).write().insert(*anonymous, *link));
        }
        earlier
    }

    /// The records that changed since the last call, for the next checkpoint.
    pub fn changes(&self) -> Vec<Write> {
        let mut writes = Vec::new();
        for (game, links) in self.games.read().unwrap_or_else(PoisonError::into_inner).iter() {
            let mut known = links.write();
            for anonymous in std::mem::take(&mut known.changed) {
                writes.push(record(*game, anonymous, known.players[&anonymous]));
            }
        }
        writes
    }

    fn changing(&self, game: u32) -> Arc<Links> {
        self.is_used.store(true, Ordering::Release);
        Arc::clone(self.games.write().unwrap_or_else(PoisonError::into_inner).entry(game).or_default())
    }
}

impl Links {
    /// Who this is: the player that an anonymous id is linked to, otherwise the id itself.
    #[inline]
    pub fn player(&self, id: u64) -> u64 {
        self.read().player(id)
    }

    /// Why these two cannot be linked, if they cannot.
    pub fn check(&self, anonymous: u64, player: u64) -> Result<(), Reject> {
        self.read().0.decide(anonymous, player).map(drop)
    }

    /// For several questions.
    pub fn read(&self) -> LinksRead<'_> {
        LinksRead(self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Linked anonymous ids.
    pub fn len(&self) -> usize {
        self.read().0.players.len()
    }

    /// Nobody is linked.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Whom to link the anonymous id to; `None`: nothing changes.
    fn decide(&self, anonymous: u64, player: u64) -> Result<Option<u64>, Reject> {
        let player = self.players.get(&player).map_or(player, |link| link.player);
        if anonymous == player {
            return Ok(None);
        }
        match self.players.get(&anonymous) {
            Some(link) if link.player == player => Ok(None),
            Some(_) => Err(Reject::IdentityTaken),
            None if self.named.contains(&anonymous) => Err(Reject::IdentityTaken),
            None if self.players.len() >= IDENTITIES_MAX => Err(Reject::IdentitiesFull),
            None => Ok(Some(player)),
        }
    }

    fn insert(&mut self, anonymous: u64, link: Link) {
        self.players.insert(anonymous, link);
        self.named.insert(link.player);
    }
}

fn record(game: u32, anonymous: u64, link: Link) -> Write {
    let key = [PREFIX.as_slice(), &game.to_be_bytes(), &anonymous.to_be_bytes()].concat();
    let value = [link.player.to_le_bytes(), link.offset.to_le_bytes()].concat();
    Write { key, value: Some(value) }
}

fn read(key: &[u8], value: &[u8]) -> Option<(u32, u64, Link)> {
    let (game, anonymous) = key.strip_prefix(&PREFIX)?.split_first_chunk()?;
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

    /// Records without a disk.
    #[derive(Default)]
    struct Memory(BTreeMap<Vec<u8>, Vec<u8>>);

    impl Memory {
        fn write(&mut self, writes: Vec<Write>) {
            writes
                .into_iter()
                .for_each(|write| drop(self.0.insert(write.key, write.value.unwrap_or_default())));
        }
    }

    impl Records for Memory {
        fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            Ok(self.0.get(key).cloned())
        }

        fn records(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
            let wanted = self.0.iter().filter(|(key, _)| key.starts_with(prefix));
            wanted.for_each(|(key, value)| visit(key, value));
            Ok(())
        }
    }

    /// Each word is `anonymous>player`; a refused one ends with `!`.
    fn check(script: &str, who_is_who: &str) {
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
        let links = identities.game(7).expect("somebody was linked");
        let who = |id: char| char::from(links.player(id as u64) as u8);
        let told: Vec<String> =
            ('a'..='f').filter(|id| who(*id) != *id).map(|id| format!("{id}={}", who(id))).collect();
        assert_eq!(told.join(" "), who_is_who);
    }

    #[test]
    fn an_anonymous_id_is_linked_once() {
        check("a>d", "a=d");
        check("a>d a>d b>d", "a=d b=d");
        check("a>d a>e! a>d", "a=d");
    }

    #[test]
    fn a_link_to_a_linked_id_leads_to_its_player() {
        check("a>d b>a", "a=d b=d");
        check("a>d d>a", "a=d");
        check("a>d b>a a>b", "a=d b=d");
    }

    #[test]
    fn a_player_is_not_anonymous() {
        check("a>d d>e!", "a=d");
        check("a>d a>a", "a=d");
    }

    #[test]
    fn links_of_one_game_mean_nothing_in_another() {
        let identities = Identities::default();
        identities.link(1, 5, 6, 0).expect("it is new");
        assert!(identities.game(2).is_none());
    }

    #[test]
    fn a_game_has_so_many_links_and_no_more() {
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
        fn what_was_kept_at_any_time_and_the_log_after_it_give_the_same_links(
            links in links(), cut in 0usize..40,
        ) {
            let (whole, mut kept) = (Identities::default(), Memory::default());
            let apply = |identities: &Identities, from: usize, until: usize| {
                for (offset, (anonymous, player)) in links.iter().enumerate().take(until).skip(from) {
                    let _ = identities.link(1, *anonymous, *player, offset as u64);
                }
            };
            apply(&whole, 0, links.len());
            let cut = cut.min(links.len());
            let first = Identities::default();
            apply(&first, 0, cut);
            kept.write(first.changes());
            let restored = Identities::restore(&kept).expect("it is whole");
            let earlier = whole.before(cut as u64);
            for again in [restored, earlier] {
                apply(&again, cut, links.len());
                for id in 0..12 {
                    let who = |identities: &Identities| identities.game(1).map_or(id, |links| links.player(id));
                    prop_assert_eq!(who(&again), who(&whole));
                }
            }
        }

        #[test]
        fn who_is_who_takes_one_step(links in links()) {
            let identities = Identities::default();
            for (anonymous, player) in links {
                let _ = identities.link(1, anonymous, player, 0);
            }
            for id in 0..12 {
                let who = |id| identities.game(1).map_or(id, |links| links.player(id));
                prop_assert_eq!(who(who(id)), who(id));
            }
        }
    }
}
