//! Endpoints that clients of other services use unchanged, each over the same ingest path.

pub mod capture;
pub mod gameanalytics;
pub mod influx;
pub mod playtomic;
pub mod posthog;
pub mod segment;

use axum::Router;

use crate::api::commands::Local;

/// Returns the routes of all of them.
pub fn routes() -> Router<Local> {
    Router::new()
        .merge(influx::routes())
        .merge(playtomic::routes())
        .merge(posthog::routes())
        .merge(segment::routes())
        .merge(gameanalytics::routes())
}
