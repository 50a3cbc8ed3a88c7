//! The reporter of flows: ends idle flows, reports ended flows and minutes as events, saves running flows in the file.
//!
//! It is one thread, which sleeps until the first flow opens. While there are flows it runs once a second.

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

use super::minute_quality::MinuteQuality;
use super::summary::flow_json;
use super::{Flows, SHARDS};
use crate::catalog::{Access, Catalog};
use crate::ingest::{Claims, ClientInfo, Ingest, IngestError, IngestRequest};
use crate::time::now_ms;

/// The interval of the reporter's work.
const STEP: Duration = Duration::from_secs(1);
/// The minimum interval between two writes of the file.
const SAVE_INTERVAL: Duration = Duration::from_secs(5);
/// The interval is at least this multiple of the time that the last write took.
const SAVE_INTERVAL_FACTOR: u32 = 20;
/// Ended flows that wait for the log. Above this, the oldest are dropped and counted.
const WAITING_MAX: usize = 100_000;
/// Ended flows that are submitted at a time.
const BATCH: usize = 1_000;

/// The dependencies of the reporter.
pub struct ReporterContext {
    /// Receives the events and samples about flows.
    pub ingest: Arc<Ingest>,
    /// The flows.
    pub flows: Arc<Flows>,
    /// The games whose flows they are.
    pub catalog: Arc<Catalog>,
    /// The log, for a lane of the reporter's own.
    pub wal: Wal<Claims>,
    /// The data folder, for the file of running flows.
    pub data: PathBuf,
    /// Becomes true when the server stops.
    pub stopping: watch::Receiver<bool>,
}

/// Starts the reporter's thread. It ends when the server stops, after all ended flows were submitted and the file was
/// written.
pub fn start_reporter(context: ReporterContext) -> anyhow::Result<JoinHandle<()>> {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .build()
        .context("starting the runtime of the flow reporter")?;
    let work = move || {
        runtime.block_on(async {
            let lane = context.wal.lane();
            tokio::spawn(lane.pump());
            Reporter::new(context, lane).run().await;
        });
    };
    std::thread::Builder::new()
        .name("flows".into())
        .spawn(work)
        .context("starting the thread of the flow reporter")
}

struct Reporter {
    context: ReporterContext,
    lane: Lane<Claims>,
    waiting: VecDeque<Flow>,
    /// The current minute, in minutes since 1970.
    minute: i64,
    save_due: Instant,
    /// The file contains flows.
    has_saved_flows: bool,
    /// The number of steps so far.
    steps: usize,
}

impl Reporter {
    fn new(context: ReporterContext, lane: Lane<Claims>) -> Reporter {
        let (minute, save_due) = (now_ms() / 60_000, Instant::now() + SAVE_INTERVAL);
        let waiting = VecDeque::new();
        Reporter { context, lane, waiting, minute, save_due, has_saved_flows: true, steps: 0 }
    }

    async fn run(mut self) {
        let mut stopping = self.context.stopping.clone();
        while !*stopping.borrow() {
            tokio::select! {
                () = tokio::time::sleep(STEP), if self.is_awake() => self.step().await,
                () = self.context.flows.reporter_wanted.notified() => {}
                _ = stopping.changed() => {}
            }
        }
        self.sweep();
        self.report_ended().await;
        self.save();
    }

    fn is_awake(&self) -> bool {
        self.context.flows.is_reporter_awake.load(Ordering::Relaxed)
    }

    async fn step(&mut self) {
        self.sweep();
        self.report_ended().await;
        self.report_minute().await;
        if Instant::now() >= self.save_due {
            self.save();
        }
        let is_idle = self.waiting.is_empty() && !self.has_saved_flows;
        if is_idle && self.context.flows.trackers.iter().all(|tracker| tracker.lock().flow_count() == 0) {
            self.sleep();
        }
    }

    /// Sleeps until the next flow opens. A flow that opened a moment before did not notify, so this checks once more.
    fn sleep(&self) {
        let flows = &self.context.flows;
        flows.is_reporter_awake.store(false, Ordering::Relaxed);
        let is_empty = flows.trackers.iter().all(|tracker| tracker.lock().flow_count() == 0);
        flows.wake_reporter(u64::from(!is_empty));
    }

    /// Ends idle flows and moves ended ones to the waiting queue.
    fn sweep(&mut self) {
        let flows = &self.context.flows;
        for tracker in &flows.trackers {
            let mut tracker = tracker.lock();
            tracker.expire(flows.now());
            let ended = tracker.drain_ended();
            // Under the tracker's lock, so that a flow can always be found in one of the two.
            flows.recent.add(&ended);
            self.waiting.extend(ended);
        }
        // One shard per step, because this visits all of its sources.
        self.steps += 1;
        flows.senders[self.steps % SHARDS].lock().evict_idle(flows.now());
        let dropped = self.waiting.len().saturating_sub(WAITING_MAX);
        self.waiting.drain(..dropped);
        flows.unreported.fetch_add(dropped as u64, Ordering::Relaxed);
    }

    /// Submits the ended flows, game by game. They wait while the log cannot accept entries.
    async fn report_ended(&mut self) {
        while let Some(first) = self.waiting.front() {
            let game = first.game;
            let length = self.waiting.iter().take(BATCH).take_while(|flow| flow.game == game).count();
            let batch: Vec<Flow> = self.waiting.drain(..length).collect();
            let props: Vec<String> = batch.iter().map(|flow| flow_json(flow).to_string()).collect();
            let events = batch.iter().zip(&props).map(|(flow, props)| end_event(flow, props)).collect();
            if let Err(failure) = self.submit(game, events).await {
                warn!(%failure, "ended flows wait for the log to accept entries");
                batch.into_iter().rev().for_each(|flow| self.waiting.push_front(flow));
                return;
            }
        }
    }

    /// Submits the quality of the previous minute when it is over.
    async fn report_minute(&mut self) {
        let minute = now_ms() / 60_000;
        if minute == self.minute {
            return;
        }
        let begin_ms = std::mem::replace(&mut self.minute, minute) * 60_000;
        let mut quality_sums = MinuteQuality::default();
        for tracker in &self.context.flows.trackers {
            tracker.lock().finish_minute(|flow, quality| quality_sums.add(flow.game, quality));
        }
        for encoded in quality_sums.encode() {
            if let Err(failure) = self.submit(encoded.game, encoded.events(begin_ms)).await {
                error!(%failure, "the quality of flows in the last minute was not written to the log");
            }
        }
    }

    /// Submits events of a game, none if the game no longer exists. Events above a quota are counted as limited and not
    /// submitted again.
    async fn submit(&self, game: u32, events: Vec<RawEvent<'_>>) -> Result<(), IngestError> {
        let Some(game) = self.context.catalog.game_by_number(game) else { return Ok(()) };
        let access = Access::server(game);
        let (endpoint, received_ms) = (Endpoint::Flows, now_ms());
        let (ack, client) = (Ack::Disk, ClientInfo::default());
        let request = IngestRequest { endpoint, received_ms, ack, rejected: &[], client };
        let count = events.len() as u64;
        let decoded = RawBatch { sent_at_ms: None, events: events.into_iter().map(Ok).collect() };
        match self.context.ingest.submit(&self.lane, &access, &request, &decoded).await {
            Ok(_) => Ok(()),
            Err(IngestError::Limited(exceeded)) => {
                warn!(%exceeded, "flows were not reported because of a quota");
                self.context.flows.unreported.fetch_add(count, Ordering::Relaxed);
                Ok(())
            }
            // Its flows were running when it was archived.
            Err(IngestError::Archived(_)) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Saves the running flows. While ended flows wait, the old file stays because it contains them.
    fn save(&mut self) {
        if !self.waiting.is_empty() {
            return;
        }
        let begin = Instant::now();
        match self.context.flows.save(&self.context.data) {
            Ok(count) => self.has_saved_flows = count > 0,
            Err(failure) => error!(%failure, "running flows were not saved; a crash now would lose them"),
        }
        self.save_due = Instant::now() + SAVE_INTERVAL.max(begin.elapsed() * SAVE_INTERVAL_FACTOR);
    }
}

/// Returns the event of an ended flow. Its value is the estimated MOS; its id is derived from the flow's id.
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
