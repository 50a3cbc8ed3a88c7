//! One wake-up per commit and runtime, instead of one per state task.
//!
//! Waking a task of another thread's runtime costs a system call, and a commit acknowledges many entries. A lane
//! collects the wakers of one runtime; its pump, a task on that runtime, wakers them there, where a wake-up is a push
//! to a local queue.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::error::WalError;
use crate::queue::Entry;
use crate::receipt::Receipt;
use crate::wal::Wal;

/// Appends on behalf of one runtime. Without a running pump it still works, with one wake-up per task.
pub struct Lane<X> {
    wal: Wal<X>,
    number: u32,
    wakers: Arc<LaneWakers>,
}

impl<X> Clone for Lane<X> {
    fn clone(&self) -> Lane<X> {
        Lane { wal: self.wal.clone(), number: self.number, wakers: Arc::clone(&self.wakers) }
    }
}

impl<X: Default + Send + 'static> Lane<X> {
    pub(crate) fn new(wal: Wal<X>, number: u32, wakers: Arc<LaneWakers>) -> Lane<X> {
        Lane { wal, number, wakers }
    }

    /// Like [`Wal::append`]; the receipt should be awaited on the runtime that runs the pump.
    pub fn append(&self, entry: Entry<X>) -> Result<Receipt<X>, WalError> {
        self.wal.append_from(self.number, entry)
    }

    /// Returns the task to spawn on the lane's runtime. It never completes; it is dropped with the runtime.
    pub fn pump(&self) -> Pump {
        Pump(Arc::clone(&self.wakers))
    }

    /// Returns the log behind the lane.
    pub fn log(&self) -> &Wal<X> {
        &self.wal
    }
}

/// The wakers of one runtime.
#[derive(Default)]
pub(crate) struct LaneWakers(Mutex<LaneState>);

#[derive(Default)]
struct LaneState {
    pump: Option<Waker>,
    wakers: Vec<Waker>,
}

impl LaneWakers {
    /// LaneWakers the tasks of a commit through the pump if there is one, else directly. Leaves `wakers` empty.
    pub(crate) fn wake_all(&self, wakers: &mut Vec<Waker>) {
        let pump = {
            let mut state = self.0.lock();
            if state.pump.is_some() {
                state.wakers.append(wakers);
            }
            state.pump.clone()
        };
        if let Some(pump) = pump {
            pump.wake();
        }
        wakers.drain(..).for_each(Waker::wake);
    }
}

/// The task that wakers the tasks of its runtime; see `Lane::pump`.
pub struct Pump(Arc<LaneWakers>);

impl Future for Pump {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let wakers = {
            let mut state = self.0.0.lock();
            if !state.pump.as_ref().is_some_and(|pump| pump.will_wake(context.waker())) {
                state.pump = Some(context.waker().clone());
            }
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
        Poll::Pending
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.pump = None;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}
