//! The receipt of an append: a hand-written future with one allocation and one wake-up.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use parking_lot::Mutex;

use crate::error::WalError;

/// The result of a committed entry.
#[derive(Debug, PartialEq, Eq)]
pub struct Committed<X> {
    /// Its offsets; at least one.
    pub offsets: Range<u64>,
    /// The time of its commit, in milliseconds since 1970.
    pub time_ms: u64,
    /// Data that the caller passed along, as the sequencer left it.
    pub extra: X,
}

/// Resolves when the entry is as safe as its `Ack` demands, with `None` for `Ack::Memory`.
///
/// Dropping it does not affect the entry.
#[derive(Debug)]
pub struct Receipt<X>(Option<Arc<Slot<X>>>);

/// The output of a receipt.
pub(crate) type AppendResult<X> = Result<Option<Committed<X>>, WalError>;

impl<X> Receipt<X> {
    /// Returns a receipt and the slot that completes it.
    pub(crate) fn pair() -> (Receipt<X>, Arc<Slot<X>>) {
        let slot = Arc::new(Slot { state: Mutex::new(SlotState::Waiting(None)) });
        (Receipt(Some(Arc::clone(&slot))), slot)
    }

    /// Returns the receipt of an entry acknowledged as queued.
    pub(crate) fn queued() -> Receipt<X> {
        Receipt(None)
    }

    /// Takes the result if it is available. It can be taken once.
    pub fn try_take(&mut self) -> Option<AppendResult<X>> {
        let Some(slot) = &self.0 else { return Some(Ok(None)) };
        slot.take_result(None).map(|done| done.map(Some))
    }

    /// Blocks the thread until the result is available.
    pub fn wait(mut self) -> AppendResult<X>
    where
        X: Send + 'static,
    {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            match self.poll_result(&mut context) {
                Poll::Ready(result) => return result,
                Poll::Pending => thread::park(),
            }
        }
    }

    fn poll_result(&mut self, context: &mut Context<'_>) -> Poll<AppendResult<X>> {
        let Some(slot) = &self.0 else { return Poll::Ready(Ok(None)) };
        match slot.take_result(Some(context.waker())) {
            Some(done) => Poll::Ready(done.map(Some)),
            None => Poll::Pending,
        }
    }
}

impl<X> Future for Receipt<X> {
    type Output = AppendResult<X>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<AppendResult<X>> {
        self.poll_result(context)
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Shared by the receipt and the writer. At most two threads contend for the lock, each for a moment.
#[derive(Debug)]
pub(crate) struct Slot<X> {
    state: Mutex<SlotState<X>>,
}

#[derive(Debug)]
enum SlotState<X> {
    Waiting(Option<Waker>),
    Done(Result<Committed<X>, WalError>),
    Taken,
}

impl<X> Slot<X> {
    /// Stores the result and returns the waker of the waiting task, which the caller must wake.
    pub(crate) fn complete(&self, done: Result<Committed<X>, WalError>) -> Option<Waker> {
        match std::mem::replace(&mut *self.state.lock(), SlotState::Done(done)) {
            SlotState::Waiting(waker) => waker,
            SlotState::Done(_) | SlotState::Taken => None,
        }
    }

    fn take_result(&self, waker: Option<&Waker>) -> Option<Result<Committed<X>, WalError>> {
        let mut state = self.state.lock();
        if let SlotState::Waiting(stored) = &mut *state {
            match (waker, &stored) {
                (Some(waker), Some(old)) if old.will_wake(waker) => {}
                (Some(waker), _) => *stored = Some(waker.clone()),
                (None, _) => {}
            }
            return None;
        }
        match std::mem::replace(&mut *state, SlotState::Taken) {
            SlotState::Done(done) => Some(done),
            SlotState::Waiting(_) | SlotState::Taken => None,
        }
    }
}
