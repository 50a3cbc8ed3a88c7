//! What is known of one player: given out, or forgotten.

mod export;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use hyper::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, HeaderMap};
use hyper::{Request, StatusCode, Uri};
use liveops::players::{ERASURE_WITHIN_MS, ErasureStage, IdentityLink, PlayerCommand as Players, Receipt};
use liveops::{Command, check_player};
use serde::{Deserialize, Serialize};
use utoipa::{OpenApi, ToSchema};

use super::commands::{self, Answered, Local, Rights};
use super::events::refused;
use crate::AppState;
use crate::auth;
use crate::problem::Problem;
use pipeline::catalog::{Access, Scope};
use pipeline::erasure;
use pipeline::ingest::IngestError;
use pipeline::random;
use pipeline::time::{now_ms, now_s, rfc3339};

use axum::{Router, routing};
use export::Export;

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
    Router::new()
        .route("/v1/players/{player}", routing::delete(erase))
        .route("/v1/players/{player}/export", routing::get(export))
        .route("/v1/erasures/{receipt}", routing::get(receipt))
}

/// What is documented of this page.
#[derive(OpenApi)]
#[openapi(paths(export, erase, receipt))]
pub struct Docs;

/// What an erasure is answered with.
#[derive(Debug, Serialize, ToSchema)]
pub struct Erasing {
    /// Proves it without naming the player: `GET /v1/erasures/{receipt}`.
    receipt: String,
    /// Since when nothing of the player can be read (RFC 3339).
    invisible_at: String,
    /// When no file will hold anything of the player any more, at the latest (RFC 3339).
    gone_by: String,
}

/// What was decided, before the door writes times.
#[derive(Deserialize)]
struct Asked {
    receipt: String,
    invisible_ms: i64,
    gone_by_ms: i64,
}

/// How far an erasure is, or that an export was made.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Proof {
    receipt: String,
    /// `erasure` or `export`.
    kind: String,
    /// When it was asked for (RFC 3339).
    asked_at: String,
    /// Of an erasure: `invisible`, `log` once the log holds nothing any more, `done` when no file does.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    /// When nothing of the player could be read any more (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    invisible_at: Option<String>,
    /// When it is done at the latest (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    gone_by: Option<String>,
    /// When it was done (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    done_at: Option<String>,
    /// Events in the log that no longer name the player.
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<u64>,
    /// Commands in the log that were emptied.
    #[serde(skip_serializing_if = "Option::is_none")]
    commands: Option<u64>,
}

/// Forgets a player: at once for all who read, and soon in every file. What was counted stays counted.
#[utoipa::path(
    delete, path = "/v1/players/{player}", operation_id = "erase_player", tag = "privacy",
    security(("secret_key" = []), ("sign_in" = [])),
    params(("player" = String, Path, description = "The player's id, or another id of the same player.", example = "ann")),
    responses((status = 202, description = "Nothing of the player can be read any more.", body = Erasing)),
)]
pub async fn erase(
    State(local): State<Local>,
    Path(player): Path<String>,
    request: Request<Body>,
) -> Answered {
    let asked = local.read_empty(request, Rights::Server(Scope::PlayersDelete)).await?;
    check_player("player", &player).map_err(commands::problem)?;
    let links = links(&local.shared, asked.access.game.number, &player).await?;
    let command = Players::Erase { receipt: random::token(16), player, links };
    let answer = local.decided(asked, Command::Players(command), &[]).await?.map_err(commands::problem)?;
    let Asked { receipt, invisible_ms, gone_by_ms } =
        serde_json::from_str(&answer.json).map_err(|error| Problem::internal(error.to_string()))?;
    let (invisible_at, gone_by) = (rfc3339(invisible_ms), rfc3339(gone_by_ms));
    json(StatusCode::ACCEPTED, &Erasing { receipt, invisible_at, gone_by })
}

/// Says how far an erasure is.
#[utoipa::path(
    get, path = "/v1/erasures/{receipt}", operation_id = "erasure", tag = "privacy",
    security(("secret_key" = []), ("sign_in" = [])),
    params(("receipt" = String, Path, description = "The receipt of an erasure or of an export.")),
    responses((status = 200, description = "The receipt.", body = Proof)),
)]
pub async fn receipt(
    State(local): State<Local>,
    Path(receipt): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Answered {
    let shared = &local.shared;
    let access = auth::for_reads(&shared.catalog, &headers, uri.query(), now_s())?;
    let access = if access.may(Scope::Export) { access } else { auth::allow(access, Scope::PlayersDelete)? };
    shared.views.caught_up(shared.log.durable_until()).await;
    let game = shared.views.liveops.game(access.game.number);
    let game = game.read();
    let known = game.players.receipt(&receipt);
    let known = known.ok_or_else(|| Problem::not_found("there is no such receipt"))?;
    json(StatusCode::OK, &proof(receipt, known))
}

fn proof(receipt: String, known: &Receipt) -> Proof {
    let asked_at = rfc3339(known.at_ms);
    let Some(erasure) = &known.erasure else {
        return Proof { receipt, kind: "export".to_owned(), asked_at, ..Proof::default() };
    };
    let (state, is_counted) = match erasure.stage {
        ErasureStage::Requested => ("invisible", false),
        ErasureStage::Erased => ("log", true),
        ErasureStage::Purged => ("done", true),
    };
    Proof {
        receipt,
        kind: "erasure".to_owned(),
        invisible_at: Some(asked_at.clone()),
        asked_at,
        state: Some(state.to_owned()),
        gone_by: Some(rfc3339(known.at_ms + ERASURE_WITHIN_MS)),
        done_at: erasure.done_ms.map(rfc3339),
        events: is_counted.then_some(erasure.found.events),
        commands: is_counted.then_some(erasure.found.commands),
    }
}

/// Gives out all that is known of a player, as one JSON document.
#[utoipa::path(
    get, path = "/v1/players/{player}/export", operation_id = "export_player", tag = "privacy",
    security(("secret_key" = []), ("sign_in" = [])),
    params(("player" = String, Path, description = "The player's id, or another id of the same player.", example = "ann")),
    responses((
        status = 200,
        description = "`receipt`, `ids` of the player, `known`: levels, scores, feed, achievements, follows, surveys \
                       and sessions by id, `events`: all that the log still has, oldest first. It is whole if it ends \
                       with `\"complete\": true`.",
        body = Object,
    )),
)]
pub async fn export(
    State(local): State<Local>,
    Path(player): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Answered {
    let shared = Arc::clone(&local.shared);
    let access = auth::for_reads(&shared.catalog, &headers, uri.query(), now_s())?;
    let access = auth::allow(access, Scope::Export)?;
    check_player("player", &player).map_err(commands::problem)?;
    let busy = || Problem::overloaded("other players are being exported").retry_after_s(10);
    let permit = Arc::clone(&shared.erasure.exports).try_acquire_owned().map_err(|_| busy())?;
    let until = shared.log.durable_until();
    shared.views.caught_up(until).await;
    let ids = ids(&player, links(&shared, access.game.number, &player).await?);
    let receipt = receipt_of_export(&local, &access).await?;
    let export = Export { receipt, player, ids, game: access.game, asked_ms: now_ms(), until };
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_DISPOSITION, "attachment; filename=\"player.json\""),
    ];
    Ok((headers, export.stream(shared, permit)).into_response())
}

/// Writes down that an export was made, before it is.
async fn receipt_of_export(local: &Local, access: &Access) -> Result<String, Problem> {
    let receipt = random::token(16);
    let entry = erasure::server_command(access.game.number, Players::Exported { receipt: receipt.clone() });
    let fails = |failure| refused(IngestError::Wal(failure));
    local.lane.append(entry).map_err(fails)?.await.map_err(fails)?;
    Ok(receipt)
}

/// All ids of a player, in order.
fn ids(player: &str, links: Vec<IdentityLink>) -> Vec<String> {
    let linked = links.into_iter().flat_map(|link| [link.anonymous, link.player]);
    let mut ids: Vec<String> = linked.chain([player.to_owned()]).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// What makes other ids the player's. May wait for the disk.
async fn links(shared: &Arc<AppState>, game: u32, player: &str) -> Result<Vec<IdentityLink>, Problem> {
    let (shared, player) = (Arc::clone(shared), player.to_owned());
    let read = move || shared.views.liveops.game(game).read().players.links(&player);
    let links = tokio::task::spawn_blocking(read).await;
    let links = links.map_err(|error| Problem::internal(error.to_string()))?;
    links.map_err(|error| Problem::internal(error.to_string()))
}

fn json(status: StatusCode, body: &impl Serialize) -> Result<Response, Problem> {
    let json = serde_json::to_vec(body).map_err(|error| Problem::internal(error.to_string()))?;
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    Ok((status, headers, json).into_response())
}
