//! The newest durable frames in memory, and the readers waiting for the next one.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::chunk::Chunk;
use crate::error::WalError;

/// The end of the durable log and its newest frames.
pub(crate) struct Tail {
    durable_until: AtomicU64,
    state: Mutex<TailState>,
    advanced: Condvar,
    bytes_max: usize,
}

struct TailState {
    chunks: VecDeque<Arc<Chunk>>,
    bytes: usize,
    wakers: Vec<Waker>,
    closed: Option<WalError>,
}

impl Tail {
    pub(crate) fn new(durable_until: u64, bytes_max: usize) -> Tail {
        let state = TailState { chunks: VecDeque::new(), bytes: 0, wakers: Vec::new(), closed: None };
        let durable_until = AtomicU64::new(durable_until);
        Tail { durable_until, state: Mutex::new(state), advanced: Condvar::new(), bytes_max }
    }

    pub(crate) fn durable_until(&self) -> u64 {
        self.durable_until.load(Ordering::Acquire)
    }

    /// Publishes frames that have become durable.
    pub(crate) fn publish(&self, chunks: impl Iterator<Item = Arc<Chunk>>, durable_until: u64) {
        let wakers = {
            let mut state = self.state.lock();
            for chunk in chunks {
                state.bytes += chunk.bytes();
                state.chunks.push_back(chunk);
            }
            while state.bytes > self.bytes_max && state.chunks.len() > 1 {
                let oldest = state.chunks.pop_front().expect("there is more than one");
                state.bytes -= oldest.bytes();
            }
            self.durable_until.store(durable_until, Ordering::Release);
            std::mem::take(&mut state.wakers)
        };
        self.advanced.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Evicts the chunks before `until`, which are then read from the segments.
    pub(crate) fn evict_until(&self, until: u64) {
        let mut state = self.state.lock();
        while let Some(oldest) = state.chunks.pop_front_if(|oldest| oldest.until() <= until) {
            state.bytes -= oldest.bytes();
        }
    }

    /// Ends the log for all waiting readers.
    pub(crate) fn close(&self, error: WalError) {
        let wakers = {
            let mut state = self.state.lock();
            state.closed.get_or_insert(error);
            std::mem::take(&mut state.wakers)
        };
        self.advanced.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Returns the error with which the log closed, if it has closed.
    pub(crate) fn close_error(&self) -> Option<WalError> {
        self.state.lock().closed.clone()
    }

    /// Returns the chunks starting with the one that contains `from`, as many as fit and at least one; `None` if it
    /// is no longer in memory.
    pub(crate) fn read(&self, from: u64, limit_bytes: usize) -> Option<Vec<Arc<Chunk>>> {
        let state = self.state.lock();
        if state.chunks.front()?.first() > from {
            return None;
        }
        let start = state.chunks.partition_point(|chunk| chunk.until() <= from);
        let mut bytes = 0;
        let fits = |chunk: &&Arc<Chunk>| {
            let first = bytes == 0;
            bytes += chunk.bytes();
            first || bytes <= limit_bytes
        };
        Some(state.chunks.range(start..).take_while(fits).cloned().collect())
    }

    /// Blocks until something at or after `from` is durable or the timeout expires. Returns the durable end.
    pub(crate) fn wait(&self, from: u64, timeout: Duration) -> Result<u64, WalError> {
        let deadline = Instant::now() + timeout;
        let mut state = self.state.lock();
        loop {
            let durable_until = self.durable_until();
            if durable_until > from {
                return Ok(durable_until);
            }
            if let Some(error) = &state.closed {
                return Err(error.clone());
            }
            if self.advanced.wait_until(&mut state, deadline).timed_out() {
                return Ok(self.durable_until());
            }
        }
    }

    fn poll(&self, from: u64, context: &Context<'_>) -> Poll<Result<u64, WalError>> {
        let durable_until = self.durable_until();
        if durable_until > from {
            return Poll::Ready(Ok(durable_until));
        }
        let mut state = self.state.lock();
        let durable_until = self.durable_until();
        if durable_until > from {
            return Poll::Ready(Ok(durable_until));
        }
        if let Some(error) = &state.closed {
            return Poll::Ready(Err(error.clone()));
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}

/// Resolves when something at or after an offset is durable; see [`Wal::follow`](crate::Wal::follow).
pub struct Follow {
    pub(crate) tail: Arc<Tail>,
    pub(crate) from: u64,
}

impl Future for Follow {
    type Output = Result<u64, WalError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.tail.poll(self.from, context)
    }
}
