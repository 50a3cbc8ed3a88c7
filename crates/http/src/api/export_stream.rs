//! A download that is written on a blocking thread, at the speed of the client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, timeout_at};
use tracing::error;

use crate::AppState;

/// Size of a chunk of the response.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks that may be queued for the client.
const CHUNKS: usize = 4;

type Chunk = Result<Frame<Bytes>, std::io::Error>;

#[derive(Debug, thiserror::Error)]
#[error("the client disconnected, or reads too slowly")]
struct ClientLost;

/// The response body, sent in chunks.
pub(crate) struct ChunkWriter {
    sender: Sender<Chunk>,
    buffer: Vec<u8>,
    /// When the client must have read everything.
    deadline: Option<Instant>,
    has_lost_client: bool,
}

/// Returns a body with what `write` writes. A failure cuts the body short and closes the connection; `what` names it in the
/// log.
pub(crate) fn stream(
    shared: Arc<AppState>,
    permit: impl Send + 'static,
    what: &'static str,
    write: impl FnOnce(&AppState, &mut ChunkWriter) -> anyhow::Result<()> + Send + 'static,
) -> Body {
    start(None, shared, permit, what, write)
}

/// As [`stream`], but the body is cut short if the client has not read it in this time.
pub(crate) fn stream_within(
    time: Duration,
    shared: Arc<AppState>,
    permit: impl Send + 'static,
    what: &'static str,
    write: impl FnOnce(&AppState, &mut ChunkWriter) -> anyhow::Result<()> + Send + 'static,
) -> Body {
    start(Some(Instant::now() + time), shared, permit, what, write)
}

fn start(
    deadline: Option<Instant>,
    shared: Arc<AppState>,
    permit: impl Send + 'static,
    what: &'static str,
    write: impl FnOnce(&AppState, &mut ChunkWriter) -> anyhow::Result<()> + Send + 'static,
) -> Body {
    let (sender, receiver) = channel(CHUNKS);
    let is_complete = Arc::new(AtomicBool::new(false));
    let completed = Arc::clone(&is_complete);
    tokio::task::spawn_blocking(move || {
        let mut out = ChunkWriter { sender, buffer: Vec::new(), deadline, has_lost_client: false };
        match write(&shared, &mut out).and_then(|()| out.flush()) {
            Ok(()) => completed.store(true, Ordering::Release),
            Err(_) if out.has_lost_client => {}
            Err(failure) => error!(what, failure = format!("{failure:#}"), "the export failed"),
        }
        // A client that asks for more as soon as it has read the end finds the permit free.
        drop(permit);
        drop(out);
    });
    let next = move |receiver: Option<Receiver<Chunk>>| {
        let is_complete = Arc::clone(&is_complete);
        async move {
            let mut receiver = receiver?;
            match receiver.recv().await {
                Some(chunk) => Some((chunk, Some(receiver))),
                None if is_complete.load(Ordering::Acquire) => None,
                // The client notices the missing rest.
                None => Some((Err(std::io::Error::other("the export was cut short")), None)),
            }
        }
    };
    Body::new(StreamBody::new(futures_util::stream::unfold(Some(receiver), next)))
}

impl ChunkWriter {
    pub(crate) fn put(&mut self, mut bytes: &[u8]) -> anyhow::Result<()> {
        while !bytes.is_empty() {
            let room = CHUNK_BYTES.saturating_sub(self.buffer.len()).max(1).min(bytes.len());
            let (now, rest) = bytes.split_at(room);
            self.buffer.extend_from_slice(now);
            if self.buffer.len() >= CHUNK_BYTES {
                self.flush()?;
            }
            bytes = rest;
        }
        Ok(())
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let chunk = Bytes::from(std::mem::take(&mut self.buffer));
        if chunk.is_empty() {
            return Ok(());
        }
        let send = self.sender.send(Ok(Frame::data(chunk)));
        let send = async {
            match self.deadline {
                None => send.await.is_ok(),
                Some(deadline) => timeout_at(deadline, send).await.is_ok_and(|sent| sent.is_ok()),
            }
        };
        if tokio::runtime::Handle::current().block_on(send) {
            return Ok(());
        }
        self.has_lost_client = true;
        Err(ClientLost.into())
    }
}
