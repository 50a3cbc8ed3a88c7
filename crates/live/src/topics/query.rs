//! The results of queries.

mod rows;

use std::sync::Arc;

use bytes::Bytes;
use model::query::{ChangedValues, IncrementalQuery, Query, QueryResult, Refreshed, Series, run};
use serde_json::{Value, json};

use crate::docs::Doc;
use crate::topic::{At, List, Mode, Moment, Source, Update, failed, fields, inner};
use crate::touches::Touches;
use pipeline::catalog::Game;
use pipeline::interest::Interest;
use pipeline::query::result;
use pipeline::time::now_ms;

use rows::Rows;

/// If more points changed, the whole result is sent.
const POINTS_MAX: usize = 500;

/// The source of one query: its last result and how it is published.
pub(crate) struct QuerySource {
    query: Query,
    moment: Moment,
    state: Result<IncrementalQuery, String>,
    mode: Mode,
    rows: Rows,
}

impl QuerySource {
    /// Creates the source of a query that names its time zone.
    pub fn new(query: &Query, list: List) -> QuerySource {
        let state = Err("no result was computed yet".to_owned());
        let (query, moment) = (query.clone(), Moment::default());
        QuerySource { query, moment, state, mode: Mode::Poll, rows: Rows::new(list) }
    }

    /// Runs the query over the current window.
    fn run(&self, at: &At<'_>) -> Result<IncrementalQuery, String> {
        let plan = self.query.plan(at.ms, &at.game.tz).map_err(|error| error.to_string())?;
        let links = at.views.identities.game(at.game.number);
        let state = IncrementalQuery::run(plan, at.game.number, &*at.views.counters, links.as_deref());
        state.map_err(|error| error.to_string())
    }

    /// Brings the result up to date, patching it in place if only values changed, and returns what changed.
    fn refresh(&mut self, at: &At<'_>, touched: &Touches) -> ResultChange {
        let has_moved = self.due_ms().is_some_and(|due_ms| due_ms <= at.ms);
        if let (Ok(state), Touches::Minutes(minutes), false) = (&mut self.state, touched, has_moved) {
            let links = at.views.identities.game(at.game.number);
            match state.refresh(minutes, at.game.number, &*at.views.counters, links.as_deref()) {
                Ok(Refreshed::Values(changed)) => return ResultChange::Values(changed),
                Ok(Refreshed::Rearranged | Refreshed::Replaced(None)) => return ResultChange::Everything,
                Ok(Refreshed::Replaced(Some(before))) => {
                    return ResultChange::between(&before, state.result());
                }
                Err(error) => {
                    self.state = Err(error.to_string());
                    return ResultChange::Everything;
                }
            }
        }
        let state = self.run(at);
        let before = std::mem::replace(&mut self.state, state);
        match (&before, &self.state) {
            (Err(before), Err(after)) if before == after => ResultChange::Values(ChangedValues::default()),
            (Ok(before), Ok(after)) => ResultChange::between(before.result(), after.result()),
            _ => ResultChange::Everything,
        }
    }

    /// Returns how subscribers are told of a change.
    fn update(&mut self, change: ResultChange) -> Update {
        match (change, &self.state) {
            (ResultChange::Values(changed), _) if changed.points.is_empty() && changed.totals.is_empty() => {
                Update::Same
            }
            (ResultChange::Values(changed), Ok(state)) if changed.points.len() <= POINTS_MAX => {
                self.rows.patch(state.result(), &changed);
                Update::Change(fields(&message(&changed, state.result(), &self.moment)))
            }
            _ => {
                self.rows.clear();
                Update::Reset
            }
        }
    }
}

/// Returns the interests of a query, which do not change with time.
pub(crate) fn routes(query: &Query, game: &Game) -> Vec<Interest> {
    let plan = query.plan(now_ms(), &game.tz);
    plan.map(|plan| plan.sources().into_iter().map(Interest::in_metric).collect()).unwrap_or_default()
}

/// Runs a query once.
pub(crate) fn ask(query: &Query, at: &At<'_>) -> Result<QueryResult, String> {
    let plan = query.plan(at.ms, &at.game.tz).map_err(|error| error.to_string())?;
    let links = at.views.identities.game(at.game.number);
    run(&plan, at.game.number, &*at.views.counters, links.as_deref()).map_err(|error| error.to_string())
}

impl Source for QuerySource {
    fn advance(&mut self, at: &At<'_>, touched: &Touches) -> Update {
        let change = self.refresh(at, touched);
        let is_incremental = |state: &IncrementalQuery| state.plan().is_refreshable();
        self.mode = match &self.state {
            Ok(state) if is_incremental(state) => Mode::Incremental,
            _ => Mode::Poll,
        };
        self.moment = at.moment();
        self.update(change)
    }

    /// An open-ended window moves with the minutes.
    fn due_ms(&self) -> Option<i64> {
        self.query.until_ms.is_none().then(|| self.moment.next_minute_ms())
    }

    fn mode(&self) -> Mode {
        self.mode
    }

    fn whole(&self) -> Bytes {
        match &self.state {
            Ok(state) => inner(&result::json(state.result(), self.moment.ms)),
            Err(failure) => failed(&self.moment, failure),
        }
    }

    fn documents(&mut self) -> Vec<Arc<Doc>> {
        match &self.state {
            Ok(state) => self.rows.of(state.result()),
            Err(failure) => self.rows.failed(failure),
        }
    }
}

/// The difference between two results of a query.
enum ResultChange {
    /// Only these values differ; possibly none.
    Values(ChangedValues),
    /// More differs.
    Everything,
}

impl ResultChange {
    fn between(before: &QueryResult, after: &QueryResult) -> ResultChange {
        let is_same_series = |(old, new): (&Series, &Series)| old.name == new.name && old.key == new.key;
        let is_comparable = before.times == after.times
            && before.compare == after.compare
            && before.series.len() == after.series.len()
            && before.series.iter().zip(&after.series).all(is_same_series);
        if !is_comparable {
            return ResultChange::Everything;
        }
        let mut changed = ChangedValues::default();
        for (series, (old, new)) in before.series.iter().zip(&after.series).enumerate() {
            let values = old.values.iter().zip(&new.values).enumerate();
            let different = values.filter(|(_, (old, new))| old != new);
            changed.points.extend(different.map(|(bucket, _)| (series, bucket)));
            if old.total != new.total {
                changed.totals.push(series);
            }
        }
        ResultChange::Values(changed)
    }
}

/// Returns the message about changed values.
fn message(changed: &ChangedValues, result: &QueryResult, moment: &Moment) -> Value {
    let point = |(series, bucket): &(usize, usize)| {
        let series = &result.series[*series];
        let mut point = named(series);
        point["time"] = result::time(&result.times, *bucket).into();
        point["value"] = result::number(series.values[*bucket]);
        point
    };
    let total = |series: &usize| {
        let series = &result.series[*series];
        let mut total = named(series);
        total["total"] = result::number(series.total);
        total
    };
    let points: Vec<Value> = changed.points.iter().map(point).collect();
    let totals: Vec<Value> = changed.totals.iter().map(total).collect();
    json!({ "as_of": moment.as_of(), "points": points, "totals": totals })
}

fn named(series: &Series) -> Value {
    let mut named = json!({ "key": rows::key(series) });
    if let Some(name) = &series.name {
        named["name"] = name.as_str().into();
    }
    named
}
