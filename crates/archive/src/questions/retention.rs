//! How many players come back.
//!
//! # Rules
//! - A player's cohort is the calendar's period (day, week or month, in the time zone of the question) of the first
//!   start event in the range.
//! - Period 0 is the cohort's own. A return counts if it is that first start event itself, or an event after it in the
//!   range.
//! - `classic` n: came back in period n. `rolling` n: in period n or later. `bounded` n: in one of the periods 1 to n;
//!   0: in period 0.
//! - With `by`, a player belongs to the value at the first start event.
//! - Periods that begin after the range have no number. The last period within the range may be incomplete:
//!   `complete` is the number of periods that are not.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use model::limits::{QUERY_POINTS_MAX, QUERY_TOP_MAX};
use model::query::{BucketTimes, Buckets, QueryError, Step};
use rustc_hash::FxBuildHasher;
use serde_json::{Map, Value, json};

use super::answer::{Answer, RowsTooLarge, key_object, time_texts};
use super::calendar::BucketOf;
use super::explore::by_labels;
use super::filter::{Condition, ConditionBudget};
use super::groups::{Groups, named_key, top_groups};
use super::limits::{BY_MAX, RETENTION_PERIODS_MAX};
use super::request::{Fields, WindowRequest, days, object};
use super::select::{EventPattern, Selector};
use super::walk::{PlayerQuestion, walk_players};
use super::{Context, FieldList, QuestionFailure};
use crate::columns::{Chunk, Field};

const DEFAULT_DAYS: u32 = 30;
const DEFAULT_PERIODS: usize = 14;
const DEFAULT_TOP: usize = 10;
const START: u16 = 1;
const RETURN: u16 = 2;

/// A question about players who come back.
#[derive(Clone, Debug, PartialEq)]
pub struct Retention {
    window: WindowRequest,
    filter: Condition,
    start: EventPattern,
    returns: EventPattern,
    step: Step,
    periods: usize,
    kind: RetentionKind,
    by: Vec<Field>,
    top: usize,
}

/// What "came back in period n" means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetentionKind {
    /// In period n.
    Classic,
    /// In period n or later.
    Rolling,
    /// In one of the periods 1 to n.
    Bounded,
}

/// The answer of [`Retention`].
#[derive(Clone, Debug, PartialEq)]
pub struct RetentionAnswer {
    /// Start times of the periods.
    pub times: BucketTimes,
    /// All players, one cohort per period.
    pub cohorts: Vec<RetentionCohort>,
    /// By the value at the first start event: the most players first, `(other)` last.
    pub series: Vec<RetentionSeries>,
    by: Vec<String>,
}

/// The cohorts of the players with one value.
#[derive(Clone, Debug, PartialEq)]
pub struct RetentionSeries {
    /// The name and value of each property.
    pub key: Vec<(String, String)>,
    /// One cohort per period.
    pub cohorts: Vec<RetentionCohort>,
}

/// The players who started in one period.
#[derive(Clone, Debug, PartialEq)]
pub struct RetentionCohort {
    /// How many.
    pub players: u64,
    /// How many of them came back, by period. `None` for periods after the range.
    pub returned: Vec<Option<u64>>,
    /// The number of periods that lie in the range as a whole.
    pub complete: usize,
}

impl Retention {
    /// Parses a request.
    pub fn from_json(body: &[u8]) -> Result<Retention, QueryError> {
        let map = object(body)?;
        let mut fields = Fields::of_body(&map, "a retention question");
        let mut budget = ConditionBudget::default();
        let start = EventPattern::read_item(&fields.required("start")?, "a start event", &mut budget)?;
        let returns = EventPattern::read_item(&fields.required("return")?, "a return event", &mut budget)?;
        let step = |label: &str| {
            Step::from_label(label).filter(|step| matches!(step, Step::Day | Step::Week | Step::Month))
        };
        let kind = |kind: &str| match kind {
            "classic" => Some(RetentionKind::Classic),
            "rolling" => Some(RetentionKind::Rolling),
            "bounded" => Some(RetentionKind::Bounded),
            _ => None,
        };
        let periods = fields.optional("periods");
        let periods = periods.map(|periods| periods.integer(1..=RETENTION_PERIODS_MAX as u64)).transpose()?;
        let top = fields.optional("top").map(|top| top.integer(1..=QUERY_TOP_MAX as u64)).transpose()?;
        let retention = Retention {
            window: WindowRequest::read(&mut fields)?,
            filter: Condition::read(&mut fields, &mut budget)?,
            start,
            returns,
            step: fields
                .optional("step")
                .map_or(Ok(Step::Day), |item| item.choice(step, "day, week or month"))?,
            periods: periods.map_or(DEFAULT_PERIODS, |periods| periods as usize),
            kind: fields.optional("kind").map_or(Ok(RetentionKind::Classic), |item| {
                item.choice(kind, "classic, rolling or bounded")
            })?,
            by: fields.optional("by").map_or(Ok(Vec::new()), |by| by.properties(BY_MAX))?,
            top: top.map_or(DEFAULT_TOP, |top| top as usize),
        };
        fields.end()?;
        Ok(retention)
    }

    /// Returns the names of the cohorts that the question needs.
    pub fn cohorts(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        [&self.filter, &self.start.filter, &self.returns.filter]
            .into_iter()
            .for_each(|filter| filter.insert_cohorts(&mut names));
        names
    }

    /// Answers the question.
    pub fn run(&self, context: &Context<'_>) -> Result<RetentionAnswer, QuestionFailure> {
        let window = self.window.resolve(context.now_ms, context.tz, days(DEFAULT_DAYS))?;
        let mut minutes = window.minutes();
        if self.window.is_last() {
            minutes.start = Buckets::cut(&window.zone, self.step, minutes.start..minutes.start + 1).starts[0];
        }
        let times = if self.window.is_last() {
            i64::from(minutes.start) * 60_000..window.times.end
        } else {
            window.times.clone()
        };
        let buckets = Buckets::cut(&window.zone, self.step, minutes.clone());
        self.check_points(buckets.len())?;
        let mut columns = FieldList::default();
        let patterns = [self.start.clone(), self.returns.clone()];
        let mut walk = RetentionWalk {
            question: self,
            selector: Selector::new(&patterns, &self.filter, &mut columns, context.cohorts)?,
            groups: Groups::new(&self.by, &mut columns),
            period_of: BucketOf::new(&buckets),
            results: HashMap::default(),
            cohorts: buckets.len(),
        };
        let events = walk.selector.events();
        walk_players(&mut walk, context, columns, times, events)?;
        // A period that the calendar ends after the range is not complete.
        let after = Buckets::cut(&window.zone, self.step, minutes.end..minutes.end + 1);
        let complete = buckets.len() - usize::from(after.starts[0] != minutes.end);
        Ok(walk.answer(&buckets, buckets.times(&window.zone), complete))
    }

    fn check_points(&self, cohorts: usize) -> Result<(), QueryError> {
        let series = if self.by.is_empty() { 1 } else { self.top + 1 };
        if cohorts * self.periods * series <= QUERY_POINTS_MAX {
            return Ok(());
        }
        let message = format!(
            "{cohorts} cohorts with {} periods in up to {series} series exceed {QUERY_POINTS_MAX} points; \
             use fewer periods, a shorter window or a smaller `top`",
            self.periods
        );
        Err(QueryError::new("periods", message))
    }
}

/// What is known of a player.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// A bit for each period from the cohort's on in which the player came back.
    returned: u128,
    /// The number of the cohort, plus 1; 0 before the first start event.
    cohort: u32,
    group: u32,
    /// The last period in which the player came back, counted from the cohort's, plus 1.
    last: u32,
}

struct RetentionWalk<'a> {
    question: &'a Retention,
    selector: Selector,
    groups: Groups,
    period_of: BucketOf,
    /// For each group and cohort: the number of players, and those who came back in each period.
    results: HashMap<(u32, u32), Box<[u64]>, FxBuildHasher>,
    cohorts: usize,
}

impl PlayerQuestion for RetentionWalk<'_> {
    type State = Seen;
    type Row = (u16, u32);

    fn select(&mut self, chunk: &Chunk, context: &Context<'_>, rows: &mut Vec<u32>) {
        self.selector.select(chunk, context.links);
        self.groups.start_chunk(chunk);
        std::mem::swap(rows, &mut self.selector.rows);
    }

    #[inline]
    fn read(&mut self, chunk: &Chunk, row: usize) -> (u16, u32) {
        let bits = self.selector.bits[row];
        (bits, if bits & START == 0 { 0 } else { self.groups.group_of(chunk, row) })
    }

    #[inline]
    fn step(&mut self, state: &mut Seen, _: u64, time_ms: i64, (bits, group): (u16, u32)) {
        if state.cohort == 0 {
            if bits & START == 0 {
                return;
            }
            state.cohort = self.period_of.bucket(time_ms) as u32 + 1;
            state.group = group;
        }
        if bits & RETURN != 0 {
            let period = self.period_of.bucket(time_ms) as u32 + 1 - state.cohort;
            state.returned |= 1u128.checked_shl(period).unwrap_or(0);
            state.last = state.last.max(period + 1);
        }
    }

    #[inline]
    fn run(&mut self, state: &mut Seen, player: u64, chunk: &Chunk, rows: &[u32]) {
        let time = |row: u32| chunk.times[row as usize];
        let (first, last) = (rows[0], rows[rows.len() - 1]);
        // If all events are alike, one in a period is enough, and times ascend.
        let is_alike = self.selector.is_uniform()
            && self.period_of.bucket(time(first)) == self.period_of.bucket(time(last));
        for row in if is_alike { &rows[..1] } else { rows } {
            let read = self.read(chunk, *row as usize);
            self.step(state, player, time(*row), read);
        }
    }

    fn finish(&mut self, _: u64, state: &Seen) {
        if state.cohort == 0 {
            return;
        }
        let periods = self.question.periods;
        let result = self.results.entry((state.group, state.cohort - 1));
        let result = result.or_insert_with(|| vec![0; periods + 1].into_boxed_slice());
        result[0] += 1;
        for (period, returned) in result[1..].iter_mut().enumerate() {
            let came_back = match self.question.kind {
                RetentionKind::Classic => state.returned >> period & 1 == 1,
                RetentionKind::Rolling => state.last as usize > period,
                RetentionKind::Bounded if period == 0 => state.returned & 1 == 1,
                // The periods 1 to n, n at most 119.
                RetentionKind::Bounded => state.returned & ((2u128 << period) - 2) != 0,
            };
            *returned += u64::from(came_back);
        }
    }

    fn bytes(&self) -> usize {
        let entry = (self.question.periods + 1) * size_of::<u64>() + 24;
        self.groups.bytes() + self.results.capacity() * 25 + self.results.len() * entry
    }
}

impl RetentionWalk<'_> {
    fn answer(self, buckets: &Buckets, times: BucketTimes, complete: usize) -> RetentionAnswer {
        let by = &self.question.by;
        let mut totals: HashMap<u32, f64, FxBuildHasher> = HashMap::default();
        for ((group, _), result) in &self.results {
            *totals.entry(*group).or_default() += result[0] as f64;
        }
        let (top, rest) = top_groups(&self.groups, totals.into_iter(), self.question.top);
        let mut series = Vec::new();
        let all: Vec<u32> = top.iter().chain(&rest).copied().collect();
        if !by.is_empty() {
            let one = |group: &u32| RetentionSeries {
                key: named_key(by, self.groups.key(*group)),
                cohorts: self.cohorts(std::slice::from_ref(group), buckets, complete),
            };
            series.extend(top.iter().map(one));
            if !rest.is_empty() {
                let key = named_key(by, self.groups.key(u32::MAX));
                series.push(RetentionSeries { key, cohorts: self.cohorts(&rest, buckets, complete) });
            }
        }
        RetentionAnswer { times, cohorts: self.cohorts(&all, buckets, complete), series, by: by_labels(by) }
    }

    fn cohorts(&self, groups: &[u32], buckets: &Buckets, complete: usize) -> Vec<RetentionCohort> {
        let cohort = |cohort: usize| {
            let mut sums = vec![0u64; self.question.periods + 1];
            for group in groups {
                let Some(result) = self.results.get(&(*group, cohort as u32)) else { continue };
                sums.iter_mut().zip(result).for_each(|(sum, one)| *sum += one);
            }
            let in_range =
                |(period, returned): (usize, &u64)| (cohort + period < buckets.len()).then_some(*returned);
            RetentionCohort {
                players: sums[0],
                returned: sums[1..].iter().enumerate().map(in_range).collect(),
                complete: complete.saturating_sub(cohort).min(self.question.periods),
            }
        };
        (0..self.cohorts).map(cohort).collect()
    }
}

impl RetentionAnswer {
    /// Cohorts are named by the date of their first day.
    fn cohorts_value(&self, cohorts: &[RetentionCohort]) -> Value {
        let starts = time_texts(&self.times);
        let one = |(cohort, start): (&RetentionCohort, String)| {
            json!({
                "start": &start[..10],
                "players": cohort.players,
                "returned": cohort.returned,
                "complete": cohort.complete,
            })
        };
        cohorts.iter().zip(starts).map(one).collect()
    }
}

impl Answer for RetentionAnswer {
    fn fields(&self) -> Map<String, Value> {
        let series = |series: &RetentionSeries| json!({"key": key_object(&series.key), "cohorts": self.cohorts_value(&series.cohorts)});
        let mut fields = Map::new();
        fields.insert("cohorts".to_owned(), self.cohorts_value(&self.cohorts));
        fields.insert("series".to_owned(), self.series.iter().map(series).collect());
        fields
    }

    fn columns(&self) -> Vec<String> {
        let own = ["cohort", "period", "players", "returned"];
        self.by.iter().cloned().chain(own.map(str::to_owned)).collect()
    }

    fn each_row(
        &self,
        put: &mut dyn FnMut(Vec<Value>) -> Result<(), RowsTooLarge>,
    ) -> Result<(), RowsTooLarge> {
        let all = RetentionSeries { key: Vec::new(), cohorts: self.cohorts.clone() };
        let series = if self.by.is_empty() { std::slice::from_ref(&all) } else { &self.series[..] };
        let starts = time_texts(&self.times);
        for series in series {
            for (cohort, start) in series.cohorts.iter().zip(&starts) {
                for (period, returned) in cohort.returned.iter().enumerate() {
                    let mut row: Vec<Value> =
                        series.key.iter().map(|(_, value)| Value::from(&**value)).collect();
                    row.extend([json!(start[..10]), json!(period), json!(cohort.players), json!(returned)]);
                    put(row)?;
                }
            }
        }
        Ok(())
    }
}
