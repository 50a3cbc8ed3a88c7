//! Looks after the flows: ends the silent, tells ends and minutes as events, keeps what runs in the file.
//!
//! One thread. It sleeps until the first flow; while there are some it looks once a second at what is due.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use model::batch::Endpoint;
use model::flows::Flow;
use model::{RawBatch, RawEvent};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tracing::{error, warn};
use wal::{Ack, Lane, Wal};

use super::Flows;
use super::minutes::Minute;
use super::summary::describe;
use crate::catalog::Access;
use crate::catalog::Catalog;
use crate::ingest::{Claims, ClientInfo, Ingest, IngestError, IngestRequest};
use crate::time::now_ms;

/// How often what is due is looked at.
const STEP: Duration = Duration::from_secs(1);
/// How often the file is written at most. It is also written so seldom that this takes a twentieth of the time.
const FILE_EVERY: Duration = Duration::from_secs(5);
const FILE_SHARE: u32 = 20;
/// Ends of flows that wait for the log; of more, the oldest are given up and counted.
const WAITING_MAX: usize = 100_000;
/// Ends that are told at a time.
const BATCH: usize = 1_000;

/// What the reporter of flows uses.
pub struct ReporterContext {
    /// Receives the events and samples about flows.
    pub ingest: Arc<Ingest>,
    /// The flows.
    pub flows: Arc<Flows>,
    /// The games whose flows they are.
    pub catalog: Arc<Catalog>,
    /// Gives the thread its lane.
    pub wal: Wal<Claims>,
    /// The data folder, for the file of running flows.
    pub data: PathBuf,
    /// Becomes true when the server stops.
    pub stopping: watch::Receiver<bool>,
}

/// Starts the thread. It ends when the server stops, after all ends have been submitted and the file is written.
pub fn start(context: ReporterContext) -> anyhow::Result<JoinHandle<()>> {
    let runtime = Builder::new_current_thread().enable_time().build().context("starting a runtime")?;
    let work = move || {
        runtime.block_on(async {
            let lane = context.wal.lane();
            tokio::spawn(lane.pump());
            Reporter::new(context, lane).run().await;
        });
    };
    std::thread::Builder::new().name("flows".into()).spawn(work).context("starting a thread")
}

struct Reporter {
    context: ReporterContext,
    lane: Lane<Claims>,
    waiting: VecDeque<Flow>,
    /// Minutes since 1970, of the one that is going on.
    minute: i64,
    file_due: Instant,
    /// The file has flows in it.
    is_kept: bool,
    /// Counts the steps.
    steps: usize,
}

impl Reporter {
    fn new(context: ReporterContext, lane: Lane<Claims>) -> Reporter {
        let (minute, file_due) = (now_ms() / 60_000, Instant::now() + FILE_EVERY);
        Reporter { context, lane, waiting: VecDeque::new(), minute, file_due, is_kept: true, steps: 0 }
    }

    async fn run(mut self) {
        let mut stopping = self.context.stopping.clone();
        while !*stopping.borrow() {
            tokio::select! {
                () = tokio::time::sleep(STEP), if self.is_busy() => self.step().await,
                () = self.context.flows.bell.notified() => {}
                _ = stopping.changed() => {}
            }
        }
        self.sweep();
        self.tell_ends().await;
        self.write();
    }

    fn is_busy(&self) -> bool {
        self.context.flows.is_watched.load(Ordering::Relaxed)
    }

    async fn step(&mut self) {
        self.sweep();
        self.tell_ends().await;
        self.tell_minute().await;
        if Instant::now() >= self.file_due {
            self.write();
        }
        let is_idle = self.waiting.is_empty() && !self.is_kept;
        if is_idle && self.context.flows.trackers.iter().all(|tracker| tracker.lock().flow_count() == 0) {
            self.rest();
        }
    }

    /// From here on the bell is rung for the first flow. One that opened a moment ago has not rung it.
    fn rest(&self) {
        let flows = &self.context.flows;
        flows.is_watched.store(false, Ordering::Relaxed);
        let is_empty = flows.trackers.iter().all(|tracker| tracker.lock().flow_count() == 0);
        flows.wake(u64::from(!is_empty));
    }

    fn sweep(&mut self) {
        let flows = &self.context.flows;
        for tracker in &flows.trackers {
            let mut tracker = tracker.lock();
            tracker.expire(flows.now());
            let ended = tracker.drain_ended();
            // Under the tracker's lock, so that nobody finds a flow nowhere.
            flows.recent.note(&ended);
            self.waiting.extend(ended);
        }
        // Each shard once a minute: this looks at all sources.
        self.steps += 1;
        flows.senders[self.steps % super::SHARDS].lock().evict_idle(flows.now());
        let untold = self.waiting.len().saturating_sub(WAITING_MAX);
        self.waiting.drain(..untold);
        flows.untold.fetch_add(untold as u64, Ordering::Relaxed);
    }

    /// Tells the ends, game by game. What the log cannot take at the moment waits.
    async fn tell_ends(&mut self) {
        while let Some(first) = self.waiting.front() {
            let game = first.game;
            let length = self.waiting.iter().take(BATCH).take_while(|flow| flow.game == game).count();
            let batch: Vec<Flow> = self.waiting.drain(..length).collect();
            let props: Vec<String> = batch.iter().map(|flow| describe(flow).to_string()).collect();
            let events = batch.iter().zip(&props).map(|(flow, props)| end_event(flow, props)).collect();
            if let Err(failure) = self.send(game, events).await {
                warn!(%failure, "ends of flows wait for the log");
                batch.into_iter().rev().for_each(|flow| self.waiting.push_front(flow));
                return;
            }
        }
    }

    /// When a minute is over, tells how well the flows did in it.
    async fn tell_minute(&mut self) {
        let minute = now_ms() / 60_000;
        if minute == self.minute {
            return;
        }
        let over_ms = std::mem::replace(&mut self.minute, minute) * 60_000;
        let mut figures = Minute::default();
        for tracker in &self.context.flows.trackers {
            tracker.lock().finish_minute(|flow, quality| figures.add(flow.game, quality));
        }
        for told in figures.told() {
            if let Err(failure) = self.send(told.game, told.events(over_ms)).await {
                error!(%failure, "a minute of flows could not be told");
            }
        }
    }

    /// A game that is gone needs no events; what is over a quota is counted as limited, and not sent again.
    async fn send(&self, game: u32, events: Vec<RawEvent<'_>>) -> Result<(), IngestError> {
        let Some(game) = self.context.catalog.game_by_number(game) else { return Ok(()) };
        let access = Access::own(game);
        let (endpoint, received_ms) = (Endpoint::Flows, now_ms());
        let (ack, client) = (Ack::Disk, ClientInfo::default());
        let request = IngestRequest { endpoint, received_ms, ack, refused: &[], client };
        let count = events.len() as u64;
        let decoded = RawBatch { sent_at_ms: None, events: events.into_iter().map(Ok).collect() };
        match self.context.ingest.submit(&self.lane, &access, &request, &decoded).await {
            Ok(_) => Ok(()),
            Err(IngestError::Limited(over)) => {
                warn!(%over, "flows were not told");
                self.context.flows.untold.fetch_add(count, Ordering::Relaxed);
                Ok(())
            }
            Err(failure) => Err(failure),
        }
    }

    /// Writes the file. While ends wait to be told, the old one has their flows and stays.
    fn write(&mut self) {
        if !self.waiting.is_empty() {
            return;
        }
        let begin = Instant::now();
        match self.context.flows.keep(&self.context.data) {
            Ok(count) => self.is_kept = count > 0,
            Err(failure) => error!(%failure, "running flows would not survive a kill now"),
        }
        self.file_due = Instant::now() + FILE_EVERY.max(begin.elapsed() * FILE_SHARE);
    }
}

/// The end of a flow as an event. Its value is the estimated MOS, its id follows from the flow's.
fn end_event<'a>(flow: &Flow, props: &'a str) -> RawEvent<'a> {
    const KIND: u128 = 0x666c_6f77 << 96;
    let ended_ms = flow.ended.map_or(flow.last_ms, |(_, ended_ms)| ended_ms);
    RawEvent {
        name: Some(Cow::Borrowed("$flow")),
        id: Some(KIND | u128::from(flow.game) << 64 | u128::from(flow.id)),
        ts_ms: Some(ended_ms),
        value: Some(flow.quality().mos),
        props: Some(props),
        ..RawEvent::default()
    }
}
