//! `POST /v1/session`: a player's session, whose key signs requests in that player's name.

use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};
use hyper::{Request, StatusCode};
use liveops::{Command, players};
use serde::{Deserialize, Serialize};
use utoipa::{OpenApi, ToSchema};

use super::commands::{self, Answered, Asked, BODY_BYTES_MAX, Local, Rights};
use super::signature;
use crate::problem::Problem;
use axum::{Router, routing};
use pipeline::catalog::Scope;
use pipeline::random;
use pipeline::time::rfc3339;

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
    Router::new().route("/v1/session", routing::post(open_session))
}

/// What is documented of this page.
#[derive(OpenApi)]
#[openapi(paths(open_session))]
pub struct Docs;

/// Who wants to act.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenSession {
    /// The player's id, 1 to 128 bytes.
    player: String,
    /// The player's name as others see it, up to 64 bytes.
    #[serde(default)]
    name: String,
}

/// A session. Its key is shown here and nowhere else.
#[derive(Debug, Serialize, ToSchema)]
pub struct Session {
    session: String,
    player: String,
    name: String,
    /// 32 bytes for HMAC-SHA-256, base64url without padding.
    key: String,
    /// RFC 3339.
    expires_at: String,
}

/// What was decided, before the door adds the key.
#[derive(Deserialize)]
struct Opened {
    session: String,
    player: String,
    name: String,
    expires_ms: i64,
}

/// Opens a session of a quarter of an hour for a player.
#[utoipa::path(
    post, path = "/v1/session", tag = "players", security(("public_key" = []), ("secret_key" = [])),
    request_body(content = OpenSession, example = json!({"player": "bo", "name": "Bo"})),
    responses((status = 201, description = "The session and its key.", body = Session)),
)]
pub async fn open_session(State(local): State<Local>, request: Request<Body>) -> Answered {
    let rights = Rights::Public(Scope::ScoresWrite);
    let asked: Asked<OpenSession> = local.read(request, rights, BODY_BYTES_MAX).await?;
    let OpenSession { player, name } = &asked.body;
    let open = players::PlayerCommand::OpenSession {
        session: random::token(16),
        player: player.clone(),
        name: name.clone(),
    };
    let game = asked.access.game.number;
    let answer = local.decided(asked, Command::Players(open), &[]).await?.map_err(commands::problem)?;
    let opened: Opened =
        serde_json::from_str(&answer.json).map_err(|error| Problem::internal(error.to_string()))?;
    let key = random::base64url(&signature::key(&local.shared, game, &opened.session));
    let Opened { session, player, name, expires_ms } = opened;
    let body = Session { session, player, name, key, expires_at: rfc3339(expires_ms) };
    let json = serde_json::to_vec(&body).map_err(|error| Problem::internal(error.to_string()))?;
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    Ok((StatusCode::CREATED, headers, json).into_response())
}
