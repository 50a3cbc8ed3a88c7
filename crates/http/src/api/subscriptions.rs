//! `GET /v1/subscriptions`: what is watched, and what it costs.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::Uri;
use hyper::header::{self, HeaderMap};

use crate::AppState;
use crate::api::commands::Local;
use crate::auth;
use crate::problem::Problem;
use axum::{Router, routing};
use pipeline::time::now_s;

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
    Router::new().route("/v1/subscriptions", routing::get(get))
}

/// The subscriptions of the game, up to 100, the dearest first.
///
/// Those who watch the same share one subscription. `mode` says whether only what was touched is read again, or
/// everything, to be compared. It is computed every `interval_ms` at most: as often as anybody wants it, or less often
/// if it is dear. `merged` counts how often somebody was told several changes at once; `bytes` are kept for those who
/// come back.
#[utoipa::path(
    get, path = "/v1/subscriptions", operation_id = "list_subscriptions", tag = "live",
    security(("secret_key" = []), ("sign_in" = [])),
    responses((
        status = 200, description = "Subscriptions with their cost in microseconds of a processor.", body = Object,
        example = json!({
            "subscriptions": [{
                "topic": "query", "what": {"metrics": [{"metric": "plays"}], "last": "24h", "tz": "UTC"},
                "mode": "incremental", "watchers": 3, "min_interval_ms": 250, "interval_ms": 250,
                "computations": 41, "changes": 40, "merged": 2, "cost_us": {"last": 11, "mean": 14, "total": 574},
                "bytes": 5210, "opened_at": "2026-11-20T17:00:00.000Z",
            }],
            "open": 1,
            "connections": {"streamed": 2, "as_documents": 1},
        }),
    )),
)]
pub async fn get(
    State(shared): State<Arc<AppState>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let access = auth::for_questions(&shared.catalog, &headers, uri.query(), now_s())?;
    let answer = shared.live.subscription_stats(access.game.number);
    Ok(([(header::CONTENT_TYPE, "application/json")], answer.to_string()).into_response())
}
