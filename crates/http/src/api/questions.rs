//! Questions over raw events: `/v1/explore`, `/v1/funnel`, `/v1/retention`, `/v1/paths`, `/v1/levels:outcomes`,
//! `/v1/levels:heatmap` and `GET /v1/players`.

pub(super) mod run;

use std::sync::Arc;

use archive::questions::QuestionFailure;
use archive::questions::answer::{self, Answer, AsOf};
use archive::questions::limits::REQUEST_BYTES_MAX;
use archive::questions::question::Question;
use archive::scan::ScanFailure;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::{Router, routing};
use hyper::Request;
use hyper::http::request::Parts;
use pipeline::catalog::Access;
use pipeline::time::now_s;
use serde_json::{Map, Value};
use utoipa::OpenApi;

use super::openapi::schemas;
use super::query::{accepted_format, stopped_problem};
use crate::auth::Credentials;
use crate::body;
use crate::problem::Problem;
use crate::rows::RowFormat;
use crate::{AppState, RuntimeState};

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new()
        .route("/v1/explore", routing::post(explore))
        .route("/v1/funnel", routing::post(funnel))
        .route("/v1/retention", routing::post(retention))
        .route("/v1/paths", routing::post(paths))
        .route("/v1/levels:outcomes", routing::post(outcomes))
        .route("/v1/levels:heatmap", routing::post(heatmap))
        .route("/v1/players", routing::get(players))
}

/// The operations of this module in the OpenAPI description.
#[derive(OpenApi)]
#[openapi(paths(explore, funnel, retention, paths, outcomes, heatmap, players))]
pub(crate) struct QuestionsApi;

/// Counts or measures events by time, filtered and broken down by any property.
///
/// `where` is a list of conditions `{"property", "op", "value"}` with `op` one of `=`, `!=`, `<`, `<=`, `>`, `>=`,
/// `contains`, `in`, `set` and `unset`, and of groups `{"and": [...]}` and `{"or": [...]}`. Properties are `event`,
/// `player`, `session`, `value`, `country`, `platform`, `version`, `source`, `level`, and `props.NAME`.
/// The answer has the shape of `/v1/query`.
#[utoipa::path(
    post, path = "/v1/explore", operation_id = "explore", tag = "analytics", security(("secret_key" = [])),
    request_body(content = schemas::QuestionRequest, example = json!({
        "event": "purchase", "measure": "sum", "property": "props.price", "last": "7d", "step": "day",
        "by": ["country"], "where": [{"property": "platform", "op": "in", "value": ["web", "ios"]}],
    })),
    responses(
        (status = 200, description = "The answer, or its rows as CSV or NDJSON.", body = schemas::QuestionAnswer),
        (status = 400, description = "The question is invalid; `field` names the field.", body = schemas::ProblemDocument),
        (status = 422, description = "The question needs more memory than one question may use.", body = schemas::ProblemDocument),
        (status = 429, description = "The game already runs as many questions as it may; see Retry-After.", body = schemas::ProblemDocument),
        (status = 503, description = "The question took too long, or the server is busy; see Retry-After.", body = schemas::ProblemDocument),
    ),
)]
pub(crate) async fn explore(
    state: State<Arc<AppState>>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    post("explore", state, request).await
}

/// Counts how many players do one step after another.
///
/// A player counts from the first time that they do step 1 in the range. Each later step must come after the one before
/// it, within `window_s` seconds of step 1. With `"order": "strict"`, no other step may come in between.
#[utoipa::path(
    post, path = "/v1/funnel", operation_id = "funnel", tag = "analytics", security(("secret_key" = [])),
    request_body(content = schemas::QuestionRequest, example = json!({
        "steps": [{"event": "start"}, {"event": "win", "where": [{"property": "level", "op": "=", "value": "3"}]}],
        "window_s": 86400, "order": "loose", "by": "country", "last": "30d",
    })),
    responses(
        (status = 200, description = "The answer, or its rows as CSV or NDJSON.", body = schemas::QuestionAnswer),
        (status = 400, description = "The question is invalid; `field` names the field.", body = schemas::ProblemDocument),
        (status = 422, description = "The question needs more memory than one question may use.", body = schemas::ProblemDocument),
        (status = 429, description = "The game already runs as many questions as it may; see Retry-After.", body = schemas::ProblemDocument),
        (status = 503, description = "The question took too long, or the server is busy; see Retry-After.", body = schemas::ProblemDocument),
    ),
)]
pub(crate) async fn funnel(state: State<Arc<AppState>>, request: Request<Body>) -> Result<Response, Problem> {
    post("funnel", state, request).await
}

/// Counts the players who come back, by the day, week or month of their first event.
#[utoipa::path(
    post, path = "/v1/retention", operation_id = "retention", tag = "analytics", security(("secret_key" = [])),
    request_body(content = schemas::QuestionRequest, example = json!({
        "start": {"event": "$session_start"}, "return": {"event": "$session_start"}, "step": "day", "periods": 14,
        "kind": "classic", "last": "30d",
    })),
    responses(
        (status = 200, description = "The answer, or its rows as CSV or NDJSON.", body = schemas::QuestionAnswer),
        (status = 400, description = "The question is invalid; `field` names the field.", body = schemas::ProblemDocument),
        (status = 422, description = "The question needs more memory than one question may use.", body = schemas::ProblemDocument),
        (status = 429, description = "The game already runs as many questions as it may; see Retry-After.", body = schemas::ProblemDocument),
        (status = 503, description = "The question took too long, or the server is busy; see Retry-After.", body = schemas::ProblemDocument),
    ),
)]
pub(crate) async fn retention(
    state: State<Arc<AppState>>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    post("retention", state, request).await
}

/// Shows what players do after or before an event.
#[utoipa::path(
    post, path = "/v1/paths", operation_id = "paths", tag = "analytics", security(("secret_key" = [])),
    request_body(content = schemas::QuestionRequest, example = json!({
        "event": "start", "direction": "after", "depth": 5, "top": 8, "last": "7d",
    })),
    responses(
        (status = 200, description = "The answer, or its rows as CSV or NDJSON.", body = schemas::QuestionAnswer),
        (status = 400, description = "The question is invalid; `field` names the field.", body = schemas::ProblemDocument),
        (status = 422, description = "The question needs more memory than one question may use.", body = schemas::ProblemDocument),
        (status = 429, description = "The game already runs as many questions as it may; see Retry-After.", body = schemas::ProblemDocument),
        (status = 503, description = "The question took too long, or the server is busy; see Retry-After.", body = schemas::ProblemDocument),
    ),
)]
pub(crate) async fn paths(state: State<Arc<AppState>>, request: Request<Body>) -> Result<Response, Problem> {
    post("paths", state, request).await
}

/// Counts starts, wins, retries and quits of each level, from the events `$level`.
#[utoipa::path(
    post, path = "/v1/levels:outcomes", operation_id = "level_outcomes", tag = "analytics", security(("secret_key" = [])),
    request_body(content = schemas::QuestionRequest, example = json!({"last": "7d", "top": 20})),
    responses(
        (status = 200, description = "The answer, or its rows as CSV or NDJSON.", body = schemas::QuestionAnswer),
        (status = 400, description = "The question is invalid; `field` names the field.", body = schemas::ProblemDocument),
        (status = 422, description = "The question needs more memory than one question may use.", body = schemas::ProblemDocument),
        (status = 429, description = "The game already runs as many questions as it may; see Retry-After.", body = schemas::ProblemDocument),
        (status = 503, description = "The question took too long, or the server is busy; see Retry-After.", body = schemas::ProblemDocument),
    ),
)]
pub(crate) async fn outcomes(
    state: State<Arc<AppState>>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    post("levels", state, request).await
}

/// Counts the points of a map in a grid, from the events `$heat`.
#[utoipa::path(
    post, path = "/v1/levels:heatmap", operation_id = "heatmap", tag = "analytics", security(("secret_key" = [])),
    request_body(content = schemas::QuestionRequest, example = json!({"map": "castle", "metric": "deaths", "last": "7d"})),
    responses(
        (status = 200, description = "The answer, or its rows as CSV or NDJSON.", body = schemas::QuestionAnswer),
        (status = 400, description = "The question is invalid; `field` names the field.", body = schemas::ProblemDocument),
        (status = 422, description = "The question needs more memory than one question may use.", body = schemas::ProblemDocument),
        (status = 429, description = "The game already runs as many questions as it may; see Retry-After.", body = schemas::ProblemDocument),
        (status = 503, description = "The question took too long, or the server is busy; see Retry-After.", body = schemas::ProblemDocument),
    ),
)]
pub(crate) async fn heatmap(
    state: State<Arc<AppState>>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    post("heatmap", state, request).await
}

/// Finds players by a part of their id, those seen last first.
#[utoipa::path(
    get, path = "/v1/players", operation_id = "find_players", tag = "analytics", security(("secret_key" = [])),
    params(
        ("search" = Option<String>, Query, description = "A part of the id.", example = "bo"),
        ("match" = Option<String>, Query, description = "`contains` or `prefix`.", example = "prefix"),
        ("where" = Option<String>, Query, description = "Conditions as JSON, as in the body of `POST /v1/explore`."),
        ("from" = Option<String>, Query, description = "Start, RFC 3339 or milliseconds since 1970."),
        ("to" = Option<String>, Query, description = "End, RFC 3339 or milliseconds since 1970."),
        ("last" = Option<String>, Query, description = "Range up to now, instead of `from` and `to`.", example = "7d"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1_000, description = "Number of players.", example = 20),
    ),
    responses(
        (status = 200, description = "The players, or rows as CSV or NDJSON.", body = schemas::QuestionAnswer),
        (status = 400, description = "The question is invalid; `field` names the field.", body = schemas::ProblemDocument),
        (status = 422, description = "The question needs more memory than one question may use.", body = schemas::ProblemDocument),
        (status = 429, description = "The game already runs as many questions as it may; see Retry-After.", body = schemas::ProblemDocument),
        (status = 503, description = "The question took too long, or the server is busy; see Retry-After.", body = schemas::ProblemDocument),
    ),
)]
pub(crate) async fn players(
    State(shared): State<Arc<AppState>>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    let (head, _) = request.into_parts();
    let access = Credentials::from(&head).authorize_query(&shared.catalog, now_s())?;
    let mut pairs = crate::query_string::pairs(head.uri.query().unwrap_or_default())?;
    let format = RowFormat::take(&mut pairs)?.unwrap_or_else(|| accepted_format(&head.headers));
    let body = object(pairs)?;
    respond(&shared, &access, &head, (format, "players"), &body).await
}

/// Returns parameters of a URL as the JSON object of a request.
pub(super) fn object(pairs: Vec<(String, String)>) -> Result<Vec<u8>, Problem> {
    let mut fields = Map::new();
    for (name, text) in pairs.into_iter().filter(|(name, _)| name != "game") {
        let value = match name.as_str() {
            "where" => serde_json::from_str(&text)
                .map_err(|error| Problem::invalid(format!("is not JSON: {error}")).field(&name))?,
            "limit" | "from" | "to" => text.parse::<i64>().map_or(Value::String(text), Value::from),
            _ => Value::String(text),
        };
        if fields.insert(name.clone(), value).is_some() {
            return Err(Problem::invalid("occurs more than once").field(&name));
        }
    }
    serde_json::to_vec(&fields).map_err(|error| Problem::internal(error.to_string()))
}

async fn post(
    kind: &'static str,
    State(shared): State<Arc<AppState>>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    let (head, mut body) = request.into_parts();
    let result = answer_body(kind, &shared, &head, &mut body).await;
    if let Err(problem) = &result {
        body::discard(&head.headers, body, problem);
    }
    result
}

async fn answer_body(
    kind: &'static str,
    shared: &Arc<AppState>,
    head: &Parts,
    body: &mut Body,
) -> Result<Response, Problem> {
    let access = Credentials::from(head).authorize_query(&shared.catalog, now_s())?;
    let mut pairs = crate::query_string::pairs(head.uri.query().unwrap_or_default())?;
    let format = RowFormat::take(&mut pairs)?.unwrap_or_else(|| accepted_format(&head.headers));
    let body = body::collect(head, body, REQUEST_BYTES_MAX).await?;
    respond(shared, &access, head, (format, kind), &body).await
}

/// Answers a question over everything that was acknowledged before it. It is cancelled when the client leaves.
pub(super) async fn respond(
    shared: &Arc<AppState>,
    access: &Access,
    head: &Parts,
    (format, kind): (RowFormat, &'static str),
    body: &[u8],
) -> Result<Response, Problem> {
    let question = Question::from_json(kind, body).map_err(Problem::from)?;
    let cohorts = question.cohorts().into_iter().map(str::to_owned).collect();
    let answer = run::over_events(shared, access, cohorts, move |events| {
        let answer = question.run(&events.context).map_err(question_problem)?;
        encode(format, &*answer, events.as_of)
    });
    let bytes = run::until_client_leaves(head, answer).await?;
    Ok(format.response(kind, bytes))
}

/// Writes an answer in a format.
pub(super) fn encode(format: RowFormat, answer: &dyn Answer, as_of: AsOf) -> Result<Vec<u8>, Problem> {
    let rows = match format {
        RowFormat::Json => Ok(answer::json(answer, as_of)),
        RowFormat::Csv => answer::csv(answer),
        RowFormat::Ndjson => answer::ndjson(answer),
    };
    rows.map_err(|too_large| Problem::limit_reached(too_large.to_string()))
}

/// Returns the problem for a question without an answer.
pub(super) fn question_problem(failure: QuestionFailure) -> Problem {
    match failure {
        QuestionFailure::Invalid(error) => Problem::from(error),
        QuestionFailure::Scan(failure) => scan_problem(failure),
    }
}

/// Returns the problem for events that could not be read.
pub(super) fn scan_problem(failure: ScanFailure) -> Problem {
    match failure {
        ScanFailure::Stopped(stopped) => stopped_problem(stopped),
        damaged @ ScanFailure::Damaged { .. } => Problem::internal(damaged.to_string()),
    }
}
