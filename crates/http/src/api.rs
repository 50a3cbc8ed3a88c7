//! The HTTP API: one module per subject, each with its own routes.

pub(crate) mod achievements;
pub(crate) mod agent;
pub(crate) mod alerts;
pub(crate) mod assets;
pub(crate) mod boards;
pub(crate) mod cohorts;
pub(crate) mod collectors;
pub(crate) mod commands;
pub(crate) mod dimensions;
pub(crate) mod events;
pub(crate) mod experiments;
mod export_stream;
pub(crate) mod exports;
pub(crate) mod feed;
pub(crate) mod flows;
pub(crate) mod games;
pub(crate) mod health;
pub(crate) mod import;
pub(crate) mod json;
pub(crate) mod levels;
pub(crate) mod load;
pub(crate) mod metrics;
pub(crate) mod monitor;
pub(crate) mod openapi;
pub(crate) mod otlp;
pub(crate) mod people;
pub(crate) mod player_profile;
pub(crate) mod players;
pub(crate) mod privacy;
pub(crate) mod query;
pub(crate) mod questions;
pub(crate) mod samples;
pub(crate) mod saved;
pub(crate) mod sdk;
pub(crate) mod signature;
pub(crate) mod sql;
pub(crate) mod subscriptions;
pub(crate) mod surveys;
pub(crate) mod vars;
pub(crate) mod watch;

use axum::Router;

use crate::RuntimeState;

/// Returns the routes of the API.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new()
        .merge(events::routes())
        .merge(query::routes())
        .merge(questions::routes())
        .merge(sql::routes())
        .merge(exports::routes())
        .merge(player_profile::routes())
        .merge(cohorts::routes())
        .merge(experiments::routes())
        .merge(saved::routes())
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
        .merge(alerts::routes())
        .merge(boards::routes())
        .merge(levels::routes())
        .merge(openapi::routes())
        .merge(people::routes())
        .merge(games::routes())
        .merge(metrics::routes())
        .merge(health::routes())
        .merge(sdk::routes())
        .merge(assets::routes())
}
