//! `GET /tracker/q.aspx?q=EVENTS&url=PAGE&swfid=ID`: events; `POST /tracker/p.aspx`: an event about a player. The key of
//! the game is in the host, the path or `guid`.

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::header::{HOST, USER_AGENT};
use hyper::http::request::Parts;
use hyper::{Method, Request};

use decode::playtomic::{TrackerError, query_parameter};
use model::batch::Endpoint;
use pipeline::catalog::Access;
use pipeline::ingest;
use pipeline::time::now_ms;
use wal::Ack;

use super::script;
use crate::RuntimeState;
use crate::api::events;
use crate::body::{self, BodyLimits};
use crate::compat::capture;
use crate::cors::{allow_any_origin, preflight};
use crate::problem::Problem;
use crate::request_context::RequestContext;

/// The part of a host name that follows the key of the game.
const HOST_INFIX: &str = ".api.";

/// Handles `/tracker/q.aspx` and `/KEY/tracker/q.aspx`. Some SDKs add a body, which is ignored.
pub(super) async fn tracker(State(runtime): State<RuntimeState>, request: Request<Body>) -> Response {
    let (head, _) = request.into_parts();
    let mut response = match head.method {
        Method::OPTIONS => preflight("GET, POST, OPTIONS"),
        Method::GET | Method::POST => match submit_events(&runtime, &head).await {
            Ok(()) => script("1"),
            Err(problem) => {
                runtime.shared.rejected_requests.count(&problem);
                problem.into_response()
            }
        },
        _ => Problem::method_not_allowed("use GET or POST").into_response(),
    };
    allow_any_origin(response.headers_mut());
    response
}

/// The largest form of a player's event.
const EVENT_BYTES_MAX: usize = 128 << 10;

/// Handles `POST /tracker/p.aspx` and `/KEY/tracker/p.aspx`: one event about a player.
pub(super) async fn player_event(State(runtime): State<RuntimeState>, request: Request<Body>) -> Response {
    let (head, mut incoming) = request.into_parts();
    let mut response = match head.method {
        Method::OPTIONS => preflight("POST, OPTIONS"),
        Method::POST => match submit_player_event(&runtime, &head, &mut incoming).await {
            Ok(()) => script("1"),
            Err(problem) => {
                runtime.shared.rejected_requests.count(&problem);
                problem.into_response()
            }
        },
        _ => Problem::method_not_allowed("use POST").into_response(),
    };
    allow_any_origin(response.headers_mut());
    response
}

async fn submit_player_event(
    runtime: &RuntimeState,
    head: &Parts,
    incoming: &mut Body,
) -> Result<(), Problem> {
    let access = authorize(runtime, head)?;
    RequestContext::from(head).set_game(access.game.number);
    let limits = BodyLimits { bytes: EVENT_BYTES_MAX, inflated_bytes: EVENT_BYTES_MAX };
    let bytes = body::read(head, incoming, limits).await?;
    let translated = decode::playtomic::translate_pevent(&bytes)
        .map_err(|error| Problem::malformed(error.to_string()).field("data"))?;
    capture::submit(runtime, head, access, Endpoint::Playtomic, &translated).await
}

async fn submit_events(runtime: &RuntimeState, head: &Parts) -> Result<(), Problem> {
    let received_ms = now_ms();
    let access = authorize(runtime, head)?;
    let context = RequestContext::from(head);
    context.set_game(access.game.number);
    let tracked =
        decode::playtomic::parse_tracker(head.uri.query().unwrap_or_default()).map_err(tracker_problem)?;
    let request = ingest::IngestRequest {
        endpoint: Endpoint::Playtomic,
        received_ms,
        client: ingest::ClientInfo {
            address: context.client_address(),
            user_agent: events::header_text(&head.headers, USER_AGENT),
        },
        ack: Ack::Disk,
        rejected: &[],
    };
    let receipt = runtime.shared.ingest.submit(&runtime.lane, &access, &request, &tracked.decoded()).await;
    receipt.map(drop).map_err(events::ingest_problem)
}

/// Returns public access to the game of the request: by `guid`, path or host.
pub(super) fn authorize(runtime: &RuntimeState, head: &Parts) -> Result<Access, Problem> {
    let query = head.uri.query().unwrap_or_default();
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let keys = [
        query_parameter(query, "guid"),
        key_in_path(head.uri.path()).map(Into::into),
        key_in_host(host).map(Into::into),
    ];
    let mut games = keys.iter().flatten().filter_map(|key| {
        let without_g =
            || key.strip_prefix(['g', 'G']).and_then(|key| runtime.shared.catalog.playtomic_game(key));
        runtime.shared.catalog.playtomic_game(key).or_else(without_g)
    });
    games.next().map(Access::public).ok_or_else(|| {
        Problem::unauthorized(
            "no key of a game: send it as http://gKEY.api.HOST/, http://HOST/KEY/ or `guid=KEY`",
        )
        .field("guid")
    })
}

fn key_in_path(path: &str) -> Option<&str> {
    let own = ["/tracker/q.aspx", "/tracker/p.aspx", "/v3/api.aspx"];
    own.iter().find_map(|own| path.strip_suffix(own))?.strip_prefix('/')
}

fn key_in_host(host: &str) -> Option<&str> {
    host.split_once(HOST_INFIX).map(|(key, _)| key)
}

fn tracker_problem(error: TrackerError) -> Problem {
    match error {
        TrackerError::NoEvents => Problem::malformed(error.to_string()).field("q"),
        TrackerError::TooManyEvents => Problem::too_large(error.to_string()).field("q"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_read_from_path_or_host() {
        assert_eq!(key_in_path("/tracker/q.aspx"), None);
        assert_eq!(key_in_path("/7bf0/tracker/q.aspx"), Some("7bf0"));
        assert_eq!(key_in_path("/7bf0/v3/api.aspx"), Some("7bf0"));
        assert_eq!(key_in_host("g7bf0.api.games.example:8080"), Some("g7bf0"));
        assert_eq!(key_in_host("games.example"), None);
    }
}
