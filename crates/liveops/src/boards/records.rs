//! The records of boards. A key starts with a byte for the kind; then the number of the board, big-endian.
//!
//! ```text
//! board:      settings, windows, clock, JSON
//! list:       number u32          the filter of a list, JSON
//! attributes: number u32          fields and source of runs, JSON
//! quarantine: arrival u64         a score that waits for a moderator, JSON
//! players:    pages and changes   per player: length of id u8, length of name u8, id, name
//! runs:       pages and changes   per run: flags u8, player u32, score i64, arrival u64,
//!                                 subscore i64 if flag 1, attributes u32 if flag 4, tag u64 if flag 5;
//!                                 flags 8 alone: no run
//! ```

use serde::{Deserialize, Serialize};

use super::Boards;
use super::attributes::{Filter, RunAttributes};
use super::board::Board;
use super::calendar::BoardCalendar;
use super::config::BoardConfig;
use super::roster::Roster;
use super::row_pages::{KeyPrefixes, ReadRows, RowPages, WriteRows, read_bytes};
use super::runs::{Arrival, Run, Runs, VERIFIED, WITH_SUBSCORE};
use crate::subject::{RecordError, RecordWriter, Subject};

/// A banned player.
pub(super) const BAN: u8 = 1;
/// The last time a player won a level.
pub(super) const WIN: u8 = 2;
/// A board.
pub(super) const BOARD: u8 = 3;
const LIST: u8 = 4;
const ATTRIBUTES: u8 = 5;
const QUARANTINED: u8 = 6;
const PLAYERS: u8 = 7;
const PLAYERS_CHANGED: u8 = 8;
const RUNS: u8 = 9;
const RUNS_CHANGED: u8 = 10;

const WITH_ATTRIBUTES: u8 = 16;
const WITH_TAG: u8 = 32;
const NO_RUN: u8 = 8;

/// The unwritten changes of a board, and the state of its pages.
pub(super) struct BoardRecords {
    number: u32,
    checkpoint: u32,
    is_meta_changed: bool,
    /// Players whose id or name changed.
    pub players: ChangedNumbers,
    /// Players whose data must be removed from all records.
    pub erased: ChangedNumbers,
    /// Scores that were quarantined or decided.
    pub quarantine: Vec<u64>,
    player_pages: RowPages,
    run_pages: RowPages,
}

#[derive(Default)]
pub(super) struct ChangedNumbers(Vec<u32>);

impl ChangedNumbers {
    pub(super) fn push(&mut self, number: u32) {
        self.0.push(number);
    }
}

impl BoardRecords {
    /// Returns the state of a board that has no records yet.
    pub(super) fn new(number: u32) -> BoardRecords {
        BoardRecords {
            number,
            checkpoint: 0,
            is_meta_changed: true,
            players: ChangedNumbers::default(),
            erased: ChangedNumbers::default(),
            quarantine: Vec::new(),
            player_pages: RowPages::default(),
            run_pages: RowPages::default(),
        }
    }

    /// Marks the settings, windows or clock as changed.
    pub(super) fn mark_meta_changed(&mut self) {
        self.is_meta_changed = true;
    }

    fn key(&self, kind: u8, rest: &[u8]) -> Vec<u8> {
        [&[kind], self.number.to_be_bytes().as_slice(), rest].concat()
    }

    fn prefixes(&self, page: u8, changes: u8) -> KeyPrefixes {
        let prefix = |kind| self.key(kind, &[]).try_into().expect("a kind and a number have 5 bytes");
        KeyPrefixes { page: prefix(page), changes: prefix(changes) }
    }
}

#[derive(Serialize, Deserialize)]
struct BoardMeta {
    table: String,
    config: BoardConfig,
    calendar: BoardCalendar,
    clock: Arrival,
    checkpoint: u32,
}

impl Board {
    /// Writes what changed since the previous call.
    pub fn write_changes(&mut self, writer: &mut RecordWriter<'_>) {
        let (players, runs) = (std::mem::take(&mut self.stored.players.0), self.runs.drain_changed());
        if !self.stored.is_meta_changed
            && players.is_empty()
            && runs.is_empty()
            && self.stored.quarantine.is_empty()
        {
            return;
        }
        self.stored.checkpoint += 1;
        self.stored.is_meta_changed = false;
        self.write_records(writer);
        let BoardRecords { checkpoint, .. } = self.stored;
        let prefixes = self.stored.prefixes(PLAYERS, PLAYERS_CHANGED);
        for player in std::mem::take(&mut self.stored.erased.0) {
            self.stored.player_pages.erase_row(player, &self.roster, checkpoint, prefixes, writer);
        }
        self.stored.player_pages.write(players, &self.roster, checkpoint, prefixes, writer);
        let prefixes = self.stored.prefixes(RUNS, RUNS_CHANGED);
        self.stored.run_pages.write(runs, &self.runs, checkpoint, prefixes, writer);
    }

    fn write_records(&mut self, writer: &mut RecordWriter<'_>) {
        let meta = BoardMeta {
            table: self.table.clone(),
            config: self.config.clone(),
            calendar: self.calendar.clone(),
            clock: self.clock,
            checkpoint: self.stored.checkpoint,
        };
        writer.put(&self.stored.key(BOARD, &[]), json(&meta));
        for (number, filter) in self.catalogue.drain_changed_lists() {
            write(writer, self.stored.key(LIST, &number.to_be_bytes()), filter.map(|it| json(&*it)));
        }
        for (number, attributes) in self.catalogue.drain_changed() {
            write(
                writer,
                self.stored.key(ATTRIBUTES, &number.to_be_bytes()),
                attributes.map(|it| json(&*it)),
            );
        }
        for id in std::mem::take(&mut self.stored.quarantine) {
            write(
                writer,
                self.stored.key(QUARANTINED, &id.to_be_bytes()),
                self.quarantine.get(&id).map(json),
            );
        }
    }

    /// Restores a board from its first record.
    pub fn restore(number: u32, value: &[u8]) -> Result<Board, RecordError> {
        let meta: BoardMeta = serde_json::from_slice(value)?;
        let mut board = Board::with_calendar(number, &meta.table, meta.config, meta.calendar, meta.clock);
        board.stored.checkpoint = meta.checkpoint;
        board.stored.is_meta_changed = false;
        Ok(board)
    }

    /// Restores another record; `rest` is the key after the number of the board.
    pub fn restore_record(&mut self, kind: u8, rest: &[u8], value: &[u8]) -> Result<(), RecordError> {
        let number = rest.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        match kind {
            LIST => self.catalogue.restore_list(number, serde_json::from_slice::<Filter>(value)?),
            ATTRIBUTES => {
                let attributes: RunAttributes = serde_json::from_slice(value)?;
                self.catalogue.restore(number, attributes, &self.config.filters);
            }
            QUARANTINED => {
                let id = rest.first_chunk().ok_or_else(|| RecordError("a key is too short".to_owned()))?;
                self.quarantine.insert(u64::from_be_bytes(*id), serde_json::from_slice(value)?);
            }
            PLAYERS => self.stored.player_pages.read_page(number, value, &mut self.roster)?,
            PLAYERS_CHANGED => self.stored.player_pages.read_changes(rest, value, &mut self.roster)?,
            RUNS => self.stored.run_pages.read_page(number, value, &mut self.runs)?,
            RUNS_CHANGED => self.stored.run_pages.read_changes(rest, value, &mut self.runs)?,
            other => return Err(RecordError(format!("unknown record kind {other} of boards"))),
        }
        Ok(())
    }

    /// Called after the last record, with the ids of the banned players.
    pub fn finish_restore<'a>(&mut self, banned: impl Iterator<Item = &'a String>) {
        self.stored.player_pages.finish_restore();
        self.stored.run_pages.finish_restore();
        let (mut roster, mut banned) = (std::mem::take(&mut self.roster), banned.peekable());
        let (players, is_anybody_banned) = (roster.len(), banned.peek().is_some());
        // Building the lookup and the trees is independent, except for bans.
        std::thread::scope(|scope| {
            scope.spawn(|| roster.rebuild_lookup());
            self.runs.finish_restore(players);
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
            self.catalogue.add_reference(self.runs.attributes(run));
        }
        self.catalogue.finish_restore();
    }
}

impl Subject for Boards {
    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecordError> {
        let (kind, rest) = key.split_first().ok_or_else(|| RecordError("a key is empty".to_owned()))?;
        match *kind {
            BAN => {
                let player = String::from_utf8_lossy(rest).into_owned();
                self.bans.insert(player, serde_json::from_slice(value)?);
                return Ok(());
            }
            WIN => return self.wins.restore(rest, value),
            _ => {}
        }
        let (number, rest) =
            rest.split_first_chunk().ok_or_else(|| RecordError("a key is too short".to_owned()))?;
        let number = u32::from_be_bytes(*number);
        if *kind == BOARD {
            self.restoring.insert(number, Board::restore(number, value)?);
            return Ok(());
        }
        let board = self.restoring.get_mut(&number);
        board
            .ok_or_else(|| RecordError(format!("a record belongs to board {number}, which does not exist")))?
            .restore_record(*kind, rest, value)
    }

    fn finish_restore(&mut self) {
        self.last_number = self.restoring.keys().copied().max().unwrap_or(0);
        for (_, mut board) in std::mem::take(&mut self.restoring) {
            board.finish_restore(self.bans.keys());
            self.wins.watch(board.config.checks.level.as_deref());
            self.boards.insert(board.table.clone(), board);
        }
        self.wins.finish_restore();
    }

    fn write_changes(&mut self, writer: &mut RecordWriter<'_>) {
        for player in self.bans_changed.drain(..) {
            let key = [&[BAN], player.as_bytes()].concat();
            match self.bans.get(&player) {
                Some(ban) => writer.put(&key, serde_json::to_vec(ban).expect("text and a number are JSON")),
                None => writer.remove(&key),
            }
        }
        self.wins.write_changes(writer);
        self.boards.values_mut().for_each(|board| board.write_changes(writer));
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("text, whole numbers and finite ones are JSON")
}

fn write(writer: &mut RecordWriter<'_>, key: Vec<u8>, value: Option<Vec<u8>>) {
    match value {
        Some(value) => writer.put(&key, value),
        None => writer.remove(&key),
    }
}

impl WriteRows for Roster {
    fn len(&self) -> u32 {
        Roster::len(self)
    }

    fn write(&self, player: u32, bytes: &mut Vec<u8>) {
        let entry = self.get(player);
        bytes.extend_from_slice(&[entry.id.len() as u8, entry.name.len() as u8]);
        bytes.extend_from_slice(entry.id.as_bytes());
        bytes.extend_from_slice(entry.name.as_bytes());
    }
}

fn player<'a>(bytes: &mut &'a [u8]) -> Result<(&'a str, &'a str), RecordError> {
    let lengths = read_bytes(bytes, 2)?;
    let mut text = |len: u8| {
        let text = read_bytes(bytes, usize::from(len))?;
        std::str::from_utf8(text).map_err(|error| RecordError(error.to_string()))
    };
    Ok((text(lengths[0])?, text(lengths[1])?))
}

impl ReadRows for Roster {
    fn read(&mut self, number: u32, bytes: &mut &[u8]) -> Result<(), RecordError> {
        let (id, name) = player(bytes)?;
        self.put(number, id, name);
        Ok(())
    }

    fn skip(bytes: &mut &[u8]) -> Result<(), RecordError> {
        player(bytes).map(drop)
    }
}

impl WriteRows for Runs {
    fn len(&self) -> u32 {
        Runs::len(self)
    }

    fn write(&self, number: u32, bytes: &mut Vec<u8>) {
        if !self.exists(number) {
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

fn run(bytes: &mut &[u8]) -> Result<Option<(u32, Run)>, RecordError> {
    let flags = read_bytes(bytes, 1)?[0];
    if flags == NO_RUN {
        return Ok(None);
    }
    let head = read_bytes(bytes, 20)?;
    let mut more = |flag: u8, len: usize| {
        let mut value = [0; 8];
        if flags & flag != 0 {
            value[..len].copy_from_slice(read_bytes(bytes, len)?);
        }
        Ok::<u64, RecordError>(u64::from_le_bytes(value))
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

impl ReadRows for Runs {
    fn read(&mut self, number: u32, bytes: &mut &[u8]) -> Result<(), RecordError> {
        match run(bytes)? {
            None => self.put_empty(number),
            Some((player, run)) => self.put_at(number, player, &run),
        }
        Ok(())
    }

    fn skip(bytes: &mut &[u8]) -> Result<(), RecordError> {
        run(bytes).map(drop)
    }
}
