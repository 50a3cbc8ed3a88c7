//! `POST /v1/metrics`, `/v1/logs` and `/v1/traces`: OpenTelemetry over HTTP, as protobuf or JSON.
//!
//! A cumulative total counts by its increase, so the last value of each series is kept. Decoded samples are therefore
//! written even if the client disconnects: its retry has the same totals and would count nothing.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use collect::MetricState;
use decode::json::BodyFormat;
use decode::otlp::{
    Encoding, MalformedRequest, MetricsRequest, RecordsRequest, Signal, error_status, export_response,
};
use hyper::Request;
use hyper::header::{CONTENT_TYPE, HeaderMap, USER_AGENT};
use hyper::http::request::Parts;
use model::batch::Endpoint;
use model::{Outcome, RawBatch};
use pipeline::catalog::{Access, Scope};
use pipeline::ingest::{ClientInfo, IngestError, IngestRequest, retry_transient};
use pipeline::time::{now_ms, now_s};
use tokio::sync::Mutex;
use wal::Ack;

use super::events::{decode_problem, header_text, ingest_problem};
use super::samples::{SampleBatch, SampleOrigin, SampleReceipt, add_count};
use crate::RuntimeState;
use crate::auth::{self, Credentials};
use crate::body::{self, BodyLimits};
use crate::problem::Problem;
use crate::request_context::RequestContext;

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new()
        .route("/v1/metrics", routing::post(export))
        .route("/v1/logs", routing::post(export_logs))
        .route("/v1/traces", routing::post(export_traces))
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
    export_signal(&runtime, request, Signal::Metrics).await
}

/// Receives an `ExportLogsServiceRequest`, as protobuf (`application/x-protobuf`) or JSON.
///
/// Each log record is counted as an event: its event name, or `log`, with the properties `severity` and `message` and
/// its attributes. The response is sent once the accepted records are durable, and reports how many were rejected and why.
#[utoipa::path(
    post, path = "/v1/logs", operation_id = "export_otlp_logs", tag = "events",
    security(("public_key" = []), ("secret_key" = [])),
    request_body(
        description = "An `ExportLogsServiceRequest`, as protobuf or `application/json`.",
        content = String, content_type = "application/x-protobuf", example = json!(""),
    ),
    responses((status = 200, description = "An `ExportLogsServiceResponse`.", body = Object)),
)]
pub(crate) async fn export_logs(State(runtime): State<RuntimeState>, request: Request<Body>) -> Response {
    export_signal(&runtime, request, Signal::Logs).await
}

/// Receives an `ExportTraceServiceRequest`, as protobuf (`application/x-protobuf`) or JSON.
///
/// Each span is counted as an event of its name at its start, with its duration in milliseconds as the value and its
/// attributes as properties. Traces are not stored as trees. The response is sent once the accepted spans are durable,
/// and reports how many were rejected and why.
#[utoipa::path(
    post, path = "/v1/traces", operation_id = "export_otlp_traces", tag = "events",
    security(("public_key" = []), ("secret_key" = [])),
    request_body(
        description = "An `ExportTraceServiceRequest`, as protobuf or `application/json`.",
        content = String, content_type = "application/x-protobuf", example = json!(""),
    ),
    responses((status = 200, description = "An `ExportTraceServiceResponse`.", body = Object)),
)]
pub(crate) async fn export_traces(State(runtime): State<RuntimeState>, request: Request<Body>) -> Response {
    export_signal(&runtime, request, Signal::Traces).await
}

async fn export_signal(runtime: &RuntimeState, request: Request<Body>, signal: Signal) -> Response {
    let (head, mut incoming) = request.into_parts();
    let encoding = match body_encoding(&head.headers) {
        Ok(encoding) => encoding,
        Err(problem) => return reject(runtime, &head, incoming, problem, Encoding::Json),
    };
    let access = match authorize(runtime, &head) {
        Ok(access) => access,
        Err(problem) => {
            runtime.shared.rejected_requests.count(&problem);
            body::discard(&head.headers, incoming, &problem);
            return problem.into_response();
        }
    };
    let received = match signal {
        Signal::Metrics => receive_metrics(runtime, &head, &mut incoming, access, encoding).await,
        Signal::Logs | Signal::Traces => {
            receive_records(runtime, &head, &mut incoming, access, (signal, encoding)).await
        }
    };
    match received {
        Ok(written) => {
            let body = export_response(signal, encoding, written.rejected_count(), &written.reasons());
            ([(CONTENT_TYPE, encoding.content_type())], body).into_response()
        }
        Err(problem) => reject(runtime, &head, incoming, problem, encoding),
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

async fn receive_metrics(
    runtime: &RuntimeState,
    head: &Parts,
    incoming: &mut Body,
    access: Access,
    encoding: Encoding,
) -> Result<SampleReceipt, Problem> {
    let bytes = body::read(head, incoming, BodyLimits::EVENTS).await?;
    let origin =
        SampleOrigin { endpoint: Endpoint::Otlp, address: RequestContext::from(head).client_address() };
    write_totals(runtime, access, origin, |totals, received_ms, samples| {
        let mut memory = Vec::new();
        let metrics = MetricsRequest::read(&bytes, encoding, &mut memory)?;
        metrics.samples(&mut totals.series.lock(), received_ms, |sample| samples.add(sample));
        Ok(())
    })
    .await
}

/// Reads samples, among them increases of totals, and writes them. They are written even if the client disconnects.
pub(crate) async fn write_totals(
    runtime: &RuntimeState,
    access: Access,
    origin: SampleOrigin,
    read: impl FnOnce(&MetricState, i64, &mut SampleBatch) -> Result<(), MalformedRequest>,
) -> Result<SampleReceipt, Problem> {
    let totals = runtime.shared.collectors.metric_state(access.game.number);
    let Some(turn) = totals.try_write_permit() else {
        return Err(Problem::overloaded("too many exports are waiting for the log").retry_after_s(5));
    };
    let received_ms = now_ms();
    let mut samples = SampleBatch::new(&runtime.shared, &access, Arc::clone(&totals.gauges), received_ms);
    let read = read(&totals, received_ms, &mut samples);
    read.map_err(|malformed| Problem::malformed(malformed.to_string()))?;
    let runtime = runtime.clone();
    let writing = tokio::spawn(async move {
        let written = write(&runtime, &access, origin, samples).await;
        drop(turn);
        written
    });
    let written = writing.await.map_err(|_| Problem::internal("the samples could not be written"))?;
    written.map_err(ingest_problem)
}

/// Submits spans or log records as events. Their ids derive from what was sent, so that a retry counts once.
async fn receive_records(
    runtime: &RuntimeState,
    head: &Parts,
    incoming: &mut Body,
    access: Access,
    (signal, encoding): (Signal, Encoding),
) -> Result<SampleReceipt, Problem> {
    let bytes = body::read(head, incoming, BodyLimits::EVENTS).await?;
    let events = {
        let mut memory = Vec::new();
        let records = RecordsRequest::read(&bytes, signal, encoding, &mut memory);
        let records = records.map_err(|malformed| Problem::malformed(malformed.to_string()))?;
        records.events().map_err(|too_many| Problem::too_large(too_many.to_string()))?
    };
    let mut decoded = RawBatch::default();
    decode::json::decode(&events, BodyFormat::Json, &mut decoded).map_err(decode_problem)?;
    let request = IngestRequest {
        endpoint: Endpoint::Otlp,
        received_ms: now_ms(),
        client: ClientInfo {
            address: RequestContext::from(head).client_address(),
            user_agent: header_text(&head.headers, USER_AGENT),
        },
        ack: Ack::Disk,
        rejected: &[],
    };
    let receipt = runtime.shared.ingest.submit(&runtime.lane, &access, &request, &decoded).await;
    let receipt = receipt.map_err(ingest_problem)?;
    let mut written =
        SampleReceipt { accepted: receipt.outcomes[Outcome::Accepted as usize].into(), rejected: Vec::new() };
    // A record that was received before is counted already.
    let rejects = receipt.rejected.iter().map(|(_, reject)| *reject);
    for reject in rejects.filter(|reject| reject.outcome() != Outcome::Duplicate) {
        add_count(&mut written.rejected, reject, 1);
    }
    Ok(written)
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
