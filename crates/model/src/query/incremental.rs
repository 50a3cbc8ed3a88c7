//! A query result that is kept up to date: a refresh reads only the totals and the buckets that changed.
//!
//! A changed bucket is read again rather than added to, so it equals that of a new query however often it is
//! refreshed. The totals are read from whole hours, which are few, and also decide the order of the series. If more
//! may have changed, because a series appeared or disappeared or two ids were linked, everything is read again.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::plan::{Computation, QueryPlan};
use super::run::PlanReader;
use super::series_index::SeriesKey;
use super::time::Buckets;
use super::{QueryDimension, QueryResult, Series};
use crate::identity::Links;
use crate::ports::counters::{Counters, StoreError};

/// A refresh reads everything if more than 1 in this many buckets changed, because that is no more expensive.
const REREAD_ALL_RATIO: usize = 2;

/// The data that a query reads.
#[derive(Clone, Copy)]
struct DataSource<'a> {
    game: u32,
    counters: &'a dyn Counters,
    links: Option<&'a Links>,
}

/// A query result, with the state needed to refresh it.
pub struct IncrementalQuery {
    plan: QueryPlan,
    result: QueryResult,
    keys: Vec<SeriesKey>,
    /// Number of links at the last read: each new link can reduce the number of distinct players in any bucket.
    links: usize,
}

/// The identity of a series within a result.
type SeriesId = (Option<String>, Vec<(QueryDimension, String)>);

impl IncrementalQuery {
    /// Runs a plan, as [`run`](super::run) does.
    pub fn run(
        plan: QueryPlan,
        game: u32,
        counters: &dyn Counters,
        links: Option<&Links>,
    ) -> Result<IncrementalQuery, StoreError> {
        let known = links.map_or(0, Links::len);
        let reader = PlanReader::new(&plan, game, counters, links);
        let (result, keys) = reader.run(&plan.buckets, plan.compared.as_ref())?;
        Ok(IncrementalQuery { plan, result, keys, links: known })
    }

    /// Returns the current result.
    pub fn result(&self) -> &QueryResult {
        &self.result
    }

    /// Returns the plan of the query.
    pub fn plan(&self) -> &QueryPlan {
        &self.plan
    }

    /// Refreshes the result after the metrics of the plan changed in these minutes only (ascending). The result then
    /// equals that of [`run`](super::run). Returns true if only the changes were read, false if everything was read
    /// again. After an error the query has to be run anew.
    pub fn refresh(
        &mut self,
        minutes: &[u32],
        game: u32,
        counters: &dyn Counters,
        links: Option<&Links>,
    ) -> Result<bool, StoreError> {
        let source = DataSource { game, counters, links };
        if links.map_or(0, Links::len) == self.links
            && self.plan.is_refreshable()
            && self.patch(minutes, source)?
        {
            return Ok(true);
        }
        *self = IncrementalQuery::run(self.plan.clone(), game, counters, links)?;
        Ok(false)
    }

    /// Reads the changes only; returns false if everything has to be read again.
    fn patch(&mut self, minutes: &[u32], source: DataSource<'_>) -> Result<bool, StoreError> {
        let window = changed_buckets(&self.plan.buckets, minutes);
        let compared =
            self.plan.compared.as_ref().map(|buckets| changed_buckets(buckets, minutes)).unwrap_or_default();
        let count: usize = window.iter().map(ExactSizeIterator::len).sum();
        if count * REREAD_ALL_RATIO > self.plan.buckets.len() {
            return Ok(false);
        }
        let as_of = source.counters.applied_until();
        if !window.is_empty() && !self.patch_window(&window, source)? {
            return Ok(false);
        }
        let has_changes = !window.is_empty() || !compared.is_empty();
        if has_changes && !self.patch_compared(&compared, source)? {
            return Ok(false);
        }
        self.result.as_of = as_of;
        Ok(true)
    }

    fn patch_window(&mut self, changed: &[Range<usize>], source: DataSource<'_>) -> Result<bool, StoreError> {
        let reader = PlanReader::new(&self.plan, source.game, source.counters, source.links);
        let (whole, keys) = reader.run(&self.plan.buckets.whole(), None)?;
        let Some(mut series) = reorder(&mut self.result.series, &whole.series) else { return Ok(false) };
        let with_rest = series.len() > keys.len() * series_per_key(&self.plan);
        for run in changed {
            let buckets = self.plan.buckets.slice(run.clone());
            replace_values(&mut series, run, &reader.partial_series(&buckets, &keys, Some(with_rest))?);
        }
        (self.result.series, self.keys) = (series, keys);
        Ok(true)
    }

    /// The compared window has the same keys as the first, but their order may have changed.
    fn patch_compared(
        &mut self,
        changed: &[Range<usize>],
        source: DataSource<'_>,
    ) -> Result<bool, StoreError> {
        let (Some(compared), Some(buckets)) = (&mut self.result.compare, &self.plan.compared) else {
            return Ok(true);
        };
        let reader = PlanReader::new(&self.plan, source.game, source.counters, source.links);
        let whole = reader.partial_series(&buckets.whole(), &self.keys, None)?;
        let Some(mut series) = reorder(&mut compared.series, &whole) else { return Ok(false) };
        let with_rest = series.len() > self.keys.len() * series_per_key(&self.plan);
        for run in changed {
            replace_values(
                &mut series,
                run,
                &reader.partial_series(&buckets.slice(run.clone()), &self.keys, Some(with_rest))?,
            );
        }
        compared.series = series;
        Ok(true)
    }
}

impl QueryPlan {
    /// Returns true if buckets can be read independently of each other. Online players are counted over several
    /// minutes, and their totals over all of them.
    pub fn is_refreshable(&self) -> bool {
        self.buckets.len() > 1 && self.metrics.iter().all(|metric| metric.computation != Computation::Online)
    }
}

/// Returns the ranges of buckets that contain any of these minutes, which must ascend.
fn changed_buckets(buckets: &Buckets, minutes: &[u32]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for minute in minutes.iter().filter(|minute| buckets.window().contains(minute)) {
        let bucket = buckets.bucket_of(*minute);
        match runs.last_mut() {
            Some(last) if last.end > bucket => {}
            Some(last) if last.end == bucket => last.end += 1,
            _ => runs.push(bucket..bucket + 1),
        }
    }
    runs
}

/// Returns the number of series per key.
fn series_per_key(plan: &QueryPlan) -> usize {
    if plan.formula.is_some() { 1 } else { plan.metrics.len() }
}

/// Reorders the series like those of `like` and takes over their totals. Returns `None`, and leaves `series`
/// unusable, if the series are not the same.
fn reorder(series: &mut Vec<Series>, like: &[Series]) -> Option<Vec<Series>> {
    let series_id = |series: &Series| -> SeriesId { (series.name.clone(), series.key.clone()) };
    if series.len() != like.len() {
        return None;
    }
    let mut old: FxHashMap<SeriesId, Series> =
        series.drain(..).map(|series| (series_id(&series), series)).collect();
    let with_total = |like: &Series| Some(Series { total: like.total, ..old.remove(&series_id(like))? });
    like.iter().map(with_total).collect()
}

/// Replaces the values of a range of buckets.
fn replace_values(series: &mut [Series], run: &Range<usize>, part: &[Series]) {
    for (series, part) in series.iter_mut().zip(part) {
        series.values[run.clone()].copy_from_slice(&part.values);
    }
}
