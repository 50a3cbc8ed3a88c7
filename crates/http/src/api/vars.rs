//! Game variables: `/v1/vars`, their definitions, history and rollback.

pub(crate) mod requests;
pub(crate) mod viewer;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH};
use hyper::{Request, StatusCode, Uri};
use liveops::Command;
use liveops::vars::{self, CHANGES_MAX, Evaluation, VARS_BYTES_MAX, VarsChange};
use pipeline::catalog::{Access, Scope};
use pipeline::time::{now_ms, now_s};
use serde::Serialize;
use utoipa::OpenApi;

use super::commands::{BODY_BYTES_MAX, CommandRequest, HandlerResult, Rights};
use super::json::json_response;
use crate::auth::{self, Credentials};
use crate::problem::Problem;
use crate::{AppState, RuntimeState};
use requests::{PutVariableRequest, PutVariablesRequest, RollBackRequest};
use viewer::ViewerParams;

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new()
        .route("/v1/vars", routing::get(all).put(put_many))
        .route("/v1/vars/{name}", routing::get(one).put(put).delete(delete))
        .route("/v1/vars:definitions", routing::get(definitions))
        .route("/v1/vars:history", routing::get(history))
        .route("/v1/vars:rollback", routing::post(roll_back))
}

/// The operations of this module in the OpenAPI description.
#[derive(OpenApi)]
#[openapi(
    paths(all, one, put, put_many, delete, definitions, history, roll_back),
    components(schemas(requests::VariableDefinition))
)]
pub(crate) struct VariablesApi;

/// Changes in a history by default.
const CHANGES_DEFAULT: usize = 20;
/// The version of the variables that a response contains.
const VERSION: HeaderName = HeaderName::from_static("playmeter-vars-version");
/// Credentials that may change variables.
const WRITERS: Rights = Rights::Server(Scope::VarsWrite);

/// Returns the values of all variables for a player.
#[utoipa::path(
    get, path = "/v1/vars", operation_id = "values", tag = "variables", security(("public_key" = []), ("secret_key" = [])),
    params(
        ("player" = Option<String>, Query, description = "The player. Without it, no percentage condition matches.", example = "bo"),
        ("platform" = Option<String>, Query, description = "Platform of the player. Default with the public key: derived from the user agent."),
        ("version" = Option<String>, Query, description = "Version of the game."),
        ("segment" = Option<String>, Query, description = "Segments of the player, separated by commas."),
        ("country" = Option<String>, Query, description = "Country of the player, only with a secret key. With the public key it is derived from the IP address."),
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` of an earlier response."),
    ),
    responses(
        (status = 200, description = "The values by name.", body = serde_json::Value,
            headers(("ETag" = String), ("Playmeter-Vars-Version" = u64))),
        (status = 304, description = "The values have not changed."),
    ),
)]
pub(crate) async fn all(
    State(shared): State<Arc<AppState>>,
    uri: Uri,
    credentials: Credentials,
) -> HandlerResult {
    let access = credentials.authorize_read(&shared.catalog, now_s())?;
    let viewer = ViewerParams::read(uri.query())?.viewer(&shared, &access, &credentials)?;
    let game = shared.views.liveops.game(access.game.number);
    let (game, now_ms) = (game.read(), now_ms());
    let Evaluation { version, etag } = game.vars.evaluate(&viewer, now_ms);
    Ok(tagged_response(credentials.headers(), version, &etag, || game.vars.json(&viewer, now_ms)))
}

/// Returns the value of one variable for a player.
#[utoipa::path(
    get, path = "/v1/vars/{name}", operation_id = "value", tag = "variables", security(("public_key" = []), ("secret_key" = [])),
    params(
        ("name" = String, Path, description = "The variable.", example = "speed"),
        ("player" = Option<String>, Query, description = "The player."),
        ("platform" = Option<String>, Query, description = "As in `GET /v1/vars`."),
        ("version" = Option<String>, Query, description = "As in `GET /v1/vars`."),
        ("segment" = Option<String>, Query, description = "As in `GET /v1/vars`."),
        ("country" = Option<String>, Query, description = "As in `GET /v1/vars`."),
    ),
    responses(
        (status = 200, description = "`{name, value, version}`", body = serde_json::Value),
        (status = 304, description = "The value has not changed."),
        (status = 404, description = "No such variable."),
    ),
)]
pub(crate) async fn one(
    State(shared): State<Arc<AppState>>,
    Path(name): Path<String>,
    uri: Uri,
    credentials: Credentials,
) -> HandlerResult {
    let access = credentials.authorize_read(&shared.catalog, now_s())?;
    let viewer = ViewerParams::read(uri.query())?.viewer(&shared, &access, &credentials)?;
    let game = shared.views.liveops.game(access.game.number);
    let game = game.read();
    let found = game.vars.value(&name, &viewer, now_ms());
    let (value, Evaluation { version, etag }) =
        found.ok_or_else(|| Problem::not_found("no such variable").field("name"))?;
    // The body contains the version, so the tag must depend on it.
    let body = || format!(r#"{{"name":"{name}","value":{value},"version":{version}}}"#);
    Ok(tagged_response(credentials.headers(), version, &format!("{version}-{etag}"), body))
}

/// Creates or replaces a variable. Fields that you leave out are reset to their defaults.
#[utoipa::path(
    put, path = "/v1/vars/{name}", operation_id = "put_variable", tag = "variables", security(("secret_key" = [])),
    params(("name" = String, Path, description = "1 to 100 letters, digits, `.`, `_` or `-`.", example = "speed")),
    request_body(content = PutVariableRequest, example = json!({
        "value": 1.5, "schema": {"type": "number", "minimum": 0},
        "conditions": [{"name": "fast", "value": 2.0, "percent": {"to": 10}}]
    })),
    responses(
        (status = 200, description = "`{version, name}`", body = serde_json::Value),
        (status = 409, description = "The current version differs from `expected_version`."),
    ),
)]
pub(crate) async fn put(
    State(runtime): State<RuntimeState>,
    Path(name): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let request: CommandRequest<PutVariableRequest> =
        runtime.read_command(request, WRITERS, BODY_BYTES_MAX).await?;
    let (request, body) = request.split();
    let expected_version = body.expected_version;
    let command = vars::VarsCommand::Put { name, definition: body.into(), expected_version };
    runtime.submit(request, Command::Vars(command)).await
}

/// Creates, replaces and removes several variables atomically.
#[utoipa::path(
    put, path = "/v1/vars", operation_id = "put_variables", tag = "variables", security(("secret_key" = [])),
    request_body(content = PutVariablesRequest, example = json!({
        "vars": {"speed": {"value": 1.5}, "title": {"value": "Letters"}, "unused": null}
    })),
    responses(
        (status = 200, description = "`{version}`", body = serde_json::Value),
        (status = 409, description = "The current version differs from `expected_version`."),
    ),
)]
pub(crate) async fn put_many(State(runtime): State<RuntimeState>, request: Request<Body>) -> HandlerResult {
    let request: CommandRequest<PutVariablesRequest> =
        runtime.read_command(request, WRITERS, VARS_BYTES_MAX).await?;
    let (request, PutVariablesRequest { vars, expected_version }) = request.split();
    let vars = vars.into_iter().map(|(name, variable)| (name, variable.map(Into::into))).collect();
    runtime.submit(request, Command::Vars(vars::VarsCommand::PutMany { vars, expected_version })).await
}

/// Deletes a variable.
#[utoipa::path(
    delete, path = "/v1/vars/{name}", operation_id = "delete_variable", tag = "variables", security(("secret_key" = [])),
    params(("name" = String, Path, description = "The variable.", example = "speed")),
    responses(
        (status = 200, description = "`{version}`", body = serde_json::Value),
        (status = 404, description = "No such variable."),
    ),
)]
pub(crate) async fn delete(
    State(runtime): State<RuntimeState>,
    Path(name): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let request = runtime.read_command_without_body(request, WRITERS).await?;
    runtime.submit(request, Command::Vars(vars::VarsCommand::Delete { name })).await
}

/// Returns the definitions of all variables.
#[utoipa::path(
    get, path = "/v1/vars:definitions", operation_id = "definitions", tag = "variables", security(("secret_key" = [])),
    responses((status = 200, description = "`{version, vars: {name: definition}}`", body = serde_json::Value)),
)]
pub(crate) async fn definitions(
    State(shared): State<Arc<AppState>>,
    credentials: Credentials,
) -> HandlerResult {
    #[derive(Serialize)]
    struct Definitions<T> {
        version: u64,
        vars: T,
    }
    let access = authorize_writer(&shared, &credentials)?;
    let game = shared.views.liveops.game(access.game.number);
    let game = game.read();
    json_response(&Definitions { version: game.vars.version(), vars: game.vars.definitions() })
}

/// Lists the last changes of the variables, newest first.
#[utoipa::path(
    get, path = "/v1/vars:history", operation_id = "history", tag = "variables", security(("secret_key" = [])),
    params(("n" = Option<usize>, Query, minimum = 1, maximum = 1_000, description = "Number of changes, 1 to 1,000. Default: 20.")),
    responses((
        status = 200, description = "`{changes: [{version, at, by, changed: {name: {before, after}}}]}`",
        body = serde_json::Value,
    )),
)]
pub(crate) async fn history(
    State(shared): State<Arc<AppState>>,
    uri: Uri,
    credentials: Credentials,
) -> HandlerResult {
    #[derive(Serialize)]
    struct History<'a> {
        changes: Vec<&'a VarsChange>,
    }
    let access = authorize_writer(&shared, &credentials)?;
    let count = read_change_count(uri.query().unwrap_or_default())?;
    let game = shared.views.liveops.game(access.game.number);
    let game = game.read();
    json_response(&History { changes: game.vars.history(count) })
}

/// Rolls the variables back to an earlier version, as a new version.
#[utoipa::path(
    post, path = "/v1/vars:rollback", operation_id = "roll_back", tag = "variables", security(("secret_key" = [])),
    request_body(content = RollBackRequest, example = json!({"version": 1})),
    responses(
        (status = 200, description = "`{version}`", body = serde_json::Value),
        (status = 404, description = "The history does not contain the version."),
        (status = 409, description = "The current version differs from `expected_version`."),
    ),
)]
pub(crate) async fn roll_back(State(runtime): State<RuntimeState>, request: Request<Body>) -> HandlerResult {
    let request: CommandRequest<RollBackRequest> =
        runtime.read_command(request, WRITERS, BODY_BYTES_MAX).await?;
    let RollBackRequest { version, expected_version } = request.body;
    runtime.submit(request, Command::Vars(vars::VarsCommand::RollBack { version, expected_version })).await
}

fn authorize_writer(shared: &AppState, credentials: &Credentials) -> Result<Access, Problem> {
    let access = credentials.authorize_read(&shared.catalog, now_s())?;
    auth::allow(access, Scope::VarsWrite)
}

fn read_change_count(query: &str) -> Result<usize, Problem> {
    let mut count = CHANGES_DEFAULT;
    for (name, value) in crate::query_string::pairs(query)? {
        match name.as_str() {
            "n" => {
                let number = value.parse().ok().filter(|count| (1..=CHANGES_MAX).contains(count));
                let detail = || Problem::invalid(format!("must be between 1 and {CHANGES_MAX}")).field("n");
                count = number.ok_or_else(detail)?;
            }
            "key" | "game" => {}
            other => return Err(Problem::invalid("unknown parameter; allowed: `n`").field(other)),
        }
    }
    Ok(count)
}

/// Responds with an `ETag`, and without a body if the client already has it.
fn tagged_response(headers: &HeaderMap, version: u64, etag: &str, body: impl FnOnce() -> String) -> Response {
    let etag = format!("\"{etag}\"");
    let mut response = if has_etag(headers, &etag) {
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

/// Returns true if `If-None-Match` contains this tag, by weak comparison (RFC 9110, 13.1.2).
fn has_etag(headers: &HeaderMap, etag: &str) -> bool {
    let lists = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = lists.flat_map(|list| list.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etag_is_found_in_any_list() {
        let check = |value: &str, expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(IF_NONE_MATCH, HeaderValue::from_str(value).expect("a valid header value"));
            assert_eq!(has_etag(&headers, "\"ab\""), expected, "{value}");
        };
        check("\"ab\"", true);
        check("\"x\", W/\"ab\"", true);
        check("*", true);
        check("ab", false);
        check("\"abc\"", false);
        assert!(!has_etag(&HeaderMap::new(), "\"ab\""));
    }
}
