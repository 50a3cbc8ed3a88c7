//! Accepts connections, limits their number, applies timeouts and drains them when the server stops.
//!
//! Each runtime has a listening socket of its own on the same port (SO_REUSEPORT), so a connection stays on one core.

mod checked_stream;
mod framing;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONNECTION, HeaderValue, UPGRADE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tracing::{debug, warn};

use collect::net::{Connections, OpenConnection};
use pipeline::shutdown::wait_for_stop;

use crate::api::query::QUERY;
use crate::client_address::forwarded_address;
use crate::client_stream::ClientStream;
use crate::host::check_host;
use crate::problem::Problem;

pub(crate) use checked_stream::CheckedStream;
use framing::is_websocket;

/// The largest head of a request.
const HEADER_BYTES_MAX: usize = 16 << 10;
/// The time in which a new connection must send its first request.
const FIRST_REQUEST: Duration = Duration::from_secs(5);
/// The time after which a connection without a request is closed.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// The time that requests in progress get to finish when the server stops.
const DRAIN: Duration = Duration::from_secs(10);

/// Counts one open connection until the last clone is dropped. The drain waits for it.
///
/// A request to upgrade carries a clone in its extensions, so that the connection counts as long as its socket.
#[derive(Clone)]
pub(crate) struct ConnectionGuard {
    _counted: Arc<OpenConnection>,
    /// The client behind a proxy whose socket the connection becomes.
    _client: Option<Arc<OpenConnection>>,
    /// The drain ends when every sender is dropped.
    _open: mpsc::Sender<Infallible>,
}

/// How a listener learns who its clients are, and limits their connections.
#[derive(Clone)]
pub struct ListenerOptions {
    /// Counts and limits open connections.
    pub connections: Arc<Connections>,
    /// The number of proxies in front that report the address of the client; `None` if clients connect directly.
    pub proxy_hops: Option<usize>,
}

/// Handles the requests of a listener.
pub trait Handler: Clone + Send + 'static {
    /// Returns the response to a request of the client at this address; `None` if the proxy in front reports no address.
    fn handle(
        self,
        request: Request<Incoming>,
        address: Option<IpAddr>,
    ) -> impl Future<Output = Response<Body>> + Send + 'static;
}

/// Accepts connections until `stop` is true, then waits up to 10 s for requests in progress.
///
/// Behind a proxy a connection carries requests of many clients. Each request, stream and socket then counts for the
/// address of its client, and one above the limit is answered with 429.
pub async fn serve(
    listener: TcpListener,
    handler: impl Handler,
    options: ListenerOptions,
    mut stop: watch::Receiver<bool>,
) {
    let (open, mut all_closed) = mpsc::channel(1);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = wait_for_stop(&mut stop) => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(failure) => {
                // Most likely the process is out of file descriptors: a pause lets connections end instead of spinning.
                warn!(%failure, "failed to accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Some(counted) = options.admit(peer) else {
            debug!(%peer, "connection rejected: too many open connections");
            continue;
        };
        let guard = ConnectionGuard { _counted: Arc::new(counted), _client: None, _open: open.clone() };
        let context = ConnectionContext { options: options.clone(), peer, guard };
        spawn_connection(stream, handler.clone(), context, stop.clone());
    }
    drop((listener, open));
    if tokio::time::timeout(DRAIN, all_closed.recv()).await.is_err() {
        warn!("connections still open after the drain timeout");
    }
}

impl ListenerOptions {
    /// Counts a new connection. Returns `None` if a limit is reached.
    fn admit(&self, peer: SocketAddr) -> Option<OpenConnection> {
        match self.proxy_hops {
            None => self.connections.admit(peer.ip()),
            Some(_) => self.connections.admit_proxy(),
        }
    }
}

/// What the requests of one connection have in common.
struct ConnectionContext {
    options: ListenerOptions,
    peer: SocketAddr,
    guard: ConnectionGuard,
}

impl ConnectionContext {
    async fn answer(&self, handler: impl Handler, mut request: Request<Incoming>) -> Response<Body> {
        if let Err(problem) = check_host(&mut request) {
            return close_after(problem.into_response());
        }
        let (address, client) = match self.client(&request) {
            Ok(client) => client,
            Err(problem) => return problem.into_response(),
        };
        let mut upgrades = request.headers().get_all(UPGRADE).iter();
        let upgrades = upgrades.any(|protocol| is_websocket(protocol.as_bytes()));
        if upgrades {
            let guard = ConnectionGuard { _client: client.clone(), ..self.guard.clone() };
            request.extensions_mut().insert(guard);
        }
        let response = handler.handle(request, address).await;
        if upgrades && response.status() != StatusCode::SWITCHING_PROTOCOLS {
            // What follows such a request is not checked.
            return close_after(response);
        }
        let is_stream = response.body().size_hint().exact().is_none();
        match client {
            Some(client) if is_stream => response.map(|body| count_until_end(body, client)),
            _ => response,
        }
    }

    /// Returns the address of the client. Behind a proxy, counts the request for it as well.
    fn client(
        &self,
        request: &Request<Incoming>,
    ) -> Result<(Option<IpAddr>, Option<Arc<OpenConnection>>), Problem> {
        let Some(hops) = self.options.proxy_hops else { return Ok((Some(self.peer.ip()), None)) };
        let address = forwarded_address(request.headers(), hops);
        let connections = &self.options.connections;
        // Without an address, the limit applies to the proxy.
        match connections.admit_client(address.unwrap_or(self.peer.ip())) {
            Some(client) => Ok((address, Some(Arc::new(client)))),
            None => Err(too_many_connections(connections.limits().per_address, address.is_some())),
        }
    }
}

/// Closes the connection after this response.
fn close_after(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn too_many_connections(max: usize, is_reported: bool) -> Problem {
    let hint = match is_reported {
        true => "",
        false => "; the proxy in front of the server does not report addresses in `X-Forwarded-For`",
    };
    let detail =
        format!("an address may have at most {max} requests, streams and sockets at the same time{hint}");
    Problem::quota_exceeded(detail).field("connections.per_address_max").retry_after_s(1)
}

/// Keeps a client counted until the body was sent or the connection is closed.
fn count_until_end(body: Body, client: Arc<OpenConnection>) -> Body {
    Body::new(body.map_frame(move |frame| {
        let _counted = &client;
        frame
    }))
}

fn spawn_connection(
    stream: TcpStream,
    handler: impl Handler,
    context: ConnectionContext,
    mut stop: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let (peer, guard) = (context.peer, context.guard.clone());
    let context = Arc::new(context);
    let (request_seen, mut first_request) = watch::channel(false);
    let stream = ClientStream::new(stream);
    let presence = stream.presence();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request_seen.send_if_modified(|seen| !std::mem::replace(seen, true));
        if request.uri().path() == QUERY {
            request.extensions_mut().insert(presence.clone());
        }
        let (context, handler) = (Arc::clone(&context), handler.clone());
        async move { Ok::<_, Infallible>(context.answer(handler, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(KEEP_ALIVE)
        // The last events of a game that sends them and exits at once must still arrive.
        .half_close(true)
        .max_buf_size(HEADER_BYTES_MAX.max(8192))
        .serve_connection(TokioIo::new(CheckedStream::new(stream)), service)
        .with_upgrades();
    tokio::spawn(async move {
        let _guard = guard;
        tokio::pin!(connection);
        let first_request_timeout = async {
            if tokio::time::timeout(FIRST_REQUEST, first_request.wait_for(|seen| *seen)).await.is_ok() {
                std::future::pending::<()>().await;
            }
        };
        let ended = tokio::select! {
            ended = &mut connection => ended,
            () = first_request_timeout => return,
            () = wait_for_stop(&mut stop) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(failure) = ended {
            debug!(%peer, %failure, "connection failed");
        }
    });
}
