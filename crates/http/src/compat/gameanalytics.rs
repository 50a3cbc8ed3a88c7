//! GameAnalytics' SDKs, with the host changed and the two keys that `playmeter games gameanalytics` shows.
//!
//! A request is signed: `Authorization` is HMAC-SHA-256 over the body as it was sent, with the game's secret, in base64.
//! As the secret is in every client, it stops accidents and nobody else.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use decode::capture::gameanalytics::translate;
use decode::playtomic::query_parameter;
use hmac::{Hmac, KeyInit, Mac};
use hyper::header::AUTHORIZATION;
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};
use model::batch::Endpoint;
use serde_json::json;
use sha2::Sha256;

use super::capture::{answer, take, untranslatable};
use crate::api::commands::Local;
use crate::api::events as sent;
use crate::body;
use crate::problem::Problem;
use axum::{Router, routing};
use pipeline::catalog::{Access, Game};
use pipeline::time::now_s;

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
    Router::new()
        .route("/v2/{key}/events", routing::post(events))
        .route("/v2/{key}/init", routing::post(init))
        .route("/remote_configs/v1/init", routing::post(init))
}

/// Takes events.
pub async fn events(
    State(local): State<Local>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request<Body>,
) -> Response {
    let (head, mut incoming) = request.into_parts();
    let taken = taken(&local, &head, &mut incoming, peer).await;
    answer(&local, taken, "{}")
}

async fn taken(local: &Local, head: &Parts, incoming: &mut Body, peer: SocketAddr) -> Result<(), Problem> {
    let (game, bytes) = signed(local, head, incoming).await?;
    let bytes = body::inflate(&head.headers, bytes, body::Limits::EVENTS.inflated_bytes)?;
    let told = translate(&bytes).map_err(untranslatable)?;
    take(local, head, peer, Access::public(game), Endpoint::Gameanalytics, &told).await
}

/// Answers what a client asks before it begins: events are welcome, and here is the time. There are no configurations:
/// variables and experiments are `/v1/vars`.
pub async fn init(State(local): State<Local>, request: Request<Body>) -> Response {
    let (head, mut incoming) = request.into_parts();
    match signed(&local, &head, &mut incoming).await {
        Ok(_) => {
            let answer = json!({
                "server_ts": now_s(), "enabled": true, "configs": [], "configs_hash": "", "ab_id": "", "ab_variant_id": "",
            });
            super::capture::json(StatusCode::CREATED, Bytes::from(answer.to_string()))
        }
        Err(problem) => problem.into_response(),
    }
}

/// The game that the path or `game_key` names, and the body as it was sent, if its signature is right.
async fn signed(local: &Local, head: &Parts, incoming: &mut Body) -> Result<(Arc<Game>, Bytes), Problem> {
    let catalog = &local.shared.catalog;
    let in_query = query_parameter(head.uri.query().unwrap_or_default(), "game_key");
    let in_path = head.uri.path().strip_prefix("/v2/").and_then(|rest| rest.split('/').next());
    let key = in_path.or(in_query.as_deref()).unwrap_or_default();
    let unknown =
        || Problem::key("no game has this key; `playmeter games gameanalytics` shows both").field("key");
    let game = catalog.gameanalytics_game(key).ok_or_else(unknown)?;
    let bytes = body::collect(incoming, body::Limits::EVENTS.bytes).await?;
    let secret = catalog.gameanalytics_keys(&game).secret_key;
    if !is_signed(sent::text(&head.headers, AUTHORIZATION), &secret, &bytes) {
        return Err(Problem::key("it is HMAC-SHA-256 of the body with the game's secret, in base64")
            .field("Authorization"));
    }
    Ok((game, bytes))
}

fn is_signed(authorization: &str, secret: &str, bytes: &[u8]) -> bool {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of every length");
    mac.update(bytes);
    decode::base64::decode(authorization).is_some_and(|sent| mac.verify_slice(&sent).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_signed_with_the_secret() {
        // The example of their documentation: an event in a file, signed with a key of their sandbox.
        let (secret, body) = ("16813a12f718bc5c620f56944e1abc3ea13ccbac", br#"{"test": "test"}"#);
        assert!(is_signed("slnR8CKJtKtFDaESSrqnqQeUvp5FaVV7d5XHxt50N5A=", secret, body));
        assert!(!is_signed("slnR8CKJtKtFDaESSrqnqQeUvp5FaVV7d5XHxt50N5A=", secret, b"{}"));
        assert!(!is_signed("", secret, body) && !is_signed("x", secret, body));
    }
}
