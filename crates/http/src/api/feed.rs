//! Follows, and the feed of activities of the players someone follows.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::{Router, routing};
use hyper::{Request, Uri};
use liveops::Command;
use liveops::feed::{self, Cursor, FeedMode, NewPost};
use pipeline::catalog::Scope;
use pipeline::time::{now_s, parse_time};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{OpenApi, ToSchema};

use super::commands::{BODY_BYTES_MAX, CommandRequest, HandlerResult, Rights};
use super::json::json_response;
use crate::auth::Credentials;
use crate::problem::Problem;
use crate::{AppState, RuntimeState};

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new()
        .route("/v1/feed", routing::post(post))
        .route("/v1/feed/{player}", routing::get(page))
        .route("/v1/players/{player}/follows", routing::get(follows))
        .route("/v1/players/{player}/follows/{other}", routing::put(follow).delete(unfollow))
}

/// The operations of this module in the OpenAPI description.
#[derive(OpenApi)]
#[openapi(paths(follow, unfollow, follows, page, post))]
pub(crate) struct FeedApi;

/// Items of a page by default.
const ITEMS: usize = 20;
const ITEMS_MAX: usize = 100;
/// The kind of a post by default.
const KIND: &str = "post";
/// Secret keys, and players on their own behalf.
const PLAYERS: Rights = Rights::Signed(Scope::ScoresWrite);

/// A custom activity of a player.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PostActivityRequest {
    /// The player's id, 1 to 128 bytes.
    player: String,
    /// Display name of the player, up to 64 bytes. Default: the name known so far.
    #[serde(default)]
    name: String,
    /// Kind of the activity: 1 to 100 letters, digits, `.`, `_` or `-`, except `score`, `level` and `achievement`.
    /// Default: `post`.
    kind: Option<String>,
    /// 1 to 2,000 bytes.
    text: String,
    /// Up to 32 properties: texts, numbers and booleans, up to 4,000 bytes in total.
    #[serde(default)]
    #[schema(value_type = Object)]
    props: BTreeMap<String, Value>,
    /// Time of the activity, RFC 3339, up to an hour in the future. Default: now.
    at: Option<String>,
}

/// Makes a player follow another. The feed then contains past and future activities of the other player.
#[utoipa::path(
    put, path = "/v1/players/{player}/follows/{other}", operation_id = "follow", tag = "feed",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("player" = String, Path, description = "The follower. A player can follow up to 20,000 others.", example = "cy"),
        ("other" = String, Path, description = "The followed player.", example = "bo"),
    ),
    responses(
        (status = 204, description = "The player follows the other."),
        (status = 403, description = "The request is signed for another player."),
        (status = 422, description = "The player follows the maximum number of others."),
    ),
)]
pub(crate) async fn follow(
    State(runtime): State<RuntimeState>,
    Path((player, other)): Path<(String, String)>,
    request: Request<Body>,
) -> HandlerResult {
    let request = runtime.read_command_without_body(request, PLAYERS).await?;
    runtime.submit(request, Command::Feed(feed::FeedCommand::Follow { player, other })).await
}

/// Makes a player unfollow another.
#[utoipa::path(
    delete, path = "/v1/players/{player}/follows/{other}", operation_id = "unfollow", tag = "feed",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("player" = String, Path, description = "The follower.", example = "cy"),
        ("other" = String, Path, description = "The followed player.", example = "bo"),
    ),
    responses(
        (status = 204, description = "The player does not follow the other."),
        (status = 403, description = "The request is signed for another player."),
    ),
)]
pub(crate) async fn unfollow(
    State(runtime): State<RuntimeState>,
    Path((player, other)): Path<(String, String)>,
    request: Request<Body>,
) -> HandlerResult {
    let request = runtime.read_command_without_body(request, PLAYERS).await?;
    runtime.submit(request, Command::Feed(feed::FeedCommand::Unfollow { player, other })).await
}

/// Lists the players that a player follows, sorted by id.
#[utoipa::path(
    get, path = "/v1/players/{player}/follows", operation_id = "follows", tag = "feed",
    security(("public_key" = []), ("secret_key" = [])),
    params(("player" = String, Path, description = "The player.", example = "cy")),
    responses((status = 200, description = "`{follows: [player], count}`", body = serde_json::Value)),
)]
pub(crate) async fn follows(
    State(shared): State<Arc<AppState>>,
    Path(player): Path<String>,
    uri: Uri,
    credentials: Credentials,
) -> HandlerResult {
    #[derive(Serialize)]
    struct Follows<'a> {
        count: usize,
        follows: Vec<&'a str>,
    }
    let access = credentials.authorize_read(&shared.catalog, now_s())?;
    for (name, _) in crate::query_string::pairs(uri.query().unwrap_or_default())? {
        if !matches!(name.as_str(), "key" | "game") {
            return Err(Problem::invalid("unknown parameter; none is allowed").field(name));
        }
    }
    let game = shared.views.liveops.game(access.game.number);
    let game = game.read();
    let follows = game.feed.follows(&player);
    json_response(&Follows { count: follows.len(), follows })
}

/// Returns the feed of a player: improved scores, levels, achievements and posts of the players that the player
/// follows.
///
/// Equal activities of several players are merged into one item with up to 1,000 players, newest first: the same score
/// on the same board, the same level, the same achievement, or a post with the same kind, text and props. All pages
/// show the feed as of the request for the first page.
#[utoipa::path(
    get, path = "/v1/feed/{player}", operation_id = "feed", tag = "feed",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("player" = String, Path, description = "The player whose feed is returned.", example = "cy"),
        ("mode" = Option<String>, Query, example = "latest", description =
            "`latest` (default): newest first. `fair`: the newest activity of each followed player, then the second newest of \
             each, and so on up to the n-th."),
        ("n" = Option<usize>, Query, minimum = 1, maximum = 100, description = "Items per page, 1 to 100. Default: 20."),
        ("before" = Option<String>, Query, description = "The `next` of the previous page, which must have the same mode."),
    ),
    responses((
        status = 200, body = serde_json::Value, description =
            "`{items: [{id, kind, at, players: [{player, name}], players_count, table?, score?, level?, achievement?, \
             text?, props?}], next?}`. A page may have fewer than `n` items and still a `next`.",
    )),
)]
pub(crate) async fn page(
    State(shared): State<Arc<AppState>>,
    Path(player): Path<String>,
    uri: Uri,
    credentials: Credentials,
) -> HandlerResult {
    let access = credentials.authorize_read(&shared.catalog, now_s())?;
    let FeedParams { mode, n, before } = FeedParams::read(uri.query().unwrap_or_default())?;
    let game = shared.views.liveops.game(access.game.number);
    let game = game.read();
    let page = game.feed.page(&player, mode, n, before);
    let page = page.map_err(|failure| Problem::internal(failure.to_string()))?;
    json_response(
        &page.ok_or_else(|| {
            Problem::invalid("must be the `next` of a page with the same mode").field("before")
        })?,
    )
}

/// Posts a custom activity to the feeds of the player's followers.
#[utoipa::path(
    post, path = "/v1/feed", operation_id = "post_to_feed", tag = "feed",
    security(("public_key" = []), ("secret_key" = [])),
    request_body(content = PostActivityRequest, example = json!({
        "player": "bo", "name": "Bo", "kind": "trade", "text": "Bo traded a shell for a hat.", "props": {"hat": "green"}
    })),
    responses(
        (status = 201, description = "`{id}`", body = serde_json::Value),
        (status = 403, description = "The request is signed for another player."),
    ),
)]
pub(crate) async fn post(State(runtime): State<RuntimeState>, request: Request<Body>) -> HandlerResult {
    let request: CommandRequest<PostActivityRequest> =
        runtime.read_command(request, PLAYERS, BODY_BYTES_MAX).await?;
    let (request, PostActivityRequest { player, name, kind, text, props, at }) = request.split();
    let kind = kind.unwrap_or_else(|| KIND.to_owned());
    let not_a_time = || Problem::invalid("must be an RFC 3339 time such as 2026-01-31T12:00:00Z").field("at");
    let at_ms = at.map(|at| parse_time(&at).ok_or_else(not_a_time)).transpose()?;
    let post = NewPost { player, name, kind, text, props, at_ms };
    runtime.submit(request, Command::Feed(feed::FeedCommand::Post(post))).await
}

struct FeedParams {
    mode: FeedMode,
    n: usize,
    before: Option<Cursor>,
}

impl FeedParams {
    fn read(query: &str) -> Result<FeedParams, Problem> {
        let mut params = FeedParams { mode: FeedMode::Latest, n: ITEMS, before: None };
        for (name, value) in crate::query_string::pairs(query)? {
            let known = match name.as_str() {
                "mode" => mode(&value).map(|mode| params.mode = mode),
                "n" => count(&value).map(|n| params.n = n),
                "before" => Cursor::parse(&value).map(|before| params.before = Some(before)),
                "key" | "game" => Some(()),
                _ => None,
            };
            let detail = "unknown parameter or invalid value; allowed: `mode` (latest or fair), `n` (1 to 100), `before` (the `next` of a page)";
            known.ok_or_else(|| Problem::invalid(detail).field(name))?;
        }
        Ok(params)
    }
}

fn mode(text: &str) -> Option<FeedMode> {
    match text {
        "latest" => Some(FeedMode::Latest),
        "fair" => Some(FeedMode::Fair),
        _ => None,
    }
}

fn count(text: &str) -> Option<usize> {
    text.parse().ok().filter(|n| (1..=ITEMS_MAX).contains(n))
}
