//! One wake-up per commit and runtime, instead of one per waiting task.
//!
//! To wake a task of another thread's runtime costs a system call, and a commit answers many. A lane
//! collects what a commit wakes on one runtime; its pump, a task of that runtime, passes it on there,
//! where a wake-up is a push to a local queue.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::error::WalError;
use crate::queue::Entry;
use crate::receipt::Receipt;
use crate::wal::Wal;

/// Appends on behalf of one runtime. Without a running pump it works too, one wake-up at a time.
pub struct Lane<X> {
    log: Wal<X>,
    number: u32,
    wakes: Arc<Wakes>,
}

impl<X> Clone for Lane<X> {
    fn clone(&self) -> Lane<X> {
        Lane { log: self.log.clone(), number: self.number, wakes: Arc::clone(&self.wakes) }
    }
}

impl<X: Default + Send + 'static> Lane<X> {
    pub(crate) fn new(log: Wal<X>, number: u32, wakes: Arc<Wakes>) -> Lane<X> {
        Lane { log, number, wakes }
    }

    /// As `Log::append`; the receipt is to be awaited on the runtime that runs the pump.
    pub fn append(&self, entry: Entry<X>) -> Result<Receipt<X>, WalError> {
        self.log.append_from(self.number, entry)
    }

    /// The task to spawn on the lane's runtime. It never ends by itself; drop it with the runtime.
    pub fn pump(&self) -> Pump {
        Pump(Arc::clone(&self.wakes))
    }

    /// The log behind the lane.
    pub fn log(&self) -> &Wal<X> {
        &self.log
    }
}

/// What is to be woken on one runtime.
#[derive(Default)]
pub(crate) struct Wakes(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    pump: Option<Waker>,
    wakers: Vec<Waker>,
}

impl Wakes {
    /// Hands over what a commit wakes, and leaves `wakers` empty.
    pub(crate) fn hand_over(&self, wakers: &mut Vec<Waker>) {
        let pump = {
            let mut waiting = self.0.lock();
            if waiting.pump.is_some() {
                waiting.wakers.append(wakers);
            }
            waiting.pump.clone()
        };
        if let Some(pump) = pump {
            pump.wake();
        }
        wakers.drain(..).for_each(Waker::wake);
    }
}

/// Passes wake-ups on; see `Lane::pump`.
pub struct Pump(Arc<Wakes>);

impl Future for Pump {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let wakers = {
            let mut waiting = self.0.0.lock();
            if !waiting.pump.as_ref().is_some_and(|pump| pump.will_wake(context.waker())) {
                waiting.pump = Some(context.waker().clone());
            }
            std::mem::take(&mut waiting.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
        Poll::Pending
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        let mut waiting = self.0.0.lock();
        waiting.pump = None;
        let wakers = std::mem::take(&mut waiting.wakers);
        drop(waiting);
        wakers.into_iter().for_each(Waker::wake);
    }
}
