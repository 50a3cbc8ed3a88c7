//! The application: all routes, and the steps that every request passes through.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract;
use axum::middleware::{self, Next};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode, header};
use pipeline::ingest::Claims;
use tower::ServiceExt;
use wal::Lane;

use crate::api::{self, events};
use crate::auth::session;
use crate::body_memory::BodyMemory;
use crate::compat;
use crate::cors::{allow_any_origin, is_open, preflight, set_security_headers};
use crate::ddp::{self, MethodRouter, SocketState};
use crate::host::check_public_host;
use crate::listener::Handler;
use crate::monitor::RequestCounts;
use crate::problem::Problem;
use crate::request_context::{RequestContext, RequestGame};
use crate::rows::convert_list;
use crate::{AppState, RuntimeState};

/// The application of one runtime.
#[derive(Clone)]
pub struct App {
    runtime: RuntimeState,
    router: Router,
    requests: Arc<RequestCounts>,
}

impl App {
    /// Returns the application of a runtime that appends through its own lane.
    pub fn new(shared: Arc<AppState>, lane: Lane<Claims>) -> App {
        let requests = shared.monitor.register_thread();
        let runtime = RuntimeState { shared, lane };
        let routes = routes(runtime.clone());
        let counted = MethodRouter { router: routes.clone(), requests: Arc::clone(&requests) };
        let router =
            routes.merge(socket_routes(SocketState { shared: Arc::clone(&runtime.shared), routes: counted }));
        App { router, runtime, requests }
    }
}

fn routes(runtime: RuntimeState) -> Router {
    api::routes()
        .merge(compat::routes())
        .route_layer(middleware::from_fn(convert_list))
        .route_layer(middleware::from_fn(label_response))
        .method_not_allowed_fallback(async || {
            Problem::method_not_allowed("Method not allowed on this route.")
        })
        .fallback(async || Problem::not_found("No such route."))
        .with_state(runtime)
}

/// The routes that open DDP sockets. Methods called over them are requests to the other routes.
fn socket_routes(state: SocketState) -> Router {
    ddp::routes().route_layer(middleware::from_fn(label_response)).with_state(state)
}

impl Handler for App {
    async fn handle(self, request: Request<Incoming>, address: Option<IpAddr>) -> Response<Body> {
        let (method, started) = (request.method().clone(), Instant::now());
        let (requests, shared) = (Arc::clone(&self.requests), Arc::clone(&self.runtime.shared));
        let Handled { response, path, game } = self.answer(request, address).await;
        let path = path.as_ref().map_or("", MatchedPath::as_str);
        let answered = (response.status(), started.elapsed());
        shared.monitor.record_request(&requests, game, (&method, path), answered);
        response
    }
}

/// A response with the route and the game that its request is counted for.
struct Handled {
    response: Response<Body>,
    path: Option<MatchedPath>,
    game: Option<u32>,
}

/// The template of the route that matched.
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
    async fn answer(self, mut request: Request<Incoming>, address: Option<IpAddr>) -> Handled {
        if let Some(public_url) = &self.runtime.shared.settings.public_url
            && let Err(problem) = check_public_host(public_url, &request)
        {
            return Handled { response: problem.into_response(), path: None, game: None };
        }
        // The hot route goes straight to its handler, without the router and without a request context.
        if request.uri().path() == EVENTS {
            let (response, game) =
                events::handle(&self.runtime.shared, &self.runtime.lane, request, address).await;
            return Handled { response, path: Some(MatchedPath::Events), game };
        }
        let is_open = is_open(request.uri().path());
        if is_open && request.method() == Method::OPTIONS {
            let response = preflight("GET, POST, PUT, PATCH, DELETE, OPTIONS");
            return Handled { response, path: None, game: None };
        }
        let is_https = self.runtime.shared.settings.is_https;
        // A response to a signed-in person is for the pages of this server.
        let is_shared = is_open && session(request.headers(), is_https).is_none();
        let memory = BodyMemory::new(&self.runtime.shared.bodies, address, request.version());
        let context = RequestContext::new(address, is_https).with_body_memory(memory);
        request.extensions_mut().insert(context);
        let routed = self.router.oneshot(request).await;
        let mut response = routed.unwrap_or_else(|never| match never {});
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            list_allowed_methods(&mut response);
        }
        set_security_headers(response.headers_mut());
        if is_shared {
            allow_any_origin(response.headers_mut());
        }
        let extensions = response.extensions_mut();
        let path = extensions.remove::<axum::extract::MatchedPath>().map(MatchedPath::Other);
        let game = extensions.remove::<RequestGame>().map(|RequestGame(game)| game);
        Handled { response, path, game }
    }
}

/// Completes the problem of a 405: the router sets `Allow` only after its fallback has run.
fn list_allowed_methods(response: &mut Response<Body>) {
    let Some(allow) = response.headers().get(header::ALLOW).and_then(|allow| allow.to_str().ok()) else {
        return;
    };
    let allowed: Vec<&str> = allow.split(',').map(str::trim).collect();
    let problem = Problem::method_not_allowed(format!("Method not allowed; allowed: {}", allowed.join(", ")));
    let problem = problem.into_response();
    response.headers_mut().remove(header::CONTENT_LENGTH);
    response.headers_mut().extend(problem.headers().clone());
    *response.body_mut() = problem.into_body();
}

/// Records in the extensions of a response which route it came from and which game it was for.
async fn label_response(
    path: axum::extract::MatchedPath,
    context: RequestContext,
    request: extract::Request,
    next: Next,
) -> Response<Body> {
    let mut response = next.run(request).await;
    let extensions = response.extensions_mut();
    extensions.insert(path);
    if let Some(game) = context.game() {
        extensions.insert(game);
    }
    response
}
