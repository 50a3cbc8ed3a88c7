//! `/v1/import`: events of the past out of files, beside what happens now.
//!
//! They take the same way as all events. What is different: they may be of any age, those without an id get one that
//! follows from their file and their place in it, nothing is filled in from the connection, and the answer says how
//! long live commits take, so that the sender can keep out of their way.

use std::time::Instant;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use decode::json::decode;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::http::request::Parts;
use hyper::{Request, StatusCode, Uri};
use model::batch::{Endpoint, KeyClass};
use model::limits::EVENTS_PER_REQUEST_MAX;
use model::{Outcome, RawBatch, Reject};
use serde_json::json;
use sha2::{Digest, Sha256};
use utoipa::OpenApi;
use wal::Ack;

use super::commands::Local;
use super::events;
use super::openapi::shapes;
use crate::auth;
use crate::body;
use crate::problem::Problem;
use axum::{Router, routing};
use pipeline::catalog::{Access, Scope};
use pipeline::file_ids::FileIds;
use pipeline::ingest;
use pipeline::time::{now_ms, now_s};

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
    Router::new().route("/v1/import", routing::get(get).post(post))
}

/// The number of an event in its file; as large as JSON can say exactly.
const FROM_MAX: u64 = 1 << 53;

#[derive(OpenApi)]
#[openapi(paths(post, get))]
pub(crate) struct Docs;

/// What a request says about the file that its events are from.
#[derive(Debug, Default, PartialEq)]
struct Origin {
    /// SHA-256 of what is in the file.
    file: Option<[u8; 32]>,
    /// The number of the first event in the file.
    from: u64,
    /// What its sender could not read, by reason.
    refused: Vec<(Reject, u32)>,
}

/// Takes events of any age out of a file. The key has the scopes `events:write` and `events:import`.
///
/// The body is that of `/v1/events`. The answer has `commit_ms` beside the receipt: how long the commits of all but
/// imports took on average during the last second, `null` if there were none.
#[utoipa::path(
    post, path = "/v1/import", operation_id = "import_events", tag = "events", security(("secret_key" = [])),
    params(
        ("file" = Option<String>, Query, description = "SHA-256 of the file, 64 hexadecimal digits. Events without an id \
            get one that follows from it and from their number."),
        ("from" = Option<u64>, Query, description = "The number of the first event of this request in its file; 0 by default."),
        ("refused" = Option<String>, Query, description = "What of the file could not be read, by reason, to be counted: \
            `malformed_line:2,not_utf8:1`."),
    ),
    request_body(
        content = String, content_type = "application/x-ndjson",
        example = json!("{\"event\":\"level_up\",\"player\":\"bo\",\"ts\":\"2024-11-20T12:00:00Z\"}\n"),
    ),
    responses(
        (status = 202, description = "What became of each event, and `commit_ms`.", body = shapes::Receipt),
        (status = 403, description = "The key has not the scope `events:import`.", body = shapes::Problem),
        (status = 429, description = "More than the game may send; see Retry-After.", body = shapes::Problem),
        (status = 503, description = "Cannot be made durable now; see Retry-After.", body = shapes::Problem),
    ),
)]
pub async fn post(State(local): State<Local>, request: Request<Body>) -> Response {
    let (head, mut incoming) = request.into_parts();
    match take(&local, &head, &mut incoming).await {
        Ok(answer) => {
            (StatusCode::ACCEPTED, [(CONTENT_TYPE, "application/json")], Bytes::from(answer)).into_response()
        }
        Err(problem) => {
            local.shared.requests.refused(&problem);
            body::discard(&head.headers, incoming, &problem);
            problem.into_response()
        }
    }
}

/// Tells where an import would go: the game, and what tells its log from all others, so that somebody who keeps count
/// of what was imported notices that it is another one.
#[utoipa::path(
    get, path = "/v1/import", operation_id = "import_target", tag = "events", security(("secret_key" = [])),
    responses(
        (status = 200, description = "`game`, `target`, and `commit_ms` as in the receipts.", body = Object),
        (status = 403, description = "The key has not the scope `events:import`.", body = shapes::Problem),
    ),
)]
pub async fn get(State(local): State<Local>, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    let access = access(&local, &headers, uri.query())?;
    let target = Sha256::new_with_prefix(b"playmeter target")
        .chain_update(local.shared.catalog.id_secret())
        .chain_update(access.game.number.to_le_bytes())
        .finalize();
    let target: String = target[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    let answer = json!({ "game": access.game.id, "target": target, "commit_ms": commit_ms(&local) });
    Ok(axum::Json(answer).into_response())
}

async fn take(local: &Local, head: &Parts, incoming: &mut Body) -> Result<Vec<u8>, Problem> {
    let access = access(local, &head.headers, head.uri.query())?;
    let (form, origin) = (events::form(&head.headers)?, Origin::parse(head.uri.query().unwrap_or_default())?);
    let bytes = body::read(&head.headers, incoming, body::Limits::EVENTS).await?;
    let mut decoded = RawBatch::default();
    if origin.refused.is_empty() || !bytes.trim_ascii().is_empty() {
        decode(&bytes, form, &mut decoded).map_err(events::malformed)?;
    }
    if let Some(file) = &origin.file {
        FileIds::new(file, origin.from).assign(&mut decoded);
    }
    let request = ingest::IngestRequest {
        endpoint: Endpoint::Import,
        received_ms: now_ms(),
        client: ingest::ClientInfo::default(),
        ack: Ack::Disk,
        rejected: &origin.refused,
    };
    let receipt = local.shared.ingest.submit_backfill(&local.lane, &access, &request, &decoded).await;
    let receipt = receipt.map_err(events::refused)?;
    let mut answer = events::answer(&receipt, &decoded);
    answer.pop();
    let commit_ms = commit_ms(local).map_or_else(|| "null".to_owned(), |ms| format!("{ms:.3}"));
    answer.extend_from_slice(format!(",\"commit_ms\":{commit_ms}}}").as_bytes());
    Ok(answer)
}

fn access(local: &Local, headers: &HeaderMap, query: Option<&str>) -> Result<Access, Problem> {
    let access = auth::by_key(&local.shared.catalog, headers, query, now_s())?;
    let access = access.ok_or_else(|| Problem::key("send `Authorization: Bearer KEY`"))?;
    let access = auth::allow(auth::allow(access, Scope::EventsWrite)?, Scope::EventsImport)?;
    if access.class == KeyClass::Public {
        return Err(Problem::scope("events of any age are imported with a secret key"));
    }
    Ok(access)
}

fn commit_ms(local: &Local) -> Option<f64> {
    let mean = local.shared.ingest.commit_latency().mean(Instant::now())?;
    Some(mean.as_secs_f64() * 1e3)
}

impl Origin {
    fn parse(query: &str) -> Result<Origin, Problem> {
        let mut origin = Origin::default();
        if let Some(file) = auth::parameter(query, "file") {
            let file = sha256(file);
            origin.file =
                Some(file.ok_or_else(|| {
                    Problem::invalid("it is a SHA-256 of 64 hexadecimal digits").field("file")
                })?);
        }
        if let Some(from) = auth::parameter(query, "from") {
            let from = from.parse().ok().filter(|from| *from <= FROM_MAX);
            origin.from =
                from.ok_or_else(|| Problem::invalid("it is a whole number up to 2^53").field("from"))?;
        }
        if let Some(refused) = auth::parameter(query, "refused") {
            let refused: Option<Vec<_>> = refused.split(',').map(tally).collect();
            origin.refused = refused.filter(|refused| are_different(refused)).ok_or_else(|| {
                let detail = format!("it is REASON:COUNT,..., each 1 to {EVENTS_PER_REQUEST_MAX}, with reasons of invalid events, each once");
                Problem::invalid(detail).field("refused")
            })?;
        }
        Ok(origin)
    }
}

fn sha256(hex: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let is_hex = hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    for (place, byte) in bytes.iter_mut().enumerate().filter(|_| is_hex) {
        *byte = u8::from_str_radix(&hex[2 * place..2 * place + 2], 16).ok()?;
    }
    is_hex.then_some(bytes)
}

fn are_different(refused: &[(Reject, u32)]) -> bool {
    (1..refused.len()).all(|place| refused[..place].iter().all(|(other, _)| *other != refused[place].0))
}

/// `malformed_line:2`.
fn tally(text: &str) -> Option<(Reject, u32)> {
    let (label, count) = text.split_once(':')?;
    let invalid = |reject: &Reject| reject.outcome() == Outcome::Invalid && reject.label() == label;
    let reject = Reject::ALL.iter().copied().find(invalid)?;
    let count = count.parse().ok().filter(|count| (1..=EVENTS_PER_REQUEST_MAX as u32).contains(count))?;
    Some((reject, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Told<'a> = Result<(u64, &'a [(Reject, u32)]), &'a str>;

    fn check(query: &str, expected: Told<'_>) {
        let told = Origin::parse(query).map_err(|problem| problem.brief());
        let told = told.as_ref().map(|origin| (origin.from, &origin.refused[..])).map_err(String::as_str);
        assert_eq!(told, expected, "{query}");
    }

    #[test]
    fn what_is_said_about_the_file_is_read_or_named() {
        let hex = "0123456789abcdef".repeat(4);
        let file = Origin::parse(&format!("file={hex}")).expect("a hash").file.expect("it is there");
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
