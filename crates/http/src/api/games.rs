//! Games, for the owner of the installation: list, create, change, archive, restore, export and delete.
//!
//! A key belongs to one game, so only a signed-in person may use these routes, except the export; on the server there is
//! `playmeter games`.

mod tar;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use hyper::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use hyper::{Request, StatusCode};
use pipeline::catalog::{Catalog, CatalogError, DeletedGame, Game, GameChange, Scope, SettingsChange, given};
use pipeline::deleted_games::delete_game;
use pipeline::game_export::GameExport;
use pipeline::time::{now_ms, now_s, rfc3339};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::{OpenApi, ToSchema};

use super::commands::{HandlerResult, is_json};
use super::export_stream;
use super::json::from_json;
use super::openapi::schemas;
use crate::auth::{self, Credentials};
use crate::body::{self, BodyLimits};
use crate::problem::Problem;
use crate::{AppState, RuntimeState};
use tar::TarWriter;

/// Limit for a body.
const BODY_BYTES_MAX: usize = 16 << 10;

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new()
        .route("/v1/games", routing::get(list).post(create))
        .route("/v1/games/{game}", routing::patch(change).delete(delete))
        .route("/v1/games/{game}/export", routing::get(export))
}

/// The operations of this module in the OpenAPI description.
#[derive(OpenApi)]
#[openapi(paths(list, create, change, delete, export))]
pub(crate) struct GamesApi;

/// All games.
#[derive(Serialize, ToSchema)]
pub(crate) struct GameList {
    /// Oldest first.
    games: Vec<GameRow>,
    /// The games that were deleted and whose data is still being removed from the files.
    deleting: Vec<DeletingGame>,
}

/// A deleted game whose data is being removed.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeletingGame {
    /// Its id. A new game can have it when everything is removed.
    id: String,
    /// Time of the request (RFC 3339).
    deleted_at: String,
}

impl From<&DeletedGame> for DeletingGame {
    fn from(game: &DeletedGame) -> DeletingGame {
        DeletingGame { id: game.id.clone(), deleted_at: rfc3339(game.deleted_s as i64 * 1000) }
    }
}

/// The confirmation of a deletion.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteGameRequest {
    /// The display name of the game.
    confirm: String,
}

/// A game.
#[derive(Serialize, ToSchema)]
pub(crate) struct GameRow {
    /// Its id in routes and commands.
    id: String,
    /// Its display name.
    name: String,
    /// The IANA time zone of its days, weeks and months.
    tz: String,
    /// Its public key, which is in every client.
    public_key: String,
    /// Time since which it accepts no writes (RFC 3339); null unless it is archived.
    archived_at: Option<String>,
    /// True if keys with the scope `export` may export the raw events.
    export: bool,
    /// The days for which its raw events are kept: 0 for ever, null as long as `archive.events_days` of the settings says.
    events_days: Option<u32>,
}

impl From<&Game> for GameRow {
    fn from(game: &Game) -> GameRow {
        GameRow {
            id: game.id.clone(),
            name: game.name.clone(),
            tz: game.tz.clone(),
            public_key: game.public_key.clone(),
            archived_at: game.archived_s.map(|archived_s| rfc3339(archived_s as i64 * 1000)),
            export: game.settings.export,
            events_days: game.settings.events_days,
        }
    }
}

/// A new game.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateGameRequest {
    /// Its id in routes and commands: 1 to 40 lower-case letters, digits and `-`.
    id: String,
    /// Its display name; the id if it is not given.
    name: Option<String>,
    /// The IANA time zone of its days, weeks and months; UTC if it is not given.
    tz: Option<String>,
}

/// Changes to a game. What is not given stays unchanged.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangeGameRequest {
    /// The new display name.
    name: Option<String>,
    /// True to archive the game, false to restore it.
    archived: Option<bool>,
    /// True to let keys with the scope `export` export the raw events.
    export: Option<bool>,
    /// The days for which its raw events are kept, up to 36500: 0 for ever, null as long as `archive.events_days` of the
    /// settings says. Older ones are deleted once the clock of the server has run
    /// steadily for an hour.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u32>, maximum = 36_500)]
    events_days: Option<Option<u32>>,
}

/// Lists all games of the installation.
#[utoipa::path(
    get, path = "/v1/games", operation_id = "list_games", tag = "games", security(("sign_in" = [])),
    responses((status = 200, description = "All games, oldest first.", body = GameList)),
)]
pub(crate) async fn list(State(shared): State<Arc<AppState>>, credentials: Credentials) -> HandlerResult {
    credentials.authorize_owner(&shared.catalog, now_s())?;
    let games = shared.catalog.games().iter().map(GameRow::from).collect();
    let deleting = shared.catalog.deleted_games().iter().map(DeletingGame::from).collect();
    json_with_status(StatusCode::OK, &GameList { games, deleting })
}

/// Creates a game with a public key of its own. Secret keys are created with `playmeter keys create`.
#[utoipa::path(
    post, path = "/v1/games", operation_id = "create_game", tag = "games", security(("sign_in" = [])),
    request_body(content = CreateGameRequest, example = json!({ "id": "word-game", "name": "Word game", "tz": "Europe/Paris" })),
    responses((status = 201, description = "The new game.", body = GameRow)),
)]
pub(crate) async fn create(State(runtime): State<RuntimeState>, request: Request<Body>) -> HandlerResult {
    let CreateGameRequest { id, name, tz } = read(&runtime.shared, request).await?;
    let name = name.unwrap_or_else(|| id.clone());
    let tz = tz.unwrap_or_else(|| "UTC".to_owned());
    let game = update(&runtime.shared, move |catalog| catalog.create_game(&id, &name, &tz)).await?;
    json_with_status(StatusCode::CREATED, &GameRow::from(&game))
}

/// Renames, archives or restores a game, sets how long its raw events are kept, or allows them to be exported.
///
/// The keys of an archived game are rejected for writing with 403 and the type `/problems/archived`; its data can be read.
/// Players can still be erased.
#[utoipa::path(
    patch, path = "/v1/games/{game}", operation_id = "change_game", tag = "games", security(("sign_in" = [])),
    params(("game" = String, Path, description = "The game's id.", example = "word-game")),
    request_body(content = ChangeGameRequest, example = json!({ "name": "Word game 2", "archived": true, "events_days": 365 })),
    responses((status = 200, description = "The changed game.", body = GameRow)),
)]
pub(crate) async fn change(
    State(runtime): State<RuntimeState>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let shared = &runtime.shared;
    let ChangeGameRequest { name, archived, export, events_days } = read(shared, request).await?;
    shared.catalog.game(&id).ok_or_else(|| no_such_game(&id))?;
    let settings = SettingsChange { export, events_days, ..SettingsChange::default() };
    let change = GameChange { name, settings, archived };
    let game = update(shared, move |catalog| catalog.change_game(&id, change, now_s())).await?;
    json_with_status(StatusCode::OK, &GameRow::from(&game))
}

/// Deletes an archived game with everything that is stored about it. This cannot be undone.
///
/// Its keys are invalid at once. Its data is removed from all files in the background; `deleting` of `GET /v1/games` lists the
/// game until that is done. Export it first. Backups keep it as long as they exist.
#[utoipa::path(
    delete, path = "/v1/games/{game}", operation_id = "delete_game", tag = "games", security(("sign_in" = [])),
    params(("game" = String, Path, description = "The game's id.", example = "word-game")),
    request_body(content = DeleteGameRequest, example = json!({ "confirm": "Word game 2" })),
    responses((status = 202, description = "The game is deleted; its data is being removed.", body = DeletingGame)),
)]
pub(crate) async fn delete(
    State(runtime): State<RuntimeState>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let shared = &runtime.shared;
    let DeleteGameRequest { confirm } = read(shared, request).await?;
    shared.catalog.game(&id).ok_or_else(|| no_such_game(&id))?;
    let views = Arc::clone(&shared.views);
    let deleted = update(shared, move |catalog| delete_game(catalog, &views, &id, &confirm)).await?;
    json_with_status(StatusCode::ACCEPTED, &DeletingGame::from(&deleted))
}

/// Exports everything that is stored about a game, as a tar archive.
///
/// `events/` has the events in the log, oldest first, as `playmeter import` reads them; `rollups/` one line per metric, hour
/// and value of a dimension; further folders live-ops. The archive is complete if `summary.json` is in it.
#[utoipa::path(
    get, path = "/v1/games/{game}/export", operation_id = "export_game", tag = "games",
    security(("secret_key" = []), ("sign_in" = [])),
    params(("game" = String, Path, description = "The game's id, which is that of the key.", example = "demo")),
    responses((status = 200, description = "The archive.", body = schemas::TarArchive, content_type = "application/octet-stream")),
)]
pub(crate) async fn export(
    State(runtime): State<RuntimeState>,
    Path(id): Path<String>,
    credentials: Credentials,
) -> HandlerResult {
    let shared = Arc::clone(&runtime.shared);
    let game = match credentials.authorize_key(&shared.catalog, now_s())? {
        Some(access) => Some(auth::allow(access, Scope::Export)?.game).filter(|game| game.id == id),
        None => {
            credentials.authorize_owner(&shared.catalog, now_s())?;
            shared.catalog.game(&id)
        }
    };
    let game = game.ok_or_else(|| no_such_game(&id))?;
    let busy = || Problem::overloaded("other exports are running").retry_after_s(10);
    let permit = Arc::clone(&shared.erasure.exports).try_acquire_owned().map_err(|_| busy())?;
    let until = shared.log.durable_until();
    shared.views.caught_up(until).await?;
    let headers = [
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
        (CACHE_CONTROL, "no-store".to_owned()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"{id}.tar\"")),
    ];
    let body = export_stream::stream(shared, permit, "a game", move |shared, out| {
        let requested_ms = now_ms();
        let is_stopping = || *shared.stopping.borrow();
        let (views, log) = (&*shared.views, &shared.log);
        let export = GameExport { game: &game, views, log, until, requested_ms, is_stopping: &is_stopping };
        let mut archive = TarWriter { out, folder: game.id.clone(), time_s: now_s() };
        export.write(&mut archive)?;
        archive.finish()
    });
    Ok((headers, body).into_response())
}

/// Reads a write of the owner, whose body is a JSON object with the fields of `T` and no others.
async fn read<T: DeserializeOwned>(shared: &AppState, request: Request<Body>) -> Result<T, Problem> {
    let (head, mut incoming) = request.into_parts();
    let limits = BodyLimits { bytes: BODY_BYTES_MAX, inflated_bytes: BODY_BYTES_MAX };
    let read = async {
        Credentials::from(&head).authorize_owner_write(&shared.catalog, now_s())?;
        is_json(&head.headers)?;
        from_json(&body::read(&head, &mut incoming, limits).await?)
    };
    let read = read.await;
    if let Err(problem) = &read {
        body::discard(&head.headers, incoming, problem);
    }
    read
}

/// Changes the catalog, which waits for the disk.
async fn update<T: Send + 'static>(
    shared: &Arc<AppState>,
    change: impl FnOnce(&Catalog) -> Result<T, CatalogError> + Send + 'static,
) -> Result<T, Problem> {
    let shared = Arc::clone(shared);
    let changed = tokio::task::spawn_blocking(move || change(&shared.catalog)).await;
    changed.map_err(|error| Problem::internal(error.to_string()))?.map_err(|error| match error {
        CatalogError::Invalid { field, message } => Problem::invalid(message).field(field),
        error => Problem::internal(error.to_string()),
    })
}

fn no_such_game(id: &str) -> Problem {
    Problem::not_found(format!("no such game: `{id}`")).field("game")
}

fn json_with_status(status: StatusCode, body: &impl Serialize) -> Result<Response, Problem> {
    let json = serde_json::to_vec(body).map_err(|error| Problem::internal(error.to_string()))?;
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    Ok((status, headers, json).into_response())
}
