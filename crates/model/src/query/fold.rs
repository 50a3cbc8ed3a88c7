//! From the slots of the store to the numbers of an answer.

use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};

use super::measures::{Average, Count, Fold, Largest, Newest, Players, Quantile, Smallest, Sum};
use super::plan::{Measured, Metric, ONLINE_MINUTES_BEFORE, Plan, Source, is_event};
use super::rows::{Key, REST, Rows};
use super::time::{self, Buckets, Read};
use super::{Answer, Compared, Series, Times};
use crate::identity::Links;
use crate::ports::counters::{Counters, Select, StoreError};
use crate::rollup::{Cell, Distinct};
use crate::series::OTHER;

/// Small parts in memory at a time. A query that would need more reads everything twice: for the totals, that say which
/// series the answer has, and then for these alone.
const PARTS_MAX: usize = 4 << 20;
/// The same for parts of up to 32 KiB.
const LARGE_PARTS_MAX: usize = 1 << 10;
/// Minutes of players in memory at a time.
const ONLINE_MINUTES_AT_ONCE: usize = 60;

/// Answers a plan over the rollups of a game. `links` says which ids are one player, for what was counted before that was
/// known.
pub fn run(
    plan: &Plan,
    game: u32,
    counters: &dyn Counters,
    links: Option<&Links>,
) -> Result<Answer, StoreError> {
    let reader = Reader::new(plan, game, counters, links);
    Ok(reader.answer(&plan.buckets, plan.compared.as_ref())?.0)
}

impl Plan {
    fn times(&self, buckets: &Buckets) -> Times {
        let offsets = time::offsets(&self.zone, &buckets.starts);
        Times { minutes: buckets.starts.clone(), offsets, utc: matches!(&self.tz[..], "UTC" | "Etc/UTC") }
    }
}

/// One metric over one window, as far as it is known before it is decided which keys have a series.
trait Table {
    fn keys(&self) -> &[Key];
    /// The total of each key.
    fn totals(&self) -> Vec<Option<f64>>;
    /// The total of a key that is not there.
    fn nothing(&self) -> Option<f64>;
    /// Something came that is of no key.
    fn has_rest(&self) -> bool;
    /// One line for the rest, then one per key.
    fn lines(
        self: Box<Self>,
        reader: Reader<'_>,
        buckets: &Buckets,
        keys: &[Key],
    ) -> Result<Vec<Line>, StoreError>;
}

/// The numbers of a series.
#[derive(Clone)]
struct Line {
    values: Vec<Option<f64>>,
    total: Option<f64>,
}

/// The keys that have a series of their own: those with the highest totals of the formula or of the first metric.
fn rank(plan: &Plan, tables: &[Box<dyn Table + '_>]) -> Vec<Key> {
    let mut totals: FxHashMap<&Key, Vec<Option<f64>>> = FxHashMap::default();
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
    let mut ranked: Vec<(f64, &Key)> =
        totals.iter().map(|(key, metrics)| (total(metrics).unwrap_or(f64::NEG_INFINITY), *key)).collect();
    ranked.sort_unstable_by(|(a, a_key), (b, b_key)| b.total_cmp(a).then_with(|| a_key.cmp(b_key)));
    ranked.into_iter().take(plan.top).map(|(_, key)| key.clone()).collect()
}

/// There is something that none of these keys has.
fn has_rest(table: &dyn Table, keys: &[Key]) -> bool {
    let known: FxHashSet<&Key> = keys.iter().collect();
    table.has_rest() || table.keys().iter().any(|key| !known.contains(key))
}

/// Reads what a plan asks for.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    plan: &'a Plan,
    game: u32,
    counters: &'a dyn Counters,
    links: Option<&'a Links>,
}

impl<'a> Reader<'a> {
    pub fn new(
        plan: &'a Plan,
        game: u32,
        counters: &'a dyn Counters,
        links: Option<&'a Links>,
    ) -> Reader<'a> {
        Reader { plan, game, counters, links: links.filter(|links| !links.is_empty()) }
    }

    /// The answer over these buckets, and the keys that have a series of their own.
    pub fn answer(
        self,
        buckets: &Buckets,
        compared: Option<&Buckets>,
    ) -> Result<(Answer, Vec<Key>), StoreError> {
        let (plan, as_of) = (self.plan, self.counters.applied_until());
        let tables = self.tables(buckets)?;
        let keys = rank(plan, &tables);
        let series = self.series(tables, buckets, &keys, None)?;
        let compare = match compared {
            None => None,
            Some(buckets) => {
                let series = self.part(buckets, &keys, None)?;
                Some(Compared { times: plan.times(buckets), series })
            }
        };
        let (step, tz) = (plan.step, plan.tz.clone());
        Ok((Answer { step, tz, times: plan.times(buckets), series, compare, as_of }, keys))
    }

    /// The series of these buckets alone, as they stand in an answer that has these keys. `(other)` is there where
    /// something belongs to it, unless that was said.
    pub fn part(
        self,
        buckets: &Buckets,
        keys: &[Key],
        with_rest: Option<bool>,
    ) -> Result<Vec<Series>, StoreError> {
        self.series(self.tables(buckets)?, buckets, keys, with_rest)
    }

    fn tables(self, buckets: &Buckets) -> Result<Vec<Box<dyn Table + 'a>>, StoreError> {
        self.plan.metrics.iter().map(|metric| self.table(metric, buckets)).collect()
    }

    fn table(self, metric: &'a Metric, buckets: &Buckets) -> Result<Box<dyn Table + 'a>, StoreError> {
        Ok(match metric.measured {
            Measured::Count => Box::new(Gathered::new(self, metric, buckets, Count)?),
            Measured::Sum => Box::new(Gathered::new(self, metric, buckets, Sum)?),
            Measured::Min => Box::new(Gathered::new(self, metric, buckets, Smallest)?),
            Measured::Max => Box::new(Gathered::new(self, metric, buckets, Largest)?),
            Measured::Last => Box::new(Gathered::new(self, metric, buckets, Newest)?),
            Measured::Avg => Box::new(Gathered::new(self, metric, buckets, Average)?),
            Measured::Uniques => Box::new(Gathered::new(self, metric, buckets, Players(self.links))?),
            Measured::Quantile(share) => Box::new(Gathered::new(self, metric, buckets, Quantile(share))?),
            Measured::Online => Box::new(Online::new(self, metric, buckets)?),
        })
    }

    /// The series of an answer, in its order. `(other)` is there where something belongs to it, unless that was said.
    fn series(
        self,
        tables: Vec<Box<dyn Table + 'a>>,
        buckets: &Buckets,
        keys: &[Key],
        with_rest: Option<bool>,
    ) -> Result<Vec<Series>, StoreError> {
        let met_rest = || self.plan.by.is_empty() || tables.iter().any(|table| has_rest(&**table, keys));
        let has_rest = with_rest.unwrap_or_else(met_rest);
        let lines: Result<Vec<Vec<Line>>, StoreError> =
            tables.into_iter().map(|table| table.lines(self, buckets, keys)).collect();
        let mut series = Vec::new();
        for (name, mut lines) in self.named(lines?) {
            lines.rotate_left(1);
            if !has_rest {
                lines.pop();
            }
            let keyed = lines.into_iter().enumerate();
            series.extend(keyed.map(|(index, line)| self.one_series(name.clone(), keys.get(index), line)));
        }
        Ok(series)
    }

    /// The lines of each metric with its name or, if there is only one or a formula makes one of them, without.
    fn named(self, mut lines: Vec<Vec<Line>>) -> Vec<(Option<String>, Vec<Line>)> {
        if let Some(formula) = &self.plan.formula {
            let mut stack = Vec::new();
            let of = |index: usize| {
                let values = (0..lines[0][index].values.len())
                    .map(|bucket| formula.value(|metric| lines[metric][index].values[bucket], &mut stack))
                    .collect();
                Line { values, total: formula.value(|metric| lines[metric][index].total, &mut stack) }
            };
            return vec![(None, (0..lines[0].len()).map(of).collect())];
        }
        if lines.len() == 1 {
            return vec![(None, lines.remove(0))];
        }
        let names = self.plan.metrics.iter().map(|metric| Some(metric.name.clone()));
        names.zip(lines).collect()
    }

    fn one_series(self, name: Option<String>, key: Option<&Key>, line: Line) -> Series {
        let values = key.cloned().unwrap_or_else(|| vec![OTHER.to_owned(); self.plan.by.len()]);
        let key = self.plan.by.iter().cloned().zip(values).collect();
        Series { name, key, values: line.values, total: line.total }
    }

    /// Visits what fills the reads: the series, the slot and its cell.
    fn visit(
        self,
        metric: &Metric,
        reads: &[Read],
        rows: &mut Rows<'_>,
        mut on: impl FnMut(usize, &Read, u32, &Cell),
    ) -> Result<(), StoreError> {
        let values: Option<Vec<&str>> = self.plan.row_values();
        let (Some(first), Some(last)) = (reads.first(), reads.last()) else { return Ok(()) };
        for stored in self.stored_metrics(metric, first.minutes.start..last.minutes.end)? {
            rows.of_event(&stored);
            for read in reads {
                let select = Select {
                    game: self.game,
                    metric: &stored,
                    cut: self.plan.cut,
                    values: values.as_deref(),
                    level: read.level,
                };
                self.counters.visit(select, read.minutes.clone(), &mut |row, minute, cell| {
                    if let Some(series) = rows.series(row) {
                        on(series, read, minute, cell);
                    }
                })?;
            }
        }
        Ok(())
    }

    fn stored_metrics(self, metric: &Metric, minutes: Range<u32>) -> Result<Vec<String>, StoreError> {
        Ok(match &metric.source {
            Source::One(name) => vec![name.clone()],
            Source::Events(names) => names.clone(),
            Source::EveryEvent => {
                let mut names = self.counters.metrics(self.game, minutes)?;
                names.retain(|name| is_event(name));
                names
            }
        })
    }
}

/// A metric whose cells simply add up.
struct Gathered<'a, F: Fold> {
    metric: &'a Metric,
    fold: F,
    rows: Rows<'a>,
    parts: Parts<F>,
}

impl<'a, F: Fold> Gathered<'a, F> {
    fn new(reader: Reader<'a>, metric: &'a Metric, buckets: &Buckets, fold: F) -> Result<Self, StoreError> {
        let whole = F::LARGE.then(|| buckets.whole());
        let buckets = whole.as_ref().unwrap_or(buckets);
        let mut rows = Rows::open(reader.plan);
        let mut parts = Parts::new(fold, buckets.len());
        reader.visit(metric, &time::reads(buckets), &mut rows, |series, read, minute, cell| {
            fold.add(parts.at(series, read.bucket(minute)), cell);
        })?;
        Ok(Gathered { metric, fold, rows, parts })
    }

    /// The parts of the rest and of each key. What has another key joins the rest.
    fn sorted(self, keys: &[Key]) -> Vec<Vec<F::Part>> {
        let lines: FxHashMap<&Key, usize> = keys.iter().zip(REST + 1..).collect();
        let line_of: Vec<usize> =
            self.rows.keys().iter().map(|key| lines.get(key).copied().unwrap_or(REST)).collect();
        let mut sorted: Vec<Vec<F::Part>> = vec![Vec::new(); keys.len() + 1];
        for (series, parts) in self.parts.series.into_iter().enumerate() {
            let line = &mut sorted[if series == REST { REST } else { line_of[series - 1] }];
            if line.is_empty() {
                *line = parts;
            } else {
                line.iter_mut().zip(&parts).for_each(|(one, other)| self.fold.join(one, other));
            }
        }
        sorted
            .iter_mut()
            .filter(|line| line.is_empty())
            .for_each(|line| line.resize(self.parts.width, F::Part::default()));
        sorted
    }

    /// Fills lines of which only the totals are known, a few buckets at a time.
    fn fill(
        metric: &Metric,
        fold: F,
        reader: Reader<'_>,
        buckets: &Buckets,
        keys: &[Key],
        lines: &mut [Line],
    ) -> Result<(), StoreError> {
        let mut rows = Rows::of_keys(reader.plan, keys);
        let at_once = (parts_max::<F>() / lines.len()).max(1);
        for from in (0..buckets.len()).step_by(at_once) {
            let some = buckets.slice(from..buckets.len().min(from + at_once));
            let mut parts: Vec<Vec<Option<F::Part>>> = vec![vec![None; some.len()]; lines.len()];
            reader.visit(metric, &time::reads(&some), &mut rows, |series, read, minute, cell| {
                let bucket = read.bucket(minute);
                if F::LARGE && reader.plan.is_one_row(metric, series) && some.is_one_slot(bucket, read.level)
                {
                    lines[series].values[from + bucket] = fold.value_of(cell);
                } else {
                    fold.add(parts[series][bucket].get_or_insert_default(), cell);
                }
            })?;
            for (line, parts) in lines.iter_mut().zip(&parts) {
                for (value, part) in line.values[from..].iter_mut().zip(parts) {
                    *value = part.as_ref().map_or(*value, |part| fold.value(part));
                }
            }
        }
        Ok(())
    }
}

impl<F: Fold> Table for Gathered<'_, F> {
    fn keys(&self) -> &[Key] {
        self.rows.keys()
    }

    fn totals(&self) -> Vec<Option<f64>> {
        self.parts.series.iter().skip(REST + 1).map(|parts| total(self.fold, parts)).collect()
    }

    fn nothing(&self) -> Option<f64> {
        self.fold.value(&F::Part::default())
    }

    fn has_rest(&self) -> bool {
        self.rows.met_rest()
    }

    fn lines(
        self: Box<Self>,
        reader: Reader<'_>,
        buckets: &Buckets,
        keys: &[Key],
    ) -> Result<Vec<Line>, StoreError> {
        let (metric, fold, nothing) = (self.metric, self.fold, self.nothing());
        let complete = self.parts.width == buckets.len();
        let mut lines: Vec<Line> = Vec::with_capacity(keys.len() + 1);
        for parts in self.sorted(keys) {
            let values = match complete {
                true => parts.iter().map(|part| fold.value(part)).collect(),
                false => vec![nothing; buckets.len()],
            };
            lines.push(Line { values, total: total(fold, &parts) });
        }
        if !complete {
            Self::fill(metric, fold, reader, buckets, keys, &mut lines)?;
        }
        Ok(lines)
    }
}

fn total<F: Fold>(fold: F, parts: &[F::Part]) -> Option<f64> {
    if let [part] = parts {
        return fold.value(part);
    }
    let mut total = F::Part::default();
    parts.iter().for_each(|part| fold.join(&mut total, part));
    fold.value(&total)
}

/// The parts of each series, by bucket or, where those would be too many, only their totals.
struct Parts<F: Fold> {
    fold: F,
    /// Buckets of a series; one when only totals are kept.
    width: usize,
    series: Vec<Vec<F::Part>>,
}

impl<F: Fold> Parts<F> {
    fn new(fold: F, width: usize) -> Parts<F> {
        Parts { fold, width, series: vec![vec![F::Part::default(); width]] }
    }

    #[inline]
    fn at(&mut self, series: usize, bucket: usize) -> &mut F::Part {
        if series >= self.series.len() {
            self.grow(series + 1);
        }
        let bucket = if self.width == 1 { 0 } else { bucket };
        &mut self.series[series][bucket]
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        if self.width > 1 && self.width * len > parts_max::<F>() {
            self.keep_totals();
        }
        self.series.resize_with(len, || vec![F::Part::default(); self.width]);
    }

    fn keep_totals(&mut self) {
        self.width = 1;
        for parts in &mut self.series {
            let mut total = F::Part::default();
            parts.iter().for_each(|part| self.fold.join(&mut total, part));
            *parts = vec![total];
        }
    }
}

fn parts_max<F: Fold>() -> usize {
    if F::LARGE { LARGE_PARTS_MAX } else { PARTS_MAX }
}

/// Players seen in the three minutes that end with a minute; of wider buckets, and of the window, the highest of these.
struct Online<'a> {
    metric: &'a Metric,
    rows: Rows<'a>,
    totals: Vec<Option<f64>>,
}

impl<'a> Online<'a> {
    fn new(reader: Reader<'a>, metric: &'a Metric, buckets: &Buckets) -> Result<Online<'a>, StoreError> {
        let mut rows = Rows::open(reader.plan);
        let mut totals: Vec<Option<f64>> = Vec::new();
        if !reader.plan.by.is_empty() {
            Self::sweep(reader, metric, &mut rows, buckets.window(), |series, _, players| {
                totals.resize(totals.len().max(series + 1), Some(0.0));
                totals[series] = highest(totals[series], players);
            })?;
        }
        totals.resize(rows.keys().len() + 1, Some(0.0));
        totals.remove(REST);
        Ok(Online { metric, rows, totals })
    }

    /// Tells the series, the minute and how many were online, where anybody was.
    fn sweep(
        reader: Reader<'_>,
        metric: &Metric,
        rows: &mut Rows<'_>,
        window: Range<u32>,
        mut on: impl FnMut(usize, u32, f64),
    ) -> Result<(), StoreError> {
        for from in window.clone().step_by(ONLINE_MINUTES_AT_ONCE) {
            let until = window.end.min(from + ONLINE_MINUTES_AT_ONCE as u32);
            let read = Read::of_minutes(from.saturating_sub(ONLINE_MINUTES_BEFORE)..until);
            let (first, width) = (read.minutes.start, read.minutes.len());
            let mut seen: Vec<Vec<Distinct>> = Vec::new();
            reader.visit(metric, &[read], rows, |series, read, minute, cell| {
                while seen.len() <= series {
                    seen.push(vec![Distinct::default(); width]);
                }
                Players(reader.links).add(&mut seen[series][read.bucket(minute)], cell);
            })?;
            for (series, seen) in seen.iter().enumerate() {
                for minute in from..until {
                    let at = (minute - first) as usize;
                    let recent = &seen[at.saturating_sub(ONLINE_MINUTES_BEFORE as usize)..=at];
                    if recent.iter().any(|players| !players.is_empty()) {
                        on(series, minute, Distinct::union_count(recent) as f64);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Table for Online<'_> {
    fn keys(&self) -> &[Key] {
        self.rows.keys()
    }

    fn totals(&self) -> Vec<Option<f64>> {
        self.totals.clone()
    }

    fn nothing(&self) -> Option<f64> {
        Some(0.0)
    }

    fn has_rest(&self) -> bool {
        self.rows.met_rest()
    }

    fn lines(
        self: Box<Self>,
        reader: Reader<'_>,
        buckets: &Buckets,
        keys: &[Key],
    ) -> Result<Vec<Line>, StoreError> {
        let nobody = Line { values: vec![Some(0.0); buckets.len()], total: Some(0.0) };
        let mut lines = vec![nobody; keys.len() + 1];
        let mut rows = Rows::of_keys(reader.plan, keys);
        Self::sweep(reader, self.metric, &mut rows, buckets.window(), |series, minute, players| {
            let line = &mut lines[series];
            let value = &mut line.values[buckets.holds(minute)];
            *value = highest(*value, players);
            line.total = highest(line.total, players);
        })?;
        Ok(lines)
    }
}

fn highest(one: Option<f64>, other: f64) -> Option<f64> {
    Some(one.map_or(other, |one| one.max(other)))
}
