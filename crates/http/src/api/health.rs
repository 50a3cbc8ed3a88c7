//! `GET /healthz` and `GET /readyz`, and what is counted about whole requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use parking_lot::Mutex;

use super::openapi::shapes;
use crate::AppState;
use crate::api::commands::Local;
use crate::problem::Problem;
use axum::{Router, routing};

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
    Router::new().route("/healthz", routing::get(alive)).route("/readyz", routing::get(ready))
}

/// Whole requests to the ingest that were refused, by status.
#[derive(Default)]
pub struct Requests {
    refused: Mutex<BTreeMap<u16, u64>>,
}

impl Requests {
    /// Counts a refused request.
    pub fn refused(&self, problem: &Problem) {
        *self.refused.lock().entry(problem.status()).or_default() += 1;
    }

    /// By status, since the start.
    pub fn by_status(&self) -> BTreeMap<u16, u64> {
        self.refused.lock().clone()
    }
}

/// The process answers.
#[utoipa::path(
    get, path = "/healthz", operation_id = "alive", tag = "operations", security(()),
    responses((status = 200, description = "The process answers.", body = String, content_type = "text/plain")),
)]
pub async fn alive() -> &'static str {
    "ok\n"
}

/// The server takes events: it is not stopping and the disk has room.
#[utoipa::path(
    get, path = "/readyz", operation_id = "ready", tag = "operations", security(()),
    responses(
        (status = 200, description = "Events are taken.", body = String, content_type = "text/plain"),
        (status = 503, description = "Stopping, or the disk is full.", body = shapes::Problem),
    ),
)]
pub async fn ready(State(shared): State<Arc<AppState>>) -> Result<&'static str, Problem> {
    if *shared.stopping.borrow() {
        return Err(Problem::stopping("the server is stopping"));
    }
    if shared.log.stats().full {
        return Err(Problem::disk_full("the disk is full; reads go on").retry_after_s(5));
    }
    Ok("ready\n")
}
