//! Those who watch a channel: who is told that there is something new, and how often at most.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::channel::Channel;
use super::{Live, TooManyChannels};

/// As what a channel is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Messages,
    Documents,
}

/// Told that there is something new, once until it listens again.
struct Ear {
    bell: Arc<Notify>,
    is_rung: AtomicBool,
}

/// The listeners of a channel.
pub(super) struct Listeners {
    ears: HashMap<u64, Arc<Ear>>,
    next: u64,
    intervals: BTreeMap<Duration, usize>,
    documents: usize,
    /// When the last one left, and the last who wanted documents.
    left_at: Instant,
    undocumented_at: Option<Instant>,
}

impl Default for Listeners {
    fn default() -> Listeners {
        let left_at = Instant::now();
        let (ears, intervals) = (HashMap::new(), BTreeMap::new());
        Listeners { ears, next: 0, intervals, documents: 0, left_at, undocumented_at: None }
    }
}

impl Listeners {
    /// How many there are, and how many of them want documents.
    pub fn count(&self) -> (usize, usize) {
        (self.ears.len(), self.documents)
    }

    /// The smallest interval that anybody wants.
    pub fn interval(&self) -> Duration {
        self.intervals.keys().next().copied().unwrap_or_default()
    }

    /// Since when nobody listens.
    pub fn idle_since(&self) -> Option<Instant> {
        self.ears.is_empty().then_some(self.left_at)
    }

    /// Somebody wants documents, or did until so long ago and may come back.
    pub fn want_documents(&self, linger: Duration) -> bool {
        self.documents > 0 || self.undocumented_at.is_some_and(|at| at.elapsed() < linger)
    }

    /// Rings whoever has not been rung since it listened last.
    pub fn ring(&self) {
        let quiet = self.ears.values().filter(|ear| !ear.is_rung.swap(true, Ordering::AcqRel));
        quiet.for_each(|ear| ear.bell.notify_one());
    }

    fn join(&mut self, ear: Arc<Ear>, interval: Duration, form: Form) -> u64 {
        self.next += 1;
        self.ears.insert(self.next, ear);
        *self.intervals.entry(interval).or_default() += 1;
        self.documents += usize::from(form == Form::Documents);
        self.next
    }

    fn leave(&mut self, number: u64, interval: Duration, form: Form) {
        self.ears.remove(&number);
        self.left_at = Instant::now();
        let count = self.intervals.entry(interval).or_default();
        *count -= 1;
        if *count == 0 {
            self.intervals.remove(&interval);
        }
        if form == Form::Documents {
            self.documents -= 1;
            self.undocumented_at = Some(self.left_at);
        }
    }
}

/// A place among the listeners of a channel; given up when dropped.
pub(super) struct Listener {
    pub channel: Arc<Channel>,
    live: Arc<Live>,
    number: u64,
    interval: Duration,
    form: Form,
    ear: Arc<Ear>,
}

impl Listener {
    /// Listens. `bell` is rung when there is something new. Whoever calls this sees to it that the channel stays open.
    pub fn join(
        live: &Arc<Live>,
        channel: &Arc<Channel>,
        bell: &Arc<Notify>,
        interval: Duration,
        form: Form,
    ) -> Listener {
        let ear = Arc::new(Ear { bell: Arc::clone(bell), is_rung: AtomicBool::new(false) });
        let number = channel.listeners.lock().join(Arc::clone(&ear), interval, form);
        let (live, channel) = (Arc::clone(live), Arc::clone(channel));
        Listener { channel, live, number, interval, form, ear }
    }

    /// From now on the bell is rung again. Whatever was published before can be seen after.
    pub fn listen(&self) {
        self.ear.is_rung.store(false, Ordering::Release);
    }

    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// The same once more, in another interval.
    pub fn again(&self, interval: Duration) -> Result<Listener, TooManyChannels> {
        let (game, topic) = (&self.channel.game, self.channel.topic.clone());
        self.live.join(game, topic, &self.ear.bell, interval, self.form)
    }

    pub fn live(&self) -> &Live {
        &self.live
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let leave = || self.channel.listeners.lock().leave(self.number, self.interval, self.form);
        self.live.left(&self.channel, self.interval, leave);
    }
}
