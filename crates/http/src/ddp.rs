//! DDP 1 over WebSockets: watching and doing, on one connection.
//!
//! A *session* is one connection. Its subscriptions are watches of the engine (`live`): what changed is encoded once, by
//! whoever comes first, and sent to all as the same bytes. A session keeps no data of its own, only which state each of
//! its subscriptions was last told; while its connection takes nothing, nothing is put in line, and afterwards it is told
//! the difference to the newest state. Methods are requests to the routes that the HTTP door has, with the session's
//! credential: they decide what is allowed, and nothing is decided here.

mod credential;
pub mod ejson;
mod messages;
mod methods;
mod publications;
mod session;
mod socket;
mod subscriptions;

pub use credential::Credential;
pub use methods::Routes;
pub use session::Session;
pub use socket::{SocketState, routes};
