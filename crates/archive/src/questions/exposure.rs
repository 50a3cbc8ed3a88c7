//! What the players of each variant of an experiment did, from raw events.
//!
//! # Rules
//! - A player is exposed by the first event in the range at which the experiment assigns a variant, since a game loads
//!   its variables when it starts. `where` restricts the events that expose.
//! - Events of the metric count from the exposure on.
//! - A player who was assigned several variants, for example because two ids were linked later, counts in none.
//! - `conversion`: the share of players with an event of the metric. `mean`: the mean over players of the sum of
//!   `property`, or of the number of events without it; a player without events has 0.
//! - Erased players count in no variant.

use std::collections::BTreeSet;

use model::query::QueryError;
use serde_json::{Map, Value as Json, json};

use super::answer::{Answer, RowsTooLarge, utc};
use super::experiment::{
    Difference, Estimate, ExperimentResult, ExperimentSettings, VariantResult, VariantTotals, compare,
};
use super::filter::{Condition, ConditionBudget, Test};
use super::measures::number_of;
use super::request::{Fields, WindowRequest, days, object};
use super::select::{EventPattern, Selector};
use super::walk::{PlayerQuestion, walk_players};
use super::{Context, FieldList, QuestionFailure};
use crate::columns::{Chunk, Column, Field, Value};

const DEFAULT_DAYS: u32 = 30;
const NAME_BYTES_MAX: usize = 100;
/// The variants of an experiment.
const VARIANTS_MAX: usize = u8::MAX as usize;

/// A question about the results of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct ExperimentQuestion {
    variable: String,
    window: WindowRequest,
    filter: Condition,
    metric: EventPattern,
    property: Option<Field>,
    measure: ExperimentMeasure,
    settings: ExperimentSettings,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExperimentMeasure {
    /// The share of players with an event of the metric.
    Conversion,
    /// The mean of the players' values.
    Mean,
}

/// How an experiment assigns players.
pub struct ExperimentPlan<'a> {
    /// The variants and their planned shares, 0 if they are not known. The first is the control.
    pub variants: Vec<(String, f64)>,
    /// The time since which the assignment is the same.
    pub since_ms: Option<i64>,
    /// The times at which it changes, ascending.
    pub transitions: Vec<i64>,
    /// Returns the place of a player's variant.
    pub assign: &'a dyn Fn(&Exposure<'_>) -> Option<usize>,
}

/// An event that can expose a player. Unknown fields are empty.
#[derive(Clone, Copy, Debug)]
pub struct Exposure<'a> {
    /// The player's id.
    pub player: &'a str,
    /// The time of the event.
    pub time_ms: i64,
    /// The country.
    pub country: &'a str,
    /// The platform.
    pub platform: &'a str,
    /// The version.
    pub version: &'a str,
}

/// The answer of [`ExperimentQuestion`].
#[derive(Clone, Debug, PartialEq)]
pub struct ExperimentAnswer {
    measure: ExperimentMeasure,
    times: std::ops::Range<i64>,
    /// The statistics.
    pub result: ExperimentResult,
    /// The planned share of each variant; 0 if it is not known.
    shares: Vec<f64>,
    /// Players who were assigned several variants.
    pub mixed: u64,
}

impl ExperimentQuestion {
    /// Parses a request.
    pub fn from_json(body: &[u8]) -> Result<ExperimentQuestion, QueryError> {
        let map = object(body)?;
        let mut fields = Fields::of_body(&map, "a question about an experiment");
        let mut budget = ConditionBudget::default();
        let variable = fields.required("variable")?.name(NAME_BYTES_MAX)?.to_owned();
        let mut own = fields.required("metric")?.fields("a metric")?;
        let measure = own.optional("measure").map(|measure| {
            let parse = |name: &str| match name {
                "conversion" => Some(ExperimentMeasure::Conversion),
                "mean" => Some(ExperimentMeasure::Mean),
                _ => None,
            };
            measure.choice(parse, "conversion or mean")
        });
        let measure = measure.transpose()?.unwrap_or(ExperimentMeasure::Conversion);
        let property = own.optional("property").map(|property| property.property()).transpose()?;
        if property.is_some() && measure == ExperimentMeasure::Conversion {
            let message = "must not be set with the measure conversion";
            return Err(QueryError::new(own.path_of("property"), message));
        }
        if !own.has("event") {
            return Err(QueryError::new(own.path_of("event"), "is required"));
        }
        let metric = EventPattern::read(&mut own, &mut budget)?;
        own.end()?;
        let planned = fields.optional("planned_players");
        let planned = planned.map(|planned| planned.integer(100..=1_000_000_000)).transpose()?;
        let settings = ExperimentSettings::default();
        let planned_players = planned.unwrap_or(settings.planned_players);
        let question = ExperimentQuestion {
            variable,
            window: WindowRequest::read(&mut fields)?,
            filter: Condition::read(&mut fields, &mut budget)?,
            metric,
            property,
            measure,
            settings: ExperimentSettings { planned_players, ..settings },
        };
        fields.end()?;
        Ok(question)
    }

    /// Returns the variable of the experiment.
    pub fn variable(&self) -> &str {
        &self.variable
    }

    /// Returns the names of the cohorts that the question needs.
    pub fn cohorts(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        self.filter.insert_cohorts(&mut names);
        self.metric.filter.insert_cohorts(&mut names);
        names
    }

    /// Answers the question.
    pub fn run(
        &self,
        context: &Context<'_>,
        plan: &ExperimentPlan<'_>,
    ) -> Result<ExperimentAnswer, QuestionFailure> {
        assert!(plan.variants.len() <= VARIANTS_MAX, "a variable has fewer conditions");
        let times = self.times(context, plan)?;
        let has_id = Condition::Compare { field: Field::Player, test: Test::Set };
        let exposes = Condition::All(vec![has_id, self.filter.clone()]);
        let patterns = [EventPattern { event: None, filter: exposes }, self.metric.clone()];
        let mut columns = FieldList::default();
        let selector = Selector::new(&patterns, &Condition::always(), &mut columns, context.cohorts)?;
        let viewer = [Field::Player, Field::Country, Field::Platform, Field::Version]
            .map(|field| columns.index(&field));
        let value = self.property.as_ref().map(|property| columns.index(property));
        let total = |(name, share): &(String, f64)| VariantTotals {
            name: name.clone(),
            share: *share,
            players: 0,
            converted: 0,
            sum: 0.0,
            sum_of_squares: 0.0,
        };
        let totals = plan.variants.iter().map(total).collect();
        let mut walk = ExposureWalk { plan, selector, viewer, value, last: None, totals, mixed: 0 };
        walk_players(&mut walk, context, columns, times.clone(), None)?;
        Ok(ExperimentAnswer {
            measure: self.measure,
            times,
            result: compare(&walk.totals, self.settings),
            shares: plan.variants.iter().map(|(_, share)| *share).collect(),
            mixed: walk.mixed,
        })
    }

    /// Fixes the range. It starts with the assignment at the earliest.
    fn times(
        &self,
        context: &Context<'_>,
        plan: &ExperimentPlan<'_>,
    ) -> Result<std::ops::Range<i64>, QueryError> {
        let mut times = self.window.resolve(context.now_ms, context.tz, days(DEFAULT_DAYS))?.times;
        let Some(since_ms) = plan.since_ms else { return Ok(times) };
        if !self.window.has_start() {
            times.start = since_ms.min(times.end - 1);
        } else if times.start < since_ms && !self.window.is_last() {
            let message = format!(
                "must not be before {}, when the variable got its present conditions: earlier events are of other variants",
                utc(since_ms)
            );
            return Err(QueryError::new("from", message));
        }
        if since_ms >= times.end {
            let message =
                format!("must be after {}, when the variable got its present conditions", utc(since_ms));
            return Err(QueryError::new("to", message));
        }
        times.start = times.start.max(since_ms);
        Ok(times)
    }
}

struct ExposureWalk<'a> {
    plan: &'a ExperimentPlan<'a>,
    selector: Selector,
    /// The places of player, country, platform and version.
    viewer: [usize; 4],
    value: Option<usize>,
    /// The last viewer whose variant was asked for, which is mostly the same for the next event.
    last: Option<(AssignedViewer, u8)>,
    totals: Vec<VariantTotals>,
    mixed: u64,
}

#[derive(Clone, Debug, PartialEq)]
struct AssignedViewer {
    texts: [String; 4],
    /// The number of changes of the assignment before.
    phase: usize,
}

#[derive(Clone, Copy, Default)]
struct ExposedPlayer {
    /// The variant's place plus one; 0 for a player who is not exposed.
    variant: u8,
    is_mixed: bool,
    has_converted: bool,
    sum: f64,
}

#[derive(Clone, Copy)]
struct ExposureRow {
    bits: u16,
    variant: u8,
    value: f64,
}

/// The bits of the patterns.
const EXPOSES: u16 = 1;
const COUNTS: u16 = 2;

impl ExposureWalk<'_> {
    /// Returns the place of the variant of an event's player plus one.
    fn variant(&mut self, chunk: &Chunk, row: usize) -> u8 {
        let texts = self.viewer.map(|place| text(&chunk.columns[place], row));
        let time_ms = chunk.times[row];
        let phase = self.plan.transitions.partition_point(|transition| *transition <= time_ms);
        if let Some((last, variant)) = &self.last
            && last.phase == phase
            && last.texts.iter().zip(texts).all(|(one, other)| one == other)
        {
            return *variant;
        }
        let [player, country, platform, version] = texts;
        let assigned = (self.plan.assign)(&Exposure { player, time_ms, country, platform, version });
        let variant = assigned.map_or(0, |place| place as u8 + 1);
        self.last = Some((AssignedViewer { texts: texts.map(str::to_owned), phase }, variant));
        variant
    }
}

fn text(column: &Column, row: usize) -> &str {
    match column.value(row) {
        Some(Value::Text(text)) => text,
        _ => "",
    }
}

impl PlayerQuestion for ExposureWalk<'_> {
    type State = ExposedPlayer;
    type Row = ExposureRow;

    fn select(&mut self, chunk: &Chunk, context: &Context<'_>, rows: &mut Vec<u32>) {
        self.selector.select(chunk, context.links);
        std::mem::swap(rows, &mut self.selector.rows);
    }

    fn read(&mut self, chunk: &Chunk, row: usize) -> ExposureRow {
        let bits = self.selector.bits[row];
        let variant = if bits & EXPOSES == 0 { 0 } else { self.variant(chunk, row) };
        let value = self.value.map_or(1.0, |place| number_of(&chunk.columns[place], row).unwrap_or(0.0));
        ExposureRow { bits, variant, value }
    }

    fn step(&mut self, state: &mut ExposedPlayer, _: u64, _: i64, row: ExposureRow) {
        if row.variant > 0 {
            state.is_mixed |= state.variant > 0 && state.variant != row.variant;
            if state.variant == 0 {
                state.variant = row.variant;
            }
        }
        if state.variant > 0 && row.bits & COUNTS != 0 {
            state.has_converted = true;
            state.sum += row.value;
        }
    }

    fn finish(&mut self, _: u64, state: &ExposedPlayer) {
        if state.is_mixed {
            self.mixed += 1;
        } else if state.variant > 0 {
            let totals = &mut self.totals[usize::from(state.variant) - 1];
            totals.players += 1;
            totals.converted += u64::from(state.has_converted);
            totals.sum += state.sum;
            totals.sum_of_squares += state.sum * state.sum;
        }
    }

    fn bytes(&self) -> usize {
        self.totals.len() * size_of::<VariantTotals>()
    }
}

impl ExperimentAnswer {
    fn estimates(&self, variant: &VariantResult) -> (Option<Estimate>, Option<Difference>) {
        match self.measure {
            ExperimentMeasure::Conversion => (variant.conversion, variant.conversion_difference),
            ExperimentMeasure::Mean => (variant.mean, variant.mean_difference),
        }
    }
}

fn estimate_json(estimate: Option<Estimate>) -> Json {
    estimate.map_or(Json::Null, |it| json!({ "value": it.value, "low": it.low, "high": it.high }))
}

fn difference_json(difference: Option<Difference>) -> Json {
    let Some(Difference { estimate, p, sequential }) = difference else { return Json::Null };
    let sequential = sequential.map_or(Json::Null, |it| json!({ "low": it.low, "high": it.high, "p": it.p }));
    json!({
        "value": estimate.value, "low": estimate.low, "high": estimate.high, "p": p, "sequential": sequential,
    })
}

impl Answer for ExperimentAnswer {
    fn fields(&self) -> Map<String, Json> {
        let variants = self.result.variants.iter().zip(&self.shares).map(|(variant, share)| {
            let (estimate, difference) = self.estimates(variant);
            json!({
                "name": variant.name,
                "planned_share": (*share > 0.0).then_some(share),
                "players": variant.players,
                "estimate": estimate_json(estimate),
                "difference": difference_json(difference),
            })
        });
        let measure = match self.measure {
            ExperimentMeasure::Conversion => "conversion",
            ExperimentMeasure::Mean => "mean",
        };
        Map::from_iter([
            ("measure".to_owned(), json!(measure)),
            ("from".to_owned(), json!(utc(self.times.start))),
            ("to".to_owned(), json!(utc(self.times.end))),
            ("variants".to_owned(), variants.collect()),
            (
                "sample_ratio".to_owned(),
                json!({ "p": self.result.ratio_p, "is_mismatched": self.result.is_mismatched }),
            ),
            ("mixed_players".to_owned(), json!(self.mixed)),
        ])
    }

    fn columns(&self) -> Vec<String> {
        let names = [
            "variant",
            "players",
            "value",
            "low",
            "high",
            "difference",
            "sequential_low",
            "sequential_high",
            "sequential_p",
        ];
        names.map(str::to_owned).to_vec()
    }

    fn each_row(
        &self,
        put: &mut dyn FnMut(Vec<Json>) -> Result<(), RowsTooLarge>,
    ) -> Result<(), RowsTooLarge> {
        self.result.variants.iter().try_for_each(|variant| {
            let (estimate, difference) = self.estimates(variant);
            let sequential = difference.and_then(|difference| difference.sequential);
            put(vec![
                json!(variant.name),
                json!(variant.players),
                json!(estimate.map(|it| it.value)),
                json!(estimate.map(|it| it.low)),
                json!(estimate.map(|it| it.high)),
                json!(difference.map(|it| it.estimate.value)),
                json!(sequential.map(|it| it.low)),
                json!(sequential.map(|it| it.high)),
                json!(sequential.map(|it| it.p)),
            ])
        })
    }
}
