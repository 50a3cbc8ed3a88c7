//! The doors for games that were built with Playtomic's SDKs: of such a game only the host changes.
//!
//! - [`tracker`]: `GET /tracker/q.aspx`, events, which go the way of all events.
//! - [`api`]: `POST /v1`, a signed form that holds JSON, for everything else. It is answered with HTTP 200 and a code.
//!
//! A game is named by its own public key or by the key that is compiled into it (`playmeter games playtomic`).

mod achievements;
mod asked;
mod code;
mod countries;
mod data;
mod levels;
mod lookups;
mod scores;
mod tracker;
mod words;

pub use tracker::tracker;

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::response::{IntoResponse, Response};
use decode::playtomic::{parse_form, query_parameter};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode};

use crate::api::commands::Local;
use crate::api::events;
use crate::body::{self, Limits};
use crate::cors::{allow_any_origin, preflight};
use crate::problem::Problem;
use pipeline::catalog::Access;
use pipeline::time::now_ms;

use asked::Asked;
use axum::{Router, routing};
use code::{Code, Reply};

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
    Router::new()
        .route("/v1", routing::any(api))
        .route("/tracker/q.aspx", routing::any(tracker))
        .route("/{key}/tracker/q.aspx", routing::any(tracker))
}

/// A form with a level of 3 MiB in it: each byte may be escaped in JSON, and base64 adds a third.
const FORM_BYTES_MAX: usize = 9 << 20;

/// Answers `POST /v1`.
pub async fn api(
    State(local): State<Local>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request<Body>,
) -> Response {
    let (head, mut incoming) = request.into_parts();
    let mut response = match head.method {
        Method::OPTIONS => preflight("POST, OPTIONS"),
        Method::POST => match answer(&local, &head, &mut incoming, peer).await {
            Ok(reply) => json(reply),
            Err(problem) => {
                local.shared.requests.refused(&problem);
                body::discard(&head.headers, incoming, &problem);
                json(Reply::fails_because(Code::InvalidRequest, problem.detail()))
            }
        },
        _ => Problem::method("requests are sent with POST").into_response(),
    };
    allow_any_origin(response.headers_mut());
    response
}

fn json(reply: Reply) -> Response {
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    (StatusCode::OK, headers, reply.json()).into_response()
}

async fn answer(
    local: &Local,
    head: &Parts,
    incoming: &mut Body,
    peer: SocketAddr,
) -> Result<Reply, Problem> {
    let limits = Limits { bytes: FORM_BYTES_MAX, inflated_bytes: FORM_BYTES_MAX };
    let bytes = body::read(&head.headers, incoming, limits).await?;
    let key = query_parameter(head.uri.query().unwrap_or_default(), "publickey").unwrap_or_default();
    let Some(game) = local.shared.catalog.playtomic_game(&key) else {
        return Ok(Reply::fails(Code::InvalidGame));
    };
    let form = match parse_form(&bytes) {
        Ok(form) => form,
        Err(bad) => return Ok(Reply::fails_because(Code::InvalidRequest, &bad.to_string())),
    };
    if !form.is_signed_with(&local.shared.catalog.playtomic_private_key(&game)) {
        return Ok(Reply::fails(Code::InvalidGame));
    }
    let asked = Asked {
        local,
        access: Access::public(game),
        address: events::address(&local.shared, &head.headers, peer),
        user_agent: events::text(&head.headers, hyper::header::USER_AGENT),
        received_ms: now_ms(),
    };
    Ok(asked.answer(form.json()).await.unwrap_or_else(|reply| reply))
}

/// Answers a tracker's request, which some SDKs send as the source of a script.
fn script(body: &'static str) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/javascript"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
