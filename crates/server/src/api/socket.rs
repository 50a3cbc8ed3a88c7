//! `GET /websocket` and `GET /ddp`: DDP 1 over a WebSocket.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::response::Response;

use crate::ddp::{Credential, Routes, Session};
use crate::problem::Problem;
use crate::server::Shared;
use crate::ws::{self, Upgrade};

/// What a socket needs: the server, and the routes that its methods are requests to.
#[derive(Clone)]
pub struct Doors {
    /// The server.
    pub shared: Arc<Shared>,
    /// Every other route.
    pub routes: Routes,
}

/// Opens a socket.
pub async fn open(
    State(doors): State<Doors>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    upgrade: Upgrade,
    request: Request,
) -> Result<Response, Problem> {
    let (head, _) = request.into_parts();
    let Doors { shared, routes } = doors;
    let credential = Credential::of_handshake(&shared, &head, peer)?;
    let session = Box::new(Session::new(shared, routes, credential));
    Ok(ws::upgrade(&head, upgrade, |socket| session.serve(Box::new(socket))))
}
