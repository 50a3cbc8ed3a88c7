//! `GET /healthz` and `GET /readyz`.

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::State;
use axum::{Router, routing};
use pipeline::time::now_s;

use super::openapi::schemas;
use crate::problem::Problem;
use crate::{AppState, RuntimeState};

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new().route("/healthz", routing::get(alive)).route("/readyz", routing::get(ready))
}

/// The cause is in the log of the server only: this route needs no credential.
const BACKUP_WARNING: &str = "warning: the last backup failed; see the log of the server\n";

/// Returns the warning about failed collectors. Which and why is not for everyone either.
fn collector_warning(failed: usize) -> Option<String> {
    let what = match failed {
        0 => return None,
        1 => "a collector has failed and is",
        _ => "collectors have failed and are",
    };
    Some(format!("warning: {what} tried again; see `playmeter collectors list` or the log of the server\n"))
}

/// Liveness: the process responds.
#[utoipa::path(
    get, path = "/healthz", operation_id = "alive", tag = "operations", security(()),
    responses((status = 200, description = "The process responds.", body = String, content_type = "text/plain")),
)]
pub(crate) async fn alive() -> &'static str {
    "ok\n"
}

/// Readiness: the server accepts events and answers queries, because it is not stopping, the disk has room, and the views
/// follow the log. Further lines are warnings, for example about a certificate that could not be
/// renewed, a failed backup or a failed collector.
#[utoipa::path(
    get, path = "/readyz", operation_id = "ready", tag = "operations", security(()),
    responses(
        (status = 200, description = "The server accepts events and answers queries.", body = String, content_type = "text/plain"),
        (status = 503, description = "The server is stopping, the disk is full, or the views are more than 10 s behind the log.", body = schemas::ProblemDocument),
    ),
)]
pub(crate) async fn ready(State(shared): State<Arc<AppState>>) -> Result<String, Problem> {
    check_ready(&shared)?;
    // Requests that arrive are served, so these are warnings.
    let mut text = "ready\n".to_owned();
    if let Some(problem) = shared.tls.as_ref().and_then(|tls| tls.certificate.problem(now_s() as i64)) {
        let _ = writeln!(text, "warning: TLS: {problem}");
    }
    if shared.backups.report().failure.is_some() {
        text.push_str(BACKUP_WARNING);
    }
    text.extend(collector_warning(shared.collectors.failed()));
    Ok(text)
}

/// Returns the reason why the server does not accept events or does not answer queries at the moment.
pub(crate) fn check_ready(shared: &AppState) -> Result<(), Problem> {
    if *shared.stopping.borrow() {
        return Err(Problem::stopping("the server is stopping"));
    }
    if shared.log.stats().full || shared.views.space.is_full() {
        return Err(Problem::disk_full("the disk is full; only reads are served").retry_after_s(5));
    }
    Ok(shared.views.check_lag()?)
}
