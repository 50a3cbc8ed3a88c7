//! Leaderboards: `/v1/boards`, and `/v1/players/{player}/ban`.

pub(crate) mod params;
pub(crate) mod requests;
pub(crate) mod responses;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::{Router, routing};
use hyper::{Request, Uri};
use liveops::Command;
use liveops::boards::{self, BoardQuery, BoardViewer};
use model::batch::KeyClass;
use pipeline::catalog::{Access, Scope};
use pipeline::time::{now_ms, now_s};
use serde::Serialize;
use utoipa::OpenApi;

use super::commands::{self, BODY_BYTES_MAX, CommandRequest, HandlerResult, Rights};
use super::json::json_response;
use crate::auth::{self, Credentials};
use crate::{AppState, RuntimeState};
use params::BoardListParams;
use requests::{BanPlayerRequest, DecideScoreRequest, PutBoardRequest, ScoreDecision, SubmitScoreRequest};

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new()
        .route("/v1/boards", routing::get(all))
        .route("/v1/boards/{table}", routing::get(one).put(put))
        .route("/v1/boards/{table}/reset", routing::post(reset))
        .route("/v1/boards/{table}/scores", routing::get(list).post(submit))
        .route("/v1/boards/{table}/scores:saveAndList", routing::post(submit_and_list))
        .route("/v1/boards/{table}/quarantine", routing::get(quarantine))
        .route("/v1/boards/{table}/quarantine/{id}", routing::post(decide))
        .route("/v1/players/{player}/ban", routing::put(ban).delete(lift))
}

/// The operations of this module in the OpenAPI description.
#[derive(OpenApi)]
#[openapi(paths(put, all, one, reset, submit, submit_and_list, list, quarantine, decide, ban, lift))]
pub(crate) struct BoardsApi;

/// Credentials that may change boards.
const WRITERS: Rights = Rights::Server(Scope::ScoresWrite);
/// Credentials that may moderate scores and players.
const MODERATORS: Rights = Rights::Server(Scope::LevelsModerate);
/// Credentials that may submit scores; the board's mode decides which scores are accepted.
const PLAYERS: Rights = Rights::Public(Scope::ScoresWrite);

/// Creates a board or changes its settings. Once the board has scores, `order`, `keep` and `decimals` cannot change.
#[utoipa::path(
    put, path = "/v1/boards/{table}", operation_id = "put_board", tag = "boards", security(("secret_key" = [])),
    params(("table" = String, Path, description = "1 to 100 letters, digits, `.`, `_` or `-`.", example = "high-scores")),
    request_body(content = PutBoardRequest, example = json!({
        "title": "High scores", "order": "desc", "keep": "best", "mode": "open", "filters": ["level"], "max": 1000000
    })),
    responses(
        (status = 201, description = "The board was created.", body = responses::Board),
        (status = 200, description = "The settings were changed.", body = responses::Board),
        (status = 409, description = "The board already has scores, which were ranked differently."),
    ),
)]
pub(crate) async fn put(
    State(runtime): State<RuntimeState>,
    Path(table): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let request: CommandRequest<PutBoardRequest> =
        runtime.read_command(request, WRITERS, BODY_BYTES_MAX).await?;
    let (request, body) = request.split();
    let define = boards::BoardCommand::Define { table, change: body.change()? };
    runtime.submit(request, Command::Boards(define)).await
}

/// Lists the boards. Private boards are listed for secret keys only.
#[utoipa::path(
    get, path = "/v1/boards", operation_id = "boards", tag = "boards",
    security(("public_key" = []), ("secret_key" = [])),
    responses((status = 200, description = "The boards, sorted by name.", body = responses::BoardList)),
)]
pub(crate) async fn all(
    State(shared): State<Arc<AppState>>,
    uri: Uri,
    credentials: Credentials,
) -> HandlerResult {
    #[derive(Serialize)]
    struct BoardsBody<T> {
        boards: T,
    }
    let access = credentials.authorize_read(&shared.catalog, now_s())?;
    params::read_code(uri.query().unwrap_or_default())?;
    let game = shared.views.liveops.game(access.game.number);
    let boards = game.read().boards.boards(visibility(&access, &None));
    json_response(&BoardsBody { boards })
}

/// Returns the settings of a board.
#[utoipa::path(
    get, path = "/v1/boards/{table}", operation_id = "board", tag = "boards",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("table" = String, Path, description = "The board.", example = "high-scores"),
        ("code" = Option<String>, Query, description = "Access code of a private board."),
    ),
    responses(
        (status = 200, description = "The board.", body = responses::Board),
        (status = 404, description = "No such board, or it is private."),
    ),
)]
pub(crate) async fn one(
    State(shared): State<Arc<AppState>>,
    Path(table): Path<String>,
    uri: Uri,
    credentials: Credentials,
) -> HandlerResult {
    let access = credentials.authorize_read(&shared.catalog, now_s())?;
    let code = params::read_code(uri.query().unwrap_or_default())?;
    let game = shared.views.liveops.game(access.game.number);
    let board =
        game.read().boards.board(&table, visibility(&access, &code)).map_err(commands::refusal_problem)?;
    json_response(&board)
}

/// Closes the current season of a board and starts the next. The last 12 closed seasons stay readable.
#[utoipa::path(
    post, path = "/v1/boards/{table}/reset", operation_id = "reset_board", tag = "boards",
    security(("secret_key" = [])),
    params(("table" = String, Path, description = "The board.", example = "high-scores")),
    responses(
        (status = 200, description = "`{table, season}` with the number of the new season.", body = serde_json::Value),
        (status = 404, description = "No such board."),
    ),
)]
pub(crate) async fn reset(
    State(runtime): State<RuntimeState>,
    Path(table): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let request = runtime.read_command_without_body(request, WRITERS).await?;
    runtime.submit(request, Command::Boards(boards::BoardCommand::Reset { table })).await
}

/// Submits a score to all windows of a board. A board that does not exist is created: with mode `session` for a signed
/// score, with mode `server` for a secret key.
#[utoipa::path(
    post, path = "/v1/boards/{table}/scores", operation_id = "submit_score", tag = "boards",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("table" = String, Path, description = "The board.", example = "high-scores"),
        ("code" = Option<String>, Query, description = "Access code of a private board."),
        ("X-Playmeter-Signature" = Option<String>, Header, description = "Signature with the player's session."),
    ),
    request_body(content = SubmitScoreRequest, example = json!({
        "player": "bo", "name": "Bo", "score": 1200, "fields": {"level": "cave"}
    })),
    responses(
        (status = 200, description = "The outcome, with the player's ranks.", body = responses::SubmittedScore),
        (status = 401, description = "The board accepts only signed scores."),
        (status = 403, description = "The board accepts scores only from servers, or the player is banned."),
    ),
)]
pub(crate) async fn submit(
    State(runtime): State<RuntimeState>,
    Path(table): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let query = request.uri().query().unwrap_or_default().to_owned();
    let request: CommandRequest<SubmitScoreRequest> =
        runtime.read_command(request, PLAYERS, BODY_BYTES_MAX).await?;
    let (request, body) = request.split();
    let score = body.score(params::read_code(&query)?)?;
    runtime.submit(request, Command::Boards(boards::BoardCommand::Submit { table, score, list: None })).await
}

/// Submits a score and returns the page that contains it, with its row marked.
#[utoipa::path(
    post, path = "/v1/boards/{table}/scores:saveAndList", operation_id = "submit_and_list", tag = "boards",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("table" = String, Path, description = "The board.", example = "high-scores"),
        ("window" = Option<String>, Query, description = "As in `list_scores`.", example = "day"),
        ("per_page" = Option<u32>, Query, minimum = 1, maximum = 1_000, description = "Rows per page, 1 to 1,000. Default: 20."),
        ("filter.FIELD" = Option<String>, Query, description = "As in `list_scores`."),
        ("source" = Option<String>, Query, description = "As in `list_scores`."),
        ("friends" = Option<String>, Query, description = "As in `list_scores`."),
        ("highest" = Option<bool>, Query, description = "As in `list_scores`."),
        ("code" = Option<String>, Query, description = "Access code of a private board."),
        ("X-Playmeter-Signature" = Option<String>, Header, description = "Signature with the player's session."),
    ),
    request_body(content = SubmitScoreRequest, example = json!({"player": "ann", "score": 1100})),
    responses(
        (status = 200, description = "The outcome, and the fields of a page.", body = responses::SubmittedScore),
        (status = 401, description = "The board accepts only signed scores."),
        (status = 403, description = "The board accepts scores only from servers, or the player is banned."),
    ),
)]
pub(crate) async fn submit_and_list(
    State(runtime): State<RuntimeState>,
    Path(table): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let query_string = request.uri().query().unwrap_or_default().to_owned();
    let request: CommandRequest<SubmitScoreRequest> =
        runtime.read_command(request, PLAYERS, BODY_BYTES_MAX).await?;
    let (request, body) = request.split();
    let BoardListParams { query, followed_by, code } = BoardListParams::read(&query_string)?;
    let query = with_follows(&runtime.shared, &request.access, query, followed_by);
    let score = body.score(code)?;
    let submit = boards::BoardCommand::Submit { table, score, list: Some(Box::new(query)) };
    runtime.submit(request, Command::Boards(submit)).await
}

/// Returns a page of a board.
#[utoipa::path(
    get, path = "/v1/boards/{table}/scores", operation_id = "list_scores", tag = "boards",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("table" = String, Path, description = "The board.", example = "high-scores"),
        ("window" = Option<String>, Query, example = "all", description = "`day`, `week` or `month` in the game's \
            time zone, `season`, `all`, `24h`, `7d` or `30d`. Default: the longest window of the board."),
        ("at" = Option<String>, Query, description = "Returns the past day, week or month that contains this time. The last \
            7 days, 4 weeks and 12 months with scores stay readable."),
        ("season" = Option<u32>, Query, minimum = 1, description = "Number of a closed season. The last 12 stay readable."),
        ("page" = Option<u32>, Query, minimum = 1, maximum = 1_000_000, description = "Page number, starting at 1."),
        ("per_page" = Option<u32>, Query, minimum = 1, maximum = 1_000, example = 20, description = "Rows per page, 1 to 1,000. Default: 20."),
        ("by" = Option<String>, Query, description = "Order: `score` (default) or `newest`, which covers the newest \
            10,000 scores. `mode` is an alias."),
        ("highest" = Option<bool>, Query, description = "True: highest scores first. False: lowest first. Default: the order of the board."),
        ("around" = Option<String>, Query, description = "Returns the page with this player in the middle."),
        ("friends" = Option<String>, Query, description = "Ranks only these players: ids separated by commas, or \
            `follows:PLAYER`."),
        ("filter.FIELD" = Option<String>, Query, description = "Ranks only scores with this value in a field that \
            the board declares as a filter."),
        ("source" = Option<String>, Query, description = "Ranks only scores from this source."),
        ("player" = Option<String>, Query, description = "Only scores of this player, including those waiting for a moderator."),
        ("code" = Option<String>, Query, description = "Access code of a private board."),
    ),
    responses(
        (status = 200, description = "The page.", body = responses::BoardPage),
        (status = 404, description = "No such board or season, or the board is private."),
    ),
)]
pub(crate) async fn list(
    State(shared): State<Arc<AppState>>,
    Path(table): Path<String>,
    uri: Uri,
    credentials: Credentials,
) -> HandlerResult {
    let access = credentials.authorize_read(&shared.catalog, now_s())?;
    let BoardListParams { query, followed_by, code } =
        BoardListParams::read(uri.query().unwrap_or_default())?;
    let query = with_follows(&shared, &access, query, followed_by);
    let (game, now_ms) = (shared.views.liveops.game(access.game.number), now_ms());
    if game.read().boards.needs_advance(&table, now_ms) {
        game.write().boards.advance(&table, now_ms);
    }
    let page = game.read().boards.page(&table, visibility(&access, &code), &query, now_ms);
    json_response(&page.map_err(commands::refusal_problem)?)
}

/// Lists the scores of a board that failed a check and wait for a moderator, oldest first.
#[utoipa::path(
    get, path = "/v1/boards/{table}/quarantine", operation_id = "quarantine", tag = "boards",
    security(("secret_key" = [])),
    params(("table" = String, Path, description = "The board.", example = "high-scores")),
    responses(
        (status = 200, description = "The scores with the evidence.", body = responses::BoardQuarantine),
        (status = 404, description = "No such board."),
    ),
)]
pub(crate) async fn quarantine(
    State(shared): State<Arc<AppState>>,
    Path(table): Path<String>,
    uri: Uri,
    credentials: Credentials,
) -> HandlerResult {
    #[derive(Serialize)]
    struct QuarantineBody<T> {
        items: T,
    }
    let access = credentials.authorize_read(&shared.catalog, now_s())?;
    let access = auth::allow(access, Scope::LevelsModerate)?;
    params::read_code(uri.query().unwrap_or_default())?;
    let game = shared.views.liveops.game(access.game.number);
    let items = game.read().boards.quarantine(&table).map_err(commands::refusal_problem)?;
    json_response(&QuarantineBody { items })
}

/// Accepts a quarantined score, as of its submission, or rejects it.
#[utoipa::path(
    post, path = "/v1/boards/{table}/quarantine/{id}", operation_id = "decide_score", tag = "boards",
    security(("secret_key" = [])),
    params(
        ("table" = String, Path, description = "The board.", example = "high-scores"),
        ("id" = String, Path, description = "The score.", example = "1"),
    ),
    request_body(content = DecideScoreRequest, example = json!({"decision": "reject"})),
    responses(
        (status = 200, description = "`{id, decision}`", body = serde_json::Value),
        (status = 404, description = "No such score in quarantine."),
    ),
)]
pub(crate) async fn decide(
    State(runtime): State<RuntimeState>,
    Path((table, id)): Path<(String, String)>,
    request: Request<Body>,
) -> HandlerResult {
    let request: CommandRequest<DecideScoreRequest> =
        runtime.read_command(request, MODERATORS, BODY_BYTES_MAX).await?;
    let accept = request.body.decision == ScoreDecision::Accept;
    runtime.submit(request, Command::Boards(boards::BoardCommand::Decide { table, id, accept })).await
}

/// Bans a player: the player is hidden from all leaderboards, and new scores are rejected.
#[utoipa::path(
    put, path = "/v1/players/{player}/ban", operation_id = "ban_player", tag = "players",
    security(("secret_key" = [])),
    params(("player" = String, Path, description = "The player.", example = "eve")),
    request_body(content = BanPlayerRequest, example = json!({"reason": "a thousand points a second"})),
    responses((status = 204, description = "The player is banned.")),
)]
pub(crate) async fn ban(
    State(runtime): State<RuntimeState>,
    Path(player): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let request: CommandRequest<BanPlayerRequest> =
        runtime.read_command(request, MODERATORS, BODY_BYTES_MAX).await?;
    let (request, BanPlayerRequest { reason }) = request.split();
    runtime.submit(request, Command::Boards(boards::BoardCommand::Ban { player, reason })).await
}

/// Lifts a ban: the player's scores are ranked again.
#[utoipa::path(
    delete, path = "/v1/players/{player}/ban", operation_id = "lift_ban", tag = "players",
    security(("secret_key" = [])),
    params(("player" = String, Path, description = "The player.", example = "eve")),
    responses(
        (status = 204, description = "The ban was lifted."),
        (status = 404, description = "The player was not banned."),
    ),
)]
pub(crate) async fn lift(
    State(runtime): State<RuntimeState>,
    Path(player): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let request = runtime.read_command_without_body(request, MODERATORS).await?;
    runtime.submit(request, Command::Boards(boards::BoardCommand::Lift { player })).await
}

/// Secret keys see all boards; public keys see public boards and those whose access code they send.
fn visibility<'a>(access: &Access, code: &'a Option<String>) -> BoardViewer<'a> {
    match access.class {
        KeyClass::Secret => BoardViewer::All,
        KeyClass::Public => BoardViewer::Public(code.as_deref()),
    }
}

fn with_follows(
    shared: &AppState,
    access: &Access,
    query: BoardQuery,
    followed_by: Option<String>,
) -> BoardQuery {
    let Some(player) = followed_by else { return query };
    let game = shared.views.liveops.game(access.game.number);
    let friends = game.read().feed.follows(&player).into_iter().map(str::to_owned).collect();
    BoardQuery { friends: Some(friends), ..query }
}
