//! `GET /v1/collectors`: how the collectors of a game are doing and what they received.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::Uri;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use serde_json::json;
use utoipa::OpenApi;

use crate::AppState;
use crate::api::commands::Local;
use crate::auth;
use crate::problem::Problem;
use axum::{Router, routing};
use pipeline::time::now_s;

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
    Router::new().route("/v1/collectors", routing::get(get))
}

/// What is documented of this page, and of the decoders over HTTP.
#[derive(OpenApi)]
#[openapi(paths(
    get,
    super::otlp::export,
    crate::compat::influx::write,
    crate::compat::influx::write_1,
    super::agent::write
))]
pub struct Docs;

/// Lists the game's collectors: state, last failure, next try, and counts since the start.
///
/// `received = accepted + refused`, and `reasons` says why. Samples are counted when they are written, up to a second
/// after they came.
#[utoipa::path(
    get, path = "/v1/collectors", operation_id = "list_collectors", tag = "operations",
    security(("secret_key" = []), ("sign_in" = [])),
    responses((status = 200, description = "`{collectors: [{name, transport, decoder, state, counters, ...}]}`.", body = Object)),
)]
pub async fn get(
    State(shared): State<Arc<AppState>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let access = auth::for_questions(&shared.catalog, &headers, uri.query(), now_s())?;
    let rows = shared.collectors.list(&shared.catalog, Some(access.game.number));
    let answer = json!({ "collectors": rows });
    Ok(([(CONTENT_TYPE, "application/json")], answer.to_string()).into_response())
}
