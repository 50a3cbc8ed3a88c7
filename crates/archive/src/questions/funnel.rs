//! How many players do one thing after another.
//!
//! # Rules
//! - A player counts from the first event of step 1 in the range; later events of step 1 start nothing.
//! - Each later step is the first event that meets it after the event of the step before, at most `window_s` after
//!   step 1 (inclusive). "After" is by time; events of the same time come in order of arrival. One event is one step,
//!   even if it meets several.
//! - `loose`: other events may happen in between. `strict`: an event that meets a step of the funnel, but neither the
//!   one reached last nor the next one, ends the player's funnel.
//! - Events after the range do not count, even within the window.
//! - With `by`, a player belongs to the value at the event of step 1.

use std::collections::BTreeSet;

use model::limits::QUERY_TOP_MAX;
use model::query::QueryError;
use serde_json::{Map, Value, json};

use super::answer::{Answer, RowsTooLarge, key_object, number};
use super::explore::by_labels;
use super::filter::{Condition, ConditionBudget};
use super::groups::{Groups, named_key, top_groups};
use super::limits::{BY_MAX, FUNNEL_STEPS, FUNNEL_WINDOW_S_MAX};
use super::measures::{Distribution, Measured};
use super::players::PlayerSet;
use super::request::{Fields, WindowRequest, days, object};
use super::select::{EventPattern, Selector};
use super::walk::{PlayerQuestion, walk_players};
use super::{Context, FieldList, QuestionFailure};
use crate::columns::{Chunk, Field};

const STEPS_MAX: usize = *FUNNEL_STEPS.end();
const DEFAULT_DAYS: u32 = 30;
const DEFAULT_WINDOW_S: u64 = 7 * 86_400;
const DEFAULT_TOP: usize = 10;

/// A question about how far players get in a sequence of steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Funnel {
    window: WindowRequest,
    filter: Condition,
    steps: Vec<EventPattern>,
    window_ms: i64,
    is_strict: bool,
    by: Vec<Field>,
    top: usize,
    players: Option<FunnelPlayers>,
}

/// Which players of a funnel to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FunnelPlayers {
    /// Those who reached this step, counted from 0.
    Reached(usize),
    /// Those who reached the step before this one, but not this one.
    Dropped(usize),
}

/// The answer of [`Funnel`].
#[derive(Clone, Debug, PartialEq)]
pub struct FunnelAnswer {
    /// All players.
    pub steps: Vec<FunnelStep>,
    /// By the value at step 1: the most players at step 1 first, `(other)` last.
    pub series: Vec<FunnelSeries>,
    /// The players that `players` requests.
    pub players: Option<PlayerSet>,
    events: Vec<Option<String>>,
    by: Vec<String>,
}

/// A funnel of the players with one value.
#[derive(Clone, Debug, PartialEq)]
pub struct FunnelSeries {
    /// The name and value of each property.
    pub key: Vec<(String, String)>,
    /// Its steps.
    pub steps: Vec<FunnelStep>,
}

/// One step of a funnel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FunnelStep {
    /// Players who reached the step.
    pub players: u64,
    /// Their share of the players of step 1; `None` if there are none.
    pub conversion: Option<f64>,
    /// The median time since the step before, in seconds.
    pub median_s: Option<f64>,
    /// The 90th percentile of the time since the step before, in seconds.
    pub p90_s: Option<f64>,
}

impl Funnel {
    /// Parses a request.
    pub fn from_json(body: &[u8]) -> Result<Funnel, QueryError> {
        let map = object(body)?;
        let mut fields = Fields::of_body(&map, "a funnel");
        let mut budget = ConditionBudget::default();
        let steps = fields.required("steps")?;
        let items = steps.list("a list of objects with event and where")?;
        if !FUNNEL_STEPS.contains(&items.len()) {
            let (min, max) = (FUNNEL_STEPS.start(), FUNNEL_STEPS.end());
            return Err(steps.must_be(&format!("a list of {min} to {max} steps")));
        }
        let mut patterns = Vec::with_capacity(items.len());
        for item in &items {
            patterns.push(EventPattern::read_item(item, "a step", &mut budget)?);
        }
        let window_s = fields.optional("window_s").map(|window| window.integer(1..=FUNNEL_WINDOW_S_MAX));
        let order = fields.optional("order");
        let parse_order = |order: &str| match order {
            "loose" => Some(false),
            "strict" => Some(true),
            _ => None,
        };
        let top = fields.optional("top").map(|top| top.integer(1..=QUERY_TOP_MAX as u64));
        let funnel = Funnel {
            window: WindowRequest::read(&mut fields)?,
            filter: Condition::read(&mut fields, &mut budget)?,
            window_ms: window_s.transpose()?.unwrap_or(DEFAULT_WINDOW_S) as i64 * 1_000,
            is_strict: order.map_or(Ok(false), |order| order.choice(parse_order, "loose or strict"))?,
            by: fields.optional("by").map_or(Ok(Vec::new()), |by| by.properties(BY_MAX))?,
            top: top.transpose()?.map_or(DEFAULT_TOP, |top| top as usize),
            players: read_players(&mut fields, patterns.len())?,
            steps: patterns,
        };
        fields.end()?;
        Ok(funnel)
    }

    /// Returns the names of the cohorts that the question needs.
    pub fn cohorts(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        self.filter.insert_cohorts(&mut names);
        self.steps.iter().for_each(|step| step.filter.insert_cohorts(&mut names));
        names
    }

    /// Answers the question.
    pub fn run(&self, context: &Context<'_>) -> Result<FunnelAnswer, QuestionFailure> {
        let window = self.window.resolve(context.now_ms, context.tz, days(DEFAULT_DAYS))?;
        let mut columns = FieldList::default();
        let selector = Selector::new(&self.steps, &self.filter, &mut columns, context.cohorts)?;
        let mut walk = FunnelWalk {
            question: self,
            selector,
            groups: Groups::new(&self.by, &mut columns),
            results: Vec::new(),
            players: Vec::new(),
        };
        let events = walk.selector.events();
        walk_players(&mut walk, context, columns, window.times, events)?;
        Ok(walk.answer())
    }
}

/// Reads `"players": {"step": 2, "kind": "dropped"}`. Steps are counted from 1.
fn read_players(fields: &mut Fields, steps: usize) -> Result<Option<FunnelPlayers>, QueryError> {
    let Some(item) = fields.optional("players") else { return Ok(None) };
    let mut fields = item.fields("a choice of players")?;
    let kind: fn(usize) -> FunnelPlayers = fields.required("kind")?.choice(
        |kind| match kind {
            "reached" => Some(FunnelPlayers::Reached as fn(usize) -> FunnelPlayers),
            "dropped" => Some(FunnelPlayers::Dropped),
            _ => None,
        },
        "reached or dropped",
    )?;
    let first = if kind(0) == FunnelPlayers::Dropped(0) { 2 } else { 1 };
    let step = fields.required("step")?.integer(first..=steps as u64)? as usize - 1;
    fields.end()?;
    Ok(Some(kind(step)))
}

/// What is known of a player: 24 bytes, and 8 for the hash.
#[derive(Clone, Copy, Default)]
struct Reached {
    /// The time of step 1.
    first_ms: i64,
    /// The time of the step reached last.
    last_ms: i64,
    group: u32,
    /// The number of steps reached.
    steps: u8,
    /// True if no further step can be reached.
    is_ended: bool,
}

/// The results of one group.
#[derive(Clone, Default)]
struct GroupResult {
    players: [u64; STEPS_MAX],
    /// For each step but the first, the seconds since the step before.
    times: Vec<Distribution>,
}

struct FunnelWalk<'a> {
    question: &'a Funnel,
    selector: Selector,
    groups: Groups,
    results: Vec<GroupResult>,
    players: Vec<u64>,
}

impl PlayerQuestion for FunnelWalk<'_> {
    type State = Reached;
    /// The steps that the event meets, and its group.
    type Row = (u16, u32);

    fn select(&mut self, chunk: &Chunk, context: &Context<'_>, rows: &mut Vec<u32>) {
        self.selector.select(chunk, context.links);
        self.groups.start_chunk(chunk);
        std::mem::swap(rows, &mut self.selector.rows);
    }

    #[inline]
    fn read(&mut self, chunk: &Chunk, row: usize) -> (u16, u32) {
        let bits = self.selector.bits[row];
        // Only the value at step 1 matters.
        (bits, if bits & 1 == 0 { 0 } else { self.groups.group_of(chunk, row) })
    }

    #[inline]
    fn step(&mut self, state: &mut Reached, _: u64, time_ms: i64, (bits, group): (u16, u32)) {
        if state.steps == 0 {
            if bits & 1 == 1 {
                *state = Reached { first_ms: time_ms, last_ms: time_ms, group, steps: 1, is_ended: false };
            }
            return;
        }
        if state.is_ended {
            return;
        }
        if time_ms - state.first_ms > self.question.window_ms {
            state.is_ended = true;
        } else if bits >> state.steps & 1 == 1 {
            self.add_time(state, time_ms);
            state.last_ms = time_ms;
            state.steps += 1;
            state.is_ended = usize::from(state.steps) == self.question.steps.len();
        } else if self.question.is_strict {
            state.is_ended = bits >> (state.steps - 1) & 1 == 0;
        }
    }

    fn finish(&mut self, player: u64, state: &Reached) {
        if state.steps == 0 {
            return;
        }
        let result = self.result(state.group);
        result.players[..usize::from(state.steps)].iter_mut().for_each(|players| *players += 1);
        let steps = usize::from(state.steps);
        let is_wanted = match self.question.players {
            None => false,
            Some(FunnelPlayers::Reached(step)) => steps > step,
            Some(FunnelPlayers::Dropped(step)) => steps == step,
        };
        if is_wanted {
            self.players.push(player);
        }
    }

    fn bytes(&self) -> usize {
        let times =
            |result: &GroupResult| result.times.iter().map(|times| 32 + times.heap_bytes()).sum::<usize>();
        // Groups beyond the first thousand have about as many values as those.
        let seen = self.results.len().clamp(1, 1_000);
        let sample = self.results.iter().take(seen).map(times).sum::<usize>();
        self.groups.bytes()
            + self.results.capacity() * size_of::<GroupResult>()
            + sample / seen * self.results.len()
            + self.players.capacity() * size_of::<u64>()
    }
}

impl FunnelWalk<'_> {
    fn result(&mut self, group: u32) -> &mut GroupResult {
        let group = group as usize;
        if group >= self.results.len() {
            self.results.resize_with(group + 1, GroupResult::default);
        }
        &mut self.results[group]
    }

    fn add_time(&mut self, state: &Reached, time_ms: i64) {
        let seconds = (time_ms - state.last_ms) as f64 / 1_000.0;
        let result = self.result(state.group);
        let step = usize::from(state.steps) - 1;
        if step >= result.times.len() {
            result.times.resize_with(step + 1, Distribution::default);
        }
        result.times[step].insert(seconds);
    }

    fn answer(mut self) -> FunnelAnswer {
        let count = self.question.steps.len();
        let by = &self.question.by;
        let all = GroupResult::merged(self.results.iter());
        let used = self.results.iter().enumerate().filter(|(_, result)| result.players[0] > 0);
        let totals = used.map(|(group, result)| (group as u32, result.players[0] as f64));
        let (top, rest) = top_groups(&self.groups, totals, self.question.top);
        let mut series = Vec::new();
        if !by.is_empty() {
            for group in top {
                let key = named_key(by, self.groups.key(group));
                series.push(FunnelSeries { key, steps: self.results[group as usize].steps(count) });
            }
            if !rest.is_empty() {
                let others = GroupResult::merged(rest.iter().map(|group| &self.results[*group as usize]));
                let key = named_key(by, self.groups.key(u32::MAX));
                series.push(FunnelSeries { key, steps: others.steps(count) });
            }
        }
        FunnelAnswer {
            steps: all.steps(count),
            series,
            players: self.question.players.map(|_| self.players.drain(..).collect()),
            events: self.question.steps.iter().map(|step| step.event.clone()).collect(),
            by: by_labels(by),
        }
    }
}

impl GroupResult {
    fn merged<'r>(results: impl Iterator<Item = &'r GroupResult>) -> GroupResult {
        let mut all = GroupResult::default();
        for result in results {
            all.players.iter_mut().zip(result.players).for_each(|(all, one)| *all += one);
            if all.times.len() < result.times.len() {
                all.times.resize_with(result.times.len(), Distribution::default);
            }
            all.times.iter_mut().zip(&result.times).for_each(|(all, one)| all.merge(one));
        }
        all
    }

    fn steps(&self, count: usize) -> Vec<FunnelStep> {
        let step = |step: usize| {
            let times = step.checked_sub(1).and_then(|step| self.times.get(step));
            FunnelStep {
                players: self.players[step],
                conversion: (self.players[0] > 0).then(|| self.players[step] as f64 / self.players[0] as f64),
                median_s: times.and_then(|times| times.quantile(0.5)),
                p90_s: times.and_then(|times| times.quantile(0.9)),
            }
        };
        (0..count).map(step).collect()
    }
}

impl FunnelAnswer {
    fn steps_value(&self, steps: &[FunnelStep]) -> Value {
        let step = |(step, event): (&FunnelStep, &Option<String>)| {
            json!({
                "event": event,
                "players": step.players,
                "conversion": number(step.conversion),
                "median_s": number(step.median_s),
                "p90_s": number(step.p90_s),
            })
        };
        steps.iter().zip(&self.events).map(step).collect()
    }
}

impl Answer for FunnelAnswer {
    fn fields(&self) -> Map<String, Value> {
        let series = |series: &FunnelSeries| json!({"key": key_object(&series.key), "steps": self.steps_value(&series.steps)});
        let mut fields = Map::new();
        fields.insert("steps".to_owned(), self.steps_value(&self.steps));
        fields.insert("series".to_owned(), self.series.iter().map(series).collect());
        fields
    }

    fn columns(&self) -> Vec<String> {
        let own = ["step", "event", "players", "conversion", "median_s", "p90_s"];
        self.by.iter().cloned().chain(own.map(str::to_owned)).collect()
    }

    fn each_row(
        &self,
        put: &mut dyn FnMut(Vec<Value>) -> Result<(), RowsTooLarge>,
    ) -> Result<(), RowsTooLarge> {
        let all = FunnelSeries { key: Vec::new(), steps: self.steps.clone() };
        let series = if self.by.is_empty() { std::slice::from_ref(&all) } else { &self.series[..] };
        for series in series {
            for (index, (step, event)) in series.steps.iter().zip(&self.events).enumerate() {
                let mut row: Vec<Value> = series.key.iter().map(|(_, value)| Value::from(&**value)).collect();
                row.extend([
                    Value::from(index + 1),
                    json!(event),
                    Value::from(step.players),
                    number(step.conversion),
                    number(step.median_s),
                    number(step.p90_s),
                ]);
                put(row)?;
            }
        }
        Ok(())
    }
}
