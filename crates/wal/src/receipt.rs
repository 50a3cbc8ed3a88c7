//! The answer to an append: a future made by hand, one allocation, woken once.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use parking_lot::Mutex;

use crate::error::WalError;

/// What became of an entry.
#[derive(Debug, PartialEq, Eq)]
pub struct Committed<X> {
    /// Its offsets; empty when the sequencer skipped it.
    pub offsets: Range<u64>,
    /// The time of its commit.
    pub time_ms: u64,
    /// What the caller gave along, as the sequencer left it.
    pub extra: X,
}

/// Resolves when the entry is as safe as its `Ack` asked for. `None`: `Ack::Memory`, it is queued.
///
/// Dropping it changes nothing about the entry.
#[derive(Debug)]
pub struct Receipt<X>(Option<Arc<Slot<X>>>);

/// What a receipt resolves to.
pub type Answer<X> = Result<Option<Committed<X>>, WalError>;

impl<X> Receipt<X> {
    /// A receipt and the place where its answer is put.
    pub(crate) fn pair() -> (Receipt<X>, Arc<Slot<X>>) {
        let slot = Arc::new(Slot { state: Mutex::new(State::Waiting(None)) });
        (Receipt(Some(Arc::clone(&slot))), slot)
    }

    /// The receipt of an entry that nobody waits for.
    pub(crate) fn queued() -> Receipt<X> {
        Receipt(None)
    }

    /// The answer, if it is there. Once it was taken it is not there any more.
    pub fn try_take(&mut self) -> Option<Answer<X>> {
        let Some(slot) = &self.0 else { return Some(Ok(None)) };
        slot.take(None).map(|done| done.map(Some))
    }

    /// Blocks the thread until the answer is there.
    pub fn wait(mut self) -> Answer<X>
    where
        X: Send + 'static,
    {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            match self.poll_answer(&mut context) {
                Poll::Ready(answer) => return answer,
                Poll::Pending => thread::park(),
            }
        }
    }

    fn poll_answer(&mut self, context: &mut Context<'_>) -> Poll<Answer<X>> {
        let Some(slot) = &self.0 else { return Poll::Ready(Ok(None)) };
        match slot.take(Some(context.waker())) {
            Some(done) => Poll::Ready(done.map(Some)),
            None => Poll::Pending,
        }
    }
}

impl<X> Future for Receipt<X> {
    type Output = Answer<X>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer<X>> {
        self.poll_answer(context)
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Where the writer puts the answer. The lock is held for moments by two parties at most.
#[derive(Debug)]
pub(crate) struct Slot<X> {
    state: Mutex<State<X>>,
}

#[derive(Debug)]
enum State<X> {
    Waiting(Option<Waker>),
    Done(Result<Committed<X>, WalError>),
    Taken,
}

impl<X> Slot<X> {
    /// Puts the answer in; the waker of whoever waits is the caller's to wake.
    pub(crate) fn put(&self, done: Result<Committed<X>, WalError>) -> Option<Waker> {
        match std::mem::replace(&mut *self.state.lock(), State::Done(done)) {
            State::Waiting(waker) => waker,
            State::Done(_) | State::Taken => None,
        }
    }

    fn take(&self, waker: Option<&Waker>) -> Option<Result<Committed<X>, WalError>> {
        let mut state = self.state.lock();
        if let State::Waiting(held) = &mut *state {
            match (waker, &held) {
                (Some(waker), Some(old)) if old.will_wake(waker) => {}
                (Some(waker), _) => *held = Some(waker.clone()),
                (None, _) => {}
            }
            return None;
        }
        match std::mem::replace(&mut *state, State::Taken) {
            State::Done(done) => Some(done),
            State::Waiting(_) | State::Taken => None,
        }
    }
}
