//! Sockets and connections: accept, bound, time out, drain.
//!
//! Each runtime has a listening socket of its own on the same port (SO_REUSEPORT), so a connection stays on one core.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use hyper::body::Incoming;
use hyper::header::UPGRADE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tracing::{debug, warn};

use crate::catalog::address_group;

/// A request's head.
const HEADER_BYTES_MAX: usize = 16 << 10;
/// A connection must have sent its first request after so long.
const FIRST_REQUEST: Duration = Duration::from_secs(5);
/// A connection without a request is closed after so long.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// Requests under way get so long to finish when the server stops.
const DRAIN: Duration = Duration::from_secs(10);

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// In all.
    pub total: usize,
    /// From one address (IPv6: one /64).
    pub per_address: usize,
    /// Subscriptions with one credential; with a public key, which everybody has, from one address.
    pub subscriptions_each: usize,
}

/// Counts open connections by address.
pub struct Connections {
    limits: ConnectionLimits,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// One open connection; counted, and waited for at the end, until it is dropped.
///
/// A request that asks for another protocol carries it among its extensions, so that it goes with the socket.
#[derive(Clone)]
pub struct Ticket {
    _counted: Arc<Counted>,
    /// Whoever waits for the end waits until nobody holds this.
    _open: mpsc::Sender<Infallible>,
}

/// One open connection in the counts, until it is dropped.
pub(crate) struct Counted {
    connections: Arc<Connections>,
    address: IpAddr,
}

impl Connections {
    /// None yet.
    pub fn new(limits: ConnectionLimits) -> Arc<Connections> {
        Arc::new(Connections { limits, open: Mutex::default() })
    }

    /// Counts one more from this address, if there may be.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Counted> {
        let address = address_group(address);
        let mut open = self.open.lock();
        let total = open.total;
        let here = open.by_address.entry(address).or_default();
        if total >= self.limits.total || *here >= self.limits.per_address {
            return None;
        }
        *here += 1;
        open.total += 1;
        Some(Counted { connections: Arc::clone(self), address })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        open.total -= 1;
        if let Some(here) = open.by_address.get_mut(&self.address) {
            *here -= 1;
            if *here == 0 {
                open.by_address.remove(&self.address);
            }
        }
    }
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

/// Binds a socket that others of this process may share.
pub fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    Ok(socket.into())
}

/// Whether somebody else listens there already: SO_REUSEPORT would share the port with them silently.
pub fn is_taken(address: SocketAddr) -> bool {
    let probe = || -> io::Result<()> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(1)
    };
    address.port() != 0 && matches!(probe(), Err(error) if error.kind() == io::ErrorKind::AddrInUse)
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
            () = stopped(&mut stop) => break,
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

/// Returns when the server stops.
pub async fn stopped(stop: &mut watch::Receiver<bool>) {
    // It fails when nobody can say so any more, which is a stop as well.
    drop(stop.wait_for(|stop| *stop).await);
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
            () = stopped(&mut stop) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(failure) = ended {
            debug!(%peer, %failure, "a connection ended early");
        }
    });
}
