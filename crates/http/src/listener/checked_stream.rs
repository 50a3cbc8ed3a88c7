//! A connection whose requests are checked before hyper reads them.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::framing::FramingCheck;

/// A connection that ends, for its reader, at the first line that violates the protocol.
///
/// The end of that line is replaced by a NUL, and nothing after it is ever read. A NUL is invalid in a head, to which hyper
/// responds with 400, and a chunked body is incomplete without its last line, so that it fails.
pub(crate) struct CheckedStream<S> {
    stream: S,
    check: FramingCheck,
    is_refused: bool,
}

impl<S> CheckedStream<S> {
    pub(super) fn new(stream: S) -> CheckedStream<S> {
        CheckedStream { stream, check: FramingCheck::default(), is_refused: false }
    }

    /// Returns the connection, for a protocol other than HTTP.
    pub(crate) fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CheckedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_refused {
            return Poll::Ready(Ok(()));
        }
        let start = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let bytes = &mut buffer.filled_mut()[start..];
        if let Err(violation) = self.check.check(bytes) {
            bytes[violation] = 0;
            buffer.set_filled(start + violation + 1);
            self.is_refused = true;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CheckedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
