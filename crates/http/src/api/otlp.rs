//! `POST /v1/metrics`: OpenTelemetry's metrics over HTTP, as protobuf or as JSON.
//!
//! Of a total that grows, what it grew by is counted, so what was sent before is remembered. Therefore what was decoded
//! is written in any case, also when the client has gone meanwhile: it will send the same again, and that will be known.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::response::{IntoResponse, Response};
use decode::otlp::{Encoding, MetricsRequest, error_status, export_response};
use hyper::Request;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::http::request::Parts;
use model::batch::Endpoint;
use tokio::sync::Mutex;

use super::commands::Local;
use super::events::{address, refused, text};
use super::samples::{Door, Samples, Written};
use crate::auth;
use crate::body::{self, Limits};
use crate::problem::Problem;
use axum::{Router, routing};
use collect::MetricState;
use pipeline::catalog::{Access, Scope};
use pipeline::ingest::{IngestError, retry_transient};
use pipeline::time::{now_ms, now_s};

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
    Router::new().route("/v1/metrics", routing::post(export))
}

/// Takes an `ExportMetricsServiceRequest`, as protobuf (`application/x-protobuf`) or as JSON.
///
/// The answer comes when what was accepted is durable; it says how many points were not, and why. A body that cannot
/// be taken is answered with a `google.rpc.Status` in its encoding.
#[utoipa::path(
    post, path = "/v1/metrics", operation_id = "export_otlp_metrics", tag = "events",
    security(("public_key" = []), ("secret_key" = [])),
    request_body(
        description = "An `ExportMetricsServiceRequest`; also as `application/json`.",
        content = String, content_type = "application/x-protobuf", example = json!(""),
    ),
    responses((status = 200, description = "An `ExportMetricsServiceResponse`.", body = Object)),
)]
pub async fn export(
    State(local): State<Local>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request<Body>,
) -> Response {
    let (head, mut incoming) = request.into_parts();
    let encoding = match encoding(&head.headers) {
        Ok(encoding) => encoding,
        Err(problem) => return refuse(&local, &head, incoming, problem, Encoding::Json),
    };
    let access = match access(&local, &head) {
        Ok(access) => access,
        Err(problem) => {
            local.shared.requests.refused(&problem);
            body::discard(&head.headers, incoming, &problem);
            return problem.into_response();
        }
    };
    match take(&local, &head, &mut incoming, peer, access, encoding).await {
        Ok(written) => {
            let body = export_response(encoding, written.refused_count(), &written.reasons());
            ([(CONTENT_TYPE, encoding.content_type())], body).into_response()
        }
        Err(problem) => refuse(&local, &head, incoming, problem, encoding),
    }
}

/// The status, the headers and the sentence of a problem, in the form that exporters read.
fn refuse(local: &Local, head: &Parts, incoming: Body, refused: Problem, encoding: Encoding) -> Response {
    local.shared.requests.refused(&refused);
    body::discard(&head.headers, incoming, &refused);
    let body = error_status(encoding, refused.detail());
    let mut response = refused.into_response();
    *response.body_mut() = Body::from(body);
    let content_type = hyper::header::HeaderValue::from_static(encoding.content_type());
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

fn access(local: &Local, head: &Parts) -> Result<Access, Problem> {
    let access = auth::by_key(&local.shared.catalog, &head.headers, head.uri.query(), now_s())?;
    let access = access.ok_or_else(|| Problem::key("send `Authorization: Bearer KEY`"))?;
    auth::allow(access, Scope::EventsWrite)
}

fn encoding(headers: &HeaderMap) -> Result<Encoding, Problem> {
    let kind = text(headers, CONTENT_TYPE).split(';').next().unwrap_or_default().trim();
    [Encoding::Protobuf, Encoding::Json]
        .into_iter()
        .find(|encoding| kind.eq_ignore_ascii_case(encoding.content_type()))
        .ok_or_else(|| {
            Problem::unsupported("send application/x-protobuf or application/json").field("Content-Type")
        })
}

async fn take(
    local: &Local,
    head: &Parts,
    incoming: &mut Body,
    peer: SocketAddr,
    access: Access,
    encoding: Encoding,
) -> Result<Written, Problem> {
    let bytes = body::read(&head.headers, incoming, Limits::EVENTS).await?;
    let totals = local.shared.collectors.metric_state(access.game.number);
    let Some(turn) = totals.try_write_permit() else {
        return Err(Problem::overloaded("too many exports wait for the log").retry_after_s(5));
    };
    let samples = decode(local, &access, &totals, &bytes, encoding)?;
    let door = Door { endpoint: Endpoint::Otlp, address: address(&local.shared, &head.headers, peer) };
    let local = local.clone();
    let writing = tokio::spawn(async move {
        let written = write(&local, &access, door, samples).await;
        drop(turn);
        written
    });
    let written = writing.await.map_err(|_| Problem::internal("the samples could not be written"))?;
    written.map_err(refused)
}

fn decode(
    local: &Local,
    access: &Access,
    totals: &Arc<MetricState>,
    bytes: &[u8],
    encoding: Encoding,
) -> Result<Samples, Problem> {
    let (received_ms, mut memory) = (now_ms(), Vec::new());
    let metrics = MetricsRequest::read(bytes, encoding, &mut memory);
    let metrics = metrics.map_err(|malformed| Problem::malformed(malformed.to_string()))?;
    let mut samples = Samples::new(&local.shared, access, Arc::clone(&totals.gauges), received_ms);
    metrics.samples(&mut totals.series.lock(), received_ms, |taken| samples.take(taken));
    Ok(samples)
}

/// Writes what was decoded, and waits while the log has no room.
async fn write(local: &Local, access: &Access, door: Door, samples: Samples) -> Result<Written, IngestError> {
    let samples = Mutex::new(samples);
    let submit = || async { samples.lock().await.write(&local.shared, &local.lane, access, door).await };
    retry_transient("metrics over OTLP", submit, || false).await
}
