//! DDP 1 over WebSockets and SockJS: subscriptions and method calls on one connection.
//!
//! A *session* is one connection. Its subscriptions are watches of the `live` crate: each change is encoded once and sent
//! to all subscribers as the same bytes. A session stores no documents, only the state that each subscription was last
//! sent. While its connection is blocked nothing is queued; afterwards it is sent the difference to the newest state.
//! Methods are requests to the HTTP routes with the session's credential, so the routes do all authorization.

mod connection;
mod credential;
mod ejson;
mod messages;
mod methods;
mod publications;
mod session;
mod socket;
mod sockjs;
mod subscriptions;

pub(crate) use methods::MethodRouter;
pub(crate) use socket::{SocketState, routes};
pub use sockjs::SockJsSessions;

use credential::Credential;
use session::Session;
