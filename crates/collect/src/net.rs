//! Listening TCP sockets, limits on open connections, and certificates.

mod certificate;
mod connections;

pub use certificate::read_certified_key;
pub use connections::{ConnectionLimits, Connections, OpenConnection};

use std::error::Error;
use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Another program uses the address or the file that a collector listens on. It may be free later.
#[derive(Debug, thiserror::Error)]
#[error("another program {verb} on {place}: stop it, or choose another {setting}")]
pub(crate) struct InUse {
    /// `listens` or `receives`.
    pub(crate) verb: &'static str,
    pub(crate) place: String,
    pub(crate) setting: &'static str,
}

/// Returns true if the failure is that another program uses the address: it may be free later.
pub(crate) fn is_in_use(failure: &anyhow::Error) -> bool {
    let is_so = |cause: &(dyn Error + 'static)| {
        let io = cause.downcast_ref::<io::Error>();
        cause.is::<InUse>() || io.is_some_and(|io| io.kind() == io::ErrorKind::AddrInUse)
    };
    failure.chain().any(is_so)
}

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
