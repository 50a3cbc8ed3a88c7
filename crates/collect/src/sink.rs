//! The way of a collector's input into the log: submitted, retried, counted.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use decode::json::{self, BodyFormat};
use model::{RawBatch, Reject};
use pipeline::catalog::{Access, Game};
use pipeline::ingest::{Claims, ClientInfo, IngestError, IngestRequest, Receipt, retry_transient};
use pipeline::reject_tally::RejectTally;
use pipeline::time::now_ms;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, error};
use wal::{Ack, Lane};

use crate::CollectContext;
use crate::batch::CollectorBatch;
use crate::collector::Collector;
use crate::runtimes::RuntimeHandle;
use crate::samples::{Dimensions, SampleTable};
use crate::settings::Decoder;

/// How long writes are retried after the collector began to stop.
const LAST_RETRIES: Duration = Duration::from_secs(5);

/// Where a worker of a collector submits its batches.
#[derive(Clone)]
pub(crate) struct Sink {
    pub(crate) context: CollectContext,
    /// The log lane of the worker's runtime.
    lane: Lane<Claims>,
    pub(crate) collector: Arc<Collector>,
}

impl Sink {
    /// Returns the sink of a collector's worker on a runtime.
    pub(crate) fn new(context: &CollectContext, runtime: &RuntimeHandle, collector: &Arc<Collector>) -> Sink {
        Sink { context: context.clone(), lane: runtime.lane.clone(), collector: Arc::clone(collector) }
    }

    pub(crate) fn receives_samples(&self) -> bool {
        self.collector.settings.decoder.endpoint().accepts_samples()
    }

    /// Returns the access with which the collector's events are admitted.
    pub(crate) fn access(&self) -> Access {
        self.collector.access(&self.game())
    }

    fn game(&self) -> Arc<Game> {
        let game = self.context.catalog.game_by_number(self.collector.game);
        game.expect("games are never removed from the catalog")
    }

    pub(crate) fn new_batch(&self) -> CollectorBatch {
        let game = self.game();
        let seed = self.context.views.seeds.of(game.number);
        let table =
            SampleTable::new(Dimensions::of(&game.settings), seed, Arc::clone(&self.collector.gauges));
        CollectorBatch::new(game.number, table, Arc::clone(&self.context.flows))
    }

    /// Writes a batch and empties it.
    pub(crate) async fn write(&self, batch: &mut CollectorBatch, closed: &watch::Sender<bool>) {
        let game = self.game();
        let access = self.collector.access(&game);
        if !batch.is_empty() {
            self.show(&mut batch.rejects);
            self.collector.counters.accepted.add(batch.packets);
            let give_up = || *closed.borrow();
            match &self.collector.settings.decoder {
                Decoder::Json | Decoder::Csv(_) => self.write_events(batch, &access, give_up).await,
                _ => self.write_samples(batch, &access, give_up).await,
            }
        }
        batch.clear(&game.settings);
    }

    /// Shows the first rejected lines and packets on the Live page.
    pub(crate) fn show(&self, rejects: &mut RejectTally) {
        let (game, endpoint) = (self.collector.game, self.collector.settings.decoder.endpoint());
        rejects.show(&self.context.views.recent_events, game, endpoint);
    }

    async fn write_samples(
        &self,
        batch: &mut CollectorBatch,
        access: &Access,
        give_up: impl Fn() -> bool + Copy,
    ) {
        let counters = &self.collector.counters;
        counters.ignored_tags.add(batch.samples.ignored_tags());
        let mut entries = batch.samples.encode();
        if entries.is_empty() {
            entries.push(0..0);
        }
        let mut rejected = batch.rejects.counts();
        for rows in entries {
            let decoded = batch.samples.events(rows.clone());
            let count = |rows: Range<usize>| rows.map(|row| u64::from(batch.samples.sample_count(row))).sum();
            self.append(access, &decoded, rejected, give_up, |index| match index {
                Some(index) => count(rows.start + index as usize..rows.start + index as usize + 1),
                None => count(rows.clone()),
            })
            .await;
            // Rejected samples are counted once, with the first entry.
            rejected = &[];
        }
    }

    async fn write_events(
        &self,
        batch: &mut CollectorBatch,
        access: &Access,
        give_up: impl Fn() -> bool + Copy,
    ) {
        let mut decoded = RawBatch::default();
        if let Err(failure) = json::decode(&batch.lines, BodyFormat::Lines, &mut decoded) {
            // Lines were counted and checked before, so the only possible failure is an empty body.
            debug!(%failure, "no lines to decode");
        }
        let all = decoded.events.len() as u64;
        let rejected = batch.rejects.counts();
        self.append(access, &decoded, rejected, give_up, |index| index.map_or(all, |_| 1)).await;
    }

    /// Appends events to the log and counts the outcome. `weight` returns the number of samples that the event at an
    /// index stands for, and without an index those of all events. Retries while the log has no room, until `give_up`
    /// returns true.
    async fn append(
        &self,
        access: &Access,
        decoded: &RawBatch<'_>,
        rejected: &[(Reject, u32)],
        give_up: impl Fn() -> bool,
        weight: impl Fn(Option<u32>) -> u64,
    ) {
        let counters = &self.collector.counters;
        let submitted = self.submit(access, decoded, rejected, give_up).await;
        // Counted after the append, so that whatever the counters show is visible to queries.
        rejected.iter().for_each(|(reject, count)| counters.add_rejected(*reject, u64::from(*count)));
        match submitted {
            Ok(receipt) => self.count(&receipt, weight),
            Err(IngestError::Limited(over)) => counters.add_rejected(over.reject, weight(None)),
            Err(failure) => {
                let (name, lost) = (&self.collector.settings.name, weight(None));
                error!(collector = name, lost, %failure, "the log is not accepting writes");
                counters.add_rejected(Reject::QueueFull, weight(None));
            }
        }
    }

    /// Counts the outcome of submitted events. For `weight` see [`Sink::append`].
    pub(crate) fn count(&self, receipt: &Receipt, weight: impl Fn(Option<u32>) -> u64) {
        let mut accepted = weight(None);
        for (index, reject) in &receipt.rejected {
            let rejected = weight(Some(*index));
            accepted -= rejected;
            self.collector.counters.add_rejected(*reject, rejected);
        }
        self.collector.counters.accepted.add(accepted);
    }

    /// Submits events and retries while the log has no room. Returns when they are durable: at one write a second that
    /// costs little, and everything counted as accepted is visible to queries.
    pub(crate) async fn submit(
        &self,
        access: &Access,
        decoded: &RawBatch<'_>,
        refused: &[(Reject, u32)],
        give_up: impl Fn() -> bool,
    ) -> Result<Receipt, IngestError> {
        let mut gave_up_at = None;
        let submit = || async move {
            let endpoint = self.collector.settings.decoder.endpoint();
            let (received_ms, ack, client) = (now_ms(), Ack::Disk, ClientInfo::default());
            let request = IngestRequest { endpoint, received_ms, ack, rejected: refused, client };
            let ingest = &self.context.ingest;
            // A file is read again from where it stopped; other sources do not resend what exceeds a quota.
            match self.collector.settings.transport.dir() {
                Some(_) => ingest.submit_backfill(&self.lane, access, &request, decoded).await,
                None => ingest.submit(&self.lane, access, &request, decoded).await,
            }
        };
        let give_up = || give_up() && gave_up_at.get_or_insert_with(Instant::now).elapsed() > LAST_RETRIES;
        retry_transient(&self.collector.settings.name, submit, give_up).await
    }
}
