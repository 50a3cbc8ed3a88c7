//! A level in memory.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::content::ContentRef;
use super::flags::LevelFlags;
use super::votes::Votes;

const ID_BYTES: usize = 12;

/// The id of a level: 12 lower-case letters and digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct LevelId([u8; ID_BYTES]);

impl LevelId {
    pub(super) const BYTES: usize = ID_BYTES;

    /// Parses an id from a path, an event or a record's key.
    pub(super) fn parse(text: &[u8]) -> Option<LevelId> {
        let bytes: [u8; ID_BYTES] = text.try_into().ok()?;
        let allowed = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        bytes.iter().all(allowed).then_some(LevelId(bytes))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("letters and digits are UTF-8")
    }
}

impl fmt::Debug for LevelId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The visibility of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LevelState {
    /// Visible to its maker only.
    Draft,
    /// Visible to everyone.
    Published,
    /// Visible to its maker only, without the data. Cannot be undone.
    Removed,
}

/// Counts of the game's `$level` events, and of flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct PlayCounters {
    pub(super) starts: u64,
    pub(super) wins: u64,
    pub(super) retries: u64,
    pub(super) quits: u64,
    pub(super) flags: u64,
}

/// A level with everything but its data.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) id: LevelId,
    /// The offset of the command that saved it: unique, and greater for a later level.
    pub(super) sequence: u64,
    pub(super) created_ms: i64,
    /// The time at which it was first published.
    pub(super) published_ms: Option<i64>,
    pub(super) state: LevelState,
    pub(super) name: Box<str>,
    pub(super) maker: u32,
    pub(super) maker_name: Box<str>,
    pub(super) fields: BTreeMap<Box<str>, Box<str>>,
    pub(super) source: Box<str>,
    pub(super) data: ContentRef,
    pub(super) thumb: Option<ContentRef>,
    pub(super) votes: Votes,
    pub(super) counters: PlayCounters,
    pub(super) flags: LevelFlags,
}

impl Level {
    pub(super) fn is_published(&self) -> bool {
        self.state == LevelState::Published
    }

    pub(super) fn is_removed(&self) -> bool {
        self.state == LevelState::Removed
    }

    /// Returns the bytes that count towards its maker's limit: 0 once the data is removed.
    pub(super) fn content_bytes(&self) -> u64 {
        if self.is_removed() {
            return 0;
        }
        u64::from(self.data.bytes) + self.thumb.map_or(0, |thumb| u64::from(thumb.bytes))
    }
}

/// The levels of a game by slot. A slot is valid until the next start.
#[derive(Debug, Default)]
pub(super) struct LevelArena {
    slots: Vec<Option<Level>>,
    free: Vec<u32>,
    by_id: hashbrown::HashMap<LevelId, u32>,
}

impl LevelArena {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns the slot of the level with this id.
    pub(super) fn slot(&self, id: &[u8]) -> Option<u32> {
        self.by_id.get(&LevelId::parse(id)?).copied()
    }

    pub(super) fn get(&self, slot: u32) -> &Level {
        self.slots[slot as usize].as_ref().expect("slots in use hold a level")
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> &mut Level {
        self.slots[slot as usize].as_mut().expect("slots in use hold a level")
    }

    /// Returns every level with its slot, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Level)> {
        self.slots.iter().enumerate().filter_map(|(slot, level)| Some((slot as u32, level.as_ref()?)))
    }

    pub(super) fn put(&mut self, level: Level) -> u32 {
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        if slot as usize == self.slots.len() {
            self.slots.push(None);
        }
        self.by_id.insert(level.id, slot);
        self.slots[slot as usize] = Some(level);
        slot
    }

    pub(super) fn take(&mut self, slot: u32) -> Level {
        let level = self.slots[slot as usize].take().expect("slots in use hold a level");
        self.by_id.remove(&level.id);
        self.free.push(slot);
        level
    }
}
