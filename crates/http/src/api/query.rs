//! `GET|POST /v1/query`: analytics queries over rollups.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::Response;
use axum::{Router, routing};
use hyper::header::{ACCEPT, HeaderMap};
use hyper::http::request::Parts;
use hyper::{Request, Uri};
use model::limits::QUERY_BYTES_MAX;
use model::query::{Query, QueryControl, QueryFailure, QueryResult, QueryStopped, run};
use pipeline::catalog::Access;
use pipeline::query::pool::QueryRejected;
use pipeline::query::result;
use pipeline::time::{now_ms, now_s};

use super::openapi::schemas;
use crate::auth::Credentials;
use crate::body;
use crate::client_stream::ClientPresence;
use crate::problem::Problem;
use crate::rows::RowFormat;
use crate::{AppState, RuntimeState};

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new().route("/v1/query", routing::get(get).post(post))
}

/// Runs a query whose fields are query parameters.
///
/// With `format=csv` or `format=ndjson` the result is flat rows: `time`, the key of the series, `value`.
#[utoipa::path(
    get, path = "/v1/query", operation_id = "query_by_url", tag = "analytics", security(("secret_key" = [])),
    params(
        ("metric" = Option<String>, Query, description = "As in the body of `POST /v1/query`.", example = "plays"),
        ("measure" = Option<String>, Query, description = "As in the body of `POST /v1/query`.", example = "count"),
        ("from" = Option<String>, Query, description = "Start, RFC 3339 or milliseconds since 1970."),
        ("to" = Option<String>, Query, description = "End, RFC 3339 or milliseconds since 1970."),
        ("last" = Option<String>, Query, description = "Range up to now, instead of `from` and `to`.", example = "24h"),
        ("step" = Option<String>, Query, description = "`minute`, `hour`, `day`, `week`, `month`, `auto` or `all`.", example = "hour"),
        ("by" = Option<String>, Query, description = "Dimensions to break down by, separated by commas.", example = "country"),
        ("top" = Option<u32>, Query, minimum = 1, maximum = 1_000, description = "Number of series; the rest is summed up in `(other)`.", example = 5),
        ("tz" = Option<String>, Query, description = "An IANA time zone.", example = "Europe/Paris"),
        ("compare" = Option<String>, Query, description = "`previous` or `year`."),
        ("formula" = Option<String>, Query, description = "Formula over the names in `metrics`."),
        ("metrics" = Option<String>, Query, description = "JSON, as in the body of `POST /v1/query`."),
    ),
    responses(
        (status = 200, description = "The result, or its rows as CSV or NDJSON.", body = schemas::QueryResponse),
        (status = 400, description = "The query is invalid; `field` names the field.", body = schemas::ProblemDocument),
        (status = 422, description = "The query needs more memory than one query may use.", body = schemas::ProblemDocument),
        (status = 429, description = "The game already runs as many queries as it may; see Retry-After.", body = schemas::ProblemDocument),
        (status = 503, description = "The query took too long, or the server is busy; see Retry-After.", body = schemas::ProblemDocument),
    ),
)]
pub(crate) async fn get(
    State(shared): State<Arc<AppState>>,
    uri: Uri,
    credentials: Credentials,
    presence: Option<Extension<ClientPresence>>,
) -> Result<Response, Problem> {
    let access = credentials.authorize_query(&shared.catalog, now_s())?;
    let mut pairs = crate::query_string::pairs(uri.query().unwrap_or_default())?;
    let format = RowFormat::take(&mut pairs)?.unwrap_or_else(|| accepted_format(credentials.headers()));
    let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let query = pipeline::query::request::from_pairs(pairs, &access.game.settings.declared());
    let query = query.map_err(Problem::from)?;
    let presence = presence.as_ref().map(|Extension(presence)| presence);
    respond(&shared, &access, (format, presence), query).await
}

/// Runs a query. The result includes every event acknowledged before the request.
///
/// A query may take 10 s and 256 MiB of memory, unless the server has other settings. It is cancelled when the client
/// closes the connection.
#[utoipa::path(
    post, path = "/v1/query", operation_id = "query", tag = "analytics", security(("secret_key" = [])),
    request_body(
        content = schemas::QueryRequest,
        example = json!({
            "metric": "plays", "measure": "count", "last": "24h", "step": "hour", "by": ["country"], "top": 5,
            "tz": "Europe/Paris", "compare": "previous",
        }),
    ),
    responses(
        (status = 200, description = "The result, or its rows as CSV or NDJSON.", body = schemas::QueryResponse),
        (status = 400, description = "The query is invalid; `field` names the field.", body = schemas::ProblemDocument),
        (status = 422, description = "The query needs more memory than one query may use.", body = schemas::ProblemDocument),
        (status = 429, description = "The game already runs as many queries as it may; see Retry-After.", body = schemas::ProblemDocument),
        (status = 503, description = "The query took too long, or the server is busy; see Retry-After.", body = schemas::ProblemDocument),
    ),
)]
pub(crate) async fn post(
    State(shared): State<Arc<AppState>>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    let (head, mut body) = request.into_parts();
    let result = run_from_body(&shared, &head, &mut body).await;
    if let Err(problem) = &result {
        body::discard(&head.headers, body, problem);
    }
    result
}

async fn run_from_body(shared: &Arc<AppState>, head: &Parts, body: &mut Body) -> Result<Response, Problem> {
    let access = Credentials::from(head).authorize_query(&shared.catalog, now_s())?;
    let mut pairs = crate::query_string::pairs(head.uri.query().unwrap_or_default())?;
    let format = RowFormat::take(&mut pairs)?.unwrap_or_else(|| accepted_format(&head.headers));
    let body = body::collect(head, body, QUERY_BYTES_MAX).await?;
    let query = pipeline::query::request::from_json(&body, &access.game.settings.declared())
        .map_err(Problem::from)?;
    let presence = head.extensions.get::<ClientPresence>();
    respond(shared, &access, (format, presence), query).await
}

/// Runs a query over everything that was acknowledged before it, and responds in the accepted format.
pub(super) async fn respond(
    shared: &Arc<AppState>,
    access: &Access,
    (format, presence): (RowFormat, Option<&ClientPresence>),
    query: Query,
) -> Result<Response, Problem> {
    let run = run_query(shared, access, query, now_ms(), move |result, now_ms| match format {
        RowFormat::Json => Ok(result::json(&result, now_ms)),
        RowFormat::Csv => result::csv(&result),
        RowFormat::Ndjson => result::ndjson(&result),
    });
    let encoded = match presence {
        None => run.await?,
        Some(presence) => tokio::select! {
            encoded = run => encoded?,
            () = presence.wait_until_left() => return Err(stopped_problem(QueryStopped::Cancelled)),
        },
    };
    let bytes = encoded.map_err(|too_large| Problem::limit_reached(too_large.to_string()))?;
    Ok(format.response("query", bytes))
}

/// Returns the format that a request without the parameter `format` accepts.
pub(super) fn accepted_format(headers: &HeaderMap) -> RowFormat {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.contains("text/csv") { RowFormat::Csv } else { RowFormat::Json }
}

/// Runs a query over everything that was acknowledged before it, on a thread for queries, and encodes its result there.
pub(crate) async fn run_query<T: Send + 'static>(
    shared: &Arc<AppState>,
    access: &Access,
    query: Query,
    now_ms: i64,
    encode: impl FnOnce(QueryResult, i64) -> T + Send + 'static,
) -> Result<T, Problem> {
    shared.views.caught_up(shared.log.durable_until()).await?;
    let (views, game) = (Arc::clone(&shared.views), Arc::clone(&access.game));
    run_bounded(shared, game.number, move |control| {
        let plan = query.plan(now_ms, &game.tz).map_err(Problem::from)?;
        let links = views.identities.game(game.number);
        let result = run(&plan, game.number, &*views.counters, links.as_deref(), control);
        let result = result.map_err(|failure| match failure {
            QueryFailure::Store(failure) => Problem::internal(failure.to_string()),
            QueryFailure::Stopped(stopped) => stopped_problem(stopped),
        })?;
        Ok(encode(result, now_ms))
    })
    .await
}

/// Runs `work` on a thread for queries, as soon as the game may run another one.
pub(crate) async fn run_bounded<T: Send + 'static>(
    shared: &AppState,
    game: u32,
    work: impl FnOnce(&dyn QueryControl) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    shared.queries.run(game, work).await.map_err(rejected_problem)?
}

/// Returns the problem for a query that was not run.
pub(crate) fn rejected_problem(rejected: QueryRejected) -> Problem {
    match rejected {
        QueryRejected::GameBusy { .. } => Problem::quota_exceeded(rejected.to_string()).retry_after_s(1),
        QueryRejected::Busy => Problem::overloaded(rejected.to_string()).retry_after_s(1),
        QueryRejected::Stopped(stopped) => stopped_problem(stopped),
        QueryRejected::Failed => Problem::internal(rejected.to_string()),
    }
}

/// Returns the problem for a query that was stopped.
pub(crate) fn stopped_problem(stopped: QueryStopped) -> Problem {
    match stopped {
        QueryStopped::Timeout { .. } => Problem::query_timeout(stopped.to_string()),
        QueryStopped::Memory { .. } => Problem::limit_reached(stopped.to_string()),
        QueryStopped::Overloaded | QueryStopped::Cancelled => {
            Problem::overloaded(stopped.to_string()).retry_after_s(1)
        }
    }
}
