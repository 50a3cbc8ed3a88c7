//! Entries of the log to columns: the newest events as they are scanned and cut.

use std::ops::Range;
use std::sync::Arc;

use model::batch::{EventBatch, InvalidBatch, StoredEvent};

use crate::column_builder::Interner;
use crate::columns::{ABSENT, Chunk, Column, Uuids, Value};
use crate::json::{Leaf, ObjectWriter, Scratch, flatten};
use crate::shape::{Kind, Property, RestNames, Shape, count_players, select_columns};

/// Names of properties that are counted in one segment. An event can have 64 names of its own; the values of further
/// names go to the JSON of the rest.
const NAMES_MAX: usize = 1_024;
const DAY_MS: i64 = 86_400_000;

/// A UTC day, counted from 1970-01-01.
pub(crate) type Day = i32;

/// Returns the day of a time.
pub(crate) fn day_of(time_ms: i64) -> Day {
    time_ms.div_euclid(DAY_MS).clamp(i64::from(Day::MIN), i64::from(Day::MAX)) as Day
}

/// Returns the time at which a day starts, milliseconds since 1970.
pub(crate) fn start_of(day: Day) -> i64 {
    i64::from(day) * DAY_MS
}

/// Rows of one day, sorted by player, time and position in the log.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) day: Day,
    pub(crate) shape: Arc<Shape>,
    /// All columns of the shape.
    pub(crate) chunk: Arc<Chunk>,
    pub(crate) times: Range<i64>,
    pub(crate) players: u64,
}

/// Returns the events of batches of one game, by day. Samples are no events and are left out.
pub(crate) fn build<'a>(
    seed: u64,
    batches: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<Table>, InvalidBatch> {
    let mut builder = Builder::default();
    for batch in batches {
        let batch = EventBatch::read(batch)?;
        for event in batch.events().filter(|event| event.samples.is_none()) {
            builder.push(seed, batch.received_ms, &event);
        }
    }
    Ok(builder.finish())
}

#[derive(Default)]
struct Builder {
    players: Vec<u64>,
    times: Vec<i64>,
    received: Vec<f64>,
    values: Vec<f64>,
    ids: Uuids,
    has_values: bool,
    has_ids: bool,
    event: TextColumn,
    player: TextColumn,
    session: TextColumn,
    anonymous: TextColumn,
    /// In the order of `Dimension::ALL`: country, source, platform, version, level.
    dimensions: [TextColumn; 5],
    properties: Properties,
}

/// Text of a few or many values, with a short way for the same value again.
#[derive(Default)]
struct TextColumn {
    codes: Vec<u32>,
    interner: Interner,
    last: Option<u32>,
}

impl TextColumn {
    #[inline]
    fn push(&mut self, text: &[u8]) {
        if text.is_empty() {
            self.codes.push(ABSENT);
            return;
        }
        if let Some(last) = self.last
            && let Value::Text(known) = self.interner.dictionary.value(last)
            && known.as_bytes() == text
        {
            self.codes.push(last);
            return;
        }
        let code = self.interner.intern_bytes(text);
        self.last = Some(code);
        self.codes.push(code);
    }

    fn finish(self) -> Column {
        if self.interner.dictionary.is_empty() {
            return Column::Absent;
        }
        Column::Coded { codes: self.codes, dictionary: Arc::new(self.interner.dictionary) }
    }
}

impl Builder {
    fn push(&mut self, seed: u64, received_ms: i64, event: &StoredEvent<'_>) {
        let row = self.times.len() as u32;
        self.players.push(if event.player.is_empty() { 0 } else { event.player_number(seed) });
        self.times.push(event.ts_ms);
        self.received.push(received_ms as f64);
        self.has_values |= event.value.is_some();
        self.values.push(event.value.unwrap_or(f64::NAN));
        self.has_ids |= event.id.is_some();
        self.ids.push(event.id);
        self.event.push(event.name);
        // In an erased event both are numbers.
        self.player.push(if event.erased { b"" } else { event.player });
        self.anonymous.push(if event.erased { b"" } else { event.anonymous });
        self.session.push(event.session);
        for (column, value) in self.dimensions.iter_mut().zip(event.dimensions) {
            column.push(value);
        }
        if !event.props.is_empty() {
            match std::str::from_utf8(event.props) {
                Ok(json) => self.properties.push(row, json),
                Err(_) => self.properties.push(row, &String::from_utf8_lossy(event.props)),
            }
        }
    }

    fn finish(self) -> Vec<Table> {
        let rows = self.times.len();
        let mut order: Vec<(Day, u64, i64, u32)> = (0..rows)
            .map(|row| (day_of(self.times[row]), self.players[row], self.times[row], row as u32))
            .collect();
        order.sort_unstable();
        let [country, source, platform, version, level] = self.dimensions.map(TextColumn::finish);
        let (shape, properties) = self.properties.finish(rows);
        let shape = Arc::new(shape);
        let mut columns = vec![
            self.event.finish(),
            self.player.finish(),
            self.session.finish(),
            if self.has_values { Column::Numbers(self.values) } else { Column::Absent },
            country,
            platform,
            version,
            source,
            level,
            self.anonymous.finish(),
            if self.has_ids { Column::Uuids(self.ids) } else { Column::Absent },
            Column::Numbers(self.received),
        ];
        columns.extend(properties);
        let table = |sorted: &[(Day, u64, i64, u32)]| {
            let rows: Vec<u32> = sorted.iter().map(|(_, _, _, row)| *row).collect();
            let players: Vec<u64> = sorted.iter().map(|(_, player, _, _)| *player).collect();
            let times: Vec<i64> = sorted.iter().map(|(_, _, time, _)| *time).collect();
            let first = times.iter().copied().min().unwrap_or(0);
            let last = times.iter().copied().max().unwrap_or(0);
            Table {
                day: sorted[0].0,
                shape: shape.clone(),
                times: first..last + 1,
                players: count_players(&players),
                chunk: Arc::new(Chunk { players, times, columns: select_columns(&columns, &rows) }),
            }
        };
        order.chunk_by(|one, other| one.0 == other.0).map(table).collect()
    }
}

/// The properties of a segment's events, by name.
#[derive(Default)]
struct Properties {
    names: Interner,
    named: Vec<Named>,
    /// Values that have no column, as members of the JSON of the rest: row, name, JSON text.
    rest: Vec<(u32, Box<str>, Box<str>)>,
    /// Rows whose properties are no JSON object.
    malformed: Vec<(u32, Box<str>)>,
    scratch: Scratch,
    /// The name that follows each name in the events so far, most often.
    next: Vec<u32>,
}

struct Named {
    texts: Vec<(u32, u32)>,
    interner: Interner,
    numbers: Vec<(u32, f64)>,
    flags: Vec<(u32, bool)>,
    /// `u32::MAX` before the first.
    last_row: u32,
}

impl Named {
    fn new() -> Named {
        Named {
            texts: Vec::new(),
            interner: Interner::default(),
            numbers: Vec::new(),
            flags: Vec::new(),
            last_row: u32::MAX,
        }
    }

    /// Removes the value of the newest row.
    fn remove(&mut self, row: u32) {
        self.texts.pop_if(|(last, _)| *last == row);
        self.numbers.pop_if(|(last, _)| *last == row);
        self.flags.pop_if(|(last, _)| *last == row);
    }
}

impl Properties {
    fn push(&mut self, row: u32, json: &str) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let rest = self.rest.len();
        let mut before = 0u32;
        let read = flatten(json, &mut scratch, |name, leaf, raw| {
            let is_plain = !matches!(leaf, Leaf::Other | Leaf::LargeNumber(_));
            let code = if is_plain { self.code(&mut before, name) } else { None };
            let named = code.map(|code| &mut self.named[code as usize]);
            // A name that comes again in the same event goes to the rest: only JSON can hold both.
            let Some(named) = named.filter(|named| named.last_row != row) else {
                self.rest.push((row, name.into(), raw.into()));
                return;
            };
            named.last_row = row;
            match leaf {
                Leaf::Text(text) => {
                    let code = named.interner.intern(Value::Text(text));
                    named.texts.push((row, code));
                }
                Leaf::Number(number) => named.numbers.push((row, number)),
                Leaf::Flag(flag) => named.flags.push((row, flag)),
                Leaf::LargeNumber(_) | Leaf::Other => unreachable!("went to the rest"),
            }
        });
        self.scratch = scratch;
        if read.is_err() {
            self.rest.truncate(rest);
            self.named.iter_mut().for_each(|named| named.remove(row));
            self.malformed.push((row, json.into()));
        }
    }

    /// Returns the code of a name, unless there are too many.
    #[inline]
    fn code(&mut self, before: &mut u32, name: &str) -> Option<u32> {
        let guess = self.next.get(*before as usize).copied();
        if let Some(guess) = guess
            && (guess as usize) < self.named.len()
            && self.names.dictionary.value(guess) == Value::Text(name)
        {
            *before = guess + 1;
            return Some(guess);
        }
        let code = if self.named.len() < NAMES_MAX {
            self.names.intern(Value::Text(name))
        } else {
            self.names.find(Value::Text(name))?
        };
        if code as usize == self.named.len() {
            self.named.push(Named::new());
            self.next.resize(self.named.len() + 1, u32::MAX);
        }
        self.next[*before as usize] = code;
        *before = code + 1;
        Some(code)
    }

    /// Returns the shape and the columns of the properties and of the rest.
    fn finish(mut self, rows: usize) -> (Shape, Vec<Column>) {
        let dictionary = std::mem::take(&mut self.names).dictionary;
        let name = |code: usize| match dictionary.value(code as u32) {
            Value::Text(name) => name,
            _ => unreachable!("names are text"),
        };
        let counts = self.named.iter().enumerate().flat_map(|(code, named)| {
            let counts = [
                (Kind::Text, named.texts.len()),
                (Kind::Number, named.numbers.len()),
                (Kind::Flag, named.flags.len()),
            ];
            counts.map(|(kind, count)| (name(code).into(), kind, count as u64))
        });
        let chosen: Vec<Property> = Shape::choose(rows as u64, counts);
        let mut columns = vec![Column::Absent; chosen.len()];
        for (code, named) in self.named.into_iter().enumerate() {
            let place = chosen.binary_search_by(|property| (*property.name).cmp(name(code))).ok();
            let kind = place.map(|place| chosen[place].kind);
            if kind != Some(Kind::Text) {
                for (row, code_of_text) in &named.texts {
                    let value = named.interner.dictionary.value(*code_of_text);
                    self.rest.push((*row, name(code).into(), json_of(value)));
                }
            }
            if kind != Some(Kind::Number) {
                for (row, number) in &named.numbers {
                    self.rest.push((*row, name(code).into(), json_of(Value::Number(*number))));
                }
            }
            if kind != Some(Kind::Flag) {
                for (row, flag) in &named.flags {
                    self.rest.push((*row, name(code).into(), json_of(Value::Flag(*flag))));
                }
            }
            let Some(place) = place else { continue };
            columns[place] = match chosen[place].kind {
                Kind::Text => {
                    let mut codes = vec![ABSENT; rows];
                    named.texts.iter().for_each(|(row, code)| codes[*row as usize] = *code);
                    Column::Coded { codes, dictionary: Arc::new(named.interner.dictionary) }
                }
                Kind::Number => {
                    let mut values = vec![f64::NAN; rows];
                    named.numbers.iter().for_each(|(row, number)| values[*row as usize] = *number);
                    Column::Numbers(values)
                }
                Kind::Flag => {
                    let mut codes = vec![ABSENT; rows];
                    named.flags.iter().for_each(|(row, flag)| codes[*row as usize] = u32::from(*flag));
                    Column::Coded { codes, dictionary: flags() }
                }
            };
        }
        let (rest, names) = rest_column(rows, self.rest, &self.malformed);
        columns.push(rest);
        (Shape { properties: chosen, rest: names }, columns)
    }
}

/// Returns the dictionary of every column of flags.
pub(crate) fn flags() -> Arc<crate::columns::Dictionary> {
    let mut dictionary = crate::columns::Dictionary::default();
    dictionary.push(Value::Flag(false));
    dictionary.push(Value::Flag(true));
    Arc::new(dictionary)
}

fn json_of(value: Value<'_>) -> Box<str> {
    let mut writer = ObjectWriter::default();
    writer.push_json_value(value);
    writer.text.into()
}

fn rest_column(
    rows: usize,
    mut members: Vec<(u32, Box<str>, Box<str>)>,
    malformed: &[(u32, Box<str>)],
) -> (Column, RestNames) {
    let mut names = RestNames::default();
    if members.is_empty() && malformed.is_empty() {
        return (Column::Absent, names);
    }
    members.sort_by_key(|(row, _, _)| *row);
    let (mut codes, mut interner, mut scratch) =
        (vec![ABSENT; rows], Interner::default(), Scratch::default());
    for of_row in members.chunk_by(|one, other| one.0 == other.0) {
        let mut writer = ObjectWriter::default();
        of_row.iter().for_each(|(_, name, json)| writer.push(name, json));
        let text = writer.finish().expect("each row has a member");
        names.count(text, &mut scratch);
        codes[of_row[0].0 as usize] = interner.intern(Value::Text(text));
    }
    for (row, text) in malformed {
        names.others = true;
        codes[*row as usize] = interner.intern(Value::Text(text));
    }
    (Column::Coded { codes, dictionary: Arc::new(interner.dictionary) }, names)
}

impl Table {
    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.chunk.rows()
    }
}
