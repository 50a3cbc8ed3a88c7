//! `GET /v1/load`: the ingest accounting of a game.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use hyper::header;
use model::admit::REQUEST_METRIC_PREFIX;
use model::ports::counters::StoreError;
use model::query::QueryControl;
use pipeline::accounting::{self, AccountingTotals};
use pipeline::catalog::Game;
use pipeline::time::{now_ms, parse_time, rfc3339};
use pipeline::views::Views;
use serde::Deserialize;
use serde_json::{Value, json};

use super::query::{run_bounded, stopped_problem};
use crate::auth::Credentials;
use crate::problem::Problem;
use crate::{AppState, RuntimeState};

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new().route("/v1/load", routing::get(get))
}

const DAY_MINUTES: i64 = 24 * 60;
/// A response sums up the hours of several hundred counters.
const DAYS_MAX: i64 = 400;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoadParams {
    from: Option<String>,
    to: Option<String>,
    // Authentication reads these.
    #[serde(rename = "key")]
    _key: Option<String>,
    #[serde(rename = "game")]
    _game: Option<String>,
}

/// Returns the ingest accounting of today (UTC), or of the minutes between `from` and `to`.
#[utoipa::path(
    get, path = "/v1/load", operation_id = "load", tag = "analytics", security(("secret_key" = [])),
    params(
        ("from" = Option<String>, Query, description = "Start, RFC 3339 or milliseconds since 1970. Default: midnight UTC."),
        ("to" = Option<String>, Query, description = "End, RFC 3339 or milliseconds since 1970. Default: now."),
    ),
    responses((status = 200, description = "`received = accepted + duplicate + invalid + late + limited`, for events and samples together. `samples` of the accepted ones are samples, `other_events` count in `(other)` because their names have no rows of their own. `requests` counts outcomes by route, in completed minutes.", body = Object)),
)]
pub(crate) async fn get(
    State(shared): State<Arc<AppState>>,
    credentials: Credentials,
    params: Result<Query<LoadParams>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Problem> {
    let now = now_ms();
    let access = credentials.authorize_query(&shared.catalog, now as u64 / 1000)?;
    let Query(params) = params.map_err(|refused| Problem::invalid(refused.body_text()))?;
    let position = shared.log.durable_until();
    shared.views.caught_up(position).await?;
    let today = now - now.rem_euclid(DAY_MINUTES * 60_000);
    let from = time("from", params.from.as_deref())?.unwrap_or(today);
    let until = time("to", params.to.as_deref())?.unwrap_or(today + DAY_MINUTES * 60_000);
    let minutes = from.div_euclid(60_000)..(until + 59_999).div_euclid(60_000);
    if minutes.end - minutes.start > DAYS_MAX * DAY_MINUTES {
        return Err(Problem::invalid(format!("the range must not exceed {DAYS_MAX} days")).field("from"));
    }
    let (views, game) = (Arc::clone(&shared.views), Arc::clone(&access.game));
    let mut answer = run_bounded(&shared, game.number, move |control| {
        let internal = |failure: StoreError| Problem::internal(failure.to_string());
        let totals = AccountingTotals::read(&views, &game, minutes.start, minutes.end);
        let mut answer = totals.map_err(internal)?.json();
        answer["requests"] = requests(&views, &game, minutes, control)?;
        Ok(answer)
    })
    .await?;
    let position = shared.views.counters.applied_until();
    answer["as_of"] = json!({ "position": format!("0/{position}"), "time": rfc3339(now) });
    Ok(([(header::CONTENT_TYPE, "application/json")], answer.to_string()).into_response())
}

/// Counts the game's requests of completed minutes by method, route and outcome.
fn requests(
    views: &Views,
    game: &Game,
    minutes: Range<i64>,
    control: &dyn QueryControl,
) -> Result<Value, Problem> {
    let internal = |failure: StoreError| Problem::internal(failure.to_string());
    let minutes = minutes.start.max(0) as u32..minutes.end.max(0) as u32;
    let mut routes: BTreeMap<String, Value> = BTreeMap::new();
    for metric in views.counters.metrics(game.number, minutes.clone()).map_err(internal)? {
        control.check(0).map_err(stopped_problem)?;
        let named = metric.strip_prefix(REQUEST_METRIC_PREFIX).and_then(|rest| rest.rsplit_once('.'));
        let Some((route, outcome)) = named else { continue };
        let count = accounting::sum_metric(&*views.counters, game.number, &metric, minutes.clone());
        let count = count.map_err(internal)?;
        let (method, path) = route.split_once(' ').unwrap_or((route, ""));
        let row = routes.entry(route.to_owned()).or_insert_with(|| json!({ "method": method, "path": path }));
        row[outcome] = count.into();
    }
    Ok(routes.into_values().collect())
}

fn time(field: &'static str, text: Option<&str>) -> Result<Option<i64>, Problem> {
    let parse = |text: &str| {
        let problem = || Problem::invalid("must be an RFC 3339 time or milliseconds since 1970").field(field);
        parse_time(text).ok_or_else(problem)
    };
    text.map(parse).transpose()
}
