//! Sockets and connections: accept, bound, time out, drain.
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

/// A request's head.
const HEADER_BYTES_MAX: usize = 16 << 10;
/// A connection must have sent its first request after so long.
const FIRST_REQUEST: Duration = Duration::from_secs(5);
/// A connection without a request is closed after so long.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// Requests under way get so long to finish when the server stops.
const DRAIN: Duration = Duration::from_secs(10);

/// One open connection; counted, and waited for at the end, until it is dropped.
///
/// A request that asks for another protocol carries it among its extensions, so that it goes with the socket.
#[derive(Clone)]
pub struct Ticket {
    _counted: Arc<OpenConnection>,
    /// Whoever waits for the end waits until nobody holds this.
    _open: mpsc::Sender<Infallible>,
}

/// Answers one request.
pub trait Handler: Clone + Send + 'static {
    /// The answer to a request of this peer.
    fn handle(
        self,
        request: Request<Incoming>,
        peer: SocketAddr,
    ) -> impl Future<Output = Response<Body>> + Send + 'static;
}

/// Accepts until `stop` says so, then lets the requests under way finish.
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
                // Out of descriptors, most likely: a pause lets connections end instead of spinning.
                warn!(%failure, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Some(counted) = connections.admit(peer.ip()) else {
            debug!(%peer, "too many connections");
            continue;
        };
        let ticket = Ticket { _counted: Arc::new(counted), _open: open.clone() };
        spawn_connection(stream, peer, handler.clone(), stop.clone(), ticket);
    }
    drop((listener, open));
    if tokio::time::timeout(DRAIN, all_closed.recv()).await.is_err() {
        warn!("some connections did not end in time");
    }
}

fn spawn_connection(
    stream: TcpStream,
    peer: SocketAddr,
    handler: impl Handler,
    mut stop: watch::Receiver<bool>,
    ticket: Ticket,
) {
    let _ = stream.set_nodelay(true);
    let (first_seen, mut first) = watch::channel(false);
    let socket = ticket.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        first_seen.send_if_modified(|seen| !std::mem::replace(seen, true));
        if request.headers().contains_key(UPGRADE) {
            request.extensions_mut().insert(socket.clone());
        }
        let handler = handler.clone();
        async move { Ok::<_, Infallible>(handler.handle(request, peer).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(KEEP_ALIVE)
        // A game that sends its last events and ends has still sent them.
        .half_close(true)
        .max_buf_size(HEADER_BYTES_MAX.max(8192))
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::spawn(async move {
        let _ticket = ticket;
        tokio::pin!(connection);
        let too_late = async {
            if tokio::time::timeout(FIRST_REQUEST, first.wait_for(|seen| *seen)).await.is_ok() {
                std::future::pending::<()>().await;
            }
        };
        let ended = tokio::select! {
            ended = &mut connection => ended,
            () = too_late => return,
            () = wait_for_stop(&mut stop) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(failure) = ended {
            debug!(%peer, %failure, "a connection ended early");
        }
    });
}
