//! `GET /v1/collectors`: how the collectors of a game are doing and what they received.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::Uri;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use serde_json::json;
use utoipa::OpenApi;

use crate::auth;
use crate::problem::Problem;
use crate::server::Shared;
use crate::time::now_s;

/// What is documented of this page, and of the decoders over HTTP.
#[derive(OpenApi)]
#[openapi(paths(
    get,
    super::otlp::export,
    super::influx::write,
    super::influx::write_1,
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
    State(shared): State<Arc<Shared>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let access = auth::for_questions(&shared.catalog, &headers, uri.query(), now_s())?;
    let rows = shared.collectors.list(&shared.catalog, Some(access.game.number));
    let answer = json!({ "collectors": rows });
    Ok(([(CONTENT_TYPE, "application/json")], answer.to_string()).into_response())
}
