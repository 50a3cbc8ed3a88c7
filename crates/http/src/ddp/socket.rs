//! `GET /websocket` and `GET /ddp`: DDP 1 over a WebSocket. [`sockjs`] has the routes of Meteor's client.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use axum::{Router, routing};

use crate::AppState;
use crate::ddp::connection::Connection;
use crate::ddp::{Credential, MethodRouter, Session, sockjs};
use crate::problem::Problem;
use crate::ws::{self, PendingUpgrade};

/// The router state of the socket routes.
#[derive(Clone)]
pub(crate) struct SocketState {
    pub(crate) shared: Arc<AppState>,
    /// All other routes, which methods call.
    pub(crate) routes: MethodRouter,
}

/// Returns the routes that open a DDP socket.
pub(crate) fn routes() -> Router<SocketState> {
    Router::new()
        .route("/websocket", routing::get(open))
        .route("/ddp", routing::get(open))
        .merge(sockjs::routes())
}

/// Opens a socket.
async fn open(
    State(state): State<SocketState>,
    upgrade: PendingUpgrade,
    request: Request,
) -> Result<Response, Problem> {
    let (head, _) = request.into_parts();
    let SocketState { shared, routes } = state;
    let credential = Credential::from_handshake(&shared, &head)?;
    let session = Box::new(Session::new(shared, routes, credential));
    Ok(ws::upgrade(&head, upgrade, |socket| session.serve(Box::new(Connection::WebSocket(socket)))))
}
