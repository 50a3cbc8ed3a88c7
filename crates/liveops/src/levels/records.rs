//! Levels as records of the store.
//!
//! ```text
//! 1 | id          JSON of a Stored
//! 2 | id          JSON of a StoredCounters; none: all zero
//! 3 | id | player offset of the vote u64 | day and rating u32, little-endian
//! 4 | id | player JSON of a StoredFlag
//! ```
//! What a level's votes come to is not stored: it is counted again at the start. Data and pictures are blobs under the
//! SHA-256 of the text, compressed with zstd.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Levels;
use super::content::Content;
use super::flags::{Flag, Flags};
use super::level::{Counters, Level, LevelId, State};
use super::votes::{Given, Votes};
use crate::subject::{Changes, Damaged, Subject};

const LEVEL: u8 = 1;
const COUNTERS: u8 = 2;
const VOTE: u8 = 3;
const FLAG: u8 = 4;

#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    sequence: u64,
    created_ms: i64,
    #[serde(default)]
    published_ms: Option<i64>,
    state: State,
    name: Box<str>,
    #[serde(borrow)]
    maker: Cow<'a, str>,
    maker_name: Box<str>,
    fields: BTreeMap<Box<str>, Box<str>>,
    source: Box<str>,
    data: Content,
    #[serde(default)]
    thumb: Option<Content>,
}

#[derive(Serialize, Deserialize)]
struct StoredCounters {
    counters: Counters,
    open_flags: u64,
    kept_at: u64,
}

#[derive(Serialize, Deserialize)]
struct StoredFlag {
    at_ms: i64,
    offset: u64,
    reason: Box<str>,
}

/// What the next checkpoint has to write.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    levels: BTreeSet<LevelId>,
    counters: BTreeSet<LevelId>,
    /// Votes and flags by their keys.
    said: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Unwritten {
    /// The level was made, changed or erased.
    pub(super) fn level(&mut self, id: LevelId) {
        self.levels.insert(id);
    }

    /// Its counters or its open flags changed.
    pub(super) fn counters(&mut self, id: LevelId) {
        self.counters.insert(id);
    }

    pub(super) fn vote(&mut self, id: LevelId, player: &str, offset: u64, given: Given) {
        let value = [offset.to_le_bytes().as_slice(), &given.to_bytes()].concat();
        self.said.insert(key(VOTE, id, player), Some(value));
    }

    pub(super) fn no_vote(&mut self, id: LevelId, player: &str) {
        self.said.insert(key(VOTE, id, player), None);
    }

    pub(super) fn flag(&mut self, id: LevelId, player: &str, flag: &Flag) {
        let stored = StoredFlag { at_ms: flag.at_ms, offset: flag.offset, reason: flag.reason.clone() };
        self.said.insert(key(FLAG, id, player), Some(json(&stored)));
    }

    pub(super) fn no_flag(&mut self, id: LevelId, player: &str) {
        self.said.insert(key(FLAG, id, player), None);
    }
}

/// Votes and flags that wait for the last record, because they are needed in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Unsorted {
    votes: Vec<(u32, u64, u32, Given)>,
    flags: Vec<(u32, Flag)>,
}

fn key(kind: u8, id: LevelId, player: &str) -> Vec<u8> {
    [&[kind], id.as_bytes(), player.as_bytes()].concat()
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("records have text keys")
}

impl Subject for Levels {
    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), Damaged> {
        let damaged = || Damaged(format!("{} is no key of a level", key.escape_ascii()));
        let (kind, rest) = key.split_first().ok_or_else(damaged)?;
        let (id, player) = rest.split_at_checked(LevelId::BYTES).ok_or_else(damaged)?;
        if *kind == LEVEL {
            return self.restore_level(LevelId::read(id).ok_or_else(damaged)?, value);
        }
        let slot = self.shelf.slot(id).ok_or_else(damaged)?;
        let player = std::str::from_utf8(player).map_err(|_| damaged())?;
        match *kind {
            COUNTERS => self.restore_counters(slot, value),
            VOTE => self.restore_vote(slot, player, value),
            FLAG => self.restore_flag(slot, player, value),
            _ => Err(damaged()),
        }
    }

    fn restored(&mut self) {
        let Unsorted { mut votes, mut flags } = std::mem::take(&mut self.unsorted);
        votes.sort_unstable_by_key(|(slot, offset, ..)| (*slot, *offset));
        for votes in votes.chunk_by(|one, other| one.0 == other.0) {
            let level = self.shelf.get_mut(votes[0].0);
            level.votes.restore(votes.iter().map(|(_, _, person, given)| (*person, *given)));
        }
        flags.sort_by_key(|(slot, flag)| (*slot, flag.offset));
        for flags in flags.chunk_by(|one, other| one.0 == other.0) {
            let level = self.shelf.get_mut(flags[0].0);
            level.flags.restore(flags.iter().map(|(_, flag)| flag.clone()).collect());
        }
        self.index_all();
    }

    fn changes(&mut self, changes: &mut Changes<'_>) {
        let unwritten = std::mem::take(&mut self.unwritten);
        for id in unwritten.levels {
            match self.shelf.slot(id.as_bytes()) {
                Some(slot) => changes.put(&key(LEVEL, id, ""), self.stored(self.shelf.get(slot))),
                None => {
                    changes.remove(&key(LEVEL, id, ""));
                    changes.remove(&key(COUNTERS, id, ""));
                }
            }
        }
        for id in unwritten.counters {
            let Some(slot) = self.shelf.slot(id.as_bytes()) else { continue };
            let Level { counters, flags, .. } = self.shelf.get(slot);
            let stored =
                StoredCounters { counters: *counters, open_flags: flags.open, kept_at: flags.kept_at };
            changes.put(&key(COUNTERS, id, ""), json(&stored));
        }
        for (key, value) in unwritten.said {
            match value {
                Some(value) => changes.put(&key, value),
                None => changes.remove(&key),
            }
        }
    }
}

impl Levels {
    fn stored(&self, level: &Level) -> Vec<u8> {
        json(&Stored {
            sequence: level.sequence,
            created_ms: level.created_ms,
            published_ms: level.published_ms,
            state: level.state,
            name: level.name.clone(),
            maker: Cow::Borrowed(&self.people.get(level.maker).id),
            maker_name: level.maker_name.clone(),
            fields: level.fields.clone(),
            source: level.source.clone(),
            data: level.data,
            thumb: level.thumb,
        })
    }

    fn restore_level(&mut self, id: LevelId, value: &[u8]) -> Result<(), Damaged> {
        let stored: Stored<'_> = serde_json::from_slice(value)?;
        let maker = self.people.enter(&stored.maker);
        self.take_in(Level {
            id,
            sequence: stored.sequence,
            created_ms: stored.created_ms,
            published_ms: stored.published_ms,
            state: stored.state,
            name: stored.name,
            maker,
            maker_name: stored.maker_name,
            fields: stored.fields,
            source: stored.source,
            data: stored.data,
            thumb: stored.thumb,
            votes: Votes::default(),
            counters: Counters::default(),
            flags: Flags::default(),
        });
        Ok(())
    }

    fn restore_counters(&mut self, slot: u32, value: &[u8]) -> Result<(), Damaged> {
        let stored: StoredCounters = serde_json::from_slice(value)?;
        let level = self.shelf.get_mut(slot);
        level.counters = stored.counters;
        level.flags.open = stored.open_flags;
        level.flags.kept_at = stored.kept_at;
        Ok(())
    }

    fn restore_vote(&mut self, slot: u32, player: &str, value: &[u8]) -> Result<(), Damaged> {
        let damaged = || Damaged("a vote is cut off".to_owned());
        let (offset, given) = value.split_first_chunk::<8>().ok_or_else(damaged)?;
        let given = given.try_into().ok().and_then(Given::from_bytes).ok_or_else(damaged)?;
        let person = self.people.enter(player);
        self.people.get_mut(person).votes += 1;
        self.votes += 1;
        self.unsorted.votes.push((slot, u64::from_le_bytes(*offset), person, given));
        Ok(())
    }

    fn restore_flag(&mut self, slot: u32, player: &str, value: &[u8]) -> Result<(), Damaged> {
        let StoredFlag { at_ms, offset, reason } = serde_json::from_slice(value)?;
        let person = self.people.enter(player);
        self.people.get_mut(person).flags += 1;
        self.flags += 1;
        self.unsorted.flags.push((slot, Flag { person, at_ms, offset, reason }));
        Ok(())
    }
}
