//! `GET /v1/load`: what came in and what became of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Query as Parameters, State};
use axum::response::{IntoResponse, Response};
use hyper::header::HeaderMap;
use hyper::{Uri, header};
use model::admit::REQUEST_METRIC_PREFIX;
use model::ports::counters::StoreError;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::AppState;
use crate::api::commands::Local;
use crate::auth;
use crate::problem::Problem;
use axum::{Router, routing};
use pipeline::accounting::{self, AccountingTotals};
use pipeline::catalog::Game;
use pipeline::time::{now_ms, parse_time, rfc3339};
use pipeline::views::Views;

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
    Router::new().route("/v1/load", routing::get(get))
}

const DAY_MINUTES: i64 = 24 * 60;
/// One answer adds up hours of some hundred counts.
const DAYS_MAX: i64 = 400;

/// What may be asked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    from: Option<String>,
    to: Option<String>,
    // The credential and the game it is for have been read.
    #[serde(rename = "key")]
    _key: Option<String>,
    #[serde(rename = "game")]
    _game: Option<String>,
}

/// Answers with the accounts of today, or of the minutes from `from` to `to`.
#[utoipa::path(
    get, path = "/v1/load", operation_id = "load", tag = "analytics", security(("secret_key" = [])),
    params(
        ("from" = Option<String>, Query, description = "RFC 3339 or milliseconds since 1970; midnight UTC by default."),
        ("to" = Option<String>, Query, description = "RFC 3339 or milliseconds since 1970; now by default."),
    ),
    responses((status = 200, description = "received = accepted + duplicate + invalid + late + limited. `requests`: how many of each outcome by route, of minutes that are over.", body = Object)),
)]
pub async fn get(
    State(shared): State<Arc<AppState>>,
    ConnectInfo(_): ConnectInfo<SocketAddr>,
    uri: Uri,
    headers: HeaderMap,
    asked: Result<Parameters<Asked>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Problem> {
    let now = now_ms();
    let access = auth::for_questions(&shared.catalog, &headers, uri.query(), now as u64 / 1000)?;
    let Parameters(asked) = asked.map_err(|refused| Problem::invalid(refused.body_text()))?;
    let position = shared.log.durable_until();
    shared.views.caught_up(position).await;
    let today = now - now.rem_euclid(DAY_MINUTES * 60_000);
    let from = time("from", asked.from.as_deref())?.unwrap_or(today);
    let until = time("to", asked.to.as_deref())?.unwrap_or(today + DAY_MINUTES * 60_000);
    let minutes = from.div_euclid(60_000)..(until + 59_999).div_euclid(60_000);
    if minutes.end - minutes.start > DAYS_MAX * DAY_MINUTES {
        return Err(Problem::invalid(format!("at most {DAYS_MAX} days are answered at once")).field("from"));
    }
    let totals = AccountingTotals::read(&shared.views, &access.game, minutes.start, minutes.end);
    let internal = |failure: StoreError| Problem::internal(failure.to_string());
    let mut answer = totals.map_err(internal)?.json();
    answer["requests"] = requests(&shared.views, &access.game, minutes).map_err(internal)?;
    let position = shared.views.counters.applied_until();
    answer["as_of"] = json!({ "position": format!("0/{position}"), "time": rfc3339(now) });
    Ok(([(header::CONTENT_TYPE, "application/json")], answer.to_string()).into_response())
}

/// The game's requests of the minutes that are over: how many of each outcome, by method and route.
fn requests(views: &Views, game: &Game, minutes: Range<i64>) -> Result<Value, StoreError> {
    let minutes = minutes.start.max(0) as u32..minutes.end.max(0) as u32;
    let mut routes: BTreeMap<String, Value> = BTreeMap::new();
    for metric in views.counters.metrics(game.number, minutes.clone())? {
        let told = metric.strip_prefix(REQUEST_METRIC_PREFIX).and_then(|rest| rest.rsplit_once('.'));
        let Some((route, outcome)) = told else { continue };
        let count = accounting::sum_metric(&*views.counters, game.number, &metric, minutes.clone())?;
        let (method, path) = route.split_once(' ').unwrap_or((route, ""));
        let row = routes.entry(route.to_owned()).or_insert_with(|| json!({ "method": method, "path": path }));
        row[outcome] = count.into();
    }
    Ok(routes.into_values().collect())
}

fn time(field: &'static str, text: Option<&str>) -> Result<Option<i64>, Problem> {
    let parse = |text: &str| {
        let problem = || Problem::invalid("it is RFC 3339 or milliseconds since 1970").field(field);
        parse_time(text).ok_or_else(problem)
    };
    text.map(parse).transpose()
}
