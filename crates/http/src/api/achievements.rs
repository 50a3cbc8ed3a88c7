//! Achievements: the catalogue, and grants to players.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::{Router, routing};
use hyper::{Request, Uri};
use liveops::Command;
use liveops::feed::{self, Achievement, FriendFilter};
use pipeline::catalog::Scope;
use pipeline::time::now_s;
use serde::Deserialize;
use utoipa::{OpenApi, ToSchema};

use super::commands::{BODY_BYTES_MAX, CommandRequest, HandlerResult, Rights};
use super::json::json_response;
use crate::auth::Credentials;
use crate::problem::Problem;
use crate::{AppState, RuntimeState};

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new()
        .route("/v1/achievements", routing::get(list))
        .route("/v1/achievements/{key}", routing::put(put).delete(delete))
        .route("/v1/achievements/{key}/grants", routing::post(grant))
}

/// The operations of this module in the OpenAPI description.
#[derive(OpenApi)]
#[openapi(paths(list, put, delete, grant))]
pub(crate) struct AchievementsApi;

/// Friends that one request may name.
const FRIENDS_MAX: usize = 1_000;
/// Credentials that may write the catalogue.
const WRITERS: Rights = Rights::Server(Scope::Admin);

/// All fields of an achievement.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutAchievementRequest {
    /// 1 to 200 bytes.
    name: String,
    /// Up to 2,000 bytes.
    #[serde(default)]
    description: String,
    /// Points for the achievement, 0 to 1,000,000.
    #[serde(default)]
    points: u32,
    /// URL of a picture, up to 2,000 bytes.
    icon: Option<String>,
    /// If true, players see the achievement only once they have it.
    #[serde(default)]
    hidden: bool,
}

/// The player who earned an achievement.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GrantAchievementRequest {
    /// The player's id, 1 to 128 bytes.
    player: String,
    /// Display name of the player, up to 64 bytes. Default: the name known so far.
    #[serde(default)]
    name: String,
}

/// Creates or replaces an achievement. Fields that you leave out are reset to their defaults.
#[utoipa::path(
    put, path = "/v1/achievements/{key}", operation_id = "put_achievement", tag = "achievements",
    security(("secret_key" = [])),
    params(("key" = String, Path, description = "1 to 100 letters, digits, `.`, `_` or `-`.", example = "first-win")),
    request_body(content = PutAchievementRequest, example = json!({
        "name": "First win", "description": "Win a game.", "points": 10
    })),
    responses((status = 200, description = "The achievement with its `key`.", body = serde_json::Value)),
)]
pub(crate) async fn put(
    State(runtime): State<RuntimeState>,
    Path(key): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let request: CommandRequest<PutAchievementRequest> =
        runtime.read_command(request, WRITERS, BODY_BYTES_MAX).await?;
    let (request, PutAchievementRequest { name, description, points, icon, hidden }) = request.split();
    let achievement = Achievement { name, description, points, icon, hidden };
    runtime.submit(request, Command::Feed(feed::FeedCommand::PutAchievement { key, achievement })).await
}

/// Removes an achievement from the catalogue. Players who have it keep it, and it is shown again if you create it
/// again.
#[utoipa::path(
    delete, path = "/v1/achievements/{key}", operation_id = "delete_achievement", tag = "achievements",
    security(("secret_key" = [])),
    params(("key" = String, Path, description = "The achievement.", example = "first-win")),
    responses(
        (status = 204, description = "The achievement was removed."),
        (status = 404, description = "No such achievement."),
    ),
)]
pub(crate) async fn delete(
    State(runtime): State<RuntimeState>,
    Path(key): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let request = runtime.read_command_without_body(request, WRITERS).await?;
    runtime.submit(request, Command::Feed(feed::FeedCommand::DeleteAchievement { key })).await
}

/// Grants an achievement to a player, at most once. Followers see it in their feed.
#[utoipa::path(
    post, path = "/v1/achievements/{key}/grants", operation_id = "grant_achievement", tag = "achievements",
    security(("public_key" = []), ("secret_key" = [])),
    params(("key" = String, Path, description = "The achievement.", example = "first-win")),
    request_body(content = GrantAchievementRequest, example = json!({"player": "bo", "name": "Bo"})),
    responses(
        (status = 201, description = "The player has the achievement now: `{granted: true, at}`.", body = serde_json::Value),
        (status = 200, description = "The player already had it: `{granted: false, at}` with the time of the grant.", body = serde_json::Value),
        (status = 403, description = "The request is signed for another player."),
        (status = 404, description = "No such achievement."),
    ),
)]
pub(crate) async fn grant(
    State(runtime): State<RuntimeState>,
    Path(key): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let request: CommandRequest<GrantAchievementRequest> =
        runtime.read_command(request, Rights::Signed(Scope::ScoresWrite), BODY_BYTES_MAX).await?;
    let (request, GrantAchievementRequest { player, name }) = request.split();
    runtime.submit(request, Command::Feed(feed::FeedCommand::Grant { key, player, name })).await
}

/// Lists the achievements, with the grants of a player and of friends.
///
/// A hidden achievement is listed for a player who has it, and for secret keys.
#[utoipa::path(
    get, path = "/v1/achievements", operation_id = "achievements", tag = "achievements",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("player" = Option<String>, Query, description = "The player whose grants are included.", example = "bo"),
        ("friends" = Option<String>, Query, example = "follows", description =
            "Up to 1,000 player ids, separated by commas; `follows` for the players that `player` follows; or `follows:PLAYER`."),
    ),
    responses((
        status = 200, body = serde_json::Value, description =
            "`{achievements: [{key, name, description?, points, icon?, hidden?, granted_at?, friends: [{player, name, at}], \
             friends_count}]}`. `friends` lists the 100 most recent grants.",
    )),
)]
pub(crate) async fn list(
    State(shared): State<Arc<AppState>>,
    uri: Uri,
    credentials: Credentials,
) -> HandlerResult {
    let access = credentials.authorize_read(&shared.catalog, now_s())?;
    let params = AchievementListParams::read(uri.query().unwrap_or_default())?;
    let game = shared.views.liveops.game(access.game.number);
    let game = game.read();
    let ids: Vec<&str> = params.friends.split(',').filter(|id| !id.is_empty()).collect();
    if ids.len() > FRIENDS_MAX {
        return Err(Problem::invalid(format!("must name at most {FRIENDS_MAX} players")).field("friends"));
    }
    let friends = match (&*params.friends, params.friends.strip_prefix("follows:"), &params.player) {
        ("follows", _, Some(player)) => FriendFilter::FollowedBy(player),
        ("follows", _, None) => {
            return Err(Problem::invalid("`follows` needs the parameter `player`").field("friends"));
        }
        (_, Some(player), _) => FriendFilter::FollowedBy(player),
        _ => FriendFilter::Players(&ids),
    };
    let hidden = access.class == model::batch::KeyClass::Secret;
    json_response(&game.feed.achievements(params.player.as_deref(), friends, hidden))
}

#[derive(Default)]
struct AchievementListParams {
    player: Option<String>,
    friends: String,
}

impl AchievementListParams {
    fn read(query: &str) -> Result<AchievementListParams, Problem> {
        let mut list = AchievementListParams::default();
        for (name, value) in crate::query_string::pairs(query)? {
            match name.as_str() {
                "player" => list.player = Some(value),
                "friends" => list.friends = value,
                "key" | "game" => {}
                other => {
                    return Err(
                        Problem::invalid("unknown parameter; allowed: `player`, `friends`").field(other)
                    );
                }
            }
        }
        Ok(list)
    }
}
