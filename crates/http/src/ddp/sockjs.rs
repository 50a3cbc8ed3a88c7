//! SockJS 0.3, which Meteor's client speaks: `/sockjs/info`, and connections under `/sockjs/SERVER/SESSION/`.
//!
//! `websocket` is a WebSocket; `xhr_streaming`, `xhr` and `xhr_send` are requests for clients that cannot open one. A page
//! of another origin may use them like a WebSocket: the credential decides, and the cookie of a sign-in counts only for
//! pages that may act for people.
//!
//! Source: <https://sockjs.github.io/sockjs-protocol/sockjs-protocol-0.3.3.html>.

mod polling;

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use bytes::Bytes;
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue,
    ORIGIN, VARY,
};
use hyper::{Method, StatusCode};
use serde_json::json;

use pipeline::random;

pub(super) use self::polling::PollingConnection;
pub use self::polling::SockJsSessions;
use self::polling::{INBOX_BYTES_MAX, Poll};
use super::connection::Connection;
use super::socket::SocketState;
use super::{Credential, Session};
use crate::body::{self, BodyLimits};
use crate::problem::Problem;
use crate::request_context::RequestContext;
use crate::ws::{self, PendingUpgrade, SocketClosed, SocketMessage};

/// The frame that opens a connection.
pub(super) const OPEN: &str = "o";
/// The frame that shows that the connection is alive.
const HEARTBEAT: &str = "h";
/// Bytes after which a streaming response ends and the client sends the next request.
const STREAM_BYTES_MAX: usize = 128 << 10;
/// Some browsers report no content before this many bytes.
const PRELUDE_BYTES: usize = 2048;
/// The longest name of a session or a server in a path.
const NAME_BYTES_MAX: usize = 64;

/// Returns the routes of SockJS.
pub(super) fn routes() -> Router<SocketState> {
    Router::new()
        .route("/sockjs", routing::get(greet))
        .route("/sockjs/", routing::get(greet))
        .route("/sockjs/info", routing::any(info))
        .route("/sockjs/{server}/{session}/websocket", routing::get(open_socket))
        .route("/sockjs/{server}/{session}/xhr", routing::any(poll))
        .route("/sockjs/{server}/{session}/xhr_streaming", routing::any(stream))
        .route("/sockjs/{server}/{session}/xhr_send", routing::any(send))
}

async fn greet() -> Response {
    ([(CONTENT_TYPE, "text/plain; charset=UTF-8")], "Welcome to SockJS!\n").into_response()
}

/// Describes the endpoint.
async fn info(request: Request) -> Response {
    let (head, _) = request.into_parts();
    let response = match head.method {
        Method::OPTIONS => StatusCode::NO_CONTENT.into_response(),
        Method::GET => {
            let mix = |number: u32, byte: u8| number.wrapping_mul(67).wrapping_add(byte.into());
            let entropy = random::token(6).bytes().fold(0, mix);
            let info =
                json!({ "websocket": true, "origins": ["*:*"], "cookie_needed": false, "entropy": entropy });
            ([(CONTENT_TYPE, "application/json; charset=UTF-8")], info.to_string()).into_response()
        }
        _ => Problem::method_not_allowed("use GET").into_response(),
    };
    with_cors(&head.headers, response, "OPTIONS, GET")
}

/// Opens a WebSocket.
async fn open_socket(
    State(state): State<SocketState>,
    Path(path): Path<(String, String)>,
    upgrade: PendingUpgrade,
    request: Request,
) -> Result<Response, Problem> {
    check_names(&path)?;
    let (head, _) = request.into_parts();
    let SocketState { shared, routes } = state;
    let credential = Credential::from_handshake(&shared, &head)?;
    let session = Box::new(Session::new(shared, routes, credential));
    Ok(ws::upgrade(&head, upgrade, |socket| session.serve(Box::new(Connection::sockjs(socket)))))
}

/// Waits for one frame.
async fn poll(state: State<SocketState>, path: Path<(String, String)>, request: Request) -> Response {
    receive(state, path, request, false)
}

/// Streams frames.
async fn stream(state: State<SocketState>, path: Path<(String, String)>, request: Request) -> Response {
    receive(state, path, request, true)
}

fn receive(
    State(state): State<SocketState>,
    Path(path): Path<(String, String)>,
    request: Request,
    is_stream: bool,
) -> Response {
    let (head, _) = request.into_parts();
    let response = match head.method {
        Method::OPTIONS => StatusCode::NO_CONTENT.into_response(),
        Method::POST => open_polling(state, &path, &head).map(|poll| frames(poll, is_stream)).into_response(),
        _ => Problem::method_not_allowed("use POST").into_response(),
    };
    with_cors(&head.headers, response, "OPTIONS, POST")
}

/// Returns the frames of a session, which begins with its first request.
fn open_polling(
    state: SocketState,
    path: &(String, String),
    head: &hyper::http::request::Parts,
) -> Result<Poll, Problem> {
    check_names(path)?;
    let SocketState { shared, routes } = state;
    let address = RequestContext::from(head).client_address();
    let (session, connection) = shared.sockjs.open(&path.1, address)?;
    if let Some(connection) = connection {
        // A rejected handshake drops the connection, which removes it from the sessions.
        let credential = Credential::from_handshake(&shared, head)?;
        let served = Box::new(Session::new(shared, routes, credential));
        tokio::spawn(Box::pin(served.serve(Box::new(Connection::Polling(connection)))));
    }
    Ok(session.poll())
}

/// Returns a response with one frame, or with frames until it is long enough. The response begins at once, so that a
/// request that waits does not count as a slow one.
fn frames(poll: Poll, is_stream: bool) -> Response {
    let prelude = is_stream.then(|| format!("{}\n", HEARTBEAT.repeat(PRELUDE_BYTES)));
    let bytes_max = if is_stream { STREAM_BYTES_MAX } else { 0 };
    let start = (Some(poll), prelude, bytes_max);
    let next = async |(poll, prelude, left): (Option<Poll>, Option<String>, usize)| {
        let data = |text: String| Ok::<_, Infallible>(Frame::data(Bytes::from(text)));
        if let Some(prelude) = prelude {
            return Some((data(prelude), (poll, None, left)));
        }
        let mut poll = poll?;
        let frame = poll.next_frame().await;
        let left = left.saturating_sub(frame.len());
        let is_over = poll.is_over() || left == 0;
        Some((data(frame), (Some(poll).filter(|_| !is_over), None, left)))
    };
    let body = Body::new(StreamBody::new(futures_util::stream::unfold(start, next)));
    let headers = [(CONTENT_TYPE, "application/javascript; charset=UTF-8")];
    (headers, [("x-accel-buffering", "no")], body).into_response()
}

/// Accepts messages of the client.
async fn send(
    State(state): State<SocketState>,
    Path(path): Path<(String, String)>,
    request: Request,
) -> Response {
    let (head, mut incoming) = request.into_parts();
    let response = match head.method {
        Method::OPTIONS => StatusCode::NO_CONTENT.into_response(),
        Method::POST => accept(&state, &path, &head, &mut incoming).await.into_response(),
        _ => Problem::method_not_allowed("use POST").into_response(),
    };
    with_cors(&head.headers, response, "OPTIONS, POST")
}

async fn accept(
    state: &SocketState,
    path: &(String, String),
    head: &hyper::http::request::Parts,
    incoming: &mut Body,
) -> Result<(StatusCode, [(hyper::header::HeaderName, &'static str); 1]), Problem> {
    let address = RequestContext::from(head).client_address();
    let unknown = || Problem::not_found("no such session: it ended, or it was opened from another address");
    let session = state.shared.sockjs.find(&path.1, address).ok_or_else(unknown)?;
    let limits = BodyLimits { bytes: INBOX_BYTES_MAX, inflated_bytes: INBOX_BYTES_MAX };
    let bytes = body::read(head, incoming, limits).await?;
    let messages: Vec<String> = serde_json::from_slice(&bytes)
        .map_err(|error| Problem::malformed(format!("the body must be a JSON array of strings: {error}")))?;
    session.receive(messages)?;
    Ok((StatusCode::NO_CONTENT, [(CONTENT_TYPE, "text/plain; charset=UTF-8")]))
}

fn check_names((server, session): &(String, String)) -> Result<(), Problem> {
    let is_name = |name: &String| (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.contains('.');
    if is_name(server) && is_name(session) {
        return Ok(());
    }
    let detail = format!("server and session must have 1 to {NAME_BYTES_MAX} bytes and no dot");
    Err(Problem::not_found(detail).field("session"))
}

/// Allows pages of other origins to read the response. The clients send credentials, so a wildcard is not enough.
fn with_cors(request: &HeaderMap, mut response: Response, methods: &'static str) -> Response {
    let headers = response.headers_mut();
    let any = HeaderValue::from_static("*");
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, request.get(ORIGIN).cloned().unwrap_or(any));
    if request.contains_key(ORIGIN) {
        headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    }
    headers.insert(VARY, HeaderValue::from_static("Origin"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if response.status() == StatusCode::NO_CONTENT {
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("Content-Type"));
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    }
    response
}

/// Returns the frame of a message.
pub(super) fn message(text: &str) -> String {
    format!("a[{}]", serde_json::Value::from(text))
}

/// Returns the frame that ends a connection.
pub(super) fn close(code: u16, reason: &str) -> String {
    format!("c{}", json!([code, reason]))
}

/// Returns the messages in the frames of a client: each is an array of strings, or one string.
pub(super) fn unwrap(received: Vec<SocketMessage>) -> Result<Vec<SocketMessage>, SocketClosed> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Payload {
        Many(Vec<String>),
        One(String),
    }
    let mut messages = Vec::new();
    for frame in received {
        let SocketMessage::Text(text) = &frame else {
            messages.push(frame);
            continue;
        };
        if text.is_empty() {
            continue;
        }
        let payload = serde_json::from_str(text).map_err(|_| SocketClosed::new("broken SockJS framing"))?;
        let texts = match payload {
            Payload::Many(texts) => texts,
            Payload::One(text) => vec![text],
        };
        messages.extend(texts.into_iter().map(|text| SocketMessage::Text(text.into())));
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_wrapped_and_unwrapped() {
        assert_eq!(message(r#"{"msg":"ping"}"#), r#"a["{\"msg\":\"ping\"}"]"#);
        assert_eq!(close(1001, "the server is stopping"), r#"c[1001,"the server is stopping"]"#);
        let texts = |frame: &str| {
            let messages = unwrap(vec![SocketMessage::Text(frame.into())]).ok()?;
            Some(messages.iter().map(|message| format!("{message:?}")).collect::<Vec<_>>().len())
        };
        assert_eq!(texts(r#"["a","b"]"#), Some(2));
        assert_eq!((texts(r#""a""#), texts(""), texts("[]")), (Some(1), Some(0), Some(0)));
        assert_eq!((texts("[1]"), texts("{"), texts("ping")), (None, None, None));
    }
}
