//! Doors for clients of other services, with only their host changed: PostHog, Segment, GameAnalytics.
//!
//! They speak their own dialects, which `decode::capture` tells in our words; from there on an event goes the way of all
//! others. What these clients ask beside (feature flags, remote configurations) is answered with nothing.

pub mod gameanalytics;
pub mod posthog;
pub mod segment;

use std::net::SocketAddr;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use decode::capture::{Translated, Untranslatable};
use decode::json::{Decoded, Form};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, USER_AGENT};
use hyper::http::request::Parts;
use model::record::Endpoint;
use wal::Ack;

use super::commands::Local;
use super::events;
use crate::auth;
use crate::catalog::{Access, Scope};
use crate::line;
use crate::problem::Problem;
use crate::time::{now_ms, now_s};

/// Takes what was told in our words to the log.
async fn take(
    local: &Local,
    head: &Parts,
    peer: SocketAddr,
    access: Access,
    endpoint: Endpoint,
    told: &Translated,
) -> Result<(), Problem> {
    let access = auth::allow(access, Scope::EventsWrite)?;
    let mut decoded = Decoded::default();
    decode::json::decode(&told.body, Form::Json, &mut decoded).map_err(events::malformed)?;
    let request = line::Request {
        endpoint,
        received_ms: now_ms(),
        address: events::address(&local.shared, &head.headers, peer),
        user_agent: events::text(&head.headers, USER_AGENT),
        ack: Ack::Disk,
        refused: &[],
    };
    let taken = local.shared.line.take(&local.lane, &access, &request, &decoded).await;
    taken.map(drop).map_err(events::refused)
}

/// The access of a key that a body or a header of another dialect names.
fn access(local: &Local, head: &Parts, peer: SocketAddr, key: Option<&str>) -> Result<Access, Problem> {
    let key = key.ok_or_else(|| Problem::key("name the game's public key where the client has its key"))?;
    let address = events::address(&local.shared, &head.headers, peer);
    auth::of_key(&local.shared.catalog, &head.headers, key, address, now_s())
}

fn answer(local: &Local, taken: Result<(), Problem>, done: &'static str) -> Response {
    match taken {
        Ok(()) => json(StatusCode::OK, Bytes::from_static(done.as_bytes())),
        Err(problem) => {
            local.shared.requests.refused(&problem);
            problem.into_response()
        }
    }
}

fn json(status: StatusCode, body: Bytes) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}

fn untranslatable(why: Untranslatable) -> Problem {
    match why {
        Untranslatable::TooMany => Problem::too_large(why.to_string()),
        Untranslatable::NotJson(_) | Untranslatable::Shape(_) => Problem::malformed(why.to_string()),
    }
}
