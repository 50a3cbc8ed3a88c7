//! Listening sockets and limits on open connections.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;
use pipeline::catalog::address_group;
use socket2::{Domain, Protocol, Socket, Type};

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

/// One open connection in the counts, until it is dropped.
pub struct OpenConnection {
    connections: Arc<Connections>,
    address: IpAddr,
}

impl Connections {
    /// None yet.
    pub fn new(limits: ConnectionLimits) -> Arc<Connections> {
        Arc::new(Connections { limits, open: Mutex::default() })
    }

    /// Counts one more from this address, if there may be.
    pub fn admit(self: &Arc<Self>, address: IpAddr) -> Option<OpenConnection> {
        let address = address_group(address);
        let mut open = self.open.lock();
        let total = open.total;
        let here = open.by_address.entry(address).or_default();
        if total >= self.limits.total || *here >= self.limits.per_address {
            return None;
        }
        *here += 1;
        open.total += 1;
        Some(OpenConnection { connections: Arc::clone(self), address })
    }
}

impl Drop for OpenConnection {
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
