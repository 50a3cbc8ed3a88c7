//! `GET /v1/monitor`: requests, stores and the process, since the start.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::Uri;
use hyper::header::{CONTENT_TYPE, HeaderMap};

use super::openapi::shapes;
use crate::AppState;
use crate::api::commands::Local;
use crate::auth;
use crate::problem::Problem;
use axum::{Router, routing};
use pipeline::catalog::Scope;
use pipeline::time::now_s;

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
    Router::new().route("/v1/monitor", routing::get(get))
}

/// Answers with what `playmeter top` shows: the server's requests, stores and process, and the key's own game's events.
#[utoipa::path(
    get, path = "/v1/monitor", operation_id = "monitor", tag = "operations", security(("secret_key" = [])),
    responses(
        (status = 200, description = "Requests by route and outcome with their latencies, events by endpoint and \
            outcome, stores with time spent in them, the process.", body = Object),
        (status = 403, description = "The key has not the scope `admin`.", body = shapes::Problem),
    ),
)]
pub async fn get(
    State(shared): State<Arc<AppState>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let access = auth::for_reads(&shared.catalog, &headers, uri.query(), now_s())?;
    let game = auth::allow(access, Scope::Admin)?.game.number;
    let look =
        tokio::task::spawn_blocking(move || shared.monitor.look(&shared, Some(game)).to_string()).await;
    let text = look.map_err(|_| Problem::internal("the monitor cannot be read"))?;
    Ok(([(CONTENT_TYPE, "application/json")], text).into_response())
}
