//! What writes files: cutting, merging, erasing.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use model::query::Unbounded;
use model::rollup::hash_player;

use super::{Archive, ArchiveError, FORMAT, Manifest, Part, Segment};
use crate::builder::{Day, Table, day_of};
use crate::columns::{ABSENT, Chunk, Column, Field, Value};
use crate::files;
use crate::merge::{Cut, Edit, Filter, Merge, PartStream, Stream, TableStream};
use crate::part::{PartInfo, PartReader, PartWriter};
use crate::scan::ScanFailure;
use crate::shape::{FIXED, Projection, Property, Shape, place};

/// Rows of a row group, before the player ends.
const GROUP_ROWS: usize = 262_144;
/// Bytes of a row group in memory, about.
const GROUP_BYTES: usize = 64 << 20;
/// Files that are merged at once: each takes some pages of memory.
const MERGE_PARTS_MAX: usize = 16;
/// Small files behind a large one that are merged with each other.
const LATE_PARTS: usize = 4;

/// What one call of [`Archive::maintain`] has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Maintained {
    /// Games whose newest events were written to files.
    pub games_cut: usize,
    /// Files written by merging others.
    pub files_merged: usize,
}

/// What [`Archive::erase`] has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    /// Events whose ids and properties were removed.
    pub events: u64,
    /// Files that were written anew.
    pub files: usize,
}

/// What a new manifest says besides the files, and which of the newest events are in files now.
pub(super) struct Cutting<'a> {
    pub(super) until: u64,
    pub(super) segments: &'a [Arc<Segment>],
    pub(super) deleted_before: Option<Day>,
}

/// Where the rows of a new file come from.
enum Input {
    Part(Arc<Part>),
    Table(Arc<Table>),
}

impl Archive {
    /// Writes to files what is due at this time (milliseconds since 1970), and merges files of days that are over.
    ///
    /// Due are games with enough events for a file or with events received on an earlier day, and while more than half
    /// of the memory is used the game that uses most of it. Meant to be called every few seconds, on a thread of its
    /// own, and when [`Archive::is_over_budget`]. After an error, what was done so far stays done.
    pub fn maintain(&self, now_ms: i64) -> Result<Maintained, ArchiveError> {
        let _writing = self.start_writing()?;
        let mut done = Maintained::default();
        while let Some(game) = self.due(now_ms) {
            if !self.cut(game)? {
                break;
            }
            done.games_cut += 1;
        }
        while let Some((game, parts)) = self.mergeable(now_ms) {
            self.merge(game, &parts)?;
            done.files_merged += 1;
        }
        Ok(done)
    }

    /// Writes all events of a game that were appended before the call to files.
    pub fn flush(&self, game: u32) -> Result<(), ArchiveError> {
        let _writing = self.start_writing()?;
        self.cut(game)?;
        Ok(())
    }

    /// Removes everything that identifies players from the game's events, in files and in memory: the texts of player,
    /// anonymous id and session, the event's id, and all properties. The rows stay, with time, name, value, dimensions
    /// and the hash of the player, so that counts stay as they are.
    ///
    /// `players` are hashes ([`hash_player`] with `seed`): of the player's id, and of anonymous ids that belong to the
    /// player. In events of others that name one of these as anonymous id, only the anonymous id is removed. Events
    /// that are appended before the call returns may be erased, too. A repetition changes nothing.
    ///
    /// Files with the old rows are removed before this returns, unless a snapshot still uses them: see
    /// [`Archive::replaced_files`].
    pub fn erase(&self, game: u32, seed: u64, players: &[u64]) -> Result<Erased, ArchiveError> {
        let _writing = self.start_writing()?;
        self.cut(game)?;
        let players: HashSet<u64> = players.iter().copied().filter(|player| *player != 0).collect();
        let parts = self.with_game(game, |game| game.parts.values().flatten().cloned().collect::<Vec<_>>());
        let mut erased = Erased::default();
        for part in parts.unwrap_or_default() {
            if !is_mentioned(&part, seed, &players)? {
                continue;
            }
            let (events, properties) = find_identified(&part, seed, &players)?;
            if events == 0 {
                continue;
            }
            let erase = |rows: &mut Chunk| erase_rows(rows, seed, &players);
            let edit = RowEdit { edit: &erase, properties };
            let info = PartInfo { revision: part.info.revision + 1, ..part.info.clone() };
            self.rewrite(game, std::slice::from_ref(&part), info, Some(&edit))?;
            erased.events += events;
            erased.files += 1;
        }
        Ok(erased)
    }

    /// Returns the number of replaced files that snapshots still use. They are removed when the snapshots are dropped.
    pub fn replaced_files(&self) -> usize {
        let mut replaced = self.replaced.lock();
        replaced.retain(|part| part.strong_count() > 0);
        replaced.len()
    }

    /// Reads every byte of a game's files. Returns what is wrong with them, naming the files.
    pub fn verify(&self, game: u32) -> Vec<String> {
        let parts = self.with_game(game, |game| game.parts.values().flatten().cloned().collect::<Vec<_>>());
        let problem = |part: Arc<Part>| {
            let reader = match part.open() {
                Ok(reader) => reader,
                Err(failure) => return Some(failure.to_string()),
            };
            let projection = Projection::of_shape(reader.shape(), &reader.shape().properties.clone());
            let mut stream = PartStream::new(reader, projection, Filter::all());
            let mut rows = 0;
            loop {
                match stream.next() {
                    Ok(Some(chunk)) => rows += chunk.rows() as u64,
                    Ok(None) if rows == part.info.rows => return None,
                    Ok(None) => {
                        return Some(format!(
                            "{}: has {rows} events instead of {}",
                            part.name(),
                            part.info.rows
                        ));
                    }
                    Err(failure) => return Some(failure.to_string()),
                }
            }
        };
        parts.unwrap_or_default().into_iter().filter_map(problem).collect()
    }

    /// Returns a game that has to be cut.
    fn due(&self, now_ms: i64) -> Option<u32> {
        let state = self.state.lock();
        let tails = || state.games.iter().filter(|(_, game)| game.tail.from().is_some());
        let is_due = |game: &super::Game| {
            let is_old = game.tail.received_ms().is_some_and(|received| day_of(received) < day_of(now_ms));
            game.tail.rows() >= self.options.part_rows as u64 || is_old
        };
        if let Some((number, _)) = tails().find(|(_, game)| is_due(game)) {
            return Some(*number);
        }
        let is_scarce = state.tail_bytes > self.options.memory_bytes_max / 2;
        let largest = tails().max_by_key(|(number, game)| (game.tail.bytes(), **number));
        largest.filter(|_| is_scarce).map(|(number, _)| *number)
    }

    /// Writes the events of a game to one new file per day. Returns false if there are none.
    fn cut(&self, number: u32) -> Result<bool, ArchiveError> {
        if let Err(invalid) = self.seal(number) {
            // Appending has checked the entries.
            tracing::error!(game = number, %invalid, "entries cannot be decoded");
            return Ok(false);
        }
        let segments = self.with_game(number, |game| game.tail.segments().to_vec()).unwrap_or_default();
        let (Some(first), Some(last)) = (segments.first(), segments.last()) else { return Ok(false) };
        let log = (first.log().start, last.log().end);
        let mut days: BTreeMap<Day, Vec<Input>> = BTreeMap::new();
        for table in segments.iter().flat_map(|segment| &segment.tables) {
            days.entry(table.day).or_default().push(Input::Table(table.clone()));
        }
        self.list_game(number)?;
        let mut new = Vec::new();
        for (day, inputs) in days {
            let info = PartInfo { day, log, revision: 0, ..empty_info() };
            match self.write(number, &inputs, info, None) {
                Ok(part) => new.push(part),
                Err(error) => {
                    self.forget(new);
                    return Err(error);
                }
            }
        }
        let cutting = Cutting { until: log.1, segments: &segments, ..self.nothing_cut(number) };
        self.replace_parts(number, cutting, &[], new)?;
        Ok(true)
    }

    /// Names a new game on the disk before its first file is there.
    fn list_game(&self, number: u32) -> Result<(), ArchiveError> {
        let (mut games, position) = {
            let state = self.state.lock();
            if state.games.get(&number).is_some_and(|game| game.is_listed) {
                return Ok(());
            }
            (state.listed(), state.position)
        };
        games.push(number);
        games.sort_unstable();
        self.write_index(games, position)?;
        if let Some(game) = self.state.lock().games.get_mut(&number) {
            game.is_listed = true;
        }
        let folder = self.game_folder(number);
        self.disk.create_folder(&folder).map_err(|error| self.disk_error(&folder, error))?;
        self.write_manifest(number, &self.nothing_cut(number), Vec::new())
    }

    /// Returns parts of one day to merge, next to each other in the log.
    fn mergeable(&self, now_ms: i64) -> Option<(u32, Vec<Arc<Part>>)> {
        let state = self.state.lock();
        for (number, game) in &state.games {
            for (day, parts) in &game.parts {
                let from = if *day < day_of(now_ms) { late(parts) } else { many(parts) };
                if let Some(from) = from {
                    let parts = parts[from..].iter().take(MERGE_PARTS_MAX).cloned().collect();
                    return Some((*number, parts));
                }
            }
        }
        None
    }

    fn merge(&self, game: u32, parts: &[Arc<Part>]) -> Result<(), ArchiveError> {
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return Ok(()) };
        let log = (first.info.log.0, last.info.log.1);
        let info = PartInfo { day: first.info.day, log, revision: 0, ..empty_info() };
        self.rewrite(game, parts, info, None)
    }

    /// Replaces parts of one day by one with their rows.
    fn rewrite(
        &self,
        game: u32,
        old: &[Arc<Part>],
        info: PartInfo,
        edit: Option<&RowEdit<'_>>,
    ) -> Result<(), ArchiveError> {
        let inputs: Vec<Input> = old.iter().cloned().map(Input::Part).collect();
        let new = self.write(game, &inputs, info, edit)?;
        self.replace_parts(game, self.nothing_cut(game), old, vec![new])
    }

    pub(super) fn nothing_cut(&self, game: u32) -> Cutting<'static> {
        let state = self.with_game(game, |game| (game.until, game.deleted_before));
        let (until, deleted_before) = state.unwrap_or_default();
        Cutting { until, segments: &[], deleted_before }
    }

    /// Writes a file with the rows of the inputs, which come in the order of the log, and makes its name durable.
    fn write(
        &self,
        game: u32,
        inputs: &[Input],
        info: PartInfo,
        edit: Option<&RowEdit<'_>>,
    ) -> Result<Arc<Part>, ArchiveError> {
        let path = self.game_folder(game).join(info.path());
        let unfinished = files::unfinished(&path);
        let folder = path.parent().unwrap_or(Path::new(".")).to_owned();
        let prepared =
            self.disk.create_folder(&folder).and_then(|()| files::remove_if_there(&*self.disk, &unfinished));
        prepared.map_err(|error| self.disk_error(&unfinished, error))?;
        let written = self.write_rows(game, inputs, &info, &unfinished, edit).and_then(|written| {
            self.disk
                .rename(&unfinished, &path)
                .and_then(|()| self.disk.sync_folder(&folder))
                .map_err(|error| self.disk_error(&path, error))?;
            Ok(written)
        });
        match written {
            Ok(written) => {
                let info = PartInfo { day: info.day, log: info.log, revision: info.revision, ..written };
                Ok(Arc::new(Part::new(self.disk.clone(), &self.folder, game, info)))
            }
            Err(error) => {
                let _ = files::remove_if_there(&*self.disk, &unfinished);
                let _ = files::remove_if_there(&*self.disk, &path);
                let _ = std::fs::remove_dir(&folder);
                Err(error)
            }
        }
    }

    fn write_rows(
        &self,
        game: u32,
        inputs: &[Input],
        info: &PartInfo,
        path: &Path,
        edit: Option<&RowEdit<'_>>,
    ) -> Result<PartInfo, ArchiveError> {
        let mut opened = Vec::with_capacity(inputs.len());
        for input in inputs {
            opened.push(match input {
                Input::Part(part) => Opened::Part(Box::new(part.open().map_err(damaged)?)),
                Input::Table(table) => Opened::Table(table.clone()),
            });
        }
        let rows = inputs.iter().map(|input| match input {
            Input::Part(part) => part.info.rows,
            Input::Table(table) => table.rows() as u64,
        });
        let merged = || Shape::merge(rows.sum(), opened.iter().map(Opened::shape));
        let properties: Vec<Property> = edit
            .map_or_else(merged, |edit| edit.properties.clone())
            .into_iter()
            .map(|property| Property { rows: 0, ..property })
            .collect();
        let streams = opened.into_iter().map(|input| -> Box<dyn Stream + '_> {
            let projection = Projection::of_shape(input.shape(), &properties);
            match input {
                Opened::Part(reader) => Box::new(
                    PartStream::new(*reader, projection, Filter::all()).with_edit(edit.map(|edit| edit.edit)),
                ),
                Opened::Table(table) => Box::new(TableStream::new(table, projection, Filter::all())),
            }
        });
        let mut merge = Merge::new(streams.collect(), FIXED.len() + properties.len() + 1);
        let disk_error = |error| self.disk_error(path, error);
        let mut writer = PartWriter::create(&*self.disk, path, game, info.day, info.log, &properties)
            .map_err(disk_error)?;
        let cut = Cut::Players { rows: GROUP_ROWS, bytes: GROUP_BYTES };
        while let Some(group) = merge.next(cut, &Unbounded).map_err(damaged)? {
            writer.row_group(&group).map_err(disk_error)?;
        }
        writer.finish().map_err(disk_error)
    }

    /// Replaces parts in the manifest, then for snapshots, then lets the old files go.
    pub(super) fn replace_parts(
        &self,
        number: u32,
        cutting: Cutting<'_>,
        old: &[Arc<Part>],
        new: Vec<Arc<Part>>,
    ) -> Result<(), ArchiveError> {
        let is_old = |part: &Arc<Part>| old.iter().any(|old| Arc::ptr_eq(old, part));
        let parts = self.with_game(number, |game| {
            let mut parts = game.parts.clone();
            parts.values_mut().for_each(|parts| parts.retain(|part| !is_old(part)));
            parts
        });
        let mut parts = parts.unwrap_or_default();
        for part in &new {
            let of_day = parts.entry(part.info.day).or_default();
            let at = of_day.partition_point(|other| other.info.log < part.info.log);
            of_day.insert(at, part.clone());
        }
        parts.retain(|_, parts| !parts.is_empty());
        let infos = parts.values().flatten().map(|part| part.info.clone()).collect();
        if let Err(error) = self.write_manifest(number, &cutting, infos) {
            if !matches!(error, ArchiveError::Stopped) {
                self.forget(new);
            }
            return Err(error);
        }
        // At once, so that each snapshot has each event from one of the two.
        let mut state = self.state.lock();
        let state = &mut *state;
        if let Some(game) = state.games.get_mut(&number) {
            let before = game.tail.bytes();
            game.parts = parts;
            game.until = cutting.until;
            game.deleted_before = cutting.deleted_before;
            game.tail.remove(cutting.segments);
            state.tail_bytes = (state.tail_bytes + game.tail.bytes()).saturating_sub(before);
        }
        self.forget(old.to_vec());
        Ok(())
    }

    /// Lets files be removed as soon as no snapshot uses them.
    pub(super) fn forget(&self, parts: Vec<Arc<Part>>) {
        let mut replaced = self.replaced.lock();
        replaced.retain(|part| part.strong_count() > 0);
        replaced.extend(parts.iter().map(Arc::downgrade));
        drop(replaced);
        parts.iter().for_each(|part| part.set_obsolete());
    }

    fn write_manifest(
        &self,
        game: u32,
        cutting: &Cutting<'_>,
        parts: Vec<PartInfo>,
    ) -> Result<(), ArchiveError> {
        let Cutting { until, deleted_before, .. } = *cutting;
        let manifest = Manifest { format: FORMAT, game, until, deleted_before, parts };
        let path = self.game_folder(game).join("manifest.json");
        let written = files::replace(&*self.disk, &path, &manifest);
        self.check_replaced(&format!("{game}/manifest.json"), written)
    }

    pub(super) fn disk_error(&self, path: &Path, error: io::Error) -> ArchiveError {
        let path = path.strip_prefix(&self.folder).unwrap_or(path).display().to_string();
        ArchiveError::Disk { path, error }
    }
}

enum Opened {
    Part(Box<PartReader>),
    Table(Arc<Table>),
}

impl Opened {
    fn shape(&self) -> &Shape {
        match self {
            Opened::Part(reader) => reader.shape(),
            Opened::Table(table) => &table.shape,
        }
    }
}

/// Returns the first part to merge on a day that is over: all of them, unless the first ones are much larger than what
/// came behind them; then the small ones behind, when there are some.
fn late(parts: &[Arc<Part>]) -> Option<usize> {
    let behind = |from: usize| parts[from + 1..].iter().map(|part| part.info.rows).sum::<u64>();
    let from = (0..parts.len().saturating_sub(1)).find(|from| parts[*from].info.rows <= 2 * behind(*from))?;
    (from == 0 || parts.len() - from >= LATE_PARTS).then_some(from)
}

/// Returns the first part to merge on a day that is not over: there are too many of about the same size.
fn many(parts: &[Arc<Part>]) -> Option<usize> {
    let is_small = |part: &Arc<Part>| part.info.rows < (MERGE_PARTS_MAX * GROUP_ROWS / 2) as u64;
    let from = parts.iter().rposition(|part| !is_small(part)).map_or(0, |large| large + 1);
    (parts.len() - from >= MERGE_PARTS_MAX).then_some(from)
}

/// A change to the rows of a file, and the properties that have a column afterwards.
struct RowEdit<'a> {
    edit: Edit<'a>,
    properties: Vec<Property>,
}

/// Returns true if a row is of one of the players or names one as anonymous id. Reads three columns only.
fn is_mentioned(part: &Arc<Part>, seed: u64, players: &HashSet<u64>) -> Result<bool, ArchiveError> {
    let reader = part.open().map_err(damaged)?;
    let projection = Projection::of_fields(reader.shape(), &[Field::Anonymous], false);
    let mut stream = PartStream::new(reader, projection, Filter::all());
    while let Some(rows) = stream.next().map_err(damaged)? {
        let named = is_named(&rows.columns[0], seed, players);
        if (0..rows.rows()).any(|row| players.contains(&rows.players[row]) || named(row)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the number of events from which [`erase_rows`] would remove something, and the properties that have a column
/// and are left then: a name may identify someone, too.
fn find_identified(
    part: &Arc<Part>,
    seed: u64,
    players: &HashSet<u64>,
) -> Result<(u64, Vec<Property>), ArchiveError> {
    let reader = part.open().map_err(damaged)?;
    let mut properties = reader.shape().properties.clone();
    properties.iter_mut().for_each(|property| property.rows = 0);
    let projection = Projection::of_shape(reader.shape(), &properties);
    let mut count = 0;
    let mut stream = PartStream::new(reader, projection, Filter::all());
    while let Some(rows) = stream.next().map_err(damaged)? {
        let named = is_named(&rows.columns[place(&Field::Anonymous)], seed, players);
        let erased = rows.columns.iter().enumerate().filter(|(at, _)| is_erased(*at));
        let erased: Vec<&Column> = erased.map(|(_, column)| column).collect();
        for row in 0..rows.rows() {
            let is_player = players.contains(&rows.players[row]);
            let has_more = || erased.iter().any(|column| column.value(row).is_some());
            count += u64::from(named(row) || (is_player && has_more()));
            if !is_player {
                for (property, column) in properties.iter_mut().zip(&rows.columns[FIXED.len()..]) {
                    property.rows += u64::from(column.value(row).is_some());
                }
            }
        }
    }
    properties.retain(|property| property.rows > 0);
    Ok((count, properties))
}

/// Returns true if the column at this place loses its values in events of erased players.
fn is_erased(at: usize) -> bool {
    match FIXED.get(at) {
        Some(Field::Player | Field::Session | Field::Anonymous | Field::Id) | None => true,
        Some(_) => false,
    }
}

/// Returns a function that says whether a row's anonymous id is one of the players.
fn is_named<'a>(
    anonymous: &'a Column,
    seed: u64,
    players: &HashSet<u64>,
) -> impl Fn(usize) -> bool + use<'a> {
    let named: Vec<bool> = match anonymous {
        Column::Coded { dictionary, .. } => (0..dictionary.len() as u32)
            .map(|code| match dictionary.value(code) {
                Value::Text(text) => players.contains(&hash_player(seed, text.as_bytes())),
                _ => false,
            })
            .collect(),
        _ => Vec::new(),
    };
    move |row| match anonymous {
        Column::Coded { codes, .. } => codes[row] != ABSENT && named[codes[row] as usize],
        _ => false,
    }
}

/// Removes what identifies the players.
pub(crate) fn erase_rows(rows: &mut Chunk, seed: u64, players: &HashSet<u64>) {
    let anonymous = place(&Field::Anonymous);
    let named = rows.columns[anonymous].clone();
    let named = is_named(&named, seed, players);
    let is_player: Vec<bool> = rows.players.iter().map(|player| players.contains(player)).collect();
    for (at, column) in rows.columns.iter_mut().enumerate() {
        if !is_erased(at) {
            continue;
        }
        let is_removed = |row: usize| is_player[row] || (at == anonymous && named(row));
        match column {
            Column::Absent => {}
            Column::Coded { codes, .. } => {
                for (row, code) in codes.iter_mut().enumerate() {
                    if is_removed(row) {
                        *code = ABSENT;
                    }
                }
            }
            Column::Numbers(values) => {
                for (row, value) in values.iter_mut().enumerate() {
                    if is_removed(row) {
                        *value = f64::NAN;
                    }
                }
            }
            Column::Uuids(uuids) => uuids.remove(is_removed),
        }
    }
}

fn empty_info() -> PartInfo {
    PartInfo {
        day: 0,
        log: (0, 0),
        revision: 0,
        rows: 0,
        players: 0,
        hashes: (0, 0),
        times: (0, 0),
        bytes: 0,
        footer: (0, 0),
    }
}

fn damaged(failure: ScanFailure) -> ArchiveError {
    match failure {
        ScanFailure::Damaged { path, problem } => ArchiveError::Damaged {
            path,
            problem,
            advice: "restore it from a backup; the other files are not affected",
        },
        ScanFailure::Stopped(stopped) => {
            ArchiveError::Disk { path: String::new(), error: io::Error::other(stopped) }
        }
    }
}
