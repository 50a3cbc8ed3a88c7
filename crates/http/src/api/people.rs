//! Sign-in and sign-out of the dashboard.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::{Router, routing};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, SET_COOKIE};
use pipeline::time::now_s;
use serde::Deserialize;
use serde_json::json;

use crate::auth::{self, cookie_name, is_signed_in, same_origin};
use crate::problem::Problem;
use crate::{AppState, RuntimeState};

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new()
        .route("/v1/me", routing::get(me))
        .route("/v1/sign-out", routing::post(sign_out))
        .route("/sign-in", routing::get(sign_in))
}

const SESSION_S: u64 = 30 * 24 * 3600;

/// Returns the signed-in person, the games and the CSRF token.
#[utoipa::path(
    get, path = "/v1/me", operation_id = "me", tag = "people", security(("sign_in" = [])),
    responses((status = 200, description = "The role of the signed-in person, the games, and the CSRF token for writes.", body = Object)),
)]
pub(crate) async fn me(State(shared): State<Arc<AppState>>, headers: HeaderMap) -> Result<Response, Problem> {
    if !is_signed_in(&shared.catalog, &headers, now_s()) {
        return Err(Problem::unauthorized(
            "you are not signed in; open the link that `playmeter serve` prints",
        ));
    }
    let game = |game: pipeline::catalog::Game| json!({ "id": game.id, "name": game.name, "public_key": game.public_key, "tz": game.tz });
    let games: Vec<_> = shared.catalog.games().into_iter().map(game).collect();
    let csrf = auth::csrf_token(auth::session(&headers).unwrap_or_default());
    let me = json!({ "signed_in": true, "role": "owner", "games": games, "csrf": csrf });
    Ok(([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")], me.to_string()).into_response())
}

/// The query parameters of a sign-in link.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignInParams {
    token: String,
}

/// `GET /sign-in?token=`: exchanges the token for a session cookie.
pub(crate) async fn sign_in(
    State(shared): State<Arc<AppState>>,
    params: Result<Query<SignInParams>, axum::extract::rejection::QueryRejection>,
) -> Response {
    let Ok(Query(SignInParams { token })) = params else {
        return Redirect::to("/?sign_in=failed").into_response();
    };
    let Ok(session) = shared.catalog.sign_in(&token, now_s()) else {
        return Redirect::to("/?sign_in=failed").into_response();
    };
    let cookie = cookie(&shared, &session, SESSION_S);
    ([(SET_COOKIE, cookie), (CACHE_CONTROL, "no-store".into())], Redirect::to("/")).into_response()
}

/// Signs out and deletes the session cookie.
#[utoipa::path(
    post, path = "/v1/sign-out", operation_id = "sign_out", tag = "people", security(("sign_in" = [])),
    responses((status = 200, description = "You are signed out.", body = String, content_type = "text/plain")),
)]
pub(crate) async fn sign_out(
    State(shared): State<Arc<AppState>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    same_origin(&headers)?;
    if let Some(session) = auth::session(&headers) {
        shared.catalog.sign_out(session).map_err(|refused| Problem::internal(refused.to_string()))?;
    }
    Ok(([(SET_COOKIE, cookie(&shared, "", 0))], "signed out\n").into_response())
}

fn cookie(shared: &AppState, value: &str, seconds: u64) -> String {
    let secure = if shared.settings.behind_proxy { "; Secure" } else { "" };
    let name = cookie_name(shared.settings.behind_proxy);
    format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}")
}
