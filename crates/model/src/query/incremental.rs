//! A query result that is kept up to date: a refresh reads only the totals and the buckets that changed.
//!
//! A changed bucket is read again rather than added to, so it equals that of a new query however often it is
//! refreshed. The totals are read from whole hours, which are few, and also decide the order of the series. If more
//! may have changed, because a series appeared or disappeared or two ids were linked, everything is read again.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::control::{Meter, QueryControl, QueryFailure};
use super::plan::{Computation, QueryPlan};
use super::run::PlanReader;
use super::series_index::SeriesKey;
use super::time::Buckets;
use super::{QueryDimension, QueryResult, Series};
use crate::identity::Links;
use crate::ports::counters::Counters;

/// A refresh reads everything if more than 1 in this many buckets changed, because that is no more expensive.
const REREAD_ALL_RATIO: usize = 2;

/// The data that a query reads.
#[derive(Clone, Copy)]
struct DataSource<'a> {
    game: u32,
    counters: &'a dyn Counters,
    links: Option<&'a Links>,
    meter: &'a Meter<'a>,
}

/// A query result, with the state needed to refresh it.
pub struct IncrementalQuery {
    plan: QueryPlan,
    result: QueryResult,
    keys: Vec<SeriesKey>,
    /// Number of links at the last read: each new link can reduce the number of distinct players in any bucket.
    links: usize,
}

/// What a refresh did to the result.
#[derive(Debug, PartialEq)]
pub enum Refreshed {
    /// Only these values changed.
    Values(ChangedValues),
    /// Only changed buckets were read, but the order of the series or the compared window changed, too.
    Rearranged,
    /// Everything was read again. Holds the result before, unless it was already partly overwritten.
    Replaced(Option<QueryResult>),
}

/// The values of a result that changed, all of the first window.
#[derive(Debug, Default, PartialEq)]
pub struct ChangedValues {
    /// Changed points: the index of the series and of the bucket.
    pub points: Vec<(usize, usize)>,
    /// The indexes of series whose totals changed.
    pub totals: Vec<usize>,
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
        control: &dyn QueryControl,
    ) -> Result<IncrementalQuery, QueryFailure> {
        let known = links.map_or(0, Links::len);
        let meter = Meter::new(control);
        let reader = PlanReader::new(&plan, game, counters, links, &meter);
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
    /// equals that of [`run`](super::run), and is patched in place where possible. After an error the query has to be
    /// run anew.
    pub fn refresh(
        &mut self,
        minutes: &[u32],
        game: u32,
        counters: &dyn Counters,
        links: Option<&Links>,
        control: &dyn QueryControl,
    ) -> Result<Refreshed, QueryFailure> {
        let meter = Meter::new(control);
        let source = DataSource { game, counters, links, meter: &meter };
        let mut is_intact = true;
        if links.map_or(0, Links::len) == self.links && self.plan.is_refreshable() {
            match self.patch(minutes, source)? {
                Patch::Done(refreshed) => return Ok(refreshed),
                Patch::Impossible { is_intact: intact } => is_intact = intact,
            }
        }
        let new = IncrementalQuery::run(self.plan.clone(), game, counters, links, control)?;
        let old = std::mem::replace(self, new);
        Ok(Refreshed::Replaced(is_intact.then_some(old.result)))
    }

    /// Reads only what changed, if the series are still the same.
    fn patch(&mut self, minutes: &[u32], source: DataSource<'_>) -> Result<Patch, QueryFailure> {
        let window = changed_buckets(&self.plan.buckets, minutes);
        let compared =
            self.plan.compared.as_ref().map(|buckets| changed_buckets(buckets, minutes)).unwrap_or_default();
        let count: usize = window.iter().map(ExactSizeIterator::len).sum();
        if count * REREAD_ALL_RATIO > self.plan.buckets.len() {
            return Ok(Patch::Impossible { is_intact: true });
        }
        let as_of = source.counters.applied_until();
        let mut changes = SeriesChanges::default();
        if !window.is_empty() {
            match self.patch_window(&window, source)? {
                Some(changed) => changes = changed,
                None => return Ok(Patch::Impossible { is_intact: true }),
            }
        }
        let mut compared_changes = SeriesChanges::default();
        if !window.is_empty() || !compared.is_empty() {
            match self.patch_compared(&compared, source)? {
                Some(changed) => compared_changes = changed,
                None => return Ok(Patch::Impossible { is_intact: window.is_empty() }),
            }
        }
        self.result.as_of = as_of;
        Ok(Patch::Done(if changes.are_reordered || compared_changes != SeriesChanges::default() {
            Refreshed::Rearranged
        } else {
            Refreshed::Values(changes.values)
        }))
    }

    /// Patches the first window. Returns `None`, and changes nothing, if its series are not the same any more.
    fn patch_window(
        &mut self,
        changed: &[Range<usize>],
        source: DataSource<'_>,
    ) -> Result<Option<SeriesChanges>, QueryFailure> {
        let reader = PlanReader::new(&self.plan, source.game, source.counters, source.links, source.meter);
        let (whole, keys) = reader.run(&self.plan.buckets.whole(), None)?;
        let Some(order) = order_like(&self.result.series, &whole.series) else { return Ok(None) };
        let with_rest = whole.series.len() > keys.len() * series_per_key(&self.plan);
        let mut parts = Vec::with_capacity(changed.len());
        for run in changed {
            let buckets = self.plan.buckets.slice(run.clone());
            parts.push((run, reader.partial_series(&buckets, &keys, Some(with_rest))?));
        }
        self.keys = keys;
        Ok(Some(apply(&mut self.result.series, &order, &whole.series, &parts)))
    }

    /// Patches the compared window, which has the same keys as the first, though their order may have changed. Returns
    /// `None`, and changes nothing, if its series are not the same any more.
    fn patch_compared(
        &mut self,
        changed: &[Range<usize>],
        source: DataSource<'_>,
    ) -> Result<Option<SeriesChanges>, QueryFailure> {
        let (Some(compared), Some(buckets)) = (&mut self.result.compare, &self.plan.compared) else {
            return Ok(Some(SeriesChanges::default()));
        };
        let reader = PlanReader::new(&self.plan, source.game, source.counters, source.links, source.meter);
        let whole = reader.partial_series(&buckets.whole(), &self.keys, None)?;
        let Some(order) = order_like(&compared.series, &whole) else { return Ok(None) };
        let with_rest = whole.len() > self.keys.len() * series_per_key(&self.plan);
        let mut parts = Vec::with_capacity(changed.len());
        for run in changed {
            parts.push((
                run,
                reader.partial_series(&buckets.slice(run.clone()), &self.keys, Some(with_rest))?,
            ));
        }
        Ok(Some(apply(&mut compared.series, &order, &whole, &parts)))
    }
}

/// The outcome of reading only what changed.
enum Patch {
    Done(Refreshed),
    /// Everything has to be read again. If the result is not intact, a window of it was already patched.
    Impossible {
        is_intact: bool,
    },
}

/// What changed in the series of one window.
#[derive(Default, PartialEq)]
struct SeriesChanges {
    values: ChangedValues,
    are_reordered: bool,
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

/// Returns for each series of `like` the index of the same series in `series`, or `None` if they are not the same ones.
fn order_like(series: &[Series], like: &[Series]) -> Option<Vec<usize>> {
    let is_same = |(old, new): (&Series, &Series)| old.name == new.name && old.key == new.key;
    if series.len() != like.len() {
        return None;
    }
    if series.iter().zip(like).all(is_same) {
        return Some((0..like.len()).collect());
    }
    let series_id = |series: &Series| -> SeriesId { (series.name.clone(), series.key.clone()) };
    let mut indexes: FxHashMap<SeriesId, usize> =
        series.iter().enumerate().map(|(index, series)| (series_id(series), index)).collect();
    like.iter().map(|like| indexes.remove(&series_id(like))).collect()
}

/// Puts the series into an order and takes over the totals of `like` and the values of some ranges of buckets. Returns
/// what changed.
fn apply(
    series: &mut Vec<Series>,
    order: &[usize],
    like: &[Series],
    parts: &[(&Range<usize>, Vec<Series>)],
) -> SeriesChanges {
    let are_reordered = order.iter().enumerate().any(|(index, from)| index != *from);
    let mut changes = SeriesChanges { are_reordered, ..SeriesChanges::default() };
    if changes.are_reordered {
        let mut old: Vec<Option<Series>> = series.drain(..).map(Some).collect();
        series.extend(order.iter().map(|from| old[*from].take().expect("each series has one place")));
    }
    for (index, (series, like)) in series.iter_mut().zip(like).enumerate() {
        for (run, part) in parts {
            debug_assert_eq!(part.len(), order.len(), "each part has every series");
            let (old, new) = (&mut series.values[(*run).clone()], &part[index].values);
            let changed = old.iter().zip(new).enumerate().filter(|(_, (old, new))| old != new);
            changes.values.points.extend(changed.map(|(bucket, _)| (index, run.start + bucket)));
            old.copy_from_slice(new);
        }
        if series.total != like.total {
            changes.values.totals.push(index);
            series.total = like.total;
        }
    }
    changes
}
