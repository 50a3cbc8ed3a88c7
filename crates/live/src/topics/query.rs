//! The result of a query.

mod documents;

use std::sync::Arc;

use bytes::Bytes;
use model::query::{ChangedValues, IncrementalQuery, Query, QueryResult, Refreshed, Series, run};
use pipeline::catalog::Game;
use pipeline::interest::Interest;
use pipeline::query::result;
use pipeline::time::now_ms;
use serde_json::{Value, json};

use crate::dirty_minutes::DirtyMinutes;
use crate::document_builder::DocumentBuilder;
use crate::documents::Document;
use crate::source::{
    ComputeContext, ComputeMode, ComputeMoment, TopicSource, Update, error_fields, object_fields,
    without_braces,
};
use documents::ResultDocuments;

/// If more points than this changed, the full result is sent.
const POINTS_MAX: usize = 500;

/// Computes the topic `query`. Holds the result that was last published.
pub(crate) struct QuerySource {
    query: Query,
    moment: ComputeMoment,
    incremental: Result<IncrementalQuery, String>,
    mode: ComputeMode,
    documents: ResultDocuments,
}

impl QuerySource {
    /// Returns a source without a result yet. The query must name its time zone.
    pub(crate) fn new(query: &Query, builder: DocumentBuilder) -> QuerySource {
        let incremental = Err("the query has not run yet".to_owned());
        let (query, moment) = (query.clone(), ComputeMoment::default());
        let documents = ResultDocuments::new(builder);
        QuerySource { query, moment, incremental, mode: ComputeMode::Poll, documents }
    }

    /// Runs the query over the current window.
    fn recompute(&self, context: &ComputeContext<'_>) -> Result<IncrementalQuery, String> {
        let plan = self.query.plan(context.now_ms, &context.game.tz).map_err(|error| error.to_string())?;
        let links = context.views.identities.game(context.game.number);
        let (game, counters) = (context.game.number, &*context.views.counters);
        let incremental = IncrementalQuery::run(plan, game, counters, links.as_deref(), context.control);
        incremental.map_err(|error| error.to_string())
    }

    /// Brings the result up to date, patching it in place if only values changed, and returns what changed.
    fn refresh(&mut self, context: &ComputeContext<'_>, dirty: &DirtyMinutes) -> ResultChange {
        let has_moved = self.due_ms().is_some_and(|due_ms| due_ms <= context.now_ms);
        if let (Ok(incremental), DirtyMinutes::Minutes(minutes), false) =
            (&mut self.incremental, dirty, has_moved)
        {
            let links = context.views.identities.game(context.game.number);
            let (game, counters) = (context.game.number, &*context.views.counters);
            return match incremental.refresh(minutes, game, counters, links.as_deref(), context.control) {
                Ok(Refreshed::Values(changed)) => ResultChange::Values(changed),
                Ok(Refreshed::Rearranged | Refreshed::Replaced(None)) => ResultChange::Everything,
                Ok(Refreshed::Replaced(Some(before))) => ResultChange::between(&before, incremental.result()),
                Err(error) => {
                    self.incremental = Err(error.to_string());
                    ResultChange::Everything
                }
            };
        }
        let after = self.recompute(context);
        let before = std::mem::replace(&mut self.incremental, after);
        match (&before, &self.incremental) {
            (Err(before), Err(after)) if before == after => ResultChange::Values(ChangedValues::default()),
            (Ok(before), Ok(after)) => ResultChange::between(before.result(), after.result()),
            _ => ResultChange::Everything,
        }
    }

    /// Returns what subscribers are sent for a change.
    fn update_for(&mut self, change: ResultChange) -> Update {
        match (change, &self.incremental) {
            (ResultChange::Values(changed), _) if changed.points.is_empty() && changed.totals.is_empty() => {
                Update::Unchanged
            }
            (ResultChange::Values(changed), Ok(incremental)) if changed.points.len() <= POINTS_MAX => {
                self.documents.patch(incremental.result(), &changed);
                Update::Changed(object_fields(&message(&changed, incremental.result(), &self.moment)))
            }
            _ => {
                self.documents.clear();
                Update::Reset
            }
        }
    }
}

/// Returns the metrics that the query reads, which do not depend on the time.
pub(crate) fn query_interests(query: &Query, game: &Game) -> Vec<Interest> {
    let plan = query.plan(now_ms(), &game.tz);
    plan.map(|plan| plan.sources().into_iter().map(Interest::in_metric).collect()).unwrap_or_default()
}

/// Runs a query once.
pub(crate) fn run_query(query: &Query, context: &ComputeContext<'_>) -> Result<QueryResult, String> {
    let plan = query.plan(context.now_ms, &context.game.tz).map_err(|error| error.to_string())?;
    let links = context.views.identities.game(context.game.number);
    run(&plan, context.game.number, &*context.views.counters, links.as_deref(), context.control)
        .map_err(|error| error.to_string())
}

impl TopicSource for QuerySource {
    fn update(&mut self, context: &ComputeContext<'_>, dirty: &DirtyMinutes) -> Update {
        let change = self.refresh(context, dirty);
        let is_patchable = |incremental: &IncrementalQuery| incremental.plan().is_refreshable();
        self.mode = match &self.incremental {
            Ok(incremental) if is_patchable(incremental) => ComputeMode::Incremental,
            _ => ComputeMode::Poll,
        };
        self.moment = context.moment();
        self.update_for(change)
    }

    /// A window that ends now moves with each minute.
    fn due_ms(&self) -> Option<i64> {
        self.query.until_ms.is_none().then(|| self.moment.next_minute_ms())
    }

    fn mode(&self) -> ComputeMode {
        self.mode
    }

    fn full_state(&self) -> Bytes {
        match &self.incremental {
            Ok(incremental) => without_braces(&result::json(incremental.result(), self.moment.ms)),
            Err(failure) => error_fields(&self.moment, failure),
        }
    }

    fn documents(&mut self) -> Vec<Arc<Document>> {
        match &self.incremental {
            Ok(incremental) => self.documents.of(incremental.result()),
            Err(failure) => self.documents.error(failure),
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
fn message(changed: &ChangedValues, result: &QueryResult, moment: &ComputeMoment) -> Value {
    let point = |(series, bucket): &(usize, usize)| {
        let series = &result.series[*series];
        let mut point = series_key(series);
        point["time"] = result::time(&result.times, *bucket).into();
        point["value"] = result::number(series.values[*bucket]);
        point
    };
    let total = |series: &usize| {
        let series = &result.series[*series];
        let mut total = series_key(series);
        total["total"] = result::number(series.total);
        total
    };
    let points: Vec<Value> = changed.points.iter().map(point).collect();
    let totals: Vec<Value> = changed.totals.iter().map(total).collect();
    json!({ "as_of": moment.as_of(), "points": points, "totals": totals })
}

/// Returns the name and key that identify a series in a message.
fn series_key(series: &Series) -> Value {
    let mut key = json!({ "key": documents::key(series) });
    if let Some(name) = &series.name {
        key["name"] = name.as_str().into();
    }
    key
}
