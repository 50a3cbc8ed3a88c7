//! One subscription that is delivered as documents.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeline::catalog::Game;
use tokio::sync::Notify;

use crate::delivery::{Delivery, DeliveryForm, DeliveryOptions};
use crate::documents::{DocumentChange, DocumentSet, Step};
use crate::resume_point::ResumePoint;
use crate::subscribers::Subscriber;
use crate::topics::PersonalVars;
use crate::{Live, TooManyChannels, Topic};

/// A subscription that is delivered as documents. It holds only the state that was last delivered, so a slow subscriber
/// costs no more than others.
pub struct DocumentSubscription {
    subscriber: Subscriber,
    /// `Some` if each subscriber gets values of its own.
    personal: Option<PersonalVars>,
    /// The state that the client has; `None`: nothing was delivered yet.
    known: Option<Arc<DocumentSet>>,
    /// Changes that the client missed before it resumed.
    missed: Option<Arc<Step>>,
    is_resumed: bool,
    /// The number of the state that was last delivered; 0: none.
    delivered: u64,
    /// The number of the newest change that was looked at.
    seen: u64,
    delivered_at: Option<Instant>,
    /// Set while the first state is being computed.
    retry_at: Option<Instant>,
}

/// A state that is being computed is looked for again after this time.
const RETRY: Duration = Duration::from_millis(20);

impl DocumentSubscription {
    /// Subscribes to a topic of a game, and resumes from `resume` if the changes since then are still kept. `notify` is
    /// notified when there may be changes; several subscriptions of a connection share one.
    pub fn open(
        live: &Arc<Live>,
        game: &Arc<Game>,
        topic: Topic,
        options: DeliveryOptions,
        resume: Option<&ResumePoint>,
        notify: &Arc<Notify>,
    ) -> Result<DocumentSubscription, TooManyChannels> {
        let (topic, personal) = topic.into_shared(game);
        let subscriber = live.subscribe(game, topic, notify, options.interval(), DeliveryForm::Documents)?;
        // Personal values are not kept between connections.
        let is_known = |resume: &&ResumePoint| resume.epoch == live.epoch() && resume.number > 0;
        let resume = resume.filter(|resume| personal.is_none() && is_known(resume));
        let resumed = resume.and_then(|resume| subscriber.channel.resume(resume.number));
        let is_resumed = resumed.is_some();
        let delivered = resume.filter(|_| is_resumed).map_or(0, |resume| resume.number);
        let (known, missed) = resumed.unzip();
        let (seen, delivered_at) = (0, None);
        Ok(DocumentSubscription {
            subscriber,
            personal,
            known,
            missed,
            is_resumed,
            delivered,
            seen,
            delivered_at,
            retry_at: None,
        })
    }

    /// Returns true if the subscription resumed: only changes since then are delivered.
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Returns the number of the state that was last delivered, from which a client can resume. 0: nothing was delivered.
    pub fn offset(&self) -> u64 {
        self.delivered
    }

    /// Returns the changes since the last delivery, if there are any and the interval has passed. The first delivery is
    /// the full state, or the changes since `resume`.
    pub fn next_delivery(&mut self) -> Option<Delivery> {
        if self.due()? > Instant::now() {
            return None;
        }
        self.subscriber.rearm();
        self.seen = self.subscriber.channel.newest();
        let step = self.step();
        self.delivered = self.known.as_ref().map_or(0, |known| known.number);
        self.delivered_at = step.as_ref().map(|_| Instant::now()).or(self.delivered_at);
        step.map(|step| Delivery { offset: self.delivered, step })
    }

    /// Recomputes the channel and returns the changes without waiting for the interval. For a caller that made a write
    /// and must see its effect.
    pub fn next_delivery_now(&mut self) -> Option<Delivery> {
        let channel = &self.subscriber.channel;
        // The writes of clients do not change the results of queries.
        if !channel.is_slow() {
            channel.refresh(self.subscriber.live());
        }
        self.delivered_at = None;
        self.next_delivery()
    }

    /// Changes the interval to that of `options` if it is shorter than the current one.
    pub fn shorten_interval(&mut self, options: DeliveryOptions) -> Result<(), TooManyChannels> {
        if options.interval() < self.subscriber.interval() {
            self.subscriber = self.subscriber.with_interval(options.interval())?;
        }
        Ok(())
    }

    /// Returns when changes may be delivered; `None` if there are none.
    pub fn due(&self) -> Option<Instant> {
        if self.known.is_none() || self.missed.is_some() {
            return Some(self.retry_at.unwrap_or_else(Instant::now));
        }
        let is_new = self.subscriber.channel.newest() > self.seen;
        let interval = self.subscriber.interval();
        is_new.then(|| self.delivered_at.map_or_else(Instant::now, |delivered_at| delivered_at + interval))
    }

    /// Returns changes that remove every delivered document.
    pub fn removals(&self) -> Vec<DocumentChange> {
        self.known.as_ref().map(|known| known.removals()).unwrap_or_default()
    }

    /// Returns the step from the known state to the newest one, preceded by missed changes. `None`: nothing changed.
    fn step(&mut self) -> Option<Arc<Step>> {
        let Some(newest) = self.newest_documents() else {
            self.retry_at = Some(Instant::now() + RETRY);
            return None;
        };
        self.retry_at = None;
        let missed = self.missed.take();
        let Some(known) = self.known.replace(Arc::clone(&newest)) else { return Some(newest.full_step()) };
        let since = self.step_since(&known, &newest);
        match (missed, since) {
            (Some(missed), Some(since)) => {
                let changes = missed.changes.iter().chain(&since.changes).cloned().collect();
                Some(Arc::new(Step::new(changes)))
            }
            (missed, since) => missed.or(since),
        }
    }

    fn step_since(&self, known: &DocumentSet, newest: &DocumentSet) -> Option<Arc<Step>> {
        if known.number == newest.number {
            return None;
        }
        if newest.previous.is_some_and(|previous| previous != known.number) {
            self.subscriber.channel.count_merged();
        }
        let step = newest.step_since(known);
        (!step.changes.is_empty()).then_some(step)
    }

    fn newest_documents(&self) -> Option<Arc<DocumentSet>> {
        let channel = &self.subscriber.channel;
        match &self.personal {
            Some(personal) => {
                let live = self.subscriber.live();
                Some(Arc::new(personal.documents(&live.views, live.now_ms(), channel.newest())))
            }
            None => channel.documents(),
        }
    }
}
