//! The opening handshake: turns an HTTP request into an open WebSocket.

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
use super::transport::{TlsTransport, Transport};
use crate::body_memory::BodyMemory;
use crate::client_stream::{ClientStream, TlsClientStream};
use crate::listener::{CheckedStream, ConnectionGuard};
use crate::problem::Problem;
use crate::request_context::RequestContext;

/// The connection of a request to upgrade, taken from the extensions of the request; empty for other requests.
pub struct PendingUpgrade {
    upgrading: Option<OnUpgrade>,
    guard: Option<ConnectionGuard>,
}

impl<S: Sync> FromRequestParts<S> for PendingUpgrade {
    type Rejection = Infallible;

    async fn from_request_parts(head: &mut Parts, _: &S) -> Result<PendingUpgrade, Infallible> {
        Ok(PendingUpgrade { upgrading: head.extensions.remove(), guard: head.extensions.remove() })
    }
}

/// Validates the handshake and returns its response. `serve` is called with the socket after the response was sent; the
/// connection counts as open until its future completes.
pub fn upgrade<F>(
    head: &Parts,
    upgrade: PendingUpgrade,
    serve: impl FnOnce(Socket) -> F + Send + 'static,
) -> Response
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut request = hyper::Request::new(());
    *request.method_mut() = head.method.clone();
    *request.version_mut() = head.version;
    *request.headers_mut() = head.headers.clone();
    let response = match create_response_with_body(&request, Body::empty) {
        Ok(response) => response,
        Err(error) => return rejection(&error),
    };
    let memory = RequestContext::from(head).body_memory().clone();
    let PendingUpgrade { upgrading: Some(upgrading), guard } = upgrade else {
        return rejection(&Error::Protocol(ProtocolError::MissingUpgradeWebSocketHeader));
    };
    tokio::spawn(async move {
        match upgrading.await {
            // A separate task, so that the state of the handshake is freed before the socket closes. Boxed, because a
            // future stores its arguments twice.
            Ok(upgraded) => {
                drop(tokio::spawn(serve_guarded(guard, Box::pin(serve(socket(upgraded, &memory))))))
            }
            Err(failure) => debug!(%failure, "connection closed during the WebSocket handshake"),
        }
    });
    response
}

async fn serve_guarded(guard: Option<ConnectionGuard>, serving: impl Future<Output = ()>) {
    serving.await;
    drop(guard);
}

fn socket(upgraded: Upgraded, memory: &BodyMemory) -> Socket {
    let (transport, early) = match upgraded.downcast::<TokioIo<CheckedStream<ClientStream>>>() {
        Ok(plain) => (Transport::Plain(tcp(plain.io.into_inner().into_inner())), plain.read_buf),
        Err(upgraded) => {
            let tls = upgraded.downcast::<TokioIo<CheckedStream<TlsClientStream>>>();
            let tls = tls.expect("every connection is a checked stream with or without TLS");
            let (stream, session) = tls.io.into_inner().into_inner().into_inner();
            (Transport::Tls(Box::new(TlsTransport::new(tcp(stream), session))), tls.read_buf)
        }
    };
    // Copied, because it references the whole buffer in which the handshake was read.
    Socket::new(transport, Bytes::copy_from_slice(&early), memory)
}

fn tcp(stream: ClientStream) -> TcpStream {
    stream.into_inner().expect("only queries look at a connection")
}

/// Returns the response to an invalid handshake, with the supported value in a header.
fn rejection(error: &Error) -> Response {
    use ProtocolError::{
        InvalidSecWebSocketKey, MissingConnectionUpgradeHeader, MissingSecWebSocketKey,
        MissingSecWebSocketVersionHeader, MissingUpgradeWebSocketHeader,
    };
    let upgrade = (UPGRADE, "websocket");
    let (problem, (name, value)) = match error {
        Error::Protocol(MissingConnectionUpgradeHeader | MissingUpgradeWebSocketHeader) => {
            let detail =
                "this route requires a WebSocket: send `Connection: Upgrade` and `Upgrade: websocket`";
            (Problem::upgrade_required(detail).field("Upgrade"), upgrade)
        }
        Error::Protocol(MissingSecWebSocketVersionHeader) => {
            let problem = Problem::upgrade_required("only WebSocket version 13 is supported");
            (problem.field("Sec-WebSocket-Version"), (SEC_WEBSOCKET_VERSION, "13"))
        }
        Error::Protocol(MissingSecWebSocketKey | InvalidSecWebSocketKey) => {
            (Problem::invalid("must be 16 random bytes in base64").field("Sec-WebSocket-Key"), upgrade)
        }
        other => (Problem::malformed(other.to_string()), upgrade),
    };
    let mut response = problem.into_response();
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}
