//! `POST /v1/session`: player sessions, whose keys sign requests of the player.

use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::{Router, routing};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};
use hyper::{Request, StatusCode};
use liveops::{Command, players};
use pipeline::catalog::Scope;
use pipeline::random;
use pipeline::time::rfc3339;
use serde::{Deserialize, Serialize};
use utoipa::{OpenApi, ToSchema};

use super::commands::{self, BODY_BYTES_MAX, CommandRequest, HandlerResult, Rights};
use super::signature::session_key;
use crate::RuntimeState;
use crate::problem::Problem;

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new().route("/v1/session", routing::post(open_session))
}

/// The operations of this module in the OpenAPI description.
#[derive(OpenApi)]
#[openapi(paths(open_session))]
pub(crate) struct PlayerSessionsApi;

/// The player of a new session.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenSessionRequest {
    /// The player's id, 1 to 128 bytes.
    player: String,
    /// Display name of the player, up to 64 bytes.
    #[serde(default)]
    name: String,
}

/// A player session. Its key is only shown in this response.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PlayerSession {
    session: String,
    player: String,
    name: String,
    /// 32-byte key for HMAC-SHA-256, base64url without padding.
    key: String,
    /// RFC 3339.
    expires_at: String,
}

/// The decision of the command, without the key.
#[derive(Deserialize)]
struct OpenedSession {
    session: String,
    player: String,
    name: String,
    expires_ms: i64,
}

/// Opens a session of 15 minutes for a player.
#[utoipa::path(
    post, path = "/v1/session", tag = "players", security(("public_key" = []), ("secret_key" = [])),
    request_body(content = OpenSessionRequest, example = json!({"player": "bo", "name": "Bo"})),
    responses((status = 201, description = "The session and its key.", body = PlayerSession)),
)]
pub(crate) async fn open_session(
    State(runtime): State<RuntimeState>,
    request: Request<Body>,
) -> HandlerResult {
    let rights = Rights::Public(Scope::ScoresWrite);
    let request: CommandRequest<OpenSessionRequest> =
        runtime.read_command(request, rights, BODY_BYTES_MAX).await?;
    let OpenSessionRequest { player, name } = &request.body;
    let open = players::PlayerCommand::OpenSession {
        session: random::token(16),
        player: player.clone(),
        name: name.clone(),
    };
    let game = request.access.game.number;
    let answer =
        runtime.execute(request, Command::Players(open), &[]).await?.map_err(commands::refusal_problem)?;
    let opened: OpenedSession =
        serde_json::from_str(&answer.json).map_err(|error| Problem::internal(error.to_string()))?;
    let key = random::base64url(&session_key(&runtime.shared, game, &opened.session));
    let OpenedSession { session, player, name, expires_ms } = opened;
    let body = PlayerSession { session, player, name, key, expires_at: rfc3339(expires_ms) };
    let json = serde_json::to_vec(&body).map_err(|error| Problem::internal(error.to_string()))?;
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    Ok((StatusCode::CREATED, headers, json).into_response())
}
