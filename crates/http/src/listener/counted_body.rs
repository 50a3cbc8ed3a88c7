//! A response body that counts until it was sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use collect::net::OpenConnection;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

/// What is counted until a body was sent.
pub(super) trait Counted: Send + Unpin + 'static {
    /// The whole body was sent. Not called if the client or the server ends it early.
    fn sent(&mut self) {}
}

impl Counted for Arc<OpenConnection> {}

/// Keeps a value until the body was sent or the connection is closed.
pub(super) struct CountedBody<T> {
    body: Body,
    counted: T,
}

impl<T: Counted> CountedBody<T> {
    pub(super) fn wrap(body: Body, mut counted: T) -> Body {
        if body.is_end_stream() {
            counted.sent();
        }
        Body::new(CountedBody { body, counted })
    }
}

impl<T: Counted> HttpBody for CountedBody<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) || (frame.is_ready() && self.body.is_end_stream()) {
            self.counted.sent();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
