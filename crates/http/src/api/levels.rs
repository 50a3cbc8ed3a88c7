//! Player levels: `/v1/levels`, and `/v1/moderation` for flagged levels.

pub(crate) mod params;
pub(crate) mod requests;
pub(crate) mod responses;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use hyper::Request;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};
use hyper::http::request::Parts;
use liveops::Command;
use liveops::levels::{
    self, DATA_BYTES_MAX, LevelRow, LevelViewer, ListError, LoadedLevel, ModerationItem, PackedLevel,
};
use model::ports::counters::StoreError;
use pipeline::catalog::{Access, Scope};
use pipeline::time::{now_ms, now_s};
use serde::Serialize;
use utoipa::OpenApi;

use super::commands::{self, BODY_BYTES_MAX, CommandRequest, HandlerResult, Rights};
use super::signature::verify_signature;
use crate::auth::{self, Credentials};
use crate::problem::Problem;
use crate::{AppState, RuntimeState};
use params::LevelListParams;
use requests::{
    FlagLevelRequest, ModerateLevelRequest, RateLevelRequest, SaveLevelRequest, SetLevelStateRequest,
};

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new()
        .route("/v1/levels", routing::get(list).post(save))
        .route("/v1/levels/{id}", routing::get(load).patch(set_state))
        .route("/v1/levels/{id}/rating", routing::post(rate))
        .route("/v1/levels/{id}/flags", routing::post(flag))
        .route("/v1/moderation", routing::get(queue))
        .route("/v1/moderation/{id}", routing::post(decide))
}

/// The operations of this module in the OpenAPI description.
#[derive(OpenApi)]
#[openapi(paths(save, load, list, set_state, rate, flag, queue, decide))]
pub(crate) struct LevelsApi;

/// Limit for the body of a level: every byte of its data may be a JSON escape of six bytes.
const SAVE_BYTES_MAX: usize = 6 * DATA_BYTES_MAX + BODY_BYTES_MAX;
/// Larger data is compressed on a blocking thread, so that other connections of the runtime do not wait.
const INLINE_BYTES_MAX: usize = 64 << 10;
/// An id has 60 random bits, in letters that are hard to confuse.
const ID_LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const ID_BYTES: usize = 12;

/// Any client with the game's public key, and servers.
const PLAYERS: Rights = Rights::Public(Scope::ScoresWrite);

/// Saves a level. If the player has already saved the same name and data, that level is returned.
#[utoipa::path(
    post, path = "/v1/levels", operation_id = "save_level", tag = "levels",
    security(("public_key" = []), ("secret_key" = [])),
    request_body(content = SaveLevelRequest, example = json!({
        "name": "The cave", "data": "###..#\n#....#", "player": "bo", "player_name": "Bo", "fields": {"size": "small"}
    })),
    responses(
        (status = 201, description = "The level was saved.", body = responses::SavedLevel),
        (status = 200, description = "The player had already saved this level.", body = responses::SavedLevel),
        (status = 422, description = "The game or the player has reached the limit of levels."),
    ),
)]
pub(crate) async fn save(State(runtime): State<RuntimeState>, request: Request<Body>) -> HandlerResult {
    let request: CommandRequest<SaveLevelRequest> =
        runtime.read_command(request, PLAYERS, SAVE_BYTES_MAX).await?;
    let (request, level) = request.split();
    let SaveLevelRequest { name, data, player, player_name, fields, thumb, source, state } = level;
    let bytes = data.len();
    let pack = move || PackedLevel::new(&data, thumb.as_deref());
    let packed = run_blocking_if_large(bytes, pack).await?.map_err(commands::refusal_problem)?;
    let PackedLevel { data, thumb, blob } = packed;
    let (id, state) = (random_level_id(), state.into());
    let save = levels::SaveLevel { id, name, player, player_name, fields, source, state, data, thumb };
    runtime.submit_with_blob(request, Command::Levels(levels::LevelCommand::Save(save)), &blob).await
}

/// Returns a level with its data. Drafts and removed levels are visible to their creators (signed requests) and
/// moderators.
#[utoipa::path(
    get, path = "/v1/levels/{id}", operation_id = "load_level", tag = "levels",
    security(("public_key" = []), ("secret_key" = [])),
    params(("id" = String, Path, description = "The level.")),
    responses(
        (status = 200, description = "The level.", body = responses::Level),
        (status = 404, description = "No such level, or it is not visible to you."),
    ),
)]
pub(crate) async fn load(
    State(runtime): State<RuntimeState>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let (shared, (head, _)) = (&*runtime.shared, request.into_parts());
    let (access, viewer) = authorize_viewer(shared, &head)?;
    // The counters must include every event acknowledged before this request.
    shared.views.caught_up(shared.log.durable_until()).await?;
    let game = shared.views.liveops.game(access.game.number);
    let found = game.read().levels.load(&id, &viewer).map_err(store_problem)?;
    let found = found.ok_or_else(|| Problem::not_found("no such level").field("id"))?;
    respond(found.bytes(), move || found.row()).await
}

/// Lists published levels, the best or newest first. Ties are broken by the number of votes, then by age, newest first.
#[utoipa::path(
    get, path = "/v1/levels", operation_id = "list_levels", tag = "levels",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("mode" = Option<String>, Query, example = "popular", description = "Order: `popular` by all votes (default), \
            `newest`, `recent` by the last 100 votes of each level, or `today`, `yesterday`, `7d`, `30d`, `90d` by the \
            votes of these days in the game's time zone, which list only levels with such votes."),
        ("filter.FIELD" = Option<String>, Query, description = "Only levels with this value in a field. All filters must match."),
        ("friends" = Option<String>, Query, description = "Only levels by these players: ids separated by commas, or \
            `follows:PLAYER` for the players that this player follows."),
        ("player" = Option<String>, Query, description = "Only levels by this player."),
        ("source" = Option<String>, Query, description = "Only levels from this source."),
        ("from" = Option<String>, Query, description = "Only levels created at this time or later."),
        ("to" = Option<String>, Query, description = "Only levels created before this time."),
        ("state" = Option<String>, Query, description = "`published` (default), or `all` together with `player`, for \
            the player and moderators."),
        ("data" = Option<bool>, Query, description = "True: include the data of the levels, up to 8 MiB per page."),
        ("thumbs" = Option<bool>, Query, description = "False: leave out the pictures."),
        ("page" = Option<u64>, Query, minimum = 1, maximum = 1_000_000, description = "Page number, starting at 1."),
        ("per_page" = Option<u64>, Query, minimum = 1, maximum = 1_000, example = 20, description = "Items per page, 1 to 1,000. Default: 20."),
    ),
    responses((status = 200, description = "A page of levels, with the total on all pages.", body = responses::LevelPage)),
)]
pub(crate) async fn list(State(runtime): State<RuntimeState>, request: Request<Body>) -> HandlerResult {
    #[derive(Serialize)]
    struct LevelPageBody {
        levels: Vec<LevelRow>,
        total: usize,
        page: u64,
        per_page: u64,
    }
    let (shared, (head, _)) = (&*runtime.shared, request.into_parts());
    let (access, viewer) = authorize_viewer(shared, &head)?;
    let LevelListParams { mut list, followed_by } =
        LevelListParams::read(head.uri.query().unwrap_or_default(), viewer)?;
    let game = shared.views.liveops.game(access.game.number);
    let levels::LevelPage { total, levels } = {
        let game = game.read();
        if let Some(player) = followed_by {
            list.friends = Some(game.feed.follows(&player).into_iter().map(str::to_owned).collect());
        }
        game.levels.list(&list, now_ms(), &access.game.tz).map_err(list_problem)?
    };
    let bytes = levels.iter().map(LoadedLevel::bytes).sum();
    let page = move || {
        let levels = levels.into_iter().map(LoadedLevel::row).collect::<Result<_, StoreError>>()?;
        Ok(LevelPageBody { levels, total, page: list.page, per_page: list.per_page })
    };
    respond(bytes, page).await
}

/// Publishes, unpublishes or permanently removes a level. Needs a moderator's key or a signed request of its creator.
#[utoipa::path(
    patch, path = "/v1/levels/{id}", operation_id = "set_level_state", tag = "levels",
    security(("public_key" = []), ("secret_key" = [])),
    params(("id" = String, Path, description = "The level.")),
    request_body(content = SetLevelStateRequest, example = json!({"state": "published"})),
    responses(
        (status = 200, description = "The level.", body = responses::Level),
        (status = 403, description = "The level belongs to another player."),
        (status = 409, description = "The level was permanently removed."),
    ),
)]
pub(crate) async fn set_state(
    State(runtime): State<RuntimeState>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let rights = Rights::Signed(Scope::LevelsModerate);
    let request: CommandRequest<SetLevelStateRequest> =
        runtime.read_command(request, rights, BODY_BYTES_MAX).await?;
    let state = request.body.state;
    runtime.submit(request, Command::Levels(levels::LevelCommand::SetState { id, state })).await
}

/// Rates a level. A player has one vote per level. A new vote replaces the earlier one and keeps its day.
#[utoipa::path(
    post, path = "/v1/levels/{id}/rating", operation_id = "rate_level", tag = "levels",
    security(("public_key" = []), ("secret_key" = [])),
    params(("id" = String, Path, description = "The level.")),
    request_body(content = RateLevelRequest, example = json!({"player": "ann", "rating": 9})),
    responses(
        (status = 201, description = "This is the player's first vote on the level.", body = responses::LevelRating),
        (status = 200, description = "An earlier vote of the player was replaced.", body = responses::LevelRating),
    ),
)]
pub(crate) async fn rate(
    State(runtime): State<RuntimeState>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let request: CommandRequest<RateLevelRequest> =
        runtime.read_command(request, PLAYERS, BODY_BYTES_MAX).await?;
    let (request, RateLevelRequest { player, rating }) = request.split();
    runtime.submit(request, Command::Levels(levels::LevelCommand::Rate { id, player, rating })).await
}

/// Flags a level for the moderators.
#[utoipa::path(
    post, path = "/v1/levels/{id}/flags", operation_id = "flag_level", tag = "levels",
    security(("public_key" = []), ("secret_key" = [])),
    params(("id" = String, Path, description = "The level.")),
    request_body(content = FlagLevelRequest, example = json!({"player": "ann", "reason": "it is mine"})),
    responses(
        (status = 201, description = "The flag was recorded.", body = responses::LevelFlags),
        (status = 200, description = "The player has already flagged this level.", body = responses::LevelFlags),
    ),
)]
pub(crate) async fn flag(
    State(runtime): State<RuntimeState>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let request: CommandRequest<FlagLevelRequest> =
        runtime.read_command(request, PLAYERS, BODY_BYTES_MAX).await?;
    let (request, FlagLevelRequest { player, reason }) = request.split();
    runtime.submit(request, Command::Levels(levels::LevelCommand::Flag { id, player, reason })).await
}

/// Lists flagged levels that wait for a moderator, the most flagged first.
#[utoipa::path(
    get, path = "/v1/moderation", operation_id = "moderation_queue", tag = "levels", security(("secret_key" = [])),
    params(
        ("page" = Option<u64>, Query, minimum = 1, maximum = 1_000_000, description = "Page number, starting at 1."),
        ("per_page" = Option<u64>, Query, minimum = 1, maximum = 1_000, description = "Items per page, 1 to 1,000. Default: 20."),
    ),
    responses((status = 200, description = "A page of flagged levels, with the total.", body = responses::ModerationQueue)),
)]
pub(crate) async fn queue(State(runtime): State<RuntimeState>, request: Request<Body>) -> HandlerResult {
    #[derive(Serialize)]
    struct QueueBody {
        items: Vec<ModerationItem>,
        total: usize,
        page: u64,
        per_page: u64,
    }
    let (shared, (head, _)) = (&*runtime.shared, request.into_parts());
    let access = Credentials::from(&head).authorize_read(&shared.catalog, now_s())?;
    let access = auth::allow(access, Scope::LevelsModerate)?;
    let (page, per_page) = params::read_page(head.uri.query().unwrap_or_default())?;
    shared.views.caught_up(shared.log.durable_until()).await?;
    let game = shared.views.liveops.game(access.game.number);
    let levels::ModerationQueue { items, total } = game.read().levels.queue(page, per_page);
    respond(0, move || Ok(QueueBody { items, total, page, per_page })).await
}

/// Moderates a flagged level: keeps it and resolves its flags, or permanently removes it.
#[utoipa::path(
    post, path = "/v1/moderation/{id}", operation_id = "moderate_level", tag = "levels",
    security(("secret_key" = [])),
    params(("id" = String, Path, description = "The level.")),
    request_body(content = ModerateLevelRequest, example = json!({"decision": "keep"})),
    responses(
        (status = 200, description = "The level.", body = responses::Level),
        (status = 409, description = "The level has already been removed."),
    ),
)]
pub(crate) async fn decide(
    State(runtime): State<RuntimeState>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let rights = Rights::Server(Scope::LevelsModerate);
    let request: CommandRequest<ModerateLevelRequest> =
        runtime.read_command(request, rights, BODY_BYTES_MAX).await?;
    let decision = request.body.decision;
    runtime.submit(request, Command::Levels(levels::LevelCommand::Decide { id, decision })).await
}

/// Returns the access of a read, and the viewer that decides which levels are visible.
fn authorize_viewer(shared: &AppState, head: &Parts) -> Result<(Access, LevelViewer), Problem> {
    let now_ms = now_ms();
    let access = Credentials::from(head).authorize_read(&shared.catalog, now_ms as u64 / 1000)?;
    if access.may(Scope::LevelsModerate) {
        return Ok((access, LevelViewer::Moderator));
    }
    let Some(signed) = verify_signature(shared, &access, head, &[], now_ms)? else {
        return Ok((access, LevelViewer::Public));
    };
    let game = shared.views.liveops.game(access.game.number);
    let player = game.read().players.session(&signed.session, now_ms).map(|session| session.player.clone());
    Ok((access, player.map_or(LevelViewer::Public, LevelViewer::Player)))
}

pub(crate) fn random_level_id() -> String {
    let mut random = [0; ID_BYTES];
    getrandom::fill(&mut random).expect("the operating system has random bytes");
    random.iter().map(|byte| ID_LETTERS[usize::from(byte & 31)] as char).collect()
}

/// Runs work on this many bytes on a blocking thread, or inline if they are few.
pub(crate) async fn run_blocking_if_large<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    if bytes <= INLINE_BYTES_MAX {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await.map_err(|error| Problem::internal(error.to_string()))
}

async fn respond<T: Serialize>(
    bytes: usize,
    body: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> HandlerResult {
    let json = move || {
        let body = body().map_err(store_problem)?;
        serde_json::to_vec(&body).map_err(|error| Problem::internal(error.to_string()))
    };
    let json = run_blocking_if_large(bytes, json).await??;
    Ok(json_bytes_response(json))
}

fn json_bytes_response(json: Vec<u8>) -> Response {
    ([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")], json).into_response()
}

fn store_problem(error: StoreError) -> Problem {
    Problem::internal(error.to_string())
}

fn list_problem(error: ListError) -> Problem {
    match error {
        ListError::Refused(refusal) => commands::refusal_problem(refusal),
        ListError::Store(error) => store_problem(error),
    }
}
