//! Accepts connections, limits their number, applies timeouts and drains them when the server stops.
//!
//! Each runtime has a listening socket of its own on the same port (SO_REUSEPORT), so a connection stays on one core.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use hyper::body::Incoming;
use hyper::header::UPGRADE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tracing::{debug, warn};

use collect::net::{Connections, OpenConnection};
use pipeline::shutdown::wait_for_stop;

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
    /// The drain ends when every sender is dropped.
    _open: mpsc::Sender<Infallible>,
}

/// Handles the requests of a listener.
pub trait Handler: Clone + Send + 'static {
    /// Returns the response to a request of this peer.
    fn handle(
        self,
        request: Request<Incoming>,
        peer: SocketAddr,
    ) -> impl Future<Output = Response<Body>> + Send + 'static;
}

/// Accepts connections until `stop` is true, then waits up to 10 s for requests in progress.
pub async fn serve(
    listener: TcpListener,
    handler: impl Handler,
    connections: Arc<Connections>,
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
        let Some(counted) = connections.admit(peer.ip()) else {
            debug!(%peer, "connection rejected: too many open connections");
            continue;
        };
        let guard = ConnectionGuard { _counted: Arc::new(counted), _open: open.clone() };
        spawn_connection(stream, peer, handler.clone(), stop.clone(), guard);
    }
    drop((listener, open));
    if tokio::time::timeout(DRAIN, all_closed.recv()).await.is_err() {
        warn!("connections still open after the drain timeout");
    }
}

fn spawn_connection(
    stream: TcpStream,
    peer: SocketAddr,
    handler: impl Handler,
    mut stop: watch::Receiver<bool>,
    guard: ConnectionGuard,
) {
    let _ = stream.set_nodelay(true);
    let (request_seen, mut first_request) = watch::channel(false);
    let upgrade_guard = guard.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request_seen.send_if_modified(|seen| !std::mem::replace(seen, true));
        if request.headers().contains_key(UPGRADE) {
            request.extensions_mut().insert(upgrade_guard.clone());
        }
        let handler = handler.clone();
        async move { Ok::<_, Infallible>(handler.handle(request, peer).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(KEEP_ALIVE)
        // The last events of a game that sends them and exits at once must still arrive.
        .half_close(true)
        .max_buf_size(HEADER_BYTES_MAX.max(8192))
        .serve_connection(TokioIo::new(stream), service)
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
