//! Endpoints for GameAnalytics SDKs: change the host and use the two keys that `playmeter games gameanalytics` shows.
//!
//! `Authorization` is the base64 of an HMAC-SHA-256 over the body as sent, keyed with the game's secret. Every client
//! contains the secret, so the signature detects mistakes but does not prevent abuse.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use hyper::header::AUTHORIZATION;
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};
use serde_json::json;
use sha2::Sha256;

use decode::capture::gameanalytics::translate;
use decode::playtomic::query_parameter;
use model::batch::Endpoint;
use pipeline::catalog::{Access, Game};
use pipeline::time::now_s;

use super::capture::{respond, submit, translate_problem};
use crate::RuntimeState;
use crate::api::events as api_events;
use crate::body;
use crate::problem::Problem;
use crate::request_context::RequestContext;

pub(super) fn routes() -> Router<RuntimeState> {
    Router::new()
        .route("/v2/{key}/events", routing::post(events))
        .route("/v2/{key}/init", routing::post(init))
        .route("/remote_configs/v1/init", routing::post(init))
}

/// Accepts events.
async fn events(State(runtime): State<RuntimeState>, request: Request<Body>) -> Response {
    let (head, mut incoming) = request.into_parts();
    let result = capture(&runtime, &head, &mut incoming).await;
    respond(&runtime, result, "{}")
}

async fn capture(runtime: &RuntimeState, head: &Parts, incoming: &mut Body) -> Result<(), Problem> {
    let (game, bytes) = authorize(runtime, head, incoming).await?;
    let bytes = body::inflate(head, bytes, body::BodyLimits::EVENTS.inflated_bytes).await?;
    let translated = translate(&bytes).map_err(translate_problem)?;
    submit(runtime, head, Access::public(game), Endpoint::Gameanalytics, &translated).await
}

/// Returns the configuration that an SDK requests at its start: collection is enabled, and the time of the server. Remote
/// configurations are empty: variables and experiments are at `/v1/vars`.
async fn init(State(runtime): State<RuntimeState>, request: Request<Body>) -> Response {
    let (head, mut incoming) = request.into_parts();
    match authorize(&runtime, &head, &mut incoming).await {
        Ok(_) => {
            let config = json!({
                "server_ts": now_s(), "enabled": true, "configs": [], "configs_hash": "", "ab_id": "", "ab_variant_id": "",
            });
            super::capture::json(StatusCode::CREATED, Bytes::from(config.to_string()))
        }
        Err(problem) => problem.into_response(),
    }
}

/// Verifies the signature of a request and returns its body as sent and the game of its key: that of the path or
/// `game_key`.
async fn authorize(
    runtime: &RuntimeState,
    head: &Parts,
    incoming: &mut Body,
) -> Result<(Arc<Game>, Bytes), Problem> {
    let catalog = &runtime.shared.catalog;
    let in_query = query_parameter(head.uri.query().unwrap_or_default(), "game_key");
    let in_path = head.uri.path().strip_prefix("/v2/").and_then(|rest| rest.split('/').next());
    let key = in_path.or(in_query.as_deref()).unwrap_or_default();
    let unknown = || {
        Problem::unauthorized("unknown game key: run `playmeter games gameanalytics` to see the keys")
            .field("key")
    };
    let game = catalog.gameanalytics_game(key).ok_or_else(unknown)?;
    let bytes = body::collect(head, incoming, body::BodyLimits::EVENTS.bytes).await?;
    let secret = catalog.gameanalytics_keys(&game).secret_key;
    if !is_signed(api_events::header_text(&head.headers, AUTHORIZATION), &secret, &bytes) {
        return Err(Problem::unauthorized(
            "must be the base64 of HMAC-SHA-256 over the body, keyed with the game's secret",
        )
        .field("Authorization"));
    }
    RequestContext::from(head).set_game(game.number);
    Ok((game, bytes))
}

fn is_signed(authorization: &str, secret: &str, bytes: &[u8]) -> bool {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC accepts keys of any length");
    mac.update(bytes);
    decode::base64::decode(authorization).is_some_and(|sent| mac.verify_slice(&sent).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_of_the_documented_example_is_valid() {
        // The example of the GameAnalytics documentation, signed with a key of their sandbox.
        let (secret, body) = ("16813a12f718bc5c620f56944e1abc3ea13ccbac", br#"{"test": "test"}"#);
        assert!(is_signed("slnR8CKJtKtFDaESSrqnqQeUvp5FaVV7d5XHxt50N5A=", secret, body));
        assert!(!is_signed("slnR8CKJtKtFDaESSrqnqQeUvp5FaVV7d5XHxt50N5A=", secret, b"{}"));
        assert!(!is_signed("", secret, body) && !is_signed("x", secret, body));
    }
}
