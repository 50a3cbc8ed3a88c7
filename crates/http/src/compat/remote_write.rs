//! `POST /api/v1/write`: Prometheus remote write, and agents that speak it.

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE};
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};

use decode::remote_write::WriteRequest;
use model::Reject;
use model::batch::Endpoint;
use pipeline::time::now_s;

use super::influx::authorize;
use crate::RuntimeState;
use crate::api::events::header_text;
use crate::api::otlp::write_totals;
use crate::api::samples::SampleOrigin;
use crate::body::{self, BodyLimits};
use crate::problem::Problem;
use crate::request_context::RequestContext;

pub(super) fn routes() -> Router<RuntimeState> {
    Router::new().route("/api/v1/write", routing::post(write))
}

/// Receives samples by Prometheus remote write 1.0: a `WriteRequest` as protobuf, compressed with snappy.
///
/// Series whose names end with `_total`, `_count`, `_sum` or `_bucket` count by their increase, all others are gauges.
/// The response is sent when the accepted samples are durable. Invalid samples are counted and skipped; the status is
/// 400 if every sample is invalid. Remote write 2.0 is answered with 415, so that a sender falls back to 1.0.
#[utoipa::path(
    post, path = "/api/v1/write", operation_id = "remote_write", tag = "events",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("Content-Encoding" = Option<String>, Header, description = "`snappy`.", example = "snappy"),
    ),
    request_body(
        description = "A `WriteRequest`, compressed with snappy.",
        content = String, content_type = "application/x-protobuf", example = json!("\0"),
    ),
    responses((status = 204, description = "Samples accepted. Invalid samples are skipped.")),
)]
pub(crate) async fn write(State(runtime): State<RuntimeState>, request: Request<Body>) -> Response {
    let (head, mut incoming) = request.into_parts();
    match receive(&runtime, &head, &mut incoming).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(problem) => {
            runtime.shared.rejected_requests.count(&problem);
            body::discard(&head.headers, incoming, &problem);
            problem.into_response()
        }
    }
}

async fn receive(runtime: &RuntimeState, head: &Parts, incoming: &mut Body) -> Result<(), Problem> {
    let access = authorize(runtime, head, now_s())?;
    check_protocol(head)?;
    let bytes = body::read_snappy(head, incoming, BodyLimits::EVENTS).await?;
    let origin =
        SampleOrigin { endpoint: Endpoint::Prometheus, address: RequestContext::from(head).client_address() };
    let written = write_totals(runtime, access, origin, |totals, received_ms, samples| {
        let request = WriteRequest::read(&bytes)?;
        request.samples(&mut totals.series.lock(), received_ms, |sample| samples.add(sample));
        Ok(())
    });
    let written = written.await?;
    let is_invalid = |(reject, _): &(Reject, u32)| *reject != Reject::SeenBefore;
    if written.accepted == 0 && written.rejected.iter().any(is_invalid) {
        return Err(Problem::malformed(format!("no valid samples in the body: {}", written.reasons())));
    }
    Ok(())
}

/// Checks that the request is remote write 1.0: the content type names no message, or that of 1.0.
fn check_protocol(head: &Parts) -> Result<(), Problem> {
    let content_type = header_text(&head.headers, CONTENT_TYPE);
    let mut parts = content_type.split(';').map(str::trim);
    let is_protobuf = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/x-protobuf"));
    let message = parts.find_map(|part| part.strip_prefix("proto="));
    if !is_protobuf || message.is_some_and(|message| message != "prometheus.WriteRequest") {
        let detail = "send remote write 1.0: application/x-protobuf with the message prometheus.WriteRequest";
        return Err(Problem::unsupported(detail).field("Content-Type"));
    }
    if !header_text(&head.headers, CONTENT_ENCODING).eq_ignore_ascii_case("snappy") {
        return Err(Problem::unsupported("compress the body with snappy").field("Content-Encoding"));
    }
    Ok(())
}
