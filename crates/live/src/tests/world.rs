//! The views and subscriptions of a server, without disk, sockets or threads, and with a simulated clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use liveops::{Caller, Command, CommandRef, Principal};
use model::batch::{BatchBuilder, Endpoint, KeyClass, StoredEvent};
use model::deltas::Deltas;
use pipeline::accounting::AccountingMetrics;
use pipeline::applier::apply_entry;
use pipeline::catalog::Game;
use pipeline::flows::Flows;
use pipeline::ingest::{BATCH, COMMAND};
use pipeline::query::pool::QueryPool;
use pipeline::views::Views;
use serde_json::{Value, json};
use testkit::counters::{MemoryCounters, MemoryDisk};
use tokio::sync::Notify;
use wal::EntryRef;

use crate::channel::Channel;
use crate::replica::DocumentReplica;
use crate::{DeliveryOptions, DocumentSubscription, Live, ResumePoint, Topic};

const START_MS: i64 = 1_800_000_000_000;

pub(super) struct World {
    pub(super) views: Arc<Views>,
    pub(super) live: Arc<Live>,
    pub(super) flows: Arc<Flows>,
    pub(super) game: Arc<Game>,
    clock: Arc<AtomicI64>,
    /// The next computation on a thread for queries panics.
    panics: Arc<AtomicBool>,
    offset: u64,
}

/// An event: name, player, country, value, and age in minutes.
pub(super) type EventFields<'a> = (&'a str, &'a str, &'a str, Option<f64>, i64);

impl World {
    pub(super) fn new() -> World {
        World::with(None)
    }

    /// Returns a world in which these threads compute slow channels.
    pub(super) fn with_queries(queries: &Arc<QueryPool>) -> World {
        World::with(Some(Arc::clone(queries)))
    }

    fn with(queries: Option<Arc<QueryPool>>) -> World {
        let counters = Arc::new(MemoryCounters::open(&MemoryDisk::default()));
        let views = Arc::new(Views::open(counters, "secret").expect("the store is empty"));
        let clock = Arc::new(AtomicI64::new(START_MS));
        let clock_copy = Arc::clone(&clock);
        let panics = Arc::new(AtomicBool::new(false));
        let panics_copy = Arc::clone(&panics);
        let flows = Arc::default();
        let live = Live::new(
            Arc::clone(&views),
            Arc::clone(&flows),
            "e".into(),
            1_000,
            Box::new(move || {
                let is_query = std::thread::current().name().is_some_and(|name| name.starts_with("query-"));
                assert!(!(is_query && panics_copy.swap(false, Ordering::SeqCst)), "an injected panic");
                clock_copy.load(Ordering::Relaxed)
            }),
            queries,
        );
        World { views, live, flows, game: game(1), clock, panics, offset: 0 }
    }

    /// Applies packets of flows, as JSON lines.
    pub(super) fn packets(&self, lines: &str) {
        for line in decode::flow::lines(lines.as_bytes()) {
            self.flows.apply_packets(1, &[line.expect("a packet").packet(0)]);
        }
    }

    /// Returns a world with the same views and the same time, without subscriptions.
    pub(super) fn without_subscriptions(&self) -> World {
        let clock = Arc::clone(&self.clock);
        let clock_copy = Arc::clone(&clock);
        let now = Box::new(move || clock_copy.load(Ordering::Relaxed));
        let (views, flows) = (Arc::clone(&self.views), Arc::clone(&self.flows));
        let live = Live::new(Arc::clone(&views), Arc::clone(&flows), "f".into(), 1_000, now, None);
        let (game, panics, offset) = (Arc::clone(&self.game), Arc::default(), self.offset);
        World { views, live, flows, game, clock, panics, offset }
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// Advances the clock.
    pub(super) fn advance(&self, seconds: i64) {
        self.clock.fetch_add(seconds * 1000, Ordering::Relaxed);
        self.run_due();
    }

    /// Applies one batch of events.
    pub(super) fn submit(&mut self, events: &[EventFields<'_>]) {
        self.submit_to(&game(1), events);
    }

    /// Applies one batch of events of another game.
    pub(super) fn submit_to(&mut self, game: &Game, events: &[EventFields<'_>]) {
        let now_ms = self.now_ms();
        let mut batch = BatchBuilder::new(Endpoint::Events, KeyClass::Public, game.number, now_ms, 64);
        for (name, player, country, value, minutes_ago) in events {
            let mut event =
                StoredEvent { ts_ms: now_ms - minutes_ago * 60_000, value: *value, ..StoredEvent::default() };
            (event.name, event.player) = (name.as_bytes(), player.as_bytes());
            event.dimensions[model::Dimension::Country as usize] = country.as_bytes();
            batch.push(&event);
        }
        let (bytes, events) = batch.finish(&[]);
        self.apply(BATCH, events, &bytes);
        self.run_due();
    }

    /// Applies an event of a player without computing any channel.
    pub(super) fn apply_hit(&mut self, player: &str) {
        let mut batch = BatchBuilder::new(Endpoint::Events, KeyClass::Public, 1, self.now_ms(), 64);
        let (name, player) = (&b"hit"[..], player.as_bytes());
        batch.push(&StoredEvent { ts_ms: self.now_ms(), name, player, ..StoredEvent::default() });
        let (bytes, events) = batch.finish(&[]);
        self.apply(BATCH, events, &bytes);
    }

    /// Applies a command: `{subject: {command: {...}}}`.
    pub(super) fn command(&mut self, command: Value) {
        let command: Command = serde_json::from_value(command).expect("a command");
        let by = Principal { caller: Caller::Server, signed: None };
        let (received_ms, tz) = (self.now_ms(), "UTC".to_owned());
        let command = CommandRef { game: 1, received_ms, by, tz, idempotency: None, command, blob: &[] };
        self.apply(COMMAND, 0, &liveops::encode(&command));
        self.run_due();
    }

    fn apply(&mut self, kind: u8, events: u32, bytes: &[u8]) {
        let time_ms = self.now_ms() as u64;
        let entry = EntryRef { offset: self.offset, kind, events, time_ms, bytes };
        let mut deltas = Deltas::default();
        apply_entry(&self.views, AccountingMetrics::get(), &mut deltas, &entry);
        let until = entry.until();
        self.views.counters.apply(self.offset..until, &deltas).expect("memory does not fail");
        self.views.recent_events.start_cycle();
        self.offset = until;
        self.views.publish_applied(until, &deltas);
    }

    /// Computes the channels that are due within an hour, so that tests do not depend on real time.
    pub(super) fn run_due(&self) {
        let soon = Instant::now() + Duration::from_secs(3600);
        // The second round computes the feeds that the posts of the first round marked dirty.
        for _ in 0..2 {
            self.live.run_due(self.live.schedule.remove_due(soon));
        }
    }

    /// Makes the next computation on a thread for queries panic.
    pub(super) fn inject_panic(&self) {
        self.panics.store(true, Ordering::SeqCst);
    }

    /// Returns true if the next computation on a thread for queries panics.
    pub(super) fn is_panic_pending(&self) -> bool {
        self.panics.load(Ordering::SeqCst)
    }

    /// Returns the channel that has this topic.
    pub(super) fn channel(&self, topic: &Topic) -> Arc<Channel> {
        let channels = self.live.channels.lock();
        let (topic, _) = topic.clone().into_shared(&self.game);
        Arc::clone(&channels.open[&(self.game.number, topic)])
    }

    /// Returns the number of computations of all channels.
    pub(super) fn computations(&self) -> u64 {
        let channels = self.live.channels.lock();
        channels.open.values().map(|channel| channel.stats().cost.computations).sum()
    }

    pub(super) fn subscribe(&self, topic: &Topic) -> TestSubscriber {
        self.open(0, topic, None)
    }

    pub(super) fn subscribe_every(&self, min_interval_ms: u32, topic: &Topic) -> TestSubscriber {
        self.open(min_interval_ms, topic, None)
    }

    pub(super) fn resume(&self, topic: &Topic, resume: Option<&ResumePoint>) -> TestSubscriber {
        self.open(0, topic, resume)
    }

    fn open(&self, min_interval_ms: u32, topic: &Topic, resume: Option<&ResumePoint>) -> TestSubscriber {
        let (notify, options) = (Arc::new(Notify::new()), DeliveryOptions { min_interval_ms });
        let subscription =
            DocumentSubscription::open(&self.live, &self.game, topic.clone(), options, resume, &notify);
        let subscription = subscription.expect("there are few channels");
        TestSubscriber { subscription, replica: DocumentReplica::default() }
    }
}

/// Returns a game's entry in the catalog.
pub(super) fn game(number: u32) -> Arc<Game> {
    let id = format!("game-{number}");
    let game = json!({ "number": number, "id": id, "name": id, "tz": "UTC", "public_key": "k" });
    Arc::new(serde_json::from_value(game).expect("a game"))
}

/// A client with one subscription and its copy of the documents.
pub(super) struct TestSubscriber {
    pub(super) subscription: DocumentSubscription,
    pub(super) replica: DocumentReplica,
}

impl TestSubscriber {
    /// Receives the next delivery. Returns the number of its changes.
    pub(super) fn receive(&mut self) -> Option<usize> {
        let delivery = self.subscription.next_delivery()?;
        self.replica.apply(&delivery.step.changes);
        Some(delivery.step.changes.len())
    }

    pub(super) fn resume_point(&self) -> ResumePoint {
        ResumePoint { epoch: "e".into(), number: self.subscription.offset() }
    }
}
