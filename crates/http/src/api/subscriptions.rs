//! `GET /v1/subscriptions`: the channels of a game, with their subscribers and costs.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use hyper::header;
use pipeline::time::now_s;

use crate::auth::Credentials;
use crate::problem::Problem;
use crate::{AppState, RuntimeState};

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new().route("/v1/subscriptions", routing::get(get))
}

/// Lists up to 100 subscriptions of the game, the most expensive first.
///
/// Equal subscriptions of several clients share one computation. `mode` shows if a computation reads only the changed
/// data or everything. A subscription is computed at most once per `interval_ms`: the shortest interval that a client
/// requested, or a longer one if the computation is expensive. `merged` counts how often a client received several
/// changes at once; `bytes` are kept for clients that reconnect.
#[utoipa::path(
    get, path = "/v1/subscriptions", operation_id = "list_subscriptions", tag = "live",
    security(("secret_key" = []), ("sign_in" = [])),
    responses((
        status = 200, description = "Subscriptions with their cost in microseconds of CPU time.", body = Object,
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
pub(crate) async fn get(
    State(shared): State<Arc<AppState>>,
    credentials: Credentials,
) -> Result<Response, Problem> {
    let access = credentials.authorize_query(&shared.catalog, now_s())?;
    let answer = shared.live.subscription_stats(access.game.number);
    Ok(([(header::CONTENT_TYPE, "application/json")], answer.to_string()).into_response())
}
