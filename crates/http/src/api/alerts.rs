//! Alert rules: `/v1/alerts`, their deliveries, tests and replays.

pub(crate) mod requests;

use std::sync::Arc;

use ::alerts::{ReplayRequest, new_secret};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::{Router, routing};
use hyper::Request;
use hyper::http::request::Parts;
use liveops::Command;
use liveops::alerts::{Alert, AlertCommand, AlertNotification, TargetWrite};
use pipeline::catalog::{Access, Scope};
use pipeline::time::{now_ms, now_s};
use serde_json::{Value, json};
use utoipa::OpenApi;

use super::commands::{BODY_BYTES_MAX, CommandRequest, HandlerResult, Rights};
use super::json::{from_json, json_response};
use super::query::run_bounded;
use crate::auth::Credentials;
use crate::body;
use crate::problem::Problem;
use crate::{AppState, RuntimeState};
use requests::{MuteAlertRequest, PreviewAlertRequest, PutAlertRequest, check_rule};

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new()
        .route("/v1/alerts", routing::get(list))
        .route("/v1/alerts/{key}", routing::get(get).put(put).delete(delete))
        .route("/v1/alerts/{key}/mute", routing::put(mute))
        .route("/v1/alerts/{key}/test", routing::post(test))
        .route("/v1/alerts/{key}/deliveries", routing::get(deliveries))
        .route("/v1/alerts:preview", routing::post(preview))
}

/// The operations of this module in the OpenAPI description.
#[derive(OpenApi)]
#[openapi(
    paths(list, get, put, delete, mute, test, deliveries, preview),
    components(schemas(requests::AlertCondition))
)]
pub(crate) struct AlertsApi;

/// Credentials that may write rules.
const WRITERS: Rights = Rights::Server(Scope::Admin);

/// Lists the alert rules with their state: `ok`, `pending`, `firing` or `resolved`.
#[utoipa::path(
    get, path = "/v1/alerts", operation_id = "alerts", tag = "alerts", security(("secret_key" = [])),
    responses((status = 200, description = "`{alerts: [...]}`", body = serde_json::Value)),
)]
pub(crate) async fn list(State(shared): State<Arc<AppState>>, credentials: Credentials) -> HandlerResult {
    let access = credentials.authorize_query(&shared.catalog, now_s())?;
    let game = shared.views.liveops.game(access.game.number);
    let game = game.read();
    let alerts = game.alerts.rules().map(|(key, alert)| alert_json(&shared, &access, key, alert));
    json_response(&json!({ "alerts": alerts.collect::<Value>() }))
}

/// Returns an alert rule with its state. Secrets of targets are not shown.
#[utoipa::path(
    get, path = "/v1/alerts/{key}", operation_id = "alert", tag = "alerts", security(("secret_key" = [])),
    params(("key" = String, Path, description = "The rule.", example = "errors")),
    responses(
        (status = 200, description = "The rule, its state, and as `last_evaluation` what was found last.", body = serde_json::Value),
        (status = 404, description = "No such rule."),
    ),
)]
pub(crate) async fn get(
    State(shared): State<Arc<AppState>>,
    Path(key): Path<String>,
    credentials: Credentials,
) -> HandlerResult {
    let access = credentials.authorize_query(&shared.catalog, now_s())?;
    let game = shared.views.liveops.game(access.game.number);
    let game = game.read();
    let alert = game.alerts.rule(&key).ok_or_else(not_found)?;
    json_response(&alert_json(&shared, &access, &key, alert))
}

/// Creates or replaces an alert rule. If its query or its condition changes, its state begins anew.
#[utoipa::path(
    put, path = "/v1/alerts/{key}", operation_id = "put_alert", tag = "alerts", security(("secret_key" = [])),
    params(("key" = String, Path, description = "1 to 100 letters, digits, `.`, `_` or `-`.", example = "errors")),
    request_body(content = PutAlertRequest, example = json!({
        "name": "Errors double", "message": "See the runbook.",
        "query": {"metric": "error", "last": "15m"},
        "compare": {"previous": {"op": ">=", "factor": 2.0, "min": 10.0}},
        "for_s": 120, "cooldown_s": 600, "no_data": "ok",
        "targets": [{"id": "ops", "kind": "webhook", "url": "https://hooks.example.com/playmeter"}]
    })),
    responses(
        (status = 200, description = "The rule was replaced.", body = serde_json::Value),
        (status = 201, description = "The rule was created. New secrets of webhooks are in `targets`; they are shown only here.", body = serde_json::Value),
    ),
)]
pub(crate) async fn put(
    State(runtime): State<RuntimeState>,
    Path(key): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let request: CommandRequest<PutAlertRequest> =
        runtime.read_command(request, WRITERS, BODY_BYTES_MAX).await?;
    let (request, body) = request.split();
    let (rule, targets) = body.split();
    check_rule(&rule, &request.access.game.settings.declared())?;
    let mut writes: Vec<TargetWrite> = Vec::with_capacity(targets.len());
    for (index, target) in targets.into_iter().enumerate() {
        let refused =
            target.url.as_deref().and_then(|url| runtime.shared.alerts.settings().refused_host(url));
        if let Some(host) = refused {
            let detail = format!(
                "{host} is not a public address; the operator of the server can allow it in `alerts.allowed_addresses`"
            );
            return Err(Problem::invalid(detail).field(format!("targets[{index}].url")));
        }
        let secret = target.needs_secret().then(new_secret).transpose();
        writes.push(target.into_write(secret.map_err(|error| Problem::internal(error.to_string()))?));
    }
    runtime.submit(request, Command::Alerts(AlertCommand::Put { key, rule, targets: writes })).await
}

/// Deletes an alert rule with its deliveries. Targets are not sent that it has resolved.
#[utoipa::path(
    delete, path = "/v1/alerts/{key}", operation_id = "delete_alert", tag = "alerts", security(("secret_key" = [])),
    params(("key" = String, Path, description = "The rule.", example = "errors")),
    responses((status = 204, description = "The rule was deleted."), (status = 404, description = "No such rule.")),
)]
pub(crate) async fn delete(
    State(runtime): State<RuntimeState>,
    Path(key): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let request = runtime.read_command_without_body(request, WRITERS).await?;
    runtime.submit(request, Command::Alerts(AlertCommand::Delete { key })).await
}

/// Mutes an alert rule: its state changes, and no notifications are sent.
#[utoipa::path(
    put, path = "/v1/alerts/{key}/mute", operation_id = "mute_alert", tag = "alerts", security(("secret_key" = [])),
    params(("key" = String, Path, description = "The rule.", example = "errors")),
    request_body(content = MuteAlertRequest, example = json!({"until": "2030-01-01T00:00:00Z"})),
    responses(
        (status = 200, description = "The rule.", body = serde_json::Value),
        (status = 404, description = "No such rule."),
    ),
)]
pub(crate) async fn mute(
    State(runtime): State<RuntimeState>,
    Path(key): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let request: CommandRequest<MuteAlertRequest> =
        runtime.read_command(request, WRITERS, BODY_BYTES_MAX).await?;
    let (request, MuteAlertRequest { until }) = request.split();
    runtime.submit(request, Command::Alerts(AlertCommand::Mute { key, until })).await
}

/// Sends a test notification to each target of an alert rule. `GET /v1/alerts/{key}/deliveries` shows whether it arrived.
#[utoipa::path(
    post, path = "/v1/alerts/{key}/test", operation_id = "test_alert", tag = "alerts", security(("secret_key" = [])),
    params(("key" = String, Path, description = "The rule.", example = "errors")),
    responses(
        (status = 202, description = "`{notification}`: its id among the deliveries.", body = serde_json::Value),
        (status = 404, description = "No such rule."),
        (status = 409, description = "The rule has no targets."),
    ),
)]
pub(crate) async fn test(
    State(runtime): State<RuntimeState>,
    Path(key): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let request = runtime.read_command_without_body(request, WRITERS).await?;
    runtime.submit(request, Command::Alerts(AlertCommand::Test { key })).await
}

/// Lists the last 32 notifications of an alert rule with their deliveries, newest first.
#[utoipa::path(
    get, path = "/v1/alerts/{key}/deliveries", operation_id = "alert_deliveries", tag = "alerts", security(("secret_key" = [])),
    params(("key" = String, Path, description = "The rule.", example = "errors")),
    responses(
        (status = 200, description = "`{notifications: [{id, kind, at, finding, muted, deliveries: [{target, status, attempts, at, error}]}]}`", body = serde_json::Value),
        (status = 404, description = "No such rule."),
    ),
)]
pub(crate) async fn deliveries(
    State(shared): State<Arc<AppState>>,
    Path(key): Path<String>,
    credentials: Credentials,
) -> HandlerResult {
    let access = credentials.authorize_query(&shared.catalog, now_s())?;
    let game = shared.views.liveops.game(access.game.number);
    let game = game.read();
    let alert = game.alerts.rule(&key).ok_or_else(not_found)?;
    let newest = alert.notifications.iter().rev().map(AlertNotification::json);
    json_response(&json!({ "notifications": newest.collect::<Value>() }))
}

/// Replays a rule over history, with the evaluator that alerts use: at most 1,440 evaluations, or 48 of a question over
/// raw events.
#[utoipa::path(
    post, path = "/v1/alerts:preview", operation_id = "preview_alert", tag = "alerts", security(("secret_key" = [])),
    request_body(content = PreviewAlertRequest, example = json!({
        "query": {"metric": "error", "last": "15m"}, "compare": {"op": ">", "value": 100.0}, "for_s": 120, "last": "24h"
    })),
    responses(
        (status = 200, description = "`{step_s, times, values, low, high, states, transitions: [{at, state, value}], fired}`", body = serde_json::Value),
        (status = 422, description = "The queries need more memory than one query may use."),
    ),
)]
pub(crate) async fn preview(
    State(shared): State<Arc<AppState>>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    let (head, mut body) = request.into_parts();
    let result = preview_body(&shared, &head, &mut body).await;
    if let Err(problem) = &result {
        body::discard(&head.headers, body, problem);
    }
    result
}

async fn preview_body(shared: &Arc<AppState>, head: &Parts, body: &mut Body) -> HandlerResult {
    let access = Credentials::from(head).authorize_query(&shared.catalog, now_s())?;
    let bytes = body::collect(head, body, BODY_BYTES_MAX).await?;
    let (rule, minutes) = from_json::<PreviewAlertRequest>(&bytes)?.split()?;
    let query = check_rule(&rule, &access.game.settings.declared())?;
    let until = now_ms().div_euclid(60_000).max(0) as u32;
    let replay =
        ReplayRequest::new(rule, query, until.saturating_sub(minutes), until).map_err(Problem::from)?;
    let offset = shared.log.durable_until();
    shared.views.caught_up(offset).await?;
    let events = match replay.reads_events() {
        true => Some(shared.archiver.snapshot(access.game.number, offset).await?),
        false => None,
    };
    let (views, game) = (Arc::clone(&shared.views), Arc::clone(&access.game));
    let replayed = run_bounded(shared, game.number, move |control| {
        let replayed = replay.run(&views, &game, events.as_ref(), control);
        replayed.map(|replayed| replayed.json()).map_err(Problem::limit_reached)
    });
    json_response(&replayed.await?)
}

fn alert_json(shared: &AppState, access: &Access, key: &str, alert: &Alert) -> Value {
    let mut json = alert.json(key);
    let status = shared.alerts.status(access.game.number, key, alert.definition.revision);
    json["last_evaluation"] = status.map_or(Value::Null, |status| status.json());
    json
}

fn not_found() -> Problem {
    Problem::not_found("there is no such alert rule").field("key")
}
