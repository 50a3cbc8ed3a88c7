//! One player: `GET /v1/players/{player}` and `GET /v1/players/{player}/timeline`.

use std::collections::BTreeMap;
use std::sync::Arc;

use archive::questions::timeline::Timeline;
use archive::questions::totals::PlayerTotals;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use hyper::Request;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};
use hyper::http::request::Parts;
use liveops::vars::VarsViewer;
use liveops::{Game, check_player};
use model::rollup::hash_player;
use pipeline::catalog::Access;
use pipeline::time::{now_ms, now_s};
use serde_json::{Map, Value, json};
use utoipa::OpenApi;

use super::commands::refusal_problem;
use super::openapi::schemas;
use super::query::accepted_format;
use super::questions::run::{self, Events};
use super::questions::{encode, object, question_problem};
use crate::auth::Credentials;
use crate::problem::Problem;
use crate::rows::RowFormat;
use crate::{AppState, RuntimeState};

/// Names of properties that one page of a timeline shows.
const PROPERTIES_MAX: usize = 500;

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new()
        .route("/v1/players/{player}", routing::get(profile))
        .route("/v1/players/{player}/timeline", routing::get(timeline))
}

/// The operations of this module in the OpenAPI description.
#[derive(OpenApi)]
#[openapi(paths(profile, timeline))]
pub(crate) struct PlayerProfileApi;

/// Returns the totals of one player.
///
/// `first_seen`, `last_seen`, the number of `events` and `sessions`, and the events by name; the latest `country`,
/// `platform` and `version`; the `cohorts`, as far as their players are known; the `variants` of experiments; `scores` by
/// board, and the `ban`. Events under linked anonymous ids count.
#[utoipa::path(
    get, path = "/v1/players/{player}", operation_id = "player", tag = "analytics", security(("secret_key" = [])),
    params(("player" = String, Path, description = "The player's id, or another id of the same player.", example = "bo")),
    responses(
        (status = 200, description = "The totals.", body = schemas::QuestionAnswer),
        (status = 404, description = "The player has no events, or was erased.", body = schemas::ProblemDocument),
        (status = 422, description = "The question needs more memory than one question may use.", body = schemas::ProblemDocument),
        (status = 503, description = "The question took too long, or the server is busy; see Retry-After.", body = schemas::ProblemDocument),
    ),
)]
pub(crate) async fn profile(
    State(shared): State<Arc<AppState>>,
    Path(player): Path<String>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    let (head, _) = request.into_parts();
    let access = Credentials::from(&head).authorize_query(&shared.catalog, now_s())?;
    let pairs = crate::query_string::pairs(head.uri.query().unwrap_or_default())?;
    if let Some((name, _)) = pairs.iter().find(|(name, _)| name != "game") {
        return Err(Problem::invalid("unknown parameter").field(name));
    }
    let read = read_of_player(&shared, &access, &head, &player, {
        let (views, number, player) = (Arc::clone(&shared.views), access.game.number, player.clone());
        move |events, hash| {
            let Some(times) = events.snapshot.times() else { return Ok(None) };
            let totals =
                PlayerTotals::read(&events.context, hash, times.clone()).map_err(question_problem)?;
            let Some(totals) = totals else { return Ok(None) };
            let newest = Timeline::newest()
                .run(&events.context, hash, &|_, _| Ok(Vec::new()), times.start)
                .map_err(question_problem)?;
            let latest = newest.events.first().map(|event| &event.values[..]).unwrap_or_default();
            let mut fields = Map::from_iter([("player".to_owned(), json!(player))]);
            fields.extend(archive::questions::answer::Answer::fields(&totals));
            let game = views.liveops.game(number);
            let game = game.read();
            let cohorts = views.cohorts_of(number, &player, game.cohorts.iter().map(|(name, _)| name));
            fields.insert("cohorts".to_owned(), json!(cohorts));
            extend_profile(&mut fields, &game, &player, cohorts, latest);
            fields.insert("as_of".to_owned(), events.as_of.json());
            Ok(Some(Value::from(fields).to_string().into_bytes()))
        }
    });
    let body = read.await?.ok_or_else(|| no_player(&player))?;
    Ok(([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")], body).into_response())
}

/// Adds what the newest event and live-ops know of a player.
fn extend_profile(
    fields: &mut Map<String, Value>,
    game: &Game,
    player: &str,
    cohorts: Vec<String>,
    latest: &[(String, Value)],
) {
    let text = |name: &str| {
        let found = latest.iter().find(|(own, _)| own == name);
        found.and_then(|(_, value)| value.as_str()).unwrap_or_default().to_owned()
    };
    let viewer = VarsViewer {
        player: player.to_owned(),
        country: text("country"),
        platform: text("platform"),
        version: text("version"),
        cohorts,
        ..VarsViewer::default()
    };
    let now_ms = now_ms();
    let variants = game.vars.variants(&viewer, now_ms);
    let variants: BTreeMap<&str, &str> =
        variants.split(',').filter_map(|variant| variant.split_once('=')).collect();
    let scores = game.boards.export_player(player, now_ms);
    let own = json!({
        "country": viewer.country,
        "platform": viewer.platform,
        "version": viewer.version,
        "variants": variants,
        "scores": scores["boards"],
        "ban": scores["ban"],
    });
    fields.extend(own.as_object().cloned().unwrap_or_default());
}

/// Returns the events of one player, newest first.
///
/// Events under linked anonymous ids are among them. Continue with the parameter `before` and the value of `next`.
#[utoipa::path(
    get, path = "/v1/players/{player}/timeline", operation_id = "player_timeline", tag = "analytics",
    security(("secret_key" = [])),
    params(
        ("player" = String, Path, description = "The player's id, or another id of the same player.", example = "bo"),
        ("before" = Option<String>, Query, description = "`next` of the page before."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1_000, description = "Number of events. Default: 100.", example = 20),
    ),
    responses(
        (status = 200, description = "`{events: [{ts, event, ...}], next}`, or rows as CSV or NDJSON.", body = schemas::QuestionAnswer),
        (status = 400, description = "A parameter is invalid; `field` names it.", body = schemas::ProblemDocument),
        (status = 422, description = "The question needs more memory than one question may use.", body = schemas::ProblemDocument),
        (status = 503, description = "The question took too long, or the server is busy; see Retry-After.", body = schemas::ProblemDocument),
    ),
)]
pub(crate) async fn timeline(
    State(shared): State<Arc<AppState>>,
    Path(player): Path<String>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    let (head, _) = request.into_parts();
    let access = Credentials::from(&head).authorize_query(&shared.catalog, now_s())?;
    let mut pairs = crate::query_string::pairs(head.uri.query().unwrap_or_default())?;
    let format = RowFormat::take(&mut pairs)?.unwrap_or_else(|| accepted_format(&head.headers));
    let timeline = Timeline::from_json(&object(pairs)?).map_err(Problem::from)?;
    let empty = encode(format, &archive::questions::timeline::TimelinePage::empty(), as_of_now(&shared))?;
    let read = read_of_player(&shared, &access, &head, &player, move |events, hash| {
        let Some(times) = events.snapshot.times() else { return Ok(None) };
        let names = |times: std::ops::Range<i64>, id: u64| {
            events.snapshot.property_names(times, id..=id, PROPERTIES_MAX)
        };
        let page = timeline.run(&events.context, hash, &names, times.start).map_err(question_problem)?;
        encode(format, &page, events.as_of).map(Some)
    });
    Ok(format.response("timeline", read.await?.unwrap_or(empty)))
}

fn as_of_now(shared: &AppState) -> archive::questions::answer::AsOf {
    archive::questions::answer::AsOf {
        offset: shared.log.durable_until(),
        time_ms: now_ms(),
        events_since_ms: None,
    }
}

/// Reads events of a player, who is known by hash. `None` while the player is being erased.
async fn read_of_player<T: Send + 'static>(
    shared: &Arc<AppState>,
    access: &Access,
    head: &Parts,
    player: &str,
    read: impl FnOnce(&Events<'_>, u64) -> Result<Option<T>, Problem> + Send + 'static,
) -> Result<Option<T>, Problem> {
    check_player("player", player).map_err(refusal_problem)?;
    shared.views.caught_up(shared.log.durable_until()).await?;
    let game = shared.views.liveops.game(access.game.number);
    if game.read().players.erased_until(&[player.to_owned()]) > 0 {
        return Ok(None);
    }
    let player = player.to_owned();
    let answer = run::over_events(shared, access, Vec::new(), move |events| {
        read(events, hash_player(events.seed, player.as_bytes()))
    });
    run::until_client_leaves(head, answer).await
}

fn no_player(player: &str) -> Problem {
    Problem::not_found(format!("no event is known of the player `{player}`")).field("player")
}
