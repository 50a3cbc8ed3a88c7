//! PostHog's clients, with `api_host` changed and the game's public key as the project's key.

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::{ConnectInfo, Path, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use decode::capture::posthog::{beacon, translate};
use hyper::header::CONTENT_TYPE;
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};
use model::batch::Endpoint;
use serde_json::json;

use super::capture::{access, answer, take, untranslatable};
use crate::api::commands::Local;
use crate::body;
use crate::problem::Problem;
use axum::{Router, routing};

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
    Router::new()
        .route("/e", routing::post(capture))
        .route("/e/", routing::post(capture))
        .route("/i/v0/e", routing::post(capture))
        .route("/i/v0/e/", routing::post(capture))
        .route("/capture", routing::post(capture))
        .route("/capture/", routing::post(capture))
        .route("/batch", routing::post(capture))
        .route("/batch/", routing::post(capture))
        .route("/flags", routing::post(flags))
        .route("/flags/", routing::post(flags))
        .route("/decide", routing::post(flags))
        .route("/decide/", routing::post(flags))
        .route("/array/{key}/config", routing::get(config))
        .route("/array/{key}/config.js", routing::get(config_script))
}

/// Takes events: JSON, also gzipped without a header that says so, or base64 in the field `data` of a form.
pub async fn capture(
    State(local): State<Local>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request<Body>,
) -> Response {
    let (head, mut incoming) = request.into_parts();
    let taken = taken(&local, &head, &mut incoming, peer).await;
    answer(&local, taken, r#"{"status":1}"#)
}

async fn taken(local: &Local, head: &Parts, incoming: &mut Body, peer: SocketAddr) -> Result<(), Problem> {
    let limits = body::Limits::EVENTS;
    let bytes = body::read(&head.headers, incoming, limits).await?;
    let bytes = body::gunzip(bytes, limits.inflated_bytes)?;
    let bytes = match beacon(&bytes) {
        Some(inside) => body::gunzip(inside.map_err(untranslatable)?.into(), limits.inflated_bytes)?,
        None => bytes,
    };
    let told = translate(&bytes).map_err(untranslatable)?;
    let access = access(local, head, peer, told.key.as_deref())?;
    take(local, head, peer, access, Endpoint::Posthog, &told).await
}

/// There are no feature flags: variables and experiments are `/v1/vars`.
pub async fn flags() -> Response {
    let nothing = json!({
        "featureFlags": {}, "featureFlagPayloads": {}, "flags": {}, "errorsWhileComputingFlags": false,
    });
    super::capture::json(StatusCode::OK, Bytes::from(nothing.to_string()))
}

/// What a client asks before it begins: which parts of that service there are.
pub async fn config(Path(key): Path<String>) -> Response {
    super::capture::json(StatusCode::OK, Bytes::from(remote_config(&key).to_string()))
}

/// The same as a script.
pub async fn config_script(Path(key): Path<String>) -> Response {
    let set = json!({ &key: { "config": remote_config(&key), "siteApps": [] } });
    let script =
        format!("window._POSTHOG_REMOTE_CONFIG=Object.assign(window._POSTHOG_REMOTE_CONFIG||{{}},{set});");
    ([(CONTENT_TYPE, "text/javascript")], script).into_response()
}

fn remote_config(key: &str) -> serde_json::Value {
    json!({
        "token": key, "supportedCompression": ["gzip", "gzip-js"], "hasFeatureFlags": false, "surveys": false,
        "sessionRecording": false, "heatmaps": false, "captureDeadClicks": false, "capturePerformance": false,
        "autocaptureExceptions": false, "analytics": {"endpoint": "/i/v0/e/"}, "siteApps": [],
    })
}
