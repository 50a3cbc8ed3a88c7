//! What a range of the log changes: from events to additions, before any store knows.
//!
//! Deltas merge by exact addition and union, so how the log is cut into ranges never matters. Rows stand in the order
//! of their first appearance, so a store that admits only so many values per dimension admits the same ones.

use std::hash::{BuildHasher, Hasher};

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::event::Dimension;
use crate::record::Stored;
use crate::rollup::{Bucket, Cell};
use crate::series::{Cut, EVENTS, TUPLE_SEPARATOR};

/// Rows that one event of a metric touches: the total, each dimension, the tuple.
const ROWS: usize = Dimension::COUNT + 2;
const TUPLE: usize = ROWS - 1;

/// Additions to rollups, by row and minute.
#[derive(Default)]
pub struct Deltas {
    rows: Vec<RowData>,
    row_index: HashTable<u32>,
    places: Vec<Place>,
    place_index: HashTable<u32>,
    text: Vec<u8>,
    hasher: DefaultHashBuilder,
    metric: MetricMemo,
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
    /// What to add.
    pub cell: &'a Cell,
}

struct RowData {
    game: u32,
    minute: u32,
    cut: Cut,
    metric: Text,
    value: Text,
    since: u64,
    cell: Cell,
}

/// Where events of one name with the same dimension values in the same minute are counted.
struct Place {
    game: u32,
    minute: u32,
    metric: Text,
    dimensions: [Text; Dimension::COUNT],
    own: [u32; ROWS],
    /// The rows of [`EVENTS`]; absent for metrics that are not events themselves.
    all: Option<[u32; ROWS]>,
}

/// A piece of the text arena.
#[derive(Clone, Copy, Default)]
struct Text {
    start: u32,
    length: u32,
}

/// The text of the metric before, which is often that of the next.
#[derive(Default)]
struct MetricMemo {
    text: Text,
}

impl Text {
    fn of(self, text: &[u8]) -> &[u8] {
        &text[self.start as usize..(self.start + self.length) as usize]
    }
}

impl Deltas {
    /// What is added from here on stands in the log's entry at this offset. Offsets do not go back.
    pub fn entry(&mut self, offset: u64) {
        self.offset = offset;
    }

    /// Counts an event under its own name and under [`EVENTS`].
    pub fn event(&mut self, game: u32, event: &Stored<'_>, player: Option<u64>) {
        let place = self.place(game, event.name, event, true);
        self.add(place, player, event.value);
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
        let place = self.place(game, metric.as_bytes(), event, false);
        self.add(place, player, value);
    }

    /// Adds to a plain counter.
    pub fn count(&mut self, game: u32, metric: &str, minute: u32, count: u32) {
        let memo = self.intern_metric(metric.as_bytes());
        let row = self.row(game, minute, memo, Cut::Total, b"");
        self.rows[row as usize].cell.count += i64::from(count);
    }

    /// The rows in the order of their first appearance.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|row| Row {
            game: row.game,
            metric: text(row.metric.of(&self.text)),
            cut: row.cut,
            value: text(row.value.of(&self.text)),
            minute: row.minute,
            since: row.since,
            cell: &row.cell,
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
        self.rows.clear();
        self.row_index.clear();
        self.places.clear();
        self.place_index.clear();
        self.text.clear();
        self.metric = MetricMemo::default();
    }

    #[inline]
    fn add(&mut self, place: u32, player: Option<u64>, value: Option<f64>) {
        let place = &self.places[place as usize];
        // The bucket of a quantile is the same in every row: found once.
        let measured = value.map(|value| (value, Bucket::of(value)));
        for row in &place.own[..TUPLE] {
            self.rows[*row as usize].cell.observe(player, measured);
        }
        self.rows[place.own[TUPLE] as usize].cell.observe(None, measured);
        if let Some(all) = &place.all {
            for row in &all[..TUPLE] {
                self.rows[*row as usize].cell.observe(player, None);
            }
            self.rows[all[TUPLE] as usize].cell.observe(None, None);
        }
    }

    #[inline]
    fn place(&mut self, game: u32, metric: &[u8], event: &Stored<'_>, is_event: bool) -> u32 {
        let minute = minute_of(event.ts_ms);
        let hash = self.place_hash(game, minute, metric, &event.dimensions);
        let (places, arena) = (&self.places, &self.text);
        let found = self.place_index.find(hash, |place| {
            let place = &places[*place as usize];
            place.game == game
                && place.minute == minute
                && place.all.is_some() == is_event
                && place.metric.of(arena) == metric
                && place.dimensions.iter().zip(&event.dimensions).all(|(own, other)| own.of(arena) == *other)
        });
        match found {
            Some(place) => *place,
            None => self.new_place(hash, game, minute, metric, &event.dimensions, is_event),
        }
    }

    fn place_hash(&self, game: u32, minute: u32, metric: &[u8], dimensions: &[&[u8]]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u64(u64::from(game) << 32 | u64::from(minute));
        hasher.write(metric);
        for (index, value) in dimensions.iter().enumerate() {
            if !value.is_empty() {
                hasher.write(value);
                hasher.write_usize(index);
            }
        }
        hasher.finish()
    }

    #[cold]
    fn new_place(
        &mut self,
        hash: u64,
        game: u32,
        minute: u32,
        metric: &[u8],
        dimensions: &[&[u8]; Dimension::COUNT],
        is_event: bool,
    ) -> u32 {
        let metric = self.intern_metric(metric);
        let own = self.cuts(game, minute, metric, dimensions);
        let all = is_event.then(|| {
            let metric = self.intern_metric(EVENTS.as_bytes());
            self.cuts(game, minute, metric, dimensions)
        });
        let dimensions = dimensions.map(|value| self.keep(value));
        let place = self.places.len() as u32;
        self.places.push(Place { game, minute, metric, dimensions, own, all });
        let (places, text, hasher) = (&self.places, &self.text, &self.hasher);
        self.place_index.insert_unique(hash, place, |place| {
            let place = &places[*place as usize];
            rehash_place(hasher, text, place)
        });
        place
    }

    /// The rows of a metric that an event with these dimensions belongs to.
    fn cuts(
        &mut self,
        game: u32,
        minute: u32,
        metric: Text,
        dimensions: &[&[u8]; Dimension::COUNT],
    ) -> [u32; ROWS] {
        let mut rows = [0; ROWS];
        rows[0] = self.row(game, minute, metric, Cut::Total, b"");
        for (dimension, value) in Dimension::ALL.into_iter().zip(dimensions) {
            rows[1 + dimension as usize] = self.row(game, minute, metric, Cut::By(dimension), value);
        }
        rows[TUPLE] = self.row(game, minute, metric, Cut::Tuple, &tuple(dimensions));
        rows
    }

    fn row(&mut self, game: u32, minute: u32, metric: Text, cut: Cut, value: &[u8]) -> u32 {
        let hash = row_hash(&self.hasher, game, minute, metric.of(&self.text), cut, value);
        let (rows, arena) = (&self.rows, &self.text);
        let found = self.row_index.find(hash, |row| {
            let row = &rows[*row as usize];
            row.game == game
                && row.minute == minute
                && row.cut == cut
                && row.value.of(arena) == value
                && row.metric.of(arena) == metric.of(arena)
        });
        if let Some(row) = found {
            return *row;
        }
        let value = self.keep(value);
        let index = self.rows.len() as u32;
        let since = self.offset;
        self.rows.push(RowData { game, minute, cut, metric, value, since, cell: Cell::default() });
        let (rows, text, hasher) = (&self.rows, &self.text, &self.hasher);
        self.row_index.insert_unique(hash, index, |row| {
            let row = &rows[*row as usize];
            row_hash(hasher, row.game, row.minute, row.metric.of(text), row.cut, row.value.of(text))
        });
        index
    }

    fn intern_metric(&mut self, metric: &[u8]) -> Text {
        if self.metric.text.of(&self.text) != metric {
            self.metric.text = self.keep(metric);
        }
        self.metric.text
    }

    fn keep(&mut self, text: &[u8]) -> Text {
        let start = self.text.len() as u32;
        self.text.extend_from_slice(text);
        Text { start, length: text.len() as u32 }
    }
}

/// The value of a [`Cut::Tuple`] row.
fn tuple(dimensions: &[&[u8]; Dimension::COUNT]) -> Vec<u8> {
    let mut value = Vec::with_capacity(64);
    for (index, part) in dimensions.iter().enumerate() {
        if index > 0 {
            value.push(TUPLE_SEPARATOR as u8);
        }
        let replaced = |byte: &u8| if *byte == TUPLE_SEPARATOR as u8 { b' ' } else { *byte };
        value.extend(part.iter().map(replaced));
    }
    value
}

fn row_hash(
    hasher: &DefaultHashBuilder,
    game: u32,
    minute: u32,
    metric: &[u8],
    cut: Cut,
    value: &[u8],
) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write_u64(u64::from(game) << 32 | u64::from(minute));
    hasher.write_u8(cut.code());
    hasher.write(metric);
    hasher.write(value);
    hasher.finish()
}

fn rehash_place(hasher: &DefaultHashBuilder, text: &[u8], place: &Place) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write_u64(u64::from(place.game) << 32 | u64::from(place.minute));
    hasher.write(place.metric.of(text));
    for (index, value) in place.dimensions.iter().enumerate() {
        if value.length > 0 {
            hasher.write(value.of(text));
            hasher.write_usize(index);
        }
    }
    hasher.finish()
}

fn minute_of(ts_ms: i64) -> u32 {
    (ts_ms / 60_000).clamp(0, i64::from(u32::MAX)) as u32
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("names and dimensions were checked to be UTF-8 at admission")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    /// Each line is `minute name player country level value`, `-` for nothing.
    fn deltas(events: &str) -> Deltas {
        let mut deltas = Deltas::default();
        for (offset, line) in events.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate() {
            let words: Vec<&str> = line.split(' ').map(|word| if word == "-" { "" } else { word }).collect();
            let mut dimensions: [&[u8]; Dimension::COUNT] = [b""; Dimension::COUNT];
            dimensions[Dimension::Country as usize] = words[3].as_bytes();
            dimensions[Dimension::Level as usize] = words[4].as_bytes();
            let event = Stored {
                ts_ms: words[0].parse::<i64>().unwrap() * 60_000,
                name: words[1].as_bytes(),
                value: words[5].parse().ok(),
                dimensions,
                ..Stored::default()
            };
            deltas.entry(offset as u64);
            deltas.event(1, &event, words[2].bytes().next().map(u64::from));
        }
        deltas
    }

    fn check(events: &str, cuts: &[Cut], expected: Expect) {
        let mut lines = String::new();
        for row in deltas(events).rows().filter(|row| cuts.contains(&row.cut)) {
            let sum = row.cell.values.as_ref().map_or("-".into(), |values| values.sum.value().to_string());
            let value = row.value.replace(TUPLE_SEPARATOR, ",");
            let (count, players) = (row.cell.count, row.cell.players.count());
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
                7 score '' 2 sum 15 players 2
                7 $events '' 2 sum - players 2
                8 start '' 1 sum - players 1
                8 $events '' 1 sum - players 1
            "#]],
        );
    }

    #[test]
    fn rows_stand_in_the_order_of_their_first_event() {
        check(
            "7 score ann FR 3 10
             7 score bo DE 3 5
             7 score ann FR 3 1",
            &[Cut::By(Dimension::Country)],
            expect![[r#"
                7 score 'FR' 2 sum 11 players 1
                7 $events 'FR' 2 sum - players 1
                7 score 'DE' 1 sum 5 players 1
                7 $events 'DE' 1 sum - players 1
            "#]],
        );
    }

    #[test]
    fn an_event_without_a_dimension_stands_in_the_row_without_a_value() {
        check(
            "7 score ann - - 10",
            &[Cut::By(Dimension::Level), Cut::Tuple],
            expect![[r#"
                7 score '' 1 sum 10 players 1
                7 score ',,,,' 1 sum 10 players 0
                7 $events '' 1 sum - players 1
                7 $events ',,,,' 1 sum - players 0
            "#]],
        );
    }
}
