//! The records of the feed.
//!
//! ```text
//! a | key                         an achievement of the catalogue, JSON
//! f | player | 0 | other          a follow, empty
//! g | player                      the grants of a player: JSON, a list of [key, milliseconds]
//! i | player | 0 | first u64      up to 32 items: (number u64, milliseconds u64, length u16, activity key)*
//! n                               next number u64, then number and milliseconds of the newest evicted item
//! p | player                      a player's display name
//! ```
//! Numbers in keys are big-endian, in values little-endian. A player's id has no zero byte.

use super::Feed;
use super::achievements::Achievement;
use super::actors::Actor;
use super::item_position::ItemPosition;
use crate::subject::{RecordError, RecordWriter};

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

/// A parsed record key.
enum RecordKey<'a> {
    Achievement(&'a str),
    Follow(&'a str, &'a str),
    Grants(&'a str),
    Items(&'a str, u64),
    State,
    Name(&'a str),
}

impl<'a> RecordKey<'a> {
    fn read(key: &'a [u8]) -> Option<RecordKey<'a>> {
        let (kind, rest) = key.split_first()?;
        if *kind == b'i' {
            let (player, first) = rest.split_last_chunk()?;
            let player = std::str::from_utf8(player.strip_suffix(&[0])?).ok()?;
            return Some(RecordKey::Items(player, u64::from_be_bytes(*first)));
        }
        let rest = std::str::from_utf8(rest).ok()?;
        match kind {
            b'a' => Some(RecordKey::Achievement(rest)),
            b'f' => rest.split_once('\0').map(|(player, other)| RecordKey::Follow(player, other)),
            b'g' => Some(RecordKey::Grants(rest)),
            b'n' => Some(RecordKey::State),
            b'p' => Some(RecordKey::Name(rest)),
            _ => None,
        }
    }
}

impl Feed {
    /// Writes the current state of each record that may have changed, in key order.
    pub(super) fn write_records(&mut self, writer: &mut RecordWriter<'_>) {
        let mut keys: Vec<Vec<u8>> = self.dirty.drain().collect();
        keys.sort_unstable();
        for key in keys {
            let read = RecordKey::read(&key).expect("the keys were built here");
            match self.value(read) {
                Some(value) => writer.put(&key, value),
                None => writer.remove(&key),
            }
        }
    }

    fn value(&mut self, key: RecordKey<'_>) -> Option<Vec<u8>> {
        match key {
            RecordKey::Achievement(key) => self.achievements.get(key).map(|it| json(&it)),
            RecordKey::Follow(player, other) => self.is_following(player, other).then(Vec::new),
            RecordKey::Grants(player) => {
                let actor = self.actors.by_id(player).filter(|actor| !actor.grants.is_empty());
                actor.map(|actor| {
                    json(&actor.grants.iter().map(|(key, at)| (&**key, *at)).collect::<Vec<_>>())
                })
            }
            RecordKey::Items(player, first) => self.items_value(player, first),
            RecordKey::State => Some(self.state_value()),
            RecordKey::Name(player) => {
                let actor = self.actors.by_id(player).filter(|actor| !actor.name.is_empty());
                actor.map(|actor| actor.name.as_bytes().to_vec())
            }
        }
    }

    fn items_value(&mut self, player: &str, first: u64) -> Option<Vec<u8>> {
        let actor = self.actors.find(player)?;
        let items = self.actors.get(actor).chunk_items(first);
        if items.is_empty() {
            self.actors.get_mut(actor).remove_chunk(first);
            return None;
        }
        let mut value = Vec::new();
        for item in items {
            let activity = self.activities.bytes(item.tail());
            let length = u16::try_from(activity.len()).expect("the parts of a key are short");
            value.extend_from_slice(&item.number().to_le_bytes());
            value.extend_from_slice(&item.at_ms().to_le_bytes());
            value.extend_from_slice(&length.to_le_bytes());
            value.extend_from_slice(activity);
        }
        Some(value)
    }

    fn state_value(&self) -> Vec<u8> {
        let numbers = [self.next, self.floor.number(), self.floor.at_ms() as u64];
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    /// Restores one record.
    pub(super) fn restore_record(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecordError> {
        let damaged = || RecordError("unknown or damaged record of the feed".to_owned());
        match RecordKey::read(key).ok_or_else(damaged)? {
            RecordKey::Achievement(key) => {
                let achievement: Achievement = serde_json::from_slice(value)?;
                self.achievements.put(key, achievement);
            }
            RecordKey::Follow(player, other) => self.restore_follow(player, other),
            RecordKey::Grants(player) => {
                let grants: Vec<(String, i64)> = serde_json::from_slice(value)?;
                let actor = self.actors.find_or_add(player);
                let grants = grants.into_iter().map(|(key, at)| (self.achievements.grant(&key), at));
                let grants: Vec<_> = grants.collect();
                grants.iter().for_each(|(key, at)| self.recent_grants.add(*at, actor, key));
                self.actors.get_mut(actor).grants = grants;
            }
            RecordKey::Items(player, first) => {
                self.restore_items(player, first, value).ok_or_else(damaged)?
            }
            RecordKey::State => self.restore_state(value).ok_or_else(damaged)?,
            RecordKey::Name(player) => {
                let actor = self.actors.find_or_add(player);
                self.actors.get_mut(actor).name = std::str::from_utf8(value).map_err(|_| damaged())?.into();
            }
        }
        Ok(())
    }

    fn restore_items(&mut self, player: &str, first: u64, mut value: &[u8]) -> Option<()> {
        let actor = self.actors.find_or_add(player);
        self.actors.get_mut(actor).chunks.push(first);
        self.actors.get_mut(actor).chunk_len = 0;
        while !value.is_empty() {
            let (number, rest) = value.split_first_chunk()?;
            let (at_ms, rest) = rest.split_first_chunk()?;
            let (length, rest) = rest.split_first_chunk()?;
            let (activity, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
            let position = ItemPosition::new(i64::from_le_bytes(*at_ms), u64::from_le_bytes(*number), 0);
            let position = position.with_tail(self.activities.add(activity, position.with_tail(actor)));
            let it: &mut Actor = self.actors.get_mut(actor);
            it.items.push(position);
            it.chunk_len = it.chunk_len.saturating_add(1);
            value = rest;
        }
        Some(())
    }

    fn restore_state(&mut self, value: &[u8]) -> Option<()> {
        let (next, rest) = value.split_first_chunk()?;
        let (number, at_ms) = rest.split_first_chunk()?;
        self.next = u64::from_le_bytes(*next);
        self.floor =
            ItemPosition::new(i64::from_le_bytes(at_ms.try_into().ok()?), u64::from_le_bytes(*number), 0);
        Some(())
    }

    /// Sorts the items after the last record: records come in key order.
    pub(super) fn sort_items(&mut self) {
        let mut oldest = Vec::new();
        for actor in self.actors.numbers() {
            let it = self.actors.get_mut(actor);
            it.items.sort_unstable();
            it.items.shrink_to_fit();
            self.items += it.items.len();
            oldest.extend(it.items.first().map(|first| first.with_tail(actor)));
            self.actors.update_newest(actor);
        }
        self.oldest = oldest.into_iter().collect();
    }
}

fn json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("texts and numbers are JSON")
}
