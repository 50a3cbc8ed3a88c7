//! One shared computation: its state, what it told last, those who watch it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;

use super::Live;
use super::cost::Cost;
use super::docs::{Docs, Step};
use super::history::History;
use super::listener::Listeners;
use super::topic::{At, Mode, Source, Topic, Update};
use super::touches::Touches;
use pipeline::catalog::Game;
use pipeline::interest::Interest;

/// A channel that nobody watches is kept so long, for those who come back. It costs memory only.
pub(super) const LINGER: Duration = Duration::from_secs(30);

/// One message as every stream of a channel gets it: the JSON of an object without its outer braces.
#[derive(Clone, Debug)]
pub struct Message {
    /// The change's number.
    pub number: u64,
    /// `snapshot`, `change` or `reset`.
    pub name: &'static str,
    /// The fields of the object after `sub`.
    pub fields: Bytes,
}

pub(crate) struct Channel {
    /// Names it as long as the server runs.
    pub(super) number: u64,
    pub(super) game: Arc<Game>,
    pub(super) topic: Topic,
    routes: Vec<Interest>,
    touches: Mutex<Touches>,
    /// Held while computing, and until what was computed is published.
    source: Mutex<Box<dyn Source>>,
    published: Mutex<Published>,
    /// The number of the newest change.
    newest: AtomicU64,
    pub(super) listeners: Mutex<Listeners>,
    run: Mutex<Run>,
    changes: AtomicU64,
    merged: AtomicU64,
    pub(super) opened_at_ms: i64,
}

struct Published {
    messages: History<Bytes>,
    /// `None`: nobody wanted documents when the newest change was made.
    docs: Option<Arc<Docs>>,
    steps: History<Arc<Step>>,
}

/// What is known of the computations so far.
#[derive(Default)]
struct Run {
    cost: Cost,
    /// When the last one began.
    ran_at: Option<Instant>,
    /// When it changes by itself, in milliseconds since 1970.
    due_ms: Option<i64>,
    mode: Option<Mode>,
}

/// What a channel has come to.
pub(super) struct Tally {
    pub cost: Cost,
    pub mode: Option<Mode>,
    pub changes: u64,
    /// How often somebody was told several changes at once.
    pub merged: u64,
    /// Kept for those who come back.
    pub bytes: usize,
}

impl Channel {
    pub(super) fn new(number: u64, game: Arc<Game>, topic: Topic, opened_at: u64, now_ms: i64) -> Channel {
        let (source, routes) = (topic.source(), topic.routes(&game));
        let (messages, steps) = (History::new(opened_at), History::new(opened_at));
        Channel {
            number,
            game,
            topic,
            routes,
            touches: Mutex::new(Touches::All),
            source: Mutex::new(source),
            published: Mutex::new(Published { messages, docs: None, steps }),
            newest: AtomicU64::new(opened_at),
            listeners: Mutex::default(),
            run: Mutex::default(),
            changes: AtomicU64::new(0),
            merged: AtomicU64::new(0),
            opened_at_ms: now_ms,
        }
    }

    pub(super) fn routes(&self) -> &[Interest] {
        &self.routes
    }

    /// Something that it reads was added to in this minute, or (`None`) may be another altogether. True: for the first
    /// time since it was computed.
    pub(super) fn touch(&self, minute: Option<u32>) -> bool {
        let mut touches = self.touches.lock();
        let is_first = touches.is_empty();
        match minute {
            Some(minute) => touches.add(minute),
            None => *touches = Touches::All,
        }
        is_first
    }

    pub(super) fn is_touched(&self) -> bool {
        !self.touches.lock().is_empty()
    }

    /// When it may be computed again: not more often than anybody wants it, and not more often than it can be afforded.
    pub(super) fn free_at(&self, now: Instant) -> Instant {
        let interval = self.listeners.lock().interval();
        let wanted = self.run.lock().ran_at.map_or(now, |ran_at| ran_at + interval);
        wanted.max(self.affordable_at(now))
    }

    /// When it can be afforded again.
    pub(super) fn affordable_at(&self, now: Instant) -> Instant {
        let run = self.run.lock();
        run.ran_at.map_or(now, |ran_at| now.max(ran_at + run.cost.pause()))
    }

    /// When it has to be computed next, as far as is known now.
    pub(super) fn next_at(&self, now: Instant, now_ms: i64) -> Option<Instant> {
        let free_at = self.free_at(now);
        if self.is_touched() {
            return Some(free_at);
        }
        let due_ms = self.run.lock().due_ms?;
        Some(free_at.max(now + Duration::from_millis((due_ms - now_ms).max(0) as u64)))
    }

    /// Computes and publishes what changed, if it can have changed.
    pub(super) fn advance(&self, live: &Live) {
        let mut source = self.source.lock();
        let touches = std::mem::take(&mut *self.touches.lock());
        let at = At::new(&live.views, &live.flows, &self.game, live.now_ms());
        let is_due = source.due_ms().is_some_and(|due_ms| due_ms <= at.ms);
        if touches.is_empty() && !is_due {
            return;
        }
        let began = Instant::now();
        let mut cost = self.run.lock().cost;
        let (update, docs) = cost.of(|| self.compute(&mut **source, &at, &touches));
        let (due_ms, mode) = (source.due_ms(), Some(source.mode()));
        *self.run.lock() = Run { cost, ran_at: Some(began), due_ms, mode };
        if matches!(update, Update::Same) {
            return;
        }
        self.changes.fetch_add(1, Ordering::Relaxed);
        live.publish(|number| {
            self.published.lock().publish(number, update, docs);
            self.newest.store(number, Ordering::Release);
        });
        drop(source);
        self.listeners.lock().ring();
    }

    /// What is new, and as documents if anybody wants that, with the step from the documents before.
    fn compute(&self, source: &mut dyn Source, at: &At<'_>, touches: &Touches) -> (Update, Option<NewDocs>) {
        let update = source.advance(at, touches);
        if matches!(update, Update::Same) || !self.listeners.lock().want_documents(LINGER) {
            return (update, None);
        }
        let docs = Docs::new(0, source.is_ranked(), source.documents());
        let before = self.published.lock().docs.clone();
        let step = before.map(|before| docs.since(&before));
        (update, Some((docs, step)))
    }

    /// What it has come to so far.
    pub(super) fn tally(&self) -> Tally {
        let bytes = {
            let published = self.published.lock();
            published.messages.bytes() + published.steps.bytes()
        };
        let run = self.run.lock();
        let [changes, merged] = [&self.changes, &self.merged].map(|count| count.load(Ordering::Relaxed));
        Tally { cost: run.cost, mode: run.mode, changes, merged, bytes }
    }

    /// Somebody was told several changes at once.
    pub(super) fn merged(&self) {
        self.merged.fetch_add(1, Ordering::Relaxed);
    }

    /// Since when nobody watches.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        self.listeners.lock().idle_since()
    }

    /// The messages after number `after` and up to `until`; the whole state when they are no longer kept.
    pub(super) fn messages(&self, after: u64, until: u64, into: &mut Vec<Message>) -> u64 {
        let published = self.published.lock();
        if let Some(newer) = published.messages.since(after) {
            let newer = newer.filter(|(number, _)| *number <= until);
            into.extend(newer.map(|(number, fields)| Message {
                number,
                name: "change",
                fields: fields.clone(),
            }));
            return until.max(after);
        }
        drop(published);
        let (fields, newest) = self.whole();
        into.push(Message { number: until, name: "reset", fields });
        newest.max(until)
    }

    /// The whole state and the number of its newest change.
    pub(super) fn whole(&self) -> (Bytes, u64) {
        let source = self.source.lock();
        (source.whole(), self.newest())
    }

    /// The number of the newest change.
    pub(super) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Acquire)
    }

    /// Whether the messages after this number are all kept.
    pub(super) fn remembers(&self, number: u64) -> bool {
        self.published.lock().messages.reaches(number)
    }

    /// The state as documents.
    pub(super) fn docs(&self) -> Arc<Docs> {
        if let Some(docs) = self.published.lock().docs.clone() {
            return docs;
        }
        let mut source = self.source.lock();
        let (number, is_ranked, list) = (self.newest(), source.is_ranked(), source.documents());
        let mut published = self.published.lock();
        let docs = Arc::new(Docs::new(number, is_ranked, list));
        (published.docs, published.steps) = (Some(Arc::clone(&docs)), History::new(number));
        docs
    }

    /// The state as documents and the way there from the state of this number, if that is still known.
    pub(super) fn resume(&self, number: u64) -> Option<(Arc<Docs>, Arc<Step>)> {
        let docs = self.docs();
        let published = self.published.lock();
        let docs = published.docs.clone().unwrap_or(docs);
        let steps = published.steps.since(number)?;
        let changes = steps.flat_map(|(_, step)| step.changes.iter().cloned()).collect();
        Some((docs, Arc::new(Step::new(changes))))
    }
}

/// Documents that have no number yet, and what changed since those before.
type NewDocs = (Docs, Option<Arc<Step>>);

impl Published {
    fn publish(&mut self, number: u64, update: Update, docs: Option<NewDocs>) {
        match update {
            Update::Change(fields) => self.messages.push(number, fields.len(), fields),
            Update::Whole(fields) => self.messages.replace(number, fields.len(), fields),
            // The state is no longer the old one with changes: everyone gets it whole.
            Update::Reset | Update::Same => self.messages = History::new(number),
        }
        let Some((mut docs, step)) = docs else {
            (self.docs, self.steps) = (None, History::new(number));
            return;
        };
        (docs.number, docs.before) = (number, self.docs.as_ref().map(|docs| docs.number));
        match step {
            Some(step) if step.changes.is_empty() => return,
            Some(step) => self.steps.push(number, step.bytes(), step),
            None => self.steps = History::new(number),
        }
        self.docs = Some(Arc::new(docs));
    }
}
