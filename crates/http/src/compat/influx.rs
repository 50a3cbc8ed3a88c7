//! `POST /api/v2/write` and `POST /write`: InfluxDB's line protocol, as its own clients and Telegraf send it.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::response::{IntoResponse, Response};
use decode::influx::{Precision, decode};
use decode::playtomic::query_parameter;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};
use model::batch::Endpoint;

use crate::api::commands::Local;
use crate::api::events::{address, refused};
use crate::api::openapi::shapes;
use crate::api::samples::{Door, Samples};
use crate::auth;
use crate::body::{self, Limits};
use crate::problem::Problem;
use axum::{Router, routing};
use pipeline::catalog::{Access, Scope};
use pipeline::time::{now_ms, now_s};

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
    Router::new().route("/api/v2/write", routing::post(write)).route("/write", routing::post(write_1))
}

/// Takes points in InfluxDB's line protocol. `org`, `bucket` and `db` are not looked at: the key says which game it is.
///
/// The answer comes when what was accepted is durable. Lines that cannot be read are counted and left out; 400 says that
/// there was nothing else.
#[utoipa::path(
    post, path = "/api/v2/write", operation_id = "write_influx", tag = "events",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("precision" = Option<String>, Query, description = "Of times: `ns` (default), `us`, `ms`, `s`, `m`, `h`."),
    ),
    request_body(content = String, content_type = "text/plain", example = json!("cpu,host=a usage=1.5")),
    responses(
        (status = 204, description = "Taken, as far as it could be read."),
        (status = 400, description = "Nothing could be read.", body = shapes::Problem),
        (status = 401, description = "No key, or one that is not valid.", body = shapes::Problem),
    ),
)]
pub async fn write(
    State(local): State<Local>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request<Body>,
) -> Response {
    let (head, mut incoming) = request.into_parts();
    match take(&local, &head, &mut incoming, peer).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(problem) => {
            local.shared.requests.refused(&problem);
            body::discard(&head.headers, incoming, &problem);
            problem.into_response()
        }
    }
}

/// The same where InfluxDB 1 had it. The key may be the password `p`, if it is a public one.
#[utoipa::path(
    post, path = "/write", operation_id = "write_influx_1", tag = "events",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("precision" = Option<String>, Query, description = "Of times: `ns` (default), `u`, `ms`, `s`, `m`, `h`."),
        ("p" = Option<String>, Query, description = "A public key."),
    ),
    request_body(content = String, content_type = "text/plain", example = json!("cpu,host=a usage=1.5")),
    responses((status = 204, description = "Taken, as far as it could be read.")),
)]
pub async fn write_1(state: State<Local>, peer: ConnectInfo<SocketAddr>, request: Request<Body>) -> Response {
    write(state, peer, request).await
}

async fn take(local: &Local, head: &Parts, incoming: &mut Body, peer: SocketAddr) -> Result<(), Problem> {
    let access = access(local, head, now_s())?;
    points(local, &access, head, incoming, (Endpoint::Influx, peer)).await
}

/// Takes the points of a body through a door, for the credential's game.
pub(crate) async fn points(
    local: &Local,
    access: &Access,
    head: &Parts,
    incoming: &mut Body,
    (endpoint, peer): (Endpoint, SocketAddr),
) -> Result<(), Problem> {
    let received_ms = now_ms();
    let precision = precision(head.uri.query().unwrap_or_default())?;
    let bytes = body::read(&head.headers, incoming, Limits::EVENTS).await?;
    let shared = &local.shared;
    let mut samples = Samples::new(
        shared,
        access,
        Arc::clone(&shared.collectors.metric_state(access.game.number).gauges),
        received_ms,
    );
    decode(&bytes, precision, |taken| samples.take(taken));
    let door = Door { endpoint, address: address(shared, &head.headers, peer) };
    let written = samples.write(shared, &local.lane, access, door).await.map_err(refused)?;
    if written.accepted == 0 && written.refused_count() > 0 {
        return Err(Problem::malformed(format!("nothing was taken: {}", written.reasons())));
    }
    Ok(())
}

fn precision(query: &str) -> Result<Precision, Problem> {
    match query_parameter(query, "precision") {
        Some(label) => Precision::from_label(&label)
            .ok_or_else(|| Problem::invalid("it is ns, us, ms, s, m or h").field("precision")),
        None => Ok(Precision::default()),
    }
}

/// As everywhere, and as InfluxDB's clients send a key: `Authorization: Token KEY`, or the password `p`.
fn access(local: &Local, head: &Parts, now_s: u64) -> Result<Access, Problem> {
    let headers = with_bearer(&head.headers);
    let query = head.uri.query().unwrap_or_default();
    let key = query_parameter(query, "p").map(|key| format!("key={key}"));
    let access = auth::by_key(&local.shared.catalog, &headers, key.as_deref().or(Some(query)), now_s)?;
    let access = access.ok_or_else(|| Problem::key("send `Authorization: Token KEY`"))?;
    auth::allow(access, Scope::EventsWrite)
}

fn with_bearer(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    let text = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let key = text.and_then(|text| text.strip_prefix("Token ")).map(|key| format!("Bearer {key}"));
    if let Some(bearer) = key.and_then(|key| HeaderValue::from_str(&key).ok()) {
        headers.insert(AUTHORIZATION, bearer);
    }
    headers
}
