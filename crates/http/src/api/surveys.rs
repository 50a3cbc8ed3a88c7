//! Surveys: what is asked, of whom, and what they said.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, Path, State};
use axum::response::IntoResponse;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, USER_AGENT};
use hyper::{Request, Uri};
use liveops::surveys::{self, AnswerEvent};
use liveops::vars::{self, Json, TimestampMs};
use liveops::{Command, RefusalKind};
use model::batch::{Endpoint, KeyClass};
use model::{Dimension, RawBatch, RawEvent};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{OpenApi, ToSchema};
use wal::Ack;

use super::commands::{self, Answered, Asked, BODY_BYTES_MAX, Local, Rights};
use super::events::{address, refused, text};
use super::vars::who::Parameters;
use crate::AppState;
use crate::auth;
use crate::problem::Problem;
use axum::{Router, routing};
use pipeline::catalog::{Access, Scope};
use pipeline::ingest;
use pipeline::time::{now_ms, now_s};

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
    Router::new()
        .route("/v1/surveys", routing::get(list))
        .route("/v1/surveys/{key}", routing::put(put).delete(delete))
        .route("/v1/surveys/{key}/answers", routing::post(answer))
        .route("/v1/surveys/{key}/results", routing::get(results))
}

/// What is documented of this page.
#[derive(OpenApi)]
#[openapi(paths(list, put, delete, answer, results))]
pub struct Docs;

/// An answer given longer ago than this is not made into events again: it became some, and their ids are not
/// remembered for ever.
const AGAIN_MS: i64 = 3_600_000;
/// Who may write surveys.
const WRITERS: Rights = Rights::Server(Scope::Admin);

/// A survey, all of it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutSurvey {
    /// Up to 200 bytes.
    title: String,
    /// 1 to 30. Once there are answers, questions and options may only be added at the end.
    questions: Vec<Question>,
    /// Who is asked; without it, everybody.
    #[serde(default)]
    audience: Audience,
    /// RFC 3339.
    #[schema(value_type = Option<String>)]
    starts_at: Option<TimestampMs>,
    /// RFC 3339.
    #[schema(value_type = Option<String>)]
    ends_at: Option<TimestampMs>,
}

/// One question.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Names it in answers, and its events `survey.<survey>.<question>`.
    key: String,
    /// How it is answered.
    kind: QuestionKind,
    /// What is asked, up to 500 bytes.
    text: String,
    /// Of a choice: 2 to 50.
    #[serde(default)]
    options: Vec<String>,
    /// Of a scale: its lower end, 1 if not given. Of a text: its fewest characters, 1 if not given.
    min: Option<i64>,
    /// Of a scale: its upper end, 5 if not given. Of a text: its most characters, 1,000 if not given.
    max: Option<i64>,
}

/// How a question is answered.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// With one of the options.
    Choice,
    /// With a whole number between two ends.
    Scale,
    /// In the player's own words.
    Text,
}

/// Who is meant: somebody who is in every list that is given.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Audience {
    /// ISO 3166 two-letter codes.
    #[serde(default)]
    country: Vec<String>,
    /// As in events.
    #[serde(default)]
    platform: Vec<String>,
    /// The game's versions.
    #[serde(default)]
    version: Vec<String>,
    /// One of these is enough.
    #[serde(default)]
    segment: Vec<String>,
}

/// A player's answers.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Answers {
    /// Who answers.
    player: String,
    /// By the questions' keys; at least one.
    #[schema(value_type = BTreeMap<String, serde_json::Value>)]
    answers: BTreeMap<String, Json>,
}

/// The surveys that a player is to answer now. A secret key that names no player gets all of them, with what they are.
#[utoipa::path(
    get, path = "/v1/surveys", operation_id = "surveys", tag = "surveys", security(("public_key" = []), ("secret_key" = [])),
    params(
        ("player" = Option<String>, Query, description = "Needed with the public key."),
        ("platform" = Option<String>, Query, description = "With the public key, that of the user agent if not given."),
        ("version" = Option<String>, Query, description = "The game's version."),
        ("segment" = Option<String>, Query, description = "Segments of the player, joined by commas."),
        ("country" = Option<String>, Query, description = "With a secret key only; otherwise that of the address."),
    ),
    responses((status = 200, description = "`{surveys: [...]}`", body = serde_json::Value)),
)]
pub async fn list(
    State(shared): State<Arc<AppState>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    uri: Uri,
    headers: HeaderMap,
) -> Answered {
    let access = auth::for_reads(&shared.catalog, &headers, uri.query(), now_s())?;
    let parameters = Parameters::read(uri.query())?;
    let game = shared.views.liveops.game(access.game.number);
    let surveys = if parameters.has_player() {
        let who = parameters.who(&shared, &access, &headers, peer)?;
        game.read().surveys.due(&who, now_ms())
    } else if access.class == KeyClass::Public {
        return Err(Problem::invalid("say which player is asked").field("player"));
    } else {
        auth::allow(access, Scope::Query)?;
        game.read().surveys.all()
    };
    json_of(&json!({ "surveys": surveys }))
}

/// Writes a survey.
#[utoipa::path(
    put, path = "/v1/surveys/{key}", operation_id = "put_survey", tag = "surveys", security(("secret_key" = [])),
    params(("key" = String, Path, description = "1 to 100 letters, digits, `.`, `_` or `-`.", example = "mood")),
    request_body(content = PutSurvey, example = json!({
        "title": "How do you like it?",
        "questions": [
            {"key": "fun", "kind": "scale", "text": "How much fun is it?"},
            {"key": "best", "kind": "choice", "text": "Which letter is best?", "options": ["A", "B", "C"]},
            {"key": "why", "kind": "text", "text": "Why?", "max": 500}
        ]
    })),
    responses(
        (status = 200, description = "It was changed.", body = serde_json::Value),
        (status = 201, description = "It is new.", body = serde_json::Value),
        (status = 409, description = "The answers that there are would not fit."),
    ),
)]
pub async fn put(State(local): State<Local>, Path(key): Path<String>, request: Request<Body>) -> Answered {
    let asked: Asked<PutSurvey> = local.read(request, WRITERS, BODY_BYTES_MAX).await?;
    let (asked, survey) = asked.split();
    local
        .submit(asked, Command::Surveys(surveys::SurveyCommand::Put { key, definition: survey.into() }))
        .await
}

/// Removes a survey with its answers.
#[utoipa::path(
    delete, path = "/v1/surveys/{key}", operation_id = "delete_survey", tag = "surveys", security(("secret_key" = [])),
    params(("key" = String, Path, description = "The survey.", example = "mood")),
    responses((status = 204, description = "It is gone."), (status = 404, description = "There is none.")),
)]
pub async fn delete(State(local): State<Local>, Path(key): Path<String>, request: Request<Body>) -> Answered {
    let asked = local.read_empty(request, WRITERS).await?;
    local.submit(asked, Command::Surveys(surveys::SurveyCommand::Delete { key })).await
}

/// Answers a survey, once per player. The answers become events `survey.<survey>.<question>` of the player, with the
/// number on a scale as `value` and the option of a choice as `level`.
#[utoipa::path(
    post, path = "/v1/surveys/{key}/answers", operation_id = "answer_survey", tag = "surveys",
    security(("public_key" = []), ("secret_key" = [])),
    params(("key" = String, Path, description = "The survey.", example = "mood")),
    request_body(content = Answers, example = json!({"player": "bo", "answers": {"fun": 5, "best": "A"}})),
    responses(
        (status = 201, description = "`{survey, player, at}`", body = serde_json::Value),
        (status = 404, description = "There is no such survey, or it is not open."),
        (status = 409, description = "The player has answered it already."),
    ),
)]
pub async fn answer(
    State(local): State<Local>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Path(key): Path<String>,
    request: Request<Body>,
) -> Answered {
    let headers = request.headers().clone();
    let rights = Rights::Public(Scope::EventsWrite);
    let asked: Asked<Answers> = local.read(request, rights, BODY_BYTES_MAX).await?;
    let (asked, Answers { player, answers }) = asked.split();
    let teller = Teller {
        local: &local,
        access: asked.access.clone(),
        received_ms: asked.received_ms,
        headers: &headers,
        peer,
    };
    let command = surveys::SurveyCommand::Answer { key: key.clone(), player: player.clone(), answers };
    let outcome = local.decided(asked, Command::Surveys(command), &[]).await?;
    // An answer given before may not have become events: this server may have gone in between.
    if outcome.is_ok() || outcome.as_ref().is_err_and(|refusal| refusal.kind == RefusalKind::Conflict) {
        teller.tell(&key, &player).await?;
    }
    outcome.map(commands::answered).map_err(commands::problem)
}

/// What the answers to a survey come to.
#[utoipa::path(
    get, path = "/v1/surveys/{key}/results", operation_id = "survey_results", tag = "surveys", security(("secret_key" = [])),
    params(("key" = String, Path, description = "The survey.", example = "mood")),
    responses(
        (status = 200, description = "`{key, title, answers, questions: [...]}`: counts per option or number, the \
            mean of a scale, the last 100 texts.", body = serde_json::Value),
        (status = 404, description = "There is no such survey."),
    ),
)]
pub async fn results(
    State(shared): State<Arc<AppState>>,
    Path(key): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Answered {
    let access = auth::for_questions(&shared.catalog, &headers, uri.query(), now_s())?;
    let game = shared.views.liveops.game(access.game.number);
    let results = game.read().surveys.results(&key);
    json_of(&results.ok_or_else(|| Problem::not_found("there is no such survey").field("key"))?)
}

fn json_of(value: &Value) -> Answered {
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    Ok((headers, value.to_string()).into_response())
}

/// Makes events of answers.
struct Teller<'a> {
    local: &'a Local,
    access: Access,
    received_ms: i64,
    headers: &'a HeaderMap,
    peer: SocketAddr,
}

impl Teller<'_> {
    /// Sends what a player answered through the line. Sent twice, it counts once: the ids follow from the answer.
    async fn tell(&self, survey: &str, player: &str) -> Result<(), Problem> {
        let AppState { views, ingest, .. } = &*self.local.shared;
        let game = views.liveops.game(self.access.game.number);
        let answers = game.read().surveys.events(survey, player);
        let is_new = |answer: &AnswerEvent| answer.ts_ms + AGAIN_MS > self.received_ms;
        if !answers.first().is_some_and(is_new) {
            return Ok(());
        }
        let events = answers.iter().map(|answer| Ok(event(answer, player))).collect();
        let decoded = RawBatch { sent_at_ms: None, events };
        // With the server's class of ids: nobody who has the public key can use them up.
        let access = Access { class: KeyClass::Secret, ..self.access.clone() };
        ingest.submit(&self.local.lane, &access, &self.request(), &decoded).await.map_err(refused)?;
        Ok(())
    }

    /// With the public key the player is at the other end of the connection; with another, a server.
    fn request(&self) -> ingest::IngestRequest<'_> {
        let is_player = self.access.class == KeyClass::Public;
        let address = address(&self.local.shared, self.headers, self.peer).filter(|_| is_player);
        let user_agent = if is_player { text(self.headers, USER_AGENT) } else { "" };
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

impl From<PutSurvey> for surveys::SurveyDefinition {
    fn from(it: PutSurvey) -> surveys::SurveyDefinition {
        let Audience { country, platform, version, segment } = it.audience;
        surveys::SurveyDefinition {
            title: it.title,
            questions: it.questions.into_iter().map(surveys::Question::from).collect(),
            audience: vars::Audience { country, platform, version, segment },
            starts_at: it.starts_at,
            ends_at: it.ends_at,
        }
    }
}

impl From<Question> for surveys::Question {
    fn from(it: Question) -> surveys::Question {
        let Question { key, kind, text, options, min, max } = it;
        let kind = match kind {
            QuestionKind::Choice => surveys::QuestionKind::Choice,
            QuestionKind::Scale => surveys::QuestionKind::Scale,
            QuestionKind::Text => surveys::QuestionKind::Text,
        };
        surveys::Question { key, kind, text, options, min, max }
    }
}
