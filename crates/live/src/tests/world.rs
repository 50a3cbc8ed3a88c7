//! A server's views and subscriptions without a disk, a socket or a thread, and with a clock that is set.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use liveops::{Caller, Command, CommandRef, Principal};
use model::batch::{BatchBuilder, Endpoint, KeyClass, StoredEvent};
use model::deltas::Deltas;
use serde_json::{Value, json};
use testkit::counters::{MemoryCounters, MemoryDisk};
use tokio::sync::Notify;
use wal::EntryRef;

use crate::copy::Copy;
use crate::{Live, Options, Resume, Topic, Watch};
use pipeline::accounting::AccountingMetrics;
use pipeline::applier::apply_entry;
use pipeline::catalog::Game;
use pipeline::flows::Flows;
use pipeline::ingest::{BATCH, COMMAND};
use pipeline::views::Views;

pub const START_MS: i64 = 1_800_000_000_000;

pub struct World {
    pub views: Arc<Views>,
    pub live: Arc<Live>,
    pub flows: Arc<Flows>,
    pub game: Arc<Game>,
    clock: Arc<AtomicI64>,
    offset: u64,
}

/// An event: name, player, country, value, and minutes before now.
pub type Happened<'a> = (&'a str, &'a str, &'a str, Option<f64>, i64);

impl World {
    pub fn new() -> World {
        let counters = Arc::new(MemoryCounters::open(&MemoryDisk::default()));
        let views = Arc::new(Views::open(counters, "secret").expect("nothing is kept"));
        let clock = Arc::new(AtomicI64::new(START_MS));
        let told = Arc::clone(&clock);
        let flows = Arc::default();
        let live = Live::new(
            Arc::clone(&views),
            Arc::clone(&flows),
            "e".into(),
            1_000,
            Box::new(move || told.load(Ordering::Relaxed)),
        );
        World { views, live, flows, game: game(1), clock, offset: 0 }
    }

    /// Packets of flows, as JSON lines.
    pub fn packets(&self, lines: &str) {
        for line in decode::flow::lines(lines.as_bytes()) {
            self.flows.apply_packets(1, &[line.expect("a packet").packet(0)]);
        }
    }

    /// The same views and the same time, with subscriptions that know nothing yet.
    pub fn fresh(&self) -> World {
        let clock = Arc::clone(&self.clock);
        let told = Arc::clone(&clock);
        let now = Box::new(move || told.load(Ordering::Relaxed));
        let (views, flows) = (Arc::clone(&self.views), Arc::clone(&self.flows));
        let live = Live::new(Arc::clone(&views), Arc::clone(&flows), "f".into(), 1_000, now);
        World { views, live, flows, game: Arc::clone(&self.game), clock, offset: self.offset }
    }

    pub fn now_ms(&self) -> i64 {
        self.clock.load(Ordering::Relaxed)
    }

    pub fn pass(&self, seconds: i64) {
        self.clock.fetch_add(seconds * 1000, Ordering::Relaxed);
        self.work();
    }

    /// One batch of events is applied.
    pub fn post(&mut self, events: &[Happened<'_>]) {
        self.post_to(&game(1), events);
    }

    pub fn post_to(&mut self, game: &Game, events: &[Happened<'_>]) {
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
    }

    /// A command is decided: `{subject: {command: {...}}}`.
    pub fn command(&mut self, command: Value) {
        let command: Command = serde_json::from_value(command).expect("a command");
        let by = Principal { caller: Caller::Server, signed: None };
        let (received_ms, tz) = (self.now_ms(), "UTC".to_owned());
        let command = CommandRef { game: 1, received_ms, by, tz, idempotency: None, command, blob: &[] };
        self.apply(COMMAND, 0, &liveops::encode(&command));
    }

    fn apply(&mut self, kind: u8, events: u32, bytes: &[u8]) {
        let entry = EntryRef { offset: self.offset, kind, events, bytes };
        let mut deltas = Deltas::default();
        apply_entry(&self.views, AccountingMetrics::get(), &mut deltas, &entry);
        let until = entry.until();
        self.views.counters.apply(self.offset..until, &deltas).expect("memory does not fail");
        self.views.recent_events.start_cycle();
        self.offset = until;
        self.views.publish_applied(until, &deltas);
        self.work();
    }

    /// Computes what is due, or would be within an hour: real time plays no part.
    pub fn work(&self) {
        let soon = Instant::now() + Duration::from_secs(3600);
        // The second time for what was found out by looking at posts.
        for _ in 0..2 {
            self.live.work(self.live.queue.take(soon));
        }
    }

    /// How often anything was computed.
    pub fn computations(&self) -> u64 {
        let channels = self.live.channels.lock();
        channels.open.values().map(|channel| channel.tally().cost.computations).sum()
    }

    pub fn watch(&self, topic: &Topic) -> Follower {
        self.open(0, topic, None)
    }

    pub fn watch_every(&self, min_interval_ms: u32, topic: &Topic) -> Follower {
        self.open(min_interval_ms, topic, None)
    }

    pub fn watch_from(&self, topic: &Topic, resume: Option<&Resume>) -> Follower {
        self.open(0, topic, resume)
    }

    fn open(&self, min_interval_ms: u32, topic: &Topic, resume: Option<&Resume>) -> Follower {
        let (bell, options) = (Arc::new(Notify::new()), Options { min_interval_ms });
        let watch = Watch::open(&self.live, &self.game, topic.clone(), options, resume, &bell);
        Follower { watch: watch.expect("there is room"), copy: Copy::default() }
    }
}

/// A game's entry in the catalog.
pub fn game(number: u32) -> Arc<Game> {
    let id = format!("game-{number}");
    let game = json!({ "number": number, "id": id, "name": id, "tz": "UTC", "public_key": "k" });
    Arc::new(serde_json::from_value(game).expect("a game"))
}

/// A client that follows one subscription.
pub struct Follower {
    pub watch: Watch,
    pub copy: Copy,
}

impl Follower {
    /// Takes what is new; how many changes that is.
    pub fn take(&mut self) -> Option<usize> {
        let told = self.watch.take()?;
        self.copy.follow(&told.step.changes);
        Some(told.step.changes.len())
    }

    pub fn resume(&self) -> Resume {
        Resume { epoch: "e".into(), number: self.watch.offset() }
    }
}
