//! Endpoints for PostHog clients: change `api_host` and use the public key of the game as the project API key.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use bytes::Bytes;
use hyper::header::CONTENT_TYPE;
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};
use serde_json::json;

use decode::capture::posthog::{beacon, translate};
use model::batch::Endpoint;

use super::capture::{authorize, respond, submit, translate_problem};
use crate::RuntimeState;
use crate::body;
use crate::problem::Problem;

pub(super) fn routes() -> Router<RuntimeState> {
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

/// Accepts events as JSON, as gzipped JSON with or without `Content-Encoding`, or as base64 in the form field `data`.
async fn capture(State(runtime): State<RuntimeState>, request: Request<Body>) -> Response {
    let (head, mut incoming) = request.into_parts();
    let result = capture_body(&runtime, &head, &mut incoming).await;
    respond(&runtime, result, r#"{"status":1}"#)
}

async fn capture_body(runtime: &RuntimeState, head: &Parts, incoming: &mut Body) -> Result<(), Problem> {
    let limits = body::BodyLimits::EVENTS;
    let bytes = body::read(head, incoming, limits).await?;
    let bytes = body::gunzip(head, bytes, limits.inflated_bytes).await?;
    let bytes = match beacon(&bytes) {
        Some(data) => {
            body::gunzip(head, data.map_err(translate_problem)?.into(), limits.inflated_bytes).await?
        }
        None => bytes,
    };
    let translated = translate(&bytes).map_err(translate_problem)?;
    let access = authorize(runtime, head, translated.key.as_deref())?;
    submit(runtime, head, access, Endpoint::Posthog, &translated).await
}

/// Returns no feature flags: variables and experiments are at `/v1/vars`.
async fn flags() -> Response {
    let no_flags = json!({
        "featureFlags": {}, "featureFlagPayloads": {}, "flags": {}, "errorsWhileComputingFlags": false,
    });
    super::capture::json(StatusCode::OK, Bytes::from(no_flags.to_string()))
}

/// Returns the remote config that a client requests at its start: only event capture is enabled.
async fn config(Path(key): Path<String>) -> Response {
    super::capture::json(StatusCode::OK, Bytes::from(remote_config(&key).to_string()))
}

/// Returns the remote config as a script.
async fn config_script(Path(key): Path<String>) -> Response {
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
