//! Sorted rows from several places as one sorted sequence.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use model::query::QueryControl;

use crate::builder::Table;
use crate::column_builder::{ColumnBuilder, Remap};
use crate::columns::{ABSENT, Chunk, Column, Dictionary, Field, Value};
use crate::part::{PartReader, RowGroupReader};
use crate::scan::{ScanFailure, ScanRequest};
use crate::shape::{Projection, place, select, slice};

/// Rows of a chunk that is handed out.
pub(crate) const CHUNK_ROWS: usize = 65_536;
/// Rows are copied when these many bytes of them were chosen.
const COPY_BYTES: usize = 4 << 20;

/// Rows sorted by player, time and position in the log, in chunks.
pub(crate) trait Stream {
    /// Returns the next rows, at most [`CHUNK_ROWS`]; an empty chunk if there may be more; `None` at the end.
    fn next(&mut self) -> Result<Option<Arc<Chunk>>, ScanFailure>;

    /// Returns about how many bytes of memory the stream holds beside the chunks that it has returned.
    fn bytes(&self) -> usize;
}

/// Which rows are wanted.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) times: Range<i64>,
    pub(crate) players: RangeInclusive<u64>,
    events: Option<Vec<Box<str>>>,
    /// Which codes of the dictionary seen last are wanted events.
    wanted: Option<(Arc<Dictionary>, Vec<bool>)>,
}

impl Filter {
    pub(crate) fn all() -> Filter {
        Filter { times: i64::MIN..i64::MAX, players: 0..=u64::MAX, events: None, wanted: None }
    }

    pub(crate) fn of_times(times: Range<i64>) -> Filter {
        Filter { times, ..Filter::all() }
    }

    pub(crate) fn of(request: &ScanRequest) -> Filter {
        let (times, players) = (request.times.clone(), request.players.clone());
        Filter { times, players, events: request.events.clone(), wanted: None }
    }

    pub(crate) fn may_match(&self, times: (i64, i64), hashes: (u64, u64)) -> bool {
        let (first, last) = (*self.players.start(), *self.players.end());
        times.0 < self.times.end && self.times.start < times.1 && hashes.0 <= last && first <= hashes.1
    }

    fn is_all(&self) -> bool {
        self.times == (i64::MIN..i64::MAX) && self.players == (0..=u64::MAX) && self.events.is_none()
    }

    /// Returns the wanted rows. `event` is the place of the names among the columns.
    fn apply(&mut self, chunk: Chunk, event: Option<usize>) -> Chunk {
        let first = chunk.players.partition_point(|player| player < self.players.start());
        let last = chunk.players.partition_point(|player| player <= self.players.end());
        let times = &self.times;
        let all_times = chunk.times[first..last].iter().all(|time| times.contains(time));
        let names = self.events.as_ref().and(event).map(|event| &chunk.columns[event]);
        if all_times && names.is_none() && (first, last) == (0, chunk.rows()) {
            return chunk;
        }
        let mut rows: Vec<u32> = (first as u32..last as u32).collect();
        if !all_times {
            rows.retain(|row| times.contains(&chunk.times[*row as usize]));
        }
        match names {
            Some(Column::Coded { codes, dictionary }) => {
                let wanted = wanted_codes(&mut self.wanted, self.events.as_deref(), dictionary);
                let is_wanted = |code: u32| code != ABSENT && wanted[code as usize];
                rows.retain(|row| is_wanted(codes[*row as usize]));
            }
            Some(_) => rows.clear(),
            None => {}
        }
        if rows.len() == chunk.rows() { chunk } else { select(&chunk, &rows) }
    }
}

fn wanted_codes<'a>(
    known: &'a mut Option<(Arc<Dictionary>, Vec<bool>)>,
    events: Option<&[Box<str>]>,
    dictionary: &Arc<Dictionary>,
) -> &'a [bool] {
    if !known.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, dictionary)) {
        let is_wanted = |code: u32| match dictionary.value(code) {
            Value::Text(name) => events.is_none_or(|events| events.iter().any(|event| **event == *name)),
            _ => false,
        };
        *known = Some((dictionary.clone(), (0..dictionary.len() as u32).map(is_wanted).collect()));
    }
    known.as_ref().map_or(&[], |(_, wanted)| wanted)
}

/// The rows of a table in memory.
pub(crate) struct TableStream {
    table: Arc<Table>,
    projection: Projection,
    filter: Filter,
    event: Option<usize>,
    at: usize,
}

impl TableStream {
    pub(crate) fn new(table: Arc<Table>, projection: Projection, filter: Filter) -> TableStream {
        let event = projection.places.iter().position(|read| *read == place(&Field::Event));
        TableStream { table, projection, filter, event, at: 0 }
    }
}

impl Stream for TableStream {
    fn next(&mut self) -> Result<Option<Arc<Chunk>>, ScanFailure> {
        let whole = &self.table.chunk;
        if self.at == whole.rows() {
            return Ok(None);
        }
        if whole.rows() <= CHUNK_ROWS && self.projection.is_identity() && self.filter.is_all() {
            self.at = whole.rows();
            return Ok(Some(whole.clone()));
        }
        let rows = self.at..whole.rows().min(self.at + CHUNK_ROWS);
        self.at = rows.end;
        let columns = self.projection.places.iter().map(|place| slice(&whole.columns[*place], rows.clone()));
        let chunk = Chunk {
            columns: columns.collect(),
            players: whole.players[rows.clone()].to_vec(),
            times: whole.times[rows].to_vec(),
        };
        let mut chunk = self.filter.apply(chunk, self.event);
        chunk.columns = self.projection.apply(chunk.rows(), chunk.columns);
        Ok(Some(Arc::new(chunk)))
    }

    fn bytes(&self) -> usize {
        0
    }
}

/// Changes rows, with all columns of their shape, before they are written again.
pub(crate) type Edit<'a> = &'a dyn Fn(&mut Chunk);

/// The rows of a file.
pub(crate) struct PartStream<'a> {
    reader: PartReader,
    groups: std::vec::IntoIter<usize>,
    group: Option<RowGroupReader>,
    projection: Projection,
    filter: Filter,
    event: Option<usize>,
    edit: Option<Edit<'a>>,
}

impl<'a> PartStream<'a> {
    pub(crate) fn new(reader: PartReader, projection: Projection, filter: Filter) -> PartStream<'a> {
        let groups = reader.row_groups().iter().enumerate();
        let wanted = groups.filter(|(_, group)| filter.may_match(group.times, group.hashes));
        let groups: Vec<usize> = wanted.map(|(index, _)| index).collect();
        let event = projection.places.iter().position(|read| *read == place(&Field::Event));
        let groups = groups.into_iter();
        PartStream { reader, groups, group: None, projection, filter, event, edit: None }
    }

    /// Applies `edit` to all rows; the projection must read all columns.
    pub(crate) fn with_edit(mut self, edit: Option<Edit<'a>>) -> PartStream<'a> {
        self.edit = edit;
        self
    }
}

impl Stream for PartStream<'_> {
    fn next(&mut self) -> Result<Option<Arc<Chunk>>, ScanFailure> {
        loop {
            if self.group.is_none() {
                let Some(index) = self.groups.next() else { return Ok(None) };
                self.group = Some(self.reader.row_group(index, &self.projection.places)?);
            }
            let Some(group) = &mut self.group else { return Ok(None) };
            let wanted = &self.filter.players;
            let page = group.next(|players| {
                let (first, last) = (players.first(), players.last());
                first.is_some_and(|first| first <= wanted.end())
                    && last.is_some_and(|last| last >= wanted.start())
            })?;
            let Some(page) = page else {
                self.group = None;
                continue;
            };
            if page.rows() == 0 {
                continue;
            }
            let mut page = self.filter.apply(page, self.event);
            if let Some(edit) = self.edit {
                edit(&mut page);
            }
            page.columns = self.projection.apply(page.rows(), page.columns);
            return Ok(Some(Arc::new(page)));
        }
    }

    fn bytes(&self) -> usize {
        self.group.as_ref().map_or(0, RowGroupReader::bytes)
    }
}

/// Where the rows of one output chunk end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cut {
    /// After this many rows.
    Rows(usize),
    /// After this many rows, or when this many bytes are reached.
    Bounded { rows: usize, bytes: usize },
    /// After the player with whom this many rows or bytes are reached, or after twice as many.
    Players { rows: usize, bytes: usize },
}

/// Merges streams. Of rows of the same player and time, those of an earlier stream come first.
pub(crate) struct Merge<'a> {
    inputs: Vec<Input<'a>>,
    width: usize,
}

struct Input<'a> {
    stream: Box<dyn Stream + 'a>,
    chunk: Arc<Chunk>,
    at: usize,
    is_done: bool,
    remaps: Vec<Remap>,
}

impl Input<'_> {
    fn key(&self, input: usize) -> (u64, i64, usize) {
        (self.chunk.players[self.at], self.chunk.times[self.at], input)
    }
}

impl<'a> Merge<'a> {
    /// Merges streams whose chunks have `width` columns.
    pub(crate) fn new(streams: Vec<Box<dyn Stream + 'a>>, width: usize) -> Merge<'a> {
        let input = |stream| Input {
            stream,
            chunk: Arc::default(),
            at: 0,
            is_done: false,
            remaps: (0..width).map(|_| Remap::default()).collect(),
        };
        Merge { inputs: streams.into_iter().map(input).collect(), width }
    }

    /// Returns the next rows; `None` at the end.
    pub(crate) fn next(
        &mut self,
        cut: Cut,
        control: &dyn QueryControl,
    ) -> Result<Option<Chunk>, ScanFailure> {
        self.inputs.iter_mut().for_each(|input| {
            input.remaps.iter_mut().for_each(|remap| *remap = Remap::default());
        });
        let mut output = Output::new(self.width);
        loop {
            self.load(&output, control)?;
            if self.inputs.is_empty() {
                break;
            }
            let is_full = output.choose(&mut self.inputs, cut);
            output.copy(&mut self.inputs);
            if is_full {
                break;
            }
        }
        Ok((!output.players.is_empty()).then(|| output.finish()))
    }

    /// Makes sure that each stream has a row, and removes those at their end.
    fn load(&mut self, output: &Output, control: &dyn QueryControl) -> Result<(), ScanFailure> {
        let mut bytes = output.bytes() + self.inputs.iter().map(Input::bytes).sum::<usize>();
        for input in &mut self.inputs {
            while !input.is_done && input.at == input.chunk.rows() {
                bytes += input.stream.bytes();
                control.check(bytes)?;
                match input.stream.next()? {
                    Some(chunk) => (input.chunk, input.at) = (chunk, 0),
                    None => input.is_done = true,
                }
            }
        }
        self.inputs.retain(|input| !input.is_done);
        Ok(())
    }
}

impl Input<'_> {
    fn bytes(&self) -> usize {
        self.chunk.bytes() + self.stream.bytes()
    }
}

struct Output {
    players: Vec<u64>,
    times: Vec<i64>,
    columns: Vec<ColumnBuilder>,
    /// Rows that were chosen and not yet copied: input, rows.
    chosen: Vec<(usize, Range<usize>)>,
}

impl Output {
    fn new(width: usize) -> Output {
        let columns = (0..width).map(|_| ColumnBuilder::default()).collect();
        Output { players: Vec::new(), times: Vec::new(), columns, chosen: Vec::new() }
    }

    fn bytes(&self) -> usize {
        self.players.len() * 16 + self.columns.iter().map(ColumnBuilder::bytes).sum::<usize>()
    }

    /// Chooses rows until a stream has none left or many bytes are chosen. Returns true if the chunk is full.
    fn choose(&mut self, inputs: &mut [Input<'_>], cut: Cut) -> bool {
        let row_bytes = |input: &Input<'_>| input.chunk.bytes() / input.chunk.rows().max(1);
        let row_bytes = inputs.iter().map(row_bytes).max().unwrap_or(0).max(1);
        let mut budget = (COPY_BYTES / row_bytes).max(256);
        let copied_bytes = self.bytes();
        loop {
            let keys = inputs.iter().enumerate().map(|(index, input)| input.key(index));
            let (mut first, mut second) = (None, None);
            for key in keys {
                if first.is_none_or(|first| key < first) {
                    (first, second) = (Some(key), first);
                } else if second.is_none_or(|second| key < second) {
                    second = Some(key);
                }
            }
            let Some((player, _, index)) = first else { return false };
            let rows = self.players.len();
            let max = match cut {
                Cut::Rows(max) => max - rows,
                Cut::Bounded { bytes, .. } if rows > 0 && copied_bytes >= bytes => return true,
                Cut::Bounded { rows: max, .. } => max - rows,
                Cut::Players { rows: enough, bytes } => {
                    let is_enough = rows >= enough || copied_bytes >= bytes;
                    let is_next_player = self.players.last().is_some_and(|last| *last != player);
                    if rows > 0 && is_enough && (is_next_player || rows >= 2 * enough) {
                        return true;
                    }
                    if is_enough { 1 } else { enough - rows }
                }
            };
            if max == 0 {
                return true;
            }
            let input = &mut inputs[index];
            let end = input.chunk.rows().min(input.at + max.min(budget));
            let start = input.at;
            input.at += 1;
            match second {
                None => input.at = end,
                Some(second) => {
                    while input.at < end && input.key(index) < second {
                        input.at += 1;
                    }
                }
            }
            self.players.extend_from_slice(&input.chunk.players[start..input.at]);
            self.times.extend_from_slice(&input.chunk.times[start..input.at]);
            budget -= (input.at - start).min(budget);
            let is_exhausted = input.at == input.chunk.rows();
            match self.chosen.last_mut() {
                Some((last, rows)) if *last == index && rows.end == start => rows.end = input.at,
                _ => self.chosen.push((index, start..input.at)),
            }
            if is_exhausted || budget == 0 {
                return false;
            }
        }
    }

    /// Copies the chosen rows, one column after the other.
    fn copy(&mut self, inputs: &mut [Input<'_>]) {
        for (place, builder) in self.columns.iter_mut().enumerate() {
            for (index, rows) in &self.chosen {
                let Input { chunk, remaps, .. } = &mut inputs[*index];
                builder.extend(&chunk.columns[place], rows.clone(), &mut remaps[place]);
            }
        }
        self.chosen.clear();
    }

    fn finish(self) -> Chunk {
        Chunk {
            players: self.players,
            times: self.times,
            columns: self.columns.into_iter().map(ColumnBuilder::finish).collect(),
        }
    }
}
