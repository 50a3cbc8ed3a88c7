//! Surveys: definitions, answers of players, and results.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use axum::{Router, routing};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, USER_AGENT};
use hyper::{Request, Uri};
use liveops::surveys::{self, AnswerEvent};
use liveops::vars::{self, Json, TimestampMs};
use liveops::{Command, RefusalKind};
use model::batch::{Endpoint, KeyClass};
use model::{Dimension, RawBatch, RawEvent};
use pipeline::catalog::{Access, Scope};
use pipeline::ingest;
use pipeline::time::{now_ms, now_s};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{OpenApi, ToSchema};
use wal::Ack;

use super::commands::{self, BODY_BYTES_MAX, CommandRequest, HandlerResult, Rights};
use super::events::{header_text, ingest_problem};
use super::vars::viewer::ViewerParams;
use crate::auth::{self, Credentials};
use crate::problem::Problem;
use crate::request_context::RequestContext;
use crate::{AppState, RuntimeState};

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new()
        .route("/v1/surveys", routing::get(list))
        .route("/v1/surveys/{key}", routing::put(put).delete(delete))
        .route("/v1/surveys/{key}/answers", routing::post(answer))
        .route("/v1/surveys/{key}/results", routing::get(results))
}

/// The operations of this module in the OpenAPI description.
#[derive(OpenApi)]
#[openapi(paths(list, put, delete, answer, results))]
pub(crate) struct SurveysApi;

/// Older answers are not sent as events again: they already were, and their event ids are not kept forever.
const RESEND_MS_MAX: i64 = 3_600_000;
/// Credentials that may write surveys.
const WRITERS: Rights = Rights::Server(Scope::Admin);

/// All fields of a survey.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutSurveyRequest {
    /// Title, up to 200 bytes.
    title: String,
    /// 1 to 30 questions. Once the survey has answers, questions and options can only be appended.
    questions: Vec<SurveyQuestion>,
    /// Players who see the survey. Default: all players.
    #[serde(default)]
    audience: SurveyAudience,
    /// Start of the survey, RFC 3339.
    #[schema(value_type = Option<String>)]
    starts_at: Option<TimestampMs>,
    /// End of the survey, RFC 3339.
    #[schema(value_type = Option<String>)]
    ends_at: Option<TimestampMs>,
}

/// A question of a survey.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SurveyQuestion {
    /// Key of the question in answers, and in its events `survey.<survey>.<question>`.
    key: String,
    /// Type of the answer.
    kind: QuestionKind,
    /// Text of the question, up to 500 bytes.
    text: String,
    /// Options of a choice, 2 to 50.
    #[serde(default)]
    options: Vec<String>,
    /// Lower end of a scale, or minimum number of characters of a text. Default: 1.
    min: Option<i64>,
    /// Upper end of a scale (default: 5), or maximum number of characters of a text (default: 1,000).
    max: Option<i64>,
}

/// Type of an answer.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum QuestionKind {
    /// One of the options.
    Choice,
    /// A whole number between two ends.
    Scale,
    /// Free text.
    Text,
}

/// The players who see the survey. A player must match every non-empty list.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SurveyAudience {
    /// ISO 3166 two-letter codes.
    #[serde(default)]
    country: Vec<String>,
    /// Platforms, as in events.
    #[serde(default)]
    platform: Vec<String>,
    /// Versions of the game.
    #[serde(default)]
    version: Vec<String>,
    /// Segments; one match is enough.
    #[serde(default)]
    segment: Vec<String>,
    /// Cohorts; the player must belong to one of them.
    #[serde(default)]
    cohort: Vec<String>,
}

/// A player's answers.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerSurveyRequest {
    /// The player's id.
    player: String,
    /// Answers by the key of the question; at least one.
    #[schema(value_type = BTreeMap<String, serde_json::Value>)]
    answers: BTreeMap<String, Json>,
}

/// Lists the open surveys for a player. With a secret key and without a player, lists all surveys with their
/// definitions.
#[utoipa::path(
    get, path = "/v1/surveys", operation_id = "surveys", tag = "surveys", security(("public_key" = []), ("secret_key" = [])),
    params(
        ("player" = Option<String>, Query, description = "The player. Required with the public key."),
        ("platform" = Option<String>, Query, description = "Platform of the player. Default with the public key: derived from the user agent."),
        ("version" = Option<String>, Query, description = "Version of the game."),
        ("segment" = Option<String>, Query, description = "Segments of the player, separated by commas."),
        ("country" = Option<String>, Query, description = "Country of the player, only with a secret key. With the public key it is derived from the IP address."),
    ),
    responses((status = 200, description = "`{surveys: [...]}`", body = serde_json::Value)),
)]
pub(crate) async fn list(
    State(shared): State<Arc<AppState>>,
    uri: Uri,
    credentials: Credentials,
) -> HandlerResult {
    let access = credentials.authorize_read(&shared.catalog, now_s())?;
    let params = ViewerParams::read(uri.query())?;
    let game = shared.views.liveops.game(access.game.number);
    let surveys = if params.has_player() {
        let viewer = params.viewer(&shared, &access, &credentials)?;
        game.read().surveys.due(&viewer, now_ms())
    } else if access.class == KeyClass::Public {
        return Err(Problem::invalid("required with the public key").field("player"));
    } else {
        auth::allow(access, Scope::Query)?;
        game.read().surveys.all()
    };
    survey_response(&json!({ "surveys": surveys }))
}

/// Creates or replaces a survey.
#[utoipa::path(
    put, path = "/v1/surveys/{key}", operation_id = "put_survey", tag = "surveys", security(("secret_key" = [])),
    params(("key" = String, Path, description = "1 to 100 letters, digits, `.`, `_` or `-`.", example = "mood")),
    request_body(content = PutSurveyRequest, example = json!({
        "title": "How do you like it?",
        "questions": [
            {"key": "fun", "kind": "scale", "text": "How much fun is it?"},
            {"key": "best", "kind": "choice", "text": "Which letter is best?", "options": ["A", "B", "C"]},
            {"key": "why", "kind": "text", "text": "Why?", "max": 500}
        ]
    })),
    responses(
        (status = 200, description = "The survey was replaced.", body = serde_json::Value),
        (status = 201, description = "The survey was created.", body = serde_json::Value),
        (status = 409, description = "The existing answers would not match the new questions."),
    ),
)]
pub(crate) async fn put(
    State(runtime): State<RuntimeState>,
    Path(key): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let request: CommandRequest<PutSurveyRequest> =
        runtime.read_command(request, WRITERS, BODY_BYTES_MAX).await?;
    let (request, survey) = request.split();
    runtime
        .submit(request, Command::Surveys(surveys::SurveyCommand::Put { key, definition: survey.into() }))
        .await
}

/// Deletes a survey and its answers.
#[utoipa::path(
    delete, path = "/v1/surveys/{key}", operation_id = "delete_survey", tag = "surveys", security(("secret_key" = [])),
    params(("key" = String, Path, description = "The survey.", example = "mood")),
    responses((status = 204, description = "The survey was deleted."), (status = 404, description = "No such survey.")),
)]
pub(crate) async fn delete(
    State(runtime): State<RuntimeState>,
    Path(key): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let request = runtime.read_command_without_body(request, WRITERS).await?;
    runtime.submit(request, Command::Surveys(surveys::SurveyCommand::Delete { key })).await
}

/// Submits a player's answers to a survey, once per player. The answers become events `survey.<survey>.<question>` of
/// the player, with the number on a scale as `value` and the option of a choice as `level`.
#[utoipa::path(
    post, path = "/v1/surveys/{key}/answers", operation_id = "answer_survey", tag = "surveys",
    security(("public_key" = []), ("secret_key" = [])),
    params(("key" = String, Path, description = "The survey.", example = "mood")),
    request_body(content = AnswerSurveyRequest, example = json!({"player": "bo", "answers": {"fun": 5, "best": "A"}})),
    responses(
        (status = 201, description = "`{survey, player, at}`", body = serde_json::Value),
        (status = 404, description = "No such survey, or it is not open."),
        (status = 409, description = "The player has already answered the survey."),
    ),
)]
pub(crate) async fn answer(
    State(runtime): State<RuntimeState>,
    context: RequestContext,
    Path(key): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let headers = request.headers().clone();
    let rights = Rights::Public(Scope::EventsWrite);
    let request: CommandRequest<AnswerSurveyRequest> =
        runtime.read_command(request, rights, BODY_BYTES_MAX).await?;
    let (request, AnswerSurveyRequest { player, answers }) = request.split();
    let reporter = AnswerReporter {
        runtime: &runtime,
        access: request.access.clone(),
        received_ms: request.received_ms,
        headers: &headers,
        address: context.client_address(),
    };
    let command = surveys::SurveyCommand::Answer { key: key.clone(), player: player.clone(), answers };
    let outcome = runtime.execute(request, Command::Surveys(command), &[]).await?;
    // The events of an earlier answer may be missing if the server stopped between the command and its events.
    if outcome.is_ok() || outcome.as_ref().is_err_and(|refusal| refusal.kind == RefusalKind::Conflict) {
        reporter.report(&key, &player).await?;
    }
    outcome.map(commands::command_response).map_err(commands::refusal_problem)
}

/// Returns the results of a survey.
#[utoipa::path(
    get, path = "/v1/surveys/{key}/results", operation_id = "survey_results", tag = "surveys", security(("secret_key" = [])),
    params(("key" = String, Path, description = "The survey.", example = "mood")),
    responses(
        (status = 200, description = "`{key, title, answers, questions: [...]}` with counts per option or \
            number, the mean of a scale, and the last 100 texts.", body = serde_json::Value),
        (status = 404, description = "No such survey."),
    ),
)]
pub(crate) async fn results(
    State(shared): State<Arc<AppState>>,
    Path(key): Path<String>,
    credentials: Credentials,
) -> HandlerResult {
    let access = credentials.authorize_query(&shared.catalog, now_s())?;
    let game = shared.views.liveops.game(access.game.number);
    let results = game.read().surveys.results(&key);
    survey_response(&results.ok_or_else(|| Problem::not_found("no such survey").field("key"))?)
}

fn survey_response(value: &Value) -> HandlerResult {
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    Ok((headers, value.to_string()).into_response())
}

/// Sends the answers of a player as events.
struct AnswerReporter<'a> {
    runtime: &'a RuntimeState,
    access: Access,
    received_ms: i64,
    headers: &'a HeaderMap,
    address: Option<IpAddr>,
}

impl AnswerReporter<'_> {
    /// Ingests the answers of a player as events. Their ids are derived from the answer, so that a repeat counts once.
    async fn report(&self, survey: &str, player: &str) -> Result<(), Problem> {
        let AppState { views, ingest, .. } = &*self.runtime.shared;
        let game = views.liveops.game(self.access.game.number);
        let answers = game.read().surveys.events(survey, player);
        let is_new = |answer: &AnswerEvent| answer.ts_ms + RESEND_MS_MAX > self.received_ms;
        if !answers.first().is_some_and(is_new) {
            return Ok(());
        }
        let events = answers.iter().map(|answer| Ok(event(answer, player))).collect();
        let decoded = RawBatch { sent_at_ms: None, events };
        // With the id class of secret keys, so that clients with the public key cannot occupy the ids.
        let access = Access { class: KeyClass::Secret, ..self.access.clone() };
        ingest
            .submit(&self.runtime.lane, &access, &self.request(), &decoded)
            .await
            .map_err(ingest_problem)?;
        Ok(())
    }

    /// The address and the user agent are the player's only with the public key; otherwise a server is the client.
    fn request(&self) -> ingest::IngestRequest<'_> {
        let is_player = self.access.class == KeyClass::Public;
        let address = self.address.filter(|_| is_player);
        let user_agent = if is_player { header_text(self.headers, USER_AGENT) } else { "" };
        let received_ms = self.received_ms;
        ingest::IngestRequest {
            endpoint: Endpoint::Events,
            received_ms,
            client: ingest::ClientInfo { address, user_agent },
            ack: Ack::Disk,
            rejected: &[],
        }
    }
}

fn event<'a>(answer: &'a AnswerEvent, player: &'a str) -> RawEvent<'a> {
    let mut event = RawEvent {
        name: Some(answer.name.as_str().into()),
        id: Some(answer.id),
        ts_ms: Some(answer.ts_ms),
        player: Some(player.into()),
        value: answer.value,
        ..RawEvent::default()
    };
    event.dimensions[Dimension::Level as usize] = answer.option.as_deref().map(Into::into);
    event
}

impl From<PutSurveyRequest> for surveys::SurveyDefinition {
    fn from(it: PutSurveyRequest) -> surveys::SurveyDefinition {
        let SurveyAudience { country, platform, version, segment, cohort } = it.audience;
        surveys::SurveyDefinition {
            title: it.title,
            questions: it.questions.into_iter().map(surveys::Question::from).collect(),
            audience: vars::Audience { country, platform, version, segment, cohort },
            starts_at: it.starts_at,
            ends_at: it.ends_at,
        }
    }
}

impl From<SurveyQuestion> for surveys::Question {
    fn from(it: SurveyQuestion) -> surveys::Question {
        let SurveyQuestion { key, kind, text, options, min, max } = it;
        let kind = match kind {
            QuestionKind::Choice => surveys::QuestionKind::Choice,
            QuestionKind::Scale => surveys::QuestionKind::Scale,
            QuestionKind::Text => surveys::QuestionKind::Text,
        };
        surveys::Question { key, kind, text, options, min, max }
    }
}
