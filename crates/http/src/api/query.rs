//! `GET|POST /v1/query`: questions over rollups.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use hyper::http::request::Parts;
use hyper::{Request, Uri};
use model::limits::QUERY_BYTES_MAX;
use model::query::{Query, run};

use super::openapi::shapes;
use crate::AppState;
use crate::api::commands::Local;
use crate::auth;
use crate::body;
use crate::problem::Problem;
use axum::{Router, routing};
use pipeline::catalog::Access;
use pipeline::query::result;
use pipeline::time::{now_ms, now_s};

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
    Router::new().route("/v1/query", routing::get(get).post(post))
}

/// Asks a question, its fields in the query string.
#[utoipa::path(
    get, path = "/v1/query", operation_id = "query_by_url", tag = "analytics", security(("secret_key" = [])),
    params(
        ("metric" = Option<String>, Query, description = "As in the body of POST.", example = "plays"),
        ("measure" = Option<String>, Query, description = "As in the body of POST.", example = "count"),
        ("from" = Option<String>, Query, description = "RFC 3339 or milliseconds since 1970."),
        ("to" = Option<String>, Query, description = "RFC 3339 or milliseconds since 1970."),
        ("last" = Option<String>, Query, description = "Instead of both.", example = "24h"),
        ("step" = Option<String>, Query, description = "minute, hour, day, week, month, auto, all.", example = "hour"),
        ("by" = Option<String>, Query, description = "Dimensions with commas.", example = "country"),
        ("top" = Option<u32>, Query, description = "So many series.", example = 5),
        ("tz" = Option<String>, Query, description = "An IANA time zone.", example = "Europe/Paris"),
        ("compare" = Option<String>, Query, description = "previous or year."),
        ("formula" = Option<String>, Query, description = "Over `metrics`, which is JSON here."),
        ("metrics" = Option<String>, Query, description = "JSON, as in the body of POST."),
    ),
    responses(
        (status = 200, description = "The answer; as CSV with `Accept: text/csv`.", body = shapes::QueryAnswer),
        (status = 400, description = "What cannot be asked, by field.", body = shapes::Problem),
    ),
)]
pub async fn get(
    State(shared): State<Arc<AppState>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let access = auth::for_questions(&shared.catalog, &headers, uri.query(), now_s())?;
    let pairs = crate::query_string::pairs(uri.query().unwrap_or_default())?;
    let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let query = pipeline::query::request::from_pairs(pairs, &access.game.settings.declared());
    let query = query.map_err(Problem::from)?;
    reply(&shared, &access, &headers, &query).await
}

/// Asks a question. The answer contains everything that was acknowledged before.
#[utoipa::path(
    post, path = "/v1/query", operation_id = "query", tag = "analytics", security(("secret_key" = [])),
    request_body(
        content = shapes::Query,
        example = json!({
            "metric": "plays", "measure": "count", "last": "24h", "step": "hour", "by": ["country"], "top": 5,
            "tz": "Europe/Paris", "compare": "previous",
        }),
    ),
    responses(
        (status = 200, description = "The answer; as CSV with `Accept: text/csv`.", body = shapes::QueryAnswer),
        (status = 400, description = "What cannot be asked, by field.", body = shapes::Problem),
    ),
)]
pub async fn post(State(shared): State<Arc<AppState>>, request: Request<Body>) -> Result<Response, Problem> {
    let (head, mut body) = request.into_parts();
    let answer = asked(&shared, &head, &mut body).await;
    if let Err(problem) = &answer {
        body::discard(&head.headers, body, problem);
    }
    answer
}

async fn asked(shared: &AppState, head: &Parts, body: &mut Body) -> Result<Response, Problem> {
    let access = auth::for_questions(&shared.catalog, &head.headers, head.uri.query(), now_s())?;
    let body = body::collect(body, QUERY_BYTES_MAX).await?;
    let query = pipeline::query::request::from_json(&body, &access.game.settings.declared())
        .map_err(Problem::from)?;
    reply(shared, &access, &head.headers, &query).await
}

/// The answer includes everything that was acknowledged before the question came.
async fn reply(
    shared: &AppState,
    access: &Access,
    headers: &HeaderMap,
    query: &Query,
) -> Result<Response, Problem> {
    let acknowledged = shared.log.durable_until();
    let now_ms = now_ms();
    let plan = query.plan(now_ms, &access.game.tz).map_err(Problem::from)?;
    shared.views.caught_up(acknowledged).await;
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
