//! One shared computation: its state, its latest changes and its subscribers.

mod published;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use pipeline::catalog::Game;
use pipeline::interest::Interest;

use crate::Live;
use crate::cost::Cost;
use crate::dirty_minutes::DirtyMinutes;
use crate::documents::{DocumentSet, Step};
use crate::history::History;
use crate::source::{ComputeContext, ComputeMode, TopicSource, Update};
use crate::subscribers::Subscribers;
use crate::topic::Topic;
use published::{NewDocuments, PublishedState};

/// A channel without subscribers is kept this long for clients that resume. It costs memory only.
pub(crate) const LINGER: Duration = Duration::from_secs(30);
/// A channel whose cost demands longer pauses than this, from 12.5 ms of CPU a computation on, is expensive.
const EXPENSIVE_PAUSE: Duration = Duration::from_millis(250);

/// One message, as every stream of a channel gets it.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// The number of the change.
    pub(crate) number: u64,
    /// `snapshot`, `change` or `reset`.
    pub(crate) name: &'static str,
    /// The fields that follow `sub` in the JSON object: an object without its outer braces.
    pub(crate) fields: Bytes,
}

pub(crate) struct Channel {
    /// Identifies the channel in this run of the server.
    pub(crate) number: u64,
    pub(crate) game: Arc<Game>,
    pub(crate) topic: Topic,
    interests: Vec<Interest>,
    dirty: Mutex<DirtyMinutes>,
    /// Locked from the start of a computation until its result is published.
    source: Mutex<Box<dyn TopicSource>>,
    published: Mutex<PublishedState>,
    /// The number of the newest change.
    newest: AtomicU64,
    pub(crate) subscribers: Mutex<Subscribers>,
    last_run: Mutex<LastRun>,
    /// True while another thread than that of `live` computes the channel.
    is_dispatched: AtomicBool,
    changes: AtomicU64,
    merged: AtomicU64,
    pub(crate) opened_at_ms: i64,
}

/// Marks a channel dirty if its computation panics: what was dirty before is not computed.
struct DirtyAfterPanic<'a>(&'a Channel);

impl Drop for DirtyAfterPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.mark_dirty(None);
        }
    }
}

/// The last computation and the cost of all of them.
#[derive(Default)]
struct LastRun {
    cost: Cost,
    started_at: Option<Instant>,
    /// When the result changes without new data, in milliseconds since 1970.
    due_ms: Option<i64>,
    mode: Option<ComputeMode>,
}

/// Statistics of a channel.
pub(crate) struct ChannelStats {
    pub(crate) cost: Cost,
    pub(crate) mode: Option<ComputeMode>,
    pub(crate) changes: u64,
    /// Deliveries that contained several changes.
    pub(crate) merged: u64,
    /// Bytes kept for clients that resume.
    pub(crate) bytes: usize,
}

impl Channel {
    pub(crate) fn new(number: u64, game: Arc<Game>, topic: Topic, opened_at: u64, now_ms: i64) -> Channel {
        let (source, interests) = (topic.source(), topic.interests(&game));
        Channel {
            number,
            game,
            topic,
            interests,
            dirty: Mutex::new(DirtyMinutes::All),
            source: Mutex::new(source),
            published: Mutex::new(PublishedState::new(opened_at)),
            newest: AtomicU64::new(opened_at),
            subscribers: Mutex::default(),
            last_run: Mutex::default(),
            is_dispatched: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            merged: AtomicU64::new(0),
            opened_at_ms: now_ms,
        }
    }

    pub(crate) fn interests(&self) -> &[Interest] {
        &self.interests
    }

    /// Records that data of this minute changed, or (`None`) that anything may have changed. Returns true if it is the
    /// first change since the last computation.
    pub(crate) fn mark_dirty(&self, minute: Option<u32>) -> bool {
        let mut dirty = self.dirty.lock();
        let is_first = dirty.is_empty();
        match minute {
            Some(minute) => dirty.add(minute),
            None => *dirty = DirtyMinutes::All,
        }
        is_first
    }

    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.lock().is_empty()
    }

    /// Returns the earliest time at which the channel may be computed again: not more often than the subscribers want, and
    /// not more often than its cost allows.
    pub(crate) fn earliest_refresh(&self, now: Instant) -> Instant {
        let interval = self.subscribers.lock().min_interval();
        let wanted = self.last_run.lock().started_at.map_or(now, |started_at| started_at + interval);
        wanted.max(self.throttled_until(now))
    }

    /// Returns the time until which the cost of the channel forbids another computation.
    pub(crate) fn throttled_until(&self, now: Instant) -> Instant {
        let run = self.last_run.lock();
        run.started_at.map_or(now, |started_at| now.max(started_at + run.cost.pause()))
    }

    /// Returns true if a computation costs so much that new subscribers must wait for the next regular one.
    pub(crate) fn is_expensive(&self) -> bool {
        self.last_run.lock().cost.pause() > EXPENSIVE_PAUSE
    }

    /// Returns true if a computation may take long: a query that has not run yet or is expensive.
    pub(crate) fn is_slow(&self) -> bool {
        matches!(self.topic, Topic::Query(_))
            && (self.last_run.lock().started_at.is_none() || self.is_expensive())
    }

    /// Reserves the computation for another thread. Returns false if one has it already.
    pub(crate) fn begin_dispatch(&self) -> bool {
        !self.is_dispatched.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn end_dispatch(&self) {
        self.is_dispatched.store(false, Ordering::Release);
    }

    /// Returns the time of the next computation, as far as it is known now.
    pub(crate) fn next_refresh(&self, now: Instant, now_ms: i64) -> Option<Instant> {
        let earliest = self.earliest_refresh(now);
        if self.is_dirty() {
            return Some(earliest);
        }
        let due_ms = self.last_run.lock().due_ms?;
        Some(earliest.max(now + Duration::from_millis((due_ms - now_ms).max(0) as u64)))
    }

    /// Computes the channel if its result may have changed, and publishes the changes.
    pub(crate) fn refresh(&self, live: &Live) {
        let mut source = self.source.lock();
        let dirty = std::mem::take(&mut *self.dirty.lock());
        let _dirty_after_panic = DirtyAfterPanic(self);
        let control = live.query_control();
        let context = ComputeContext::new(&live.views, &live.flows, &self.game, live.now_ms(), &*control);
        let is_due = source.due_ms().is_some_and(|due_ms| due_ms <= context.now_ms);
        if dirty.is_empty() && !is_due {
            return;
        }
        let started_at = Instant::now();
        let mut cost = self.last_run.lock().cost;
        let (update, documents) = cost.measure(|| self.compute(&mut **source, &context, &dirty));
        let (due_ms, mode) = (source.due_ms(), Some(source.mode()));
        *self.last_run.lock() = LastRun { cost, started_at: Some(started_at), due_ms, mode };
        if matches!(update, Update::Unchanged) {
            return;
        }
        self.changes.fetch_add(1, Ordering::Relaxed);
        live.publish(|number| {
            self.published.lock().publish(number, update, documents);
            self.newest.store(number, Ordering::Release);
        });
        drop(source);
        self.subscribers.lock().notify();
    }

    /// Computes the update, and the documents with the step from the previous ones if a subscriber needs them.
    fn compute(
        &self,
        source: &mut dyn TopicSource,
        context: &ComputeContext<'_>,
        dirty: &DirtyMinutes,
    ) -> (Update, Option<NewDocuments>) {
        let update = source.update(context, dirty);
        if matches!(update, Update::Unchanged) || !self.subscribers.lock().need_documents(LINGER) {
            return (update, None);
        }
        let documents = DocumentSet::new(0, source.is_ranked(), source.documents());
        let previous = self.published.lock().documents.clone();
        let step = previous.map(|previous| documents.step_since(&previous));
        (update, Some((documents, step)))
    }

    pub(crate) fn stats(&self) -> ChannelStats {
        let bytes = {
            let published = self.published.lock();
            published.messages.bytes() + published.steps.bytes()
        };
        let run = self.last_run.lock();
        let [changes, merged] = [&self.changes, &self.merged].map(|count| count.load(Ordering::Relaxed));
        ChannelStats { cost: run.cost, mode: run.mode, changes, merged, bytes }
    }

    /// Counts a delivery that contained several changes.
    pub(crate) fn count_merged(&self) {
        self.merged.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the time since which there are no subscribers.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        self.subscribers.lock().idle_since()
    }

    /// Appends the messages after number `after` up to number `until` to `into`, or the full state if they are no longer
    /// kept. Returns the number up to which `into` is complete. `None`: the full state is being computed.
    pub(crate) fn read_messages(&self, after: u64, until: u64, into: &mut Vec<Message>) -> Option<u64> {
        let published = self.published.lock();
        if let Some(newer) = published.messages.since(after) {
            let newer = newer.filter(|(number, _)| *number <= until);
            into.extend(newer.map(|(number, fields)| Message {
                number,
                name: "change",
                fields: fields.clone(),
            }));
            return Some(until.max(after));
        }
        drop(published);
        let (fields, newest) = self.full_state()?;
        into.push(Message { number: until, name: "reset", fields });
        Some(newest.max(until))
    }

    /// Returns the full state and the number of its newest change. `None` while it is being computed, which can take
    /// seconds: no connection may wait for it.
    pub(crate) fn full_state(&self) -> Option<(Bytes, u64)> {
        let source = self.source.try_lock()?;
        Some((source.full_state(), self.newest()))
    }

    /// Makes the channel one that costs much.
    #[cfg(test)]
    pub(crate) fn set_expensive(&self) {
        self.last_run.lock().cost.add(Duration::from_secs(1));
    }

    /// Holds the state as a computation does.
    #[cfg(test)]
    pub(crate) fn hold_source(&self) -> impl Sized {
        self.source.lock()
    }

    /// Returns the number of the newest change.
    pub(crate) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Acquire)
    }

    /// Returns true if all messages after this number are still kept.
    pub(crate) fn has_messages_since(&self, number: u64) -> bool {
        self.published.lock().messages.is_complete_since(number)
    }

    /// Returns the newest state as documents. `None` while the first of them are being computed.
    pub(crate) fn documents(&self) -> Option<Arc<DocumentSet>> {
        if let Some(documents) = self.published.lock().documents.clone() {
            return Some(documents);
        }
        let mut source = self.source.try_lock()?;
        let (number, is_ranked, list) = (self.newest(), source.is_ranked(), source.documents());
        let mut published = self.published.lock();
        let documents = Arc::new(DocumentSet::new(number, is_ranked, list));
        (published.documents, published.steps) = (Some(Arc::clone(&documents)), History::new(number));
        Some(documents)
    }

    /// Returns the newest documents and the step to them from the state of this number. `None`: the steps since then are
    /// no longer kept.
    pub(crate) fn resume(&self, number: u64) -> Option<(Arc<DocumentSet>, Arc<Step>)> {
        let documents = self.documents()?;
        let published = self.published.lock();
        let documents = published.documents.clone().unwrap_or(documents);
        let steps = published.steps.since(number)?;
        let changes = steps.flat_map(|(_, step)| step.changes.iter().cloned()).collect();
        Some((documents, Arc::new(Step::new(changes))))
    }
}
