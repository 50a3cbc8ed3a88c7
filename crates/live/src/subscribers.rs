//! The subscribers of a channel: notified of changes, each with its shortest interval.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::channel::Channel;
use crate::delivery::DeliveryForm;
use crate::{Live, TooManyChannels};

/// Notifies one subscriber of changes: once, until it is rearmed.
struct Notifier {
    notify: Arc<Notify>,
    is_notified: AtomicBool,
}

/// The subscribers of a channel.
pub(crate) struct Subscribers {
    notifiers: HashMap<u64, Arc<Notifier>>,
    /// The number of the newest subscriber.
    newest: u64,
    /// Subscribers by interval.
    intervals: BTreeMap<Duration, usize>,
    /// Subscribers that get documents.
    documents: usize,
    /// When the last subscriber left.
    left_at: Instant,
    /// When the last subscriber that gets documents left.
    documents_left_at: Option<Instant>,
}

impl Default for Subscribers {
    fn default() -> Subscribers {
        let left_at = Instant::now();
        let (notifiers, intervals) = (HashMap::new(), BTreeMap::new());
        Subscribers { notifiers, newest: 0, intervals, documents: 0, left_at, documents_left_at: None }
    }
}

impl Subscribers {
    /// Returns the number of subscribers, and the number of those that get documents.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.notifiers.len(), self.documents)
    }

    /// Returns the shortest interval of all subscribers.
    pub(crate) fn min_interval(&self) -> Duration {
        self.intervals.keys().next().copied().unwrap_or_default()
    }

    /// Returns the time since which there are no subscribers.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        self.notifiers.is_empty().then_some(self.left_at)
    }

    /// Returns true if a subscriber gets documents, or did less than `linger` ago and may resume.
    pub(crate) fn need_documents(&self, linger: Duration) -> bool {
        self.documents > 0 || self.documents_left_at.is_some_and(|at| at.elapsed() < linger)
    }

    /// Notifies the subscribers that are armed.
    pub(crate) fn notify(&self) {
        let armed =
            self.notifiers.values().filter(|notifier| !notifier.is_notified.swap(true, Ordering::AcqRel));
        armed.for_each(|notifier| notifier.notify.notify_one());
    }

    fn add(&mut self, notifier: Arc<Notifier>, interval: Duration, form: DeliveryForm) -> u64 {
        self.newest += 1;
        self.notifiers.insert(self.newest, notifier);
        *self.intervals.entry(interval).or_default() += 1;
        self.documents += usize::from(form == DeliveryForm::Documents);
        self.newest
    }

    fn remove(&mut self, number: u64, interval: Duration, form: DeliveryForm) {
        self.notifiers.remove(&number);
        self.left_at = Instant::now();
        let count = self.intervals.entry(interval).or_default();
        *count -= 1;
        if *count == 0 {
            self.intervals.remove(&interval);
        }
        if form == DeliveryForm::Documents {
            self.documents -= 1;
            self.documents_left_at = Some(self.left_at);
        }
    }
}

/// One subscriber of a channel. Dropping it unsubscribes.
pub(crate) struct Subscriber {
    pub(crate) channel: Arc<Channel>,
    live: Arc<Live>,
    number: u64,
    interval: Duration,
    form: DeliveryForm,
    notifier: Arc<Notifier>,
}

impl Subscriber {
    /// Adds a subscriber to a channel. The caller must keep the channel from being closed meanwhile.
    pub(crate) fn register(
        live: &Arc<Live>,
        channel: &Arc<Channel>,
        notify: &Arc<Notify>,
        interval: Duration,
        form: DeliveryForm,
    ) -> Subscriber {
        let notifier = Arc::new(Notifier { notify: Arc::clone(notify), is_notified: AtomicBool::new(false) });
        let number = channel.subscribers.lock().add(Arc::clone(&notifier), interval, form);
        let (live, channel) = (Arc::clone(live), Arc::clone(channel));
        Subscriber { channel, live, number, interval, form, notifier }
    }

    /// Arms the notifier again. Every change published before is visible afterwards.
    pub(crate) fn rearm(&self) {
        self.notifier.is_notified.store(false, Ordering::Release);
    }

    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }

    /// Subscribes to the same topic once more, with another interval.
    pub(crate) fn with_interval(&self, interval: Duration) -> Result<Subscriber, TooManyChannels> {
        let (game, topic) = (&self.channel.game, self.channel.topic.clone());
        self.live.subscribe(game, topic, &self.notifier.notify, interval, self.form)
    }

    pub(crate) fn live(&self) -> &Live {
        &self.live
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let leave = || self.channel.subscribers.lock().remove(self.number, self.interval, self.form);
        self.live.unsubscribe(&self.channel, self.interval, leave);
    }
}
