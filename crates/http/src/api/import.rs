//! `/v1/import`: past events from files, loaded while live traffic continues.
//!
//! They take the same ingest path as all events, with these differences: they may be of any age; an event without an id
//! gets one derived from its file and its number in the file; nothing is filled in from the connection; and the
//! response contains the latency of live commits, so that the sender can yield to them.

use std::time::Instant;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use bytes::Bytes;
use decode::json::decode;
use hyper::header::CONTENT_TYPE;
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};
use model::batch::{Endpoint, KeyClass};
use model::limits::EVENTS_PER_REQUEST_MAX;
use model::{Outcome, RawBatch, Reject};
use pipeline::catalog::{Access, Scope};
use pipeline::file_ids::FileIds;
use pipeline::ingest;
use pipeline::time::{now_ms, now_s};
use serde_json::json;
use sha2::{Digest, Sha256};
use utoipa::OpenApi;
use wal::Ack;

use super::events;
use super::openapi::schemas;
use crate::RuntimeState;
use crate::auth::{self, Credentials};
use crate::body;
use crate::hex::to_hex;
use crate::problem::Problem;

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new().route("/v1/import", routing::get(get).post(post))
}

/// The largest number of an event in its file, which JSON can represent exactly.
const FROM_MAX: u64 = 1 << 53;

#[derive(OpenApi)]
#[openapi(paths(post, get))]
pub(crate) struct ImportApi;

/// The file that the events of a request are from.
#[derive(Debug, Default, PartialEq)]
struct ImportParams {
    /// SHA-256 of the content of the file.
    file: Option<[u8; 32]>,
    /// The number of the first event in the file.
    from: u64,
    /// Events that the sender could not read, by reason.
    rejected: Vec<(Reject, u32)>,
}

/// Imports events of any age from a file. The key needs the scopes `events:write` and `events:import`.
///
/// The body is that of `/v1/events`. The response adds `commit_ms` to the receipt: the mean latency of live commits
/// during the last second, `null` if there were none.
#[utoipa::path(
    post, path = "/v1/import", operation_id = "import_events", tag = "events", security(("secret_key" = [])),
    params(
        ("file" = Option<String>, Query, description = "SHA-256 of the file, 64 hexadecimal digits. Events without an id \
            get one derived from it and from their number."),
        ("from" = Option<u64>, Query, description = "The number of the first event of this request in its file. Default: 0."),
        ("refused" = Option<String>, Query, description = "Events of the file that the client could not read, by reason, to be \
            counted as invalid: `malformed_line:2,not_utf8:1`."),
    ),
    request_body(
        content = String, content_type = "application/x-ndjson",
        example = json!("{\"event\":\"level_up\",\"player\":\"bo\",\"ts\":\"2024-11-20T12:00:00Z\"}\n"),
    ),
    responses(
        (status = 202, description = "The receipt, and `commit_ms`.", body = schemas::IngestReceipt),
        (status = 403, description = "The key lacks the scope `events:import`.", body = schemas::ProblemDocument),
        (status = 429, description = "A quota is exceeded; see Retry-After.", body = schemas::ProblemDocument),
        (status = 503, description = "The server cannot store data at the moment; see Retry-After.", body = schemas::ProblemDocument),
    ),
)]
pub(crate) async fn post(State(runtime): State<RuntimeState>, request: Request<Body>) -> Response {
    let (head, mut incoming) = request.into_parts();
    match receive(&runtime, &head, &mut incoming).await {
        Ok(receipt) => {
            (StatusCode::ACCEPTED, [(CONTENT_TYPE, "application/json")], Bytes::from(receipt)).into_response()
        }
        Err(problem) => {
            runtime.shared.rejected_requests.count(&problem);
            body::discard(&head.headers, incoming, &problem);
            problem.into_response()
        }
    }
}

/// Returns the target of an import: the game, and an id of its log, so that a client with an import ledger notices when
/// it talks to another server.
#[utoipa::path(
    get, path = "/v1/import", operation_id = "import_target", tag = "events", security(("secret_key" = [])),
    responses(
        (status = 200, description = "`game`, `target`, and `commit_ms` as in receipts.", body = Object),
        (status = 403, description = "The key lacks the scope `events:import`.", body = schemas::ProblemDocument),
    ),
)]
pub(crate) async fn get(
    State(runtime): State<RuntimeState>,
    credentials: Credentials,
) -> Result<Response, Problem> {
    let access = authorize(&runtime, &credentials)?;
    let target = Sha256::new_with_prefix(b"playmeter target")
        .chain_update(runtime.shared.catalog.id_secret())
        .chain_update(access.game.number.to_le_bytes())
        .finalize();
    let target = to_hex(&target[..16]);
    let target = json!({ "game": access.game.id, "target": target, "commit_ms": commit_ms(&runtime) });
    Ok(axum::Json(target).into_response())
}

async fn receive(runtime: &RuntimeState, head: &Parts, incoming: &mut Body) -> Result<Vec<u8>, Problem> {
    let access = authorize(runtime, &Credentials::from(head))?;
    let (form, params) =
        (events::body_form(&head.headers)?, ImportParams::parse(head.uri.query().unwrap_or_default())?);
    let bytes = body::read(head, incoming, body::BodyLimits::EVENTS).await?;
    let mut decoded = RawBatch::default();
    if params.rejected.is_empty() || !bytes.trim_ascii().is_empty() {
        decode(&bytes, form, &mut decoded).map_err(events::decode_problem)?;
    }
    if let Some(file) = &params.file {
        FileIds::new(file, params.from).assign(&mut decoded);
    }
    let request = ingest::IngestRequest {
        endpoint: Endpoint::Import,
        received_ms: now_ms(),
        client: ingest::ClientInfo::default(),
        ack: Ack::Disk,
        rejected: &params.rejected,
    };
    let receipt = runtime.shared.ingest.submit_backfill(&runtime.lane, &access, &request, &decoded).await;
    let receipt = receipt.map_err(events::ingest_problem)?;
    let mut json = events::receipt_json(&receipt, &decoded);
    json.pop();
    let commit_ms = commit_ms(runtime).map_or_else(|| "null".to_owned(), |ms| format!("{ms:.3}"));
    json.extend_from_slice(format!(",\"commit_ms\":{commit_ms}}}").as_bytes());
    Ok(json)
}

fn authorize(runtime: &RuntimeState, credentials: &Credentials) -> Result<Access, Problem> {
    let access = credentials.authorize_key(&runtime.shared.catalog, now_s())?;
    let access = access.ok_or_else(|| Problem::unauthorized("send a key as `Authorization: Bearer KEY`"))?;
    let access = auth::allow(auth::allow(access, Scope::EventsWrite)?, Scope::EventsImport)?;
    if access.class == KeyClass::Public {
        return Err(Problem::forbidden("imports need a secret key"));
    }
    Ok(access)
}

fn commit_ms(runtime: &RuntimeState) -> Option<f64> {
    let mean = runtime.shared.ingest.commit_latency().mean(Instant::now())?;
    Some(mean.as_secs_f64() * 1e3)
}

impl ImportParams {
    fn parse(query: &str) -> Result<ImportParams, Problem> {
        let mut params = ImportParams::default();
        if let Some(file) = auth::parameter(query, "file") {
            let file = sha256(file);
            params.file = Some(file.ok_or_else(|| {
                Problem::invalid("must be a SHA-256 of 64 hexadecimal digits").field("file")
            })?);
        }
        if let Some(from) = auth::parameter(query, "from") {
            let from = from.parse().ok().filter(|from| *from <= FROM_MAX);
            params.from =
                from.ok_or_else(|| Problem::invalid("must be a whole number up to 2^53").field("from"))?;
        }
        if let Some(refused) = auth::parameter(query, "refused") {
            let rejected: Option<Vec<_>> = refused.split(',').map(parse_tally).collect();
            params.rejected = rejected.filter(|rejected| are_distinct(rejected)).ok_or_else(|| {
                let detail = format!("must be REASON:COUNT,... with distinct reasons of invalid events, and counts between 1 and {EVENTS_PER_REQUEST_MAX}");
                Problem::invalid(detail).field("refused")
            })?;
        }
        Ok(params)
    }
}

fn sha256(hex: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let is_hex = hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    for (index, byte) in bytes.iter_mut().enumerate().filter(|_| is_hex) {
        *byte = u8::from_str_radix(&hex[2 * index..2 * index + 2], 16).ok()?;
    }
    is_hex.then_some(bytes)
}

fn are_distinct(rejected: &[(Reject, u32)]) -> bool {
    (1..rejected.len()).all(|index| rejected[..index].iter().all(|(other, _)| *other != rejected[index].0))
}

/// Parses a pair such as `malformed_line:2`.
fn parse_tally(text: &str) -> Option<(Reject, u32)> {
    let (label, count) = text.split_once(':')?;
    let invalid = |reject: &Reject| reject.outcome() == Outcome::Invalid && reject.label() == label;
    let reject = Reject::ALL.iter().copied().find(invalid)?;
    let count = count.parse().ok().filter(|count| (1..=EVENTS_PER_REQUEST_MAX as u32).contains(count))?;
    Some((reject, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Expected<'a> = Result<(u64, &'a [(Reject, u32)]), &'a str>;

    fn check(query: &str, expected: Expected<'_>) {
        let parsed = ImportParams::parse(query).map_err(|problem| problem.brief());
        let parsed =
            parsed.as_ref().map(|params| (params.from, &params.rejected[..])).map_err(String::as_str);
        assert_eq!(parsed, expected, "{query}");
    }

    #[test]
    fn file_parameters_are_parsed_or_rejected_by_name() {
        let hex = "0123456789abcdef".repeat(4);
        let file = ImportParams::parse(&format!("file={hex}"))
            .expect("a hash")
            .file
            .expect("the parameter was given");
        assert_eq!((file[0], file[7], file[31]), (0x01, 0xef, 0xef));
        check("", Ok((0, &[])));
        check("from=7", Ok((7, &[])));
        let both = [(Reject::MalformedLine, 2), (Reject::NotUtf8, 1)];
        check("refused=malformed_line:2,not_utf8:1", Ok((0, &both)));
        for (query, field) in [
            ("file=0123", "file"),
            (&*format!("file={}", "é".repeat(32)), "file"),
            ("from=-1", "from"),
            ("from=", "from"),
            ("from=18446744073709551615", "from"),
            ("refused=not_utf8:1,not_utf8:1", "refused"),
            ("refused=", "refused"),
            ("refused=malformed_line", "refused"),
            ("refused=malformed_line:0", "refused"),
            ("refused=malformed_line:10001", "refused"),
            ("refused=seen_before:1", "refused"),
            ("refused=daily_quota:1", "refused"),
            ("refused=bad:1", "refused"),
        ] {
            check(query, Err(&format!("400 invalid_field ({field})")));
        }
    }
}
