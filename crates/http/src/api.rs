//! The API: one module per subject, each with its own routes.

pub mod achievements;
pub mod agent;
pub mod assets;
pub mod boards;
pub mod collectors;
pub mod commands;
pub mod dimensions;
pub mod events;
pub mod feed;
pub mod flows;
pub mod health;
pub mod import;
pub mod levels;
pub mod load;
pub mod metrics;
pub mod monitor;
pub mod openapi;
pub mod otlp;
pub mod people;
pub mod players;
pub mod privacy;
pub mod query;
pub mod samples;
pub mod signature;
pub mod subscriptions;
pub mod surveys;
pub mod vars;
pub mod watch;

use axum::Router;

use commands::Local;

/// Returns the routes of the API.
pub fn routes() -> Router<Local> {
    Router::new()
        .merge(query::routes())
        .merge(load::routes())
        .merge(monitor::routes())
        .merge(dimensions::routes())
        .merge(flows::routes())
        .merge(import::routes())
        .merge(otlp::routes())
        .merge(agent::routes())
        .merge(collectors::routes())
        .merge(watch::routes())
        .merge(subscriptions::routes())
        .merge(players::routes())
        .merge(privacy::routes())
        .merge(achievements::routes())
        .merge(feed::routes())
        .merge(vars::routes())
        .merge(surveys::routes())
        .merge(boards::routes())
        .merge(levels::routes())
        .merge(openapi::routes())
        .merge(people::routes())
        .merge(metrics::routes())
        .merge(health::routes())
        .merge(assets::routes())
}
