//! A download that is written on a blocking thread, at the speed of the client.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tracing::error;

use crate::AppState;

/// Size of a chunk of the response.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks that may be queued for the client.
const CHUNKS: usize = 4;

type Chunk = Result<Frame<Bytes>, std::io::Error>;

#[derive(Debug, thiserror::Error)]
#[error("the client disconnected")]
struct ClientDisconnected;

/// The response body, sent in chunks.
pub(crate) struct ChunkWriter {
    sender: Sender<Chunk>,
    buffer: Vec<u8>,
}

/// Returns a body with what `write` writes. A failure cuts the body short and closes the connection; `what` names it in the
/// log.
pub(crate) fn stream(
    shared: Arc<AppState>,
    permit: OwnedSemaphorePermit,
    what: &'static str,
    write: impl FnOnce(&AppState, &mut ChunkWriter) -> anyhow::Result<()> + Send + 'static,
) -> Body {
    let (sender, receiver) = channel(CHUNKS);
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let mut out = ChunkWriter { sender, buffer: Vec::new() };
        if let Err(failure) = write(&shared, &mut out).and_then(|()| out.flush())
            && !failure.is::<ClientDisconnected>()
        {
            error!(what, failure = format!("{failure:#}"), "the export failed");
            out.fail();
        }
    });
    let next = async |mut receiver: Receiver<Chunk>| Some((receiver.recv().await?, receiver));
    Body::new(StreamBody::new(futures_util::stream::unfold(receiver, next)))
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
        Ok(self.sender.blocking_send(Ok(Frame::data(chunk))).map_err(|_| ClientDisconnected)?)
    }

    /// Ends the body with an error, so that the client notices the missing rest.
    fn fail(&self) {
        let _ = self.sender.blocking_send(Err(std::io::Error::other("the export was cut short")));
    }
}
