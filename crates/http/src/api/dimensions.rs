//! `GET /v1/dimensions`: the dimensions of a game, and which of them exceed the cardinality limit.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use hyper::header;
use model::Dimension;
use model::ports::counters::{SlotSelector, StoreError};
use model::series::{Cut, EVENTS, OTHER, Resolution, SERVER_DIMENSIONS};
use pipeline::accounting::sum_metric;
use pipeline::catalog::Game;
use pipeline::ingest::EventNamesUsage;
use pipeline::time::{now_ms, rfc3339};
use pipeline::views::Views;
use serde_json::{Value, json};

use super::query::run_bounded;
use crate::auth::Credentials;
use crate::problem::Problem;
use crate::{AppState, RuntimeState};

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new().route("/v1/dimensions", routing::get(get))
}

const DAY_MS: i64 = 24 * 3_600_000;

/// Lists the dimensions of the game's events, with the limits for admission and counting.
///
/// `overflowed` is true if some values exceeded the cardinality limit today (UTC) and are counted in `(other)`.
/// `event_names` has the number of event names with rows of their own, their limit, and how many of today's events and
/// samples have another name and are counted in `(other)`.
#[utoipa::path(
    get, path = "/v1/dimensions", operation_id = "list_dimensions", tag = "analytics",
    security(("secret_key" = []), ("sign_in" = [])),
    responses((status = 200, description = "The built-in and the declared dimensions.", body = Object)),
)]
pub(crate) async fn get(
    State(shared): State<Arc<AppState>>,
    credentials: Credentials,
) -> Result<Response, Problem> {
    let now = now_ms();
    let access = credentials.authorize_query(&shared.catalog, now as u64 / 1000)?;
    shared.views.caught_up(shared.log.durable_until()).await?;
    let names = shared.ingest.event_names(access.game.number, now);
    let (views, game) = (Arc::clone(&shared.views), Arc::clone(&access.game));
    let answer = run_bounded(&shared, game.number, move |_| {
        answer(&game, &views, names, now).map_err(|failure| Problem::internal(failure.to_string()))
    })
    .await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], answer.to_string()).into_response())
}

fn answer(game: &Game, views: &Views, names: EventNamesUsage, now_ms: i64) -> Result<Value, StoreError> {
    let built_in = Dimension::ALL.map(|dimension| (dimension.label(), Cut::By(dimension), false));
    let stamped = SERVER_DIMENSIONS.map(|(number, name)| (name, Cut::Declared(number), false));
    let declared = game.settings.dimensions.iter();
    let declared = declared.map(|dimension| (&dimension.name[..], Cut::Declared(dimension.number), true));
    let mut dimensions = Vec::new();
    for (name, cut, declared) in built_in.into_iter().chain(stamped).chain(declared) {
        let overflowed = is_overflowed(game, views, cut, now_ms)?;
        dimensions.push(json!({ "name": name, "declared": declared, "overflowed": overflowed }));
    }
    let midnight = midnight_minute(now_ms);
    let other = sum_metric(&*views.counters, game.number, OTHER, midnight..midnight + 24 * 60)?;
    Ok(json!({
        "dimensions": dimensions,
        "event_names": { "names": names.names, "names_max": names.names_max, "other_events": other },
        "values_max": game.settings.values_max,
        "late_days": game.settings.late_days,
        "since": rfc3339(now_ms - now_ms.rem_euclid(DAY_MS)),
    }))
}

fn midnight_minute(now_ms: i64) -> u32 {
    (now_ms.div_euclid(DAY_MS) * 24 * 60).max(0) as u32
}

/// Returns true if the dimension overflowed today. The metric of all events has every value, so it overflows first.
fn is_overflowed(game: &Game, views: &Views, cut: Cut, now_ms: i64) -> Result<bool, StoreError> {
    let midnight = midnight_minute(now_ms);
    let select = SlotSelector {
        game: game.number,
        metric: EVENTS,
        cut,
        values: Some(&[OTHER]),
        resolution: Resolution::Hour,
    };
    let mut is_overflowed = false;
    views.counters.visit(select, midnight..midnight + 24 * 60, &mut |_, _, _| is_overflowed = true)?;
    Ok(is_overflowed)
}
