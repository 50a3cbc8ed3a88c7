//! Live-ops writes: from a request to a command in the log, and from its outcome to a response.
//!
//! The body is read into a type that lists its fields, the credential is checked, and the write becomes a command. The
//! response is sent once the command is durable and decided.

use std::net::IpAddr;
use std::time::Instant;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};
use liveops::players::PlayerCommand;
use liveops::{Caller, Command, CommandRef, CommandResponse, Idempotency, Principal, Refusal, RefusalKind};
use model::batch::KeyClass;
use pipeline::catalog::{Access, Scope};
use pipeline::command_quota::PublicWrite;
use pipeline::ingest::{COMMAND, Claims, IngestError};
use pipeline::time::now_ms;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use wal::{Ack, Entry};

use super::events::ingest_problem;
use super::json::from_json;
use super::signature::{SIGNATURE_HEADER, verify_signature};
use crate::RuntimeState;
use crate::auth::{self, Credentials};
use crate::body::{self, BodyLimits};
use crate::hex::to_hex;
use crate::problem::Problem;
use crate::request_context::RequestContext;

/// Limit for a body without level data.
pub(crate) const BODY_BYTES_MAX: usize = 256 << 10;
/// Limit for the body of a write that needs none.
const EMPTY_BODY_BYTES_MAX: usize = 1 << 10;
/// Limit for an `Idempotency-Key`.
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 200;

/// The credentials that may send a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Secret keys with this scope, and signed-in people.
    Server(Scope),
    /// Those of `Server`, and the public key if the request is signed with a player's session.
    Signed(Scope),
    /// Those of `Server`, and the public key.
    Public(Scope),
}

/// A write that was read and authorized, to become a command.
pub struct CommandRequest<T> {
    /// The credential's game and scopes.
    pub access: Access,
    /// The caller, and the signature of its player if the request is signed.
    pub by: Principal,
    /// Time of receipt, milliseconds since 1970.
    pub received_ms: i64,
    /// The client's address, which limits the rate of writes with a public key.
    pub address: Option<IpAddr>,
    /// Its body.
    pub body: T,
    idempotency: Option<Idempotency>,
}

impl<T> CommandRequest<T> {
    /// Separates the body from the request, which is still needed to submit the command.
    pub fn split(self) -> (CommandRequest<()>, T) {
        let CommandRequest { access, by, received_ms, address, body, idempotency } = self;
        (CommandRequest { access, by, received_ms, address, body: (), idempotency }, body)
    }
}

impl CommandRequest<()> {
    /// A write that was read elsewhere, without an idempotency key.
    pub fn new(
        access: Access,
        by: Principal,
        received_ms: i64,
        address: Option<IpAddr>,
    ) -> CommandRequest<()> {
        CommandRequest { access, by, received_ms, address, body: (), idempotency: None }
    }
}

/// The result of a handler: a response, or a problem that becomes one.
pub(crate) type HandlerResult = Result<Response, Problem>;

impl RuntimeState {
    /// Reads and authorizes a write whose body is a JSON object with the fields of `T` and no others.
    pub(crate) async fn read_command<T: DeserializeOwned>(
        &self,
        request: Request<Body>,
        rights: Rights,
        bytes_max: usize,
    ) -> Result<CommandRequest<T>, Problem> {
        let (head, mut incoming) = request.into_parts();
        let read = self.read_parts(&head, &mut incoming, rights, bytes_max).await;
        if let Err(problem) = &read {
            body::discard(&head.headers, incoming, problem);
        }
        read
    }

    /// Reads and authorizes a write without a body. Clients that always send JSON may send `{}`.
    pub(crate) async fn read_command_without_body(
        &self,
        request: Request<Body>,
        rights: Rights,
    ) -> Result<CommandRequest<()>, Problem> {
        let (head, mut incoming) = request.into_parts();
        let received_ms = now_ms();
        let access = self.authorize(&head, rights, received_ms)?;
        let bytes = body::collect(&head, &mut incoming, EMPTY_BODY_BYTES_MAX).await;
        let bytes = bytes.and_then(|bytes| check_empty(&bytes).map(|()| bytes));
        match bytes {
            Ok(bytes) => self.command_request(&head, rights, received_ms, access, &bytes, ()),
            Err(problem) => {
                body::discard(&head.headers, incoming, &problem);
                Err(problem)
            }
        }
    }

    async fn read_parts<T: DeserializeOwned>(
        &self,
        head: &Parts,
        incoming: &mut Body,
        rights: Rights,
        bytes_max: usize,
    ) -> Result<CommandRequest<T>, Problem> {
        let received_ms = now_ms();
        let access = self.authorize(head, rights, received_ms)?;
        is_json(&head.headers)?;
        let bytes =
            body::read(head, incoming, BodyLimits { bytes: bytes_max, inflated_bytes: bytes_max }).await?;
        let body = from_json(&bytes)?;
        self.command_request(head, rights, received_ms, access, &bytes, body)
    }

    fn authorize(&self, head: &Parts, rights: Rights, now_ms: i64) -> Result<Access, Problem> {
        let access = Credentials::from(head).authorize_write(&self.shared.catalog, now_ms as u64 / 1000)?;
        let (Rights::Server(scope) | Rights::Signed(scope) | Rights::Public(scope)) = rights;
        match (access.class, rights) {
            (KeyClass::Secret, _) => auth::allow(access, scope),
            (KeyClass::Public, Rights::Server(_)) => auth::allow(access, scope),
            (KeyClass::Public, _) => Ok(access),
        }
    }

    fn command_request<T>(
        &self,
        head: &Parts,
        rights: Rights,
        received_ms: i64,
        access: Access,
        bytes: &[u8],
        body: T,
    ) -> Result<CommandRequest<T>, Problem> {
        let signed = verify_signature(&self.shared, &access, head, bytes, received_ms)?;
        if access.class == KeyClass::Public && signed.is_none() && matches!(rights, Rights::Signed(_)) {
            let detail = "sign the request with a player's session, or send a secret key";
            return Err(Problem::invalid_signature(detail).field(SIGNATURE_HEADER));
        }
        let caller = match (access.class, access.person) {
            (KeyClass::Public, _) => Caller::Public,
            (KeyClass::Secret, true) => Caller::Person,
            (KeyClass::Secret, false) => Caller::Server,
        };
        let idempotency = idempotency(head, caller, bytes)?;
        let address = RequestContext::from(head).client_address();
        Ok(CommandRequest {
            access,
            by: Principal { caller, signed },
            received_ms,
            address,
            body,
            idempotency,
        })
    }

    /// Submits a command, waits until it is durable and decided, and responds.
    pub(crate) async fn submit<T>(&self, request: CommandRequest<T>, command: Command) -> HandlerResult {
        self.submit_with_blob(request, command, &[]).await
    }

    /// As [`RuntimeState::submit`], with data that is too large for JSON.
    pub(crate) async fn submit_with_blob<T>(
        &self,
        request: CommandRequest<T>,
        command: Command,
        blob: &[u8],
    ) -> HandlerResult {
        self.execute(request, command, blob).await?.map(command_response).map_err(refusal_problem)
    }

    /// Checks the limits of writes with a public key.
    fn check_rate(
        &self,
        access: &Access,
        address: Option<IpAddr>,
        by: &Principal,
        command: &Command,
        now_ms: i64,
    ) -> Result<(), Problem> {
        let game = self.shared.views.liveops.game(access.game.number);
        let game = game.read();
        let write = PublicWrite {
            game: access.game.number,
            key: access.key,
            address,
            player: command.player(),
            session: by.signed.as_ref().map(|signed| &*signed.session),
            is_creation: command.is_creation(&game),
            is_board_creation: command.is_board_creation(&game),
        };
        drop(game);
        self.shared.command_quota.acquire(&write, now_ms).map_err(|exceeded| {
            Problem::quota_exceeded(exceeded.to_string())
                .field(exceeded.quota)
                .retry_after_s(exceeded.retry_s)
        })
    }

    /// Submits a command, waits until it is durable and decided, and returns the decision.
    pub async fn execute<T>(
        &self,
        request: CommandRequest<T>,
        command: Command,
        blob: &[u8],
    ) -> Result<Result<CommandResponse, Refusal>, Problem> {
        let CommandRequest { access, by, received_ms, address, idempotency, .. } = request;
        // The right to be forgotten does not end with the game.
        if !matches!(command, Command::Players(PlayerCommand::Erase { .. })) {
            access.game.check_writable()?;
        }
        if access.class == KeyClass::Public {
            self.check_rate(&access, address, &by, &command, received_ms)?;
        }
        let (game, tz) = (access.game.number, access.game.tz.clone());
        let bytes = liveops::encode(&CommandRef { game, received_ms, by, tz, idempotency, command, blob });
        let entry = Entry { kind: COMMAND, events: 0, bytes, ack: Ack::Disk, extra: Claims::default() };
        let fails = |failure| ingest_problem(IngestError::Wal(failure));
        let begun = Instant::now();
        let committed = self.lane.append(entry).map_err(fails)?.await.map_err(fails)?;
        self.shared.ingest.commit_latency().record(begun, Instant::now());
        let offset = committed.expect("an append acknowledged from disk returns its offsets").offsets.start;
        let outcome = self.shared.views.wait_for_outcome(offset).await.map_err(|_| {
            let detail = "the command is stored and will be applied, but the views are behind the log at the moment; \
                          send it again with the same `Idempotency-Key` to get its result";
            Problem::overloaded(detail).retry_after_s(5)
        })?;
        outcome.ok_or_else(|| Problem::internal("the outcome of the command could not be read"))
    }
}

/// Checks that a body has no fields: it is empty or an empty JSON object.
fn check_empty(body: &[u8]) -> Result<(), Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct EmptyObject {}
    match body.trim_ascii() {
        [] => Ok(()),
        body => from_json::<EmptyObject>(body).map(|EmptyObject {}| ()),
    }
}

/// Rejects a body that is declared to be something other than JSON.
pub(crate) fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
    let value = headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or("?"));
    let kind = value.unwrap_or("application/json").split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") || kind.eq_ignore_ascii_case("text/plain") {
        return Ok(());
    }
    Err(Problem::unsupported(format!("unsupported content type `{kind}`; send application/json"))
        .field("Content-Type"))
}

fn idempotency(head: &Parts, caller: Caller, body: &[u8]) -> Result<Option<Idempotency>, Problem> {
    let Some(key) = head.headers.get("idempotency-key") else { return Ok(None) };
    let key = key.to_str().ok().filter(|key| (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len()));
    let problem = || {
        let detail = format!("must be 1 to {IDEMPOTENCY_KEY_BYTES_MAX} visible characters");
        Problem::invalid(detail).field("Idempotency-Key")
    };
    let key = key.ok_or_else(problem)?;
    let mut hash = Sha256::new();
    hash.update(format!("{} {}\n", head.method, head.uri));
    hash.update(body);
    let request = to_hex(&hash.finalize()[..16]);
    Ok(Some(Idempotency { key: format!("{}:{key}", caller_label(caller)), request }))
}

/// Separates the idempotency keys of different kinds of credentials, so that none replays the response of another.
fn caller_label(caller: Caller) -> &'static str {
    match caller {
        // Commands of the second kind are sent without a key.
        Caller::Public | Caller::Compat => "public",
        Caller::Server => "server",
        Caller::Person => "person",
    }
}

/// Returns the response for the outcome of a command.
pub(crate) fn command_response(answer: CommandResponse) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    if answer.json.is_empty() {
        return status.into_response();
    }
    (status, [(CONTENT_TYPE, "application/json")], Bytes::from(answer.json)).into_response()
}

/// Returns the problem for a refused command.
pub(crate) fn refusal_problem(refusal: Refusal) -> Problem {
    let detail = refusal.detail;
    let problem = match refusal.kind {
        RefusalKind::Invalid => Problem::invalid(detail),
        RefusalKind::Forbidden => Problem::forbidden(detail),
        RefusalKind::NotFound => Problem::not_found(detail),
        RefusalKind::Conflict => Problem::conflict(detail),
        RefusalKind::TooMany => Problem::limit_reached(detail),
        RefusalKind::Unsigned => Problem::invalid_signature(detail),
    };
    match refusal.field {
        Some(field) => problem.field(field),
        None => problem,
    }
}
