//! `GET|POST /v1/query`: analytics queries over rollups.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use hyper::http::request::Parts;
use hyper::{Request, Uri};
use model::limits::QUERY_BYTES_MAX;
use model::query::{Query, run};
use pipeline::catalog::Access;
use pipeline::query::result;
use pipeline::time::{now_ms, now_s};

use super::openapi::schemas;
use crate::auth::Credentials;
use crate::body;
use crate::problem::Problem;
use crate::{AppState, RuntimeState};

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new().route("/v1/query", routing::get(get).post(post))
}

/// Runs a query whose fields are query parameters.
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
        ("top" = Option<u32>, Query, description = "Number of series; the rest is summed up in `(other)`.", example = 5),
        ("tz" = Option<String>, Query, description = "An IANA time zone.", example = "Europe/Paris"),
        ("compare" = Option<String>, Query, description = "`previous` or `year`."),
        ("formula" = Option<String>, Query, description = "Formula over the names in `metrics`."),
        ("metrics" = Option<String>, Query, description = "JSON, as in the body of `POST /v1/query`."),
    ),
    responses(
        (status = 200, description = "The result; as CSV with `Accept: text/csv`.", body = schemas::QueryResponse),
        (status = 400, description = "The query is invalid; `field` names the field.", body = schemas::ProblemDocument),
    ),
)]
pub(crate) async fn get(
    State(shared): State<Arc<AppState>>,
    uri: Uri,
    credentials: Credentials,
) -> Result<Response, Problem> {
    let access = credentials.authorize_query(&shared.catalog, now_s())?;
    let pairs = crate::query_string::pairs(uri.query().unwrap_or_default())?;
    let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let query = pipeline::query::request::from_pairs(pairs, &access.game.settings.declared());
    let query = query.map_err(Problem::from)?;
    respond(&shared, &access, credentials.headers(), &query).await
}

/// Runs a query. The result includes every event acknowledged before the request.
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
        (status = 200, description = "The result; as CSV with `Accept: text/csv`.", body = schemas::QueryResponse),
        (status = 400, description = "The query is invalid; `field` names the field.", body = schemas::ProblemDocument),
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

async fn run_from_body(shared: &AppState, head: &Parts, body: &mut Body) -> Result<Response, Problem> {
    let access = Credentials::from(head).authorize_query(&shared.catalog, now_s())?;
    let body = body::collect(body, QUERY_BYTES_MAX).await?;
    let query = pipeline::query::request::from_json(&body, &access.game.settings.declared())
        .map_err(Problem::from)?;
    respond(shared, &access, &head.headers, &query).await
}

/// Runs a query over everything that was acknowledged before it, and responds in the accepted format.
async fn respond(
    shared: &AppState,
    access: &Access,
    headers: &HeaderMap,
    query: &Query,
) -> Result<Response, Problem> {
    let acknowledged = shared.log.durable_until();
    let now_ms = now_ms();
    let plan = query.plan(now_ms, &access.game.tz).map_err(Problem::from)?;
    shared.views.caught_up(acknowledged).await?;
    let links = shared.views.identities.game(access.game.number);
    let answer = run(&plan, access.game.number, &*shared.views.counters, links.as_deref());
    let answer = answer.map_err(|failure| Problem::internal(failure.to_string()))?;
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    Ok(if accept.contains("text/csv") {
        ([(CONTENT_TYPE, "text/csv; charset=utf-8")], result::csv(&answer)).into_response()
    } else {
        ([(CONTENT_TYPE, "application/json")], result::json(&answer, now_ms)).into_response()
    })
}
