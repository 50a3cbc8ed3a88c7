//! WebSockets (RFC 6455): the handshake on a route, and the open socket.
//!
//! `tungstenite` implements the protocol. This module adds what a server with many idle sockets needs: non-blocking reads
//! and writes, frames that are encoded once and shared by all receivers, a bounded send queue, and an orderly close.

mod frame_tracker;
mod handshake;
mod send_queue;
mod socket;
mod transport;

pub use handshake::{PendingUpgrade, upgrade};
pub(crate) use send_queue::{FrameBuffer, frame_texts};
pub use socket::{Socket, SocketClosed, SocketMessage};
pub(crate) use tungstenite::protocol::frame::coding::CloseCode;

/// The largest message that a socket accepts. Saving a level needs the most.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// The same before the connection has a credential.
const ANONYMOUS_MESSAGE_BYTES_MAX: u64 = 64 << 10;
