//! Connections that speak HTTP/2.
//!
//! `hyper` and `h2` implement the protocol, including its limits on header lists, continuation frames and pending resets.
//! This module bounds what one connection may hold and closes connections that are idle or abusive.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Method, Request};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::debug;

use pipeline::shutdown::wait_for_stop;

use super::counted_body::{Counted, CountedBody};
use super::{ConnectionContext, FIRST_REQUEST, HEADER_BYTES_MAX, Handler, KEEP_ALIVE};
use crate::client_stream::ClientConnection;

/// The name of the protocol in the TLS handshake.
pub(super) const ALPN: &[u8] = b"h2";

/// Requests in progress on one connection. Each also counts for the address of its client.
const STREAMS_MAX: u32 = 100;
/// Bytes of one request body that are received and not read yet.
const STREAM_WINDOW_BYTES: u32 = 128 << 10;
/// Bytes of all request bodies of a connection that are received and not read yet.
const CONNECTION_WINDOW_BYTES: u32 = 256 << 10;
/// Bytes of one response that wait to be sent, above which its body is not read further.
const UNSENT_BYTES_MAX: usize = 32 << 10;
/// Streams that the server has reset because of errors of the client, above which the connection is closed.
const ERRORS_MAX: usize = 64;
/// The requests that a client may abandon in [`ABANDONED_PERIOD`] before their responses are sent.
const ABANDONED_MAX: u64 = 200;
/// The period of [`ABANDONED_MAX`].
const ABANDONED_PERIOD: Duration = Duration::from_secs(10);
/// The interval at which the client is pinged, and the time in which it must answer.
const PING: Duration = Duration::from_secs(20);
/// The time that the client gets to end an idle connection.
const GOODBYE: Duration = Duration::from_secs(2);

/// Bytes of a body without meaning that are read.
const SKIPPED_BYTES_MAX: usize = 64 << 10;
/// The time in which a body without meaning must end.
const SKIP: Duration = Duration::from_secs(1);

/// The requests of a connection.
#[derive(Clone, Copy, Default)]
struct Requests {
    in_progress: u64,
    started: u64,
    /// Reset by the client before the response was sent.
    abandoned: u64,
}

/// One request, until its response was sent.
struct ActiveRequest {
    requests: Arc<watch::Sender<Requests>>,
    is_answered: bool,
}

impl ActiveRequest {
    fn start(requests: &Arc<watch::Sender<Requests>>) -> ActiveRequest {
        requests.send_modify(|requests| {
            requests.in_progress += 1;
            requests.started += 1;
        });
        ActiveRequest { requests: Arc::clone(requests), is_answered: false }
    }
}

impl Counted for ActiveRequest {
    fn sent(&mut self) {
        self.is_answered = true;
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.requests.send_modify(|requests| {
            requests.in_progress -= 1;
            requests.abandoned += u64::from(!self.is_answered);
        });
    }
}

/// Serves the requests of a connection until it is closed.
pub(super) async fn serve(
    stream: impl ClientConnection,
    handler: impl Handler,
    context: ConnectionContext,
    mut stop: watch::Receiver<bool>,
) {
    let (peer, guard) = (context.peer, context.guard.clone());
    let context = Arc::new(context);
    let (requests, seen) = watch::channel(Requests::default());
    let requests = Arc::new(requests);
    let service = service_fn(move |mut request: Request<Incoming>| {
        let mut active = ActiveRequest::start(&requests);
        let (context, handler) = (Arc::clone(&context), handler.clone());
        async move {
            skip_unused_body(&mut request).await;
            let is_head = *request.method() == Method::HEAD;
            let response = context.answer(handler, request).await;
            // Its body is not sent.
            active.is_answered = is_head;
            Ok::<_, Infallible>(response.map(|body| CountedBody::wrap(body, active)))
        }
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_header_list_size(HEADER_BYTES_MAX as u32)
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(UNSENT_BYTES_MAX)
        .max_local_error_reset_streams(ERRORS_MAX)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING)
        .serve_connection(TokioIo::new(stream), service);
    let _guard = guard;
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = first_request_missing(seen.clone()) => return,
        () = too_many_abandoned(seen.clone()) => {
            debug!(%peer, "connection closed: its client abandons requests");
            return;
        }
        () = idle(seen) => {
            connection.as_mut().graceful_shutdown();
            let _ = timeout(GOODBYE, connection).await;
            return;
        }
        () = wait_for_stop(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(failure) = ended {
        debug!(%peer, %failure, "connection failed");
    }
}

/// Reads the body of a request whose method gives it no meaning, so that errors in it are answered before the response ends
/// the stream. Almost no request has one.
async fn skip_unused_body(request: &mut Request<Incoming>) {
    if request.body().is_end_stream() || !matches!(*request.method(), Method::GET | Method::HEAD) {
        return;
    }
    let skipping = async {
        let mut skipped = 0;
        while skipped < SKIPPED_BYTES_MAX
            && let Some(Ok(frame)) = request.body_mut().frame().await
        {
            skipped += frame.data_ref().map_or(0, |data| data.len());
        }
    };
    let _ = timeout(SKIP, skipping).await;
}

/// Returns if the client sends no request in time.
async fn first_request_missing(mut seen: watch::Receiver<Requests>) {
    if timeout(FIRST_REQUEST, seen.wait_for(|requests| requests.started > 0)).await.is_ok() {
        std::future::pending().await
    }
}

/// Returns when the connection had no request for [`KEEP_ALIVE`].
async fn idle(mut seen: watch::Receiver<Requests>) {
    loop {
        let Ok(started) = seen.wait_for(|requests| requests.in_progress == 0).await.map(|now| now.started)
        else {
            return std::future::pending().await;
        };
        if timeout(KEEP_ALIVE, seen.wait_for(|requests| requests.started > started)).await.is_err() {
            return;
        }
    }
}

/// Returns when the client has abandoned more requests in a short time than clients do who changed their mind.
async fn too_many_abandoned(mut seen: watch::Receiver<Requests>) {
    loop {
        let before = seen.borrow().abandoned;
        if seen.wait_for(|requests| requests.abandoned > before).await.is_err() {
            return std::future::pending().await;
        }
        let too_many = seen.wait_for(|requests| requests.abandoned > before + ABANDONED_MAX);
        if timeout(ABANDONED_PERIOD, too_many).await.is_ok_and(|waited| waited.is_ok()) {
            return;
        }
    }
}
