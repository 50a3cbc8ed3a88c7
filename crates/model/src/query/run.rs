//! Execution of query plans: from stored slots to the numbers of a result.

use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};

use super::aggregation::{Average, Count, DistinctPlayers, Fold, Largest, Newest, Quantile, Smallest, Sum};
use super::control::{Meter, QueryControl, QueryFailure, QueryStopped};
use super::plan::{Computation, MetricSource, ONLINE_MINUTES_BEFORE, PlannedMetric, QueryPlan, is_event};
use super::series_index::{REST, SeriesIndex, SeriesKey};
use super::time::{self, Buckets, SlotRead};
use super::{BucketTimes, ComparedWindow, QueryResult, Series};
use crate::identity::Links;
use crate::ports::counters::{Counters, SlotSelector};
use crate::rollup::{Aggregate, Distinct};
use crate::series::{Cut, OTHER, Resolution, SAMPLE_NAMES, SAMPLES};

/// Maximum number of small states in memory. A query that needs more reads everything twice: once for the totals,
/// which decide which series the result has, and then only for those series.
const STATES_MAX: usize = 4 << 20;
/// Maximum number of large states, of up to 32 KiB each.
const LARGE_STATES_MAX: usize = 1 << 10;
/// Minutes of players in memory at a time.
const ONLINE_MINUTES_AT_ONCE: usize = 60;
/// Hours that are read from the store at once, between two checks whether to stop. More where there is little data.
const HOURS_AT_ONCE: Range<u32> = 24..24 * 32;
/// With fewer visited slots than this, twice as many hours are read next.
const SLOTS_FEW: usize = 4_096;
/// With more visited slots than this, half as many hours are read next.
const SLOTS_MANY: usize = 65_536;

/// Runs a plan over the rollups of a game. `links` merges linked ids in data that was counted before the link. The
/// query goes on while `control` allows it.
pub fn run(
    plan: &QueryPlan,
    game: u32,
    counters: &dyn Counters,
    links: Option<&Links>,
    control: &dyn QueryControl,
) -> Result<QueryResult, QueryFailure> {
    let meter = Meter::new(control);
    let reader = PlanReader::new(plan, game, counters, links, &meter);
    Ok(reader.run(&plan.buckets, plan.compared.as_ref())?.0)
}

impl QueryPlan {
    fn times(&self, buckets: &Buckets) -> BucketTimes {
        buckets.times(&self.zone)
    }
}

/// One metric over one window, before it is decided which keys have a series.
trait MetricTable {
    fn keys(&self) -> &[SeriesKey];
    /// Returns the total of each key.
    fn totals(&self) -> Vec<Option<f64>>;
    /// Returns the total of a key without events.
    fn nothing(&self) -> Option<f64>;
    /// Returns true if there are rows that belong to no key.
    fn has_rest(&self) -> bool;
    /// Returns the values of the rest, then those of each key.
    fn series_values(
        self: Box<Self>,
        reader: PlanReader<'_>,
        buckets: &Buckets,
        keys: &[SeriesKey],
    ) -> Result<Vec<SeriesValues>, QueryFailure>;
}

/// The values of a series.
#[derive(Clone)]
struct SeriesValues {
    values: Vec<Option<f64>>,
    total: Option<f64>,
}

/// Returns the keys that get a series: those with the highest totals of the formula or of the first metric.
fn rank(plan: &QueryPlan, tables: &[Box<dyn MetricTable + '_>]) -> Vec<SeriesKey> {
    let mut totals: FxHashMap<&SeriesKey, Vec<Option<f64>>> = FxHashMap::default();
    let nothing: Vec<Option<f64>> = tables.iter().map(|table| table.nothing()).collect();
    for (metric, table) in tables.iter().enumerate() {
        for (key, total) in table.keys().iter().zip(table.totals()) {
            totals.entry(key).or_insert_with(|| nothing.clone())[metric] = total;
        }
    }
    let mut stack = Vec::new();
    let mut total = |metrics: &[Option<f64>]| match &plan.formula {
        Some(formula) => formula.value(|metric| metrics[metric], &mut stack),
        None => metrics[0],
    };
    let mut ranked: Vec<(f64, &SeriesKey)> =
        totals.iter().map(|(key, metrics)| (total(metrics).unwrap_or(f64::NEG_INFINITY), *key)).collect();
    ranked.sort_unstable_by(|(a, a_key), (b, b_key)| b.total_cmp(a).then_with(|| a_key.cmp(b_key)));
    ranked.into_iter().take(plan.top).map(|(_, key)| key.clone()).collect()
}

/// Returns true if the table contains anything that belongs to none of these keys.
fn has_rest(table: &dyn MetricTable, keys: &[SeriesKey]) -> bool {
    let known: FxHashSet<&SeriesKey> = keys.iter().collect();
    table.has_rest() || table.keys().iter().any(|key| !known.contains(key))
}

/// Reads the slots of a plan.
#[derive(Clone, Copy)]
pub(super) struct PlanReader<'a> {
    plan: &'a QueryPlan,
    game: u32,
    counters: &'a dyn Counters,
    links: Option<&'a Links>,
    meter: &'a Meter<'a>,
}

impl<'a> PlanReader<'a> {
    pub(crate) fn new(
        plan: &'a QueryPlan,
        game: u32,
        counters: &'a dyn Counters,
        links: Option<&'a Links>,
        meter: &'a Meter<'a>,
    ) -> PlanReader<'a> {
        PlanReader { plan, game, counters, links: links.filter(|links| !links.is_empty()), meter }
    }

    /// Returns the result for these buckets, and the keys that have a series.
    pub(super) fn run(
        self,
        buckets: &Buckets,
        compared: Option<&Buckets>,
    ) -> Result<(QueryResult, Vec<SeriesKey>), QueryFailure> {
        let (plan, as_of) = (self.plan, self.counters.applied_until());
        let before = self.meter.bytes();
        let tables = self.tables(buckets)?;
        let keys = rank(plan, &tables);
        let series = self.series(tables, buckets, &keys, None)?;
        self.keep_series(before, &series)?;
        let compare = match compared {
            None => None,
            Some(buckets) => {
                let series = self.partial_series(buckets, &keys, None)?;
                Some(ComparedWindow { times: plan.times(buckets), series })
            }
        };
        let (step, tz) = (plan.step, plan.tz.clone());
        Ok((QueryResult { step, tz, times: plan.times(buckets), series, compare, as_of }, keys))
    }

    /// Returns the series of these buckets alone, as they appear in a result with these keys. `with_rest` forces or
    /// suppresses `(other)`; with `None` it is present if anything belongs to it.
    pub(crate) fn partial_series(
        self,
        buckets: &Buckets,
        keys: &[SeriesKey],
        with_rest: Option<bool>,
    ) -> Result<Vec<Series>, QueryFailure> {
        let before = self.meter.bytes();
        let series = self.series(self.tables(buckets)?, buckets, keys, with_rest)?;
        self.keep_series(before, &series)?;
        Ok(series)
    }

    /// Releases the memory that was reserved since `before`, except for that of the result.
    fn keep_series(self, before: usize, series: &[Series]) -> Result<(), QueryStopped> {
        self.meter.release(self.meter.bytes() - before);
        let values = series.iter().map(|series| series.values.len() * size_of::<Option<f64>>());
        self.meter.reserve(values.sum::<usize>() + size_of_val(series))
    }

    fn tables(self, buckets: &Buckets) -> Result<Vec<Box<dyn MetricTable + 'a>>, QueryFailure> {
        self.plan.metrics.iter().map(|metric| self.table(metric, buckets)).collect()
    }

    fn table(
        self,
        metric: &'a PlannedMetric,
        buckets: &Buckets,
    ) -> Result<Box<dyn MetricTable + 'a>, QueryFailure> {
        Ok(match metric.computation {
            Computation::Count => Box::new(FoldTable::new(self, metric, buckets, Count)?),
            Computation::Sum => Box::new(FoldTable::new(self, metric, buckets, Sum)?),
            Computation::Min => Box::new(FoldTable::new(self, metric, buckets, Smallest)?),
            Computation::Max => Box::new(FoldTable::new(self, metric, buckets, Largest)?),
            Computation::Last => Box::new(FoldTable::new(self, metric, buckets, Newest)?),
            Computation::Avg => Box::new(FoldTable::new(self, metric, buckets, Average)?),
            Computation::Uniques => {
                Box::new(FoldTable::new(self, metric, buckets, DistinctPlayers(self.links))?)
            }
            Computation::Quantile(share) => Box::new(FoldTable::new(self, metric, buckets, Quantile(share))?),
            Computation::Online => Box::new(OnlineTable::new(self, metric, buckets)?),
        })
    }

    /// Returns the series of a result, in order. `with_rest` forces or suppresses `(other)`; with `None` it is
    /// present if anything belongs to it.
    fn series(
        self,
        tables: Vec<Box<dyn MetricTable + 'a>>,
        buckets: &Buckets,
        keys: &[SeriesKey],
        with_rest: Option<bool>,
    ) -> Result<Vec<Series>, QueryFailure> {
        let has_rest_rows = || self.plan.by.is_empty() || tables.iter().any(|table| has_rest(&**table, keys));
        let has_rest = with_rest.unwrap_or_else(has_rest_rows);
        let lines: Result<Vec<Vec<SeriesValues>>, QueryFailure> =
            tables.into_iter().map(|table| table.series_values(self, buckets, keys)).collect();
        let mut series = Vec::new();
        for (name, mut lines) in self.named(lines?) {
            lines.rotate_left(1);
            if !has_rest {
                lines.pop();
            }
            let keyed = lines.into_iter().enumerate();
            series.extend(keyed.map(|(index, line)| self.build_series(name.clone(), keys.get(index), line)));
        }
        Ok(series)
    }

    /// Pairs the series of each metric with its name; a formula or a single metric has no name.
    fn named(self, mut lines: Vec<Vec<SeriesValues>>) -> Vec<(Option<String>, Vec<SeriesValues>)> {
        if let Some(formula) = &self.plan.formula {
            let mut stack = Vec::new();
            let of = |index: usize| {
                let values = (0..lines[0][index].values.len())
                    .map(|bucket| formula.value(|metric| lines[metric][index].values[bucket], &mut stack))
                    .collect();
                SeriesValues { values, total: formula.value(|metric| lines[metric][index].total, &mut stack) }
            };
            return vec![(None, (0..lines[0].len()).map(of).collect())];
        }
        if lines.len() == 1 {
            return vec![(None, lines.remove(0))];
        }
        let names = self.plan.metrics.iter().map(|metric| Some(metric.name.clone()));
        names.zip(lines).collect()
    }

    fn build_series(self, name: Option<String>, key: Option<&SeriesKey>, line: SeriesValues) -> Series {
        let values = key.cloned().unwrap_or_else(|| vec![OTHER.to_owned(); self.plan.by.len()]);
        let key = self.plan.by.iter().cloned().zip(values).collect();
        Series { name, key, values: line.values, total: line.total }
    }

    /// Visits the slots of the reads: the series, the read, the minute and the aggregate. `visit` returns the memory by
    /// which it grew.
    fn visit(
        self,
        metric: &PlannedMetric,
        reads: &[SlotRead],
        rows: &mut SeriesIndex<'_>,
        mut visit: impl FnMut(usize, &SlotRead, u32, &Aggregate) -> usize,
    ) -> Result<(), QueryFailure> {
        let values: Option<Vec<&str>> = self.plan.row_values();
        let (Some(first), Some(last)) = (reads.first(), reads.last()) else { return Ok(()) };
        for stored in self.stored_metrics(metric, first.minutes.start..last.minutes.end)? {
            rows.start_event(&stored);
            for read in reads {
                let select = SlotSelector {
                    game: self.game,
                    metric: &stored,
                    cut: self.plan.cut,
                    values: values.as_deref(),
                    resolution: read.resolution,
                };
                self.visit_in_parts(select, read.minutes.clone(), &mut |row, minute, aggregate| {
                    let series = rows.series(row);
                    let grown = series.map_or(0, |series| visit(series, read, minute, aggregate));
                    grown + rows.take_grown()
                })?;
            }
        }
        Ok(())
    }

    /// Visits minutes a few days at a time, and checks in between whether to stop.
    fn visit_in_parts(
        self,
        select: SlotSelector<'_>,
        minutes: Range<u32>,
        visit: &mut dyn FnMut(&str, u32, &Aggregate) -> usize,
    ) -> Result<(), QueryFailure> {
        let (mut from, mut hours) = (minutes.start, HOURS_AT_ONCE.start);
        while from < minutes.end {
            self.meter.check()?;
            let until = (from / 60).saturating_add(hours).saturating_mul(60).min(minutes.end);
            let (mut slots, mut stopped) = (0, None);
            self.counters.visit(select, from..until, &mut |row, minute, aggregate| {
                slots += 1;
                if stopped.is_none() {
                    let grown = visit(row, minute, aggregate);
                    stopped = self.meter.add(grown).err();
                }
            })?;
            if let Some(stopped) = stopped {
                return Err(stopped.into());
            }
            hours = match slots {
                ..SLOTS_FEW => (hours * 2).min(HOURS_AT_ONCE.end),
                SLOTS_MANY.. => (hours / 2).max(HOURS_AT_ONCE.start),
                _ => hours,
            };
            from = until;
        }
        Ok(())
    }

    /// Reserves the memory of the values of `lines` series.
    fn reserve_values(self, lines: usize, buckets: &Buckets) -> Result<(), QueryStopped> {
        // Twice: the values of the metrics, and those of the series that are computed from them.
        self.meter.reserve(2 * lines * buckets.len() * size_of::<Option<f64>>())
    }

    fn stored_metrics(
        self,
        metric: &PlannedMetric,
        minutes: Range<u32>,
    ) -> Result<Vec<String>, QueryFailure> {
        Ok(match &metric.source {
            MetricSource::One(name) => vec![name.clone()],
            MetricSource::Events(names) => names.clone(),
            MetricSource::EveryEvent => {
                let mut names = self.counters.metrics(self.game, minutes.clone())?;
                let samples = self.sample_names(&minutes)?;
                names.retain(|name| is_event(name) && !samples.contains(name));
                self.meter.reserve(names.iter().map(|name| name.len() + size_of::<String>()).sum())?;
                names
            }
        })
    }

    /// Returns the names under which there are samples and no events.
    fn sample_names(self, minutes: &Range<u32>) -> Result<FxHashSet<String>, QueryFailure> {
        let mut counts: FxHashMap<String, i64> = FxHashMap::default();
        let samples = self.minute_slots(SAMPLES, SAMPLE_NAMES);
        self.visit_in_parts(samples, minutes.clone(), &mut |name, _, aggregate| {
            let known = counts.len();
            *counts.entry(name.to_owned()).or_default() += aggregate.count;
            if counts.len() > known { name.len() + size_of::<(String, i64)>() } else { 0 }
        })?;
        let mut names = FxHashSet::default();
        for (name, samples) in counts {
            let mut events = -samples;
            let all = self.minute_slots(&name, Cut::Total);
            self.visit_in_parts(all, minutes.clone(), &mut |_, _, aggregate| {
                events += aggregate.count;
                0
            })?;
            if events <= 0 {
                names.insert(name);
            }
        }
        Ok(names)
    }

    fn minute_slots(self, metric: &str, cut: Cut) -> SlotSelector<'_> {
        SlotSelector { game: self.game, metric, cut, values: None, resolution: Resolution::Minute }
    }
}

/// The states of a metric whose aggregates can be added up.
struct FoldTable<'a, F: Fold> {
    metric: &'a PlannedMetric,
    fold: F,
    rows: SeriesIndex<'a>,
    states: FoldStates<F>,
}

impl<'a, F: Fold> FoldTable<'a, F> {
    fn new(
        reader: PlanReader<'a>,
        metric: &'a PlannedMetric,
        buckets: &Buckets,
        fold: F,
    ) -> Result<Self, QueryFailure> {
        let whole = F::LARGE.then(|| buckets.whole());
        let buckets = whole.as_ref().unwrap_or(buckets);
        let mut rows = SeriesIndex::open(reader.plan);
        let mut states = FoldStates::new(fold, buckets.len());
        reader.meter.reserve(size_of::<F::State>() * buckets.len() + reads_bytes(buckets))?;
        reader.visit(metric, &time::reads(buckets), &mut rows, |series, read, minute, aggregate| {
            let grown = fold.add_measured(states.at(series, read.bucket(minute)), aggregate);
            grown + states.take_grown()
        })?;
        Ok(FoldTable { metric, fold, rows, states })
    }

    /// Returns the states of the rest and of each key. Those of all other keys are added to the rest.
    fn sorted(self, keys: &[SeriesKey]) -> Vec<Vec<F::State>> {
        let lines: FxHashMap<&SeriesKey, usize> = keys.iter().zip(REST + 1..).collect();
        let line_of: Vec<usize> =
            self.rows.keys().iter().map(|key| lines.get(key).copied().unwrap_or(REST)).collect();
        let mut sorted: Vec<Vec<F::State>> = vec![Vec::new(); keys.len() + 1];
        for (series, states) in self.states.series.into_iter().enumerate() {
            let line = &mut sorted[if series == REST { REST } else { line_of[series - 1] }];
            if line.is_empty() {
                *line = states;
            } else {
                line.iter_mut().zip(&states).for_each(|(one, other)| self.fold.join(one, other));
            }
        }
        sorted
            .iter_mut()
            .filter(|line| line.is_empty())
            .for_each(|line| line.resize(self.states.width, F::State::default()));
        sorted
    }

    /// Computes the bucket values of series of which only the totals are known, a few buckets at a time.
    fn fill(
        metric: &PlannedMetric,
        fold: F,
        reader: PlanReader<'_>,
        buckets: &Buckets,
        keys: &[SeriesKey],
        lines: &mut [SeriesValues],
    ) -> Result<(), QueryFailure> {
        let mut rows = SeriesIndex::with_keys(reader.plan, keys);
        let chunk = (states_max::<F>() / lines.len()).max(1);
        for from in (0..buckets.len()).step_by(chunk) {
            let chunk_buckets = buckets.slice(from..buckets.len().min(from + chunk));
            let before = reader.meter.bytes();
            let states_bytes = size_of::<Option<F::State>>() * chunk_buckets.len() * lines.len();
            reader.meter.reserve(states_bytes + reads_bytes(&chunk_buckets))?;
            let mut states: Vec<Vec<Option<F::State>>> = vec![vec![None; chunk_buckets.len()]; lines.len()];
            reader.visit(
                metric,
                &time::reads(&chunk_buckets),
                &mut rows,
                |series, read, minute, aggregate| {
                    let bucket = read.bucket(minute);
                    if F::LARGE
                        && reader.plan.is_one_row(metric, series)
                        && chunk_buckets.is_one_slot(bucket, read.resolution)
                    {
                        lines[series].values[from + bucket] = fold.value_of(aggregate);
                        0
                    } else {
                        fold.add_measured(states[series][bucket].get_or_insert_default(), aggregate)
                    }
                },
            )?;
            for (line, states) in lines.iter_mut().zip(&states) {
                for (value, state) in line.values[from..].iter_mut().zip(states) {
                    *value = state.as_ref().map_or(*value, |state| fold.value(state));
                }
            }
            reader.meter.release(reader.meter.bytes() - before);
        }
        Ok(())
    }
}

impl<F: Fold> MetricTable for FoldTable<'_, F> {
    fn keys(&self) -> &[SeriesKey] {
        self.rows.keys()
    }

    fn totals(&self) -> Vec<Option<f64>> {
        self.states.series.iter().skip(REST + 1).map(|states| total(self.fold, states)).collect()
    }

    fn nothing(&self) -> Option<f64> {
        self.fold.value(&F::State::default())
    }

    fn has_rest(&self) -> bool {
        self.rows.has_rest_rows()
    }

    fn series_values(
        self: Box<Self>,
        reader: PlanReader<'_>,
        buckets: &Buckets,
        keys: &[SeriesKey],
    ) -> Result<Vec<SeriesValues>, QueryFailure> {
        let (metric, fold, nothing) = (self.metric, self.fold, self.nothing());
        let complete = self.states.width == buckets.len();
        reader.reserve_values(keys.len() + 1, buckets)?;
        let mut lines: Vec<SeriesValues> = Vec::with_capacity(keys.len() + 1);
        for states in self.sorted(keys) {
            let values = match complete {
                true => states.iter().map(|state| fold.value(state)).collect(),
                false => vec![nothing; buckets.len()],
            };
            lines.push(SeriesValues { values, total: total(fold, &states) });
        }
        if !complete {
            Self::fill(metric, fold, reader, buckets, keys, &mut lines)?;
        }
        Ok(lines)
    }
}

fn total<F: Fold>(fold: F, states: &[F::State]) -> Option<f64> {
    if let [state] = states {
        return fold.value(state);
    }
    let mut total = F::State::default();
    states.iter().for_each(|state| fold.join(&mut total, state));
    fold.value(&total)
}

/// The states of each series: per bucket or, if those would be too many, only the totals.
struct FoldStates<F: Fold> {
    fold: F,
    /// Number of buckets per series; 1 if only totals are kept.
    width: usize,
    series: Vec<Vec<F::State>>,
    /// Memory of new states that was not reported yet.
    grown: usize,
}

impl<F: Fold> FoldStates<F> {
    fn new(fold: F, width: usize) -> FoldStates<F> {
        FoldStates { fold, width, series: vec![vec![F::State::default(); width]], grown: 0 }
    }

    #[inline]
    fn at(&mut self, series: usize, bucket: usize) -> &mut F::State {
        if series >= self.series.len() {
            self.grow(series + 1);
        }
        let bucket = if self.width == 1 { 0 } else { bucket };
        &mut self.series[series][bucket]
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        if self.width > 1 && self.width * len > states_max::<F>() {
            self.keep_totals();
        }
        self.grown +=
            (len - self.series.len()) * (self.width * size_of::<F::State>() + size_of::<Vec<F::State>>());
        self.series.resize_with(len, || vec![F::State::default(); self.width]);
    }

    /// Returns the memory by which the number of states grew since the last call.
    #[inline]
    fn take_grown(&mut self) -> usize {
        std::mem::take(&mut self.grown)
    }

    fn keep_totals(&mut self) {
        self.width = 1;
        for states in &mut self.series {
            let mut total = F::State::default();
            states.iter().for_each(|state| self.fold.join(&mut total, state));
            *states = vec![total];
        }
    }
}

/// Returns the memory of the reads of these buckets: at most an index for each slot.
fn reads_bytes(buckets: &Buckets) -> usize {
    let window = buckets.window().len();
    let slots = if buckets.len() * 60 > window { window } else { window / 60 };
    (buckets.len() + slots) * size_of::<u32>()
}

fn states_max<F: Fold>() -> usize {
    if F::LARGE { LARGE_STATES_MAX } else { STATES_MAX }
}

/// Players active in the three minutes up to each minute; for wider buckets and the window, the maximum of these.
struct OnlineTable<'a> {
    metric: &'a PlannedMetric,
    rows: SeriesIndex<'a>,
    totals: Vec<Option<f64>>,
}

impl<'a> OnlineTable<'a> {
    fn new(
        reader: PlanReader<'a>,
        metric: &'a PlannedMetric,
        buckets: &Buckets,
    ) -> Result<OnlineTable<'a>, QueryFailure> {
        let mut rows = SeriesIndex::open(reader.plan);
        let mut totals: Vec<Option<f64>> = Vec::new();
        if !reader.plan.by.is_empty() {
            Self::sweep(reader, metric, &mut rows, buckets.window(), |series, _, players| {
                totals.resize(totals.len().max(series + 1), Some(0.0));
                totals[series] = highest(totals[series], players);
            })?;
        }
        totals.resize(rows.keys().len() + 1, Some(0.0));
        totals.remove(REST);
        Ok(OnlineTable { metric, rows, totals })
    }

    /// Visits each series and minute in which players were online, with their number.
    fn sweep(
        reader: PlanReader<'_>,
        metric: &PlannedMetric,
        rows: &mut SeriesIndex<'_>,
        window: Range<u32>,
        mut visit: impl FnMut(usize, u32, f64),
    ) -> Result<(), QueryFailure> {
        for from in window.clone().step_by(ONLINE_MINUTES_AT_ONCE) {
            let until = window.end.min(from + ONLINE_MINUTES_AT_ONCE as u32);
            let read = SlotRead::of_minutes(from.saturating_sub(ONLINE_MINUTES_BEFORE)..until);
            let (first, width) = (read.minutes.start, read.minutes.len());
            let mut seen: Vec<Vec<Distinct>> = Vec::new();
            let before = reader.meter.bytes();
            reader.visit(metric, &[read], rows, |series, read, minute, aggregate| {
                let new = (series + 1).saturating_sub(seen.len());
                seen.extend((0..new).map(|_| vec![Distinct::default(); width]));
                let players = &mut seen[series][read.bucket(minute)];
                let grown = DistinctPlayers(reader.links).add_measured(players, aggregate);
                grown + new * width * size_of::<Distinct>()
            })?;
            for (series, seen) in seen.iter().enumerate() {
                for minute in from..until {
                    let at = (minute - first) as usize;
                    let recent = &seen[at.saturating_sub(ONLINE_MINUTES_BEFORE as usize)..=at];
                    if recent.iter().any(|players| !players.is_empty()) {
                        visit(series, minute, Distinct::union_count(recent) as f64);
                    }
                }
            }
            reader.meter.release(reader.meter.bytes() - before);
        }
        Ok(())
    }
}

impl MetricTable for OnlineTable<'_> {
    fn keys(&self) -> &[SeriesKey] {
        self.rows.keys()
    }

    fn totals(&self) -> Vec<Option<f64>> {
        self.totals.clone()
    }

    fn nothing(&self) -> Option<f64> {
        Some(0.0)
    }

    fn has_rest(&self) -> bool {
        self.rows.has_rest_rows()
    }

    fn series_values(
        self: Box<Self>,
        reader: PlanReader<'_>,
        buckets: &Buckets,
        keys: &[SeriesKey],
    ) -> Result<Vec<SeriesValues>, QueryFailure> {
        reader.reserve_values(keys.len() + 1, buckets)?;
        let zero = SeriesValues { values: vec![Some(0.0); buckets.len()], total: Some(0.0) };
        let mut lines = vec![zero; keys.len() + 1];
        let mut rows = SeriesIndex::with_keys(reader.plan, keys);
        Self::sweep(reader, self.metric, &mut rows, buckets.window(), |series, minute, players| {
            let line = &mut lines[series];
            let value = &mut line.values[buckets.bucket_of(minute)];
            *value = highest(*value, players);
            line.total = highest(line.total, players);
        })?;
        Ok(lines)
    }
}

fn highest(one: Option<f64>, other: f64) -> Option<f64> {
    Some(one.map_or(other, |one| one.max(other)))
}
