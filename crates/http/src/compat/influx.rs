//! `POST /api/v2/write` and `POST /write`: the line protocol of InfluxDB clients and Telegraf.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};

use decode::influx::{Precision, decode};
use decode::playtomic::query_parameter;
use model::batch::Endpoint;
use pipeline::catalog::{Access, Scope};
use pipeline::time::{now_ms, now_s};

use crate::RuntimeState;
use crate::api::events::ingest_problem;
use crate::api::openapi::schemas;
use crate::api::samples::{SampleBatch, SampleOrigin};
use crate::auth::{self, Credentials};
use crate::body::{self, BodyLimits};
use crate::problem::Problem;
use crate::request_context::RequestContext;

pub(super) fn routes() -> Router<RuntimeState> {
    Router::new().route("/api/v2/write", routing::post(write)).route("/write", routing::post(write_1))
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

/// Writes points at the path of InfluxDB 1. The password `p` may be a public key.
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

fn precision(query: &str) -> Result<Precision, Problem> {
    match query_parameter(query, "precision") {
        Some(label) => Precision::from_label(&label)
            .ok_or_else(|| Problem::invalid("must be ns, us, ms, s, m or h").field("precision")),
        None => Ok(Precision::default()),
    }
}

/// Returns the access of the key: in the usual places, as `Authorization: Token KEY`, or as the password `p`.
fn authorize(runtime: &RuntimeState, head: &Parts, now_s: u64) -> Result<Access, Problem> {
    let query = head.uri.query().unwrap_or_default();
    let query = query_parameter(query, "p").map_or_else(|| query.to_owned(), |key| format!("key={key}"));
    let credentials = Credentials::new(with_bearer(&head.headers), Some(query), RequestContext::from(head));
    let access = credentials.authorize_key(&runtime.shared.catalog, now_s)?;
    let access = access.ok_or_else(|| Problem::unauthorized("no key: send `Authorization: Token KEY`"))?;
    auth::allow(access, Scope::EventsWrite)
}

/// Replaces `Authorization: Token` by `Authorization: Bearer`.
fn with_bearer(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    let text = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let key = text.and_then(|text| text.strip_prefix("Token ")).map(|key| format!("Bearer {key}"));
    if let Some(bearer) = key.and_then(|key| HeaderValue::from_str(&key).ok()) {
        headers.insert(AUTHORIZATION, bearer);
    }
    headers
}
