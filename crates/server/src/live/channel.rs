//! One shared computation: its state, its last changes, those who watch it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use liveops::{LiveOps, Touched};
use model::query::Plan;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::topic::{State, Topic, Update};
use crate::catalog::Game;
use crate::views::Views;

/// Changes kept for those who come back.
const CHANGES_MAX: usize = 64;
/// And their bytes together.
const CHANGES_BYTES_MAX: usize = 256 << 10;

/// One message as every client of a channel gets it: the JSON of an object without its outer braces.
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
    plan: Option<Plan>,
    touched: AtomicBool,
    idle_ticks: AtomicU32,
    inner: Mutex<Inner>,
    clients: Mutex<Vec<Weak<Notify>>>,
}

struct Inner {
    state: State,
    /// The number of the newest change.
    newest: u64,
    /// Changes after this number are all in `changes`.
    complete_after: u64,
    changes: VecDeque<Message>,
    bytes: usize,
}

impl Channel {
    pub(super) fn new(game: Arc<Game>, topic: Topic, opened_at: u64) -> Channel {
        let inner = Inner {
            state: State::default(),
            newest: opened_at,
            complete_after: opened_at,
            changes: VecDeque::new(),
            bytes: 0,
        };
        let plan = topic.plan(&game);
        Channel {
            game,
            topic,
            plan,
            touched: AtomicBool::new(true),
            idle_ticks: AtomicU32::new(0),
            inner: Mutex::new(inner),
            clients: Mutex::default(),
        }
    }

    pub(super) fn touched(&self, metric: &str) {
        if self.topic.reads(metric, self.plan.as_ref()) {
            self.touched.store(true, Ordering::Release);
        }
    }

    pub(super) fn decided(&self, liveops: &LiveOps, touched: &[Touched]) {
        if touched.iter().any(|touched| self.topic.follows(liveops, self.game.number, touched)) {
            self.touched.store(true, Ordering::Release);
        }
    }

    /// Computes; true if there is a change, which then has this number.
    pub(super) fn advance(&self, views: &Views, number: u64) -> bool {
        let touched = self.touched.swap(false, Ordering::AcqRel);
        let mut inner = self.inner.lock();
        match inner.state.advance(&self.topic, &self.game, views, touched) {
            Update::Same => false,
            Update::Change(fields) => inner.push(Message { number, name: "change", fields }),
            Update::Reset => inner.reset(number),
        }
    }

    /// The messages after number `after` and up to `until`; the whole state when they are no longer kept.
    pub(super) fn messages(&self, views: &Views, after: u64, until: u64, into: &mut Vec<Message>) -> u64 {
        let inner = self.inner.lock();
        if after < inner.complete_after {
            let fields = inner.state.snapshot(&self.topic, &self.game, views);
            into.push(Message { number: until, name: "reset", fields });
            return inner.newest.max(until);
        }
        let newer = inner.changes.iter().filter(|message| message.number > after && message.number <= until);
        into.extend(newer.cloned());
        until.max(after)
    }

    /// The whole state and the number of its newest change.
    pub(super) fn snapshot(&self, views: &Views) -> (Bytes, u64) {
        let inner = self.inner.lock();
        (inner.state.snapshot(&self.topic, &self.game, views), inner.newest)
    }

    /// Whether everything after this number is still kept.
    pub(super) fn remembers(&self, number: u64) -> bool {
        self.inner.lock().complete_after <= number
    }

    pub(super) fn join(&self, client: &Arc<Notify>) {
        let mut clients = self.clients.lock();
        clients.retain(|client| client.strong_count() > 0);
        clients.push(Arc::downgrade(client));
    }

    pub(super) fn notify(&self) {
        self.clients.lock().iter().filter_map(Weak::upgrade).for_each(|client| client.notify_one());
    }

    /// Whether to keep the channel: it has clients, or had some not long ago.
    pub(super) fn linger(&self, ticks_max: u32) -> bool {
        let watched = self.clients.lock().iter().any(|client| client.strong_count() > 0);
        if watched {
            self.idle_ticks.store(0, Ordering::Relaxed);
            return true;
        }
        self.idle_ticks.fetch_add(1, Ordering::Relaxed) < ticks_max
    }
}

impl Inner {
    fn push(&mut self, message: Message) -> bool {
        self.newest = message.number;
        self.bytes += message.fields.len();
        self.changes.push_back(message);
        while self.changes.len() > CHANGES_MAX || self.bytes > CHANGES_BYTES_MAX {
            let Some(oldest) = self.changes.pop_front() else { break };
            self.bytes -= oldest.fields.len();
            self.complete_after = oldest.number;
        }
        true
    }

    /// The state is no longer the old one with changes: everyone gets it whole.
    fn reset(&mut self, number: u64) -> bool {
        self.changes.clear();
        (self.bytes, self.newest, self.complete_after) = (0, number, number);
        true
    }
}
