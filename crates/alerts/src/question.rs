//! The query of a rule: parsed, and run for any minute.

use std::collections::BTreeMap;

use archive::Snapshot;
use archive::questions::answer::Answer;
use archive::questions::players::PlayerLinks;
use archive::questions::question::Question;
use archive::questions::{Cohorts, Context, Progress};
use jiff::tz::TimeZone;
use liveops::alerts::{AlertComparison, AlertSeries};
use model::query::{
    Measure, NumberedDimension, Query, QueryControl, QueryError, Step, WindowLength, minutes_before, run,
};
use pipeline::catalog::Game;
use pipeline::views::Views;
use serde_json::{Map, Value};

use crate::judge::{self, Judged, Reference, Values};

/// The kind of a query over rollups, which is the default.
const ROLLUP: &str = "query";
/// The kinds of questions over raw events whose answers contain no ids of players.
const KINDS: [&str; 4] = ["explore", "funnel", "retention", "levels"];
/// Properties by which a question of a rule cannot be broken down: what a rule finds is stored, and sent to others.
const PERSONAL: [&str; 5] = ["player", "anonymous", "session", "id", "received"];
/// Metrics whose default measure counts players.
const BUILT_IN: [&str; 3] = ["players", "online", "events"];

/// The query of a rule. Its window ends with the minute for which it is run.
#[derive(Clone, Debug)]
pub struct RuleQuery {
    source: QuerySource,
    last: WindowLength,
    tz: Option<String>,
}

#[derive(Clone, Debug)]
enum QuerySource {
    Rollups(Box<Query>),
    /// `value` names a number in the answer as a JSON pointer; without it, the totals of the series are compared.
    Events {
        question: Box<Question>,
        value: Option<String>,
    },
}

/// What a query reads.
#[derive(Clone, Copy)]
pub(crate) struct QueryContext<'a> {
    pub(crate) views: &'a Views,
    pub(crate) game: &'a Game,
    pub(crate) control: &'a dyn QueryControl,
    /// The raw events, if the query reads them.
    pub(crate) events: Option<&'a Snapshot>,
}

/// A rule could not be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct EvaluationError(pub(crate) String);

fn failed(error: impl ToString) -> EvaluationError {
    EvaluationError(error.to_string())
}

impl RuleQuery {
    /// Parses the query of a rule: the body of `POST /v1/query`, or that of a question with its `kind`. `declared` are
    /// the declared dimensions of the game.
    ///
    /// # Errors
    /// If it is not valid, or cannot be used in a rule. The error names the field.
    pub fn parse(text: &str, declared: &[NumberedDimension]) -> Result<RuleQuery, QueryError> {
        let mut fields: Map<String, Value> = serde_json::from_str(text)
            .map_err(|error| QueryError::new("body", format!("is not a JSON object: {error}")))?;
        for name in ["from", "to", "compare"] {
            if fields.get(name).is_some_and(|value| !value.is_null()) {
                return Err(QueryError::new(name, "cannot be used in a rule; use `last`, which ends now"));
            }
        }
        let last = fields.get("last").and_then(Value::as_str).and_then(WindowLength::parse);
        let last = last.ok_or_else(|| QueryError::new("last", "must be a duration such as 5m, 24h or 7d"))?;
        let tz = fields.get("tz").and_then(Value::as_str).map(str::to_owned);
        let kind = fields.remove("kind");
        let kind = kind.as_ref().map_or(Some(ROLLUP), Value::as_str);
        let value = fields.remove("value");
        let source = match kind {
            Some(ROLLUP) if value.is_some() => {
                return Err(QueryError::new("value", "applies to questions over raw events only"));
            }
            Some(ROLLUP) => rollups(&mut fields, declared)?,
            Some(kind) if KINDS.contains(&kind) => events(kind, fields, value)?,
            _ => {
                let message = format!("must be {ROLLUP}, {}", KINDS.join(", "));
                return Err(QueryError::new("kind", message));
            }
        };
        Ok(RuleQuery { source, last, tz })
    }

    /// Returns true if it reads raw events.
    pub fn reads_events(&self) -> bool {
        matches!(self.source, QuerySource::Events { .. })
    }

    /// Returns the query whose values a condition compares.
    ///
    /// # Errors
    /// If the condition does not apply to it.
    pub fn for_condition(mut self, compare: &AlertComparison) -> Result<RuleQuery, QueryError> {
        let Some(seconds) = compare.no_data_s else { return Ok(self) };
        let QuerySource::Rollups(query) = &mut self.source else {
            let message = "applies to queries over rollups only; remove `kind`";
            return Err(QueryError::new("no_data_s", message));
        };
        self.last = WindowLength { days: 0, minutes: seconds.div_ceil(60) };
        query.last = Some(self.last);
        query.formula = None;
        for metric in &mut query.metrics {
            let is_built_in = BUILT_IN.contains(&&*metric.metric);
            metric.measure = if is_built_in { None } else { Some(Measure::Count) };
        }
        Ok(self)
    }

    /// Decides whether a condition is met at the start of a minute. `history_from` is the minute of the game's first
    /// data.
    pub(crate) fn judge(
        &self,
        compare: &AlertComparison,
        context: QueryContext<'_>,
        minute: u32,
        history_from: u32,
    ) -> Result<Judged, EvaluationError> {
        let values = self.values(context, minute)?;
        let mut reference = Reference::default();
        if compare.previous.is_some() {
            let before = self.before(context.game, minute, self.last)?;
            reference.previous = self.values(context, before)?;
        }
        for week in 1..=compare.band.map_or(0, |band| band.weeks) {
            let length = WindowLength { days: 7 * week, minutes: 0 };
            let Ok(end) = self.before(context.game, minute, length) else { break };
            if self.before(context.game, end, self.last).is_ok_and(|start| start >= history_from) {
                reference.weeks.push(self.values(context, end)?);
            }
        }
        Ok(judge::judge(compare, values, &reference))
    }

    /// Returns the minute that is earlier by this length, by the calendar.
    fn before(&self, game: &Game, minute: u32, length: WindowLength) -> Result<u32, EvaluationError> {
        let tz = self.tz.as_deref().unwrap_or(&game.tz);
        let zone = TimeZone::get(tz).map_err(failed)?;
        minutes_before(&zone, minute, length).ok_or_else(|| failed("the window starts before 1970"))
    }

    /// Runs the query for the window that ends at the start of `minute`.
    fn values(&self, context: QueryContext<'_>, minute: u32) -> Result<Values, EvaluationError> {
        // Windows end with the minute that contains this time.
        let now_ms = i64::from(minute) * 60_000 - 1;
        let links = context.views.identities.game(context.game.number);
        match &self.source {
            QuerySource::Rollups(query) => {
                let plan = query.plan(now_ms, &context.game.tz).map_err(failed)?;
                let counters = &*context.views.counters;
                let result = run(&plan, context.game.number, counters, links.as_deref(), context.control);
                let series = result.map_err(failed)?.series.into_iter().map(|series| {
                    let dimensions =
                        series.key.iter().map(|(by, value)| (by.label().to_owned(), value.clone()));
                    let metric = series.name.into_iter().map(|name| ("metric".to_owned(), name));
                    AlertSeries { key: dimensions.chain(metric).collect(), value: series.total }
                });
                Ok(series.collect())
            }
            QuerySource::Events { question, value } => {
                let source = context.events.ok_or_else(|| failed("the raw events are not available"))?;
                let context = Context {
                    source,
                    control: context.control,
                    progress: &Progress::default(),
                    links: &links.map_or_else(PlayerLinks::default, |links| PlayerLinks::new(&links)),
                    cohorts: &Cohorts::default(),
                    now_ms,
                    tz: &context.game.tz,
                };
                let answer = question.run(&context).map_err(failed)?;
                values_of(&*answer, value.as_deref())
            }
        }
    }
}

/// Returns the first minute of the hour with the game's first data, looking back as far as a band needs.
pub(crate) fn first_data(context: QueryContext<'_>, minute: u32, weeks: u32) -> Result<u32, EvaluationError> {
    let query = Query {
        metrics: vec![model::query::MetricQuery { metric: "events".to_owned(), ..Default::default() }],
        last: Some(WindowLength { days: 7 * weeks + 2, minutes: 0 }),
        step: Some(Step::Hour),
        ..Query::default()
    };
    let plan = query.plan(i64::from(minute) * 60_000 - 1, "UTC").map_err(failed)?;
    let result = run(&plan, context.game.number, &*context.views.counters, None, context.control);
    let result = result.map_err(failed)?;
    let values = result.series.first().map_or(&[][..], |series| &series.values);
    let first = values.iter().position(|value| value.is_some_and(|value| value > 0.0));
    Ok(first.and_then(|first| result.times.minutes.get(first).copied()).unwrap_or(minute))
}

fn rollups(
    fields: &mut Map<String, Value>,
    declared: &[NumberedDimension],
) -> Result<QuerySource, QueryError> {
    fields.remove("step");
    let text = Value::Object(std::mem::take(fields)).to_string();
    let mut query = pipeline::query::request::from_json(text.as_bytes(), declared)?;
    query.step = Some(Step::All);
    // A valid query can be planned at any time; this names the field that is not.
    query.plan(pipeline::time::now_ms(), "UTC")?;
    Ok(QuerySource::Rollups(Box::new(query)))
}

fn events(
    kind: &str,
    mut fields: Map<String, Value>,
    value: Option<Value>,
) -> Result<QuerySource, QueryError> {
    let value = match (value, kind) {
        (Some(Value::String(pointer)), _) if pointer.starts_with('/') => Some(pointer),
        (None, "explore") => None,
        _ => {
            let message =
                "must be the place of a number in the answer, as a JSON pointer such as /steps/1/conversion";
            return Err(QueryError::new("value", message));
        }
    };
    if let Some(by) = fields.get("by") {
        let names = by.as_array().map_or(std::slice::from_ref(by), Vec::as_slice);
        if let Some(name) = names.iter().filter_map(Value::as_str).find(|name| PERSONAL.contains(name)) {
            return Err(QueryError::new("by", format!("a rule cannot be broken down by {name}")));
        }
    }
    if kind == "explore" {
        fields.insert("step".to_owned(), "all".into());
    }
    let question = Question::from_json(kind, Value::Object(fields).to_string().as_bytes())?;
    match question.cohorts().first() {
        Some(name) => Err(QueryError::new("cohort", format!("a rule cannot use a cohort; remove `{name}`"))),
        None => Ok(QuerySource::Events { question: Box::new(question), value }),
    }
}

/// Returns the values of an answer.
fn values_of(answer: &dyn Answer, pointer: Option<&str>) -> Result<Values, EvaluationError> {
    let fields = Value::Object(answer.fields());
    if let Some(pointer) = pointer {
        let found = fields.pointer(pointer);
        let found = found.ok_or_else(|| failed(format!("the answer has nothing at {pointer}")))?;
        if !found.is_number() && !found.is_null() {
            return Err(failed(format!("what the answer has at {pointer} is not a number")));
        }
        return Ok(vec![AlertSeries { key: BTreeMap::new(), value: found.as_f64() }]);
    }
    let series = fields["series"].as_array().map_or(&[][..], Vec::as_slice).iter().map(|series| {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let key = series["key"].as_object().into_iter().flatten();
        AlertSeries {
            key: key.map(|(name, value)| (name.clone(), text(value))).collect(),
            value: series["total"].as_f64(),
        }
    });
    Ok(series.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let shown = match RuleQuery::parse(text, &[]) {
            Ok(query) => format!("{:?}", query.source),
            Err(error) => error.to_string(),
        };
        assert!(shown.contains(expected), "{shown}");
    }

    #[test]
    fn queries_and_questions_are_parsed() {
        check(r#"{"metric":"error","last":"5m","step":"hour","by":["country"]}"#, "step: Some(All)");
        check(
            r#"{"kind":"explore","event":"buy","measure":"sum","property":"value","last":"1h"}"#,
            "Explore",
        );
        check(
            r#"{"kind":"funnel","steps":[{"event":"a"},{"event":"b"}],"last":"1d","value":"/steps/1/conversion"}"#,
            "/steps/1/conversion",
        );
    }

    #[test]
    fn what_a_rule_cannot_use_is_an_error_that_names_the_field() {
        check("[]", "body: is not a JSON object");
        check(r#"{"metric":"error"}"#, "last: must be a duration");
        check(r#"{"metric":"error","last":"5m","from":0}"#, "from: cannot be used in a rule");
        check(r#"{"metric":"error","last":"5m","compare":"previous"}"#, "compare: cannot be used in a rule");
        check(r#"{"last":"5m"}"#, "metric: is required");
        check(r#"{"metric":"error","last":"5m","by":["hat"]}"#, "by: must be one of");
        check(r#"{"metric":"error","last":"5m","value":"/x"}"#, "value: applies to questions");
        check(r#"{"kind":"players","last":"5m"}"#, "kind: must be query, explore");
        check(r#"{"kind":"funnel","steps":[],"last":"5m"}"#, "value: must be the place");
        check(
            r#"{"kind":"explore","event":"a","by":"player","last":"5m"}"#,
            "by: a rule cannot be broken down",
        );
        check(r#"{"kind":"explore","event":"a","hat":1,"last":"5m"}"#, "hat: is not a field");
    }

    #[test]
    fn silence_counts_events_over_its_own_window() {
        let query =
            RuleQuery::parse(r#"{"metric":"load","measure":"last","last":"5m"}"#, &[]).expect("a query");
        let compare = AlertComparison { no_data_s: Some(630), ..AlertComparison::default() };
        let query = query.for_condition(&compare).expect("a query over rollups");
        assert_eq!(query.last, WindowLength { days: 0, minutes: 11 });
        let QuerySource::Rollups(query) = query.source else { panic!("a query over rollups") };
        assert_eq!(query.metrics[0].measure, Some(Measure::Count));
        let question = r#"{"kind":"explore","event":"a","last":"5m"}"#;
        let question = RuleQuery::parse(question, &[]).expect("a question");
        assert!(question.for_condition(&compare).is_err());
    }
}
