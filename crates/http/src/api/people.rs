//! Sign-in and sign-out of the dashboard.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::{Router, routing};
use hyper::Method;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, SET_COOKIE};
use pipeline::time::now_s;
use serde::Deserialize;
use serde_json::json;

use crate::auth::{self, cookie_name, is_signed_in, same_origin};
use crate::problem::Problem;
use crate::request_context::RequestContext;
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
    let is_https = shared.settings.is_https;
    if !is_signed_in(&shared.catalog, &headers, is_https, now_s()) {
        return Err(Problem::unauthorized(
            "you are not signed in; open the link that `playmeter serve` or `playmeter keys sign-in` prints",
        ));
    }
    let game = |game: pipeline::catalog::Game| json!({ "id": game.id, "name": game.name, "public_key": game.public_key, "tz": game.tz, "archived": game.is_archived() });
    let games: Vec<_> = shared.catalog.games().into_iter().map(game).collect();
    let csrf = auth::csrf_token(auth::session(&headers, is_https).unwrap_or_default());
    let me = json!({ "signed_in": true, "role": "owner", "games": games, "csrf": csrf });
    Ok(([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")], me.to_string()).into_response())
}

/// The query parameters of a sign-in link.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignInParams {
    token: String,
}

/// `GET /sign-in?token=`: exchanges the token for a session cookie. A token works once; a signed-in browser that opens its
/// link again gets the dashboard.
pub(crate) async fn sign_in(
    State(shared): State<Arc<AppState>>,
    method: Method,
    headers: HeaderMap,
    context: RequestContext,
    params: Result<Query<SignInParams>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Problem> {
    const FAILED: &str = "/?sign_in=failed";
    // A preview of the link must not use it.
    if method == Method::HEAD {
        return Ok(Redirect::to("/").into_response());
    }
    let Ok(Query(SignInParams { token })) = params else {
        return Ok(Redirect::to(FAILED).into_response());
    };
    shared.sign_in_attempts.count(context.client_address()).map_err(|wait_s| {
        let problem = Problem::quota_exceeded("too many attempts to sign in from this address");
        problem.field("token").retry_after_s(wait_s)
    })?;
    let Ok(session) = shared.catalog.sign_in(&token, now_s()) else {
        let is_https = shared.settings.is_https;
        let is_signed_in = is_signed_in(&shared.catalog, &headers, is_https, now_s());
        return Ok(Redirect::to(if is_signed_in { "/" } else { FAILED }).into_response());
    };
    let cookie = cookie(&shared, &session, SESSION_S);
    Ok(([(SET_COOKIE, cookie), (CACHE_CONTROL, "no-store".into())], Redirect::to("/")).into_response())
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
    same_origin(&headers, shared.settings.is_https)?;
    if let Some(session) = auth::session(&headers, shared.settings.is_https) {
        shared.catalog.sign_out(session).map_err(|refused| Problem::internal(refused.to_string()))?;
    }
    Ok(([(SET_COOKIE, cookie(&shared, "", 0))], "signed out\n").into_response())
}

fn cookie(shared: &AppState, value: &str, seconds: u64) -> String {
    let secure = if shared.settings.is_https { "; Secure" } else { "" };
    let name = cookie_name(shared.settings.is_https);
    format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}")
}
