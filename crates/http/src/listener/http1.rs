//! Connections that speak HTTP/1.1.

use std::convert::Infallible;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::watch;
use tracing::debug;

use pipeline::shutdown::wait_for_stop;

use super::{CheckedStream, ConnectionContext, FIRST_REQUEST, HEADER_BYTES_MAX, Handler, KEEP_ALIVE};
use crate::client_stream::ClientConnection;

/// The route of events, which are accepted whether the client waits for the receipt or not.
const EVENTS: &str = "/v1/events";

/// Serves the requests of a connection until it is closed.
pub(super) fn serve(
    stream: impl ClientConnection,
    handler: impl Handler,
    context: ConnectionContext,
    mut stop: watch::Receiver<bool>,
) -> impl Future<Output = ()> + Send {
    let (peer, guard) = (context.peer, context.guard.clone());
    let context = Arc::new(context);
    let (request_seen, mut first_request) = watch::channel(false);
    let presence = stream.presence();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request_seen.send_if_modified(|seen| !std::mem::replace(seen, true));
        if request.uri().path() != EVENTS {
            request.extensions_mut().insert(presence.clone());
        }
        let (context, handler) = (Arc::clone(&context), handler.clone());
        async move { Ok::<Response<_>, Infallible>(context.answer(handler, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(KEEP_ALIVE)
        // The last events of a game that sends them and exits at once must still arrive.
        .half_close(true)
        .max_buf_size(HEADER_BYTES_MAX.max(8192))
        .serve_connection(TokioIo::new(CheckedStream::new(stream)), service)
        .with_upgrades();
    async move {
        let _guard = guard;
        tokio::pin!(connection);
        let first_request_timeout = async {
            if tokio::time::timeout(FIRST_REQUEST, first_request.wait_for(|seen| *seen)).await.is_ok() {
                std::future::pending::<()>().await;
            }
        };
        let ended = tokio::select! {
            ended = &mut connection => ended,
            () = first_request_timeout => return,
            () = wait_for_stop(&mut stop) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(failure) = ended {
            debug!(%peer, %failure, "connection failed");
        }
    }
}
