//! Achievements: what there is to achieve, and who was granted which.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use hyper::header::HeaderMap;
use hyper::{Request, Uri};
use liveops::Command;
use liveops::feed::{self, Achievement, FriendFilter};
use serde::Deserialize;
use utoipa::{OpenApi, ToSchema};

use super::commands::{Answered, Asked, BODY_BYTES_MAX, Local, Rights};
use super::feed::json;
use crate::AppState;
use crate::auth;
use crate::problem::Problem;
use axum::{Router, routing};
use pipeline::catalog::Scope;
use pipeline::time::now_s;

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
    Router::new()
        .route("/v1/achievements", routing::get(list))
        .route("/v1/achievements/{key}", routing::put(put).delete(delete))
        .route("/v1/achievements/{key}/grants", routing::post(grant))
}

/// What is documented of this page.
#[derive(OpenApi)]
#[openapi(paths(list, put, delete, grant))]
pub struct Docs;

/// Friends that a request can name.
const FRIENDS_MAX: usize = 1_000;
/// Who may write the catalogue.
const WRITERS: Rights = Rights::Server(Scope::Admin);

/// An achievement, all of it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutAchievement {
    /// 1 to 200 bytes.
    name: String,
    /// Up to 2,000 bytes.
    #[serde(default)]
    description: String,
    /// What it is worth, up to 1,000,000.
    #[serde(default)]
    points: u32,
    /// The address of a picture, up to 2,000 bytes.
    icon: Option<String>,
    /// Whether players see it only when they have it.
    #[serde(default)]
    hidden: bool,
}

/// Who has achieved something.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The player's id, 1 to 128 bytes.
    player: String,
    /// The player's name as others see it, up to 64 bytes; if not given, as it is known.
    #[serde(default)]
    name: String,
}

/// Writes an achievement. What is not given is not kept.
#[utoipa::path(
    put, path = "/v1/achievements/{key}", operation_id = "put_achievement", tag = "achievements",
    security(("secret_key" = [])),
    params(("key" = String, Path, description = "1 to 100 letters, digits, `.`, `_` or `-`.", example = "first-win")),
    request_body(content = PutAchievement, example = json!({
        "name": "First win", "description": "Win a game.", "points": 10
    })),
    responses((status = 200, description = "The achievement with its `key`.", body = serde_json::Value)),
)]
pub async fn put(State(local): State<Local>, Path(key): Path<String>, request: Request<Body>) -> Answered {
    let asked: Asked<PutAchievement> = local.read(request, WRITERS, BODY_BYTES_MAX).await?;
    let (asked, PutAchievement { name, description, points, icon, hidden }) = asked.split();
    let achievement = Achievement { name, description, points, icon, hidden };
    local.submit(asked, Command::Feed(feed::FeedCommand::PutAchievement { key, achievement })).await
}

/// Takes an achievement out of the catalogue. Who has it keeps it, and it is seen again when it is written again.
#[utoipa::path(
    delete, path = "/v1/achievements/{key}", operation_id = "delete_achievement", tag = "achievements",
    security(("secret_key" = [])),
    params(("key" = String, Path, description = "The achievement.", example = "first-win")),
    responses(
        (status = 204, description = "It is gone."),
        (status = 404, description = "There is no such achievement."),
    ),
)]
pub async fn delete(State(local): State<Local>, Path(key): Path<String>, request: Request<Body>) -> Answered {
    let asked = local.read_empty(request, WRITERS).await?;
    local.submit(asked, Command::Feed(feed::FeedCommand::DeleteAchievement { key })).await
}

/// Grants an achievement to a player, once. Followers see it in their feed.
#[utoipa::path(
    post, path = "/v1/achievements/{key}/grants", operation_id = "grant_achievement", tag = "achievements",
    security(("public_key" = []), ("secret_key" = [])),
    params(("key" = String, Path, description = "The achievement.", example = "first-win")),
    request_body(content = Grant, example = json!({"player": "bo", "name": "Bo"})),
    responses(
        (status = 201, description = "`{granted: true, at}`", body = serde_json::Value),
        (status = 200, description = "`{granted: false, at}`: the player had it since then.", body = serde_json::Value),
        (status = 403, description = "The request is signed by another player."),
        (status = 404, description = "There is no such achievement."),
    ),
)]
pub async fn grant(State(local): State<Local>, Path(key): Path<String>, request: Request<Body>) -> Answered {
    let asked: Asked<Grant> = local.read(request, Rights::Signed(Scope::ScoresWrite), BODY_BYTES_MAX).await?;
    let (asked, Grant { player, name }) = asked.split();
    local.submit(asked, Command::Feed(feed::FeedCommand::Grant { key, player, name })).await
}

/// The catalogue, with the player's own grants and those of friends.
///
/// A hidden achievement is listed for a player who has it, and for secret keys.
#[utoipa::path(
    get, path = "/v1/achievements", operation_id = "achievements", tag = "achievements",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("player" = Option<String>, Query, description = "Whose grants.", example = "bo"),
        ("friends" = Option<String>, Query, example = "follows", description =
            "Up to 1,000 players, joined by commas; or `follows`, whom the player follows; or `follows:PLAYER`."),
    ),
    responses((
        status = 200, body = serde_json::Value, description =
            "`{achievements: [{key, name, description?, points, icon?, hidden?, granted_at?, friends: [{player, name, at}], \
             friends_count}]}`; of friends the newest 100 are named.",
    )),
)]
pub async fn list(State(shared): State<Arc<AppState>>, uri: Uri, headers: HeaderMap) -> Answered {
    let access = auth::for_reads(&shared.catalog, &headers, uri.query(), now_s())?;
    let asked = List::read(uri.query().unwrap_or_default())?;
    let game = shared.views.liveops.game(access.game.number);
    let game = game.read();
    let ids: Vec<&str> = asked.friends.split(',').filter(|id| !id.is_empty()).collect();
    if ids.len() > FRIENDS_MAX {
        return Err(Problem::invalid(format!("it names at most {FRIENDS_MAX} players")).field("friends"));
    }
    let friends = match (&*asked.friends, asked.friends.strip_prefix("follows:"), &asked.player) {
        ("follows", _, Some(player)) => FriendFilter::FollowedBy(player),
        ("follows", _, None) => {
            return Err(Problem::invalid("`follows` goes with a `player`").field("friends"));
        }
        (_, Some(player), _) => FriendFilter::FollowedBy(player),
        _ => FriendFilter::Players(&ids),
    };
    let hidden = access.class == model::batch::KeyClass::Secret;
    json(&game.feed.achievements(asked.player.as_deref(), friends, hidden))
}

#[derive(Default)]
struct List {
    player: Option<String>,
    friends: String,
}

impl List {
    fn read(query: &str) -> Result<List, Problem> {
        let mut list = List::default();
        for (name, value) in crate::query_string::pairs(query)? {
            match name.as_str() {
                "player" => list.player = Some(value),
                "friends" => list.friends = value,
                "key" | "game" => {}
                other => return Err(Problem::invalid("there are `player` and `friends`").field(other)),
            }
        }
        Ok(list)
    }
}
