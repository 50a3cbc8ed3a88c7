//! From an applied command back to the request that waits for its answer.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use liveops::{Answer, Refusal};
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// What a command came to.
pub type Outcome = Result<Answer, Refusal>;

/// An answer that nobody has asked for after this time is thrown away: its client has gone.
const READY_FOR: Duration = Duration::from_secs(10);
/// Answers that are kept for those who have not asked yet.
const READY_MAX: usize = 10_000;

/// Answers by the offset of the command.
///
/// A request learns its command's offset when the log has made it durable; by then it may have been applied already.
/// So whoever comes first leaves word for the other.
#[derive(Default)]
pub struct Answers {
    open: AtomicBool,
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    waiting: HashMap<u64, oneshot::Sender<Outcome>>,
    ready: HashMap<u64, Outcome>,
    /// The offsets of `ready`, oldest first; some may have been taken.
    order: VecDeque<(Instant, u64)>,
}

impl Answers {
    /// From now on requests wait. What is applied before this was asked for before a restart.
    pub(crate) fn open(&self) {
        self.open.store(true, Ordering::Release);
    }

    /// The outcome of the command at this offset, which is durable. `None`: it could not be read.
    pub async fn wait(&self, offset: u64) -> Option<Outcome> {
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

    /// Gives an outcome to whoever waits for it, now or soon.
    pub(crate) fn tell(&self, offset: u64, outcome: Outcome) {
        if !self.open.load(Ordering::Acquire) {
            return;
        }
        let mut slots = self.slots.lock();
        match slots.waiting.remove(&offset) {
            // Its client may have gone.
            Some(sender) => drop(sender.send(outcome)),
            None => slots.keep(offset, outcome),
        }
    }

    /// There will be no outcome at this offset.
    pub(crate) fn never(&self, offset: u64) {
        self.slots.lock().waiting.remove(&offset);
    }
}

impl Slots {
    fn keep(&mut self, offset: u64, outcome: Outcome) {
        let now = Instant::now();
        while let Some((since, oldest)) = self.order.front().copied() {
            if now - since < READY_FOR && self.order.len() < READY_MAX {
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

    fn outcome(status: u16) -> Outcome {
        Ok(Answer { status, json: String::new() })
    }

    #[tokio::test]
    async fn whoever_comes_first_waits_for_the_other() {
        let answers = Answers::default();
        answers.open();
        answers.tell(7, outcome(200));
        assert_eq!(answers.wait(7).await, Some(outcome(200)));
        let (waited, ()) = tokio::join!(answers.wait(8), async { answers.tell(8, outcome(201)) });
        assert_eq!(waited, Some(outcome(201)));
        let (waited, ()) = tokio::join!(answers.wait(9), async { answers.never(9) });
        assert_eq!(waited, None);
        assert!(answers.slots.lock().ready.is_empty() && answers.slots.lock().waiting.is_empty());
    }

    #[test]
    fn answers_that_nobody_asks_for_are_bounded() {
        let answers = Answers::default();
        (0..100).for_each(|offset| answers.tell(offset, outcome(200)));
        assert!(answers.slots.lock().ready.is_empty(), "before the start is over nobody asks");
        answers.open();
        (0..3 * READY_MAX as u64).for_each(|offset| answers.tell(offset, outcome(200)));
        let slots = answers.slots.lock();
        assert_eq!((slots.ready.len(), slots.order.len()), (READY_MAX, READY_MAX));
    }
}
