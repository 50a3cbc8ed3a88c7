//! `GET /tracker/q.aspx?q=EVENTS&url=PAGE&swfid=ID`: events of a game that its host, the path or `guid` names.

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::response::{IntoResponse, Response};
use decode::playtomic::{TrackerError, query_parameter};
use hyper::header::{HOST, USER_AGENT};
use hyper::http::request::Parts;
use hyper::{Method, Request};
use model::batch::Endpoint;
use wal::Ack;

use super::script;
use crate::api::commands::Local;
use crate::api::events;
use crate::cors::{allow_any_origin, preflight};
use crate::problem::Problem;
use pipeline::catalog::Access;
use pipeline::ingest;
use pipeline::time::now_ms;

/// What follows the game's key in the name of a host.
const HOST_INFIX: &str = ".api.";

/// Answers `/tracker/q.aspx` and `/KEY/tracker/q.aspx`. A body, which some SDKs add, says nothing.
pub async fn tracker(
    State(local): State<Local>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request<Body>,
) -> Response {
    let (head, _) = request.into_parts();
    let mut response = match head.method {
        Method::OPTIONS => preflight("GET, POST, OPTIONS"),
        Method::GET | Method::POST => match take(&local, &head, peer).await {
            Ok(()) => script("1"),
            Err(problem) => {
                local.shared.requests.refused(&problem);
                problem.into_response()
            }
        },
        _ => Problem::method("events are sent with GET").into_response(),
    };
    allow_any_origin(response.headers_mut());
    response
}

async fn take(local: &Local, head: &Parts, peer: SocketAddr) -> Result<(), Problem> {
    let received_ms = now_ms();
    let access = game(local, head)?;
    let tracked = decode::playtomic::parse_tracker(head.uri.query().unwrap_or_default()).map_err(refused)?;
    let request = ingest::IngestRequest {
        endpoint: Endpoint::Playtomic,
        received_ms,
        client: ingest::ClientInfo {
            address: events::address(&local.shared, &head.headers, peer),
            user_agent: events::text(&head.headers, USER_AGENT),
        },
        ack: Ack::Disk,
        rejected: &[],
    };
    let taken = local.shared.ingest.submit(&local.lane, &access, &request, &tracked.decoded()).await;
    taken.map(|_| ()).map_err(events::refused)
}

/// The game that the request names, whichever way it does.
fn game(local: &Local, head: &Parts) -> Result<Access, Problem> {
    let query = head.uri.query().unwrap_or_default();
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let names = [
        query_parameter(query, "guid"),
        in_path(head.uri.path()).map(Into::into),
        in_host(host).map(Into::into),
    ];
    let mut games = names.iter().flatten().filter_map(|name| {
        let without_g =
            || name.strip_prefix(['g', 'G']).and_then(|name| local.shared.catalog.playtomic_game(name));
        local.shared.catalog.playtomic_game(name).or_else(without_g)
    });
    games.next().map(Access::public).ok_or_else(|| {
        Problem::key("name a game by its key: http://gKEY.api.HOST/, http://HOST/KEY/ or `guid=KEY`")
            .field("guid")
    })
}

fn in_path(path: &str) -> Option<&str> {
    path.strip_suffix("/tracker/q.aspx")?.strip_prefix('/')
}

fn in_host(host: &str) -> Option<&str> {
    host.split_once(HOST_INFIX).map(|(name, _)| name)
}

fn refused(error: TrackerError) -> Problem {
    match error {
        TrackerError::NoEvents => Problem::malformed(error.to_string()).field("q"),
        TrackerError::TooManyEvents => Problem::too_large(error.to_string()).field("q"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_game_is_named_in_the_path_or_the_host() {
        assert_eq!(in_path("/tracker/q.aspx"), None);
        assert_eq!(in_path("/7bf0/tracker/q.aspx"), Some("7bf0"));
        assert_eq!(in_host("g7bf0.api.games.example:8080"), Some("g7bf0"));
        assert_eq!(in_host("games.example"), None);
    }
}
