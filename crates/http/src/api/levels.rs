//! Player levels: `/v1/levels`, and `/v1/moderation` for what was flagged.

pub mod body;
pub mod parameters;
pub mod shapes;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use hyper::Request;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};
use hyper::http::request::Parts;
use liveops::Command;
use liveops::levels::{
    self, DATA_BYTES_MAX, LevelRow, LevelViewer, ListError, LoadedLevel, ModerationItem, PackedLevel,
};
use model::ports::counters::StoreError;
use serde::Serialize;
use utoipa::OpenApi;

use super::commands::{self, Answered, Asked, BODY_BYTES_MAX, Local, Rights};
use super::signature;
use crate::AppState;
use crate::auth;
use crate::problem::Problem;
use pipeline::catalog::{Access, Scope};
use pipeline::time::{now_ms, now_s};

use axum::{Router, routing};
use body::{DecideLevel, FlagLevel, RateLevel, SaveLevel, SetState};

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
    Router::new()
        .route("/v1/levels", routing::get(list).post(save))
        .route("/v1/levels/{id}", routing::get(load).patch(set_state))
        .route("/v1/levels/{id}/rating", routing::post(rate))
        .route("/v1/levels/{id}/flags", routing::post(flag))
        .route("/v1/moderation", routing::get(queue))
        .route("/v1/moderation/{id}", routing::post(decide))
}

/// What is documented of this page.
#[derive(OpenApi)]
#[openapi(paths(save, load, list, set_state, rate, flag, queue, decide))]
pub struct Docs;

/// A level of which every byte is written as an escape of six, and what goes with it.
const SAVE_BYTES_MAX: usize = 6 * DATA_BYTES_MAX + BODY_BYTES_MAX;
/// Data beyond this is compressed on a thread of its own, so that the runtime's other connections do not wait.
const INLINE_BYTES_MAX: usize = 64 << 10;
/// An id has 60 random bits in letters that are not taken for one another.
const ID_LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const ID_BYTES: usize = 12;

/// Anybody with the game's public key, and servers.
const PLAYERS: Rights = Rights::Public(Scope::ScoresWrite);

/// Saves a level. The same name and data by the same player are the level that is there already.
#[utoipa::path(
    post, path = "/v1/levels", operation_id = "save_level", tag = "levels",
    security(("public_key" = []), ("secret_key" = [])),
    request_body(content = SaveLevel, example = json!({
        "name": "The cave", "data": "###..#\n#....#", "player": "bo", "player_name": "Bo", "fields": {"size": "small"}
    })),
    responses(
        (status = 201, description = "It is there now.", body = shapes::Saved),
        (status = 200, description = "It was there before.", body = shapes::Saved),
        (status = 422, description = "The game or the player has as many as there may be."),
    ),
)]
pub async fn save(State(local): State<Local>, request: Request<Body>) -> Answered {
    let asked: Asked<SaveLevel> = local.read(request, PLAYERS, SAVE_BYTES_MAX).await?;
    let (asked, level) = asked.split();
    let SaveLevel { name, data, player, player_name, fields, thumb, source, state } = level;
    let bytes = data.len();
    let pack = move || PackedLevel::new(&data, thumb.as_deref());
    let packed = unless_small(bytes, pack).await?.map_err(commands::problem)?;
    let PackedLevel { data, thumb, blob } = packed;
    let (id, state) = (draw_id(), state.into());
    let save = levels::SaveLevel { id, name, player, player_name, fields, source, state, data, thumb };
    local.submit_with(asked, Command::Levels(levels::LevelCommand::Save(save)), &blob).await
}

/// A level with its data. Drafts and removed levels are shown to their makers (signed) and to moderators.
#[utoipa::path(
    get, path = "/v1/levels/{id}", operation_id = "load_level", tag = "levels",
    security(("public_key" = []), ("secret_key" = [])),
    params(("id" = String, Path, description = "The level.")),
    responses(
        (status = 200, description = "The level.", body = shapes::Level),
        (status = 404, description = "There is no such level, or it is not for you."),
    ),
)]
pub async fn load(State(local): State<Local>, Path(id): Path<String>, request: Request<Body>) -> Answered {
    let (shared, (head, _)) = (&*local.shared, request.into_parts());
    let (access, viewer) = reader(shared, &head)?;
    // The counters include every event that was acknowledged before.
    shared.views.caught_up(shared.log.durable_until()).await;
    let game = shared.views.liveops.game(access.game.number);
    let found = game.read().levels.load(&id, &viewer).map_err(failed)?;
    let found = found.ok_or_else(|| Problem::not_found("there is no level of this id").field("id"))?;
    answer(found.bytes(), move || found.row()).await
}

/// A page of levels, the best or newest first. Levels with equally good votes: the one with more, then the newer one.
#[utoipa::path(
    get, path = "/v1/levels", operation_id = "list_levels", tag = "levels",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("mode" = Option<String>, Query, example = "popular", description = "`popular` by all votes (if not given), \
            `newest`, `recent` by each level's last 100 votes, `today`, `yesterday`, `7d`, `30d`, `90d` by the votes of \
            these days in the game's time zone; these list only levels that got one."),
        ("filter.FIELD" = Option<String>, Query, description = "Only levels with this value; all filters must hold."),
        ("friends" = Option<String>, Query, description = "Only by these players, joined by commas; or \
            `follows:PLAYER`, those whom this player follows."),
        ("player" = Option<String>, Query, description = "Only by this player."),
        ("source" = Option<String>, Query, description = "Only from this source."),
        ("from" = Option<String>, Query, description = "Made at this time or later."),
        ("to" = Option<String>, Query, description = "Made before this time."),
        ("state" = Option<String>, Query, description = "`published` (if not given) or, with `player` and for those \
            who may see them, `all`."),
        ("data" = Option<u8>, Query, description = "1: with their data, up to 8 MiB a page."),
        ("thumbs" = Option<u8>, Query, description = "0: without their pictures."),
        ("page" = Option<u64>, Query, description = "From 1."),
        ("per_page" = Option<u64>, Query, example = 20, description = "1 to 1,000; 20 if not given."),
    ),
    responses((status = 200, description = "A page, and how many there are on all pages.", body = shapes::Page)),
)]
pub async fn list(State(local): State<Local>, request: Request<Body>) -> Answered {
    #[derive(Serialize)]
    struct Page {
        levels: Vec<LevelRow>,
        total: usize,
        page: u64,
        per_page: u64,
    }
    let (shared, (head, _)) = (&*local.shared, request.into_parts());
    let (access, viewer) = reader(shared, &head)?;
    let parameters::Asked { mut list, followed_by } =
        parameters::list(head.uri.query().unwrap_or_default(), viewer)?;
    let game = shared.views.liveops.game(access.game.number);
    let levels::LevelPage { total, levels } = {
        let game = game.read();
        if let Some(player) = followed_by {
            list.friends = Some(game.feed.follows(&player).into_iter().map(str::to_owned).collect());
        }
        game.levels.list(&list, now_ms(), &access.game.tz).map_err(no_page)?
    };
    let bytes = levels.iter().map(LoadedLevel::bytes).sum();
    let page = move || {
        let levels = levels.into_iter().map(LoadedLevel::row).collect::<Result<_, StoreError>>()?;
        Ok(Page { levels, total, page: list.page, per_page: list.per_page })
    };
    answer(bytes, page).await
}

/// Publishes a level, takes it back, or removes it for good: a moderator, or its maker with a signature.
#[utoipa::path(
    patch, path = "/v1/levels/{id}", operation_id = "set_level_state", tag = "levels",
    security(("public_key" = []), ("secret_key" = [])),
    params(("id" = String, Path, description = "The level.")),
    request_body(content = SetState, example = json!({"state": "published"})),
    responses(
        (status = 200, description = "The level.", body = shapes::Level),
        (status = 403, description = "It is another player's."),
        (status = 409, description = "It was removed for good."),
    ),
)]
pub async fn set_state(
    State(local): State<Local>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Answered {
    let rights = Rights::Signed(Scope::LevelsModerate);
    let asked: Asked<SetState> = local.read(request, rights, BODY_BYTES_MAX).await?;
    let state = asked.body.state;
    local.submit(asked, Command::Levels(levels::LevelCommand::SetState { id, state })).await
}

/// Rates a level. A player has one vote on a level; a later one replaces it and leaves the day of the first.
#[utoipa::path(
    post, path = "/v1/levels/{id}/rating", operation_id = "rate_level", tag = "levels",
    security(("public_key" = []), ("secret_key" = [])),
    params(("id" = String, Path, description = "The level.")),
    request_body(content = RateLevel, example = json!({"player": "ann", "rating": 9})),
    responses(
        (status = 201, description = "The player's first vote on it.", body = shapes::Rated),
        (status = 200, description = "The player had rated it before.", body = shapes::Rated),
    ),
)]
pub async fn rate(State(local): State<Local>, Path(id): Path<String>, request: Request<Body>) -> Answered {
    let asked: Asked<RateLevel> = local.read(request, PLAYERS, BODY_BYTES_MAX).await?;
    let (asked, RateLevel { player, rating }) = asked.split();
    local.submit(asked, Command::Levels(levels::LevelCommand::Rate { id, player, rating })).await
}

/// Says that a level should not be there. Moderators decide.
#[utoipa::path(
    post, path = "/v1/levels/{id}/flags", operation_id = "flag_level", tag = "levels",
    security(("public_key" = []), ("secret_key" = [])),
    params(("id" = String, Path, description = "The level.")),
    request_body(content = FlagLevel, example = json!({"player": "ann", "reason": "it is mine"})),
    responses(
        (status = 201, description = "It waits for a moderator.", body = shapes::Flagged),
        (status = 200, description = "The player had flagged it before.", body = shapes::Flagged),
    ),
)]
pub async fn flag(State(local): State<Local>, Path(id): Path<String>, request: Request<Body>) -> Answered {
    let asked: Asked<FlagLevel> = local.read(request, PLAYERS, BODY_BYTES_MAX).await?;
    let (asked, FlagLevel { player, reason }) = asked.split();
    local.submit(asked, Command::Levels(levels::LevelCommand::Flag { id, player, reason })).await
}

/// The levels that were flagged and wait for a decision, the most flagged first.
#[utoipa::path(
    get, path = "/v1/moderation", operation_id = "moderation_queue", tag = "levels", security(("secret_key" = [])),
    params(
        ("page" = Option<u64>, Query, description = "From 1."),
        ("per_page" = Option<u64>, Query, description = "1 to 1,000; 20 if not given."),
    ),
    responses((status = 200, description = "A page, and how many wait.", body = shapes::Queue)),
)]
pub async fn queue(State(local): State<Local>, request: Request<Body>) -> Answered {
    #[derive(Serialize)]
    struct Queue {
        items: Vec<ModerationItem>,
        total: usize,
        page: u64,
        per_page: u64,
    }
    let (shared, (head, _)) = (&*local.shared, request.into_parts());
    let access = auth::for_reads(&shared.catalog, &head.headers, head.uri.query(), now_s())?;
    let access = auth::allow(access, Scope::LevelsModerate)?;
    let (page, per_page) = parameters::page(head.uri.query().unwrap_or_default())?;
    shared.views.caught_up(shared.log.durable_until()).await;
    let game = shared.views.liveops.game(access.game.number);
    let levels::ModerationQueue { items, total } = game.read().levels.queue(page, per_page);
    answer(0, move || Ok(Queue { items, total, page, per_page })).await
}

/// Decides about a level: it stays and its flags are settled, or it goes for good.
#[utoipa::path(
    post, path = "/v1/moderation/{id}", operation_id = "moderate_level", tag = "levels",
    security(("secret_key" = [])),
    params(("id" = String, Path, description = "The level.")),
    request_body(content = DecideLevel, example = json!({"decision": "keep"})),
    responses(
        (status = 200, description = "The level.", body = shapes::Level),
        (status = 409, description = "It was removed before."),
    ),
)]
pub async fn decide(State(local): State<Local>, Path(id): Path<String>, request: Request<Body>) -> Answered {
    let rights = Rights::Server(Scope::LevelsModerate);
    let asked: Asked<DecideLevel> = local.read(request, rights, BODY_BYTES_MAX).await?;
    let decision = asked.body.decision;
    local.submit(asked, Command::Levels(levels::LevelCommand::Decide { id, decision })).await
}

/// Who reads, and what they may see.
fn reader(shared: &AppState, head: &Parts) -> Result<(Access, LevelViewer), Problem> {
    let now_ms = now_ms();
    let access = auth::for_reads(&shared.catalog, &head.headers, head.uri.query(), now_ms as u64 / 1000)?;
    if access.may(Scope::LevelsModerate) {
        return Ok((access, LevelViewer::Moderator));
    }
    let Some(signed) = signature::check(shared, &access, head, &[], now_ms)? else {
        return Ok((access, LevelViewer::Public));
    };
    let game = shared.views.liveops.game(access.game.number);
    let player = game.read().players.session(&signed.session, now_ms).map(|session| session.player.clone());
    Ok((access, player.map_or(LevelViewer::Public, LevelViewer::Player)))
}

/// A new level's id.
pub(crate) fn draw_id() -> String {
    let mut random = [0; ID_BYTES];
    getrandom::fill(&mut random).expect("the operating system gives random bytes");
    random.iter().map(|byte| ID_LETTERS[usize::from(byte & 31)] as char).collect()
}

/// Work that takes as long as these bytes are many, off the runtime unless they are few.
pub(crate) async fn unless_small<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    if bytes <= INLINE_BYTES_MAX {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await.map_err(|error| Problem::internal(error.to_string()))
}

async fn answer<T: Serialize>(
    bytes: usize,
    body: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Answered {
    let json = move || {
        let body = body().map_err(failed)?;
        serde_json::to_vec(&body).map_err(|error| Problem::internal(error.to_string()))
    };
    let json = unless_small(bytes, json).await??;
    Ok(respond(json))
}

fn respond(json: Vec<u8>) -> Response {
    ([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")], json).into_response()
}

fn failed(error: StoreError) -> Problem {
    Problem::internal(error.to_string())
}

fn no_page(error: ListError) -> Problem {
    match error {
        ListError::Refused(refusal) => commands::problem(refusal),
        ListError::Store(error) => failed(error),
    }
}
