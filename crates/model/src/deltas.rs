//! The changes that a range of the log makes to rollups.
//!
//! Each event is stored once, with the numbers of the seven rows of its metric that it belongs to. Rows of declared
//! dimensions are listed separately, so that they cost nothing when there are none. A store gathers the changes of a
//! row from its events directly into its own aggregates: nothing is counted twice on the way and nothing is
//! allocated per event.
//!
//! Samples, which were aggregated on the way in, have rows of their own, separate from events of the same name.
//!
//! Deltas merge by exact addition and union, so splitting the log into ranges does not change the result. Rows of
//! one metric and cut are in the order of their first appearance, so every store that limits the values per
//! dimension keeps the same ones.

mod dimension_values;

use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use rustc_hash::FxBuildHasher;

use crate::batch::StoredEvent;
use crate::event::Dimension;
use crate::limits::VALUES_PER_DIMENSION;
use crate::rollup::{Aggregate, Bucket};
use crate::series::{Cut, EVENTS, SAMPLE_NAMES, SAMPLES, TUPLE_SEPARATOR};
use dimension_values::{DimensionValues, TextRange, mix};

/// Rows per event of a metric: the total, one for each dimension, the combination.
const ROWS: usize = Dimension::COUNT + 2;
const TUPLE: usize = ROWS - 1;
const NONE: u32 = u32::MAX;

/// Changes to rollups, by row and minute.
#[derive(Default)]
pub struct Deltas {
    metrics: Vec<MetricMinute>,
    metric_index: HashTable<u32>,
    rows: Vec<RowData>,
    /// Number of events of each row.
    counts: Vec<u32>,
    dimension_index: HashTable<(u64, u32)>,
    tuples: Vec<TupleRow>,
    tuple_index: HashTable<u32>,
    values: [DimensionValues; Dimension::COUNT],
    /// The values of declared dimensions, by the dimension's number.
    declared: Vec<DimensionValues>,
    declared_index: HashTable<DeclaredRow>,
    events: Vec<ObservedEvent>,
    event_rows: Vec<[u32; ROWS]>,
    /// Events with the rows of their declared dimensions.
    declared_rows: Vec<(u32, u32)>,
    /// Aggregated samples. The `player` of their event is an index into this list.
    aggregates: Vec<Aggregate>,
    /// Games that do not keep the default number of values, or changed it.
    limits: HashMap<u32, ValueLimit, FxBuildHasher>,
    limit: ValueLimit,
    lists: OnceLock<EventLists>,
    text: String,
    hasher: DefaultHashBuilder,
    offset: u64,
}

/// The changes to one row in one minute.
#[derive(Clone, Copy)]
pub struct DeltaRow<'a> {
    /// The tenant.
    pub game: u32,
    /// The event name, or [`EVENTS`].
    pub metric: &'a str,
    /// How the metric is divided into rows.
    pub cut: Cut,
    /// The row's value; empty for [`Cut::Total`].
    pub value: &'a str,
    /// Minutes since 1970-01-01 UTC.
    pub minute: u32,
    /// The log offset of the first entry that contributed.
    pub since: u64,
    /// Number of values of a dimension that the game kept per day when the row's events were admitted.
    pub values_max: u32,
    /// An index shared by all rows of one game, metric and minute, counted from 0.
    pub metric_minute: usize,
    deltas: &'a Deltas,
    row: u32,
}

/// A metric that changed in a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedMetric<'a> {
    /// The tenant.
    pub game: u32,
    /// The event name, or [`EVENTS`].
    pub metric: &'a str,
    /// Minutes since 1970-01-01 UTC.
    pub minute: u32,
}

/// A metric of a game in a minute.
struct MetricMinute {
    game: u32,
    minute: u32,
    name: TextRange,
    limit: ValueLimit,
    kind: MetricKind,
    /// The metric under which its events also count: [`EVENTS`], or `NONE` for metrics that are not events.
    all_events: u32,
    total: u32,
    /// The rows of events that lack a dimension.
    empty_value_rows: [u32; Dimension::COUNT],
}

/// What a metric counts. One name can have all three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetricKind {
    /// Events, which also count under [`EVENTS`].
    Events,
    /// Facts derived from events, such as sessions.
    Derived,
    /// Aggregated samples.
    Samples,
}

struct RowData {
    metric: u32,
    cut: Cut,
    value: TextRange,
    since: u64,
    /// The part of the count that has no events.
    plain_count: i64,
    /// The only event, if there is exactly one.
    first: u32,
    /// The first row whose events also count here; the others follow by `next_sibling`.
    first_child: u32,
    next_sibling: u32,
}

/// The number of values of a dimension that are kept per day.
///
/// Events before and after a change have separate rows, in log order, so that the kept values depend on the order of
/// the log alone.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ValueLimit {
    values_max: u32,
    /// Number of changes so far.
    change: u32,
}

impl Default for ValueLimit {
    fn default() -> ValueLimit {
        ValueLimit { values_max: VALUES_PER_DIMENSION, change: 0 }
    }
}

struct DeclaredRow {
    metric: u32,
    number: u8,
    value: u32,
    row: u32,
}

struct TupleRow {
    metric: u32,
    values: [u32; Dimension::COUNT],
    row: u32,
}

/// The fields of an event that aggregates need.
#[derive(Clone, Copy)]
struct ObservedEvent {
    /// The hash of the player, at least 1; 0 for events without a player.
    player: u64,
    /// NaN if the event has no value.
    value: f64,
    /// The bucket of the value, computed once because all rows share it.
    bucket: Bucket,
}

/// The events of all rows that have more than one, row by row.
#[derive(Default)]
struct EventLists {
    /// Index of the first event of each row.
    starts: Vec<u32>,
    events: Vec<u32>,
}

impl Deltas {
    /// Sets the log offset of the entry that the following changes come from. Offsets must not decrease.
    pub fn set_offset(&mut self, offset: u64) {
        self.offset = offset;
    }

    /// Sets the number of values of a dimension that the game of the following events keeps per day.
    pub fn set_values_max(&mut self, game: u32, values_max: u32) {
        if self.limits.is_empty() && values_max == VALUES_PER_DIMENSION {
            self.limit = ValueLimit::default();
            return;
        }
        let limit = self.limits.entry(game).or_default();
        if limit.values_max != values_max {
            *limit = ValueLimit { values_max, change: limit.change + 1 };
        }
        self.limit = *limit;
    }

    /// Counts an event under its own name and under [`EVENTS`].
    pub fn add_event(&mut self, game: u32, event: &StoredEvent<'_>, player: Option<u64>) {
        let metric = self.metric_index_of(game, minute_of(event.ts_ms), event.metric(), MetricKind::Events);
        self.add_observation(metric, event, player, event.value);
    }

    /// Adds aggregated samples under the name and dimensions of their event.
    pub fn add_samples(&mut self, game: u32, event: &StoredEvent<'_>, aggregate: Aggregate) {
        let metric = self.metric_index_of(game, minute_of(event.ts_ms), event.metric(), MetricKind::Samples);
        let (position, count) = (self.aggregates.len() as u64, aggregate.count);
        self.aggregates.push(aggregate);
        self.add_observation(metric, event, Some(position), None);
        self.count_samples(game, event, count);
    }

    /// Counts samples by their name, so that queries can tell names of samples from names of events.
    fn count_samples(&mut self, game: u32, event: &StoredEvent<'_>, count: i64) {
        let Cut::Declared(number) = SAMPLE_NAMES else {
            unreachable!("names of samples are a declared dimension")
        };
        let metric =
            self.metric_index_of(game, minute_of(event.ts_ms), SAMPLES.as_bytes(), MetricKind::Derived);
        let name = self.declared_value(number, event.metric());
        let row = self.declared_row(metric, number, name);
        self.rows[row as usize].plain_count += count;
        let total = self.metrics[metric as usize].total;
        self.rows[total as usize].plain_count += count;
    }

    /// Counts a fact derived from an event under a metric of its own, with the event's dimensions.
    pub fn add_derived(
        &mut self,
        game: u32,
        metric: &str,
        event: &StoredEvent<'_>,
        player: Option<u64>,
        value: Option<f64>,
    ) {
        let metric =
            self.metric_index_of(game, minute_of(event.ts_ms), metric.as_bytes(), MetricKind::Derived);
        self.add_observation(metric, event, player, value);
    }

    /// Adds to a counter that has no events.
    pub fn add_count(&mut self, game: u32, metric: &str, minute: u32, count: u32) {
        let metric = self.metric_index_of(game, minute, metric.as_bytes(), MetricKind::Derived);
        let total = self.metrics[metric as usize].total;
        self.rows[total as usize].plain_count += i64::from(count);
    }

    /// Returns the rows. Those of one metric and cut are in the order of their first appearance.
    pub fn rows(&self) -> impl Iterator<Item = DeltaRow<'_>> {
        (0..self.rows.len() as u32).map(|row| self.row_at(row))
    }

    /// Returns the metrics that changed, without their rows: one, or a few, per metric and minute.
    pub fn changed_metrics(&self) -> impl Iterator<Item = ChangedMetric<'_>> {
        self.metrics.iter().map(|metric| ChangedMetric {
            game: metric.game,
            metric: metric.name.of(&self.text),
            minute: metric.minute,
        })
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if nothing changes.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Removes all changes and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.metrics.clear();
        self.metric_index.clear();
        self.rows.clear();
        self.counts.clear();
        self.dimension_index.clear();
        self.tuples.clear();
        self.tuple_index.clear();
        self.values.iter_mut().chain(&mut self.declared).for_each(DimensionValues::clear);
        self.declared_index.clear();
        self.events.clear();
        self.event_rows.clear();
        self.declared_rows.clear();
        self.aggregates.clear();
        self.limits.clear();
        self.limit = ValueLimit::default();
        self.lists.take();
        self.text.clear();
    }

    #[inline]
    fn add_observation(
        &mut self,
        metric: u32,
        stored: &StoredEvent<'_>,
        player: Option<u64>,
        value: Option<f64>,
    ) {
        debug_assert!(self.lists.get().is_none(), "events must not be added once rows have been read");
        let values = std::array::from_fn(|dimension| {
            self.values[dimension].number_of(stored.dimensions[dimension], &self.hasher, &mut self.text)
        });
        let mut rows = [self.metrics[metric as usize].total; ROWS];
        for dimension in Dimension::ALL {
            rows[1 + dimension as usize] = self.dimension_row(metric, dimension, values[dimension as usize]);
        }
        rows[TUPLE] = self.tuple_row(metric, &values);
        let event = self.events.len() as u32;
        rows.iter().for_each(|row| self.count_in_row(*row, event));
        for (number, value) in stored.declared.dimensions() {
            self.add_declared_observation(metric, event, number, value);
        }
        let (value, bucket) = value.map_or((f64::NAN, Bucket::default()), |value| (value, Bucket::of(value)));
        let player = match self.metrics[metric as usize].kind {
            MetricKind::Samples => player.unwrap_or_default(),
            _ => player.map_or(0, |hash| hash.max(1)),
        };
        self.events.push(ObservedEvent { player, value, bucket });
        self.event_rows.push(rows);
    }

    #[inline]
    fn count_in_row(&mut self, row: u32, event: u32) {
        let row = row as usize;
        if self.counts[row] == 0 {
            self.rows[row].first = event;
        }
        self.counts[row] += 1;
    }

    fn add_declared_observation(&mut self, metric: u32, event: u32, number: u8, value: &[u8]) {
        let value = self.declared_value(number, value);
        let row = self.declared_row(metric, number, value);
        self.count_in_row(row, event);
        self.declared_rows.push((event, row));
    }

    fn declared_value(&mut self, number: u8, value: &[u8]) -> u32 {
        let position = usize::from(number);
        if self.declared.len() <= position {
            self.declared.resize_with(position + 1, DimensionValues::default);
        }
        self.declared[position].number_of(value, &self.hasher, &mut self.text)
    }

    fn metric_index_of(&mut self, game: u32, minute: u32, name: &[u8], kind: MetricKind) -> u32 {
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
            None => self.create_metric(hash, game, minute, name, kind),
        }
    }

    #[cold]
    fn create_metric(&mut self, hash: u64, game: u32, minute: u32, name: &[u8], kind: MetricKind) -> u32 {
        let name = TextRange::push(&mut self.text, name);
        let is_event = kind == MetricKind::Events;
        let all_events = if is_event {
            self.metric_index_of(game, minute, EVENTS.as_bytes(), MetricKind::Derived)
        } else {
            NONE
        };
        let metric = self.metrics.len() as u32;
        let empty_value_rows = [NONE; Dimension::COUNT];
        let limit = self.limit;
        self.metrics.push(MetricMinute {
            game,
            minute,
            name,
            limit,
            kind,
            all_events,
            total: NONE,
            empty_value_rows,
        });
        let (metrics, text, hasher) = (&self.metrics, &self.text, &self.hasher);
        self.metric_index.insert_unique(hash, metric, |metric| {
            let metric = &metrics[*metric as usize];
            metric_hash(hasher, metric.game, metric.minute, metric.name.of(text).as_bytes())
        });
        let total_of_all = if is_event { self.metrics[all_events as usize].total } else { NONE };
        self.metrics[metric as usize].total =
            self.create_row(metric, Cut::Total, TextRange::default(), total_of_all);
        metric
    }

    /// Returns the row of a dimension's value.
    #[inline]
    fn dimension_row(&mut self, metric: u32, dimension: Dimension, value: u32) -> u32 {
        if value == 0 && self.metrics[metric as usize].empty_value_rows[dimension as usize] != NONE {
            return self.metrics[metric as usize].empty_value_rows[dimension as usize];
        }
        let key = u64::from(metric) << 35 | (dimension as u64) << 32 | u64::from(value);
        match self.dimension_index.find(mix(key), |(other, _)| *other == key) {
            Some((_, row)) => *row,
            None => self.create_dimension_row(key, metric, dimension, value),
        }
    }

    #[cold]
    fn create_dimension_row(&mut self, key: u64, metric: u32, dimension: Dimension, value: u32) -> u32 {
        let all_events = self.metrics[metric as usize].all_events;
        let all_events =
            if all_events == NONE { NONE } else { self.dimension_row(all_events, dimension, value) };
        let text = self.values[dimension as usize].text(value);
        let row = self.create_row(metric, Cut::By(dimension), text, all_events);
        if value == 0 {
            self.metrics[metric as usize].empty_value_rows[dimension as usize] = row;
        } else {
            self.dimension_index.insert_unique(mix(key), (key, row), |(key, _)| mix(*key));
        }
        row
    }

    /// Returns the row of a declared dimension's value.
    fn declared_row(&mut self, metric: u32, number: u8, value: u32) -> u32 {
        let hash = declared_hash(metric, number, value);
        let same = |row: &DeclaredRow| (row.metric, row.number, row.value) == (metric, number, value);
        match self.declared_index.find(hash, same) {
            Some(found) => found.row,
            None => self.create_declared_row(hash, metric, number, value),
        }
    }

    #[cold]
    fn create_declared_row(&mut self, hash: u64, metric: u32, number: u8, value: u32) -> u32 {
        let all_events = self.metrics[metric as usize].all_events;
        let all_events = if all_events == NONE { NONE } else { self.declared_row(all_events, number, value) };
        let text = self.declared[usize::from(number)].text(value);
        let row = self.create_row(metric, Cut::Declared(number), text, all_events);
        let rehash = |row: &DeclaredRow| declared_hash(row.metric, row.number, row.value);
        self.declared_index.insert_unique(hash, DeclaredRow { metric, number, value, row }, rehash);
        row
    }

    /// Returns the row of a combination of values.
    #[inline]
    fn tuple_row(&mut self, metric: u32, values: &[u32; Dimension::COUNT]) -> u32 {
        let hash = tuple_hash(metric, values);
        let tuples = &self.tuples;
        let found = self.tuple_index.find(hash, |tuple| {
            let tuple = &tuples[*tuple as usize];
            tuple.metric == metric && tuple.values == *values
        });
        match found {
            Some(tuple) => tuples[*tuple as usize].row,
            None => self.create_tuple_row(hash, metric, values),
        }
    }

    fn create_tuple_row(&mut self, hash: u64, metric: u32, values: &[u32; Dimension::COUNT]) -> u32 {
        let all_events = self.metrics[metric as usize].all_events;
        let all_events = if all_events == NONE { NONE } else { self.tuple_row(all_events, values) };
        let text = match all_events {
            NONE => self.tuple_text(values),
            all_events => self.rows[all_events as usize].value,
        };
        let row = self.create_row(metric, Cut::Tuple, text, all_events);
        let tuple = self.tuples.len() as u32;
        self.tuples.push(TupleRow { metric, values: *values, row });
        let tuples = &self.tuples;
        self.tuple_index.insert_unique(hash, tuple, |tuple| {
            let tuple = &tuples[*tuple as usize];
            tuple_hash(tuple.metric, &tuple.values)
        });
        row
    }

    fn tuple_text(&mut self, values: &[u32; Dimension::COUNT]) -> TextRange {
        let start = self.text.len();
        for (dimension, value) in values.iter().enumerate() {
            if dimension > 0 {
                self.text.push(TUPLE_SEPARATOR);
            }
            let part = self.values[dimension].text_in_tuple(*value);
            self.text.extend_from_within(part.range());
        }
        TextRange::since(start, &self.text)
    }

    fn create_row(&mut self, metric: u32, cut: Cut, value: TextRange, all_events: u32) -> u32 {
        let row = self.rows.len() as u32;
        let next_sibling = match self.rows.get_mut(all_events as usize) {
            Some(all_events) => std::mem::replace(&mut all_events.first_child, row),
            None => NONE,
        };
        let since = self.offset;
        self.rows.push(RowData {
            metric,
            cut,
            value,
            since,
            plain_count: 0,
            first: NONE,
            first_child: NONE,
            next_sibling,
        });
        self.counts.push(0);
        row
    }

    #[inline]
    fn row_at(&self, row: u32) -> DeltaRow<'_> {
        let data = &self.rows[row as usize];
        let metric = &self.metrics[data.metric as usize];
        DeltaRow {
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

    fn lists(&self) -> &EventLists {
        self.lists.get_or_init(|| EventLists::of(&self.counts, &self.event_rows, &self.declared_rows))
    }
}

impl EventLists {
    /// Groups the events by row. Rows with a single event need no list.
    fn of(counts: &[u32], event_rows: &[[u32; ROWS]], declared_rows: &[(u32, u32)]) -> EventLists {
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
        EventLists { starts, events }
    }
}

impl<'a> DeltaRow<'a> {
    /// Returns the number of events, or of measurements that the samples represent.
    pub(crate) fn count(&self) -> i64 {
        let data = &self.deltas.rows[self.row as usize];
        if self.is_of_samples() {
            return self.aggregates().map(|aggregate| aggregate.count).sum();
        }
        let own = data.plain_count + i64::from(self.deltas.counts[self.row as usize]);
        own + self
            .children()
            .map(|first_child| i64::from(self.deltas.counts[first_child as usize]))
            .sum::<i64>()
    }

    /// Adds the changes to an aggregate.
    pub fn add_to(&self, aggregate: &mut Aggregate) {
        if self.is_of_samples() {
            return self.add_samples_to(aggregate);
        }
        aggregate.count = aggregate.count.wrapping_add(self.count());
        let observed = |event: &u32| self.deltas.events[*event as usize];
        if self.cut != Cut::Tuple {
            let players = |events: &'a [u32]| events.iter().map(observed).map(|event| event.player);
            let players = |events| players(events).filter(|player| *player != 0);
            aggregate.players.extend(players(self.events_of(self.row)));
            self.children()
                .for_each(|first_child| aggregate.players.extend(players(self.events_of(first_child))));
        }
        let values = self.events_of(self.row).iter().map(observed).filter(|event| !event.value.is_nan());
        aggregate.observe_values(values.map(|event| (event.value, event.bucket)));
    }

    /// Returns the changes as an aggregate.
    pub fn aggregate(&self) -> Aggregate {
        let mut aggregate = Aggregate::default();
        self.add_to(&mut aggregate);
        aggregate
    }

    fn is_of_samples(&self) -> bool {
        self.deltas.metrics[self.metric_minute].kind == MetricKind::Samples
    }

    fn aggregates(&self) -> impl Iterator<Item = &'a Aggregate> {
        let deltas = self.deltas;
        self.events_of(self.row)
            .iter()
            .map(|event| &deltas.aggregates[deltas.events[*event as usize].player as usize])
    }

    fn add_samples_to(&self, aggregate: &mut Aggregate) {
        for samples in self.aggregates() {
            match self.cut {
                Cut::Tuple => {
                    let Aggregate { count, values, .. } = samples;
                    aggregate.merge(&Aggregate {
                        count: *count,
                        values: values.clone(),
                        ..Aggregate::default()
                    });
                }
                _ => aggregate.merge(samples),
            }
        }
    }

    fn children(&self) -> impl Iterator<Item = u32> {
        let rows = &self.deltas.rows;
        let some = |row: u32| (row != NONE).then_some(row);
        std::iter::successors(some(rows[self.row as usize].first_child), move |row| {
            some(rows[*row as usize].next_sibling)
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
    mix(mix(mix(u64::from(metric) << 32 | one) ^ (two << 32 | three)) ^ (four << 32 | five))
}

fn declared_hash(metric: u32, number: u8, value: u32) -> u64 {
    mix(mix(u64::from(metric) << 32 | u64::from(value)) ^ u64::from(number))
}

fn minute_of(ts_ms: i64) -> u32 {
    (ts_ms / 60_000).clamp(0, i64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::DeclaredValues;
    use expect_test::{Expect, expect};

    /// Each line is `minute name player country level value` (`-` for none), followed by `number=value` for each
    /// declared dimension; a line `values N` sets the number of values kept from there on.
    fn deltas(events: &str) -> Deltas {
        let mut deltas = Deltas::default();
        for (offset, line) in events.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate() {
            if let Some(values_max) = line.strip_prefix("values ") {
                deltas.set_values_max(1, values_max.parse().unwrap());
                continue;
            }
            let words: Vec<&str> = line.split(' ').map(|word| if word == "-" { "" } else { word }).collect();
            let mut dimensions: [&[u8]; Dimension::COUNT] = [b""; Dimension::COUNT];
            dimensions[Dimension::Country as usize] = words[3].as_bytes();
            dimensions[Dimension::Level as usize] = words[4].as_bytes();
            let declared = declared(&words[6..]);
            let event = StoredEvent {
                ts_ms: words[0].parse::<i64>().unwrap() * 60_000,
                name: words[1].as_bytes(),
                value: words[5].parse().ok(),
                dimensions,
                declared: DeclaredValues::from_bytes(&declared),
                ..StoredEvent::default()
            };
            deltas.set_offset(offset as u64);
            deltas.add_event(1, &event, words[2].bytes().next().map(u64::from));
        }
        deltas
    }

    fn declared(words: &[&str]) -> Vec<u8> {
        let mut list = Vec::new();
        for (number, value) in words.iter().filter_map(|word| word.split_once('=')) {
            DeclaredValues::push(&mut list, number.parse().unwrap(), value.as_bytes());
        }
        list
    }

    fn check(events: &str, cuts: &[Cut], expected: Expect) {
        let mut lines = String::new();
        for row in deltas(events).rows().filter(|row| cuts.contains(&row.cut)) {
            let aggregate = row.aggregate();
            assert_eq!(aggregate.count, row.count());
            let sum = aggregate.values.as_ref().map_or("-".into(), |values| values.sum.value().to_string());
            let value = row.value.replace(TUPLE_SEPARATOR, ",");
            let (count, players) = (aggregate.count, aggregate.players.count());
            lines +=
                &format!("{} {} '{value}' {count} sum {sum} players {players}\n", row.minute, row.metric);
        }
        expected.assert_eq(&lines);
    }

    #[test]
    fn event_counts_under_its_name_and_under_all_events() {
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
    fn samples_have_rows_separate_from_events_of_the_same_name() {
        let mut deltas = deltas("7 hits ann FR - 10");
        for (country, values) in [("FR", [1.0, 2.0]), ("DE", [4.0, 8.0]), ("FR", [16.0, 32.0])] {
            let mut aggregate = Aggregate::default();
            values
                .iter()
                .for_each(|value| aggregate.observe(Some(*value as u64), Some((*value, Bucket::of(*value)))));
            let mut event = StoredEvent { ts_ms: 7 * 60_000, name: b"hits", ..StoredEvent::default() };
            event.dimensions[Dimension::Country as usize] = country.as_bytes();
            deltas.add_samples(1, &event, aggregate);
        }
        let rows_of = |cut: Cut| -> Vec<String> {
            let rows = deltas.rows().filter(|row| row.cut == cut);
            let show = |row: DeltaRow<'_>| {
                let aggregate = row.aggregate();
                assert_eq!(aggregate.count, row.count());
                let sum = aggregate.values.as_ref().map_or(0.0, |values| values.sum.value());
                format!(
                    "{} '{}' {} sum {sum} by {}",
                    row.metric,
                    row.value.replace(TUPLE_SEPARATOR, ","),
                    aggregate.count,
                    aggregate.players.count()
                )
            };
            rows.map(show).collect()
        };
        assert_eq!(
            rows_of(Cut::Total),
            [
                "$events '' 1 sum 0 by 1",
                "hits '' 1 sum 10 by 1",
                "hits '' 6 sum 63 by 6",
                "$samples '' 6 sum 0 by 0",
            ]
        );
        let by_country = rows_of(Cut::By(Dimension::Country));
        assert_eq!(by_country[2..], ["hits 'FR' 4 sum 51 by 4", "hits 'DE' 2 sum 12 by 2"]);
        let tuples = rows_of(Cut::Tuple);
        assert_eq!(tuples[2..], ["hits 'FR,,,,' 4 sum 51 by 0", "hits 'DE,,,,' 2 sum 12 by 0"]);
    }

    #[test]
    fn rows_are_in_order_of_their_first_event() {
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
    fn event_without_a_dimension_counts_in_the_row_with_the_empty_value() {
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
    fn event_counts_only_under_the_declared_dimensions_it_has() {
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
    fn changed_metrics_are_listed_by_metric_and_minute() {
        let deltas = deltas(
            "7 score ann FR 3 10
             7 score bo DE 4 5
             8 start ann FR - -",
        );
        let mut changed: Vec<(&str, u32)> =
            deltas.changed_metrics().map(|changed| (changed.metric, changed.minute)).collect();
        changed.sort_unstable();
        assert_eq!(changed, [("$events", 7), ("$events", 8), ("score", 7), ("start", 8)]);
    }

    #[test]
    fn events_before_and_after_a_limit_change_have_separate_rows() {
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
