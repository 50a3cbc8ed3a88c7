//! Shared by the endpoints for PostHog, Segment and GameAnalytics clients, in which only the host changes.
//!
//! `decode::capture` translates their formats; from there on their events take the common ingest path. Requests for
//! feature flags and remote configurations get empty responses.

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, USER_AGENT};
use hyper::http::request::Parts;

use decode::capture::{TranslateError, TranslatedBody};
use decode::json::BodyFormat;
use model::RawBatch;
use model::batch::Endpoint;
use pipeline::catalog::{Access, Scope};
use pipeline::ingest;
use pipeline::time::{now_ms, now_s};
use wal::Ack;

use crate::RuntimeState;
use crate::api::events;
use crate::auth;
use crate::problem::Problem;
use crate::request_context::RequestContext;

/// Submits translated events and waits until they are durable.
pub(super) async fn submit(
    runtime: &RuntimeState,
    head: &Parts,
    access: Access,
    endpoint: Endpoint,
    translated: &TranslatedBody,
) -> Result<(), Problem> {
    let access = auth::allow(access, Scope::EventsWrite)?;
    let mut decoded = RawBatch::default();
    decode::json::decode(&translated.body, BodyFormat::Json, &mut decoded).map_err(events::decode_problem)?;
    let request = ingest::IngestRequest {
        endpoint,
        received_ms: now_ms(),
        client: ingest::ClientInfo {
            address: RequestContext::from(head).client_address(),
            user_agent: events::header_text(&head.headers, USER_AGENT),
        },
        ack: Ack::Disk,
        rejected: &[],
    };
    let receipt = runtime.shared.ingest.submit(&runtime.lane, &access, &request, &decoded).await;
    receipt.map(drop).map_err(events::ingest_problem)
}

/// Returns the access of a key from a body or header of another protocol.
pub(super) fn authorize(runtime: &RuntimeState, head: &Parts, key: Option<&str>) -> Result<Access, Problem> {
    let key =
        key.ok_or_else(|| Problem::unauthorized("set the client's API key to the public key of the game"))?;
    let context = RequestContext::from(head);
    let address = context.client_address();
    let access = auth::access_of_key(&runtime.shared.catalog, &head.headers, key, address, now_s())?;
    context.set_game(access.game.number);
    Ok(access)
}

/// Returns the response to a capture request and counts a rejected one.
pub(super) fn respond(
    runtime: &RuntimeState,
    result: Result<(), Problem>,
    success: &'static str,
) -> Response {
    match result {
        Ok(()) => json(StatusCode::OK, Bytes::from_static(success.as_bytes())),
        Err(problem) => {
            runtime.shared.rejected_requests.count(&problem);
            problem.into_response()
        }
    }
}

pub(super) fn json(status: StatusCode, body: Bytes) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}

pub(super) fn translate_problem(error: TranslateError) -> Problem {
    match error {
        TranslateError::TooMany => Problem::too_large(error.to_string()),
        TranslateError::NotJson(_) | TranslateError::Shape(_) => Problem::malformed(error.to_string()),
    }
}
