//! The newest durable frames in memory, and those who wait for the next.

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

/// What is durable, and its newest part.
pub(crate) struct Tail {
    durable_until: AtomicU64,
    inner: Mutex<Inner>,
    moved: Condvar,
    bytes_max: usize,
}

struct Inner {
    chunks: VecDeque<Arc<Chunk>>,
    bytes: usize,
    wakers: Vec<Waker>,
    ended: Option<WalError>,
}

impl Tail {
    pub(crate) fn new(durable_until: u64, bytes_max: usize) -> Tail {
        let inner = Inner { chunks: VecDeque::new(), bytes: 0, wakers: Vec::new(), ended: None };
        let durable_until = AtomicU64::new(durable_until);
        Tail { durable_until, inner: Mutex::new(inner), moved: Condvar::new(), bytes_max }
    }

    pub(crate) fn durable_until(&self) -> u64 {
        self.durable_until.load(Ordering::Acquire)
    }

    /// Shows readers what has become durable.
    pub(crate) fn publish(&self, chunks: impl Iterator<Item = Arc<Chunk>>, durable_until: u64) {
        let wakers = {
            let mut inner = self.inner.lock();
            for chunk in chunks {
                inner.bytes += chunk.bytes();
                inner.chunks.push_back(chunk);
            }
            while inner.bytes > self.bytes_max && inner.chunks.len() > 1 {
                let oldest = inner.chunks.pop_front().expect("there is more than one");
                inner.bytes -= oldest.bytes();
            }
            self.durable_until.store(durable_until, Ordering::Release);
            std::mem::take(&mut inner.wakers)
        };
        self.moved.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Drops what lies before `until`: it is read from the segments from now on.
    pub(crate) fn forget(&self, until: u64) {
        let mut inner = self.inner.lock();
        while let Some(oldest) = inner.chunks.pop_front_if(|oldest| oldest.until() <= until) {
            inner.bytes -= oldest.bytes();
        }
    }

    /// Tells everyone who waits that nothing will come.
    pub(crate) fn end(&self, why: WalError) {
        let wakers = {
            let mut inner = self.inner.lock();
            inner.ended.get_or_insert(why);
            std::mem::take(&mut inner.wakers)
        };
        self.moved.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Why nothing will come, if so.
    pub(crate) fn ended(&self) -> Option<WalError> {
        self.inner.lock().ended.clone()
    }

    /// The chunks from the one that holds `from`, as many as fit and at least one. `None`: it is no
    /// longer in memory.
    pub(crate) fn read(&self, from: u64, limit_bytes: usize) -> Option<Vec<Arc<Chunk>>> {
        let inner = self.inner.lock();
        if inner.chunks.front()?.first() > from {
            return None;
        }
        let start = inner.chunks.partition_point(|chunk| chunk.until() <= from);
        let mut bytes = 0;
        let fits = |chunk: &&Arc<Chunk>| {
            let first = bytes == 0;
            bytes += chunk.bytes();
            first || bytes <= limit_bytes
        };
        Some(inner.chunks.range(start..).take_while(fits).cloned().collect())
    }

    /// Blocks until something at or after `from` is durable, or the time is over. Gives what is durable.
    pub(crate) fn wait(&self, from: u64, timeout: Duration) -> Result<u64, WalError> {
        let deadline = Instant::now() + timeout;
        let mut inner = self.inner.lock();
        loop {
            let durable_until = self.durable_until();
            if durable_until > from {
                return Ok(durable_until);
            }
            if let Some(why) = &inner.ended {
                return Err(why.clone());
            }
            if self.moved.wait_until(&mut inner, deadline).timed_out() {
                return Ok(self.durable_until());
            }
        }
    }

    fn poll(&self, from: u64, context: &Context<'_>) -> Poll<Result<u64, WalError>> {
        let durable_until = self.durable_until();
        if durable_until > from {
            return Poll::Ready(Ok(durable_until));
        }
        let mut inner = self.inner.lock();
        let durable_until = self.durable_until();
        if durable_until > from {
            return Poll::Ready(Ok(durable_until));
        }
        if let Some(why) = &inner.ended {
            return Poll::Ready(Err(why.clone()));
        }
        if !inner.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            inner.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}

/// Resolves when something at or after an offset is durable; see `Log::follow`.
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
