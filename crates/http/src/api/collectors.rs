//! `GET /v1/collectors`: state and counters of the collectors of a game.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use hyper::header::CONTENT_TYPE;
use pipeline::time::now_s;
use serde_json::json;
use utoipa::OpenApi;

use crate::auth::Credentials;
use crate::problem::Problem;
use crate::{AppState, RuntimeState};

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new().route("/v1/collectors", routing::get(get))
}

/// The operations of this module and of the sample endpoints in the OpenAPI description.
#[derive(OpenApi)]
#[openapi(paths(
    get,
    super::otlp::export,
    super::otlp::export_logs,
    super::otlp::export_traces,
    crate::compat::remote_write::write,
    crate::compat::influx::write,
    crate::compat::influx::write_1,
    super::agent::write
))]
pub(crate) struct CollectorsApi;

/// Lists the collectors of the game with their state, last failure, next retry and counters since the server started.
///
/// `received = accepted + refused`; `reasons` breaks the rejected ones down. Samples are counted when they are written,
/// up to a second after they arrive.
#[utoipa::path(
    get, path = "/v1/collectors", operation_id = "list_collectors", tag = "operations",
    security(("secret_key" = []), ("sign_in" = [])),
    responses((status = 200, description = "`{collectors: [{name, transport, decoder, state, counters, ...}]}`.", body = Object)),
)]
pub(crate) async fn get(
    State(shared): State<Arc<AppState>>,
    credentials: Credentials,
) -> Result<Response, Problem> {
    let access = credentials.authorize_query(&shared.catalog, now_s())?;
    let rows = shared.collectors.list(&shared.catalog, Some(access.game.number));
    let answer = json!({ "collectors": rows });
    Ok(([(CONTENT_TYPE, "application/json")], answer.to_string()).into_response())
}
