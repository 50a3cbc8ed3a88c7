//! Saved questions and dashboards: `/v1/questions` and `/v1/dashboards`.

mod document;

use std::collections::BTreeMap;
use std::sync::Arc;

use archive::questions::question::Question;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::{Router, routing};
use hyper::Request;
use liveops::Command;
use liveops::saved::{Saved, SavedCommand, SavedContent, SavedKind};
use liveops::vars::Json;
use pipeline::catalog::Scope;
use pipeline::time::now_s;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{OpenApi, ToSchema};

use super::commands::{BODY_BYTES_MAX, CommandRequest, HandlerResult, Rights};
use super::json::json_response;
use super::openapi::schemas;
use super::query::{self, accepted_format};
use super::questions;
use crate::auth::Credentials;
use crate::client_stream::ClientPresence;
use crate::problem::Problem;
use crate::rows::RowFormat;
use crate::{AppState, RuntimeState};
use document::{DashboardTile, QuestionDocument, ROLLUP_KIND};

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new()
        .route("/v1/questions", routing::get(list_questions))
        .route("/v1/questions/{id}", routing::get(get_question).put(put_question).delete(delete_question))
        .route("/v1/questions/{id}/answer", routing::get(answer))
        .route("/v1/dashboards", routing::get(list_dashboards))
        .route("/v1/dashboards/{id}", routing::get(get_dashboard).put(put_dashboard).delete(delete_dashboard))
}

/// The operations of this module in the OpenAPI description.
#[derive(OpenApi)]
#[openapi(paths(
    list_questions,
    get_question,
    put_question,
    delete_question,
    answer,
    list_dashboards,
    get_dashboard,
    put_dashboard,
    delete_dashboard,
))]
pub(crate) struct SavedApi;

/// Credentials that may write questions and dashboards.
const WRITERS: Rights = Rights::Server(Scope::Admin);
/// Tiles of a dashboard.
const TILES_MAX: usize = 50;

/// A question with a name.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutQuestionRequest {
    /// Display name, up to 200 bytes.
    name: String,
    /// The question.
    question: QuestionDocument,
    /// Rejects the request with 409 if the current version differs; 0 if there must be none.
    expected_version: Option<u64>,
}

/// A grid of questions.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutDashboardRequest {
    /// Display name, up to 200 bytes.
    name: String,
    /// Up to 50 questions with their places.
    tiles: Vec<DashboardTile>,
    /// The version that is replaced; required if the dashboard exists. Rejects the request with 409 if the current
    /// version differs.
    expected_version: Option<u64>,
}

/// Lists the saved questions.
#[utoipa::path(
    get, path = "/v1/questions", operation_id = "questions", tag = "dashboards", security(("secret_key" = [])),
    responses((status = 200, description = "`{questions: [{id, name, question, version, created_at, changed_at, changed_by}]}`", body = serde_json::Value)),
)]
pub(crate) async fn list_questions(
    State(shared): State<Arc<AppState>>,
    credentials: Credentials,
) -> HandlerResult {
    let access = credentials.authorize_query(&shared.catalog, now_s())?;
    let game = shared.views.liveops.game(access.game.number);
    let game = game.read();
    let questions = game.saved.iter(SavedKind::Question);
    let questions: Vec<Value> = questions.map(|(id, saved)| saved.json(SavedKind::Question, id)).collect();
    json_response(&json!({ "questions": questions }))
}

/// Returns a saved question.
#[utoipa::path(
    get, path = "/v1/questions/{id}", operation_id = "question", tag = "dashboards", security(("secret_key" = [])),
    params(("id" = String, Path, description = "The question.", example = "weekly-starts")),
    responses((status = 200, description = "`{id, name, question, version, created_at, changed_at, changed_by}`", body = serde_json::Value)),
)]
pub(crate) async fn get_question(
    State(shared): State<Arc<AppState>>,
    Path(id): Path<String>,
    credentials: Credentials,
) -> HandlerResult {
    get(&shared, &credentials, SavedKind::Question, &id)
}

/// Creates or replaces a question.
///
/// `kind` is the last part of the route that answers it: `query` (over rollups), `explore`, `funnel`, `retention`,
/// `paths`, `players`, `levels` or `heatmap`. `request` is the body for that route without its time, which is `range`.
#[utoipa::path(
    put, path = "/v1/questions/{id}", operation_id = "put_question", tag = "dashboards", security(("secret_key" = [])),
    params(("id" = String, Path, description = "1 to 100 letters, digits, `.`, `_` or `-`.", example = "weekly-starts")),
    request_body(content = PutQuestionRequest, example = json!({
        "name": "Starts by country", "question": {
            "v": 1, "kind": "explore", "request": {"event": "start", "step": "day", "by": ["country"]},
            "range": {"last": "7d"}, "compare": "previous", "view": {"chart": "line"},
        },
    })),
    responses(
        (status = 200, description = "The question was replaced.", body = serde_json::Value),
        (status = 201, description = "The question was created.", body = serde_json::Value),
        (status = 409, description = "The current version differs from `expected_version`."),
    ),
)]
pub(crate) async fn put_question(
    State(runtime): State<RuntimeState>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let request: CommandRequest<PutQuestionRequest> =
        runtime.read_command(request, WRITERS, BODY_BYTES_MAX).await?;
    let (request, PutQuestionRequest { name, question, expected_version }) = request.split();
    let mut cohorts = BTreeMap::new();
    question.check("question", &request.access.game, &mut cohorts)?;
    let content = SavedContent { name, body: json_text(&question)?, cohorts };
    let command = SavedCommand::Put { kind: SavedKind::Question, id, content, expected_version };
    runtime.submit(request, Command::Saved(command)).await
}

/// Deletes a saved question.
#[utoipa::path(
    delete, path = "/v1/questions/{id}", operation_id = "delete_question", tag = "dashboards", security(("secret_key" = [])),
    params(("id" = String, Path, description = "The question.", example = "weekly-starts")),
    responses((status = 204, description = "The question was deleted.")),
)]
pub(crate) async fn delete_question(
    State(runtime): State<RuntimeState>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    delete(&runtime, SavedKind::Question, id, request).await
}

/// Answers a saved question.
#[utoipa::path(
    get, path = "/v1/questions/{id}/answer", operation_id = "question_answer", tag = "dashboards", security(("secret_key" = [])),
    params(("id" = String, Path, description = "The question.", example = "weekly-starts")),
    responses(
        (status = 200, description = "The answer of the route of its kind, or rows as CSV or NDJSON.", body = schemas::QuestionAnswer),
        (status = 422, description = "The question needs more memory than one question may use.", body = schemas::ProblemDocument),
        (status = 503, description = "The question took too long, or the server is busy; see Retry-After.", body = schemas::ProblemDocument),
    ),
)]
pub(crate) async fn answer(
    State(shared): State<Arc<AppState>>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    let (head, _) = request.into_parts();
    let access = Credentials::from(&head).authorize_query(&shared.catalog, now_s())?;
    let mut pairs = crate::query_string::pairs(head.uri.query().unwrap_or_default())?;
    let format = RowFormat::take(&mut pairs)?.unwrap_or_else(|| accepted_format(&head.headers));
    if let Some((name, _)) = pairs.iter().find(|(name, _)| name != "game") {
        return Err(Problem::invalid("unknown parameter; allowed: `format`").field(name));
    }
    let game = shared.views.liveops.game(access.game.number);
    let saved = game.read().saved.get(SavedKind::Question, &id).cloned();
    let saved = saved.ok_or_else(|| unknown(SavedKind::Question, &id))?;
    let document: QuestionDocument = serde_json::from_str(saved.content.body.text())
        .map_err(|error| Problem::internal(format!("the saved question cannot be read: {error}")))?;
    let body = document.body()?;
    let kind = document.kind();
    if kind == ROLLUP_KIND {
        let declared = access.game.settings.declared();
        let question = pipeline::query::request::from_json(&body, &declared).map_err(Problem::from)?;
        let presence = head.extensions.get::<ClientPresence>();
        return query::respond(&shared, &access, (format, presence), question).await;
    }
    let kind = Question::KINDS.into_iter().find(|known| *known == kind);
    let kind = kind.ok_or_else(|| Problem::internal("the saved question has an unknown kind"))?;
    questions::respond(&shared, &access, &head, (format, kind), &body).await
}

/// Lists the dashboards, without their tiles.
#[utoipa::path(
    get, path = "/v1/dashboards", operation_id = "dashboards", tag = "dashboards", security(("secret_key" = [])),
    responses((status = 200, description = "`{dashboards: [{id, name, version, created_at, changed_at, changed_by}]}`", body = serde_json::Value)),
)]
pub(crate) async fn list_dashboards(
    State(shared): State<Arc<AppState>>,
    credentials: Credentials,
) -> HandlerResult {
    let access = credentials.authorize_query(&shared.catalog, now_s())?;
    let game = shared.views.liveops.game(access.game.number);
    let game = game.read();
    let dashboards = game.saved.iter(SavedKind::Dashboard).map(|(id, saved)| saved.summary(id));
    json_response(&json!({ "dashboards": dashboards.collect::<Vec<Value>>() }))
}

/// Returns a dashboard.
#[utoipa::path(
    get, path = "/v1/dashboards/{id}", operation_id = "dashboard", tag = "dashboards", security(("secret_key" = [])),
    params(("id" = String, Path, description = "The dashboard.", example = "home")),
    responses((status = 200, description = "`{id, name, tiles, version, created_at, changed_at, changed_by}`", body = serde_json::Value)),
)]
pub(crate) async fn get_dashboard(
    State(shared): State<Arc<AppState>>,
    Path(id): Path<String>,
    credentials: Credentials,
) -> HandlerResult {
    get(&shared, &credentials, SavedKind::Dashboard, &id)
}

/// Creates or replaces a dashboard.
///
/// To replace it, send its version as `expected_version`: if it was changed in between, the request is rejected
/// with 409 and nothing is lost.
#[utoipa::path(
    put, path = "/v1/dashboards/{id}", operation_id = "put_dashboard", tag = "dashboards", security(("secret_key" = [])),
    params(("id" = String, Path, description = "1 to 100 letters, digits, `.`, `_` or `-`.", example = "home")),
    request_body(content = PutDashboardRequest, example = json!({
        "name": "Home", "tiles": [{
            "x": 0, "y": 0, "w": 6, "h": 4, "title": "Plays", "question": {
                "v": 1, "kind": "query", "request": {"metric": "plays", "step": "hour"}, "range": {"last": "24h"},
            },
        }],
    })),
    responses(
        (status = 200, description = "The dashboard was replaced.", body = serde_json::Value),
        (status = 201, description = "The dashboard was created.", body = serde_json::Value),
        (status = 409, description = "The current version differs from `expected_version`."),
    ),
)]
pub(crate) async fn put_dashboard(
    State(runtime): State<RuntimeState>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let request: CommandRequest<PutDashboardRequest> =
        runtime.read_command(request, WRITERS, BODY_BYTES_MAX).await?;
    let (request, PutDashboardRequest { name, tiles, expected_version }) = request.split();
    if tiles.len() > TILES_MAX {
        return Err(Problem::invalid(format!("must have at most {TILES_MAX} entries")).field("tiles"));
    }
    let mut cohorts = BTreeMap::new();
    for (index, tile) in tiles.iter().enumerate() {
        tile.check(&format!("tiles[{index}]"), &request.access.game, &mut cohorts)?;
    }
    let content = SavedContent { name, body: json_text(&tiles)?, cohorts };
    let command = SavedCommand::Put { kind: SavedKind::Dashboard, id, content, expected_version };
    runtime.submit(request, Command::Saved(command)).await
}

/// Deletes a dashboard.
#[utoipa::path(
    delete, path = "/v1/dashboards/{id}", operation_id = "delete_dashboard", tag = "dashboards", security(("secret_key" = [])),
    params(("id" = String, Path, description = "The dashboard.", example = "home")),
    responses((status = 204, description = "The dashboard was deleted.")),
)]
pub(crate) async fn delete_dashboard(
    State(runtime): State<RuntimeState>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    delete(&runtime, SavedKind::Dashboard, id, request).await
}

fn get(shared: &AppState, credentials: &Credentials, kind: SavedKind, id: &str) -> HandlerResult {
    let access = credentials.authorize_query(&shared.catalog, now_s())?;
    let game = shared.views.liveops.game(access.game.number);
    let game = game.read();
    let saved: Option<&Saved> = game.saved.get(kind, id);
    json_response(&saved.ok_or_else(|| unknown(kind, id))?.json(kind, id))
}

async fn delete(
    runtime: &RuntimeState,
    kind: SavedKind,
    id: String,
    request: Request<Body>,
) -> HandlerResult {
    let request = runtime.read_command_without_body(request, WRITERS).await?;
    runtime.submit(request, Command::Saved(SavedCommand::Delete { kind, id })).await
}

fn unknown(kind: SavedKind, id: &str) -> Problem {
    Problem::not_found(format!("there is no {} `{id}`", kind.label())).field("id")
}

fn json_text(value: &impl Serialize) -> Result<Json, Problem> {
    let text = serde_json::to_string(value).map_err(|error| Problem::internal(error.to_string()))?;
    Json::parse(&text).ok_or_else(|| Problem::internal("what was written as JSON is not JSON"))
}
