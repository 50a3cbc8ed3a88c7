//! The connection of a session: a WebSocket, or a SockJS connection over a WebSocket or over requests.

use std::time::Instant;

use bytes::Bytes;

use super::sockjs::{self, PollingConnection};
use crate::ws::{CloseCode, Socket, SocketClosed, SocketMessage, frame_texts};

/// A connection that carries DDP messages.
pub(super) enum Connection {
    WebSocket(Socket),
    /// SockJS over a WebSocket.
    SockJs(Socket),
    /// SockJS over requests.
    Polling(PollingConnection),
}

impl Connection {
    /// Returns a SockJS connection over a WebSocket.
    pub(super) fn sockjs(mut socket: Socket) -> Connection {
        socket.send_text(sockjs::OPEN);
        Connection::SockJs(socket)
    }

    /// Returns the time at which the peer last sent or received something.
    pub(super) fn last_seen(&self) -> Instant {
        match self {
            Connection::WebSocket(socket) | Connection::SockJs(socket) => socket.last_seen(),
            Connection::Polling(polling) => polling.last_seen(),
        }
    }

    /// Accepts larger messages from now on: the connection has a credential.
    pub(super) fn set_authorized(&mut self) {
        if let Connection::WebSocket(socket) | Connection::SockJs(socket) = self {
            socket.set_authorized();
        }
    }

    /// Returns the time at which the rest of an incomplete message is too late.
    pub(super) fn message_deadline(&self) -> Option<Instant> {
        match self {
            Connection::WebSocket(socket) | Connection::SockJs(socket) => socket.message_deadline(),
            // Each request is whole.
            Connection::Polling(_) => None,
        }
    }

    pub(super) fn unsent_bytes(&self) -> usize {
        match self {
            Connection::WebSocket(socket) | Connection::SockJs(socket) => socket.unsent_bytes(),
            Connection::Polling(polling) => polling.unsent_bytes(),
        }
    }

    /// Returns true if more messages may be queued.
    pub(super) fn has_room(&self) -> bool {
        match self {
            Connection::WebSocket(socket) | Connection::SockJs(socket) => socket.has_room(),
            Connection::Polling(polling) => polling.has_room(),
        }
    }

    /// Queues messages that are encoded as the frames of a WebSocket.
    pub(super) fn push(&mut self, frames: Bytes) {
        match self {
            Connection::WebSocket(socket) => socket.push(frames),
            other => frame_texts(&frames).for_each(|text| other.send_text(text)),
        }
    }

    /// Queues a message.
    pub(super) fn send_text(&mut self, text: &str) {
        match self {
            Connection::WebSocket(socket) => socket.send_text(text),
            Connection::SockJs(socket) => socket.send_text(&sockjs::message(text)),
            Connection::Polling(polling) => polling.send_text(text),
        }
    }

    /// Sends what it can and returns the received messages; waits while it can do neither. Cancel-safe.
    pub(super) async fn exchange(&mut self, is_receiving: bool) -> Result<Vec<SocketMessage>, SocketClosed> {
        match self {
            Connection::WebSocket(socket) => socket.exchange(is_receiving).await,
            Connection::SockJs(socket) => {
                let received = socket.exchange(is_receiving).await?;
                sockjs::unwrap(received).inspect_err(|_| {
                    socket.close(CloseCode::Protocol, "broken SockJS framing");
                })
            }
            Connection::Polling(polling) => polling.exchange(is_receiving).await,
        }
    }

    pub(super) fn flush(&mut self) -> Result<(), SocketClosed> {
        match self {
            Connection::WebSocket(socket) | Connection::SockJs(socket) => socket.flush(),
            Connection::Polling(_) => Ok(()),
        }
    }

    /// Queues the end of the connection.
    pub(super) fn close(&mut self, code: CloseCode, reason: &'static str) {
        match self {
            Connection::WebSocket(socket) => socket.close(code, reason),
            Connection::SockJs(socket) => {
                socket.send_text(&sockjs::close(code.into(), reason));
                socket.close(code, reason);
            }
            Connection::Polling(polling) => polling.close(code.into(), reason),
        }
    }

    /// Sends what is queued, for a limited time.
    pub(super) async fn finish(&mut self) {
        match self {
            Connection::WebSocket(socket) | Connection::SockJs(socket) => socket.finish().await,
            Connection::Polling(polling) => polling.finish().await,
        }
    }
}
