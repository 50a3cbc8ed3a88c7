//! Endpoints for games that were built with Playtomic's SDKs; only the host changes.
//!
//! - [`tracker`]: `GET /tracker/q.aspx`, events over the common ingest path.
//!   `POST /tracker/p.aspx`, one event about a player.
//! - [`api`]: `POST /v1`, a signed form that contains JSON, for everything else. Responses have status 200 and a code.
//! - [`v3`]: `POST /v3/api.aspx`, the same for SDK 2.
//!
//! The key in a request is the game's public key or the key that is compiled into the game (`playmeter games playtomic`).

mod achievements;
mod code;
mod countries;
mod data;
mod format;
mod levels;
mod lookups;
mod parameters;
mod reply;
mod request;
mod scores;
mod tracker;
mod v3;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode};

use decode::playtomic::{parse_form, query_parameter};
use pipeline::catalog::Access;
use pipeline::time::now_ms;

use crate::RuntimeState;
use crate::api::events;
use crate::body::{self, BodyLimits};
use crate::cors::{allow_any_origin, preflight};
use crate::problem::Problem;
use crate::request_context::RequestContext;

use code::ReplyCode;
use reply::Reply;
use request::PlaytomicRequest;
use tracker::{player_event, tracker};
use v3::v3_api;

pub(super) fn routes() -> Router<RuntimeState> {
    Router::new()
        .route("/v1", routing::any(api))
        .route("/tracker/q.aspx", routing::any(tracker))
        .route("/{key}/tracker/q.aspx", routing::any(tracker))
        .route("/tracker/p.aspx", routing::any(player_event))
        .route("/{key}/tracker/p.aspx", routing::any(player_event))
        .route("/v3/api.aspx", routing::any(v3_api))
        .route("/{key}/v3/api.aspx", routing::any(v3_api))
}

/// The largest form: it contains a level of 3 MiB, each byte may be escaped in JSON, and base64 adds a third.
const FORM_BYTES_MAX: usize = 9 << 20;

/// Handles `POST /v1`.
async fn api(State(runtime): State<RuntimeState>, request: Request<Body>) -> Response {
    let (head, mut incoming) = request.into_parts();
    let mut response = match head.method {
        Method::OPTIONS => preflight("POST, OPTIONS"),
        Method::POST => match handle_form(&runtime, &head, &mut incoming).await {
            Ok(reply) => json(reply),
            Err(problem) => {
                runtime.shared.rejected_requests.count(&problem);
                body::discard(&head.headers, incoming, &problem);
                json(Reply::error_with(ReplyCode::InvalidRequest, problem.detail()))
            }
        },
        _ => Problem::method_not_allowed("use POST").into_response(),
    };
    allow_any_origin(response.headers_mut());
    response
}

fn json(reply: Reply) -> Response {
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    (StatusCode::OK, headers, reply.json()).into_response()
}

async fn handle_form(runtime: &RuntimeState, head: &Parts, incoming: &mut Body) -> Result<Reply, Problem> {
    let limits = BodyLimits { bytes: FORM_BYTES_MAX, inflated_bytes: FORM_BYTES_MAX };
    let bytes = body::read(head, incoming, limits).await?;
    let key = query_parameter(head.uri.query().unwrap_or_default(), "publickey").unwrap_or_default();
    let Some(game) = runtime.shared.catalog.playtomic_game(&key) else {
        return Ok(Reply::error(ReplyCode::InvalidGame));
    };
    let form = match parse_form(&bytes) {
        Ok(form) => form,
        Err(error) => return Ok(Reply::error_with(ReplyCode::InvalidRequest, &error.to_string())),
    };
    if !form.is_signed_with(&runtime.shared.catalog.playtomic_private_key(&game)) {
        return Ok(Reply::error(ReplyCode::InvalidGame));
    }
    let context = RequestContext::from(head);
    context.set_game(game.number);
    let request = PlaytomicRequest {
        runtime,
        access: Access::public(game),
        address: context.client_address(),
        user_agent: events::header_text(&head.headers, hyper::header::USER_AGENT),
        received_ms: now_ms(),
    };
    Ok(request.handle(form.json()).await.unwrap_or_else(|reply| reply))
}

/// Returns the response to a tracker request, which some SDKs send as the source of a script.
fn script(body: &'static str) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/javascript"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
