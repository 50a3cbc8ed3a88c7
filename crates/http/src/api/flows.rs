//! `/v1/flows`: running and recently ended flows with their quality; and packets of flows as JSON lines.

mod params;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use axum::{Router, routing};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};
use hyper::http::request::Parts;
use hyper::{Request, StatusCode, Uri};
use model::RawBatch;
use model::batch::Endpoint;
use pipeline::catalog::{Access, Scope};
use pipeline::flows::{FlowStatistics, Flows, PacketCounts, RECENTLY_ENDED_MAX, flow_json};
use pipeline::ingest;
use pipeline::reject_tally::RejectTally;
use pipeline::time::{now_ms, now_s, rfc3339};
use serde_json::{Value, json};
use tracing::warn;
use wal::Ack;

use super::commands::HandlerResult;
use crate::auth::{self, Credentials};
use crate::body::{self, BodyLimits};
use crate::problem::Problem;
use crate::{AppState, RuntimeState};
use params::FlowListParams;

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new()
        .route("/v1/flows", routing::get(list))
        .route("/v1/flows/ended", routing::get(ended))
        .route("/v1/flows/packets", routing::post(receive))
        .route("/v1/flows/{id}", routing::get(one))
}

/// Limit for a body of packets.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Lists the running flows of the game, worst first.
///
/// `recent` is the quality in the current minute, or in the previous one while the current minute has fewer than 50
/// packets. `quality` covers the whole flow. `now` summarizes all running flows: quantiles over flows, `mos_tenths`
/// with the number of flows with a MOS of 1.0 to 1.1, 1.1 to 1.2 and so on, and `began` with the number of flows that
/// started within the last minute. The MOS is an estimate by the E-model (ITU-T G.107) for G.711; use it to compare
/// flows.
#[utoipa::path(
    get, path = "/v1/flows", operation_id = "list_flows", tag = "flows",
    security(("secret_key" = []), ("sign_in" = [])),
    params(
        ("sort" = Option<String>, Query, example = "mos", description = "`mos` (default), `loss`, `jitter` or `rtt`: \
            worst first; `started` or `last_seen`: newest first."),
        ("end" = Option<String>, Query, description = "Only flows with this end."),
        ("address" = Option<String>, Query, description = "Only flows with an end at this IP address."),
        ("mos_below" = Option<f64>, Query, description = "Only flows with a lower MOS."),
        ("loss_above" = Option<f64>, Query, description = "Only flows with a higher packet loss ratio, 0 to 1."),
        ("jitter_above_ms" = Option<f64>, Query, description = "Only flows with a higher jitter in milliseconds."),
        ("rtt_above_ms" = Option<f64>, Query, description = "Only flows with a longer round-trip time in milliseconds."),
        ("page" = Option<u32>, Query, minimum = 1, maximum = 10_000, description = "Page number, starting at 1."),
        ("per_page" = Option<u32>, Query, minimum = 1, maximum = 1_000, example = 20, description = "Flows per page, 1 to 1,000. Default: 100."),
    ),
    responses((status = 200, description = "`{flows, matched, running, now, page, per_page, as_of}`", body = Object)),
)]
pub(crate) async fn list(
    State(shared): State<Arc<AppState>>,
    uri: Uri,
    credentials: Credentials,
) -> HandlerResult {
    let access = credentials.authorize_query(&shared.catalog, now_s())?;
    let params = FlowListParams::read(uri.query().unwrap_or_default())?;
    json_with_status(StatusCode::OK, &page(&shared.flows, access.game.number, &params))
}

fn page(flows: &Flows, game: u32, params: &FlowListParams) -> Value {
    let (mut census, mut matched) = (FlowStatistics::new(now_ms()), Vec::new());
    flows.visit(game, |flow| {
        let recent = flow.recent_quality();
        census.add(flow, &recent);
        if params.matches(flow, &recent) {
            matched.push((params.rank(flow, &recent), flow.id));
        }
    });
    let count = matched.len();
    // Flows may end between the two passes, so the page may be shorter.
    let page = params.page_of(matched).into_iter().filter_map(|id| flows.find(game, id));
    json!({
        "flows": page.map(|flow| flow_json(&flow)).collect::<Vec<_>>(),
        "matched": count,
        "running": census.running,
        "now": census.json(),
        "page": params.page,
        "per_page": params.per_page,
        "as_of": rfc3339(now_ms()),
    })
}

/// Lists the recently ended flows of the game, the last one first.
///
/// Covers the last 100 flows since the server started; a restart may list flows again that ended in the seconds before
/// it. Every ended flow is also stored as a `$flow` event.
#[utoipa::path(
    get, path = "/v1/flows/ended", operation_id = "list_ended_flows", tag = "flows",
    security(("secret_key" = []), ("sign_in" = [])),
    responses((status = 200, description = "`{flows, kept_max, as_of}`", body = Object)),
)]
pub(crate) async fn ended(State(shared): State<Arc<AppState>>, credentials: Credentials) -> HandlerResult {
    let access = credentials.authorize_query(&shared.catalog, now_s())?;
    let ended = shared.flows.recently_ended(access.game.number);
    let flows: Vec<Value> = ended.iter().map(flow_json).collect();
    json_with_status(
        StatusCode::OK,
        &json!({ "flows": flows, "kept_max": RECENTLY_ENDED_MAX, "as_of": rfc3339(now_ms()) }),
    )
}

/// Returns one flow, running or recently ended. An ended flow has `ended` and `ended_by`.
#[utoipa::path(
    get, path = "/v1/flows/{id}", operation_id = "flow", tag = "flows",
    security(("secret_key" = []), ("sign_in" = [])),
    params(("id" = String, Path, description = "The id of the flow.", example = "0000000000000000")),
    responses(
        (status = 200, description = "The flow.", body = Object),
        (status = 404, description = "No running or recently ended flow has this id."),
    ),
)]
pub(crate) async fn one(
    State(shared): State<Arc<AppState>>,
    Path(id): Path<String>,
    credentials: Credentials,
) -> HandlerResult {
    let access = credentials.authorize_query(&shared.catalog, now_s())?;
    let id = u64::from_str_radix(&id, 16).ok().filter(|_| id.len() == 16);
    let (flows, game) = (&shared.flows, access.game.number);
    let flow = id.and_then(|id| flows.find(game, id).or_else(|| flows.find_ended(game, id)));
    let flow = flow.ok_or_else(|| Problem::not_found("no running or recently ended flow has this id"))?;
    json_with_status(StatusCode::OK, &flow_json(&flow))
}

/// Receives packets of flows from a server that relays or observes them, one JSON object per line.
///
/// `from` and `to` are the ids of the ends; `seq` is the sequence number, 16 bits as in RTP or 32; `ts` is the time of
/// sending and `at` the time of arrival, in milliseconds since 1970 or RFC 3339; `from_address` and `to_address` are
/// optional; `bye: true` means that the sender leaves. An invalid line is rejected, the others are counted. Packets are
/// not written to disk one by one: a crash can lose the last few seconds of the running flows.
#[utoipa::path(
    post, path = "/v1/flows/packets", operation_id = "send_flow_packets", tag = "flows",
    security(("secret_key" = [])),
    request_body(
        content = Option<serde_json::Value>, content_type = "application/x-ndjson",
        example = json!({"from": "ann", "to": "bo", "seq": 17, "ts": 1795174457123.25}),
    ),
    responses(
        (status = 202, description = "The number of packets by outcome; `reasons` for those that are invalid or limited.", body = Object),
        (status = 413, description = "The body is larger than 1 MiB."),
    ),
)]
pub(crate) async fn receive(State(runtime): State<RuntimeState>, request: Request<Body>) -> HandlerResult {
    let (head, mut incoming) = request.into_parts();
    match read_packets(&runtime.shared, &head, &mut incoming).await {
        Ok((access, bytes)) => {
            json_with_status(StatusCode::ACCEPTED, &count_packets(&runtime, &access, &bytes).await)
        }
        Err(problem) => {
            body::discard(&head.headers, incoming, &problem);
            Err(problem)
        }
    }
}

async fn read_packets(
    shared: &AppState,
    head: &Parts,
    incoming: &mut Body,
) -> Result<(Access, bytes::Bytes), Problem> {
    let access = Credentials::from(head).authorize_key(&shared.catalog, now_s())?;
    let access = access.ok_or_else(|| Problem::unauthorized("send a key as `Authorization: Bearer KEY`"))?;
    let access = auth::allow(access, Scope::EventsWrite)?;
    access.game.check_writable()?;
    if access.class == model::batch::KeyClass::Public {
        return Err(Problem::forbidden("packets of flows need a secret key"));
    }
    let limits = BodyLimits { bytes: BODY_BYTES_MAX, inflated_bytes: BODY_BYTES_MAX };
    Ok((access, body::read(head, incoming, limits).await?))
}

/// Counts the packets, and the rejected ones in the accounting of the game. From here on the response reports the
/// outcomes even if the accounting cannot be written: a client that retried would have its packets counted twice.
async fn count_packets(runtime: &RuntimeState, access: &Access, bytes: &[u8]) -> Value {
    let (shared, game) = (&runtime.shared, access.game.number);
    let mut rejects = RejectTally::default();
    let counts = shared.flows.apply_lines(game, bytes, &mut rejects);
    if !rejects.is_empty() {
        rejects.show(&shared.views.recent_events, game, Endpoint::Flows);
        let request = ingest::IngestRequest {
            endpoint: Endpoint::Flows,
            received_ms: now_ms(),
            client: ingest::ClientInfo::default(),
            ack: Ack::Disk,
            rejected: rejects.counts(),
        };
        let counted = shared.ingest.submit(&runtime.lane, access, &request, &RawBatch::default()).await;
        if let Err(failure) = counted {
            let (game, refused) = (&access.game.id, rejects.total());
            warn!(game, refused, %failure, "rejected flow packets are missing in the accounting");
        }
    }
    outcomes(counts, &rejects)
}

fn outcomes(counts: PacketCounts, rejects: &RejectTally) -> Value {
    let reasons: BTreeMap<&str, u32> =
        rejects.counts().iter().map(|(reject, count)| (reject.label(), *count)).collect();
    let invalid = rejects.total() - counts.rejected;
    json!({
        "received": counts.packets() + invalid,
        "counted": counts.counted,
        "opened": counts.opened,
        "ended": counts.ended,
        "stragglers": counts.stragglers,
        "limited": counts.rejected,
        "ignored": counts.ignored,
        "invalid": invalid,
        "reasons": reasons,
    })
}

fn json_with_status(status: StatusCode, body: &Value) -> HandlerResult {
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    Ok((status, headers, body.to_string()).into_response())
}

/// The operations of this module in the OpenAPI description.
#[derive(utoipa::OpenApi)]
#[openapi(paths(list, ended, one, receive))]
pub(crate) struct FlowsApi;
