//! `GET /v1/monitor`: requests, stores and the process since the server started.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use hyper::header::CONTENT_TYPE;
use pipeline::catalog::Scope;
use pipeline::time::now_s;

use super::openapi::schemas;
use crate::auth::{self, Credentials};
use crate::problem::Problem;
use crate::{AppState, RuntimeState};

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new().route("/v1/monitor", routing::get(get))
}

/// Returns the data of `playmeter top`: requests, stores and process of the server, and the events of the key's game.
#[utoipa::path(
    get, path = "/v1/monitor", operation_id = "monitor", tag = "operations", security(("secret_key" = [])),
    responses(
        (status = 200, description = "Requests with latencies by route and outcome, events by endpoint and \
            outcome, stores with the time spent in them, and the process.", body = Object),
        (status = 403, description = "The key lacks the scope `admin`.", body = schemas::ProblemDocument),
    ),
)]
pub(crate) async fn get(
    State(shared): State<Arc<AppState>>,
    credentials: Credentials,
) -> Result<Response, Problem> {
    let access = credentials.authorize_read(&shared.catalog, now_s())?;
    let game = auth::allow(access, Scope::Admin)?.game.number;
    let snapshot =
        tokio::task::spawn_blocking(move || shared.monitor.snapshot(&shared, Some(game)).to_string()).await;
    let text = snapshot.map_err(|_| Problem::internal("the monitor could not be read"))?;
    Ok(([(CONTENT_TYPE, "application/json")], text).into_response())
}
