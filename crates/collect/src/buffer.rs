//! The buffer between the sockets of one worker and the log.
//!
//! Sockets add to one batch while the previous batch is written: once a second for samples, every 100 ms for events, or
//! earlier if the batch is large. If the log has no room, the writer retries; meanwhile the pending batch becomes full,
//! and then connections wait and packets are rejected.

use std::time::Duration;

use parking_lot::Mutex;
use pipeline::shutdown::wait_for_stop;
use tokio::sync::{Notify, watch};

use crate::batch::CollectorBatch;
use crate::sink::Sink;

/// Samples are written this long after the first of them was received.
const SAMPLES_WAIT: Duration = Duration::from_secs(1);
/// Events are written this long after the first of them was received.
const EVENTS_WAIT: Duration = Duration::from_millis(100);

/// Collects input of one worker and writes it to a [`Sink`].
pub(crate) struct Buffer {
    sink: Sink,
    pending: Mutex<CollectorBatch>,
    /// Notified when the pending batch is no longer empty.
    filled: Notify,
    /// Notified when the pending batch is large.
    large: Notify,
    /// Notified when the pending batch was taken out to be written.
    room: Notify,
    closed: watch::Sender<bool>,
}

impl Buffer {
    pub(crate) fn new(sink: Sink) -> Buffer {
        let pending = Mutex::new(sink.new_batch());
        let (closed, _) = watch::channel(false);
        Buffer { sink, pending, filled: Notify::new(), large: Notify::new(), room: Notify::new(), closed }
    }

    /// Lets `put` add to the pending batch.
    pub(crate) fn add(&self, put: impl FnOnce(&mut CollectorBatch)) {
        let mut batch = self.pending.lock();
        let was_empty = batch.is_empty();
        put(&mut batch);
        if was_empty && !batch.is_empty() {
            self.filled.notify_one();
        }
        if batch.is_large() {
            self.large.notify_one();
        }
    }

    /// Waits until the pending batch is not large, then lets `put` add to it. For sources that can be made to wait.
    pub(crate) async fn add_when_not_full<T>(&self, put: impl FnOnce(&mut CollectorBatch) -> T) -> T {
        loop {
            let mut room = std::pin::pin!(self.room.notified());
            room.as_mut().enable();
            if !self.pending.lock().is_large() {
                break;
            }
            room.await;
        }
        // Everything that adds to this buffer runs on this thread, so there still is room.
        let mut result = None;
        self.add(|batch| result = Some(put(batch)));
        result.expect("`put` was called")
    }

    /// Ends [`Buffer::write_until_closed`] after a last write. Nothing may be added afterwards.
    pub(crate) fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Writes batches until the buffer is closed and everything is written. `lost` is called before each write and
    /// returns how many packets were lost before they could be added.
    pub(crate) async fn write_until_closed(&self, mut lost: impl FnMut() -> u32) {
        let mut spare = self.sink.new_batch();
        loop {
            let is_last = self.wait_until_due().await;
            self.swap(&mut spare, lost());
            self.sink.write(&mut spare, &self.closed).await;
            if is_last {
                return;
            }
        }
    }

    /// Exchanges the pending batch for the empty `spare`, after counting lost packets in it.
    fn swap(&self, spare: &mut CollectorBatch, lost: u32) {
        let mut pending = self.pending.lock();
        pending.add_lost(lost);
        std::mem::swap(&mut *pending, spare);
        drop(pending);
        self.room.notify_waiters();
    }

    /// Waits until the pending batch should be written. Returns true if the buffer was closed.
    async fn wait_until_due(&self) -> bool {
        let mut closed = self.closed.subscribe();
        let due = async {
            self.filled.notified().await;
            let wait = if self.sink.receives_samples() { SAMPLES_WAIT } else { EVENTS_WAIT };
            let _ = tokio::time::timeout(wait, self.large.notified()).await;
        };
        tokio::select! {
            () = due => false,
            () = wait_for_stop(&mut closed) => true,
        }
    }
}
