//! The single path of an event into the log: check quotas, admit, encode, append, return a receipt.
//!
//! Collectors differ in how bytes arrive; from here on they are all the same. Nothing else appends events to the log.

mod admission;
mod annotator;
mod declared_dimensions;
mod deduplicator;
mod encode;
mod error;
mod event_names;
mod id_masks;
mod identify;
mod level_measures;
mod quota;
mod receipt;
mod replay;
mod request;
mod retry;
mod variants;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{RawBatch, Reject};
use wal::{Entry, Lane, Wal};

use crate::accounting;
use crate::catalog::{Access, Catalog};
use crate::enrich::geo::{Country, Geo};
use crate::pacer::CommitLatency;
use crate::recent_events::RecentEvents;
use crate::views::Views;
use event_names::EventNames;
use identify::is_identify;
use quota::Quota;

pub use deduplicator::Claims;
pub(crate) use deduplicator::{Deduplicator, RegisteredUntil};
pub use error::IngestError;
pub use event_names::EventNamesUsage;
pub(crate) use id_masks::IdMasks;
pub use level_measures::level_measure_label;
pub use quota::{QuotaExceeded, QuotaSettings, QuotaUsage};
pub use receipt::Receipt;
pub(crate) use replay::replay_ids;
pub use request::{ClientInfo, IngestRequest};
pub use retry::retry_transient;

/// The kind of log entry that is a batch of events.
pub const BATCH: u8 = 1;
/// The kind of log entry that is a live-ops command.
pub const COMMAND: u8 = 2;
/// The kind of log entry that replaces a command about an erased player. It is empty.
pub(crate) const ERASED: u8 = 3;
/// The time that a batch that links ids waits for the views.
const LINKS_WAIT: Duration = Duration::from_secs(1);

/// Validates, enriches and appends events.
pub struct Ingest {
    geo: Arc<Geo>,
    masks: IdMasks,
    recent_events: Arc<RecentEvents>,
    quota: Quota,
    names: EventNames,
    views: Arc<Views>,
    log: Wal<Claims>,
    commit_latency: CommitLatency,
}

impl Ingest {
    /// Creates the ingest of a log and its views.
    pub fn new(
        geo: Arc<Geo>,
        catalog: &Catalog,
        views: Arc<Views>,
        log: Wal<Claims>,
        quotas: QuotaSettings,
    ) -> Ingest {
        let masks = IdMasks::new(&catalog.id_secret());
        let recent_events = Arc::clone(&views.recent_events);
        let commit_latency = CommitLatency::new(Instant::now());
        let (quota, names) = (Quota::new(quotas), EventNames::new(quotas.event_names_per_game));
        Ingest { geo, masks, recent_events, quota, names, views, log, commit_latency }
    }

    /// Returns the country of an address, if it is known.
    pub fn country(&self, address: IpAddr) -> Option<Country> {
        self.geo.country(address)
    }

    /// The latency of the commits that live clients waited for.
    pub fn commit_latency(&self) -> &CommitLatency {
        &self.commit_latency
    }

    /// Returns the used share of each daily quota, from 0 to 1, as (game, quota, share).
    pub fn used_today(&self, now_ms: i64) -> Vec<(u32, &'static str, f64)> {
        self.quota.used_today(now_ms)
    }

    /// Returns the use of a game's places for event names.
    pub fn event_names(&self, game: u32, now_ms: i64) -> EventNamesUsage {
        self.names.usage(&*self.views.counters, game, now_ms)
    }

    /// Appends a batch of live events. A rejected event is data, not an error: it is counted and listed in the receipt,
    /// and the rest of the batch is appended. A batch that exceeds a quota is counted as limited.
    pub async fn submit(
        &self,
        lane: &Lane<Claims>,
        access: &Access,
        request: &IngestRequest<'_>,
        decoded: &RawBatch<'_>,
    ) -> Result<Receipt, IngestError> {
        // No client waits for the events that the server submits about itself.
        let commit_latency = (!request.endpoint.is_internal()).then_some(&self.commit_latency);
        let submitted = self.try_submit(lane, access, request, decoded, commit_latency).await;
        if let Err(IngestError::Limited(exceeded)) = &submitted {
            self.append_limited(lane, access, request, decoded, exceeded.reject).await?;
        }
        submitted
    }

    /// Appends a batch of past events. Unlike [`Ingest::submit`], a batch that exceeds a quota is not counted, because
    /// the caller waits and submits it again, and its commits do not count as live ones.
    pub async fn submit_backfill(
        &self,
        lane: &Lane<Claims>,
        access: &Access,
        request: &IngestRequest<'_>,
        decoded: &RawBatch<'_>,
    ) -> Result<Receipt, IngestError> {
        self.try_submit(lane, access, request, decoded, None).await
    }

    /// Appends a batch unless it exceeds a quota. The latency of the commit is recorded in `commit_latency`.
    async fn try_submit(
        &self,
        lane: &Lane<Claims>,
        access: &Access,
        request: &IngestRequest<'_>,
        decoded: &RawBatch<'_>,
        commit_latency: Option<&CommitLatency>,
    ) -> Result<Receipt, IngestError> {
        access.game.check_writable()?;
        self.check_rate(access, request, decoded)?;
        self.wait_for_links(decoded).await;
        let context = self.admission_context(access, request, decoded.sent_at_ms);
        let (entry, rejected) = self.encode(access, request, decoded, &context.as_context());
        if entry.events == 0 && rejected.is_empty() && request.rejected.is_empty() {
            return Ok(Receipt::default());
        }
        let game = access.game.number;
        let quota_usage = self.spend_daily_quota(game, &entry, request)?;
        self.show_rejected(access, request, decoded, &rejected);
        let admitted = entry.events;
        let appended = self.append(lane, entry, commit_latency).await;
        let removed = appended.as_ref().ok().map(|(_, removed)| removed.len());
        self.quota.refund(game, quota::unused(request.endpoint, admitted, removed));
        let (position, removed) = appended?;
        self.wake_applier_if_urgent(game, position, decoded);
        Ok(Receipt { quota_usage, ..Receipt::new(admitted, position, &removed, rejected) })
    }

    /// Checks the limits per second. A batch of reject counts alone always passes.
    fn check_rate(
        &self,
        access: &Access,
        request: &IngestRequest<'_>,
        decoded: &RawBatch<'_>,
    ) -> Result<(), QuotaExceeded> {
        let received = decoded.events.len();
        if received == 0 || !request.endpoint.is_accounted() {
            return Ok(());
        }
        self.quota.acquire(access, request.client.address, received, request.received_ms)
    }

    /// Waits until the views contain every acknowledged link between ids, if the batch links ids itself. The wait is
    /// bounded because each link is decided again when it is applied.
    async fn wait_for_links(&self, decoded: &RawBatch<'_>) {
        let mut events = decoded.events.iter().filter_map(|event| event.as_ref().ok());
        if events.any(is_identify) {
            let caught_up = self.views.caught_up(self.log.durable_until());
            let _ = tokio::time::timeout(LINKS_WAIT, caught_up).await;
        }
    }

    /// Charges the entry to the game's daily quotas.
    fn spend_daily_quota(
        &self,
        game: u32,
        entry: &Entry<Claims>,
        request: &IngestRequest<'_>,
    ) -> Result<Option<QuotaUsage>, QuotaExceeded> {
        if entry.events == 0 || !request.endpoint.is_accounted() {
            return Ok(None);
        }
        let now_ms = request.received_ms;
        let amount = [u64::from(entry.events), entry.bytes.len() as u64];
        let spent_before = || accounting::spent_today(&*self.views.counters, game, now_ms);
        self.quota.spend(game, amount, now_ms, spent_before)
    }

    /// Returns the log position after the entry and the ordinals of the events that were removed as duplicates.
    async fn append(
        &self,
        lane: &Lane<Claims>,
        entry: Entry<Claims>,
        commit_latency: Option<&CommitLatency>,
    ) -> Result<(u64, Vec<u32>), IngestError> {
        let started = Instant::now();
        let Some(committed) = lane.append(entry)?.await? else { return Ok((0, Vec::new())) };
        if let Some(commit_latency) = commit_latency {
            commit_latency.record(started, Instant::now());
        }
        Ok((committed.offsets.end, committed.extra.removed))
    }

    /// Ends the apply cycle early if an urgent watcher reads these events. `position` is 0 if it is not known yet.
    fn wake_applier_if_urgent(&self, game: u32, position: u64, decoded: &RawBatch<'_>) {
        let names = decoded.events.iter().filter_map(|event| event.as_ref().ok()?.name.as_deref());
        if self.views.urgent_watchers.wants(game, names) {
            self.views.wake_applier(if position > 0 { position } else { self.log.durable_until() + 1 });
        }
    }

    /// Appends an entry without events that counts the whole batch under one reason.
    async fn append_limited(
        &self,
        lane: &Lane<Claims>,
        access: &Access,
        request: &IngestRequest<'_>,
        decoded: &RawBatch<'_>,
        reject: Reject,
    ) -> Result<(), IngestError> {
        lane.append(encode::limited_entry(access, request, decoded, reject))?.await?;
        Ok(())
    }
}
