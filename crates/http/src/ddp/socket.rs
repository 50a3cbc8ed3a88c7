//! `GET /websocket` and `GET /ddp`: DDP 1 over a WebSocket.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::response::Response;
use axum::{Router, routing};

use crate::AppState;
use crate::ddp::{Credential, Routes, Session};
use crate::problem::Problem;
use crate::ws::{self, Upgrade};

/// What a socket needs: the server, and the routes that its methods are requests to.
#[derive(Clone)]
pub struct SocketState {
    /// The server.
    pub shared: Arc<AppState>,
    /// Every other route.
    pub routes: Routes,
}

/// Returns the routes that open a DDP socket.
pub fn routes() -> Router<SocketState> {
    Router::new().route("/websocket", routing::get(open)).route("/ddp", routing::get(open))
}

/// Opens a socket.
pub async fn open(
    State(state): State<SocketState>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    upgrade: Upgrade,
    request: Request,
) -> Result<Response, Problem> {
    let (head, _) = request.into_parts();
    let SocketState { shared, routes } = state;
    let credential = Credential::of_handshake(&shared, &head, peer)?;
    let session = Box::new(Session::new(shared, routes, credential));
    Ok(ws::upgrade(&head, upgrade, |socket| session.serve(Box::new(socket))))
}
