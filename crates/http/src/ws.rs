//! WebSockets (RFC 6455): the handshake on a route, and the socket that is left of the connection afterwards.
//!
//! The protocol itself is `tungstenite`'s. What is here is what a server with many idle sockets needs around it: reads and
//! writes that never wait, frames that are encoded once and shared by all who get them, a bound on what waits to be
//! sent, an orderly end.

mod boundary;
mod handshake;
mod outbox;
mod socket;

pub use handshake::{Upgrade, upgrade};
pub use outbox::Frames;
pub use socket::{Gone, Incoming, Socket};
pub use tungstenite::protocol::frame::coding::CloseCode;

/// What one message may have. A level to save is the largest.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;
