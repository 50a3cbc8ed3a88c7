//! Doors for clients of other services, with only their host changed: PostHog, Segment, GameAnalytics.
//!
//! They speak their own dialects, which `decode::capture` tells in our words; from there on an event goes the way of all
//! others. What these clients ask beside (feature flags, remote configurations) is answered with nothing.

use std::net::SocketAddr;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use decode::capture::{TranslateError, TranslatedBody};
use decode::json::BodyFormat;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, USER_AGENT};
use hyper::http::request::Parts;
use model::RawBatch;
use model::batch::Endpoint;
use wal::Ack;

use crate::api::commands::Local;
use crate::api::events;
use crate::auth;
use crate::problem::Problem;
use pipeline::catalog::{Access, Scope};
use pipeline::ingest;
use pipeline::time::{now_ms, now_s};

/// Takes what was told in our words to the log.
pub(super) async fn take(
    local: &Local,
    head: &Parts,
    peer: SocketAddr,
    access: Access,
    endpoint: Endpoint,
    told: &TranslatedBody,
) -> Result<(), Problem> {
    let access = auth::allow(access, Scope::EventsWrite)?;
    let mut decoded = RawBatch::default();
    decode::json::decode(&told.body, BodyFormat::Json, &mut decoded).map_err(events::malformed)?;
    let request = ingest::IngestRequest {
        endpoint,
        received_ms: now_ms(),
        client: ingest::ClientInfo {
            address: events::address(&local.shared, &head.headers, peer),
            user_agent: events::text(&head.headers, USER_AGENT),
        },
        ack: Ack::Disk,
        rejected: &[],
    };
    let taken = local.shared.ingest.submit(&local.lane, &access, &request, &decoded).await;
    taken.map(drop).map_err(events::refused)
}

/// The access of a key that a body or a header of another dialect names.
pub(super) fn access(
    local: &Local,
    head: &Parts,
    peer: SocketAddr,
    key: Option<&str>,
) -> Result<Access, Problem> {
    let key = key.ok_or_else(|| Problem::key("name the game's public key where the client has its key"))?;
    let address = events::address(&local.shared, &head.headers, peer);
    auth::of_key(&local.shared.catalog, &head.headers, key, address, now_s())
}

pub(super) fn answer(local: &Local, taken: Result<(), Problem>, done: &'static str) -> Response {
    match taken {
        Ok(()) => json(StatusCode::OK, Bytes::from_static(done.as_bytes())),
        Err(problem) => {
            local.shared.requests.refused(&problem);
            problem.into_response()
        }
    }
}

pub(super) fn json(status: StatusCode, body: Bytes) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}

pub(super) fn untranslatable(why: TranslateError) -> Problem {
    match why {
        TranslateError::TooMany => Problem::too_large(why.to_string()),
        TranslateError::NotJson(_) | TranslateError::Shape(_) => Problem::malformed(why.to_string()),
    }
}
