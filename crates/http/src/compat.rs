//! Endpoints for existing clients of other services, each over the same ingest path.

pub(crate) mod influx;
pub(crate) mod remote_write;

mod capture;
mod gameanalytics;
mod playtomic;
mod posthog;
mod segment;
mod websites;

use axum::Router;

use crate::RuntimeState;

pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new()
        .merge(influx::routes())
        .merge(remote_write::routes())
        .merge(playtomic::routes())
        .merge(posthog::routes())
        .merge(segment::routes())
        .merge(gameanalytics::routes())
        .merge(websites::routes())
}
