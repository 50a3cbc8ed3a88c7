//! Cohorts: `/v1/cohorts`. Sets of players that questions and audiences name.

use std::sync::Arc;

use archive::questions::cohort::CohortDefinition as Evaluation;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::{Router, routing};
use hyper::Request;
use liveops::cohorts::{Cohort, CohortCommand, CohortDefinition};
use liveops::vars::Json;
use liveops::{Command, Game};
use pipeline::catalog::Scope;
use pipeline::cohorts;
use pipeline::time::{now_s, rfc3339};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{OpenApi, ToSchema};

use super::commands::{BODY_BYTES_MAX, CommandRequest, HandlerResult, Rights};
use super::json::{from_json, json_response};
use super::openapi::schemas;
use super::questions::{question_problem, run};
use crate::auth::Credentials;
use crate::body;
use crate::problem::Problem;
use crate::{AppState, RuntimeState};

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new()
        .route("/v1/cohorts", routing::get(list).post(put))
        .route("/v1/cohorts/{name}", routing::get(one).delete(delete))
        .route("/v1/cohorts:preview", routing::post(preview))
}

/// The operations of this module in the OpenAPI description.
#[derive(OpenApi)]
#[openapi(paths(list, one, put, delete))]
pub(crate) struct CohortsApi;

/// The operation of this module that writes nothing.
#[derive(OpenApi)]
#[openapi(paths(preview))]
pub(crate) struct CohortPreviewApi;

/// Credentials that may write cohorts.
const WRITERS: Rights = Rights::Server(Scope::Admin);

/// A set of players, by condition or by list: either `condition` or `players` is required.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutCohortRequest {
    /// How questions and audiences name it: 1 to 64 letters, digits, `.`, `_` or `-`.
    name: String,
    /// A description for the game's developers, up to 1,000 bytes.
    description: Option<String>,
    /// What players have done: `{"event", "where", "at_least", "within_days"}`, the latest value of a property
    /// `{"property", "op", "value", "within_days"}`, or a group `{"and": [...]}`, `{"or": [...]}`, `{"not": {...}}`.
    #[schema(value_type = Option<serde_json::Value>)]
    condition: Option<Json>,
    /// Only players with an event in so many days belong to it. Default: the longest `within_days`, at least 30.
    seen_within_days: Option<u32>,
    /// Ids of players.
    players: Option<Vec<String>>,
}

/// A cohort that is not saved.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PreviewCohortRequest {
    /// As in `POST /v1/cohorts`.
    #[schema(value_type = Option<serde_json::Value>)]
    condition: Option<Json>,
    /// As in `POST /v1/cohorts`.
    seen_within_days: Option<u32>,
    /// As in `POST /v1/cohorts`.
    players: Option<Vec<String>>,
}

/// Lists the cohorts with their sizes.
#[utoipa::path(
    get, path = "/v1/cohorts", operation_id = "cohorts", tag = "cohorts", security(("secret_key" = [])),
    responses((status = 200, description = "`{cohorts: [...]}`, each as in `GET /v1/cohorts/{name}`, without `players`.", body = serde_json::Value)),
)]
pub(crate) async fn list(State(shared): State<Arc<AppState>>, credentials: Credentials) -> HandlerResult {
    let access = credentials.authorize_query(&shared.catalog, now_s())?;
    let number = access.game.number;
    let game = shared.views.liveops.game(number);
    let game = game.read();
    let without_players = |(_, cohort): (&str, &Cohort)| {
        let mut json = describe(&shared, number, &game, cohort);
        json.as_object_mut().and_then(|fields| fields.remove("players"));
        json
    };
    json_response(&json!({ "cohorts": game.cohorts.iter().map(without_players).collect::<Vec<_>>() }))
}

/// Returns a cohort.
///
/// Beside the definition: `kind` (`condition` or `list`), `size`, `evaluated_at`, `took_ms`, the `failure` of the last
/// evaluation, and what uses it in `used_by`. `size` is null until the players were found for the first time.
#[utoipa::path(
    get, path = "/v1/cohorts/{name}", operation_id = "cohort", tag = "cohorts", security(("secret_key" = [])),
    params(("name" = String, Path, description = "The cohort.", example = "payers")),
    responses((status = 200, description = "The definition and its state.", body = serde_json::Value)),
)]
pub(crate) async fn one(
    State(shared): State<Arc<AppState>>,
    Path(name): Path<String>,
    credentials: Credentials,
) -> HandlerResult {
    let access = credentials.authorize_query(&shared.catalog, now_s())?;
    let number = access.game.number;
    let game = shared.views.liveops.game(number);
    let game = game.read();
    let unknown = || Problem::not_found(format!("there is no cohort `{name}`")).field("name");
    json_response(&describe(&shared, number, &game, game.cohorts.get(&name).ok_or_else(unknown)?))
}

fn describe(shared: &AppState, number: u32, game: &Game, cohort: &Cohort) -> Value {
    let mut json = cohort.json();
    let name = &cohort.definition.name;
    let state = shared.views.cohorts.state(number, name).filter(|state| state.revision == cohort.revision);
    json["kind"] = json!(if cohort.definition.players.is_some() { "list" } else { "condition" });
    json["size"] = json!(state.as_ref().and_then(|state| state.size));
    json["evaluated_at"] = json!(state.as_ref().map(|state| rfc3339(state.evaluated_ms)));
    json["took_ms"] = json!(state.as_ref().map(|state| state.took.as_millis() as u64));
    json["failure"] = json!(state.and_then(|state| state.failure));
    json["used_by"] = json!(game.cohort_users(name));
    json
}

/// Creates or replaces a cohort.
///
/// The players who meet a condition are found again in the background, about once a minute, and for each question whose
/// `where` has `{"cohort": "NAME"}`.
#[utoipa::path(
    post, path = "/v1/cohorts", operation_id = "put_cohort", tag = "cohorts", security(("secret_key" = [])),
    request_body(content = PutCohortRequest, example = json!({
        "name": "payers", "description": "Bought something in the last 30 days",
        "condition": {"event": "purchase", "at_least": 1, "within_days": 30},
    })),
    responses(
        (status = 200, description = "The cohort was replaced.", body = serde_json::Value),
        (status = 201, description = "The cohort was created.", body = serde_json::Value),
    ),
)]
pub(crate) async fn put(State(runtime): State<RuntimeState>, request: Request<Body>) -> HandlerResult {
    let request: CommandRequest<PutCohortRequest> =
        runtime.read_command(request, WRITERS, BODY_BYTES_MAX).await?;
    let (request, body) = request.split();
    let PutCohortRequest { name, description, condition, seen_within_days, players } = body;
    let definition = CohortDefinition { name, description, condition, seen_within_days, players };
    check(&definition)?;
    runtime.submit(request, Command::Cohorts(CohortCommand::Put { definition })).await
}

/// Reads a definition as an evaluation does.
fn check(definition: &CohortDefinition) -> Result<(), Problem> {
    Evaluation::from_json(&cohorts::evaluation_json(definition)).map(drop).map_err(Problem::from)
}

/// Deletes a cohort.
#[utoipa::path(
    delete, path = "/v1/cohorts/{name}", operation_id = "delete_cohort", tag = "cohorts", security(("secret_key" = [])),
    params(("name" = String, Path, description = "The cohort.", example = "payers")),
    responses(
        (status = 204, description = "The cohort was deleted."),
        (status = 409, description = "An audience or a saved question uses the cohort."),
    ),
)]
pub(crate) async fn delete(
    State(runtime): State<RuntimeState>,
    Path(name): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let request = runtime.read_command_without_body(request, WRITERS).await?;
    runtime.submit(request, Command::Cohorts(CohortCommand::Delete { name })).await
}

/// Counts the players of a cohort without saving it.
#[utoipa::path(
    post, path = "/v1/cohorts:preview", operation_id = "preview_cohort", tag = "analytics", security(("secret_key" = [])),
    request_body(content = PreviewCohortRequest, example = json!({
        "condition": {"and": [{"event": "start", "within_days": 7}, {"not": {"event": "purchase"}}]},
    })),
    responses(
        (status = 200, description = "`{size, as_of}`", body = serde_json::Value),
        (status = 400, description = "The definition is invalid; `field` names the field.", body = schemas::ProblemDocument),
        (status = 422, description = "The question needs more memory than one question may use.", body = schemas::ProblemDocument),
        (status = 503, description = "The question took too long, or the server is busy; see Retry-After.", body = schemas::ProblemDocument),
    ),
)]
pub(crate) async fn preview(
    State(shared): State<Arc<AppState>>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    let (head, mut incoming) = request.into_parts();
    let size = async {
        let access = Credentials::from(&head).authorize_query(&shared.catalog, now_s())?;
        let body = body::collect(&head, &mut incoming, BODY_BYTES_MAX).await?;
        let PreviewCohortRequest { condition, seen_within_days, players } = from_json(&body)?;
        let name = "preview".to_owned();
        let definition = CohortDefinition { name, description: None, condition, seen_within_days, players };
        check(&definition)?;
        let found = run::over_events(&shared, &access, Vec::new(), move |events| {
            let players = cohorts::evaluate(&definition, &events.context, events.seed);
            let size = players.map_err(question_problem)?.len();
            Ok(json!({ "size": size, "as_of": events.as_of.json() }))
        });
        run::until_client_leaves(&head, found).await
    };
    match size.await {
        Ok(size) => json_response(&size),
        Err(problem) => {
            body::discard(&head.headers, incoming, &problem);
            Err(problem)
        }
    }
}
