//! What is kept of the feed in the store.
//!
//! ```text
//! a | key                         an achievement of the catalogue, JSON
//! f | player | 0 | other          a follow, empty
//! g | player                      what a player was granted: JSON, a list of [key, milliseconds]
//! i | player | 0 | first u64      up to 32 items: (number u64, milliseconds u64, length u16, deed)*
//! n                               next number u64, then number and milliseconds of the newest item that had to go
//! p | player                      a player's name
//! ```
//! Numbers in keys are big-endian, in values little-endian. A player's id has no byte 0.

use super::Feed;
use super::achievements::Achievement;
use super::actors::Actor;
use super::stamp::Stamp;
use crate::subject::{Changes, Damaged};

pub(super) fn state_key() -> Vec<u8> {
    b"n".to_vec()
}

pub(super) fn achievement_key(key: &str) -> Vec<u8> {
    [b"a", key.as_bytes()].concat()
}

pub(super) fn follow_key(player: &str, other: &str) -> Vec<u8> {
    [b"f", player.as_bytes(), &[0], other.as_bytes()].concat()
}

pub(super) fn grants_key(player: &str) -> Vec<u8> {
    [b"g", player.as_bytes()].concat()
}

pub(super) fn items_key(player: &str, first: u64) -> Vec<u8> {
    [b"i", player.as_bytes(), &[0], &first.to_be_bytes()].concat()
}

pub(super) fn name_key(player: &str) -> Vec<u8> {
    [b"p", player.as_bytes()].concat()
}

/// A key, read.
enum Key<'a> {
    Achievement(&'a str),
    Follow(&'a str, &'a str),
    Grants(&'a str),
    Items(&'a str, u64),
    State,
    Name(&'a str),
}

impl<'a> Key<'a> {
    fn read(key: &'a [u8]) -> Option<Key<'a>> {
        let (kind, rest) = key.split_first()?;
        if *kind == b'i' {
            let (player, first) = rest.split_last_chunk()?;
            let player = std::str::from_utf8(player.strip_suffix(&[0])?).ok()?;
            return Some(Key::Items(player, u64::from_be_bytes(*first)));
        }
        let rest = std::str::from_utf8(rest).ok()?;
        match kind {
            b'a' => Some(Key::Achievement(rest)),
            b'f' => rest.split_once('\0').map(|(player, other)| Key::Follow(player, other)),
            b'g' => Some(Key::Grants(rest)),
            b'n' => Some(Key::State),
            b'p' => Some(Key::Name(rest)),
            _ => None,
        }
    }
}

impl Feed {
    /// Puts each record that may have changed as it is now, in the order of the keys.
    pub(super) fn put_changes(&mut self, changes: &mut Changes<'_>) {
        let mut keys: Vec<Vec<u8>> = self.dirty.drain().collect();
        keys.sort_unstable();
        for key in keys {
            let read = Key::read(&key).expect("the keys are made here");
            match self.value(read) {
                Some(value) => changes.put(&key, value),
                None => changes.remove(&key),
            }
        }
    }

    fn value(&mut self, key: Key<'_>) -> Option<Vec<u8>> {
        match key {
            Key::Achievement(key) => self.achievements.get(key).map(|it| json(&it)),
            Key::Follow(player, other) => self.is_following(player, other).then(Vec::new),
            Key::Grants(player) => {
                let actor = self.actors.by_id(player).filter(|actor| !actor.grants.is_empty());
                actor.map(|actor| {
                    json(&actor.grants.iter().map(|(key, at)| (&**key, *at)).collect::<Vec<_>>())
                })
            }
            Key::Items(player, first) => self.items_value(player, first),
            Key::State => Some(self.state_value()),
            Key::Name(player) => {
                let actor = self.actors.by_id(player).filter(|actor| !actor.name.is_empty());
                actor.map(|actor| actor.name.as_bytes().to_vec())
            }
        }
    }

    fn items_value(&mut self, player: &str, first: u64) -> Option<Vec<u8>> {
        let actor = self.actors.find(player)?;
        let items = self.actors.get(actor).chunk_items(first);
        if items.is_empty() {
            self.actors.get_mut(actor).forget_chunk(first);
            return None;
        }
        let mut value = Vec::new();
        for item in items {
            let deed = self.deeds.bytes(item.tail());
            let length = u16::try_from(deed.len()).expect("the parts of a deed are short");
            value.extend_from_slice(&item.number().to_le_bytes());
            value.extend_from_slice(&item.at_ms().to_le_bytes());
            value.extend_from_slice(&length.to_le_bytes());
            value.extend_from_slice(deed);
        }
        Some(value)
    }

    fn state_value(&self) -> Vec<u8> {
        let numbers = [self.next, self.floor.number(), self.floor.at_ms() as u64];
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    /// Takes one record back.
    pub(super) fn take_record(&mut self, key: &[u8], value: &[u8]) -> Result<(), Damaged> {
        let damaged = || Damaged("a record of the feed".to_owned());
        match Key::read(key).ok_or_else(damaged)? {
            Key::Achievement(key) => {
                let achievement: Achievement = serde_json::from_slice(value)?;
                self.achievements.put(key, achievement);
            }
            Key::Follow(player, other) => self.restore_follow(player, other),
            Key::Grants(player) => {
                let grants: Vec<(String, i64)> = serde_json::from_slice(value)?;
                let actor = self.actors.find_or_add(player);
                let grants =
                    grants.into_iter().map(|(key, at)| (self.achievements.grant(&key), at)).collect();
                self.actors.get_mut(actor).grants = grants;
            }
            Key::Items(player, first) => self.take_items(player, first, value).ok_or_else(damaged)?,
            Key::State => self.take_state(value).ok_or_else(damaged)?,
            Key::Name(player) => {
                let actor = self.actors.find_or_add(player);
                self.actors.get_mut(actor).name = std::str::from_utf8(value).map_err(|_| damaged())?.into();
            }
        }
        Ok(())
    }

    fn take_items(&mut self, player: &str, first: u64, mut value: &[u8]) -> Option<()> {
        let actor = self.actors.find_or_add(player);
        self.actors.get_mut(actor).chunks.push(first);
        self.actors.get_mut(actor).chunk_len = 0;
        while !value.is_empty() {
            let (number, rest) = value.split_first_chunk()?;
            let (at_ms, rest) = rest.split_first_chunk()?;
            let (length, rest) = rest.split_first_chunk()?;
            let (deed, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
            let stamp = Stamp::new(i64::from_le_bytes(*at_ms), u64::from_le_bytes(*number), 0);
            let stamp = stamp.with(self.deeds.add(deed, stamp.with(actor)));
            let it: &mut Actor = self.actors.get_mut(actor);
            it.items.push(stamp);
            it.chunk_len = it.chunk_len.saturating_add(1);
            value = rest;
        }
        Some(())
    }

    fn take_state(&mut self, value: &[u8]) -> Option<()> {
        let (next, rest) = value.split_first_chunk()?;
        let (number, at_ms) = rest.split_first_chunk()?;
        self.next = u64::from_le_bytes(*next);
        self.floor = Stamp::new(i64::from_le_bytes(at_ms.try_into().ok()?), u64::from_le_bytes(*number), 0);
        Some(())
    }

    /// All records are there: puts in order what came in the order of the keys.
    pub(super) fn take_order(&mut self) {
        let mut oldest = Vec::new();
        for actor in self.actors.numbers() {
            let it = self.actors.get_mut(actor);
            it.items.sort_unstable();
            it.items.shrink_to_fit();
            self.items += it.items.len();
            oldest.extend(it.items.first().map(|first| first.with(actor)));
            self.actors.items_changed(actor);
        }
        self.oldest = oldest.into_iter().collect();
    }
}

fn json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("texts and numbers are JSON")
}
