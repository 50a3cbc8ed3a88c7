//! Experiments: variables with a percentage condition, and what the players of each variant did.

use std::sync::Arc;

use archive::questions::exposure::{ExperimentPlan, ExperimentQuestion, Exposure};
use archive::questions::limits::REQUEST_BYTES_MAX;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::{Router, routing};
use hyper::Request;
use hyper::http::request::Parts;
use liveops::vars::{Experiment, VarsViewer};
use pipeline::time::{now_ms, now_s, rfc3339};
use serde_json::{Value, json};
use utoipa::OpenApi;

use super::commands::HandlerResult;
use super::json::json_response;
use super::openapi::schemas;
use super::query::accepted_format;
use super::questions::{encode, question_problem, run};
use crate::auth::Credentials;
use crate::body;
use crate::problem::Problem;
use crate::rows::RowFormat;
use crate::{AppState, RuntimeState};

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new()
        .route("/v1/experiments", routing::get(list))
        .route("/v1/experiments:results", routing::post(results))
}

/// The operations of this module in the OpenAPI description.
#[derive(OpenApi)]
#[openapi(paths(list, results))]
pub(crate) struct ExperimentsApi;

/// Lists the experiments: variables with a percentage condition.
///
/// `state` is `scheduled`, `running` or `ended`. `since` is the time since which players are assigned as now; null if the
/// history of the variables does not reach back that far. The first of the `variants` is the control `(value)`;
/// `planned_share` is null if it depends on the player.
#[utoipa::path(
    get, path = "/v1/experiments", operation_id = "experiments", tag = "analytics", security(("secret_key" = [])),
    responses((status = 200, description = "`{experiments: [{variable, description, state, since, variants: [{name, planned_share}]}]}`", body = serde_json::Value)),
)]
pub(crate) async fn list(State(shared): State<Arc<AppState>>, credentials: Credentials) -> HandlerResult {
    let access = credentials.authorize_query(&shared.catalog, now_s())?;
    let game = shared.views.liveops.game(access.game.number);
    let now_ms = now_ms();
    let experiments: Vec<Value> = game.read().vars.experiments().map(|it| describe(&it, now_ms)).collect();
    json_response(&json!({ "experiments": experiments }))
}

fn describe(experiment: &Experiment, now_ms: i64) -> Value {
    let variants = experiment.variants().into_iter();
    let variants: Vec<Value> =
        variants.map(|variant| json!({ "name": variant.name, "planned_share": variant.share })).collect();
    json!({
        "variable": experiment.name(),
        "description": experiment.description(),
        "state": experiment.state(now_ms).label(),
        "since": experiment.since_ms.map(rfc3339),
        "variants": variants,
    })
}

/// Compares what the players of each variant did.
///
/// A player is exposed by the first event of the range at which the experiment assigns a variant. `measure` is
/// `conversion`, the share of players with the `event` from then on, or `mean`, the mean over players of the sum of
/// `property` (without it, of the number of events). Without `from` or `last`, the range starts when players were first
/// assigned as now.
///
/// Each variant has an `estimate` with a 95 % interval, and the `difference` to the control with an interval and a p-value
/// for one look. `sequential` holds at all times at once, however often you look. With `sample_ratio.is_mismatched` the
/// numbers of players contradict the planned shares, and no other number can be trusted.
#[utoipa::path(
    post, path = "/v1/experiments:results", operation_id = "experiment_results", tag = "analytics", security(("secret_key" = [])),
    request_body(content = schemas::ExperimentRequest, example = json!({
        "variable": "speed", "metric": {"event": "purchase", "measure": "conversion"},
    })),
    responses(
        (status = 200, description = "The comparison, or its rows as CSV or NDJSON.", body = schemas::QuestionAnswer),
        (status = 400, description = "The question is invalid; `field` names the field.", body = schemas::ProblemDocument),
        (status = 404, description = "There is no such experiment.", body = schemas::ProblemDocument),
        (status = 422, description = "The question needs more memory than one question may use.", body = schemas::ProblemDocument),
        (status = 503, description = "The question took too long, or the server is busy; see Retry-After.", body = schemas::ProblemDocument),
    ),
)]
pub(crate) async fn results(
    State(shared): State<Arc<AppState>>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    let (head, mut body) = request.into_parts();
    let result = answer(&shared, &head, &mut body).await;
    if let Err(problem) = &result {
        body::discard(&head.headers, body, problem);
    }
    result
}

async fn answer(shared: &Arc<AppState>, head: &Parts, body: &mut Body) -> Result<Response, Problem> {
    let access = Credentials::from(head).authorize_query(&shared.catalog, now_s())?;
    let mut pairs = crate::query_string::pairs(head.uri.query().unwrap_or_default())?;
    let format = RowFormat::take(&mut pairs)?.unwrap_or_else(|| accepted_format(&head.headers));
    let body = body::collect(head, body, REQUEST_BYTES_MAX).await?;
    let question = ExperimentQuestion::from_json(&body).map_err(Problem::from)?;
    // The command that wrote the variable may just have been acknowledged.
    shared.views.caught_up(shared.log.durable_until()).await?;
    let number = access.game.number;
    let game = shared.views.liveops.game(number);
    let experiment = game.read().vars.experiment(question.variable());
    let experiment = experiment.ok_or_else(|| {
        let detail = format!("there is no variable `{}` with a percentage condition", question.variable());
        Problem::not_found(detail).field("variable")
    })?;
    let (views, names) = (Arc::clone(&shared.views), experiment.cohorts());
    let cohorts = question.cohorts().into_iter().map(str::to_owned).collect();
    let answer = run::over_events(shared, &access, cohorts, move |events| {
        let assign = |exposure: &Exposure<'_>| {
            let Exposure { player, time_ms, country, platform, version } = *exposure;
            let viewer = VarsViewer {
                player: player.to_owned(),
                country: country.to_owned(),
                platform: platform.to_owned(),
                version: version.to_owned(),
                segments: Vec::new(),
                cohorts: views.cohorts_of(number, player, names.iter().map(String::as_str)),
            };
            experiment.assign(&viewer, time_ms)
        };
        let variants = experiment.variants().into_iter();
        let plan = ExperimentPlan {
            variants: variants.map(|variant| (variant.name, variant.share.unwrap_or(0.0))).collect(),
            since_ms: experiment.since_ms,
            transitions: experiment.transitions(),
            assign: &assign,
        };
        let answer = question.run(&events.context, &plan).map_err(question_problem)?;
        encode(format, &answer, events.as_of)
    });
    let bytes = run::until_client_leaves(head, answer).await?;
    Ok(format.response("experiment", bytes))
}
