//! `POST /v1/events`: from bytes to a receipt; `GET /v1/events/receipts/{batch}`: its numbers once more.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use axum::{Router, routing};
use bytes::Bytes;
use decode::json::{BodyFormat, MalformedBody, decode};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use model::batch::Endpoint;
use model::{Outcome, RawBatch, Reject};
use pipeline::catalog::Scope;
use pipeline::ingest::{self, Claims, IngestError, QuotaUsage, Receipt};
use pipeline::time::{now_ms, now_s};
use wal::{Ack, Lane, WalError};

use super::commands::HandlerResult;
use super::json::json_response;
use super::openapi::schemas;
use crate::auth::{self, Credentials};
use crate::batch_receipts::parse_batch;
use crate::body;
use crate::body_memory::BodyMemory;
use crate::cors::{allow_any_origin, reject_unless_post};
use crate::problem::Problem;
use crate::{AppState, RuntimeState};

/// Reports the used share of a daily quota, from 80% on.
const QUOTA_USED: header::HeaderName = header::HeaderName::from_static("playmeter-quota-used");

/// Returns the routes of this module besides the hot one, which needs no router.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new().route("/v1/events/receipts/{batch}", routing::get(receipt))
}

/// Sends events: a single event, an array, NDJSON, or `{"sent_at": ..., "events": [...]}`.
///
/// The response is sent once every accepted event is durable. Retry after 408, 429 and 5xx, with the same event ids. Do
/// not retry after any other 4xx.
#[utoipa::path(
    post, path = "/v1/events", operation_id = "send_events", tag = "events",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("ack" = Option<String>, Query, description = "When to respond: once the events are on `disk` (default), handed to the `os`, or in `memory`."),
        ("batch" = Option<String>, Query, description = "A new UUID for this request, by which `GET /v1/events/receipts/{batch}` finds its outcome if the response is lost.", example = "0193a1c2-7d4e-7b3a-9c55-2f8e6d1b4a70"),
        ("key" = Option<String>, Query, description = "A public key, for beacons, which cannot send headers."),
    ),
    request_body(
        description = "A single event, an array, an object with `sent_at` and `events`, or one event per line. JSON may \
            also be sent as `text/plain`, which needs no preflight request.",
        content(
            (schemas::EventsBody = "application/json", example = json!({
                "sent_at": "2026-11-20T12:00:00Z",
                "events": [
                    {"event": "level_up", "player": "bo", "value": 3, "level": "castle", "props": {"lives": 2}},
                    {"event": "$ping", "player": "bo", "session": "s1"},
                ],
            })),
            (String = "application/x-ndjson", example = json!("{\"event\":\"level_up\",\"player\":\"bo\"}\n{\"event\":\"win\"}\n")),
        ),
    ),
    responses(
        (status = 202, description = "The receipt: the outcome of each event.", body = schemas::IngestReceipt),
    ),
)]
pub(crate) async fn handle(
    shared: &Arc<AppState>,
    lane: &Lane<Claims>,
    request: Request<Incoming>,
    address: Option<IpAddr>,
) -> (Response<Body>, Option<u32>) {
    if let Some(response) = reject_unless_post(request.method()) {
        return (response, None);
    }
    let (head, mut incoming) = request.into_parts();
    let mut game = None;
    let mut response = match receive(shared, lane, (&head, &mut incoming), address, &mut game).await {
        Ok((receipt, used)) => accepted(receipt, used),
        Err(problem) => {
            shared.rejected_requests.count(&problem);
            body::discard(&head.headers, incoming, &problem);
            problem.into_response()
        }
    };
    allow_any_origin(response.headers_mut());
    (response, game)
}

async fn receive(
    shared: &AppState,
    lane: &Lane<Claims>,
    (head, incoming): (&Parts, &mut Incoming),
    address: Option<IpAddr>,
    game: &mut Option<u32>,
) -> Result<(Vec<u8>, Option<QuotaUsage>), Problem> {
    let received_ms = now_ms();
    let query = head.uri.query();
    let access =
        auth::access_by_key(&shared.catalog, &head.headers, query, address, received_ms as u64 / 1000)?;
    let access = access.ok_or_else(|| {
        Problem::unauthorized("send a key as `Authorization: Bearer KEY`, or a public key as `?key=KEY`")
    })?;
    *game = Some(access.game.number);
    let access = auth::allow(access, Scope::EventsWrite)?;
    let (form, ack, batch) = (body_form(&head.headers)?, ack(query)?, batch(query)?);
    let memory = BodyMemory::new(&shared.bodies, address, head.version);
    let bytes = body::read_within(&memory, &head.headers, incoming, body::BodyLimits::EVENTS).await?;
    let mut decoded = RawBatch::default();
    decode(&bytes, form, &mut decoded).map_err(decode_problem)?;
    let request = ingest::IngestRequest {
        endpoint: Endpoint::Events,
        received_ms,
        client: ingest::ClientInfo { address, user_agent: header_text(&head.headers, header::USER_AGENT) },
        ack,
        rejected: &[],
    };
    let receipt = shared.ingest.submit(lane, &access, &request, &decoded).await.map_err(ingest_problem)?;
    if let (Some(batch), Ack::Disk) = (batch, ack) {
        shared.batch_receipts.record(access.game.number, batch, receipt.outcomes);
    }
    Ok((receipt_json(&receipt, &decoded), receipt.quota_usage))
}

/// Returns a header as text; empty if the request does not have it.
pub(crate) fn header_text(headers: &HeaderMap, name: header::HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Returns the format of the body according to `Content-Type`.
pub(crate) fn body_form(headers: &HeaderMap) -> Result<BodyFormat, Problem> {
    let content_type = header_text(headers, header::CONTENT_TYPE);
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    let is = |name: &str| kind.eq_ignore_ascii_case(name);
    if kind.is_empty() || is("application/json") || is("text/plain") {
        return Ok(BodyFormat::Json);
    }
    if is("application/x-ndjson") || is("application/ndjson") {
        return Ok(BodyFormat::Lines);
    }
    let detail = format!(
        "unsupported content type `{kind}`; send application/json, text/plain or application/x-ndjson"
    );
    Err(Problem::unsupported(detail).field("Content-Type"))
}

fn ack(query: Option<&str>) -> Result<Ack, Problem> {
    let mut parameters = query.unwrap_or_default().split('&');
    match parameters.find_map(|pair| pair.strip_prefix("ack=")) {
        None | Some("disk") => Ok(Ack::Disk),
        Some("os") => Ok(Ack::Os),
        Some("memory") => Ok(Ack::Memory),
        Some(_) => Err(Problem::invalid("must be `disk`, `os` or `memory`").field("ack")),
    }
}

fn batch(query: Option<&str>) -> Result<Option<u128>, Problem> {
    query.and_then(|query| auth::parameter(query, "batch")).map(valid_batch).transpose()
}

fn valid_batch(text: &str) -> Result<u128, Problem> {
    parse_batch(text).ok_or_else(|| Problem::invalid("must be a UUID").field("batch"))
}

/// Returns the outcome of a recent batch, for a client that lost the response.
///
/// Batches are those of `POST /v1/events?batch=UUID` that were answered with 202 and are durable. The server keeps the last
/// ones in memory. After 404, send the events again with the same ids.
#[utoipa::path(
    get, path = "/v1/events/receipts/{batch}", operation_id = "batch_receipt", tag = "events",
    security(("public_key" = []), ("secret_key" = [])),
    params(("batch" = String, Path, description = "The UUID of the batch.", example = "0193a1c2-7d4e-7b3a-9c55-2f8e6d1b4a70")),
    responses(
        (status = 200, description = "The numbers of events by outcome.", body = schemas::BatchReceipt),
        (status = 404, description = "The batch is not known: it was not received, or the server dropped it or was restarted.", body = schemas::ProblemDocument),
    ),
)]
pub(crate) async fn receipt(
    State(shared): State<Arc<AppState>>,
    Path(batch): Path<String>,
    credentials: Credentials,
) -> HandlerResult {
    let access = credentials.authorize_key(&shared.catalog, now_s())?;
    let access =
        access.ok_or_else(|| Problem::unauthorized("send the key that the events were sent with"))?;
    let access = auth::allow(access, Scope::EventsWrite)?;
    let outcomes = shared.batch_receipts.get(access.game.number, valid_batch(&batch)?);
    let outcomes = outcomes.ok_or_else(|| Problem::not_found("no such batch").field("batch"))?;
    let count = |outcome: Outcome| outcomes[outcome as usize];
    json_response(&schemas::BatchReceipt {
        accepted: count(Outcome::Accepted),
        duplicate: count(Outcome::Duplicate),
        late: count(Outcome::Late),
        limited: count(Outcome::Limited),
        invalid: count(Outcome::Invalid),
    })
}

pub(crate) fn decode_problem(malformed: MalformedBody) -> Problem {
    let detail = malformed.to_string();
    match malformed {
        MalformedBody::TooManyEvents => Problem::too_large(detail).field("events"),
        MalformedBody::UnknownField { name } => Problem::invalid(detail).field(name),
        MalformedBody::SentAt => Problem::invalid(detail).field("sent_at"),
        MalformedBody::EventsNotAnArray => Problem::invalid(detail).field("events"),
        _ => Problem::malformed(detail),
    }
}

/// Returns the problem for a request that ingest could not accept.
pub(crate) fn ingest_problem(error: IngestError) -> Problem {
    let detail = error.to_string();
    match error {
        IngestError::Wal(WalError::Full) => Problem::disk_full(detail).retry_after_s(5),
        IngestError::Wal(WalError::Overloaded { .. }) => Problem::overloaded(detail).retry_after_s(1),
        IngestError::Wal(WalError::TooLarge { .. }) => Problem::too_large(detail),
        IngestError::Wal(WalError::Rejected { .. }) => Problem::overloaded(detail).retry_after_s(5),
        IngestError::Archived(archived) => archived.into(),
        IngestError::Limited(over) => {
            Problem::quota_exceeded(detail).field(over.quota).retry_after_s(over.retry_s)
        }
        IngestError::Wal(_) => Problem::stopping(detail).retry_after_s(5),
    }
}

fn accepted(receipt: Vec<u8>, used: Option<QuotaUsage>) -> Response<Body> {
    let mut response = Response::new(Body::from(Bytes::from(receipt)));
    *response.status_mut() = StatusCode::ACCEPTED;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let used = used.and_then(|used| HeaderValue::from_str(&format!("{}={}%", used.quota, used.percent)).ok());
    if let Some(used) = used {
        response.headers_mut().insert(QUOTA_USED, used);
    }
    response
}

/// Returns the receipt as JSON. No label needs quoting or escaping.
pub(crate) fn receipt_json(receipt: &Receipt, decoded: &RawBatch<'_>) -> Vec<u8> {
    let mut json = Vec::with_capacity(128 + receipt.rejected.len() * 120);
    let mut number = itoa::Buffer::new();
    json.push(b'{');
    for outcome in [Outcome::Accepted, Outcome::Duplicate, Outcome::Late, Outcome::Limited, Outcome::Invalid]
    {
        json.extend_from_slice(b"\"");
        json.extend_from_slice(outcome.label().as_bytes());
        json.extend_from_slice(b"\":");
        json.extend_from_slice(number.format(receipt.outcomes[outcome as usize]).as_bytes());
        json.push(b',');
    }
    json.extend_from_slice(b"\"position\":\"0/");
    json.extend_from_slice(number.format(receipt.position).as_bytes());
    json.extend_from_slice(b"\",\"results\":[");
    for (position, (index, reject)) in receipt.rejected.iter().enumerate() {
        if position > 0 {
            json.push(b',');
        }
        let event = decoded.events.get(*index as usize).and_then(|event| event.as_ref().ok());
        push_result(&mut json, number.format(*index), event.and_then(|event| event.id), *reject);
    }
    json.extend_from_slice(b"]}");
    json
}

/// Appends one event that was not accepted, with its id if that could be read.
fn push_result(json: &mut Vec<u8>, index: &str, id: Option<u128>, reject: Reject) {
    let id = id.map_or_else(String::new, |id| format!(",\"id\":\"{}\"", uuid(id)));
    for part in [
        "{\"i\":",
        index,
        &id,
        ",\"outcome\":\"",
        reject.outcome().label(),
        "\",\"reason\":\"",
        reject.label(),
        "\"}",
    ] {
        json.extend_from_slice(part.as_bytes());
    }
}

fn uuid(id: u128) -> String {
    let (a, b, c) = (id >> 96, (id >> 80) as u16, (id >> 64) as u16);
    let (d, e) = ((id >> 48) as u16, id & 0xffff_ffff_ffff);
    format!("{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::RawEvent;

    #[test]
    fn receipt_lists_events_that_were_not_accepted() {
        let receipt = Receipt {
            outcomes: [97, 1, 2, 0, 0],
            position: 1_048_576,
            rejected: vec![(0, Reject::EventNameTooLong), (1, Reject::SeenBefore)],
            quota_usage: None,
        };
        let id = Some(0x0190c1f2_0003_7004_8005_000000000006);
        let repeated = RawEvent { id, ..RawEvent::default() };
        let decoded =
            RawBatch { sent_at_ms: None, events: vec![Err(Reject::EventNameTooLong), Ok(repeated)] };
        let expected = r#"{"accepted":97,"duplicate":1,"late":0,"limited":0,"invalid":2,"position":"0/1048576","results":[{"i":0,"outcome":"invalid","reason":"event_name_too_long"},{"i":1,"id":"0190c1f2-0003-7004-8005-000000000006","outcome":"duplicate","reason":"seen_before"}]}"#;
        assert_eq!(String::from_utf8(receipt_json(&receipt, &decoded)).unwrap(), expected);
    }

    #[test]
    fn labels_need_no_escaping() {
        let labels = Reject::ALL.iter().map(|reject| reject.label()).chain(Outcome::ALL.map(Outcome::label));
        for label in labels {
            let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            assert!(label.bytes().all(is_plain), "{label}");
        }
    }
}
