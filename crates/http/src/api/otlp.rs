//! `POST /v1/metrics`: OpenTelemetry metrics over HTTP, as protobuf or JSON.
//!
//! A cumulative total counts by its increase, so the last value of each series is kept. Decoded samples are therefore
//! written even if the client disconnects: its retry has the same totals and would count nothing.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use collect::MetricState;
use decode::otlp::{Encoding, MetricsRequest, error_status, export_response};
use hyper::Request;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::http::request::Parts;
use model::batch::Endpoint;
use pipeline::catalog::{Access, Scope};
use pipeline::ingest::{IngestError, retry_transient};
use pipeline::time::{now_ms, now_s};
use tokio::sync::Mutex;

use super::events::{header_text, ingest_problem};
use super::samples::{SampleBatch, SampleOrigin, SampleReceipt};
use crate::RuntimeState;
use crate::auth::{self, Credentials};
use crate::body::{self, BodyLimits};
use crate::problem::Problem;
use crate::request_context::RequestContext;

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new().route("/v1/metrics", routing::post(export))
}

/// Receives an `ExportMetricsServiceRequest`, as protobuf (`application/x-protobuf`) or JSON.
///
/// The response is sent once the accepted points are durable, and reports how many points were rejected and why. A
/// request that is rejected as a whole gets a `google.rpc.Status` in its own encoding.
#[utoipa::path(
    post, path = "/v1/metrics", operation_id = "export_otlp_metrics", tag = "events",
    security(("public_key" = []), ("secret_key" = [])),
    request_body(
        description = "An `ExportMetricsServiceRequest`, as protobuf or `application/json`.",
        content = String, content_type = "application/x-protobuf", example = json!(""),
    ),
    responses((status = 200, description = "An `ExportMetricsServiceResponse`.", body = Object)),
)]
pub(crate) async fn export(State(runtime): State<RuntimeState>, request: Request<Body>) -> Response {
    let (head, mut incoming) = request.into_parts();
    let encoding = match body_encoding(&head.headers) {
        Ok(encoding) => encoding,
        Err(problem) => return reject(&runtime, &head, incoming, problem, Encoding::Json),
    };
    let access = match authorize(&runtime, &head) {
        Ok(access) => access,
        Err(problem) => {
            runtime.shared.rejected_requests.count(&problem);
            body::discard(&head.headers, incoming, &problem);
            return problem.into_response();
        }
    };
    match receive(&runtime, &head, &mut incoming, access, encoding).await {
        Ok(written) => {
            let body = export_response(encoding, written.rejected_count(), &written.reasons());
            ([(CONTENT_TYPE, encoding.content_type())], body).into_response()
        }
        Err(problem) => reject(&runtime, &head, incoming, problem, encoding),
    }
}

/// Responds with the status, headers and detail of a problem in the format that exporters read.
fn reject(
    runtime: &RuntimeState,
    head: &Parts,
    incoming: Body,
    rejection: Problem,
    encoding: Encoding,
) -> Response {
    runtime.shared.rejected_requests.count(&rejection);
    body::discard(&head.headers, incoming, &rejection);
    let body = error_status(encoding, rejection.detail());
    let mut response = rejection.into_response();
    *response.body_mut() = Body::from(body);
    let content_type = hyper::header::HeaderValue::from_static(encoding.content_type());
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

fn authorize(runtime: &RuntimeState, head: &Parts) -> Result<Access, Problem> {
    let access = Credentials::from(head).authorize_key(&runtime.shared.catalog, now_s())?;
    let access = access.ok_or_else(|| Problem::unauthorized("send a key as `Authorization: Bearer KEY`"))?;
    auth::allow(access, Scope::EventsWrite)
}

fn body_encoding(headers: &HeaderMap) -> Result<Encoding, Problem> {
    let kind = header_text(headers, CONTENT_TYPE).split(';').next().unwrap_or_default().trim();
    [Encoding::Protobuf, Encoding::Json]
        .into_iter()
        .find(|encoding| kind.eq_ignore_ascii_case(encoding.content_type()))
        .ok_or_else(|| {
            Problem::unsupported("send application/x-protobuf or application/json").field("Content-Type")
        })
}

async fn receive(
    runtime: &RuntimeState,
    head: &Parts,
    incoming: &mut Body,
    access: Access,
    encoding: Encoding,
) -> Result<SampleReceipt, Problem> {
    let bytes = body::read(head, incoming, BodyLimits::EVENTS).await?;
    let totals = runtime.shared.collectors.metric_state(access.game.number);
    let Some(turn) = totals.try_write_permit() else {
        return Err(Problem::overloaded("too many exports are waiting for the log").retry_after_s(5));
    };
    let samples = decode(runtime, &access, &totals, &bytes, encoding)?;
    let origin =
        SampleOrigin { endpoint: Endpoint::Otlp, address: RequestContext::from(head).client_address() };
    let runtime = runtime.clone();
    let writing = tokio::spawn(async move {
        let written = write(&runtime, &access, origin, samples).await;
        drop(turn);
        written
    });
    let written = writing.await.map_err(|_| Problem::internal("the samples could not be written"))?;
    written.map_err(ingest_problem)
}

fn decode(
    runtime: &RuntimeState,
    access: &Access,
    totals: &Arc<MetricState>,
    bytes: &[u8],
    encoding: Encoding,
) -> Result<SampleBatch, Problem> {
    let (received_ms, mut memory) = (now_ms(), Vec::new());
    let metrics = MetricsRequest::read(bytes, encoding, &mut memory);
    let metrics = metrics.map_err(|malformed| Problem::malformed(malformed.to_string()))?;
    let mut samples = SampleBatch::new(&runtime.shared, access, Arc::clone(&totals.gauges), received_ms);
    metrics.samples(&mut totals.series.lock(), received_ms, |sample| samples.add(sample));
    Ok(samples)
}

/// Writes the samples, and retries while the log has no room.
async fn write(
    runtime: &RuntimeState,
    access: &Access,
    origin: SampleOrigin,
    samples: SampleBatch,
) -> Result<SampleReceipt, IngestError> {
    let samples = Mutex::new(samples);
    let submit =
        || async { samples.lock().await.write(&runtime.shared, &runtime.lane, access, origin).await };
    retry_transient("metrics over OTLP", submit, || false).await
}
