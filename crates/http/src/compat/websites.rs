//! Endpoints for the trackers of Plausible and Umami: change their host and register the site with the game
//! (`playmeter games sites`), or use the game's public key as the domain or website id.
//!
//! Neither tracker sends an id of the visitor. A visitor is a hash of the day, the site, the address and the user agent,
//! keyed with the installation's secret, so the same visitor is another one on the next day.

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use hyper::header::USER_AGENT;
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};

use decode::capture::{TranslateError, TranslatedBody, plausible, umami};
use model::batch::Endpoint;
use pipeline::catalog::{Access, VisitorKey};
use pipeline::time::now_s;

use super::capture::{respond, submit, translate_problem};
use crate::RuntimeState;
use crate::api::events::header_text;
use crate::body::{self, BodyLimits};
use crate::problem::Problem;
use crate::request_context::RequestContext;

pub(super) fn routes() -> Router<RuntimeState> {
    Router::new()
        .route("/api/event", routing::post(plausible_event))
        .route("/api/send", routing::post(umami_event))
}

/// The largest body: it contains one event.
const BODY_BYTES_MAX: usize = 128 << 10;

/// Accepts an event of Plausible's tracker.
async fn plausible_event(State(runtime): State<RuntimeState>, request: Request<Body>) -> Response {
    let (head, mut incoming) = request.into_parts();
    let read = |body: &[u8], visitor: &dyn Fn(&str) -> String| plausible::translate(body, visitor);
    match capture(&runtime, &head, &mut incoming, Endpoint::Plausible, read).await {
        Ok(()) => (StatusCode::ACCEPTED, "ok").into_response(),
        failed => respond(&runtime, failed, ""),
    }
}

/// Accepts an event of Umami's tracker, which reads `cache` and `disabled` from the response; neither is needed.
async fn umami_event(State(runtime): State<RuntimeState>, request: Request<Body>) -> Response {
    let (head, mut incoming) = request.into_parts();
    let read = |body: &[u8], visitor: &dyn Fn(&str) -> String| umami::translate(body, visitor);
    let result = capture(&runtime, &head, &mut incoming, Endpoint::Umami, read).await;
    respond(&runtime, result, "{}")
}

async fn capture(
    runtime: &RuntimeState,
    head: &Parts,
    incoming: &mut Body,
    endpoint: Endpoint,
    read: impl Fn(&[u8], &dyn Fn(&str) -> String) -> Result<TranslatedBody, TranslateError>,
) -> Result<(), Problem> {
    let limits = BodyLimits { bytes: BODY_BYTES_MAX, inflated_bytes: BODY_BYTES_MAX };
    let bytes = body::read(head, incoming, limits).await?;
    let (catalog, context) = (&runtime.shared.catalog, RequestContext::from(head));
    let key = VisitorKey {
        day: now_s() / 86_400,
        address: context.client_address(),
        user_agent: header_text(&head.headers, USER_AGENT),
    };
    let translated = read(&bytes, &|site| catalog.visitor_id(site, &key)).map_err(translate_problem)?;
    let site = translated.key.as_deref().unwrap_or_default();
    let game = catalog.site_game(site).ok_or_else(|| {
        let field = if endpoint == Endpoint::Plausible { "domain" } else { "website" };
        let detail = "no game has this site: run `playmeter games sites GAME --add SITE`, or use the game's public key";
        Problem::unauthorized(detail).field(field)
    })?;
    context.set_game(game.number);
    submit(runtime, head, Access::public(game), endpoint, &translated).await
}
