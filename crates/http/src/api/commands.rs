//! Writes of live-ops: from a request to a command in the log, and back to an answer.
//!
//! A write is read into a type that lists its fields, its credential is checked, and it becomes a command. The answer
//! comes when the command is durable and was decided.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::FromRef;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};
use liveops::{Caller, Command, CommandRef, CommandResponse, Idempotency, Principal, Refusal, RefusalKind};
use model::batch::KeyClass;
use model::limits::JSON_DEPTH_MAX;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use wal::{Ack, Entry, Lane};

use super::events::refused;
use crate::AppState;
use crate::auth;
use crate::body::{self, Limits};
use crate::problem::Problem;
use pipeline::catalog::{Access, Scope};
use pipeline::ingest::{COMMAND, Claims, IngestError};
use pipeline::time::now_ms;

/// A body of a write that carries no level.
pub const BODY_BYTES_MAX: usize = 256 << 10;
/// An `Idempotency-Key`.
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 200;

/// What handlers of one runtime use: the server, and the runtime's own lane into the log.
#[derive(Clone)]
pub struct Local {
    /// The server.
    pub shared: Arc<AppState>,
    /// The lane.
    pub lane: Lane<Claims>,
}

impl FromRef<Local> for Arc<AppState> {
    fn from_ref(local: &Local) -> Arc<AppState> {
        Arc::clone(&local.shared)
    }
}

/// Who may send a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Secret keys with this scope, and people.
    Server(Scope),
    /// These, and a player's signed request with the public key.
    Signed(Scope),
    /// These, and anybody with the public key.
    Public(Scope),
}

/// A write as it was read: who asks for what.
pub struct Asked<T> {
    /// The credential's game and scopes.
    pub access: Access,
    /// On whose behalf.
    pub by: Principal,
    /// When it came, milliseconds since 1970.
    pub received_ms: i64,
    /// Its body.
    pub body: T,
    idempotency: Option<Idempotency>,
}

impl<T> Asked<T> {
    /// Its body, and the rest of it to be submitted.
    pub fn split(self) -> (Asked<()>, T) {
        let Asked { access, by, received_ms, body, idempotency } = self;
        (Asked { access, by, received_ms, body: (), idempotency }, body)
    }
}

impl Asked<()> {
    /// A write whose body came in another form and was read elsewhere.
    pub fn of(access: Access, by: Principal, received_ms: i64) -> Asked<()> {
        Asked { access, by, received_ms, body: (), idempotency: None }
    }
}

/// The answer to a handler that may fail.
pub type Answered = Result<Response, Problem>;

impl Local {
    /// Reads a write whose body is a JSON object with the fields of `T` and no others.
    pub async fn read<T: DeserializeOwned>(
        &self,
        request: Request<Body>,
        rights: Rights,
        bytes_max: usize,
    ) -> Result<Asked<T>, Problem> {
        let (head, mut incoming) = request.into_parts();
        let asked = self.read_parts(&head, &mut incoming, rights, bytes_max).await;
        if let Err(problem) = &asked {
            body::discard(&head.headers, incoming, problem);
        }
        asked
    }

    /// Reads a write without a body.
    pub async fn read_empty(&self, request: Request<Body>, rights: Rights) -> Result<Asked<()>, Problem> {
        let (head, mut incoming) = request.into_parts();
        let received_ms = now_ms();
        let access = self.access(&head, rights, received_ms)?;
        let bytes = body::collect(&mut incoming, 0).await?;
        self.asked(&head, rights, received_ms, access, &bytes, ())
    }

    async fn read_parts<T: DeserializeOwned>(
        &self,
        head: &Parts,
        incoming: &mut Body,
        rights: Rights,
        bytes_max: usize,
    ) -> Result<Asked<T>, Problem> {
        let received_ms = now_ms();
        let access = self.access(head, rights, received_ms)?;
        is_json(&head.headers)?;
        let bytes =
            body::read(&head.headers, incoming, Limits { bytes: bytes_max, inflated_bytes: bytes_max })
                .await?;
        let body = from_json(&bytes)?;
        self.asked(head, rights, received_ms, access, &bytes, body)
    }

    fn access(&self, head: &Parts, rights: Rights, now_ms: i64) -> Result<Access, Problem> {
        let access = auth::for_writes(&self.shared.catalog, head, now_ms as u64 / 1000)?;
        let (Rights::Server(scope) | Rights::Signed(scope) | Rights::Public(scope)) = rights;
        match (access.class, rights) {
            (KeyClass::Secret, _) => auth::allow(access, scope),
            (KeyClass::Public, Rights::Server(_)) => auth::allow(access, scope),
            (KeyClass::Public, _) => Ok(access),
        }
    }

    fn asked<T>(
        &self,
        head: &Parts,
        rights: Rights,
        received_ms: i64,
        access: Access,
        bytes: &[u8],
        body: T,
    ) -> Result<Asked<T>, Problem> {
        let signed = super::signature::check(&self.shared, &access, head, bytes, received_ms)?;
        if access.class == KeyClass::Public && signed.is_none() && matches!(rights, Rights::Signed(_)) {
            let detail = "sign the request with a player's session, or use a secret key";
            return Err(Problem::signature(detail).field(super::signature::HEADER));
        }
        let caller = match (access.class, access.person) {
            (KeyClass::Public, _) => Caller::Public,
            (KeyClass::Secret, true) => Caller::Person,
            (KeyClass::Secret, false) => Caller::Server,
        };
        let idempotency = idempotency(head, caller, bytes)?;
        Ok(Asked { access, by: Principal { caller, signed }, received_ms, body, idempotency })
    }

    /// Sends a command, waits until it is durable and decided, and answers.
    pub async fn submit<T>(&self, asked: Asked<T>, command: Command) -> Answered {
        self.submit_with(asked, command, &[]).await
    }

    /// As `submit`, with what is too large for JSON.
    pub async fn submit_with<T>(&self, asked: Asked<T>, command: Command, blob: &[u8]) -> Answered {
        self.decided(asked, command, blob).await?.map(answered).map_err(problem)
    }

    /// Sends a command and gives back what was decided.
    pub async fn decided<T>(
        &self,
        asked: Asked<T>,
        command: Command,
        blob: &[u8],
    ) -> Result<Result<CommandResponse, Refusal>, Problem> {
        let Asked { access, by, received_ms, idempotency, .. } = asked;
        let (game, tz) = (access.game.number, access.game.tz.clone());
        let bytes = liveops::encode(&CommandRef { game, received_ms, by, tz, idempotency, command, blob });
        let entry = Entry { kind: COMMAND, events: 0, bytes, ack: Ack::Disk, extra: Claims::default() };
        let fails = |failure| refused(IngestError::Wal(failure));
        let begun = Instant::now();
        let committed = self.lane.append(entry).map_err(fails)?.await.map_err(fails)?;
        self.shared.ingest.commit_latency().record(begun, Instant::now());
        let offset = committed.expect("who asks for the disk is told the offset").offsets.start;
        let outcome = self.shared.views.wait_for_outcome(offset).await;
        outcome.ok_or_else(|| Problem::internal("the command could not be read back"))
    }
}

/// Reads JSON into a type; what is wrong is named by its path.
pub fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    if depth(bytes) > JSON_DEPTH_MAX {
        return Err(Problem::malformed(format!("it nests more than {JSON_DEPTH_MAX} deep")));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        bad_json(error.inner(), &path)
    })?;
    deserializer.end().map_err(|error| bad_json(&error, "."))?;
    Ok(value)
}

fn bad_json(error: &serde_json::Error, path: &str) -> Problem {
    let detail = error.to_string();
    if !error.is_data() {
        return Problem::malformed(format!("the body is not JSON: {detail}"));
    }
    let detail = detail.split(" at line ").next().unwrap_or_default().to_owned();
    let named = detail.split_once(" field `").and_then(|(_, rest)| rest.split('`').next());
    let field = match (path, named) {
        (".", Some(named)) => named.to_owned(),
        (path, Some(named)) if !path.ends_with(named) => format!("{path}.{named}"),
        (path, _) => path.to_owned(),
    };
    let problem = Problem::invalid(detail);
    if field == "." { problem } else { problem.field(field) }
}

/// How deep brackets nest, outside of strings.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0usize, 0, false, false);
    for byte in json {
        match (in_text, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_text = !in_text,
            (false, b'[' | b'{') => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            (false, b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
    let value = headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or("?"));
    let kind = value.unwrap_or("application/json").split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") || kind.eq_ignore_ascii_case("text/plain") {
        return Ok(());
    }
    Err(Problem::unsupported(format!("`{kind}`; send application/json")).field("Content-Type"))
}

fn idempotency(head: &Parts, caller: Caller, body: &[u8]) -> Result<Option<Idempotency>, Problem> {
    let Some(key) = head.headers.get("idempotency-key") else { return Ok(None) };
    let key = key.to_str().ok().filter(|key| (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len()));
    let problem = || {
        let detail = format!("it has 1 to {IDEMPOTENCY_KEY_BYTES_MAX} visible characters");
        Problem::invalid(detail).field("Idempotency-Key")
    };
    let key = key.ok_or_else(problem)?;
    let mut hash = Sha256::new();
    hash.update(format!("{} {}\n", head.method, head.uri));
    hash.update(body);
    let request = hex(&hash.finalize()[..16]);
    Ok(Some(Idempotency { key: format!("{}:{key}", caller_label(caller)), request }))
}

/// Answers given to one kind of credential are not for the others.
fn caller_label(caller: Caller) -> &'static str {
    match caller {
        Caller::Public => "public",
        Caller::Server => "server",
        Caller::Person => "person",
    }
}

/// Bytes as lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An answer as the client gets it.
pub fn answered(answer: CommandResponse) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    if answer.json.is_empty() {
        return status.into_response();
    }
    (status, [(CONTENT_TYPE, "application/json")], Bytes::from(answer.json)).into_response()
}

/// A refusal as the client is told.
pub fn problem(refusal: Refusal) -> Problem {
    let detail = refusal.detail;
    let problem = match refusal.kind {
        RefusalKind::Invalid => Problem::invalid(detail),
        RefusalKind::Forbidden => Problem::scope(detail),
        RefusalKind::NotFound => Problem::not_found(detail),
        RefusalKind::Conflict => Problem::conflict(detail),
        RefusalKind::TooMany => Problem::unanswerable(detail),
        RefusalKind::Unsigned => Problem::signature(detail),
    };
    match refusal.field {
        Some(field) => problem.field(field),
        None => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only whether it can be read matters")]
    struct Outer {
        name: String,
        inner: Option<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only whether it can be read matters")]
    struct Inner {
        number: u8,
    }

    fn check(json: &str, expected: &str) {
        let problem = from_json::<Outer>(json.as_bytes()).expect_err(json);
        assert_eq!(problem.brief(), expected, "{json}");
    }

    #[test]
    fn what_is_wrong_with_a_body_is_named_by_its_path() {
        assert!(from_json::<Outer>(br#"{"name": "a", "inner": {"number": 1}}"#).is_ok());
        check(r#"{"name": "a", "owner": 1}"#, "400 invalid_field (owner)");
        check(r#"{"inner": {"number": 1}}"#, "400 invalid_field (name)");
        check(r#"{"name": 1}"#, "400 invalid_field (name)");
        check(r#"{"name": "a", "name": "b"}"#, "400 invalid_field (name)");
        check(r#"{"name": "a", "inner": {"number": 300}}"#, "400 invalid_field (inner.number)");
        check(r#"{"name": "a", "inner": {"number": 1, "id": 2}}"#, "400 invalid_field (inner.id)");
        check(r#"{"name": "a""#, "400 malformed");
        check(r#"{"name": "a"} {}"#, "400 malformed");
        check("[]", "400 invalid_field");
    }

    #[test]
    fn a_body_may_not_nest_without_end() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(from_json::<serde_json::Value>(nested(32).as_bytes()).is_ok());
        assert_eq!(from_json::<serde_json::Value>(nested(33).as_bytes()).unwrap_err().status(), 400);
        assert_eq!(depth(br#"{"a": "[[[\"[[[", "b": [1]}"#), 2);
    }
}
