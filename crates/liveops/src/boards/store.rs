//! The records of boards. After a byte that tells the kind, keys begin with the number of the board, big-endian.
//!
//! ```text
//! board:      settings, windows, clock, JSON
//! list:       number u32          the filter of a list, JSON
//! attributes: number u32          fields and source of runs, JSON
//! held:       arrival u64         a score that waits for a moderator, JSON
//! players:    pages and changes   per player: length of id u8, length of name u8, id, name
//! runs:       pages and changes   per run: flags u8, player u32, score i64, arrival u64,
//!                                 subscore i64 if flag 1, attributes u32 if flag 4, tag u64 if flag 5;
//!                                 flags 8 alone: no run
//! ```

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Filter};
use super::board::Board;
use super::calendar::Calendar;
use super::config::Config;
use super::pages::{Pages, Prefixes, Read, Rows, take};
use super::roster::Roster;
use super::runs::{Arrival, Run, Runs, VERIFIED, WITH_SUBSCORE};
use crate::subject::{Changes, Damaged};

/// A banned player.
pub const BAN: u8 = 1;
/// When a player won a level.
pub const WON: u8 = 2;
/// A board.
pub const BOARD: u8 = 3;
const LIST: u8 = 4;
const ATTRIBUTES: u8 = 5;
const HELD: u8 = 6;
const PLAYERS: u8 = 7;
const PLAYERS_CHANGED: u8 = 8;
const RUNS: u8 = 9;
const RUNS_CHANGED: u8 = 10;

const WITH_ATTRIBUTES: u8 = 16;
const WITH_TAG: u8 = 32;
const NO_RUN: u8 = 8;

/// What of a board has to be written, and how its pages stand.
pub struct Stored {
    number: u32,
    checkpoint: u32,
    is_meta_changed: bool,
    /// Players whose id or name changed.
    pub players: Numbers,
    /// Players of whom nothing may stay.
    pub erased: Numbers,
    /// Scores that wait or wait no longer.
    pub held: Vec<u64>,
    player_pages: Pages,
    run_pages: Pages,
}

/// Numbers of what changed.
#[derive(Default)]
pub struct Numbers(Vec<u32>);

impl Numbers {
    /// This one did.
    pub fn change(&mut self, number: u32) {
        self.0.push(number);
    }
}

impl Stored {
    /// A board of which nothing is written yet.
    pub fn new(number: u32) -> Stored {
        Stored {
            number,
            checkpoint: 0,
            is_meta_changed: true,
            players: Numbers::default(),
            erased: Numbers::default(),
            held: Vec::new(),
            player_pages: Pages::default(),
            run_pages: Pages::default(),
        }
    }

    /// Settings, windows or the clock changed.
    pub fn meta(&mut self) {
        self.is_meta_changed = true;
    }

    fn key(&self, kind: u8, rest: &[u8]) -> Vec<u8> {
        [&[kind], self.number.to_be_bytes().as_slice(), rest].concat()
    }

    fn prefixes(&self, page: u8, changes: u8) -> Prefixes {
        let prefix = |kind| self.key(kind, &[]).try_into().expect("a kind and a number have 5 bytes");
        Prefixes { page: prefix(page), changes: prefix(changes) }
    }
}

#[derive(Serialize, Deserialize)]
struct Meta {
    table: String,
    config: Config,
    calendar: Calendar,
    clock: Arrival,
    checkpoint: u32,
}

impl Board {
    /// Puts what changed since the last call.
    pub fn changes(&mut self, changes: &mut Changes<'_>) {
        let (players, runs) = (std::mem::take(&mut self.stored.players.0), self.runs.take_changed());
        if !self.stored.is_meta_changed
            && players.is_empty()
            && runs.is_empty()
            && self.stored.held.is_empty()
        {
            return;
        }
        self.stored.checkpoint += 1;
        self.stored.is_meta_changed = false;
        self.write_records(changes);
        let Stored { checkpoint, .. } = self.stored;
        let prefixes = self.stored.prefixes(PLAYERS, PLAYERS_CHANGED);
        for player in std::mem::take(&mut self.stored.erased.0) {
            self.stored.player_pages.forget(player, &self.roster, checkpoint, prefixes, changes);
        }
        self.stored.player_pages.write(players, &self.roster, checkpoint, prefixes, changes);
        let prefixes = self.stored.prefixes(RUNS, RUNS_CHANGED);
        self.stored.run_pages.write(runs, &self.runs, checkpoint, prefixes, changes);
    }

    fn write_records(&mut self, changes: &mut Changes<'_>) {
        let meta = Meta {
            table: self.table.clone(),
            config: self.config.clone(),
            calendar: self.calendar.clone(),
            clock: self.clock,
            checkpoint: self.stored.checkpoint,
        };
        changes.put(&self.stored.key(BOARD, &[]), json(&meta));
        for (number, filter) in self.catalogue.take_changed_lists() {
            write(changes, self.stored.key(LIST, &number.to_be_bytes()), filter.map(|it| json(&*it)));
        }
        for (number, attributes) in self.catalogue.take_changed() {
            write(
                changes,
                self.stored.key(ATTRIBUTES, &number.to_be_bytes()),
                attributes.map(|it| json(&*it)),
            );
        }
        for id in std::mem::take(&mut self.stored.held) {
            write(changes, self.stored.key(HELD, &id.to_be_bytes()), self.held.get(&id).map(json));
        }
    }

    /// A board from its first record.
    pub fn restore(number: u32, value: &[u8]) -> Result<Board, Damaged> {
        let meta: Meta = serde_json::from_slice(value)?;
        let mut board = Board::of(number, &meta.table, meta.config, meta.calendar, meta.clock);
        board.stored.checkpoint = meta.checkpoint;
        board.stored.is_meta_changed = false;
        Ok(board)
    }

    /// Takes another of its records; `rest` is the key after the number of the board.
    pub fn restore_record(&mut self, kind: u8, rest: &[u8], value: &[u8]) -> Result<(), Damaged> {
        let number = rest.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        match kind {
            LIST => self.catalogue.restore_list(number, serde_json::from_slice::<Filter>(value)?),
            ATTRIBUTES => {
                let attributes: Attributes = serde_json::from_slice(value)?;
                self.catalogue.restore(number, attributes, &self.config.filters);
            }
            HELD => {
                let id = rest.first_chunk().ok_or_else(|| Damaged("a key is too short".to_owned()))?;
                self.held.insert(u64::from_be_bytes(*id), serde_json::from_slice(value)?);
            }
            PLAYERS => self.stored.player_pages.read_page(number, value, &mut self.roster)?,
            PLAYERS_CHANGED => self.stored.player_pages.read_changes(rest, value, &mut self.roster)?,
            RUNS => self.stored.run_pages.read_page(number, value, &mut self.runs)?,
            RUNS_CHANGED => self.stored.run_pages.read_changes(rest, value, &mut self.runs)?,
            other => return Err(Damaged(format!("boards have no record of kind {other}"))),
        }
        Ok(())
    }

    /// Called after the last record, with the players who are banned.
    pub fn restored<'a>(&mut self, banned: impl Iterator<Item = &'a String>) {
        self.stored.player_pages.restored();
        self.stored.run_pages.restored();
        let (mut roster, mut banned) = (std::mem::take(&mut self.roster), banned.peekable());
        let (players, is_anybody_banned) = (roster.len(), banned.peek().is_some());
        // Looking players up and ranking them need nothing of each other, but for bans.
        std::thread::scope(|scope| {
            scope.spawn(|| roster.enter_all());
            self.runs.restored(players);
            self.restore_attributes();
            if !is_anybody_banned {
                self.rebuild(players);
            }
        });
        self.roster = roster;
        if is_anybody_banned {
            self.hidden = banned.filter_map(|id| self.roster.find(id)).collect();
            self.rebuild(players);
        }
    }

    fn restore_attributes(&mut self) {
        for run in (0..self.runs.len()).filter(|run| self.runs.attributes(*run) != 0) {
            self.catalogue.hold_more(self.runs.attributes(run));
        }
        self.catalogue.restored();
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("text, whole numbers and finite ones are JSON")
}

fn write(changes: &mut Changes<'_>, key: Vec<u8>, value: Option<Vec<u8>>) {
    match value {
        Some(value) => changes.put(&key, value),
        None => changes.remove(&key),
    }
}

impl Rows for Roster {
    fn len(&self) -> u32 {
        Roster::len(self)
    }

    fn write(&self, player: u32, bytes: &mut Vec<u8>) {
        let known = self.get(player);
        bytes.extend_from_slice(&[known.id.len() as u8, known.name.len() as u8]);
        bytes.extend_from_slice(known.id.as_bytes());
        bytes.extend_from_slice(known.name.as_bytes());
    }
}

fn player<'a>(bytes: &mut &'a [u8]) -> Result<(&'a str, &'a str), Damaged> {
    let lengths = take(bytes, 2)?;
    let mut text = |len: u8| {
        let text = take(bytes, usize::from(len))?;
        std::str::from_utf8(text).map_err(|error| Damaged(error.to_string()))
    };
    Ok((text(lengths[0])?, text(lengths[1])?))
}

impl Read for Roster {
    fn read(&mut self, number: u32, bytes: &mut &[u8]) -> Result<(), Damaged> {
        let (id, name) = player(bytes)?;
        self.place(number, id, name);
        Ok(())
    }

    fn skip(bytes: &mut &[u8]) -> Result<(), Damaged> {
        player(bytes).map(drop)
    }
}

impl Rows for Runs {
    fn len(&self) -> u32 {
        Runs::len(self)
    }

    fn write(&self, number: u32, bytes: &mut Vec<u8>) {
        if !self.is_there(number) {
            return bytes.push(NO_RUN);
        }
        let run = self.get(number);
        let with = |is: bool, flag: u8| if is { flag } else { 0 };
        let flags = run.flags | with(run.attributes != 0, WITH_ATTRIBUTES) | with(run.tag != 0, WITH_TAG);
        bytes.push(flags);
        bytes.extend_from_slice(&self.player(number).to_le_bytes());
        bytes.extend_from_slice(&run.score.to_le_bytes());
        bytes.extend_from_slice(&run.arrival.0.to_le_bytes());
        if flags & WITH_SUBSCORE != 0 {
            bytes.extend_from_slice(&run.subscore.to_le_bytes());
        }
        if flags & WITH_ATTRIBUTES != 0 {
            bytes.extend_from_slice(&run.attributes.to_le_bytes());
        }
        if flags & WITH_TAG != 0 {
            bytes.extend_from_slice(&run.tag.to_le_bytes());
        }
    }
}

fn run(bytes: &mut &[u8]) -> Result<Option<(u32, Run)>, Damaged> {
    let flags = take(bytes, 1)?[0];
    if flags == NO_RUN {
        return Ok(None);
    }
    let head = take(bytes, 20)?;
    let mut more = |flag: u8, len: usize| {
        let mut value = [0; 8];
        if flags & flag != 0 {
            value[..len].copy_from_slice(take(bytes, len)?);
        }
        Ok::<u64, Damaged>(u64::from_le_bytes(value))
    };
    let eight = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
    let run = Run {
        score: eight(4) as i64,
        arrival: Arrival(eight(12)),
        flags: flags & (VERIFIED | WITH_SUBSCORE),
        subscore: more(WITH_SUBSCORE, 8)? as i64,
        attributes: more(WITH_ATTRIBUTES, 4)? as u32,
        tag: more(WITH_TAG, 8)?,
    };
    Ok(Some((u32::from_le_bytes([head[0], head[1], head[2], head[3]]), run)))
}

impl Read for Runs {
    fn read(&mut self, number: u32, bytes: &mut &[u8]) -> Result<(), Damaged> {
        match run(bytes)? {
            None => self.put_free(number),
            Some((player, run)) => self.put_at(number, player, &run),
        }
        Ok(())
    }

    fn skip(bytes: &mut &[u8]) -> Result<(), Damaged> {
        run(bytes).map(drop)
    }
}
