//! Follows, and the feed of what the followed did.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap};
use hyper::{Request, Uri};
use liveops::Command;
use liveops::feed::{self, Cursor, FeedMode, NewPost};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{OpenApi, ToSchema};

use super::commands::{Answered, Asked, BODY_BYTES_MAX, Local, Rights};
use crate::AppState;
use crate::auth;
use crate::problem::Problem;
use axum::{Router, routing};
use pipeline::catalog::Scope;
use pipeline::time::{now_s, parse_time};

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
    Router::new()
        .route("/v1/feed", routing::post(post))
        .route("/v1/feed/{player}", routing::get(page))
        .route("/v1/players/{player}/follows", routing::get(follows))
        .route("/v1/players/{player}/follows/{other}", routing::put(follow).delete(unfollow))
}

/// What is documented of this page.
#[derive(OpenApi)]
#[openapi(paths(follow, unfollow, follows, page, post))]
pub struct Docs;

/// Items of a page that does not say how many.
const ITEMS: usize = 20;
/// Items of a page.
const ITEMS_MAX: usize = 100;
/// The kind of a post that does not say what it is.
const KIND: &str = "post";
/// Secret keys, and players for themselves.
const PLAYERS: Rights = Rights::Signed(Scope::ScoresWrite);

/// Something that the game tells of a player.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Post {
    /// Whose item it is, 1 to 128 bytes.
    player: String,
    /// The player's name as others see it, up to 64 bytes; if not given, as it is known.
    #[serde(default)]
    name: String,
    /// What it is to the game: 1 to 100 letters, digits, `.`, `_` or `-`, but not `score`, `level` or `achievement`.
    /// `post` if not given.
    kind: Option<String>,
    /// 1 to 2,000 bytes.
    text: String,
    /// Up to 32 texts, numbers and booleans by key, together up to 4,000 bytes.
    #[serde(default)]
    #[schema(value_type = Object)]
    props: BTreeMap<String, Value>,
    /// When it happened, RFC 3339, up to an hour ahead; if not given, now.
    at: Option<String>,
}

/// One player follows another: what the other does from then on, and did before, is in the one's feed.
#[utoipa::path(
    put, path = "/v1/players/{player}/follows/{other}", operation_id = "follow", tag = "feed",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("player" = String, Path, description = "Who follows, up to 20,000 others.", example = "cy"),
        ("other" = String, Path, description = "Whom.", example = "bo"),
    ),
    responses(
        (status = 204, description = "It is so."),
        (status = 403, description = "The request is signed by another player."),
        (status = 422, description = "The player follows too many."),
    ),
)]
pub async fn follow(
    State(local): State<Local>,
    Path((player, other)): Path<(String, String)>,
    request: Request<Body>,
) -> Answered {
    let asked = local.read_empty(request, PLAYERS).await?;
    local.submit(asked, Command::Feed(feed::FeedCommand::Follow { player, other })).await
}

/// One player follows another no more.
#[utoipa::path(
    delete, path = "/v1/players/{player}/follows/{other}", operation_id = "unfollow", tag = "feed",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("player" = String, Path, description = "Who followed.", example = "cy"),
        ("other" = String, Path, description = "Whom.", example = "bo"),
    ),
    responses(
        (status = 204, description = "It is so."),
        (status = 403, description = "The request is signed by another player."),
    ),
)]
pub async fn unfollow(
    State(local): State<Local>,
    Path((player, other)): Path<(String, String)>,
    request: Request<Body>,
) -> Answered {
    let asked = local.read_empty(request, PLAYERS).await?;
    local.submit(asked, Command::Feed(feed::FeedCommand::Unfollow { player, other })).await
}

/// Whom a player follows, in the order of the ids.
#[utoipa::path(
    get, path = "/v1/players/{player}/follows", operation_id = "follows", tag = "feed",
    security(("public_key" = []), ("secret_key" = [])),
    params(("player" = String, Path, description = "The player.", example = "cy")),
    responses((status = 200, description = "`{follows: [player], count}`", body = serde_json::Value)),
)]
pub async fn follows(
    State(shared): State<Arc<AppState>>,
    Path(player): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Answered {
    #[derive(Serialize)]
    struct Follows<'a> {
        count: usize,
        follows: Vec<&'a str>,
    }
    let access = auth::for_reads(&shared.catalog, &headers, uri.query(), now_s())?;
    for (name, _) in crate::query_string::pairs(uri.query().unwrap_or_default())? {
        if !matches!(name.as_str(), "key" | "game") {
            return Err(Problem::invalid("there are no parameters").field(name));
        }
    }
    let game = shared.views.liveops.game(access.game.number);
    let game = game.read();
    let follows = game.feed.follows(&player);
    json(&Follows { count: follows.len(), follows })
}

/// What those did whom a player follows: scores that improved, levels, achievements, and what the game posts.
///
/// Equal items of several players are one that names them all, the newest first, up to 1,000 of them: the same score on
/// the same board, the same level, the same achievement, a post of the same kind, text and props. A page and those
/// after it show the feed as it was when the first was asked for.
#[utoipa::path(
    get, path = "/v1/feed/{player}", operation_id = "feed", tag = "feed",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("player" = String, Path, description = "Whose feed.", example = "cy"),
        ("mode" = Option<String>, Query, example = "latest", description =
            "`latest`: the newest first. `fair`: the newest of each of the followed, then the second newest of each, up to \
             the n-th."),
        ("n" = Option<usize>, Query, description = "Items of a page, up to 100; 20 if not given."),
        ("before" = Option<String>, Query, description = "The `next` of the page before, in the same mode."),
    ),
    responses((
        status = 200, body = serde_json::Value, description =
            "`{items: [{id, kind, at, players: [{player, name}], players_count, table?, score?, level?, achievement?, \
             text?, props?}], next?}`. A page may have fewer items than were asked for and still a `next`.",
    )),
)]
pub async fn page(
    State(shared): State<Arc<AppState>>,
    Path(player): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Answered {
    let access = auth::for_reads(&shared.catalog, &headers, uri.query(), now_s())?;
    let PageAsked { mode, n, before } = PageAsked::read(uri.query().unwrap_or_default())?;
    let game = shared.views.liveops.game(access.game.number);
    let game = game.read();
    let page = game.feed.page(&player, mode, n, before);
    let page = page.map_err(|failure| Problem::internal(failure.to_string()))?;
    json(&page.ok_or_else(|| Problem::invalid("this cursor is of the other mode").field("before"))?)
}

/// Posts an item of the game's own.
#[utoipa::path(
    post, path = "/v1/feed", operation_id = "post_to_feed", tag = "feed",
    security(("public_key" = []), ("secret_key" = [])),
    request_body(content = Post, example = json!({
        "player": "bo", "name": "Bo", "kind": "trade", "text": "Bo traded a shell for a hat.", "props": {"hat": "green"}
    })),
    responses(
        (status = 201, description = "`{id}`", body = serde_json::Value),
        (status = 403, description = "The request is signed by another player."),
    ),
)]
pub async fn post(State(local): State<Local>, request: Request<Body>) -> Answered {
    let asked: Asked<Post> = local.read(request, PLAYERS, BODY_BYTES_MAX).await?;
    let (asked, Post { player, name, kind, text, props, at }) = asked.split();
    let kind = kind.unwrap_or_else(|| KIND.to_owned());
    let not_a_time = || Problem::invalid("it is a time such as 2026-01-31T12:00:00Z").field("at");
    let at_ms = at.map(|at| parse_time(&at).ok_or_else(not_a_time)).transpose()?;
    let post = NewPost { player, name, kind, text, props, at_ms };
    local.submit(asked, Command::Feed(feed::FeedCommand::Post(post))).await
}

struct PageAsked {
    mode: FeedMode,
    n: usize,
    before: Option<Cursor>,
}

impl PageAsked {
    fn read(query: &str) -> Result<PageAsked, Problem> {
        let mut asked = PageAsked { mode: FeedMode::Latest, n: ITEMS, before: None };
        for (name, value) in crate::query_string::pairs(query)? {
            let known = match name.as_str() {
                "mode" => mode(&value).map(|mode| asked.mode = mode),
                "n" => count(&value).map(|n| asked.n = n),
                "before" => Cursor::parse(&value).map(|before| asked.before = Some(before)),
                "key" | "game" => Some(()),
                _ => None,
            };
            let detail =
                "there are `mode` (latest or fair), `n` (1 to 100) and `before` (the `next` of a page)";
            known.ok_or_else(|| Problem::invalid(detail).field(name))?;
        }
        Ok(asked)
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

/// An answer that is not to be kept.
pub(crate) fn json(body: &impl Serialize) -> Answered {
    let json = serde_json::to_vec(body).map_err(|error| Problem::internal(error.to_string()))?;
    Ok(([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")], json).into_response())
}
