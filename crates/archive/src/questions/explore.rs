//! Counts and measures of events by time and property.

use std::collections::BTreeSet;

use model::limits::{QUERY_POINTS_MAX, QUERY_TOP, QUERY_TOP_MAX};
use model::query::{BucketTimes, Buckets, CompareWith, Measure, QueryError, QueryStopped, Step, step_for};
use serde_json::{Map, Value, json};

use super::answer::{Answer, RowsTooLarge, key_object, number, time_texts};
use super::calendar::BucketOf;
use super::filter::{CodeTable, Condition, ConditionBudget, label};
use super::groups::{Groups, named_key, top_groups};
use super::limits::BY_MAX;
use super::measures::{Count, Distribution, Largest, Mean, Measured, Smallest, Sum, Uniques};
use super::request::{Fields, Window, WindowRequest, days, object};
use super::select::{EventPattern, Selector};
use super::walk::Metered;
use super::{Context, FieldList, QuestionFailure};
use crate::columns::{Chunk, Column, Field};
use crate::scan::{Order, ScanRequest};

/// Measures of values in one table at a time. A question with more series is read twice: first to find the top ones.
const CELLS_MAX: usize = 1 << 20;
const DEFAULT_DAYS: u32 = 1;
const MEASURES: &str = "count, uniques, sum, avg, min, max, p10, p50, p90 or p99";

/// A question about the number or the values of events.
#[derive(Clone, Debug, PartialEq)]
pub struct Explore {
    window: WindowRequest,
    pattern: EventPattern,
    measure: Measure,
    property: Field,
    step: Option<Step>,
    by: Vec<Field>,
    top: usize,
    compare: Option<CompareWith>,
}

/// Measures by time: the answer of [`Explore`].
#[derive(Clone, Debug, PartialEq)]
pub struct ExploreAnswer {
    /// Width of a bucket.
    pub step: Step,
    /// IANA name of the time zone.
    pub tz: String,
    /// One series per value of the properties, highest total first, `(other)` last.
    pub window: ExploreWindow,
    /// The window that the question compares with: the same series in the same order.
    pub compare: Option<ExploreWindow>,
}

/// The measures of one range of time.
#[derive(Clone, Debug, PartialEq)]
pub struct ExploreWindow {
    /// Start times of the buckets.
    pub times: BucketTimes,
    /// The lines of the chart.
    pub series: Vec<ExploreSeries>,
}

/// One line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct ExploreSeries {
    /// The name and value of each property of `by`; an empty value for events without the property.
    pub key: Vec<(String, String)>,
    /// One value per bucket; `None` if there are no values to measure.
    pub values: Vec<Option<f64>>,
    /// The measure over the whole window.
    pub total: Option<f64>,
}

impl Explore {
    /// Parses a request.
    pub fn from_json(body: &[u8]) -> Result<Explore, QueryError> {
        let map = object(body)?;
        let mut fields = Fields::of_body(&map, "an explore question");
        let measure = fields.optional("measure").map_or(Ok(Measure::Count), |measure| {
            let known = |label: &str| Measure::from_label(label).filter(|measure| *measure != Measure::Last);
            measure.choice(known, MEASURES)
        })?;
        let property = fields.optional("property");
        if let (Some(property), Measure::Count | Measure::Uniques) = (&property, measure) {
            let message = format!("must not be set with the measure {}", measure.label());
            return Err(QueryError::new(&*property.path, message));
        }
        let explore = Explore {
            window: WindowRequest::read(&mut fields)?,
            pattern: EventPattern::read(&mut fields, &mut ConditionBudget::default())?,
            measure,
            property: property.map_or(Ok(Field::Value), |property| property.property())?,
            step: step(&mut fields)?,
            by: fields.optional("by").map_or(Ok(Vec::new()), |by| by.properties(BY_MAX))?,
            top: top(&mut fields)?,
            compare: fields
                .optional("compare")
                .map(|compare| compare.choice(CompareWith::from_label, "previous or year"))
                .transpose()?,
        };
        fields.end()?;
        Ok(explore)
    }

    /// Returns the names of the cohorts that the question needs.
    pub fn cohorts(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        self.pattern.filter.insert_cohorts(&mut names);
        names
    }

    /// Answers the question.
    pub fn run(&self, context: &Context<'_>) -> Result<ExploreAnswer, QuestionFailure> {
        match self.measure {
            Measure::Count => self.run_measure::<Count>(context, 0.0),
            Measure::Uniques => self.run_measure::<Uniques>(context, 0.0),
            Measure::Sum => self.run_measure::<Sum>(context, 0.0),
            Measure::Avg => self.run_measure::<Mean>(context, 0.0),
            Measure::Min => self.run_measure::<Smallest>(context, 0.0),
            Measure::Max => self.run_measure::<Largest>(context, 0.0),
            Measure::P10 => self.run_measure::<Distribution>(context, 0.1),
            Measure::P50 => self.run_measure::<Distribution>(context, 0.5),
            Measure::P90 => self.run_measure::<Distribution>(context, 0.9),
            Measure::P99 | Measure::Last => self.run_measure::<Distribution>(context, 0.99),
        }
    }

    fn run_measure<M: Measured>(
        &self,
        context: &Context<'_>,
        quantile: f64,
    ) -> Result<ExploreAnswer, QuestionFailure> {
        let window = self.window.resolve(context.now_ms, context.tz, days(DEFAULT_DAYS))?;
        let (step, buckets) = self.buckets(&window)?;
        let compared = self.compared(&window, step, &buckets)?;
        context.progress.start(1 + usize::from(compared.is_some()));
        let table = self.table_of_top::<M>(context, &buckets, quantile)?;
        let keys: Vec<Vec<String>> =
            (0..table.groups.len() as u32).map(|group| table.groups.key(group)).collect();
        context.progress.end_range();
        let compare = match compared {
            None => None,
            Some(buckets) => {
                let earlier = self.read::<M>(context, &buckets, Some(&keys), None)?;
                context.progress.end_range();
                let earlier = earlier.expect("there is no limit of cells");
                Some(self.answer(earlier, &buckets, &window, quantile))
            }
        };
        let window_answer = self.answer(table, &buckets, &window, quantile);
        Ok(ExploreAnswer { step, tz: window.tz, window: window_answer, compare })
    }

    fn buckets(&self, window: &Window) -> Result<(Step, Buckets), QueryError> {
        let mut minutes = window.minutes();
        let step = self.step.unwrap_or_else(|| step_for(minutes.end - minutes.start));
        if self.window.is_last() && step != Step::All {
            minutes.start = Buckets::cut(&window.zone, step, minutes.start..minutes.start + 1).starts[0];
        }
        let times = (minutes.end - minutes.start).div_ceil(step.minutes_min()) as usize;
        let series = if self.by.is_empty() { 1 } else { self.top + 1 };
        if times * series > QUERY_POINTS_MAX {
            let message = format!(
                "{times} buckets in up to {series} series exceed {QUERY_POINTS_MAX} points; \
                 use a wider step, a shorter window or a smaller `top`"
            );
            return Err(QueryError::new("step", message));
        }
        Ok((step, Buckets::cut(&window.zone, step, minutes)))
    }

    fn compared(
        &self,
        window: &Window,
        step: Step,
        buckets: &Buckets,
    ) -> Result<Option<Buckets>, QueryError> {
        let compared = match self.compare {
            None => return Ok(None),
            Some(CompareWith::Previous) => buckets.previous(&window.zone, step),
            Some(CompareWith::Year) => buckets.year_before(&window.zone, step),
        };
        let too_early = || QueryError::new("compare", "the compared window would start before 1970");
        compared.map(Some).ok_or_else(too_early)
    }

    /// Measures the groups with the highest totals, in this order, and the rest.
    fn table_of_top<M: Measured>(
        &self,
        context: &Context<'_>,
        buckets: &Buckets,
        quantile: f64,
    ) -> Result<Table<M>, QuestionFailure> {
        if let Some(table) = self.read::<M>(context, buckets, None, Some(CELLS_MAX))? {
            return Ok(table.into_top(&self.by, self.top, quantile));
        }
        let totals = self.read::<M>(context, &buckets.whole(), None, None)?;
        let totals = totals.expect("there is no limit of cells").into_top(&self.by, self.top, quantile);
        let keys: Vec<Vec<String>> =
            (0..totals.groups.len() as u32).map(|group| totals.groups.key(group)).collect();
        drop(totals);
        let table = self.read::<M>(context, buckets, Some(&keys), None)?;
        Ok(table.expect("there is no limit of cells"))
    }

    /// Reads the events of a window. Returns `None` if they need more than `cells_max` cells.
    fn read<M: Measured>(
        &self,
        context: &Context<'_>,
        buckets: &Buckets,
        keys: Option<&[Vec<String>]>,
        cells_max: Option<usize>,
    ) -> Result<Option<Table<M>>, QuestionFailure> {
        let mut columns = FieldList::default();
        let patterns = [self.pattern.clone()];
        let mut selector = Selector::new(&patterns, &Condition::always(), &mut columns, context.cohorts)?;
        let groups = match keys {
            None => Groups::new(&self.by, &mut columns),
            Some(keys) => Groups::with_keys(&self.by, &mut columns, keys),
        };
        let mut values = Values::new(M::NEEDS_VALUE.then(|| columns.index(&self.property)));
        let mut table = Table::new(groups, buckets, keys.is_some());
        let minutes = buckets.window();
        let request = ScanRequest {
            times: i64::from(minutes.start) * 60_000..i64::from(minutes.end) * 60_000,
            fields: columns.fields().to_vec(),
            events: selector.events(),
            players: 0..=u64::MAX,
            order: Order::Any,
        };
        let control = Metered::new(context.control);
        let mut is_too_large = false;
        let scanned = context.source.scan(&request, &control, &mut |chunk| {
            selector.select(chunk, context.links);
            values.start_chunk(chunk);
            is_too_large = !table.add_rows(context, chunk, &selector.rows, &values, cells_max);
            context.progress.add_rows(chunk.rows());
            if is_too_large { Err(QueryStopped::Cancelled) } else { control.set(table.bytes()) }
        });
        if is_too_large {
            return Ok(None);
        }
        scanned?;
        Ok(Some(table))
    }

    fn answer<M: Measured>(
        &self,
        table: Table<M>,
        buckets: &Buckets,
        window: &Window,
        quantile: f64,
    ) -> ExploreWindow {
        let series = |(group, cells): (usize, &[M])| ExploreSeries {
            key: named_key(&self.by, table.groups.key(group as u32)),
            values: cells.iter().map(|cell| cell.result(quantile)).collect(),
            total: merged(cells).result(quantile),
        };
        let count = table.groups.len() + usize::from(table.has_rest);
        ExploreWindow {
            times: buckets.times(&window.zone),
            series: table.cells.chunks(table.width).take(count).enumerate().map(series).collect(),
        }
    }
}

fn merged<M: Measured>(cells: &[M]) -> M {
    let mut total = M::default();
    cells.iter().for_each(|cell| total.merge(cell));
    total
}

pub(super) fn step(fields: &mut Fields) -> Result<Option<Step>, QueryError> {
    match fields.optional("step") {
        None => Ok(None),
        Some(step) if step.value == "auto" => Ok(None),
        Some(step) => step.choice(Step::from_label, "minute, hour, day, week, month, auto or all").map(Some),
    }
}

pub(super) fn top(fields: &mut Fields) -> Result<usize, QueryError> {
    let top = fields.optional("top").map(|top| top.integer(1..=QUERY_TOP_MAX as u64)).transpose()?;
    Ok(top.map_or(QUERY_TOP, |top| top as usize))
}

/// The numbers to measure.
struct Values {
    column: Option<usize>,
    /// The number of each code; NaN for other values.
    table: CodeTable<f64>,
}

impl Values {
    fn new(column: Option<usize>) -> Values {
        Values { column, table: CodeTable::default() }
    }

    fn start_chunk(&mut self, chunk: &Chunk) {
        if let Some(Column::Coded { dictionary, .. }) = self.column.map(|column| &chunk.columns[column]) {
            self.table.of(dictionary, |value| match value {
                Some(crate::columns::Value::Number(number)) => number,
                _ => f64::NAN,
            });
        }
    }

    /// Returns the number of a row; NaN if there is none.
    #[inline]
    fn get(&self, chunk: &Chunk, row: usize) -> f64 {
        match self.column.map(|column| &chunk.columns[column]) {
            Some(Column::Numbers(values)) => values[row],
            Some(Column::Coded { codes, .. }) => self.table.item(codes[row]),
            Some(Column::Absent | Column::Uuids(_)) => f64::NAN,
            None => 0.0,
        }
    }
}

/// A measure for each group and bucket. With closed groups, the last row is the rest.
struct Table<M> {
    groups: Groups,
    bucket_of: BucketOf,
    width: usize,
    cells: Vec<M>,
    is_closed: bool,
    has_rest: bool,
    /// The group of each row of a chunk.
    row_groups: Vec<u32>,
    /// The memory of cells on the heap: measured, and estimated since then.
    heap_measured: usize,
    heap_bytes: usize,
}

/// Memory on the heap is measured again when it may have grown by this much.
const HEAP_SLACK: usize = 1 << 20;
/// The most that an event adds to the memory of a measure, on average.
const HEAP_BYTES_PER_EVENT: usize = 24;

impl<M: Measured> Table<M> {
    fn new(groups: Groups, buckets: &Buckets, is_closed: bool) -> Table<M> {
        let width = buckets.len();
        let rows = if is_closed {
            groups.len() + 1
        } else if groups.len() == 1 {
            1
        } else {
            0
        };
        Table {
            groups,
            bucket_of: BucketOf::new(buckets),
            width,
            cells: vec![M::default(); rows * width],
            is_closed,
            has_rest: false,
            row_groups: Vec::new(),
            heap_measured: 0,
            heap_bytes: 0,
        }
    }

    /// Adds rows of a chunk. Returns false, without adding all, if they need more than `cells_max` cells.
    fn add_rows(
        &mut self,
        context: &Context<'_>,
        chunk: &Chunk,
        rows: &[u32],
        values: &Values,
        cells_max: Option<usize>,
    ) -> bool {
        self.groups.start_chunk(chunk);
        let mut groups = std::mem::take(&mut self.row_groups);
        groups.clear();
        self.groups.extend_groups(chunk, rows, &mut groups);
        let rest = if self.is_closed { self.groups.rest() as usize } else { usize::MAX };
        let is_complete = self.add_grouped(context, chunk, rows, values, &groups, rest, cells_max);
        self.row_groups = groups;
        if !is_complete {
            return false;
        }
        if M::HAS_HEAP {
            self.heap_bytes += rows.len() * HEAP_BYTES_PER_EVENT;
            if self.heap_bytes > 2 * self.heap_measured + HEAP_SLACK {
                self.heap_measured = self.cells.iter().map(M::heap_bytes).sum();
                self.heap_bytes = self.heap_measured;
            }
        }
        true
    }

    fn add_grouped(
        &mut self,
        context: &Context<'_>,
        chunk: &Chunk,
        rows: &[u32],
        values: &Values,
        groups: &[u32],
        rest: usize,
        cells_max: Option<usize>,
    ) -> bool {
        // Events of a player follow each other and often fall into one cell: they are added at once.
        let (mut cell, mut count) = (0, 0);
        for (index, row) in rows.iter().map(|row| *row as usize).enumerate() {
            let value = if M::NEEDS_VALUE { values.get(chunk, row) } else { 0.0 };
            if value.is_nan() {
                continue;
            }
            let group = groups.get(index).map_or(0, |group| *group as usize);
            let bucket = if self.width == 1 { 0 } else { self.bucket_of.bucket(chunk.times[row]) };
            let at = group * self.width + bucket;
            if M::IS_COUNT && at == cell && count > 0 {
                count += 1;
                continue;
            }
            if at >= self.cells.len() {
                let needed = (group + 1) * self.width;
                if cells_max.is_some_and(|cells_max| needed > cells_max) {
                    return false;
                }
                self.cells.resize(needed, M::default());
            }
            self.has_rest |= group == rest;
            if M::IS_COUNT {
                self.cells[cell].add_events(count);
                (cell, count) = (at, 1);
            } else {
                let player = if M::NEEDS_PLAYER { context.links.player(chunk.players[row]) } else { 0 };
                self.cells[at].add(player, value);
            }
        }
        if count > 0 {
            self.cells[cell].add_events(count);
        }
        true
    }

    fn bytes(&self) -> usize {
        self.cells.capacity() * size_of::<M>() + self.heap_bytes + self.groups.bytes()
    }

    /// Keeps the groups with the highest totals, in this order, and merges the rest.
    fn into_top(mut self, by: &[Field], top: usize, quantile: f64) -> Table<M> {
        if by.is_empty() || self.is_closed {
            return self;
        }
        let total = |(group, cells): (usize, &[M])| {
            let total = merged(cells).result(quantile);
            total.map(|total| (group as u32, total))
        };
        // A group whose events have no values to measure is none.
        let totals = self.cells.chunks(self.width).enumerate().filter_map(total);
        let (top, rest) = top_groups(&self.groups, totals, top);
        let width = self.width;
        let row = |group: &u32| *group as usize * width..(*group as usize + 1) * width;
        let mut cells: Vec<M> = Vec::with_capacity((top.len() + 1) * self.width);
        for group in &top {
            cells.extend(self.cells[row(group)].iter_mut().map(std::mem::take));
        }
        let mut others = vec![M::default(); self.width];
        for group in &rest {
            let cells = self.cells[row(group)].iter_mut().map(std::mem::take);
            others.iter_mut().zip(cells).for_each(|(all, one)| all.merge(&one));
        }
        cells.append(&mut others);
        let keys: Vec<Vec<String>> = top.iter().map(|group| self.groups.key(*group)).collect();
        self.groups = Groups::with_keys(by, &mut FieldList::default(), &keys);
        Table { cells, is_closed: true, has_rest: !rest.is_empty(), ..self }
    }
}

impl ExploreWindow {
    fn fields(&self) -> Map<String, Value> {
        let series = |series: &ExploreSeries| {
            json!({
                "key": key_object(&series.key),
                "values": series.values.iter().map(|value| number(*value)).collect::<Vec<_>>(),
                "total": number(series.total),
            })
        };
        let mut fields = Map::new();
        fields.insert("times".to_owned(), time_texts(&self.times).into());
        fields.insert("series".to_owned(), self.series.iter().map(series).collect());
        fields
    }
}

impl Answer for ExploreAnswer {
    fn fields(&self) -> Map<String, Value> {
        let mut fields = self.window.fields();
        fields.insert("step".to_owned(), self.step.label().into());
        fields.insert("tz".to_owned(), (&*self.tz).into());
        if let Some(compare) = &self.compare {
            fields.insert("compare".to_owned(), compare.fields().into());
        }
        fields
    }

    fn columns(&self) -> Vec<String> {
        let window = self.compare.as_ref().map(|_| "window".to_owned());
        let key = self.window.series.first().map_or(&[][..], |series| &series.key);
        let key = key.iter().map(|(name, _)| name.clone());
        ["time".to_owned()].into_iter().chain(window).chain(key).chain(["value".to_owned()]).collect()
    }

    fn each_row(
        &self,
        put: &mut dyn FnMut(Vec<Value>) -> Result<(), RowsTooLarge>,
    ) -> Result<(), RowsTooLarge> {
        let current = (&self.window, self.compare.as_ref().map(|_| "current"));
        for (window, name) in
            [current].into_iter().chain(self.compare.as_ref().map(|one| (one, Some("previous"))))
        {
            let times = time_texts(&window.times);
            for series in &window.series {
                for (time, value) in times.iter().zip(&series.values) {
                    let mut row = vec![Value::from(&**time)];
                    row.extend(name.map(Value::from));
                    row.extend(series.key.iter().map(|(_, value)| Value::from(&**value)));
                    row.push(number(*value));
                    put(row)?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the names of the properties that an answer is broken down by.
pub(super) fn by_labels(by: &[Field]) -> Vec<String> {
    by.iter().map(label).collect()
}
