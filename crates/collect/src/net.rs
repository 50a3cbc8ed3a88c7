//! Listening TCP sockets, limits on open connections, and certificates.

mod certificate;
mod connections;

pub use certificate::read_certified_key;
pub use connections::{ConnectionLimits, Connections, OpenConnection};

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Binds a listening socket. Further sockets of this process can bind the same address.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    Ok(socket.into())
}

/// Returns true if another program already listens on the address. Without this check, SO_REUSEPORT would silently share
/// the port with it.
pub fn is_address_in_use(address: SocketAddr) -> bool {
    let probe = || -> io::Result<()> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(1)
    };
    address.port() != 0 && matches!(probe(), Err(error) if error.kind() == io::ErrorKind::AddrInUse)
}
