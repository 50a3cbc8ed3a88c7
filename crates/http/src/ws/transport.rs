//! The connection below a WebSocket, with or without TLS, without blocking.

use std::io::{self, ErrorKind, IoSlice, Read, Write};

use rustls::ServerConnection;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest, Ready};
use tokio::net::TcpStream;

/// Bytes that TLS holds until the network accepts them.
const TLS_UNSENT_BYTES_MAX: usize = 16 << 10;

/// A connection that was upgraded.
pub(crate) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsTransport>),
}

pub(crate) struct TlsTransport {
    stream: TcpStream,
    session: ServerConnection,
    /// The session may hold decrypted bytes.
    has_received: bool,
}

impl TlsTransport {
    pub(crate) fn new(stream: TcpStream, mut session: ServerConnection) -> TlsTransport {
        session.set_buffer_limit(Some(TLS_UNSENT_BYTES_MAX));
        TlsTransport { stream, session, has_received: true }
    }

    /// Sends encrypted bytes. Fails with [`ErrorKind::WouldBlock`] if the network does not accept all of them.
    fn send(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut NonBlocking(&self.stream))?;
        }
        Ok(())
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(into) {
                Err(failure) if failure.kind() == ErrorKind::WouldBlock => self.has_received = false,
                read => {
                    self.has_received = true;
                    return read;
                }
            }
            if self.session.read_tls(&mut NonBlocking(&self.stream))? == 0 {
                return Ok(0);
            }
            if let Err(violation) = self.session.process_new_packets() {
                // The alert says what is wrong.
                let _ = self.send();
                return Err(io::Error::new(ErrorKind::InvalidData, violation));
            }
        }
    }

    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.send()?;
        let written = self.session.writer().write_vectored(parts)?;
        match self.send() {
            Err(failure) if failure.kind() != ErrorKind::WouldBlock => Err(failure),
            _ => Ok(written),
        }
    }
}

impl Transport {
    fn tcp(&self) -> &TcpStream {
        match self {
            Transport::Plain(stream) => stream,
            Transport::Tls(tls) => &tls.stream,
        }
    }

    pub(super) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        self.tcp().ready(interest).await
    }

    /// Returns true if bytes were accepted that are not sent yet.
    pub(super) fn has_unsent(&self) -> bool {
        matches!(self, Transport::Tls(tls) if tls.session.wants_write())
    }

    /// Returns true if reading may return bytes although the network has none.
    pub(super) fn has_received(&self) -> bool {
        matches!(self, Transport::Tls(tls) if tls.has_received)
    }

    pub(super) fn try_read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(stream) => stream.try_read(into),
            Transport::Tls(tls) => tls.read(into),
        }
    }

    pub(super) fn try_write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Transport::Plain(stream) => stream.try_write_vectored(parts),
            Transport::Tls(tls) => tls.write(parts),
        }
    }

    /// Sends the bytes that were accepted. Fails with [`ErrorKind::WouldBlock`] if the network does not accept all.
    pub(super) fn try_flush(&mut self) -> io::Result<()> {
        match self {
            Transport::Plain(_) => Ok(()),
            Transport::Tls(tls) => tls.send(),
        }
    }

    /// Ends the sending side after everything that was accepted.
    pub(super) async fn shutdown(&mut self) -> io::Result<()> {
        match self {
            Transport::Plain(stream) => stream.shutdown().await,
            Transport::Tls(tls) => {
                tls.session.send_close_notify();
                while let Err(failure) = tls.send() {
                    if failure.kind() != ErrorKind::WouldBlock {
                        return Err(failure);
                    }
                    tls.stream.writable().await?;
                }
                tls.stream.shutdown().await
            }
        }
    }

    /// Discards what the peer sends until it closes the connection.
    pub(super) async fn discard(&mut self) -> io::Result<()> {
        let stream = match self {
            Transport::Plain(stream) => stream,
            Transport::Tls(tls) => &mut tls.stream,
        };
        let mut rest = [0; 512];
        while stream.read(&mut rest).await? > 0 {}
        Ok(())
    }
}

/// Lets TLS read and write the connection.
struct NonBlocking<'a>(&'a TcpStream);

impl Read for NonBlocking<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(into)
    }
}

impl Write for NonBlocking<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
