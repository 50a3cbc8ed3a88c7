//! Privacy: export and erasure of the data of one player.

mod export;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use hyper::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use hyper::{Request, StatusCode};
use liveops::players::{ERASURE_WITHIN_MS, ErasureStage, IdentityLink, PlayerCommand as Players, Receipt};
use liveops::{Command, check_player};
use pipeline::catalog::{Access, Scope};
use pipeline::erasure;
use pipeline::ingest::IngestError;
use pipeline::random;
use pipeline::time::{now_ms, now_s, rfc3339};
use serde::{Deserialize, Serialize};
use utoipa::{OpenApi, ToSchema};

use super::commands::{self, HandlerResult, Rights};
use super::events::ingest_problem;
use crate::auth::{self, Credentials};
use crate::problem::Problem;
use crate::{AppState, RuntimeState};
use export::Export;

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new()
        .route("/v1/players/{player}", routing::delete(erase))
        .route("/v1/players/{player}/export", routing::get(export))
        .route("/v1/erasures/{receipt}", routing::get(receipt))
}

/// The operations of this module in the OpenAPI description.
#[derive(OpenApi)]
#[openapi(paths(export, erase, receipt))]
pub(crate) struct PrivacyApi;

/// An erasure that has started.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ErasureStarted {
    /// Proves the erasure without naming the player: `GET /v1/erasures/{receipt}`.
    receipt: String,
    /// Time since which no data of the player can be read (RFC 3339).
    invisible_at: String,
    /// Deadline by which no file contains data of the player (RFC 3339).
    gone_by: String,
}

/// The decision of the command.
#[derive(Deserialize)]
struct ErasureDecision {
    receipt: String,
    invisible_ms: i64,
    gone_by_ms: i64,
}

/// The progress of an erasure, or the proof of an export.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct PrivacyReceipt {
    receipt: String,
    /// `erasure` or `export`.
    kind: String,
    /// Time of the request (RFC 3339).
    asked_at: String,
    /// For an erasure: `invisible`; `log` once the log contains no data of the player; `done` once no file does.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    /// Time since which no data of the player can be read (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    invisible_at: Option<String>,
    /// Deadline of the erasure (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    gone_by: Option<String>,
    /// Completion of the erasure (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    done_at: Option<String>,
    /// Number of events in the log that were anonymized.
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<u64>,
    /// Number of commands in the log that were emptied.
    #[serde(skip_serializing_if = "Option::is_none")]
    commands: Option<u64>,
}

/// Erases a player. The data is invisible at once and is then removed from every file. Counts remain.
#[utoipa::path(
    delete, path = "/v1/players/{player}", operation_id = "erase_player", tag = "privacy",
    security(("secret_key" = []), ("sign_in" = [])),
    params(("player" = String, Path, description = "The player's id, or another id of the same player.", example = "ann")),
    responses((status = 202, description = "No data of the player can be read any more.", body = ErasureStarted)),
)]
pub(crate) async fn erase(
    State(runtime): State<RuntimeState>,
    Path(player): Path<String>,
    request: Request<Body>,
) -> HandlerResult {
    let request = runtime.read_command_without_body(request, Rights::Server(Scope::PlayersDelete)).await?;
    check_player("player", &player).map_err(commands::refusal_problem)?;
    // A link that was just acknowledged belongs to the player, too.
    runtime.shared.views.caught_up(runtime.shared.log.durable_until()).await?;
    let links = links(&runtime.shared, request.access.game.number, &player).await?;
    let command = Players::Erase { receipt: random::token(16), player, links };
    let answer =
        runtime.execute(request, Command::Players(command), &[]).await?.map_err(commands::refusal_problem)?;
    let ErasureDecision { receipt, invisible_ms, gone_by_ms } =
        serde_json::from_str(&answer.json).map_err(|error| Problem::internal(error.to_string()))?;
    let (invisible_at, gone_by) = (rfc3339(invisible_ms), rfc3339(gone_by_ms));
    json_with_status(StatusCode::ACCEPTED, &ErasureStarted { receipt, invisible_at, gone_by })
}

/// Returns the progress of an erasure, or the receipt of an export.
#[utoipa::path(
    get, path = "/v1/erasures/{receipt}", operation_id = "erasure", tag = "privacy",
    security(("secret_key" = []), ("sign_in" = [])),
    params(("receipt" = String, Path, description = "The receipt of an erasure or an export.")),
    responses((status = 200, description = "The receipt.", body = PrivacyReceipt)),
)]
pub(crate) async fn receipt(
    State(runtime): State<RuntimeState>,
    Path(receipt): Path<String>,
    credentials: Credentials,
) -> HandlerResult {
    let shared = &runtime.shared;
    let access = credentials.authorize_read(&shared.catalog, now_s())?;
    let access = if access.may(Scope::Export) { access } else { auth::allow(access, Scope::PlayersDelete)? };
    shared.views.caught_up(shared.log.durable_until()).await?;
    let game = shared.views.liveops.game(access.game.number);
    let game = game.read();
    let found = game.players.receipt(&receipt);
    let found = found.ok_or_else(|| Problem::not_found("no such receipt"))?;
    json_with_status(StatusCode::OK, &privacy_receipt(receipt, found))
}

fn privacy_receipt(receipt: String, found: &Receipt) -> PrivacyReceipt {
    let asked_at = rfc3339(found.at_ms);
    let Some(erasure) = &found.erasure else {
        return PrivacyReceipt { receipt, kind: "export".to_owned(), asked_at, ..PrivacyReceipt::default() };
    };
    let (state, is_counted) = match erasure.stage {
        ErasureStage::Requested => ("invisible", false),
        ErasureStage::Erased => ("log", true),
        ErasureStage::Purged => ("done", true),
    };
    PrivacyReceipt {
        receipt,
        kind: "erasure".to_owned(),
        invisible_at: Some(asked_at.clone()),
        asked_at,
        state: Some(state.to_owned()),
        gone_by: Some(rfc3339(found.at_ms + ERASURE_WITHIN_MS)),
        done_at: erasure.done_ms.map(rfc3339),
        events: is_counted.then_some(erasure.found.events),
        commands: is_counted.then_some(erasure.found.commands),
    }
}

/// Exports all data of a player as one JSON document.
#[utoipa::path(
    get, path = "/v1/players/{player}/export", operation_id = "export_player", tag = "privacy",
    security(("secret_key" = []), ("sign_in" = [])),
    params(("player" = String, Path, description = "The player's id, or another id of the same player.", example = "ann")),
    responses((
        status = 200,
        description = "`receipt`; `ids` of the player; `known` with levels, scores, feed, achievements, follows, \
                       surveys and sessions by id; `events` with all events in the log, oldest first. The document is \
                       complete if it ends with `\"complete\": true`.",
        body = Object,
    )),
)]
pub(crate) async fn export(
    State(runtime): State<RuntimeState>,
    Path(player): Path<String>,
    credentials: Credentials,
) -> HandlerResult {
    let shared = Arc::clone(&runtime.shared);
    let access = credentials.authorize_read(&shared.catalog, now_s())?;
    let access = auth::allow(access, Scope::Export)?;
    check_player("player", &player).map_err(commands::refusal_problem)?;
    let busy = || Problem::overloaded("other exports are running").retry_after_s(10);
    let permit = Arc::clone(&shared.erasure.exports).try_acquire_owned().map_err(|_| busy())?;
    let until = shared.log.durable_until();
    shared.views.caught_up(until).await?;
    let ids = ids(&player, links(&shared, access.game.number, &player).await?);
    let receipt = record_export(&runtime, &access).await?;
    let export = Export { receipt, player, ids, game: access.game, requested_ms: now_ms(), until };
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_DISPOSITION, "attachment; filename=\"player.json\""),
    ];
    Ok((headers, export.stream(shared, permit)).into_response())
}

/// Records an export in the log before it starts, and returns its receipt.
async fn record_export(runtime: &RuntimeState, access: &Access) -> Result<String, Problem> {
    let receipt = random::token(16);
    let entry = erasure::server_command(access.game.number, Players::Exported { receipt: receipt.clone() });
    let fails = |failure| ingest_problem(IngestError::Wal(failure));
    runtime.lane.append(entry).map_err(fails)?.await.map_err(fails)?;
    Ok(receipt)
}

/// Returns all ids of a player, sorted.
fn ids(player: &str, links: Vec<IdentityLink>) -> Vec<String> {
    let linked = links.into_iter().flat_map(|link| [link.anonymous, link.player]);
    let mut ids: Vec<String> = linked.chain([player.to_owned()]).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Returns the identity links of a player. May read from disk.
async fn links(shared: &Arc<AppState>, game: u32, player: &str) -> Result<Vec<IdentityLink>, Problem> {
    let (shared, player) = (Arc::clone(shared), player.to_owned());
    let read = move || shared.views.liveops.game(game).read().players.links(&player);
    let links = tokio::task::spawn_blocking(read).await;
    let links = links.map_err(|error| Problem::internal(error.to_string()))?;
    links.map_err(|error| Problem::internal(error.to_string()))
}

fn json_with_status(status: StatusCode, body: &impl Serialize) -> Result<Response, Problem> {
    let json = serde_json::to_vec(body).map_err(|error| Problem::internal(error.to_string()))?;
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    Ok((status, headers, json).into_response())
}
