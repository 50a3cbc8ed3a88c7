//! What one worker of a collector has taken and not yet written: filled by its sockets, written once a second, or as
//! soon as it is large.
//!
//! There are two batches: while one is written the other is filled. A log that has no room is waited for; meanwhile the
//! batch that is filled becomes full, and then connections wait and packets are refused.

mod batch;

pub use batch::Batch;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use decode::json::{self, BodyFormat};
use model::{RawBatch, Reject};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tracing::error;
use wal::{Ack, Lane};

use super::samples::{Dimensions, Table};
use super::settings::{Decoder, Transport};
use super::{CollectContext, Collector, Place};
use pipeline::catalog::{Access, Game};
use pipeline::ingest::{Claims, ClientInfo, IngestError, IngestRequest, Receipt, retry_transient};
use pipeline::reject_tally::RejectTally;
use pipeline::shutdown::wait_for_stop;
use pipeline::time::now_ms;

/// Samples are written so long after the first of them came.
const SAMPLES_WAIT: Duration = Duration::from_secs(1);
/// Events are.
const EVENTS_WAIT: Duration = Duration::from_millis(100);
/// What cannot be written when the collector stops is tried for so long.
const LAST_TRIES: Duration = Duration::from_secs(5);

/// Where a collector's worker writes.
#[derive(Clone)]
pub struct Desk {
    /// The server.
    pub context: CollectContext,
    /// The lane of the worker's runtime.
    pub lane: Lane<Claims>,
    /// For whom.
    pub collector: Arc<Collector>,
}

/// See above.
pub struct Intake {
    desk: Desk,
    filling: Mutex<Batch>,
    some: Notify,
    large: Notify,
    room: Notify,
    closed: watch::Sender<bool>,
}

impl Intake {
    /// Nothing was taken yet.
    pub fn new(desk: Desk) -> Intake {
        let filling = Mutex::new(desk.batch());
        let (closed, _) = watch::channel(false);
        Intake { desk, filling, some: Notify::new(), large: Notify::new(), room: Notify::new(), closed }
    }

    /// Puts in what came.
    pub fn fill(&self, put: impl FnOnce(&mut Batch)) {
        let mut batch = self.filling.lock();
        let was_empty = batch.is_empty();
        put(&mut batch);
        if was_empty && !batch.is_empty() {
            self.some.notify_one();
        }
        if batch.is_large() {
            self.large.notify_one();
        }
    }

    /// The same as soon as there is room for more: for those who can make their source wait.
    pub async fn fill_when_there_is_room<T>(&self, put: impl FnOnce(&mut Batch) -> T) -> T {
        loop {
            let mut room = std::pin::pin!(self.room.notified());
            room.as_mut().enable();
            if !self.filling.lock().is_large() {
                break;
            }
            room.await;
        }
        // Whoever else fills this is on the same thread, so there still is room.
        let mut answer = None;
        self.fill(|batch| answer = Some(put(batch)));
        answer.expect("it was put in")
    }

    /// Nothing more will come.
    pub fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Writes until it is closed and everything is written. `lost` is asked before each time how much never came here.
    pub async fn write_until_closed(&self, mut lost: impl FnMut() -> u32) {
        let mut spare = self.desk.batch();
        loop {
            let is_last = self.wait_until_due().await;
            self.swap(&mut spare, lost());
            self.desk.write(&mut spare, &self.closed).await;
            if is_last {
                return;
            }
        }
    }

    /// Takes out what came, with so much beside it that was lost.
    fn swap(&self, spare: &mut Batch, lost: u32) {
        let mut filling = self.filling.lock();
        filling.lost(lost);
        std::mem::swap(&mut *filling, spare);
        drop(filling);
        self.room.notify_waiters();
    }

    /// Whether it was closed.
    async fn wait_until_due(&self) -> bool {
        let mut closed = self.closed.subscribe();
        let due = async {
            self.some.notified().await;
            let wait = if self.desk.endpoint_takes_samples() { SAMPLES_WAIT } else { EVENTS_WAIT };
            let _ = tokio::time::timeout(wait, self.large.notified()).await;
        };
        tokio::select! {
            () = due => false,
            () = wait_for_stop(&mut closed) => true,
        }
    }
}

impl Desk {
    /// That of a collector on a runtime.
    pub fn new(context: &CollectContext, place: &Place, collector: &Arc<Collector>) -> Desk {
        Desk { context: context.clone(), lane: place.lane.clone(), collector: Arc::clone(collector) }
    }

    fn endpoint_takes_samples(&self) -> bool {
        self.collector.settings.decoder.endpoint().accepts_samples()
    }

    /// What the collector's events may do.
    pub fn access(&self) -> Access {
        self.collector.access(&self.game())
    }

    fn game(&self) -> Arc<Game> {
        let game = self.context.catalog.game_by_number(self.collector.game);
        game.expect("a game stays in the catalog")
    }

    /// An empty batch.
    pub fn batch(&self) -> Batch {
        let game = self.game();
        let seed = self.context.views.seeds.of(game.number);
        let table = Table::new(Dimensions::of(&game.settings), seed, Arc::clone(&self.collector.gauges));
        Batch::new(game.number, table, Arc::clone(&self.context.flows))
    }

    /// Writes a batch and empties it.
    async fn write(&self, batch: &mut Batch, closed: &watch::Sender<bool>) {
        let game = self.game();
        let access = self.collector.access(&game);
        if !batch.is_empty() {
            self.show(&mut batch.refusals);
            self.collector.counters.accepted.add(batch.packets);
            let give_up = || *closed.borrow();
            match &self.collector.settings.decoder {
                Decoder::Json | Decoder::Csv(_) => self.write_events(batch, &access, give_up).await,
                _ => self.write_samples(batch, &access, give_up).await,
            }
        }
        batch.clear(&game.settings);
    }

    /// Shows people what was refused.
    pub fn show(&self, refusals: &mut RejectTally) {
        let (game, endpoint) = (self.collector.game, self.collector.settings.decoder.endpoint());
        refusals.show(&self.context.views.recent_events, game, endpoint);
    }

    async fn write_samples(&self, batch: &mut Batch, access: &Access, give_up: impl Fn() -> bool + Copy) {
        let counters = &self.collector.counters;
        counters.ignored_tags.add(batch.samples.ignored_tags());
        let mut entries = batch.samples.encode();
        if entries.is_empty() {
            entries.push(0..0);
        }
        let mut refused = batch.refusals.counts();
        for rows in entries {
            let decoded = batch.samples.events(rows.clone());
            let count = |rows: Range<usize>| rows.map(|row| u64::from(batch.samples.taken(row))).sum();
            self.append(access, &decoded, refused, give_up, |index| match index {
                Some(index) => count(rows.start + index as usize..rows.start + index as usize + 1),
                None => count(rows.clone()),
            })
            .await;
            // They are counted once.
            refused = &[];
        }
    }

    async fn write_events(&self, batch: &mut Batch, access: &Access, give_up: impl Fn() -> bool + Copy) {
        let mut decoded = RawBatch::default();
        if let Err(failure) = json::decode(&batch.lines, BodyFormat::Lines, &mut decoded) {
            // An empty body is one; the others cannot be, since lines were counted and checked.
            tracing::debug!(%failure, "there were no lines");
        }
        let all = decoded.events.len() as u64;
        let refused = batch.refusals.counts();
        self.append(access, &decoded, refused, give_up, |index| index.map_or(all, |_| 1)).await;
    }

    /// Takes events to the log and counts what became of them. `weight` says how much the event at an index stands for,
    /// and without an index all of them. A log that has no room is tried again, and `give_up` ends that.
    pub async fn append(
        &self,
        access: &Access,
        decoded: &RawBatch<'_>,
        refused: &[(Reject, u32)],
        give_up: impl Fn() -> bool,
        weight: impl Fn(Option<u32>) -> u64,
    ) {
        let counters = &self.collector.counters;
        let taken = self.take(access, decoded, refused, give_up).await;
        // What is told can be asked for, so it is told now.
        refused.iter().for_each(|(reject, count)| counters.refused(*reject, u64::from(*count)));
        match taken {
            Ok(receipt) => self.count(&receipt, weight),
            Err(IngestError::Limited(over)) => counters.refused(over.reject, weight(None)),
            Err(failure) => {
                error!(collector = self.collector.settings.name, lost = weight(None), %failure, "the log takes nothing");
                counters.refused(Reject::QueueFull, weight(None));
            }
        }
    }

    /// Counts what became of events.
    pub fn count(&self, receipt: &Receipt, weight: impl Fn(Option<u32>) -> u64) {
        let mut accepted = weight(None);
        for (index, reject) in &receipt.rejected {
            let refused = weight(Some(*index));
            accepted -= refused;
            self.collector.counters.refused(*reject, refused);
        }
        self.collector.counters.accepted.add(accepted);
    }

    /// Takes events to the log, again and again while it has no room. Returns when they are durable: once a second that
    /// costs little, and what is told as accepted can be asked for.
    pub async fn take(
        &self,
        access: &Access,
        decoded: &RawBatch<'_>,
        refused: &[(Reject, u32)],
        give_up: impl Fn() -> bool,
    ) -> Result<Receipt, IngestError> {
        let mut giving_up = None;
        let submit = || async move {
            let endpoint = self.collector.settings.decoder.endpoint();
            let (received_ms, ack, client) = (now_ms(), Ack::Disk, ClientInfo::default());
            let request = IngestRequest { endpoint, received_ms, ack, rejected: refused, client };
            let ingest = &self.context.ingest;
            // A folder is read again from where it stopped; other sources do not send again what exceeds a quota.
            match self.collector.settings.transport {
                Transport::Dir(_) => ingest.submit_backfill(&self.lane, access, &request, decoded).await,
                _ => ingest.submit(&self.lane, access, &request, decoded).await,
            }
        };
        let give_up = || give_up() && giving_up.get_or_insert_with(Instant::now).elapsed() > LAST_TRIES;
        retry_transient(&self.collector.settings.name, submit, give_up).await
    }
}
