//! Every route, on one page.

pub mod achievements;
pub mod agent;
pub mod assets;
pub mod boards;
pub mod capture;
pub mod collectors;
pub mod commands;
pub mod dimensions;
pub mod events;
pub mod feed;
pub mod flows;
pub mod health;
pub mod import;
pub mod influx;
pub mod levels;
pub mod load;
pub mod metrics;
pub mod monitor;
pub mod openapi;
pub mod otlp;
pub mod people;
pub mod players;
pub mod playtomic;
pub mod privacy;
pub mod query;
mod samples;
pub mod signature;
pub mod socket;
pub mod subscriptions;
pub mod surveys;
pub mod vars;
pub mod watch;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{self, ConnectInfo};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Redirect};
use axum::routing::{any, delete, get, post, put};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response};
use tower::ServiceExt;
use wal::Lane;

use crate::auth;
use crate::ddp::Routes;
use crate::http::Handler;
use crate::line::Claims;
use crate::monitor::{Requests, noting_game};
use crate::problem::Problem;
use crate::server::Shared;

use commands::Local;
use socket::Doors;

/// The application on one runtime.
#[derive(Clone)]
pub struct App {
    local: Local,
    router: Router,
    requests: Arc<Requests>,
}

impl App {
    /// The application of one runtime, which appends through a lane of its own.
    pub fn new(shared: Arc<Shared>, lane: Lane<Claims>) -> App {
        let requests = shared.monitor.thread();
        let local = Local { shared, lane };
        let routes = routes(local.clone());
        let counted = Routes { router: routes.clone(), requests: Arc::clone(&requests) };
        let router = routes.merge(sockets(Doors { shared: Arc::clone(&local.shared), routes: counted }));
        App { router, local, requests }
    }
}

fn routes(local: Local) -> Router {
    Router::new()
        .route("/v1/query", get(query::get).post(query::post))
        .route("/v1/load", get(load::get))
        .route("/v1/monitor", get(monitor::get))
        .route("/v1/dimensions", get(dimensions::get))
        .route("/v1/flows", get(flows::list))
        .route("/v1/flows/ended", get(flows::ended))
        .route("/v1/flows/packets", post(flows::take))
        .route("/v1/flows/{id}", get(flows::one))
        .route("/v1/import", get(import::get).post(import::post))
        .route("/v1/metrics", post(otlp::export))
        .route("/v1/agent/readings", post(agent::write))
        .route("/api/v2/write", post(influx::write))
        .route("/write", post(influx::write_1))
        .route("/v1/collectors", get(collectors::get))
        .route("/v1/watch", get(watch::get))
        .route("/v1/subscriptions", get(subscriptions::get))
        .route("/v1/session", post(players::open_session))
        .route("/v1/players/{player}", delete(privacy::erase))
        .route("/v1/players/{player}/export", get(privacy::export))
        .route("/v1/erasures/{receipt}", get(privacy::receipt))
        .route("/v1/achievements", get(achievements::list))
        .route("/v1/achievements/{key}", put(achievements::put).delete(achievements::delete))
        .route("/v1/achievements/{key}/grants", post(achievements::grant))
        .route("/v1/feed", post(feed::post))
        .route("/v1/feed/{player}", get(feed::page))
        .route("/v1/players/{player}/follows", get(feed::follows))
        .route("/v1/players/{player}/follows/{other}", put(feed::follow).delete(feed::unfollow))
        .route("/v1/vars", get(vars::all).put(vars::put_many))
        .route("/v1/vars/{name}", get(vars::one).put(vars::put).delete(vars::delete))
        .route("/v1/vars:definitions", get(vars::definitions))
        .route("/v1/vars:history", get(vars::history))
        .route("/v1/vars:rollback", post(vars::roll_back))
        .route("/v1/surveys", get(surveys::list))
        .route("/v1/surveys/{key}", put(surveys::put).delete(surveys::delete))
        .route("/v1/surveys/{key}/answers", post(surveys::answer))
        .route("/v1/surveys/{key}/results", get(surveys::results))
        .route("/v1", any(playtomic::api))
        .route("/tracker/q.aspx", any(playtomic::tracker))
        .route("/{key}/tracker/q.aspx", any(playtomic::tracker))
        .route("/e", post(capture::posthog::capture))
        .route("/e/", post(capture::posthog::capture))
        .route("/i/v0/e", post(capture::posthog::capture))
        .route("/i/v0/e/", post(capture::posthog::capture))
        .route("/capture", post(capture::posthog::capture))
        .route("/capture/", post(capture::posthog::capture))
        .route("/batch", post(capture::posthog::capture))
        .route("/batch/", post(capture::posthog::capture))
        .route("/flags", post(capture::posthog::flags))
        .route("/flags/", post(capture::posthog::flags))
        .route("/decide", post(capture::posthog::flags))
        .route("/decide/", post(capture::posthog::flags))
        .route("/array/{key}/config", get(capture::posthog::config))
        .route("/array/{key}/config.js", get(capture::posthog::config_script))
        .route("/v1/batch", post(capture::segment::batch))
        .route("/v1/track", post(capture::segment::track))
        .route("/v1/identify", post(capture::segment::identify))
        .route("/v1/page", post(capture::segment::page))
        .route("/v1/screen", post(capture::segment::screen))
        .route("/v1/group", post(capture::segment::group))
        .route("/v1/alias", post(capture::segment::alias))
        .route("/v2/{key}/events", post(capture::gameanalytics::events))
        .route("/v2/{key}/init", post(capture::gameanalytics::init))
        .route("/remote_configs/v1/init", post(capture::gameanalytics::init))
        .route("/v1/boards", get(boards::all))
        .route("/v1/boards/{table}", get(boards::one).put(boards::put))
        .route("/v1/boards/{table}/reset", post(boards::reset))
        .route("/v1/boards/{table}/scores", get(boards::list).post(boards::submit))
        .route("/v1/boards/{table}/scores:saveAndList", post(boards::submit_and_list))
        .route("/v1/boards/{table}/quarantine", get(boards::quarantine))
        .route("/v1/boards/{table}/quarantine/{id}", post(boards::decide))
        .route("/v1/players/{player}/ban", put(boards::ban).delete(boards::lift))
        .route("/v1/levels", get(levels::list).post(levels::save))
        .route("/v1/levels/{id}", get(levels::load).patch(levels::set_state))
        .route("/v1/levels/{id}/rating", post(levels::rate))
        .route("/v1/levels/{id}/flags", post(levels::flag))
        .route("/v1/moderation", get(levels::queue))
        .route("/v1/moderation/{id}", post(levels::decide))
        .route("/openapi.json", get(openapi::get))
        .route("/v1/me", get(people::me))
        .route("/v1/sign-out", post(people::sign_out))
        .route("/sign-in", get(people::sign_in))
        .route("/metrics", get(metrics::get))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/", get(assets::index))
        .route("/assets/{*path}", get(assets::file))
        .route("/play", get(async || Redirect::permanent("/play/")))
        .route("/play/", get(assets::play_index))
        .route("/play/config.json", get(assets::play_config))
        .route("/play/{*path}", get(assets::play))
        .route("/{file}", get(assets::top))
        .route_layer(middleware::from_fn(named))
        .method_not_allowed_fallback(async || Problem::method("there is another method on this path"))
        .fallback(async || Problem::not_found("there is nothing on this path"))
        .with_state(local)
}

/// Their methods are requests to the other routes.
fn sockets(doors: Doors) -> Router {
    Router::new()
        .route("/websocket", get(socket::open))
        .route("/ddp", get(socket::open))
        .route_layer(middleware::from_fn(named))
        .with_state(doors)
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

/// Whether pages of other origins may ask there: with a key, never with a sign-in.
fn is_open(path: &str) -> bool {
    const PLACES: [&str; 10] = [
        "/v1/",
        "/v2/",
        "/e",
        "/i/v0/e",
        "/capture",
        "/batch",
        "/flags",
        "/decide",
        "/array/",
        "/remote_configs/",
    ];
    PLACES.iter().any(|place| match path.strip_prefix(place) {
        Some(rest) => place.ends_with('/') || matches!(rest, "" | "/"),
        None => false,
    })
}

/// Lets the answer say which route it came from.
async fn named(path: axum::extract::MatchedPath, request: extract::Request, next: Next) -> Response<Body> {
    let mut response = next.run(request).await;
    response.extensions_mut().insert(path);
    response
}

/// What every answer to a browser says.
fn secure(headers: &mut HeaderMap) {
    const POLICY: &str = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; \
                          form-action 'self'; frame-ancestors 'none'";
    const ALWAYS: [(HeaderName, &str); 3] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in ALWAYS {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// What a browser may send along.
const ASKED_HEADERS: &str = "Authorization, Content-Type, Content-Encoding, Idempotency-Key, If-None-Match, \
                             Last-Event-ID, X-Playmeter-Signature";
/// What a page of another origin may read beside the body.
const ANSWERED_HEADERS: &str = "Date, ETag, Playmeter-Quota-Used, Playmeter-Vars-Version, Retry-After";

/// Answers a browser's question whether it may send here: yes, without credentials.
fn preflight(methods: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = hyper::StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    allow_any_origin(headers);
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(ASKED_HEADERS));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    response
}

fn allow_any_origin(headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(ANSWERED_HEADERS));
}

/// The answer to anything but a POST.
fn unless_post(method: &Method) -> Option<Response<Body>> {
    match *method {
        Method::POST => None,
        Method::OPTIONS => Some(preflight("POST, OPTIONS")),
        _ => {
            let problem = Problem::method("events are sent with POST");
            let mut response = problem.into_response();
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST, OPTIONS"));
            Some(response)
        }
    }
}
