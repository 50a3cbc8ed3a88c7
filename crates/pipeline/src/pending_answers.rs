//! The outcomes of applied commands, on their way back to the requests that wait for them.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use liveops::{CommandResponse, Refusal};
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The outcome of a command.
pub(crate) type CommandOutcome = Result<CommandResponse, Refusal>;

/// An outcome that was not fetched after this time is dropped: its client has gone.
const READY_TTL: Duration = Duration::from_secs(10);
/// Outcomes that are kept for requests that do not wait yet.
const READY_MAX: usize = 10_000;

/// Outcomes by the offset of the command.
///
/// A request learns its command's offset when the log has made it durable; by then the command may have been applied
/// already. So the first of the two leaves an entry for the other.
#[derive(Default)]
pub(crate) struct PendingAnswers {
    is_open: AtomicBool,
    slots: Mutex<AnswerSlots>,
}

#[derive(Default)]
struct AnswerSlots {
    waiting: HashMap<u64, oneshot::Sender<CommandOutcome>>,
    ready: HashMap<u64, CommandOutcome>,
    /// The offsets of `ready`, oldest first; some may have been fetched already.
    order: VecDeque<(Instant, u64)>,
}

impl PendingAnswers {
    /// Starts to keep outcomes. No request waits for the commands that are applied before: they are from before a
    /// restart.
    pub(crate) fn open(&self) {
        self.is_open.store(true, Ordering::Release);
    }

    /// Waits for the outcome of the durable command at this offset. Returns `None` if the command could not be read.
    pub(crate) async fn wait(&self, offset: u64) -> Option<CommandOutcome> {
        let receiver = {
            let mut slots = self.slots.lock();
            if let Some(outcome) = slots.ready.remove(&offset) {
                return Some(outcome);
            }
            let (sender, receiver) = oneshot::channel();
            slots.waiting.insert(offset, sender);
            receiver
        };
        receiver.await.ok()
    }

    /// Publishes an outcome to the request that waits for it, now or soon.
    pub(crate) fn resolve(&self, offset: u64, outcome: CommandOutcome) {
        if !self.is_open.load(Ordering::Acquire) {
            return;
        }
        let mut slots = self.slots.lock();
        match slots.waiting.remove(&offset) {
            // The client may have gone.
            Some(sender) => drop(sender.send(outcome)),
            None => slots.keep(offset, outcome),
        }
    }

    /// Wakes the request that waits at this offset: there will be no outcome.
    pub(crate) fn cancel(&self, offset: u64) {
        self.slots.lock().waiting.remove(&offset);
    }
}

impl AnswerSlots {
    fn keep(&mut self, offset: u64, outcome: CommandOutcome) {
        let now = Instant::now();
        while let Some((since, oldest)) = self.order.front().copied() {
            if now - since < READY_TTL && self.order.len() < READY_MAX {
                break;
            }
            self.ready.remove(&oldest);
            self.order.pop_front();
        }
        self.ready.insert(offset, outcome);
        self.order.push_back((now, offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(status: u16) -> CommandOutcome {
        Ok(CommandResponse { status, json: String::new() })
    }

    #[tokio::test]
    async fn request_and_outcome_meet_in_either_order() {
        let answers = PendingAnswers::default();
        answers.open();
        answers.resolve(7, outcome(200));
        assert_eq!(answers.wait(7).await, Some(outcome(200)));
        let (waited, ()) = tokio::join!(answers.wait(8), async { answers.resolve(8, outcome(201)) });
        assert_eq!(waited, Some(outcome(201)));
        let (waited, ()) = tokio::join!(answers.wait(9), async { answers.cancel(9) });
        assert_eq!(waited, None);
        assert!(answers.slots.lock().ready.is_empty() && answers.slots.lock().waiting.is_empty());
    }

    #[test]
    fn outcomes_that_are_not_fetched_are_bounded() {
        let answers = PendingAnswers::default();
        (0..100).for_each(|offset| answers.resolve(offset, outcome(200)));
        assert!(answers.slots.lock().ready.is_empty(), "no request waits before the start is complete");
        answers.open();
        (0..3 * READY_MAX as u64).for_each(|offset| answers.resolve(offset, outcome(200)));
        let slots = answers.slots.lock();
        assert_eq!((slots.ready.len(), slots.order.len()), (READY_MAX, READY_MAX));
    }
}
