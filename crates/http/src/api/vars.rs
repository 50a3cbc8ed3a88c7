//! Game variables: `/v1/vars` and what goes with it.

pub mod body;
pub mod who;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, Path, State};
use axum::response::{IntoResponse, Response};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH};
use hyper::{Request, StatusCode, Uri};
use liveops::Command;
use liveops::vars::{self, CHANGES_MAX, Evaluation, VARS_BYTES_MAX, VarsChange};
use serde::Serialize;
use utoipa::OpenApi;

use super::commands::{Answered, Asked, BODY_BYTES_MAX, Local, Rights};
use crate::AppState;
use crate::auth;
use crate::problem::Problem;
use pipeline::catalog::{Access, Scope};
use pipeline::time::{now_ms, now_s};

use axum::{Router, routing};
use body::{PutVariable, PutVariables, RollBack};
use who::Parameters;

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
    Router::new()
        .route("/v1/vars", routing::get(all).put(put_many))
        .route("/v1/vars/{name}", routing::get(one).put(put).delete(delete))
        .route("/v1/vars:definitions", routing::get(definitions))
        .route("/v1/vars:history", routing::get(history))
        .route("/v1/vars:rollback", routing::post(roll_back))
}

/// What is documented of this page.
#[derive(OpenApi)]
#[openapi(paths(all, one, put, put_many, delete, definitions, history, roll_back))]
pub struct Docs;

/// Changes of a history that does not say how many.
const CHANGES: usize = 20;
/// The version of the variables that an answer was made of.
const VERSION: HeaderName = HeaderName::from_static("playmeter-vars-version");
/// Who may change variables.
const WRITERS: Rights = Rights::Server(Scope::VarsWrite);

/// The values that somebody gets.
#[utoipa::path(
    get, path = "/v1/vars", operation_id = "values", tag = "variables", security(("public_key" = []), ("secret_key" = [])),
    params(
        ("player" = Option<String>, Query, description = "Whose values; without it, no share of players matches.", example = "bo"),
        ("platform" = Option<String>, Query, description = "With the public key, that of the user agent if not given."),
        ("version" = Option<String>, Query, description = "The game's version."),
        ("segment" = Option<String>, Query, description = "Segments of the player, joined by commas."),
        ("country" = Option<String>, Query, description = "With a secret key only; otherwise that of the address."),
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` of an earlier answer."),
    ),
    responses(
        (status = 200, description = "The values by name.", body = serde_json::Value,
            headers(("ETag" = String), ("Playmeter-Vars-Version" = u64))),
        (status = 304, description = "They are what they were."),
    ),
)]
pub async fn all(
    State(shared): State<Arc<AppState>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    uri: Uri,
    headers: HeaderMap,
) -> Answered {
    let access = auth::for_reads(&shared.catalog, &headers, uri.query(), now_s())?;
    let who = Parameters::read(uri.query())?.who(&shared, &access, &headers, peer)?;
    let game = shared.views.liveops.game(access.game.number);
    let (game, now_ms) = (game.read(), now_ms());
    let Evaluation { version, etag } = game.vars.evaluate(&who, now_ms);
    Ok(tagged(&headers, version, &etag, || game.vars.json(&who, now_ms)))
}

/// One value that somebody gets.
#[utoipa::path(
    get, path = "/v1/vars/{name}", operation_id = "value", tag = "variables", security(("public_key" = []), ("secret_key" = [])),
    params(
        ("name" = String, Path, description = "The variable.", example = "speed"),
        ("player" = Option<String>, Query, description = "Whose value."),
        ("platform" = Option<String>, Query, description = "As with all values."),
        ("version" = Option<String>, Query, description = "As with all values."),
        ("segment" = Option<String>, Query, description = "As with all values."),
        ("country" = Option<String>, Query, description = "As with all values."),
    ),
    responses(
        (status = 200, description = "`{name, value, version}`", body = serde_json::Value),
        (status = 304, description = "It is what it was."),
        (status = 404, description = "There is no such variable."),
    ),
)]
pub async fn one(
    State(shared): State<Arc<AppState>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Path(name): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Answered {
    let access = auth::for_reads(&shared.catalog, &headers, uri.query(), now_s())?;
    let who = Parameters::read(uri.query())?.who(&shared, &access, &headers, peer)?;
    let game = shared.views.liveops.game(access.game.number);
    let game = game.read();
    let found = game.vars.value(&name, &who, now_ms());
    let (value, Evaluation { version, etag }) =
        found.ok_or_else(|| Problem::not_found("there is no such variable").field("name"))?;
    // The version stands in the body, so it is part of what the tag identifies.
    let body = || format!(r#"{{"name":"{name}","value":{value},"version":{version}}}"#);
    Ok(tagged(&headers, version, &format!("{version}-{etag}"), body))
}

/// Writes one variable. What is not given is not kept.
#[utoipa::path(
    put, path = "/v1/vars/{name}", operation_id = "put_variable", tag = "variables", security(("secret_key" = [])),
    params(("name" = String, Path, description = "1 to 100 letters, digits, `.`, `_` or `-`.", example = "speed")),
    request_body(content = PutVariable, example = json!({
        "value": 1.5, "schema": {"type": "number", "minimum": 0},
        "conditions": [{"name": "fast", "value": 2.0, "percent": {"to": 10}}]
    })),
    responses(
        (status = 200, description = "`{version, name}`", body = serde_json::Value),
        (status = 409, description = "The version is another one."),
    ),
)]
pub async fn put(State(local): State<Local>, Path(name): Path<String>, request: Request<Body>) -> Answered {
    let asked: Asked<PutVariable> = local.read(request, WRITERS, BODY_BYTES_MAX).await?;
    let (asked, body) = asked.split();
    let expected_version = body.expected_version;
    let command = vars::VarsCommand::Put { name, definition: body.into(), expected_version };
    local.submit(asked, Command::Vars(command)).await
}

/// Writes and removes several variables: all of them or none.
#[utoipa::path(
    put, path = "/v1/vars", operation_id = "put_variables", tag = "variables", security(("secret_key" = [])),
    request_body(content = PutVariables, example = json!({
        "vars": {"speed": {"value": 1.5}, "title": {"value": "Letters"}, "unused": null}
    })),
    responses(
        (status = 200, description = "`{version}`", body = serde_json::Value),
        (status = 409, description = "The version is another one."),
    ),
)]
pub async fn put_many(State(local): State<Local>, request: Request<Body>) -> Answered {
    let asked: Asked<PutVariables> = local.read(request, WRITERS, VARS_BYTES_MAX).await?;
    let (asked, PutVariables { vars, expected_version }) = asked.split();
    let vars = vars.into_iter().map(|(name, variable)| (name, variable.map(Into::into))).collect();
    local.submit(asked, Command::Vars(vars::VarsCommand::PutMany { vars, expected_version })).await
}

/// Removes a variable.
#[utoipa::path(
    delete, path = "/v1/vars/{name}", operation_id = "delete_variable", tag = "variables", security(("secret_key" = [])),
    params(("name" = String, Path, description = "The variable.", example = "speed")),
    responses(
        (status = 200, description = "`{version}`", body = serde_json::Value),
        (status = 404, description = "There is no such variable."),
    ),
)]
pub async fn delete(
    State(local): State<Local>,
    Path(name): Path<String>,
    request: Request<Body>,
) -> Answered {
    let asked = local.read_empty(request, WRITERS).await?;
    local.submit(asked, Command::Vars(vars::VarsCommand::Delete { name })).await
}

/// All variables as they were written.
#[utoipa::path(
    get, path = "/v1/vars:definitions", operation_id = "definitions", tag = "variables", security(("secret_key" = [])),
    responses((status = 200, description = "`{version, vars: {name: definition}}`", body = serde_json::Value)),
)]
pub async fn definitions(State(shared): State<Arc<AppState>>, uri: Uri, headers: HeaderMap) -> Answered {
    #[derive(Serialize)]
    struct Definitions<T> {
        version: u64,
        vars: T,
    }
    let access = of_writer(&shared, &uri, &headers)?;
    let game = shared.views.liveops.game(access.game.number);
    let game = game.read();
    json(&Definitions { version: game.vars.version(), vars: game.vars.definitions() })
}

/// The last changes, newest first.
#[utoipa::path(
    get, path = "/v1/vars:history", operation_id = "history", tag = "variables", security(("secret_key" = [])),
    params(("n" = Option<usize>, Query, description = "How many, up to 1,000; 20 if not given.")),
    responses((
        status = 200, description = "`{changes: [{version, at, by, changed: {name: {before, after}}}]}`",
        body = serde_json::Value,
    )),
)]
pub async fn history(State(shared): State<Arc<AppState>>, uri: Uri, headers: HeaderMap) -> Answered {
    #[derive(Serialize)]
    struct History<'a> {
        changes: Vec<&'a VarsChange>,
    }
    let access = of_writer(&shared, &uri, &headers)?;
    let count = changes_asked(uri.query().unwrap_or_default())?;
    let game = shared.views.liveops.game(access.game.number);
    let game = game.read();
    json(&History { changes: game.vars.history(count) })
}

/// Makes the variables what they were at a version. That is a new version.
#[utoipa::path(
    post, path = "/v1/vars:rollback", operation_id = "roll_back", tag = "variables", security(("secret_key" = [])),
    request_body(content = RollBack, example = json!({"version": 1})),
    responses(
        (status = 200, description = "`{version}`", body = serde_json::Value),
        (status = 404, description = "What the variables were then is not known."),
        (status = 409, description = "The version is another one."),
    ),
)]
pub async fn roll_back(State(local): State<Local>, request: Request<Body>) -> Answered {
    let asked: Asked<RollBack> = local.read(request, WRITERS, BODY_BYTES_MAX).await?;
    let RollBack { version, expected_version } = asked.body;
    local.submit(asked, Command::Vars(vars::VarsCommand::RollBack { version, expected_version })).await
}

fn of_writer(shared: &AppState, uri: &Uri, headers: &HeaderMap) -> Result<Access, Problem> {
    let access = auth::for_reads(&shared.catalog, headers, uri.query(), now_s())?;
    auth::allow(access, Scope::VarsWrite)
}

fn changes_asked(query: &str) -> Result<usize, Problem> {
    let mut count = CHANGES;
    for (name, value) in crate::query_string::pairs(query)? {
        match name.as_str() {
            "n" => {
                let number = value.parse().ok().filter(|count| (1..=CHANGES_MAX).contains(count));
                let detail = || Problem::invalid(format!("it is 1 to {CHANGES_MAX}")).field("n");
                count = number.ok_or_else(detail)?;
            }
            "key" | "game" => {}
            other => return Err(Problem::invalid("there is only `n`").field(other)),
        }
    }
    Ok(count)
}

fn json(body: &impl Serialize) -> Answered {
    let json = serde_json::to_vec(body).map_err(|error| Problem::internal(error.to_string()))?;
    Ok(([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")], json).into_response())
}

/// An answer with its tag; without its body if the client has it.
fn tagged(headers: &HeaderMap, version: u64, etag: &str, body: impl FnOnce() -> String) -> Response {
    let etag = format!("\"{etag}\"");
    let mut response = if has(headers, &etag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(CONTENT_TYPE, "application/json")], body()).into_response()
    };
    let tag = HeaderValue::from_str(&etag).expect("a tag is hexadecimal");
    response.headers_mut().insert(ETAG, tag);
    response.headers_mut().insert(VERSION, HeaderValue::from(version));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// Whether `If-None-Match` names this tag (RFC 9110, 13.1.2: weakly compared).
fn has(headers: &HeaderMap, etag: &str) -> bool {
    let lists = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = lists.flat_map(|list| list.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_found_in_any_list() {
        let check = |value: &str, expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(IF_NONE_MATCH, HeaderValue::from_str(value).expect("it is text"));
            assert_eq!(has(&headers, "\"ab\""), expected, "{value}");
        };
        check("\"ab\"", true);
        check("\"x\", W/\"ab\"", true);
        check("*", true);
        check("ab", false);
        check("\"abc\"", false);
        assert!(!has(&HeaderMap::new(), "\"ab\""));
    }
}
