//! An answer that is kept up to date: only the buckets that were touched are read again, and the totals.
//!
//! A bucket is read again rather than added to, so it is what a new answer would say, however often it is read. The
//! totals are read from whole hours, which are few, and tell the order of the series as well. Where more than that can
//! have changed, everything is read again: a series came or went, or two ids turned out to be one player.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::fold::Reader;
use super::plan::{Measured, Plan};
use super::rows::Key;
use super::time::Buckets;
use super::{Answer, By, Series};
use crate::identity::Links;
use crate::ports::counters::{Counters, StoreError};

/// With more than this share of its buckets touched, reading an answer anew is no dearer.
const TOUCHED_SHARE: usize = 2;

/// What an answer is read from.
#[derive(Clone, Copy)]
struct From<'a> {
    game: u32,
    counters: &'a dyn Counters,
    links: Option<&'a Links>,
}

/// An answer with what is needed to bring it up to date.
pub struct Standing {
    plan: Plan,
    answer: Answer,
    keys: Vec<Key>,
    /// How many links there were: with each of them, distinct players may be fewer anywhere.
    links: usize,
}

/// What tells a series from the others of an answer.
type Named = (Option<String>, Vec<(By, String)>);

impl Standing {
    /// Answers a plan, as [`run`](super::run) does.
    pub fn ask(
        plan: Plan,
        game: u32,
        counters: &dyn Counters,
        links: Option<&Links>,
    ) -> Result<Standing, StoreError> {
        let known = links.map_or(0, Links::len);
        let reader = Reader::new(&plan, game, counters, links);
        let (answer, keys) = reader.answer(&plan.buckets, plan.compared.as_ref())?;
        Ok(Standing { plan, answer, keys, links: known })
    }

    /// The answer.
    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    /// The plan that it answers.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Brings the answer up to date, after metrics that it reads were touched in these minutes alone. It is then what
    /// [`run`](super::run) would say. True: only what was touched was read. After an error it has to be asked anew.
    pub fn touch(
        &mut self,
        minutes: &[u32],
        game: u32,
        counters: &dyn Counters,
        links: Option<&Links>,
    ) -> Result<bool, StoreError> {
        let from = From { game, counters, links };
        if links.map_or(0, Links::len) == self.links
            && self.plan.is_patchable()
            && self.patch(minutes, from)?
        {
            return Ok(true);
        }
        *self = Standing::ask(self.plan.clone(), game, counters, links)?;
        Ok(false)
    }

    /// False: everything has to be read again.
    fn patch(&mut self, minutes: &[u32], from: From<'_>) -> Result<bool, StoreError> {
        let window = touched(&self.plan.buckets, minutes);
        let compared =
            self.plan.compared.as_ref().map(|buckets| touched(buckets, minutes)).unwrap_or_default();
        let count: usize = window.iter().map(ExactSizeIterator::len).sum();
        if count * TOUCHED_SHARE > self.plan.buckets.len() {
            return Ok(false);
        }
        let as_of = from.counters.applied_until();
        if !window.is_empty() && !self.patch_window(&window, from)? {
            return Ok(false);
        }
        let is_touched = !window.is_empty() || !compared.is_empty();
        if is_touched && !self.patch_compared(&compared, from)? {
            return Ok(false);
        }
        self.answer.as_of = as_of;
        Ok(true)
    }

    fn patch_window(&mut self, touched: &[Range<usize>], from: From<'_>) -> Result<bool, StoreError> {
        let reader = Reader::new(&self.plan, from.game, from.counters, from.links);
        let (whole, keys) = reader.answer(&self.plan.buckets.whole(), None)?;
        let Some(mut series) = reordered(&mut self.answer.series, &whole.series) else { return Ok(false) };
        let with_rest = series.len() > keys.len() * lines_per_key(&self.plan);
        for run in touched {
            let buckets = self.plan.buckets.slice(run.clone());
            put(&mut series, run, &reader.part(&buckets, &keys, Some(with_rest))?);
        }
        (self.answer.series, self.keys) = (series, keys);
        Ok(true)
    }

    /// The other window has the keys of the first, which may have changed their order.
    fn patch_compared(&mut self, touched: &[Range<usize>], from: From<'_>) -> Result<bool, StoreError> {
        let (Some(compared), Some(buckets)) = (&mut self.answer.compare, &self.plan.compared) else {
            return Ok(true);
        };
        let reader = Reader::new(&self.plan, from.game, from.counters, from.links);
        let whole = reader.part(&buckets.whole(), &self.keys, None)?;
        let Some(mut series) = reordered(&mut compared.series, &whole) else { return Ok(false) };
        let with_rest = series.len() > self.keys.len() * lines_per_key(&self.plan);
        for run in touched {
            put(&mut series, run, &reader.part(&buckets.slice(run.clone()), &self.keys, Some(with_rest))?);
        }
        compared.series = series;
        Ok(true)
    }
}

impl Plan {
    /// Whether buckets can be read by themselves. Players online are counted over several minutes, and their totals over
    /// all of them.
    pub fn is_patchable(&self) -> bool {
        self.buckets.len() > 1 && self.metrics.iter().all(|metric| metric.measured != Measured::Online)
    }
}

/// The buckets that hold one of these minutes, which ascend.
fn touched(buckets: &Buckets, minutes: &[u32]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for minute in minutes.iter().filter(|minute| buckets.window().contains(minute)) {
        let bucket = buckets.holds(*minute);
        match runs.last_mut() {
            Some(last) if last.end > bucket => {}
            Some(last) if last.end == bucket => last.end += 1,
            _ => runs.push(bucket..bucket + 1),
        }
    }
    runs
}

/// How many series each key has.
fn lines_per_key(plan: &Plan) -> usize {
    if plan.formula.is_some() { 1 } else { plan.metrics.len() }
}

/// The series in the order of these, with their totals. `None`: they are not the same ones, and `series` is given up.
fn reordered(series: &mut Vec<Series>, like: &[Series]) -> Option<Vec<Series>> {
    let named = |series: &Series| -> Named { (series.name.clone(), series.key.clone()) };
    if series.len() != like.len() {
        return None;
    }
    let mut old: FxHashMap<Named, Series> = series.drain(..).map(|series| (named(&series), series)).collect();
    let with_total = |like: &Series| Some(Series { total: like.total, ..old.remove(&named(like))? });
    like.iter().map(with_total).collect()
}

/// Puts the values of some buckets in their places.
fn put(series: &mut [Series], run: &Range<usize>, part: &[Series]) {
    for (series, part) in series.iter_mut().zip(part) {
        series.values[run.clone()].copy_from_slice(&part.values);
    }
}
