//! An echo server over the product's own listener and WebSocket code, for protocol test suites (`compat/autobahn`).
//!
//! `echo ADDRESS` listens on the address; port 0 picks a free port. It prints the address and exits at the end of its
//! standard input.

use std::convert::Infallible;
use std::net::IpAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::get;
use hyper::body::Incoming;
use tokio::sync::watch;
use tower::ServiceExt;

use collect::net::{self, ConnectionLimits, Connections};
use http::listener::{self, Handler, ListenerOptions};
use http::ws::{self, PendingUpgrade, Socket};

#[derive(Clone)]
struct Echo(Router);

impl Handler for Echo {
    async fn handle(self, request: hyper::Request<Incoming>, _: Option<IpAddr>) -> Response<Body> {
        self.0.oneshot(request).await.unwrap_or_else(|never: Infallible| match never {})
    }
}

async fn open(upgrade: PendingUpgrade, request: Request) -> Response {
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
    let options = ListenerOptions { connections, proxy_hops: None, tls: None };
    listener::serve(tokio::net::TcpListener::from_std(listener)?, Echo(router), options, stopping).await;
    Ok(())
}
