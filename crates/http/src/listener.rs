//! Accepts connections, limits their number, applies timeouts and drains them when the server stops.
//!
//! Each runtime has a listening socket of its own on the same port (SO_REUSEPORT), so a connection stays on one core.

mod checked_stream;
mod counted_body;
mod framing;
mod http1;
mod http2;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONNECTION, HeaderValue, STRICT_TRANSPORT_SECURITY, UPGRADE};
use hyper::{Request, Response, StatusCode, Version};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tracing::{debug, warn};

use collect::net::{Connections, OpenConnection};
use pipeline::shutdown::wait_for_stop;

use crate::client_address::forwarded_address;
use crate::client_stream::ClientStream;
use crate::host::{self, check_host};
use crate::problem::Problem;
use crate::tls::Tls;

pub(crate) use checked_stream::CheckedStream;
use counted_body::CountedBody;
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
    /// Terminates TLS; `None` for connections without TLS.
    pub tls: Option<Arc<Tls>>,
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
    async fn answer(&self, handler: impl Handler, request: Request<Incoming>) -> Response<Body> {
        let Some(hsts) = self.options.tls.as_ref().and_then(|tls| tls.hsts()) else {
            return self.answer_any(handler, request).await;
        };
        let is_local = host::is_local(request.headers()) || host::is_local_authority(request.uri());
        let mut response = self.answer_any(handler, request).await;
        if !is_local {
            response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, hsts);
        }
        response
    }

    async fn answer_any(&self, handler: impl Handler, mut request: Request<Incoming>) -> Response<Body> {
        let version = request.version();
        if let Err(problem) = check_host(&mut request) {
            return close_after(version, problem.into_response());
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
            return close_after(version, response);
        }
        // A body over HTTP/2 waits in memory while the client does not read it.
        let is_stream = version == Version::HTTP_2 || response.body().size_hint().exact().is_none();
        match client {
            Some(client) if is_stream => response.map(|body| CountedBody::wrap(body, client)),
            _ => response,
        }
    }

    /// Returns the address of the client. Where a connection carries several requests at the same time, behind a proxy
    /// and over HTTP/2, counts the request for the address as well.
    fn client(
        &self,
        request: &Request<Incoming>,
    ) -> Result<(Option<IpAddr>, Option<Arc<OpenConnection>>), Problem> {
        let address = match self.options.proxy_hops {
            None if request.version() == Version::HTTP_2 => Some(self.peer.ip()),
            None => return Ok((Some(self.peer.ip()), None)),
            Some(hops) => forwarded_address(request.headers(), hops),
        };
        let connections = &self.options.connections;
        // Without an address, the limit applies to the proxy.
        match connections.admit_client(address.unwrap_or(self.peer.ip())) {
            Some(client) => Ok((address, Some(Arc::new(client)))),
            None => Err(too_many_connections(connections.limits().per_address, address.is_some())),
        }
    }
}

/// Closes the connection after this response. Over HTTP/2, where each request has a stream of its own, it stays open.
fn close_after(version: Version, mut response: Response<Body>) -> Response<Body> {
    if version != Version::HTTP_2 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
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

fn spawn_connection(
    stream: TcpStream,
    handler: impl Handler,
    context: ConnectionContext,
    stop: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let stream = ClientStream::new(stream);
    match context.options.tls.clone() {
        None => drop(tokio::spawn(http1::serve(stream, handler, context, stop))),
        Some(tls) => drop(tokio::spawn(serve_tls(tls, stream, handler, context, stop))),
    }
}

/// Performs the TLS handshake, then serves the protocol that was negotiated.
async fn serve_tls(
    tls: Arc<Tls>,
    stream: ClientStream,
    handler: impl Handler,
    context: ConnectionContext,
    mut stop: watch::Receiver<bool>,
) {
    let client = context.options.proxy_hops.is_none().then(|| context.peer.ip());
    let accepted = tokio::select! {
        // Boxed, because the connection outlives its handshake.
        accepted = Box::pin(tls.accept(stream, client)) => accepted,
        () = wait_for_stop(&mut stop) => return,
    };
    match accepted {
        Err(failure) => debug!(peer = %context.peer, %failure, "no TLS connection"),
        Ok(stream) if stream.get_ref().1.alpn_protocol() == Some(http2::ALPN) => {
            Box::pin(http2::serve(stream, handler, context, stop)).await;
        }
        Ok(stream) => Box::pin(http1::serve(stream, handler, context, stop)).await,
    }
}
