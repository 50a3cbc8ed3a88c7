//! The application: every route on one page, and what each request passes through.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{self, ConnectInfo};
use axum::middleware::{self, Next};
use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use pipeline::ingest::Claims;
use tower::ServiceExt;
use wal::Lane;

use crate::AppState;
use crate::api::{self, commands::Local, events};
use crate::auth;
use crate::compat;
use crate::cors::{allow_any_origin, is_open, preflight, secure};
use crate::ddp::{self, Routes, SocketState};
use crate::listener::Handler;
use crate::monitor::{Requests, noting_game};
use crate::problem::Problem;

/// The application on one runtime.
#[derive(Clone)]
pub struct App {
    local: Local,
    router: Router,
    requests: Arc<Requests>,
}

impl App {
    /// The application of one runtime, which appends through a lane of its own.
    pub fn new(shared: Arc<AppState>, lane: Lane<Claims>) -> App {
        let requests = shared.monitor.thread();
        let local = Local { shared, lane };
        let routes = routes(local.clone());
        let counted = Routes { router: routes.clone(), requests: Arc::clone(&requests) };
        let router =
            routes.merge(sockets(SocketState { shared: Arc::clone(&local.shared), routes: counted }));
        App { router, local, requests }
    }
}

fn routes(local: Local) -> Router {
    api::routes()
        .merge(compat::routes())
        .route_layer(middleware::from_fn(named))
        .method_not_allowed_fallback(async || Problem::method("there is another method on this path"))
        .fallback(async || Problem::not_found("there is nothing on this path"))
        .with_state(local)
}

/// Their methods are requests to the other routes.
fn sockets(state: SocketState) -> Router {
    ddp::routes().route_layer(middleware::from_fn(named)).with_state(state)
}

impl Handler for App {
    async fn handle(self, request: Request<Incoming>, peer: SocketAddr) -> Response<Body> {
        let (method, started) = (request.method().clone(), Instant::now());
        let (requests, shared) = (Arc::clone(&self.requests), Arc::clone(&self.local.shared));
        let (game, (path, response)) = noting_game(self.answer(request, peer)).await;
        let path = path.as_ref().map_or("", MatchedPath::as_str);
        let answered = (response.status(), started.elapsed());
        shared.monitor.answered(&requests, game, (&method, path), answered);
        response
    }
}

/// The template of a route that matched.
enum MatchedPath {
    Events,
    Other(axum::extract::MatchedPath),
}

impl MatchedPath {
    fn as_str(&self) -> &str {
        match self {
            MatchedPath::Events => EVENTS,
            MatchedPath::Other(path) => path.as_str(),
        }
    }
}

const EVENTS: &str = "/v1/events";

impl App {
    async fn answer(
        self,
        mut request: Request<Incoming>,
        peer: SocketAddr,
    ) -> (Option<MatchedPath>, Response<Body>) {
        // The one hot route goes straight to its handler.
        if request.uri().path() == EVENTS {
            let answer = events::handle(&self.local.shared, &self.local.lane, request, peer).await;
            return (Some(MatchedPath::Events), answer);
        }
        let is_open = is_open(request.uri().path());
        if is_open && request.method() == Method::OPTIONS {
            return (None, preflight("GET, POST, PUT, PATCH, DELETE, OPTIONS"));
        }
        let address = events::address(&self.local.shared, request.headers(), peer);
        auth::note_address(request.headers_mut(), address);
        request.extensions_mut().insert(ConnectInfo(peer));
        let routed = self.router.oneshot(request).await;
        let mut response = routed.unwrap_or_else(|never| match never {});
        secure(response.headers_mut());
        if is_open {
            allow_any_origin(response.headers_mut());
        }
        let path = response.extensions_mut().remove::<axum::extract::MatchedPath>();
        (path.map(MatchedPath::Other), response)
    }
}

/// Lets the answer say which route it came from.
async fn named(path: axum::extract::MatchedPath, request: extract::Request, next: Next) -> Response<Body> {
    let mut response = next.run(request).await;
    response.extensions_mut().insert(path);
    response
}
