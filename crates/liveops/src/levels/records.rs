//! The records of levels.
//!
//! ```text
//! 1 | id          JSON of a StoredLevel
//! 2 | id          JSON of StoredCounters; without it, all are zero
//! 3 | id | player offset of the vote u64 | day and rating u32, little-endian
//! 4 | id | player JSON of a StoredFlag
//! ```
//! Totals of votes are not stored but counted at start. Data and thumbnails are blobs under the SHA-256 of the text,
//! compressed with zstd.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Levels;
use super::content::ContentRef;
use super::flags::{Flag, LevelFlags};
use super::level::{Level, LevelId, LevelState, PlayCounters};
use super::votes::{DatedRating, Votes};
use crate::subject::{RecordError, RecordWriter, Subject};

const LEVEL: u8 = 1;
const COUNTERS: u8 = 2;
const VOTE: u8 = 3;
const FLAG: u8 = 4;

#[derive(Serialize, Deserialize)]
struct StoredLevel<'a> {
    sequence: u64,
    created_ms: i64,
    #[serde(default)]
    published_ms: Option<i64>,
    state: LevelState,
    name: Box<str>,
    #[serde(borrow)]
    maker: Cow<'a, str>,
    maker_name: Box<str>,
    fields: BTreeMap<Box<str>, Box<str>>,
    source: Box<str>,
    data: ContentRef,
    #[serde(default)]
    thumb: Option<ContentRef>,
}

#[derive(Serialize, Deserialize)]
struct StoredCounters {
    counters: PlayCounters,
    open_flags: u64,
    kept_at: u64,
}

#[derive(Serialize, Deserialize)]
struct StoredFlag {
    at_ms: i64,
    offset: u64,
    reason: Box<str>,
}

/// The changes that the next checkpoint writes.
#[derive(Debug, Default)]
pub(super) struct UnwrittenLevels {
    levels: BTreeSet<LevelId>,
    counters: BTreeSet<LevelId>,
    /// Votes and flags by their keys.
    votes_and_flags: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl UnwrittenLevels {
    /// Marks a level as created, changed or erased.
    pub(super) fn level(&mut self, id: LevelId) {
        self.levels.insert(id);
    }

    /// Marks a level's counters or open flags as changed.
    pub(super) fn counters(&mut self, id: LevelId) {
        self.counters.insert(id);
    }

    pub(super) fn vote(&mut self, id: LevelId, player: &str, offset: u64, dated: DatedRating) {
        let value = [offset.to_le_bytes().as_slice(), &dated.to_bytes()].concat();
        self.votes_and_flags.insert(key(VOTE, id, player), Some(value));
    }

    pub(super) fn no_vote(&mut self, id: LevelId, player: &str) {
        self.votes_and_flags.insert(key(VOTE, id, player), None);
    }

    pub(super) fn flag(&mut self, id: LevelId, player: &str, flag: &Flag) {
        let stored = StoredFlag { at_ms: flag.at_ms, offset: flag.offset, reason: flag.reason.clone() };
        self.votes_and_flags.insert(key(FLAG, id, player), Some(json(&stored)));
    }

    pub(super) fn no_flag(&mut self, id: LevelId, player: &str) {
        self.votes_and_flags.insert(key(FLAG, id, player), None);
    }
}

/// Votes and flags while records are restored: they must be applied in log order.
#[derive(Debug, Default)]
pub(super) struct RestoreBuffer {
    votes: Vec<(u32, u64, u32, DatedRating)>,
    flags: Vec<(u32, Flag)>,
}

fn key(kind: u8, id: LevelId, player: &str) -> Vec<u8> {
    [&[kind], id.as_bytes(), player.as_bytes()].concat()
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("records have text keys")
}

impl Subject for Levels {
    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecordError> {
        let damaged = || RecordError(format!("unknown record key {} of levels", key.escape_ascii()));
        let (kind, rest) = key.split_first().ok_or_else(damaged)?;
        let (id, player) = rest.split_at_checked(LevelId::BYTES).ok_or_else(damaged)?;
        if *kind == LEVEL {
            return self.restore_level(LevelId::parse(id).ok_or_else(damaged)?, value);
        }
        let slot = self.arena.slot(id).ok_or_else(damaged)?;
        let player = std::str::from_utf8(player).map_err(|_| damaged())?;
        match *kind {
            COUNTERS => self.restore_counters(slot, value),
            VOTE => self.restore_vote(slot, player, value),
            FLAG => self.restore_flag(slot, player, value),
            _ => Err(damaged()),
        }
    }

    fn finish_restore(&mut self) {
        let RestoreBuffer { mut votes, mut flags } = std::mem::take(&mut self.restore_buffer);
        votes.sort_unstable_by_key(|(slot, offset, ..)| (*slot, *offset));
        for votes in votes.chunk_by(|one, other| one.0 == other.0) {
            let level = self.arena.get_mut(votes[0].0);
            level.votes.restore(votes.iter().map(|(_, _, contributor, dated)| (*contributor, *dated)));
        }
        flags.sort_by_key(|(slot, flag)| (*slot, flag.offset));
        for flags in flags.chunk_by(|one, other| one.0 == other.0) {
            let level = self.arena.get_mut(flags[0].0);
            level.flags.restore(flags.iter().map(|(_, flag)| flag.clone()).collect());
        }
        self.index_all();
    }

    fn write_changes(&mut self, writer: &mut RecordWriter<'_>) {
        let unwritten = std::mem::take(&mut self.unwritten);
        for id in unwritten.levels {
            match self.arena.slot(id.as_bytes()) {
                Some(slot) => writer.put(&key(LEVEL, id, ""), self.stored(self.arena.get(slot))),
                None => {
                    writer.remove(&key(LEVEL, id, ""));
                    writer.remove(&key(COUNTERS, id, ""));
                }
            }
        }
        for id in unwritten.counters {
            let Some(slot) = self.arena.slot(id.as_bytes()) else { continue };
            let Level { counters, flags, .. } = self.arena.get(slot);
            let stored =
                StoredCounters { counters: *counters, open_flags: flags.open, kept_at: flags.kept_at };
            writer.put(&key(COUNTERS, id, ""), json(&stored));
        }
        for (key, value) in unwritten.votes_and_flags {
            match value {
                Some(value) => writer.put(&key, value),
                None => writer.remove(&key),
            }
        }
    }
}

impl Levels {
    fn stored(&self, level: &Level) -> Vec<u8> {
        json(&StoredLevel {
            sequence: level.sequence,
            created_ms: level.created_ms,
            published_ms: level.published_ms,
            state: level.state,
            name: level.name.clone(),
            maker: Cow::Borrowed(&self.contributors.get(level.maker).id),
            maker_name: level.maker_name.clone(),
            fields: level.fields.clone(),
            source: level.source.clone(),
            data: level.data,
            thumb: level.thumb,
        })
    }

    fn restore_level(&mut self, id: LevelId, value: &[u8]) -> Result<(), RecordError> {
        let stored: StoredLevel<'_> = serde_json::from_slice(value)?;
        let maker = self.contributors.find_or_add(&stored.maker);
        self.insert_level(Level {
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
            counters: PlayCounters::default(),
            flags: LevelFlags::default(),
        });
        Ok(())
    }

    fn restore_counters(&mut self, slot: u32, value: &[u8]) -> Result<(), RecordError> {
        let stored: StoredCounters = serde_json::from_slice(value)?;
        let level = self.arena.get_mut(slot);
        level.counters = stored.counters;
        level.flags.open = stored.open_flags;
        level.flags.kept_at = stored.kept_at;
        Ok(())
    }

    fn restore_vote(&mut self, slot: u32, player: &str, value: &[u8]) -> Result<(), RecordError> {
        let damaged = || RecordError("a vote is truncated".to_owned());
        let (offset, dated) = value.split_first_chunk::<8>().ok_or_else(damaged)?;
        let dated = dated.try_into().ok().and_then(DatedRating::from_bytes).ok_or_else(damaged)?;
        let contributor = self.contributors.find_or_add(player);
        self.contributors.get_mut(contributor).votes += 1;
        self.votes += 1;
        self.restore_buffer.votes.push((slot, u64::from_le_bytes(*offset), contributor, dated));
        Ok(())
    }

    fn restore_flag(&mut self, slot: u32, player: &str, value: &[u8]) -> Result<(), RecordError> {
        let StoredFlag { at_ms, offset, reason } = serde_json::from_slice(value)?;
        let contributor = self.contributors.find_or_add(player);
        self.contributors.get_mut(contributor).flags += 1;
        self.flags += 1;
        self.restore_buffer.flags.push((slot, Flag { contributor, at_ms, offset, reason }));
        Ok(())
    }
}
