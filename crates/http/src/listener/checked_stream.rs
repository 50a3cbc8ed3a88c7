//! A connection whose requests are checked before hyper reads them.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::framing::FramingCheck;
use crate::problem::Problem;

/// The longest head of hyper's own response.
const REFUSAL_BYTES_MAX: usize = 512;

/// A connection that ends, for its reader, at the first line that violates the protocol.
///
/// The end of that line is replaced by a NUL, and nothing after it is ever read. A NUL is invalid in a head, to which hyper
/// responds with 400 and an empty body, which is replaced by a problem document; and a chunked body is incomplete without its
/// last line, so that it fails.
pub(crate) struct CheckedStream<S> {
    stream: S,
    check: FramingCheck,
    is_refused: bool,
    /// What is written instead of hyper's response, and how much of it was.
    refusal: Option<(Vec<u8>, usize)>,
}

impl<S> CheckedStream<S> {
    pub(super) fn new(stream: S) -> CheckedStream<S> {
        CheckedStream { stream, check: FramingCheck::default(), is_refused: false, refusal: None }
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
        let this = &mut *self;
        if this.is_refused && this.refusal.is_none() {
            this.refusal = with_problem(bytes).map(|response| (response, 0));
        }
        // A writer that has to wait comes back with the same bytes.
        let Some((response, written)) = this.refusal.as_mut().filter(|(all, written)| *written < all.len())
        else {
            return Pin::new(&mut this.stream).poll_write(context, bytes);
        };
        while *written < response.len() {
            match ready!(Pin::new(&mut this.stream).poll_write(context, &response[*written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                some => *written += some,
            }
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_refused {
            let first = slices.iter().find(|slice| !slice.is_empty());
            return self.poll_write(context, first.map_or(&[], |first| first));
        }
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

/// Returns hyper's response to a request that it cannot parse, with a problem document as its body; `None` for anything
/// else. Nothing follows on the connection.
fn with_problem(response: &[u8]) -> Option<Vec<u8>> {
    const EMPTY: &str = "content-length: 0\r\n";
    let head = str::from_utf8(response).ok().filter(|head| head.len() <= REFUSAL_BYTES_MAX)?;
    let is_whole = head.find("\r\n\r\n") == Some(head.len().checked_sub(4)?);
    let (before, after) = head.split_once(EMPTY).filter(|_| is_whole)?;
    if !before.starts_with("HTTP/1.1 400 ") && !before.starts_with("HTTP/1.0 400 ") {
        return None;
    }
    let problem = Problem::malformed(
        "it is ambiguous where the request ends: each line must end with CRLF, and there must be one valid `Content-Length`, \
         or `Transfer-Encoding: chunked`, or neither (RFC 9112)",
    );
    let body = serde_json::to_string(&problem).expect("a problem is JSON");
    let length = body.len();
    let fields = format!("content-type: application/problem+json\r\ncontent-length: {length}\r\n");
    Some([before, &fields, after, &body].concat().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_empty_response_with_400_gets_a_problem_document() {
        let refusal =
            "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\ndate: now\r\n\r\n";
        let response = with_problem(refusal.as_bytes()).expect("it is one");
        let response = String::from_utf8(response).expect("text");
        let (head, body) = response.split_once("\r\n\r\n").expect("a body");
        assert!(head.contains(&format!("\r\ncontent-length: {}\r\ndate: now", body.len())), "{head}");
        let problem: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert_eq!((&problem["type"], &problem["status"]), (&"/problems/malformed".into(), &400.into()));
        for other in [
            refusal.replace("400", "200"),
            refusal.replace(": 0", ": 7"),
            format!("{refusal}more"),
            format!("HTTP/1.1 200 OK\r\n\r\n{refusal}"),
            String::new(),
        ] {
            assert_eq!(with_problem(other.as_bytes()), None, "{other:?}");
        }
    }
}
