//! What a range of the log changes: from events to additions, before any store knows.
//!
//! An event is written down once, with the numbers of the seven rows of its metric that it belongs to; those of
//! declared dimensions stand beside, so that they cost nothing where there are none. What a row adds is gathered from its events when a store asks, straight into the store's own cells: nothing is counted twice on the
//! way, and nothing is allocated for an event.
//!
//! Samples, which were added up on the way in, are rows of their own: beside an event of the same name, not among them.
//!
//! Deltas merge by exact addition and union, so how the log is cut into ranges never matters. Rows of one metric and
//! cut stand in the order of their first appearance, so a store that admits only so many values per dimension admits
//! the same ones.

mod values;

use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use rustc_hash::FxBuildHasher;

use crate::event::Dimension;
use crate::limits::VALUES_PER_DIMENSION;
use crate::record::Stored;
use crate::rollup::{Bucket, Cell};
use crate::series::{Cut, EVENTS, TUPLE_SEPARATOR};
use values::{Text, Values, mixed};

/// Rows that one event of a metric touches: the total, each dimension, the tuple.
const ROWS: usize = Dimension::COUNT + 2;
const TUPLE: usize = ROWS - 1;
const NONE: u32 = u32::MAX;

/// Additions to rollups, by row and minute.
#[derive(Default)]
pub struct Deltas {
    metrics: Vec<Metric>,
    metric_index: HashTable<u32>,
    rows: Vec<RowData>,
    /// How many events each row has.
    counts: Vec<u32>,
    by_index: HashTable<(u64, u32)>,
    tuples: Vec<Tuple>,
    tuple_index: HashTable<u32>,
    values: [Values; Dimension::COUNT],
    /// The values of declared dimensions, by the dimension's number.
    declared: Vec<Values>,
    declared_index: HashTable<DeclaredRow>,
    events: Vec<Observed>,
    event_rows: Vec<[u32; ROWS]>,
    /// Events with the rows of their declared dimensions.
    declared_rows: Vec<(u32, u32)>,
    /// What samples add. One of them is an event whose player is the place here.
    cells: Vec<Cell>,
    /// Of games whose batches did not all keep the usual number of values.
    limits: HashMap<u32, Limit, FxBuildHasher>,
    limit: Limit,
    lists: OnceLock<Lists>,
    text: String,
    hasher: DefaultHashBuilder,
    offset: u64,
}

/// One row's additions in one minute.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    /// The tenant.
    pub game: u32,
    /// The event name, or [`EVENTS`].
    pub metric: &'a str,
    /// How the metric is cut.
    pub cut: Cut,
    /// The row's value; empty for [`Cut::Total`].
    pub value: &'a str,
    /// Minutes since 1970-01-01 UTC.
    pub minute: u32,
    /// The log offset of the first entry that added to it.
    pub since: u64,
    /// Values of a dimension that the game kept per day when the row's events were admitted.
    pub values_max: u32,
    /// The same number for all rows of one game, metric and minute, counted from 0.
    pub metric_minute: usize,
    deltas: &'a Deltas,
    row: u32,
}

/// A metric that is added to in a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched<'a> {
    /// The tenant.
    pub game: u32,
    /// The event name, or [`EVENTS`].
    pub metric: &'a str,
    /// Minutes since 1970-01-01 UTC.
    pub minute: u32,
}

/// A metric of a game in a minute.
struct Metric {
    game: u32,
    minute: u32,
    name: Text,
    limit: Limit,
    kind: Kind,
    /// Where its events count as well: [`EVENTS`], for metrics that are events themselves.
    all: u32,
    total: u32,
    /// The rows of events without a dimension.
    without: [u32; Dimension::COUNT],
}

/// What is counted. Of one name there may be all three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Events, which count among all events as well.
    Events,
    /// What events meant.
    Derived,
    /// Values that were added up before.
    Samples,
}

struct RowData {
    metric: u32,
    cut: Cut,
    value: Text,
    since: u64,
    /// Counted without an event.
    plain: i64,
    /// Its only event, if it has one.
    first: u32,
    /// The rows whose events are its own: a list from here on, by `sibling`.
    child: u32,
    sibling: u32,
}

/// How many values of a dimension are kept per day.
///
/// Events before and after a change have rows of their own, in their order, so that which values are kept follows the
/// order of the log alone.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Limit {
    values_max: u32,
    /// Counts the changes.
    change: u32,
}

impl Default for Limit {
    fn default() -> Limit {
        Limit { values_max: VALUES_PER_DIMENSION, change: 0 }
    }
}

struct DeclaredRow {
    metric: u32,
    number: u8,
    value: u32,
    row: u32,
}

struct Tuple {
    metric: u32,
    values: [u32; Dimension::COUNT],
    row: u32,
}

/// An event as the cells see it.
#[derive(Clone, Copy)]
struct Observed {
    /// The hash, or 0 for nobody: as a hash that counts as 1.
    player: u64,
    /// Not a number: none.
    value: f64,
    /// Of the value: it is the same in every row and found once.
    bucket: Bucket,
}

/// The events of each row with more than one, row by row.
#[derive(Default)]
struct Lists {
    /// Where the events of a row begin.
    starts: Vec<u32>,
    events: Vec<u32>,
}

impl Deltas {
    /// What is added from here on stands in the log's entry at this offset. Offsets do not go back.
    pub fn entry(&mut self, offset: u64) {
        self.offset = offset;
    }

    /// The events that follow are of a game that keeps so many values of a dimension per day.
    pub fn values_max(&mut self, game: u32, values_max: u32) {
        if self.limits.is_empty() && values_max == VALUES_PER_DIMENSION {
            self.limit = Limit::default();
            return;
        }
        let limit = self.limits.entry(game).or_default();
        if limit.values_max != values_max {
            *limit = Limit { values_max, change: limit.change + 1 };
        }
        self.limit = *limit;
    }

    /// Counts an event under its own name and under [`EVENTS`].
    pub fn event(&mut self, game: u32, event: &Stored<'_>, player: Option<u64>) {
        let metric = self.metric(game, minute_of(event.ts_ms), event.name, Kind::Events);
        self.observe(metric, event, player, event.value);
    }

    /// Adds what samples add, under their own name and the event's dimensions.
    pub fn samples(&mut self, game: u32, event: &Stored<'_>, cell: Cell) {
        let metric = self.metric(game, minute_of(event.ts_ms), event.name, Kind::Samples);
        let place = self.cells.len() as u64;
        self.cells.push(cell);
        self.observe(metric, event, Some(place), None);
    }

    /// Counts something that an event meant under a metric of its own, with the event's dimensions.
    pub fn derived(
        &mut self,
        game: u32,
        metric: &str,
        event: &Stored<'_>,
        player: Option<u64>,
        value: Option<f64>,
    ) {
        let metric = self.metric(game, minute_of(event.ts_ms), metric.as_bytes(), Kind::Derived);
        self.observe(metric, event, player, value);
    }

    /// Adds to a plain counter.
    pub fn count(&mut self, game: u32, metric: &str, minute: u32, count: u32) {
        let metric = self.metric(game, minute, metric.as_bytes(), Kind::Derived);
        let total = self.metrics[metric as usize].total;
        self.rows[total as usize].plain += i64::from(count);
    }

    /// The rows. Those of one metric and cut stand in the order of their first appearance.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.rows.len() as u32).map(|row| self.row_at(row))
    }

    /// What is added to, without its rows: one for each metric and minute, or a few.
    pub fn touched(&self) -> impl Iterator<Item = Touched<'_>> {
        self.metrics.iter().map(|metric| Touched {
            game: metric.game,
            metric: metric.name.of(&self.text),
            minute: metric.minute,
        })
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Forgets everything but the memory it stands in.
    pub fn clear(&mut self) {
        self.metrics.clear();
        self.metric_index.clear();
        self.rows.clear();
        self.counts.clear();
        self.by_index.clear();
        self.tuples.clear();
        self.tuple_index.clear();
        self.values.iter_mut().chain(&mut self.declared).for_each(Values::clear);
        self.declared_index.clear();
        self.events.clear();
        self.event_rows.clear();
        self.declared_rows.clear();
        self.cells.clear();
        self.limits.clear();
        self.limit = Limit::default();
        self.lists.take();
        self.text.clear();
    }

    #[inline]
    fn observe(&mut self, metric: u32, stored: &Stored<'_>, player: Option<u64>, value: Option<f64>) {
        debug_assert!(self.lists.get().is_none(), "rows are read when all events are in");
        let values = std::array::from_fn(|dimension| {
            self.values[dimension].number_of(stored.dimensions[dimension], &self.hasher, &mut self.text)
        });
        let mut rows = [self.metrics[metric as usize].total; ROWS];
        for dimension in Dimension::ALL {
            rows[1 + dimension as usize] = self.by(metric, dimension, values[dimension as usize]);
        }
        rows[TUPLE] = self.tuple(metric, &values);
        let event = self.events.len() as u32;
        rows.iter().for_each(|row| self.counted(*row, event));
        for (number, value) in stored.declared {
            self.observe_declared(metric, event, number, value);
        }
        let (value, bucket) = value.map_or((f64::NAN, Bucket::default()), |value| (value, Bucket::of(value)));
        let player = match self.metrics[metric as usize].kind {
            Kind::Samples => player.unwrap_or_default(),
            _ => player.map_or(0, |hash| hash.max(1)),
        };
        self.events.push(Observed { player, value, bucket });
        self.event_rows.push(rows);
    }

    #[inline]
    fn counted(&mut self, row: u32, event: u32) {
        let row = row as usize;
        if self.counts[row] == 0 {
            self.rows[row].first = event;
        }
        self.counts[row] += 1;
    }

    fn observe_declared(&mut self, metric: u32, event: u32, number: u8, value: &[u8]) {
        let place = usize::from(number);
        if self.declared.len() <= place {
            self.declared.resize_with(place + 1, Values::default);
        }
        let value = self.declared[place].number_of(value, &self.hasher, &mut self.text);
        let row = self.by_declared(metric, number, value);
        self.counted(row, event);
        self.declared_rows.push((event, row));
    }

    fn metric(&mut self, game: u32, minute: u32, name: &[u8], kind: Kind) -> u32 {
        let hash = metric_hash(&self.hasher, game, minute, name);
        let (metrics, text) = (&self.metrics, &self.text);
        let found = self.metric_index.find(hash, |metric| {
            let metric = &metrics[*metric as usize];
            metric.game == game
                && metric.minute == minute
                && metric.limit == self.limit
                && metric.kind == kind
                && metric.name.of(text).as_bytes() == name
        });
        match found {
            Some(metric) => *metric,
            None => self.new_metric(hash, game, minute, name, kind),
        }
    }

    #[cold]
    fn new_metric(&mut self, hash: u64, game: u32, minute: u32, name: &[u8], kind: Kind) -> u32 {
        let name = Text::push(&mut self.text, name);
        let is_event = kind == Kind::Events;
        let all = if is_event { self.metric(game, minute, EVENTS.as_bytes(), Kind::Derived) } else { NONE };
        let metric = self.metrics.len() as u32;
        let without = [NONE; Dimension::COUNT];
        let limit = self.limit;
        self.metrics.push(Metric { game, minute, name, limit, kind, all, total: NONE, without });
        let (metrics, text, hasher) = (&self.metrics, &self.text, &self.hasher);
        self.metric_index.insert_unique(hash, metric, |metric| {
            let metric = &metrics[*metric as usize];
            metric_hash(hasher, metric.game, metric.minute, metric.name.of(text).as_bytes())
        });
        let total_of_all = if is_event { self.metrics[all as usize].total } else { NONE };
        self.metrics[metric as usize].total = self.new_row(metric, Cut::Total, Text::default(), total_of_all);
        metric
    }

    /// The row by one dimension.
    #[inline]
    fn by(&mut self, metric: u32, dimension: Dimension, value: u32) -> u32 {
        if value == 0 && self.metrics[metric as usize].without[dimension as usize] != NONE {
            return self.metrics[metric as usize].without[dimension as usize];
        }
        let key = u64::from(metric) << 35 | (dimension as u64) << 32 | u64::from(value);
        match self.by_index.find(mixed(key), |(other, _)| *other == key) {
            Some((_, row)) => *row,
            None => self.new_by(key, metric, dimension, value),
        }
    }

    #[cold]
    fn new_by(&mut self, key: u64, metric: u32, dimension: Dimension, value: u32) -> u32 {
        let all = self.metrics[metric as usize].all;
        let all = if all == NONE { NONE } else { self.by(all, dimension, value) };
        let text = self.values[dimension as usize].text(value);
        let row = self.new_row(metric, Cut::By(dimension), text, all);
        if value == 0 {
            self.metrics[metric as usize].without[dimension as usize] = row;
        } else {
            self.by_index.insert_unique(mixed(key), (key, row), |(key, _)| mixed(*key));
        }
        row
    }

    /// The row by one declared dimension.
    fn by_declared(&mut self, metric: u32, number: u8, value: u32) -> u32 {
        let hash = declared_hash(metric, number, value);
        let same = |row: &DeclaredRow| (row.metric, row.number, row.value) == (metric, number, value);
        match self.declared_index.find(hash, same) {
            Some(found) => found.row,
            None => self.new_by_declared(hash, metric, number, value),
        }
    }

    #[cold]
    fn new_by_declared(&mut self, hash: u64, metric: u32, number: u8, value: u32) -> u32 {
        let all = self.metrics[metric as usize].all;
        let all = if all == NONE { NONE } else { self.by_declared(all, number, value) };
        let text = self.declared[usize::from(number)].text(value);
        let row = self.new_row(metric, Cut::Declared(number), text, all);
        let rehash = |row: &DeclaredRow| declared_hash(row.metric, row.number, row.value);
        self.declared_index.insert_unique(hash, DeclaredRow { metric, number, value, row }, rehash);
        row
    }

    /// The row of a combination.
    #[inline]
    fn tuple(&mut self, metric: u32, values: &[u32; Dimension::COUNT]) -> u32 {
        let hash = tuple_hash(metric, values);
        let tuples = &self.tuples;
        let found = self.tuple_index.find(hash, |tuple| {
            let tuple = &tuples[*tuple as usize];
            tuple.metric == metric && tuple.values == *values
        });
        match found {
            Some(tuple) => tuples[*tuple as usize].row,
            None => self.new_tuple(hash, metric, values),
        }
    }

    fn new_tuple(&mut self, hash: u64, metric: u32, values: &[u32; Dimension::COUNT]) -> u32 {
        let all = self.metrics[metric as usize].all;
        let all = if all == NONE { NONE } else { self.tuple(all, values) };
        let text = match all {
            NONE => self.tuple_text(values),
            all => self.rows[all as usize].value,
        };
        let row = self.new_row(metric, Cut::Tuple, text, all);
        let tuple = self.tuples.len() as u32;
        self.tuples.push(Tuple { metric, values: *values, row });
        let tuples = &self.tuples;
        self.tuple_index.insert_unique(hash, tuple, |tuple| {
            let tuple = &tuples[*tuple as usize];
            tuple_hash(tuple.metric, &tuple.values)
        });
        row
    }

    fn tuple_text(&mut self, values: &[u32; Dimension::COUNT]) -> Text {
        let start = self.text.len();
        for (dimension, value) in values.iter().enumerate() {
            if dimension > 0 {
                self.text.push(TUPLE_SEPARATOR);
            }
            let part = self.values[dimension].text_in_tuple(*value);
            self.text.extend_from_within(part.range());
        }
        Text::since(start, &self.text)
    }

    fn new_row(&mut self, metric: u32, cut: Cut, value: Text, all: u32) -> u32 {
        let row = self.rows.len() as u32;
        let sibling = match self.rows.get_mut(all as usize) {
            Some(all) => std::mem::replace(&mut all.child, row),
            None => NONE,
        };
        let since = self.offset;
        self.rows.push(RowData { metric, cut, value, since, plain: 0, first: NONE, child: NONE, sibling });
        self.counts.push(0);
        row
    }

    #[inline]
    fn row_at(&self, row: u32) -> Row<'_> {
        let data = &self.rows[row as usize];
        let metric = &self.metrics[data.metric as usize];
        Row {
            game: metric.game,
            metric: metric.name.of(&self.text),
            cut: data.cut,
            value: data.value.of(&self.text),
            minute: metric.minute,
            since: data.since,
            values_max: metric.limit.values_max,
            metric_minute: data.metric as usize,
            deltas: self,
            row,
        }
    }

    fn lists(&self) -> &Lists {
        self.lists.get_or_init(|| Lists::of(&self.counts, &self.event_rows, &self.declared_rows))
    }
}

impl Lists {
    /// Rows with one event need no list.
    fn of(counts: &[u32], event_rows: &[[u32; ROWS]], declared_rows: &[(u32, u32)]) -> Lists {
        let mut next = 0;
        let start = |count: &u32| {
            let start = next;
            next += if *count > 1 { *count } else { 0 };
            start
        };
        let starts: Vec<u32> = counts.iter().map(start).collect();
        let (mut ends, mut events) = (starts.clone(), vec![0; next as usize]);
        let mut put = |event: u32, row: u32| {
            let row = row as usize;
            if counts[row] > 1 {
                events[ends[row] as usize] = event;
                ends[row] += 1;
            }
        };
        for (event, rows) in event_rows.iter().enumerate() {
            rows.iter().for_each(|row| put(event as u32, *row));
        }
        declared_rows.iter().for_each(|(event, row)| put(*event, *row));
        Lists { starts, events }
    }
}

impl<'a> Row<'a> {
    /// How many events there are, or how many the samples stand for.
    pub fn count(&self) -> i64 {
        let data = &self.deltas.rows[self.row as usize];
        if self.is_of_samples() {
            return self.cells().map(|cell| cell.count).sum();
        }
        let own = data.plain + i64::from(self.deltas.counts[self.row as usize]);
        own + self.children().map(|child| i64::from(self.deltas.counts[child as usize])).sum::<i64>()
    }

    /// Adds it to a cell.
    pub fn add_to(&self, cell: &mut Cell) {
        if self.is_of_samples() {
            return self.add_samples_to(cell);
        }
        cell.count = cell.count.wrapping_add(self.count());
        let observed = |event: &u32| self.deltas.events[*event as usize];
        if self.cut != Cut::Tuple {
            let players = |events: &'a [u32]| events.iter().map(observed).map(|event| event.player);
            let players = |events| players(events).filter(|player| *player != 0);
            cell.players.extend(players(self.events_of(self.row)));
            self.children().for_each(|child| cell.players.extend(players(self.events_of(child))));
        }
        let values = self.events_of(self.row).iter().map(observed).filter(|event| !event.value.is_nan());
        cell.observe_values(values.map(|event| (event.value, event.bucket)));
    }

    /// All of it.
    pub fn cell(&self) -> Cell {
        let mut cell = Cell::default();
        self.add_to(&mut cell);
        cell
    }

    fn is_of_samples(&self) -> bool {
        self.deltas.metrics[self.metric_minute].kind == Kind::Samples
    }

    fn cells(&self) -> impl Iterator<Item = &'a Cell> {
        let deltas = self.deltas;
        self.events_of(self.row)
            .iter()
            .map(|event| &deltas.cells[deltas.events[*event as usize].player as usize])
    }

    fn add_samples_to(&self, cell: &mut Cell) {
        for samples in self.cells() {
            match self.cut {
                Cut::Tuple => {
                    let Cell { count, values, .. } = samples;
                    cell.merge(&Cell { count: *count, values: values.clone(), ..Cell::default() });
                }
                _ => cell.merge(samples),
            }
        }
    }

    fn children(&self) -> impl Iterator<Item = u32> {
        let rows = &self.deltas.rows;
        let some = |row: u32| (row != NONE).then_some(row);
        std::iter::successors(some(rows[self.row as usize].child), move |row| {
            some(rows[*row as usize].sibling)
        })
    }

    fn events_of(&self, row: u32) -> &'a [u32] {
        let row = row as usize;
        match self.deltas.counts[row] as usize {
            0 => &[],
            1 => std::slice::from_ref(&self.deltas.rows[row].first),
            count => {
                let lists = self.deltas.lists();
                &lists.events[lists.starts[row] as usize..][..count]
            }
        }
    }
}

fn metric_hash(hasher: &DefaultHashBuilder, game: u32, minute: u32, name: &[u8]) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write_u64(u64::from(game) << 32 | u64::from(minute));
    hasher.write(name);
    hasher.finish()
}

#[inline]
fn tuple_hash(metric: u32, values: &[u32; Dimension::COUNT]) -> u64 {
    let [one, two, three, four, five] = values.map(u64::from);
    mixed(mixed(mixed(u64::from(metric) << 32 | one) ^ (two << 32 | three)) ^ (four << 32 | five))
}

fn declared_hash(metric: u32, number: u8, value: u32) -> u64 {
    mixed(mixed(u64::from(metric) << 32 | u64::from(value)) ^ u64::from(number))
}

fn minute_of(ts_ms: i64) -> u32 {
    (ts_ms / 60_000).clamp(0, i64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Declared;
    use expect_test::{Expect, expect};

    /// Each line is `minute name player country level value`, `-` for nothing, and then `number=value` for each
    /// declared dimension; a line `values N` says how many values are kept from there on.
    fn deltas(events: &str) -> Deltas {
        let mut deltas = Deltas::default();
        for (offset, line) in events.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate() {
            if let Some(values_max) = line.strip_prefix("values ") {
                deltas.values_max(1, values_max.parse().unwrap());
                continue;
            }
            let words: Vec<&str> = line.split(' ').map(|word| if word == "-" { "" } else { word }).collect();
            let mut dimensions: [&[u8]; Dimension::COUNT] = [b""; Dimension::COUNT];
            dimensions[Dimension::Country as usize] = words[3].as_bytes();
            dimensions[Dimension::Level as usize] = words[4].as_bytes();
            let declared = declared(&words[6..]);
            let event = Stored {
                ts_ms: words[0].parse::<i64>().unwrap() * 60_000,
                name: words[1].as_bytes(),
                value: words[5].parse().ok(),
                dimensions,
                declared: Declared::of(&declared),
                ..Stored::default()
            };
            deltas.entry(offset as u64);
            deltas.event(1, &event, words[2].bytes().next().map(u64::from));
        }
        deltas
    }

    fn declared(words: &[&str]) -> Vec<u8> {
        let mut list = Vec::new();
        for (number, value) in words.iter().filter_map(|word| word.split_once('=')) {
            Declared::put(&mut list, number.parse().unwrap(), value.as_bytes());
        }
        list
    }

    fn check(events: &str, cuts: &[Cut], expected: Expect) {
        let mut lines = String::new();
        for row in deltas(events).rows().filter(|row| cuts.contains(&row.cut)) {
            let cell = row.cell();
            assert_eq!(cell.count, row.count());
            let sum = cell.values.as_ref().map_or("-".into(), |values| values.sum.value().to_string());
            let value = row.value.replace(TUPLE_SEPARATOR, ",");
            let (count, players) = (cell.count, cell.players.count());
            lines +=
                &format!("{} {} '{value}' {count} sum {sum} players {players}\n", row.minute, row.metric);
        }
        expected.assert_eq(&lines);
    }

    #[test]
    fn an_event_counts_under_its_name_and_under_all_events() {
        check(
            "7 score ann FR 3 10
             7 score bo FR 4 5
             8 start ann FR - -",
            &[Cut::Total],
            expect![[r#"
                7 $events '' 2 sum - players 2
                7 score '' 2 sum 15 players 2
                8 $events '' 1 sum - players 1
                8 start '' 1 sum - players 1
            "#]],
        );
    }

    #[test]
    fn samples_stand_beside_events_of_the_same_name_and_are_no_events() {
        let mut deltas = deltas("7 hits ann FR - 10");
        for (country, values) in [("FR", [1.0, 2.0]), ("DE", [4.0, 8.0]), ("FR", [16.0, 32.0])] {
            let mut cell = Cell::default();
            values
                .iter()
                .for_each(|value| cell.observe(Some(*value as u64), Some((*value, Bucket::of(*value)))));
            let mut event = Stored { ts_ms: 7 * 60_000, name: b"hits", ..Stored::default() };
            event.dimensions[Dimension::Country as usize] = country.as_bytes();
            deltas.samples(1, &event, cell);
        }
        let tell = |cut: Cut| -> Vec<String> {
            let rows = deltas.rows().filter(|row| row.cut == cut);
            let tell = |row: Row<'_>| {
                let cell = row.cell();
                assert_eq!(cell.count, row.count());
                let sum = cell.values.as_ref().map_or(0.0, |values| values.sum.value());
                format!(
                    "{} '{}' {} sum {sum} by {}",
                    row.metric,
                    row.value.replace(TUPLE_SEPARATOR, ","),
                    cell.count,
                    cell.players.count()
                )
            };
            rows.map(tell).collect()
        };
        assert_eq!(
            tell(Cut::Total),
            ["$events '' 1 sum 0 by 1", "hits '' 1 sum 10 by 1", "hits '' 6 sum 63 by 6"]
        );
        let by_country = tell(Cut::By(Dimension::Country));
        assert_eq!(by_country[2..], ["hits 'FR' 4 sum 51 by 4", "hits 'DE' 2 sum 12 by 2"]);
        let tuples = tell(Cut::Tuple);
        assert_eq!(tuples[2..], ["hits 'FR,,,,' 4 sum 51 by 0", "hits 'DE,,,,' 2 sum 12 by 0"]);
    }

    #[test]
    fn rows_stand_in_the_order_of_their_first_event() {
        check(
            "7 score ann FR 3 10
             7 score bo DE 3 5
             7 score ann FR 3 1",
            &[Cut::By(Dimension::Country)],
            expect![[r#"
                7 $events 'FR' 2 sum - players 1
                7 score 'FR' 2 sum 11 players 1
                7 $events 'DE' 1 sum - players 1
                7 score 'DE' 1 sum 5 players 1
            "#]],
        );
    }

    #[test]
    fn an_event_without_a_dimension_stands_in_the_row_without_a_value() {
        check(
            "7 score ann - - 10",
            &[Cut::By(Dimension::Level), Cut::Tuple],
            expect![[r#"
                7 $events '' 1 sum - players 1
                7 score '' 1 sum 10 players 1
                7 $events ',,,,' 1 sum - players 0
                7 score ',,,,' 1 sum 10 players 0
            "#]],
        );
    }

    #[test]
    fn an_event_counts_under_the_declared_dimensions_it_has_and_under_no_other() {
        check(
            "7 score ann FR 3 10 1=bow 9=hard
             7 score bo FR 4 5 1=bow 0=v3 0=w1
             7 score bo FR 4 -
             7 start ann FR - - 1=axe",
            &[Cut::Declared(1), Cut::Declared(9), Cut::Declared(0)],
            expect![[r#"
                7 $events 'bow' 2 sum - players 2
                7 score 'bow' 2 sum 15 players 2
                7 $events 'hard' 1 sum - players 1
                7 score 'hard' 1 sum 10 players 1
                7 $events 'v3' 1 sum - players 1
                7 score 'v3' 1 sum 5 players 1
                7 $events 'w1' 1 sum - players 1
                7 score 'w1' 1 sum 5 players 1
                7 $events 'axe' 1 sum - players 1
                7 start 'axe' 1 sum - players 1
            "#]],
        );
    }

    #[test]
    fn what_is_touched_is_told_by_metric_and_minute() {
        let deltas = deltas(
            "7 score ann FR 3 10
             7 score bo DE 4 5
             8 start ann FR - -",
        );
        let mut touched: Vec<(&str, u32)> =
            deltas.touched().map(|touched| (touched.metric, touched.minute)).collect();
        touched.sort_unstable();
        assert_eq!(touched, [("$events", 7), ("$events", 8), ("score", 7), ("start", 8)]);
    }

    #[test]
    fn events_before_and_after_a_change_of_the_limit_have_rows_of_their_own() {
        let events = "values 20
             7 score ann FR - -
             values 1000
             7 score ann FR - -
             values 20
             7 score ann FR - -
             values 20
             7 score ann FR - -";
        let deltas = deltas(events);
        let rows =
            deltas.rows().filter(|row| row.cut == Cut::By(Dimension::Country) && row.metric == "score");
        let rows: Vec<(u32, i64)> = rows.map(|row| (row.values_max, row.count())).collect();
        assert_eq!(rows, [(20, 1), (1000, 1), (20, 2)]);
    }
}
