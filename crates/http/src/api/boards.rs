//! Leaderboards: `/v1/boards`, and `/v1/players/{player}/ban`.

pub mod body;
pub mod parameters;
pub mod shapes;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap};
use hyper::{Request, Uri};
use liveops::Command;
use liveops::boards::{self, BoardQuery, BoardViewer};
use model::batch::KeyClass;
use serde::Serialize;
use utoipa::OpenApi;

use super::commands::{self, Answered, Asked, BODY_BYTES_MAX, Local, Rights};
use crate::AppState;
use crate::auth;
use crate::problem::Problem;
use pipeline::catalog::{Access, Scope};
use pipeline::time::{now_ms, now_s};

use axum::{Router, routing};
use body::{DecideScore, Decision, PostScore, PutBan, PutBoard};

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
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

/// What is documented of this page.
#[derive(OpenApi)]
#[openapi(paths(put, all, one, reset, submit, submit_and_list, list, quarantine, decide, ban, lift))]
pub struct Docs;

/// Who makes boards.
const WRITERS: Rights = Rights::Server(Scope::ScoresWrite);
/// Who decides about scores and players.
const MODERATORS: Rights = Rights::Server(Scope::LevelsModerate);
/// Who submits: what is decided depends on the board's mode.
const PLAYERS: Rights = Rights::Public(Scope::ScoresWrite);

/// Makes a board, or changes its settings. With rows on it, `order`, `keep` and `decimals` stay.
#[utoipa::path(
    put, path = "/v1/boards/{table}", operation_id = "put_board", tag = "boards", security(("secret_key" = [])),
    params(("table" = String, Path, description = "1 to 100 letters, digits, `.`, `_` or `-`.", example = "high-scores")),
    request_body(content = PutBoard, example = json!({
        "title": "High scores", "order": "desc", "keep": "best", "mode": "open", "filters": ["level"], "max": 1000000
    })),
    responses(
        (status = 201, description = "It is there now.", body = shapes::Board),
        (status = 200, description = "It has these settings now.", body = shapes::Board),
        (status = 409, description = "There are rows that were ranked otherwise."),
    ),
)]
pub async fn put(State(local): State<Local>, Path(table): Path<String>, request: Request<Body>) -> Answered {
    let asked: Asked<PutBoard> = local.read(request, WRITERS, BODY_BYTES_MAX).await?;
    let (asked, body) = asked.split();
    let define = boards::BoardCommand::Define { table, change: body.change()? };
    local.submit(asked, Command::Boards(define)).await
}

/// All boards; private ones for secret keys only.
#[utoipa::path(
    get, path = "/v1/boards", operation_id = "boards", tag = "boards",
    security(("public_key" = []), ("secret_key" = [])),
    responses((status = 200, description = "By name.", body = shapes::Boards)),
)]
pub async fn all(State(shared): State<Arc<AppState>>, uri: Uri, headers: HeaderMap) -> Answered {
    #[derive(Serialize)]
    struct Boards<T> {
        boards: T,
    }
    let access = auth::for_reads(&shared.catalog, &headers, uri.query(), now_s())?;
    parameters::code(uri.query().unwrap_or_default())?;
    let game = shared.views.liveops.game(access.game.number);
    let boards = game.read().boards.boards(asks(&access, &None));
    json(&Boards { boards })
}

/// A board's settings.
#[utoipa::path(
    get, path = "/v1/boards/{table}", operation_id = "board", tag = "boards",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("table" = String, Path, description = "The board.", example = "high-scores"),
        ("code" = Option<String>, Query, description = "Of a private board."),
    ),
    responses(
        (status = 200, description = "The board.", body = shapes::Board),
        (status = 404, description = "There is no such board, or it is private."),
    ),
)]
pub async fn one(
    State(shared): State<Arc<AppState>>,
    Path(table): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Answered {
    let access = auth::for_reads(&shared.catalog, &headers, uri.query(), now_s())?;
    let code = parameters::code(uri.query().unwrap_or_default())?;
    let game = shared.views.liveops.game(access.game.number);
    let board = game.read().boards.board(&table, asks(&access, &code)).map_err(commands::problem)?;
    json(&board)
}

/// Closes the board's season and begins the next. The last 12 closed ones stay readable.
#[utoipa::path(
    post, path = "/v1/boards/{table}/reset", operation_id = "reset_board", tag = "boards",
    security(("secret_key" = [])),
    params(("table" = String, Path, description = "The board.", example = "high-scores")),
    responses(
        (status = 200, description = "`{table, season}`: the number of the new season.", body = serde_json::Value),
        (status = 404, description = "There is no such board."),
    ),
)]
pub async fn reset(
    State(local): State<Local>,
    Path(table): Path<String>,
    request: Request<Body>,
) -> Answered {
    let asked = local.read_empty(request, WRITERS).await?;
    local.submit(asked, Command::Boards(boards::BoardCommand::Reset { table })).await
}

/// Submits a score, to every window at once. A board that is not there is made: for players' signed scores, or with a
/// secret key for servers.
#[utoipa::path(
    post, path = "/v1/boards/{table}/scores", operation_id = "submit_score", tag = "boards",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("table" = String, Path, description = "The board.", example = "high-scores"),
        ("code" = Option<String>, Query, description = "Of a private board."),
        ("X-Playmeter-Signature" = Option<String>, Header, description = "Of the player's session."),
    ),
    request_body(content = PostScore, example = json!({
        "player": "bo", "name": "Bo", "score": 1200, "fields": {"level": "cave"}
    })),
    responses(
        (status = 200, description = "What became of it.", body = shapes::Submitted),
        (status = 401, description = "The board takes signed scores."),
        (status = 403, description = "Only servers submit to it, or the player is banned."),
    ),
)]
pub async fn submit(
    State(local): State<Local>,
    Path(table): Path<String>,
    request: Request<Body>,
) -> Answered {
    let query = request.uri().query().unwrap_or_default().to_owned();
    let asked: Asked<PostScore> = local.read(request, PLAYERS, BODY_BYTES_MAX).await?;
    let (asked, body) = asked.split();
    let score = body.score(parameters::code(&query)?)?;
    local.submit(asked, Command::Boards(boards::BoardCommand::Submit { table, score, list: None })).await
}

/// Submits a score and gives the page that holds it, its row marked.
#[utoipa::path(
    post, path = "/v1/boards/{table}/scores:saveAndList", operation_id = "submit_and_list", tag = "boards",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("table" = String, Path, description = "The board.", example = "high-scores"),
        ("window" = Option<String>, Query, description = "As with a list.", example = "day"),
        ("per_page" = Option<u32>, Query, description = "1 to 1,000; 20 if not given."),
        ("filter.FIELD" = Option<String>, Query, description = "As with a list."),
        ("source" = Option<String>, Query, description = "As with a list."),
        ("friends" = Option<String>, Query, description = "As with a list."),
        ("highest" = Option<bool>, Query, description = "As with a list."),
        ("code" = Option<String>, Query, description = "Of a private board."),
        ("X-Playmeter-Signature" = Option<String>, Header, description = "Of the player's session."),
    ),
    request_body(content = PostScore, example = json!({"player": "ann", "score": 1100})),
    responses(
        (status = 200, description = "What became of it, with the fields of a page besides.", body = shapes::Submitted),
        (status = 401, description = "The board takes signed scores."),
        (status = 403, description = "Only servers submit to it, or the player is banned."),
    ),
)]
pub async fn submit_and_list(
    State(local): State<Local>,
    Path(table): Path<String>,
    request: Request<Body>,
) -> Answered {
    let parameters = request.uri().query().unwrap_or_default().to_owned();
    let asked: Asked<PostScore> = local.read(request, PLAYERS, BODY_BYTES_MAX).await?;
    let (asked, body) = asked.split();
    let parameters::Asked { query, followed_by, code } = parameters::list(&parameters)?;
    let query = with_follows(&local.shared, &asked.access, query, followed_by);
    let score = body.score(code)?;
    let submit = boards::BoardCommand::Submit { table, score, list: Some(Box::new(query)) };
    local.submit(asked, Command::Boards(submit)).await
}

/// A page of a board.
#[utoipa::path(
    get, path = "/v1/boards/{table}/scores", operation_id = "list_scores", tag = "boards",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("table" = String, Path, description = "The board.", example = "high-scores"),
        ("window" = Option<String>, Query, example = "all", description = "`day`, `week`, `month` of the game's time \
            zone, `season`, `all`, `24h`, `7d`, `30d`; the longest of the board if not given."),
        ("at" = Option<String>, Query, description = "The earlier day, week or month that holds this time: the last 7 \
            days, 4 weeks and 12 months in which something was submitted stay readable."),
        ("season" = Option<u32>, Query, description = "A closed season: the last 12."),
        ("page" = Option<u32>, Query, description = "From 1."),
        ("per_page" = Option<u32>, Query, example = 20, description = "1 to 1,000; 20 if not given."),
        ("by" = Option<String>, Query, description = "`score` (if not given) or `newest`, of which the newest 10,000 \
            can be read. `mode` is the same."),
        ("highest" = Option<bool>, Query, description = "Highest first, or lowest first, whatever the board's order."),
        ("around" = Option<String>, Query, description = "The page in whose middle this player is."),
        ("friends" = Option<String>, Query, description = "Only these players, joined by commas, or \
            `follows:PLAYER`, ranked among each other."),
        ("filter.FIELD" = Option<String>, Query, description = "Only scores with this value of a field that the \
            board declares, ranked among each other."),
        ("source" = Option<String>, Query, description = "Only scores from this source."),
        ("player" = Option<String>, Query, description = "Only this player's, with those that wait for a moderator."),
        ("code" = Option<String>, Query, description = "Of a private board."),
    ),
    responses(
        (status = 200, description = "The page.", body = shapes::Page),
        (status = 404, description = "There is no such board or season, or it is private."),
    ),
)]
pub async fn list(
    State(shared): State<Arc<AppState>>,
    Path(table): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Answered {
    let access = auth::for_reads(&shared.catalog, &headers, uri.query(), now_s())?;
    let parameters::Asked { query, followed_by, code } = parameters::list(uri.query().unwrap_or_default())?;
    let query = with_follows(&shared, &access, query, followed_by);
    let (game, now_ms) = (shared.views.liveops.game(access.game.number), now_ms());
    if game.read().boards.needs_advance(&table, now_ms) {
        game.write().boards.advance(&table, now_ms);
    }
    let page = game.read().boards.page(&table, asks(&access, &code), &query, now_ms);
    json(&page.map_err(commands::problem)?)
}

/// The scores of a board that failed a check and wait for a moderator, oldest first.
#[utoipa::path(
    get, path = "/v1/boards/{table}/quarantine", operation_id = "quarantine", tag = "boards",
    security(("secret_key" = [])),
    params(("table" = String, Path, description = "The board.", example = "high-scores")),
    responses(
        (status = 200, description = "With the evidence.", body = shapes::Quarantine),
        (status = 404, description = "There is no such board."),
    ),
)]
pub async fn quarantine(
    State(shared): State<Arc<AppState>>,
    Path(table): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Answered {
    #[derive(Serialize)]
    struct Quarantine<T> {
        items: T,
    }
    let access = auth::for_reads(&shared.catalog, &headers, uri.query(), now_s())?;
    let access = auth::allow(access, Scope::LevelsModerate)?;
    parameters::code(uri.query().unwrap_or_default())?;
    let game = shared.views.liveops.game(access.game.number);
    let items = game.read().boards.quarantine(&table).map_err(commands::problem)?;
    json(&Quarantine { items })
}

/// Takes a score that waits, as of when it came, or drops it.
#[utoipa::path(
    post, path = "/v1/boards/{table}/quarantine/{id}", operation_id = "decide_score", tag = "boards",
    security(("secret_key" = [])),
    params(
        ("table" = String, Path, description = "The board.", example = "high-scores"),
        ("id" = String, Path, description = "The score.", example = "1"),
    ),
    request_body(content = DecideScore, example = json!({"decision": "reject"})),
    responses(
        (status = 200, description = "`{id, decision}`", body = serde_json::Value),
        (status = 404, description = "No such score waits."),
    ),
)]
pub async fn decide(
    State(local): State<Local>,
    Path((table, id)): Path<(String, String)>,
    request: Request<Body>,
) -> Answered {
    let asked: Asked<DecideScore> = local.read(request, MODERATORS, BODY_BYTES_MAX).await?;
    let accept = asked.body.decision == Decision::Accept;
    local.submit(asked, Command::Boards(boards::BoardCommand::Decide { table, id, accept })).await
}

/// Bans a player: out of sight on every board, and further scores are refused.
#[utoipa::path(
    put, path = "/v1/players/{player}/ban", operation_id = "ban_player", tag = "players",
    security(("secret_key" = [])),
    params(("player" = String, Path, description = "The player.", example = "eve")),
    request_body(content = PutBan, example = json!({"reason": "a thousand points a second"})),
    responses((status = 204, description = "The player is banned.")),
)]
pub async fn ban(State(local): State<Local>, Path(player): Path<String>, request: Request<Body>) -> Answered {
    let asked: Asked<PutBan> = local.read(request, MODERATORS, BODY_BYTES_MAX).await?;
    let (asked, PutBan { reason }) = asked.split();
    local.submit(asked, Command::Boards(boards::BoardCommand::Ban { player, reason })).await
}

/// Ends a ban: the player's rows are back as if they had never been away.
#[utoipa::path(
    delete, path = "/v1/players/{player}/ban", operation_id = "lift_ban", tag = "players",
    security(("secret_key" = [])),
    params(("player" = String, Path, description = "The player.", example = "eve")),
    responses(
        (status = 204, description = "The player is not banned any more."),
        (status = 404, description = "The player was not banned."),
    ),
)]
pub async fn lift(
    State(local): State<Local>,
    Path(player): Path<String>,
    request: Request<Body>,
) -> Answered {
    let asked = local.read_empty(request, MODERATORS).await?;
    local.submit(asked, Command::Boards(boards::BoardCommand::Lift { player })).await
}

/// Secret keys see all; others what is public or what they know the code of.
fn asks<'a>(access: &Access, code: &'a Option<String>) -> BoardViewer<'a> {
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

fn json(body: &impl Serialize) -> Answered {
    let json = serde_json::to_vec(body).map_err(|error| Problem::internal(error.to_string()))?;
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    Ok::<Response, Problem>((headers, json).into_response())
}
