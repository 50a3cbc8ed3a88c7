//! `/v1/flows`: which flows run and how well, worst first; and packets of flows as JSON lines.

mod asked;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, Path, State};
use axum::response::{IntoResponse, Response};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Request, StatusCode, Uri};
use model::RawBatch;
use model::batch::Endpoint;
use serde_json::{Value, json};
use tracing::warn;
use wal::Ack;

use super::commands::{Answered, Local};
use super::events;
use crate::AppState;
use crate::auth;
use crate::body::{self, Limits};
use crate::problem::Problem;
use asked::Asked;
use axum::{Router, routing};
use pipeline::catalog::{Access, Scope};
use pipeline::flows::{FlowStatistics, Flows, PacketCounts, RECENTLY_ENDED_MAX, flow_json};
use pipeline::ingest;
use pipeline::reject_tally::RejectTally;
use pipeline::time::{now_ms, now_s, rfc3339};

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
    Router::new()
        .route("/v1/flows", routing::get(list))
        .route("/v1/flows/ended", routing::get(ended))
        .route("/v1/flows/packets", routing::post(take))
        .route("/v1/flows/{id}", routing::get(one))
}

/// A body of packets.
const BODY_BYTES_MAX: usize = 1 << 20;

/// The flows of a game that run, worst first.
///
/// What a flow is worth now is the quality of the minute that has begun, or of the one before as long as the new one
/// has fewer than 50 packets: `recent`. `quality` is that of its whole life. `now` tells how all that run do: quantiles over
/// flows, `mos_tenths` how many have a MOS of 1.0 to 1.1, 1.1 to 1.2 and so on, `began` how many began within a minute. The MOS is an estimate by the E-model
/// (ITU-T G.107) for G.711: for comparing flows.
#[utoipa::path(
    get, path = "/v1/flows", operation_id = "list_flows", tag = "flows",
    security(("secret_key" = []), ("sign_in" = [])),
    params(
        ("sort" = Option<String>, Query, example = "mos", description = "`mos` (if not given), `loss`, `jitter`, `rtt`: \
            the worst first; `started`, `last_seen`: the newest first."),
        ("end" = Option<String>, Query, description = "Only flows of the end with this id."),
        ("address" = Option<String>, Query, description = "Only flows with an end at this IP address."),
        ("mos_below" = Option<f64>, Query, description = "Only flows that sound worse."),
        ("loss_above" = Option<f64>, Query, description = "Only flows that lose more: a share, 0 to 1."),
        ("jitter_above_ms" = Option<f64>, Query, description = "Only flows with more jitter."),
        ("rtt_above_ms" = Option<f64>, Query, description = "Only flows with a longer round trip."),
        ("page" = Option<u32>, Query, description = "From 1."),
        ("per_page" = Option<u32>, Query, example = 20, description = "1 to 1,000; 100 if not given."),
    ),
    responses((status = 200, description = "`{flows, matched, running, now, page, per_page, as_of}`", body = Object)),
)]
pub async fn list(State(shared): State<Arc<AppState>>, uri: Uri, headers: HeaderMap) -> Answered {
    let access = auth::for_questions(&shared.catalog, &headers, uri.query(), now_s())?;
    let asked = Asked::read(uri.query().unwrap_or_default())?;
    answer(StatusCode::OK, &page(&shared.flows, access.game.number, &asked))
}

fn page(flows: &Flows, game: u32, asked: &Asked) -> Value {
    let (mut census, mut matched) = (FlowStatistics::new(now_ms()), Vec::new());
    flows.visit(game, |flow| {
        let recent = flow.recent_quality();
        census.add(flow, &recent);
        if asked.wants(flow, &recent) {
            matched.push((asked.rank(flow, &recent), flow.id));
        }
    });
    let count = matched.len();
    // Flows may end between this look and the next: a page may then be shorter.
    let page = asked.page_of(matched).into_iter().filter_map(|id| flows.find(game, id));
    json!({
        "flows": page.map(|flow| flow_json(&flow)).collect::<Vec<_>>(),
        "matched": count,
        "running": census.running,
        "now": census.json(),
        "page": asked.page,
        "per_page": asked.per_page,
        "as_of": rfc3339(now_ms()),
    })
}

/// The flows that ended last, the last first.
///
/// The last 100 of the game since the server was started, which tells ends of the last seconds before once more. All that ended are in the events `$flow`.
#[utoipa::path(
    get, path = "/v1/flows/ended", operation_id = "list_ended_flows", tag = "flows",
    security(("secret_key" = []), ("sign_in" = [])),
    responses((status = 200, description = "`{flows, kept_max, as_of}`", body = Object)),
)]
pub async fn ended(State(shared): State<Arc<AppState>>, uri: Uri, headers: HeaderMap) -> Answered {
    let access = auth::for_questions(&shared.catalog, &headers, uri.query(), now_s())?;
    let ended = shared.flows.recently_ended(access.game.number);
    let flows: Vec<Value> = ended.iter().map(flow_json).collect();
    answer(
        StatusCode::OK,
        &json!({ "flows": flows, "kept_max": RECENTLY_ENDED_MAX, "as_of": rfc3339(now_ms()) }),
    )
}

/// One flow: one that runs, or one of those that ended last, which have `ended` and `ended_by`.
#[utoipa::path(
    get, path = "/v1/flows/{id}", operation_id = "flow", tag = "flows",
    security(("secret_key" = []), ("sign_in" = [])),
    params(("id" = String, Path, description = "As in the list.", example = "0000000000000000")),
    responses(
        (status = 200, description = "The flow.", body = Object),
        (status = 404, description = "No flow of this id runs, or was among the last to end."),
    ),
)]
pub async fn one(
    State(shared): State<Arc<AppState>>,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Answered {
    let access = auth::for_questions(&shared.catalog, &headers, uri.query(), now_s())?;
    let id = u64::from_str_radix(&id, 16).ok().filter(|_| id.len() == 16);
    let (flows, game) = (&shared.flows, access.game.number);
    let flow = id.and_then(|id| flows.find(game, id).or_else(|| flows.find_ended(game, id)));
    let flow = flow.ok_or_else(|| Problem::not_found("no flow of this id runs, or ended lately"))?;
    answer(StatusCode::OK, &flow_json(&flow))
}

/// Takes packets of flows, one JSON object a line, from a server that sees them pass.
///
/// `from` and `to` are the ends' ids; `seq` the packet's number, 16 bits as in RTP or 32; `ts` when it was sent and `at`
/// when it came, in milliseconds since 1970 or RFC 3339; `from_address` and `to_address`; `bye: true` when the sender
/// leaves. A line that breaks a rule is refused alone. Nothing is written to disk for a packet: what is told is as
/// durable as the running flows are, which is a few seconds behind.
#[utoipa::path(
    post, path = "/v1/flows/packets", operation_id = "send_flow_packets", tag = "flows",
    security(("secret_key" = [])),
    request_body(
        content = Object, content_type = "application/x-ndjson",
        example = json!({"from": "ann", "to": "bo", "seq": 17, "ts": 1795174457123.25}),
    ),
    responses(
        (status = 202, description = "How many of each outcome; `reasons` of those that are invalid or limited.", body = Object),
        (status = 413, description = "More than 1 MiB."),
    ),
)]
pub async fn take(
    State(local): State<Local>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request<Body>,
) -> Answered {
    let (head, mut incoming) = request.into_parts();
    match read(&local.shared, &head, &mut incoming, peer).await {
        Ok((access, bytes)) => answer(StatusCode::ACCEPTED, &taken(&local, &access, &bytes).await),
        Err(problem) => {
            body::discard(&head.headers, incoming, &problem);
            Err(problem)
        }
    }
}

async fn read(
    shared: &AppState,
    head: &Parts,
    incoming: &mut Body,
    peer: SocketAddr,
) -> Result<(Access, bytes::Bytes), Problem> {
    let address = events::address(shared, &head.headers, peer);
    let access = auth::by_key_from(&shared.catalog, &head.headers, head.uri.query(), address, now_s())?;
    let access = access.ok_or_else(|| Problem::key("send `Authorization: Bearer KEY`"))?;
    let access = auth::allow(access, Scope::EventsWrite)?;
    if access.class == model::batch::KeyClass::Public {
        return Err(Problem::scope("packets of flows come from servers: send a secret key"));
    }
    let limits = Limits { bytes: BODY_BYTES_MAX, inflated_bytes: BODY_BYTES_MAX };
    Ok((access, body::read(&head.headers, incoming, limits).await?))
}

/// Hands the packets on, and counts what was refused in the accounting of the game. From there on the answer tells what
/// became of them, whatever the log says: who sent them again would have them counted twice.
async fn taken(local: &Local, access: &Access, bytes: &[u8]) -> Value {
    let (shared, game) = (&local.shared, access.game.number);
    let mut refusals = RejectTally::default();
    let taken = shared.flows.apply_lines(game, bytes, &mut refusals);
    if !refusals.is_empty() {
        refusals.show(&shared.views.recent_events, game, Endpoint::Flows);
        let request = ingest::IngestRequest {
            endpoint: Endpoint::Flows,
            received_ms: now_ms(),
            client: ingest::ClientInfo::default(),
            ack: Ack::Disk,
            rejected: refusals.counts(),
        };
        let counted = shared.ingest.submit(&local.lane, access, &request, &RawBatch::default()).await;
        if let Err(failure) = counted {
            let (game, refused) = (&access.game.id, refusals.total());
            warn!(game, refused, %failure, "refused packets of flows are not in the accounting");
        }
    }
    outcomes(taken, &refusals)
}

fn outcomes(taken: PacketCounts, refusals: &RejectTally) -> Value {
    let reasons: BTreeMap<&str, u32> =
        refusals.counts().iter().map(|(reject, count)| (reject.label(), *count)).collect();
    let invalid = refusals.total() - taken.rejected;
    json!({
        "received": taken.packets() + invalid,
        "counted": taken.counted,
        "opened": taken.opened,
        "ended": taken.ended,
        "stragglers": taken.stragglers,
        "limited": taken.rejected,
        "ignored": taken.ignored,
        "invalid": invalid,
        "reasons": reasons,
    })
}

fn answer(status: StatusCode, body: &Value) -> Answered {
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    Ok::<Response, Problem>((status, headers, body.to_string()).into_response())
}

/// Described for `/openapi.json`.
#[derive(utoipa::OpenApi)]
#[openapi(paths(list, ended, one, take))]
pub struct Docs;
