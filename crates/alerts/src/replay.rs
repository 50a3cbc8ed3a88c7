//! Replays a rule over history, with the evaluator of the server.

use archive::Snapshot;
use liveops::alerts::{AlertFinding, AlertPhase, AlertRule};
use model::query::{QueryControl, QueryError};
use pipeline::catalog::Game;
use pipeline::time::rfc3339;
use pipeline::views::Views;
use serde_json::{Value, json};

use crate::phase::RuleClock;
use crate::question::{QueryContext, RuleQuery, first_data};

/// Evaluations of one replay.
const POINTS_MAX: u32 = 1_440;
/// Evaluations of one replay of a question over raw events, each of which reads events.
const QUESTIONS_MAX: u32 = 48;
/// The longest range, in minutes.
const MINUTES_MAX: u32 = 60 * 24 * 31;

/// What to replay.
pub struct ReplayRequest {
    rule: AlertRule,
    query: RuleQuery,
    from: u32,
    until: u32,
}

/// A replayed rule.
pub struct Replay {
    step: u32,
    points: Vec<ReplayPoint>,
}

struct ReplayPoint {
    minute: u32,
    phase: AlertPhase,
    finding: AlertFinding,
}

impl ReplayRequest {
    /// Creates a request for a range of minutes since 1970.
    ///
    /// # Errors
    /// If the range is empty or too long.
    pub fn new(
        rule: AlertRule,
        query: RuleQuery,
        from: u32,
        until: u32,
    ) -> Result<ReplayRequest, QueryError> {
        if from >= until {
            return Err(QueryError::new("from", "must be before `to`"));
        }
        if until - from > MINUTES_MAX {
            return Err(QueryError::new("from", "must be at most 31 days before `to`"));
        }
        Ok(ReplayRequest { rule, query, from, until })
    }

    /// Returns true if it reads raw events.
    pub fn reads_events(&self) -> bool {
        self.query.reads_events()
    }

    /// Replays the rule. It is evaluated each minute, or less often if the range is long; a step then counts as the time
    /// that it stands for.
    ///
    /// # Errors
    /// If a query fails.
    pub fn run(
        &self,
        views: &Views,
        game: &Game,
        events: Option<&Snapshot>,
        control: &dyn QueryControl,
    ) -> Result<Replay, String> {
        let context = QueryContext { views, game, control, events };
        let points_max = if self.reads_events() { QUESTIONS_MAX } else { POINTS_MAX };
        let step = (self.until - self.from).div_ceil(points_max).max(1);
        let history_from = match self.rule.compare.band {
            Some(band) => {
                let weeks = band.weeks + (self.until - self.from).div_ceil(7 * 1_440);
                first_data(context, self.until, weeks).map_err(|error| error.to_string())?
            }
            None => 0,
        };
        let (mut clock, mut phase) = (RuleClock::default(), AlertPhase::Ok);
        let mut points = Vec::new();
        for minute in (self.from + step..=self.until).step_by(step as usize) {
            let judged = self.query.judge(&self.rule.compare, context, minute, history_from);
            let judged = judged.map_err(|error| error.to_string())?;
            clock.pass(phase, u64::from(step) * 60_000);
            if let Some(next) = clock.next(&self.rule, phase, judged.verdict) {
                clock.entered(&self.rule, phase);
                phase = next;
            }
            points.push(ReplayPoint { minute, phase, finding: judged.finding });
        }
        Ok(Replay { step, points })
    }
}

impl Replay {
    /// Returns the replay as JSON: lists of the same length, and the changes of the state.
    pub fn json(&self) -> Value {
        let time = |point: &ReplayPoint| rfc3339(i64::from(point.minute) * 60_000);
        let list = |of: fn(&AlertFinding) -> Option<f64>| -> Value {
            self.points.iter().map(|point| of(&point.finding)).map(|value| json!(value)).collect()
        };
        let before = std::iter::once(AlertPhase::Ok).chain(self.points.iter().map(|point| point.phase));
        let changes = self.points.iter().zip(before).filter(|(point, before)| point.phase != *before);
        let transitions = changes.map(
            |(point, _)| json!({ "at": time(point), "state": point.phase, "value": point.finding.value }),
        );
        let transitions: Vec<Value> = transitions.collect();
        let fired = transitions.iter().filter(|transition| transition["state"] == "firing").count();
        json!({
            "step_s": self.step * 60,
            "times": self.points.iter().map(time).collect::<Value>(),
            "values": list(|finding| finding.value),
            "low": list(|finding| finding.low),
            "high": list(|finding| finding.high),
            "states": self.points.iter().map(|point| json!(point.phase)).collect::<Value>(),
            "transitions": transitions,
            "fired": fired,
        })
    }
}
