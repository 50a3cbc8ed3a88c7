//! The connection of a client, in a form that shows whether the client is still there while a request is handled.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;

/// The interval at which a connection is looked at.
const INTERVAL: Duration = Duration::from_millis(250);

/// The longest time that a client may read nothing of what is sent to it.
const STALL_MAX: Duration = Duration::from_secs(60);

/// A TCP connection. A write fails if the client reads nothing for a minute.
pub(crate) struct ClientStream {
    stream: Arc<TcpStream>,
    stall_max: Duration,
    /// Runs while a write waits for the client.
    stall: Option<Pin<Box<Sleep>>>,
}

/// A connection with TLS.
pub(crate) type TlsClientStream = TlsStream<ClientStream>;

/// A connection with or without TLS.
pub(crate) trait ClientConnection: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Returns what shows whether the client is still there.
    fn presence(&self) -> ClientPresence;
}

impl ClientConnection for ClientStream {
    fn presence(&self) -> ClientPresence {
        ClientPresence { stream: Arc::downgrade(&self.stream), has_left }
    }
}

impl ClientConnection for TlsClientStream {
    fn presence(&self) -> ClientPresence {
        ClientPresence { stream: Arc::downgrade(&self.get_ref().0.stream), has_left: has_closed }
    }
}

/// Shows whether the client of a connection is still there. Does not keep the connection open.
#[derive(Clone)]
pub(crate) struct ClientPresence {
    stream: Weak<TcpStream>,
    has_left: fn(&TcpStream) -> bool,
}

impl ClientStream {
    pub(crate) fn new(stream: TcpStream) -> ClientStream {
        ClientStream { stream: Arc::new(stream), stall_max: STALL_MAX, stall: None }
    }

    /// Waits for bytes and returns the first without taking it; `None` if the client has closed the connection.
    pub(crate) async fn peek(&self) -> io::Result<Option<u8>> {
        let mut first = [0];
        Ok((self.stream.peek(&mut first).await? > 0).then_some(first[0]))
    }

    /// Returns the connection. Nothing else may be looking at it.
    pub(crate) fn into_inner(self) -> Option<TcpStream> {
        Arc::into_inner(self.stream)
    }
}

impl ClientPresence {
    /// Returns when the client has closed the connection or its sending side.
    pub(crate) async fn wait_until_left(&self) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            if self.stream.upgrade().is_none_or(|stream| (self.has_left)(&stream)) {
                return;
            }
        }
    }
}

/// Looks at the next byte without taking it. A next request that has already arrived counts as being there.
fn has_left(stream: &TcpStream) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match recv(stream, &mut [0; 1], flags) {
        Ok((_, received)) => received == 0,
        Err(failure) => !matches!(failure.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
    }
}

/// Returns true if the client has closed its sending side. With TLS, bytes that have arrived may be the farewell of a
/// client that has left, so they show nothing.
fn has_closed(stream: &TcpStream) -> bool {
    let mut polled = [PollFd::new(stream, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut polled, Some(&now)) {
        Ok(_) => polled[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR),
        Err(failure) => failure != rustix::io::Errno::INTR,
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(context))?;
            let room = buffer.remaining();
            match self.stream.try_read_buf(buffer) {
                Err(failure) if failure.kind() == io::ErrorKind::WouldBlock => {}
                Ok(read) => {
                    if (1..room).contains(&read) {
                        // All that had arrived was read: the next read waits without a system call that finds nothing.
                        let nothing = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
                        let _ = self.stream.try_io(Interest::READABLE, nothing);
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(failure) => return Poll::Ready(Err(failure)),
            }
        }
    }
}

impl ClientStream {
    fn poll_try_write(
        &mut self,
        context: &mut Context<'_>,
        mut write: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.stream.poll_write_ready(context) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => return self.poll_stall(context),
            }
            match write(&self.stream) {
                Err(failure) if failure.kind() == io::ErrorKind::WouldBlock => {}
                written => {
                    self.stall = None;
                    return Poll::Ready(written);
                }
            }
        }
    }

    fn poll_stall(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let stall_max = self.stall_max;
        let stall = self.stall.get_or_insert_with(|| Box::pin(tokio::time::sleep(stall_max)));
        ready!(stall.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads nothing")))
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_try_write(context, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_try_write(context, |stream| stream.try_write_vectored(parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = rustix::net::shutdown(&*self.stream, rustix::net::Shutdown::Write);
        Poll::Ready(shut.map_err(io::Error::from))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn client_is_there_until_it_closes_the_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut client = TcpStream::connect(address).await.expect("the listener accepts");
        let mut stream = ClientStream::new(listener.accept().await.expect("a client").0);
        let is_there = |stream: &ClientStream| !has_left(&stream.stream);
        assert!(is_there(&stream));
        client.write_all(b"next").await.expect("it is connected");
        let mut bytes = [0; 2];
        stream.read_exact(&mut bytes).await.expect("it was sent");
        assert!(is_there(&stream), "a part of the next request waits");
        stream.read_exact(&mut bytes).await.expect("it was sent");
        assert!(is_there(&stream));
        stream.write_all(b"answer").await.expect("it is connected");
        let mut answer = [0; 6];
        client.read_exact(&mut answer).await.expect("it was sent");
        assert_eq!(&answer, b"answer");
        drop(client);
        stream.presence().wait_until_left().await;
        assert!(stream.into_inner().is_some());
    }

    #[tokio::test]
    async fn write_fails_when_the_client_reads_nothing_and_waits_for_a_slow_one() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut client = TcpStream::connect(address).await.expect("the listener accepts");
        let mut stream = ClientStream::new(listener.accept().await.expect("a client").0);
        stream.stall_max = Duration::from_millis(500);
        let large = vec![1; 16 << 20];
        let read_slowly = async {
            let mut part = vec![0; 2 << 20];
            for _ in 0..8 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                client.read_exact(&mut part).await.expect("it was sent");
            }
        };
        let (written, ()) = tokio::join!(stream.write_all(&large), read_slowly);
        written.expect("the client reads some of it in time");
        let failure = stream.write_all(&large).await.expect_err("the client reads nothing");
        assert_eq!(failure.kind(), io::ErrorKind::TimedOut);
    }
}
