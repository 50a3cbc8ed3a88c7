//! One shared computation: its state, what it told last, those who watch it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use liveops::{LiveOps, Touched};
use parking_lot::Mutex;

use super::Live;
use super::docs::{Docs, Step};
use super::history::History;
use super::listener::Listeners;
use super::topic::{At, Source, Topic, Update};
use crate::catalog::Game;

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
    pub(super) game: Arc<Game>,
    topic: Topic,
    touched: AtomicBool,
    /// Held while computing, and until what was computed is published.
    source: Mutex<Box<dyn Source>>,
    published: Mutex<Published>,
    /// The number of the newest change.
    newest: AtomicU64,
    pub(super) listeners: Mutex<Listeners>,
}

struct Published {
    messages: History<Bytes>,
    /// `None`: nobody wanted documents when the newest change was made.
    docs: Option<Arc<Docs>>,
    steps: History<Arc<Step>>,
}

impl Channel {
    pub(super) fn new(game: Arc<Game>, topic: Topic, opened_at: u64) -> Channel {
        let source = topic.source(&game);
        let (messages, steps) = (History::new(opened_at), History::new(opened_at));
        Channel {
            game,
            topic,
            touched: AtomicBool::new(true),
            source: Mutex::new(source),
            published: Mutex::new(Published { messages, docs: None, steps }),
            newest: AtomicU64::new(opened_at),
            listeners: Mutex::default(),
        }
    }

    pub(super) fn touched(&self, metric: &str) {
        if self.topic.reads(metric, &self.game) {
            self.touched.store(true, Ordering::Release);
        }
    }

    pub(super) fn decided(&self, liveops: &LiveOps, touched: &[Touched]) {
        if touched.iter().any(|touched| self.topic.follows(liveops, self.game.number, touched)) {
            self.touched.store(true, Ordering::Release);
        }
    }

    /// Computes and publishes what changed.
    pub(super) fn advance(&self, live: &Live) {
        let mut source = self.source.lock();
        let touched = self.touched.swap(false, Ordering::AcqRel);
        let at = At::new(&live.views, &live.flows, &self.game, live.now_ms());
        let update = source.advance(&at, touched);
        if matches!(update, Update::Same) {
            return;
        }
        let wanted = self.listeners.lock().want_documents(LINGER);
        let docs = wanted.then(|| Docs::new(0, source.is_ranked(), source.documents()));
        let before = self.published.lock().docs.clone();
        let step = docs.as_ref().zip(before).map(|(docs, before)| docs.since(&before));
        live.publish(|number| {
            self.published.lock().publish(number, update, docs, step);
            self.newest.store(number, Ordering::Release);
        });
        drop(source);
        self.listeners.lock().ring();
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

impl Published {
    fn publish(&mut self, number: u64, update: Update, docs: Option<Docs>, step: Option<Arc<Step>>) {
        match update {
            Update::Change(fields) => self.messages.push(number, fields.len(), fields),
            // The state is no longer the old one with changes: everyone gets it whole.
            _ => self.messages = History::new(number),
        }
        let Some(mut docs) = docs else {
            (self.docs, self.steps) = (None, History::new(number));
            return;
        };
        docs.number = number;
        match step {
            Some(step) if step.changes.is_empty() => return,
            Some(step) => self.steps.push(number, step.bytes(), step),
            None => self.steps = History::new(number),
        }
        self.docs = Some(Arc::new(docs));
    }
}
