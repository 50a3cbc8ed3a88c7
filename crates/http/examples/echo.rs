//! A WebSocket that sends back what it gets: the product's own doors and framing under a session that says nothing of
//! its own, for suites that test the protocol (`compat/autobahn`).
//!
//! `echo ADDRESS` listens there; port 0 takes a free one. It prints the address and ends with its standard input.

use std::convert::Infallible;
use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::get;
use collect::net::{self, ConnectionLimits, Connections};
use http::listener::{self, Handler};
use http::ws::{self, Socket, Upgrade};
use hyper::body::Incoming;
use tokio::sync::watch;
use tower::ServiceExt;

#[derive(Clone)]
struct Echo(Router);

impl Handler for Echo {
    async fn handle(self, request: hyper::Request<Incoming>, _: SocketAddr) -> Response<Body> {
        self.0.oneshot(request).await.unwrap_or_else(|never: Infallible| match never {})
    }
}

async fn open(upgrade: Upgrade, request: Request) -> Response {
    let (head, _) = request.into_parts();
    ws::upgrade(&head, upgrade, echo)
}

async fn echo(mut socket: Socket) {
    while let Ok(messages) = socket.exchange(true).await {
        messages.iter().for_each(|message| socket.send(message));
    }
    socket.finish().await;
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".into()).parse()?;
    let listener = net::bind(address)?;
    println!("{}", listener.local_addr()?);
    let connections = Connections::new(ConnectionLimits {
        total: 10_000,
        per_address: 10_000,
        subscriptions_per_credential_max: 10_000,
    });
    let (stop, stopping) = watch::channel(false);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        stop.send_replace(true);
    });
    let router = Router::new().route("/websocket", get(open));
    listener::serve(tokio::net::TcpListener::from_std(listener)?, Echo(router), connections, stopping).await;
    Ok(())
}
