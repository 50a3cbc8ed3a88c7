//! The line protocol of InfluxDB clients and Telegraf: `POST /api/v2/write`, `POST /write`, and the requests with which
//! clients check a server.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};

use decode::influx::{Precision, decode};
use decode::playtomic::query_parameter;
use model::batch::Endpoint;
use pipeline::catalog::{Access, Scope};
use pipeline::time::{now_ms, now_s};
use serde_json::{Value, json};

use crate::api::events::ingest_problem;
use crate::api::health::check_ready;
use crate::api::openapi::schemas;
use crate::api::samples::{SampleBatch, SampleOrigin};
use crate::auth::{self, Credentials};
use crate::body::{self, BodyLimits};
use crate::problem::Problem;
use crate::request_context::RequestContext;
use crate::{AppState, RuntimeState};

pub(super) fn routes() -> Router<RuntimeState> {
    Router::new()
        .route("/api/v2/write", routing::post(write))
        .route("/write", routing::post(write_1))
        .route("/ping", routing::get(ping).post(ping))
        .route("/health", routing::get(health))
        .route("/query", routing::get(query_1).post(query_1))
}

/// The version in the answers to checks. Clients read its first number at most.
const VERSION: &str = concat!("1.8.0-playmeter.", env!("CARGO_PKG_VERSION"));
/// Limit for a statement in a form.
const STATEMENT_BYTES_MAX: usize = 16 << 10;

/// Answers a client that checks whether the server is there.
async fn ping() -> Response {
    let headers = [("X-Influxdb-Version", VERSION), ("X-Influxdb-Build", "Playmeter")];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Answers a client that checks whether the server accepts points, by the rules of `/readyz`.
async fn health(State(shared): State<Arc<AppState>>) -> Response {
    let problem = check_ready(&shared).err();
    let (status, label) = match &problem {
        None => (StatusCode::OK, "pass"),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, "fail"),
    };
    let message = problem.as_ref().map_or("ready for queries and writes", Problem::detail);
    let body = json!({
        "name": "influxdb", "message": message, "status": label, "checks": [], "version": VERSION,
    });
    (status, [(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// Answers the statements with which clients prepare a database: there is nothing to prepare, because the key selects
/// the game. Other statements are rejected.
async fn query_1(State(runtime): State<RuntimeState>, request: Request<Body>) -> Response {
    let (head, mut incoming) = request.into_parts();
    match run_statement(&runtime, &head, &mut incoming).await {
        Ok(body) => ([(CONTENT_TYPE, "application/json")], body.to_string()).into_response(),
        Err(problem) => {
            body::discard(&head.headers, incoming, &problem);
            problem.into_response()
        }
    }
}

async fn run_statement(runtime: &RuntimeState, head: &Parts, incoming: &mut Body) -> Result<Value, Problem> {
    let access = authorize(runtime, head, now_s())?;
    let form = body::collect(head, incoming, STATEMENT_BYTES_MAX).await?;
    let form = String::from_utf8_lossy(&form);
    let in_url = query_parameter(head.uri.query().unwrap_or_default(), "q");
    let statement = in_url.or_else(|| query_parameter(&form, "q")).unwrap_or_default();
    let words: Vec<String> = statement.split_whitespace().take(2).map(str::to_ascii_uppercase).collect();
    match words.join(" ").as_str() {
        "CREATE DATABASE" => Ok(json!({ "results": [{ "statement_id": 0 }] })),
        "SHOW DATABASES" => {
            let series =
                json!({ "name": "databases", "columns": ["name"], "values": [[access.game.id.clone()]] });
            Ok(json!({ "results": [{ "statement_id": 0, "series": [series] }] }))
        }
        _ => Err(Problem::invalid("InfluxQL is not supported; query with `GET /v1/query`").field("q")),
    }
}

/// Writes points in InfluxDB's line protocol. `org`, `bucket` and `db` are ignored: the key selects the game.
///
/// The response is sent when the accepted points are durable. Invalid lines are counted and skipped; the status is 400 if
/// every line is invalid.
#[utoipa::path(
    post, path = "/api/v2/write", operation_id = "write_influx", tag = "events",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("precision" = Option<String>, Query, description = "Unit of timestamps: `ns` (default), `us`, `ms`, `s`, `m`, `h`."),
    ),
    request_body(content = String, content_type = "text/plain", example = json!("cpu,host=a usage=1.5")),
    responses(
        (status = 204, description = "Points accepted. Invalid lines are skipped."),
        (status = 400, description = "Every line is invalid.", body = schemas::ProblemDocument),
        (status = 401, description = "Missing or invalid key.", body = schemas::ProblemDocument),
    ),
)]
pub(crate) async fn write(State(runtime): State<RuntimeState>, request: Request<Body>) -> Response {
    let (head, mut incoming) = request.into_parts();
    match write_body(&runtime, &head, &mut incoming).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(problem) => {
            runtime.shared.rejected_requests.count(&problem);
            body::discard(&head.headers, incoming, &problem);
            problem.into_response()
        }
    }
}

/// Writes points at the path of InfluxDB 1. The key is the password of HTTP Basic authentication; in a URL, as `p`, it
/// must be a public key. The user and the database are ignored.
#[utoipa::path(
    post, path = "/write", operation_id = "write_influx_1", tag = "events",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("precision" = Option<String>, Query, description = "Unit of timestamps: `ns` (default), `u`, `ms`, `s`, `m`, `h`."),
        ("p" = Option<String>, Query, description = "Public key."),
    ),
    request_body(content = String, content_type = "text/plain", example = json!("cpu,host=a usage=1.5")),
    responses((status = 204, description = "Points accepted. Invalid lines are skipped.")),
)]
pub(crate) async fn write_1(state: State<RuntimeState>, request: Request<Body>) -> Response {
    write(state, request).await
}

async fn write_body(runtime: &RuntimeState, head: &Parts, incoming: &mut Body) -> Result<(), Problem> {
    let access = authorize(runtime, head, now_s())?;
    write_points(runtime, &access, head, incoming, Endpoint::Influx).await
}

/// Writes the points of a body for the game of the credential and counts them under an endpoint.
pub(crate) async fn write_points(
    runtime: &RuntimeState,
    access: &Access,
    head: &Parts,
    incoming: &mut Body,
    endpoint: Endpoint,
) -> Result<(), Problem> {
    let received_ms = now_ms();
    let precision = precision(head.uri.query().unwrap_or_default())?;
    let bytes = body::read(head, incoming, BodyLimits::EVENTS).await?;
    let shared = &runtime.shared;
    let mut samples = SampleBatch::new(
        shared,
        access,
        Arc::clone(&shared.collectors.metric_state(access.game.number).gauges),
        received_ms,
    );
    decode(&bytes, precision, |sample| samples.add(sample));
    let origin = SampleOrigin { endpoint, address: RequestContext::from(head).client_address() };
    let written = samples.write(shared, &runtime.lane, access, origin).await.map_err(ingest_problem)?;
    if written.accepted == 0 && written.rejected_count() > 0 {
        return Err(Problem::malformed(format!("no valid points in the body: {}", written.reasons())));
    }
    Ok(())
}

/// Returns the password of `Authorization: Basic`.
pub(super) fn basic_password(authorization: &str) -> Option<String> {
    let encoded = authorization.strip_prefix("Basic ")?;
    let pair = String::from_utf8(decode::base64::decode(encoded.trim())?).ok()?;
    let (_, password) = pair.split_once(':')?;
    (!password.is_empty()).then(|| password.to_owned())
}

fn precision(query: &str) -> Result<Precision, Problem> {
    match query_parameter(query, "precision") {
        Some(label) => Precision::from_label(&label)
            .ok_or_else(|| Problem::invalid("must be ns, us, ms, s, m or h").field("precision")),
        None => Ok(Precision::default()),
    }
}

/// Returns the access of the key: in the usual places, as `Authorization: Token KEY`, as the password of HTTP Basic
/// authentication, or as the password `p`.
pub(super) fn authorize(runtime: &RuntimeState, head: &Parts, now_s: u64) -> Result<Access, Problem> {
    let query = head.uri.query().unwrap_or_default();
    let query = query_parameter(query, "p").map_or_else(|| query.to_owned(), |key| format!("key={key}"));
    let credentials = Credentials::new(with_bearer(&head.headers), Some(query), RequestContext::from(head));
    let access = credentials.authorize_key(&runtime.shared.catalog, now_s)?;
    let access = access.ok_or_else(|| Problem::unauthorized("no key: send `Authorization: Token KEY`"))?;
    auth::allow(access, Scope::EventsWrite)
}

/// Replaces `Authorization: Token KEY` and `Authorization: Basic` by `Authorization: Bearer`.
fn with_bearer(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    let text = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let key = text.and_then(|text| match text.strip_prefix("Token ") {
        Some(key) => Some(format!("Bearer {key}")),
        None => Some(format!("Bearer {}", basic_password(text)?)),
    });
    if let Some(bearer) = key.and_then(|key| HeaderValue::from_str(&key).ok()) {
        headers.insert(AUTHORIZATION, bearer);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_the_token_or_the_password() {
        let check = |value: &str, expected: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().expect("valid header value"));
            assert_eq!(with_bearer(&headers)[AUTHORIZATION], expected, "{value}");
        };
        check("Token pm_pk_x", "Bearer pm_pk_x");
        check("Basic dXNlcjpwbV9wa194", "Bearer pm_pk_x");
        check("Bearer pm_pk_x", "Bearer pm_pk_x");
        // Without a password nothing is replaced.
        check("Basic cG1fcGtfeDo=", "Basic cG1fcGtfeDo=");
        check("Basic !", "Basic !");
    }
}
