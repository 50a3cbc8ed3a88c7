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
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
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

/// One open connection; counted until it is dropped.
struct Ticket {
    connections: Arc<Connections>,
    address: IpAddr,
}

impl Connections {
    /// None yet.
    pub fn new(limits: ConnectionLimits) -> Arc<Connections> {
        Arc::new(Connections { limits, open: Mutex::default() })
    }

    fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Ticket> {
        let address = address_group(address);
        let mut open = self.open.lock();
        let total = open.total;
        let here = open.by_address.entry(address).or_default();
        if total >= self.limits.total || *here >= self.limits.per_address {
            return None;
        }
        *here += 1;
        open.total += 1;
        Some(Ticket { connections: Arc::clone(self), address })
    }
}

impl Drop for Ticket {
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
    let graceful = hyper_util::server::graceful::GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
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
        let Some(ticket) = connections.admit(peer.ip()) else {
            debug!(%peer, "too many connections");
            continue;
        };
        spawn_connection(stream, peer, handler.clone(), &graceful, ticket);
    }
    drop(listener);
    if tokio::time::timeout(DRAIN, graceful.shutdown()).await.is_err() {
        warn!("some connections did not end in time");
    }
}

fn spawn_connection(
    stream: TcpStream,
    peer: SocketAddr,
    handler: impl Handler,
    graceful: &hyper_util::server::graceful::GracefulShutdown,
    ticket: Ticket,
) {
    let _ = stream.set_nodelay(true);
    let (first_seen, mut first) = watch::channel(false);
    let service = service_fn(move |request| {
        first_seen.send_if_modified(|seen| !std::mem::replace(seen, true));
        let handler = handler.clone();
        async move { Ok::<_, Infallible>(handler.handle(request, peer).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(KEEP_ALIVE)
        // A game that sends its last events and ends has still sent them.
        .half_close(true)
        .max_buf_size(HEADER_BYTES_MAX.max(8192))
        .serve_connection(TokioIo::new(stream), service);
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        let _ticket = ticket;
        tokio::pin!(connection);
        let in_time =
            async { tokio::time::timeout(FIRST_REQUEST, first.wait_for(|seen| *seen)).await.is_ok() };
        tokio::select! {
            ended = &mut connection => return drop(ended),
            in_time = in_time => if !in_time { return },
        }
        if let Err(failure) = connection.await {
            debug!(%peer, %failure, "a connection ended early");
        }
    });
}
