//! The opening handshake: a request that asks for a WebSocket, and the answer that gives it one.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::header::{HeaderValue, SEC_WEBSOCKET_VERSION, UPGRADE};
use hyper::http::request::Parts;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tracing::debug;
use tungstenite::error::{Error, ProtocolError};
use tungstenite::handshake::server::create_response_with_body;

use super::Socket;
use crate::listener::Ticket;
use crate::problem::Problem;

/// What becomes of a connection whose request asked for a WebSocket. Absent if it did not.
pub struct Upgrade {
    upgrading: Option<OnUpgrade>,
    ticket: Option<Ticket>,
}

impl<S: Sync> FromRequestParts<S> for Upgrade {
    type Rejection = Infallible;

    async fn from_request_parts(head: &mut Parts, _: &S) -> Result<Upgrade, Infallible> {
        Ok(Upgrade { upgrading: head.extensions.remove(), ticket: head.extensions.remove() })
    }
}

/// Checks the handshake and answers it. `serve` gets the socket when the answer has been sent; the connection is counted
/// until it returns.
pub fn upgrade<F>(
    head: &Parts,
    upgrade: Upgrade,
    serve: impl FnOnce(Socket) -> F + Send + 'static,
) -> Response
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut request = hyper::Request::new(());
    *request.method_mut() = head.method.clone();
    *request.version_mut() = head.version;
    *request.headers_mut() = head.headers.clone();
    let answer = match create_response_with_body(&request, Body::empty) {
        Ok(answer) => answer,
        Err(error) => return refused(&error),
    };
    let Upgrade { upgrading: Some(upgrading), ticket } = upgrade else {
        return refused(&Error::Protocol(ProtocolError::MissingUpgradeWebSocketHeader));
    };
    tokio::spawn(async move {
        match upgrading.await {
            // A task of its own: what was needed for the handshake is not kept as long as the socket. Boxed: what a
            // future is given it holds twice.
            Ok(upgraded) => drop(tokio::spawn(counted(ticket, Box::pin(serve(socket(upgraded)))))),
            Err(failure) => debug!(%failure, "a connection ended before it was a WebSocket"),
        }
    });
    answer
}

async fn counted(ticket: Option<Ticket>, serving: impl Future<Output = ()>) {
    serving.await;
    drop(ticket);
}

fn socket(upgraded: Upgraded) -> Socket {
    let parts = upgraded.downcast::<TokioIo<TcpStream>>().expect("every connection is served on TCP");
    // Copied: it is a view of the whole buffer in which the handshake was read.
    Socket::new(parts.io.into_inner(), Bytes::copy_from_slice(&parts.read_buf))
}

/// The answer to a handshake that is none: what is wrong, and in a header what would be taken.
fn refused(error: &Error) -> Response {
    use ProtocolError::{
        InvalidSecWebSocketKey, MissingConnectionUpgradeHeader, MissingSecWebSocketKey,
        MissingSecWebSocketVersionHeader, MissingUpgradeWebSocketHeader,
    };
    let upgrade = (UPGRADE, "websocket");
    let (problem, (name, value)) = match error {
        Error::Protocol(MissingConnectionUpgradeHeader | MissingUpgradeWebSocketHeader) => {
            let detail = "this is a WebSocket; say `Connection: Upgrade` and `Upgrade: websocket`";
            (Problem::upgrade(detail).field("Upgrade"), upgrade)
        }
        Error::Protocol(MissingSecWebSocketVersionHeader) => {
            let problem = Problem::upgrade("version 13 of WebSocket is spoken here");
            (problem.field("Sec-WebSocket-Version"), (SEC_WEBSOCKET_VERSION, "13"))
        }
        Error::Protocol(MissingSecWebSocketKey | InvalidSecWebSocketKey) => {
            (Problem::invalid("it is 16 random bytes in base64").field("Sec-WebSocket-Key"), upgrade)
        }
        other => (Problem::malformed(other.to_string()), upgrade),
    };
    let mut response = problem.into_response();
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}
