//! The one path of an event: admit, append, answer.
//!
//! Collectors differ in how bytes arrive; from here on they are all the same. Nothing else appends events to the log.

mod annotations;
mod deduplicator;
mod level_measures;
mod quota;
mod request;
mod retry;
mod variants;

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::admit::{AdmissionContext, admit};
use model::batch::{BatchBuilder, DeclaredValues, Endpoint, KeyClass, StoredEvent};
use model::ports::ids::Claim;
use model::{Outcome, RawBatch, RawEvent, Reject};
use wal::{Entry, Lane, Wal, WalError};

use crate::catalog::{Access, Catalog, DeclaredDimension, Scope};
use crate::enrich::agent;
use crate::enrich::geo::{Country, Geo};
use crate::recent_events::{Inspector, Refusal};

use crate::accounting;
use crate::pacer::Commits;
use crate::views::Views;
use annotations::{Identifying, declared, is_identify};
use quota::Quota;
use variants::Variants;

pub use deduplicator::{Claims, Deduplicator, IdMasks, Remembered, remember};
pub use level_measures::measure;
pub use quota::{Over, QuotaSettings, Used};
pub use request::{ClientInfo, IngestRequest};
pub use retry::retry_transient;

/// The kind of log entry that is a batch of events.
pub const BATCH: u8 = 1;
/// The kind of log entry that is a command of live-ops.
pub const COMMAND: u8 = 2;
/// The kind of log entry that was a command about a player who has been forgotten. It is empty.
pub const ERASED: u8 = 3;
/// How long a request that links ids waits for the views.
const LINKS_WAIT: Duration = Duration::from_secs(1);
/// Refused events of one request that the inspector is shown.
const SHOWN_MAX: usize = 10;

/// The door, the rules and the log, ready to take events.
pub struct Ingest {
    geo: Arc<Geo>,
    masks: IdMasks,
    inspector: Arc<Inspector>,
    quota: Quota,
    views: Arc<Views>,
    log: Wal<Claims>,
    commits: Commits,
}

/// What became of a request, event by event.
#[derive(Debug, Default, PartialEq)]
pub struct Receipt {
    /// How many of each outcome, in the order of [`Outcome::ALL`].
    pub outcomes: [u32; 5],
    /// The log's end after this request.
    pub position: u64,
    /// The events that were not accepted, by index.
    pub refused: Vec<(u32, Reject)>,
    /// A quota of the day that is nearly used up.
    pub used: Option<Used>,
}

/// Why a whole request could not be taken. Nothing of it was kept.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// The log says no.
    #[error(transparent)]
    Wal(#[from] WalError),
    /// The ids could not be looked up.
    #[error("event ids cannot be checked at the moment")]
    Ids,
    /// More was sent than may be.
    #[error(transparent)]
    Limited(#[from] Over),
}

impl IngestError {
    /// Returns true if the same request may succeed when it is submitted again a moment later.
    pub fn is_transient(&self) -> bool {
        matches!(self, IngestError::Ids | IngestError::Wal(WalError::Full | WalError::Overloaded { .. }))
    }
}

impl Ingest {
    /// The line to a log and its views.
    pub fn new(
        geo: Arc<Geo>,
        catalog: &Catalog,
        views: Arc<Views>,
        log: Wal<Claims>,
        quotas: QuotaSettings,
    ) -> Ingest {
        let masks = IdMasks::new(&catalog.id_secret());
        let inspector = Arc::clone(&views.inspector);
        let commits = Commits::new(Instant::now());
        Ingest { geo, masks, inspector, quota: Quota::new(quotas), views, log, commits }
    }

    /// The country of an address.
    pub fn country(&self, address: IpAddr) -> Option<Country> {
        self.geo.country(address)
    }

    /// How long live commits take at the moment: all that somebody waits for.
    pub fn commits(&self) -> &Commits {
        &self.commits
    }

    /// Takes a request to the log. A refused event is an answer, not an error: it is counted and named in the receipt,
    /// and the rest of the batch goes on. What is over a quota is counted as limited.
    pub async fn submit(
        &self,
        lane: &Lane<Claims>,
        access: &Access,
        request: &IngestRequest<'_>,
        decoded: &RawBatch<'_>,
    ) -> Result<Receipt, IngestError> {
        // Nobody waits for what the server tells of itself.
        let commits = (!request.endpoint.is_internal()).then_some(&self.commits);
        let taken = self.try_submit(lane, access, request, decoded, commits).await;
        if let Err(IngestError::Limited(over)) = &taken {
            self.limit(lane, access, request, decoded, over.reject).await?;
        }
        taken
    }

    /// The same for work of the past, which comes again with what is over a quota until it is taken: that is counted
    /// once, as what it becomes then. Its commits are none that anybody waits for.
    pub async fn submit_backfill(
        &self,
        lane: &Lane<Claims>,
        access: &Access,
        request: &IngestRequest<'_>,
        decoded: &RawBatch<'_>,
    ) -> Result<Receipt, IngestError> {
        self.try_submit(lane, access, request, decoded, None).await
    }

    /// Takes a request to the log, if no quota is in the way. How long that took is told to `commits`.
    async fn try_submit(
        &self,
        lane: &Lane<Claims>,
        access: &Access,
        request: &IngestRequest<'_>,
        decoded: &RawBatch<'_>,
        commits: Option<&Commits>,
    ) -> Result<Receipt, IngestError> {
        let (game, received) = (access.game.number, decoded.events.len());
        // Tallies alone are taken also of those who owe.
        if received > 0 && request.endpoint.is_accounted() {
            self.quota.take(access, request.client.address, received, request.received_ms)?;
        }
        self.know_links(decoded).await;
        let door = self.door(access, request, decoded.sent_at_ms);
        let (entry, refused) = self.encode(access, request, decoded, &door.as_door());
        if entry.events == 0 && refused.is_empty() && request.refused.is_empty() {
            return Ok(Receipt::default());
        }
        let used = self.spend(game, &entry, request)?;
        self.show(access, request, decoded, &refused);
        let taken = entry.events;
        let appended = self.append(lane, entry, commits).await;
        let removed = appended.as_ref().ok().map(|(_, removed)| removed.len());
        self.quota.give_back(game, unused(request.endpoint, taken, removed));
        let (position, removed) = appended?;
        self.wake_applier_if_urgent(game, position, decoded);
        Ok(Receipt { used, ..Receipt::of(taken, position, &removed, refused) })
    }

    /// What somebody wants to be told of at once is applied at once. `position` is 0 if it is not known yet.
    fn wake_applier_if_urgent(&self, game: u32, position: u64, decoded: &RawBatch<'_>) {
        let names = decoded.events.iter().filter_map(|event| event.as_ref().ok()?.name.as_deref());
        if self.views.urgent_watchers.wants(game, names) {
            self.views.wake_applier(if position > 0 { position } else { self.log.durable_until() + 1 });
        }
    }

    /// The log's end after the entry, and which of its events were duplicates.
    async fn append(
        &self,
        lane: &Lane<Claims>,
        entry: Entry<Claims>,
        commits: Option<&Commits>,
    ) -> Result<(u64, Vec<u32>), IngestError> {
        let begun = Instant::now();
        let Some(committed) = lane.append(entry)?.await? else { return Ok((0, Vec::new())) };
        if let Some(commits) = commits {
            commits.took(begun, Instant::now());
        }
        if committed.extra.failed {
            return Err(IngestError::Ids);
        }
        Ok((committed.offsets.end, committed.extra.removed))
    }

    /// Spends of the game's day.
    fn spend(
        &self,
        game: u32,
        entry: &Entry<Claims>,
        request: &IngestRequest<'_>,
    ) -> Result<Option<Used>, Over> {
        if entry.events == 0 || !request.endpoint.is_accounted() {
            return Ok(None);
        }
        let now_ms = request.received_ms;
        let spent = [u64::from(entry.events), entry.bytes.len() as u64];
        self.quota.spend(game, spent, now_ms, || accounting::spent(&*self.views.counters, game, now_ms))
    }

    /// Who is linked to whom has to be known as of everything that was acknowledged, if the request links somebody.
    /// Views that are far behind are not waited for: what passes here is decided again when it is applied.
    async fn know_links(&self, decoded: &RawBatch<'_>) {
        let mut events = decoded.events.iter().filter_map(|event| event.as_ref().ok());
        if events.any(is_identify) {
            let caught_up = self.views.caught_up(self.log.durable_until());
            let _ = tokio::time::timeout(LINKS_WAIT, caught_up).await;
        }
    }

    /// The used share of each quota of the day, by game.
    pub fn used_today(&self, now_ms: i64) -> Vec<(u32, &'static str, f64)> {
        self.quota.used_today(now_ms)
    }

    /// Counts a whole request as limited.
    async fn limit(
        &self,
        lane: &Lane<Claims>,
        access: &Access,
        request: &IngestRequest<'_>,
        decoded: &RawBatch<'_>,
        reject: Reject,
    ) -> Result<(), IngestError> {
        let batch =
            BatchBuilder::new(request.endpoint, access.class, access.game.number, request.received_ms, 16);
        let all: Vec<(u32, Reject)> = (0..decoded.events.len() as u32).map(|index| (index, reject)).collect();
        let (bytes, events) = batch.finish(&tallies(decoded, &all, request.refused));
        let entry = Entry { kind: BATCH, events, bytes, ack: request.ack, extra: Claims::default() };
        lane.append(entry)?.await?;
        Ok(())
    }

    fn door<'a>(&self, access: &Access, request: &IngestRequest<'a>, sent_at_ms: Option<i64>) -> OwnDoor {
        let device = agent::device(request.client.user_agent);
        OwnDoor {
            received_ms: request.received_ms,
            sent_at_ms,
            import: access.class == KeyClass::Secret && access.may(Scope::EventsImport),
            late_ms: access.game.settings.late_ms(),
            country: request.client.address.and_then(|address| self.country(address)),
            platform: device.platform.map_or("", |platform| platform.label()),
            bot: device.bot,
            own: request.endpoint.is_internal(),
        }
    }

    fn encode(
        &self,
        access: &Access,
        request: &IngestRequest<'_>,
        decoded: &RawBatch<'_>,
        door: &AdmissionContext<'_>,
    ) -> (Entry<Claims>, Vec<(u32, Reject)>) {
        let game = access.game.number;
        let mask = self.masks.of(game, access.class);
        let capacity = decoded.events.len() * 160;
        let mut batch =
            BatchBuilder::new(request.endpoint, access.class, game, request.received_ms, capacity);
        batch.set_values_max(access.game.settings.values_max);
        let mut claims = Claims::with_capacity(decoded.events.len());
        let mut refused = Vec::new();
        let mut taken = 0;
        let mut stamping = Stamping::new(self, access, request);
        for (index, event) in decoded.events.iter().enumerate() {
            let pushed =
                event.as_ref().map_err(|reject| *reject).and_then(|raw| stamping.push(raw, door, &mut batch));
            match pushed {
                Ok(id) => {
                    if let Some(id) = id {
                        claims.push(taken, Claim::new(mask, id));
                    }
                    taken += 1;
                }
                Err(reject) => refused.push((index as u32, reject)),
            }
        }
        let (bytes, events) = batch.finish(&tallies(decoded, &refused, request.refused));
        (Entry { kind: BATCH, events, bytes, ack: request.ack, extra: claims }, refused)
    }

    fn show(
        &self,
        access: &Access,
        request: &IngestRequest<'_>,
        decoded: &RawBatch<'_>,
        refused: &[(u32, Reject)],
    ) {
        if refused.is_empty() {
            return;
        }
        let shown = refused.iter().take(SHOWN_MAX).map(|(index, reject)| {
            let raw = decoded.events[*index as usize].as_ref().ok();
            Refusal {
                at_ms: request.received_ms,
                name: text(raw, |raw| raw.name.as_ref()),
                player: text(raw, |raw| raw.player.as_ref()),
                reject: *reject,
                endpoint: request.endpoint,
            }
        });
        self.inspector.refused(access.game.number, shown);
    }
}

/// What the game's settings, variables and links mean for the events of a request, one after the other.
struct Stamping<'a> {
    dimensions: &'a [DeclaredDimension],
    variants: Option<Variants>,
    list: Vec<u8>,
    identifying: Identifying<'a>,
    /// How fast players may send; of what is past nobody knows how fast it came.
    quota: Option<&'a Quota>,
    game: u32,
}

impl<'a> Stamping<'a> {
    fn new(ingest: &'a Ingest, access: &'a Access, request: &IngestRequest<'_>) -> Stamping<'a> {
        let (game, now_ms) = (access.game.number, request.received_ms);
        let (dimensions, identifying) =
            (&access.game.settings.dimensions, Identifying::new(&ingest.views, game));
        // Which variables were in force when the events of a file happened, nobody knows.
        let is_of_now = request.endpoint != Endpoint::Import;
        let variants = is_of_now.then(|| Variants::of(&ingest.views.liveops, game, now_ms)).flatten();
        let quota = is_of_now.then_some(&ingest.quota);
        Stamping { dimensions, variants, list: Vec::new(), identifying, quota, game }
    }

    /// Admits the event and adds it to the batch. Returns its id.
    #[inline]
    fn push(
        &mut self,
        raw: &RawEvent<'_>,
        door: &AdmissionContext<'_>,
        batch: &mut BatchBuilder,
    ) -> Result<Option<u128>, Reject> {
        let mut event = admit(raw, door)?;
        if let Some(quota) = self.quota {
            quota.take_of_player(self.game, event.player, door.received_ms)?;
        }
        self.list.clear();
        raw.declared.for_each(|(number, value)| DeclaredValues::push(&mut self.list, number, value));
        if let Some(variants) = &mut self.variants {
            variants.stamp(&event, &mut self.list);
        }
        if let (Some(props), false) = (raw.props, self.dimensions.is_empty()) {
            declared(self.dimensions, props, &mut self.list);
        }
        if event.name == level_measures::LEVEL_METRIC {
            level_measures::stamp(&event, raw.props.unwrap_or_default(), &mut self.list);
        }
        event.declared = DeclaredValues::from_bytes(&self.list);
        if !is_identify(raw) {
            batch.push(&event);
            return Ok(event.id);
        }
        let identified = self.identifying.admit(raw)?;
        let (player, anonymous) = (identified.player.as_bytes(), identified.anonymous.as_bytes());
        batch.push(&StoredEvent { player, anonymous, ..event });
        Ok(event.id)
    }
}

/// An [`AdmissionContext`] that owns what it looked up.
struct OwnDoor {
    received_ms: i64,
    sent_at_ms: Option<i64>,
    import: bool,
    late_ms: i64,
    country: Option<Country>,
    platform: &'static str,
    bot: bool,
    own: bool,
}

impl OwnDoor {
    fn as_door(&self) -> AdmissionContext<'_> {
        AdmissionContext {
            received_ms: self.received_ms,
            sent_at_ms: self.sent_at_ms,
            import: self.import,
            late_ms: self.late_ms,
            country: self.country.as_ref().map_or("", |country| country.as_str()),
            platform: self.platform,
            bot: self.bot,
            is_internal: self.own,
        }
    }
}

impl Receipt {
    /// `removed` are ordinals among the `taken` events of the request; `refused` are indexes of the request.
    fn of(taken: u32, position: u64, removed: &[u32], mut refused: Vec<(u32, Reject)>) -> Receipt {
        let mut outcomes = [0; 5];
        outcomes[Outcome::Accepted as usize] = taken - removed.len() as u32;
        if !removed.is_empty() {
            let duplicates = indexes_of(removed, &refused);
            refused.extend(duplicates.into_iter().map(|index| (index, Reject::SeenBefore)));
            refused.sort_unstable_by_key(|(index, _)| *index);
        }
        refused.iter().for_each(|(_, reject)| outcomes[reject.outcome() as usize] += 1);
        Receipt { outcomes, position, refused, used: None }
    }
}

/// The indexes in the request of the `ordinals`-th events that were not refused at the door. Both lists ascend.
fn indexes_of(ordinals: &[u32], refused: &[(u32, Reject)]) -> Vec<u32> {
    let mut passed = 0;
    let index_of = |ordinal: &u32| {
        while refused.get(passed as usize).is_some_and(|(index, _)| *index <= ordinal + passed) {
            passed += 1;
        }
        ordinal + passed
    };
    ordinals.iter().map(index_of).collect()
}

/// How many events of the day's quota were spent in vain: duplicates, or all if nothing was written (`removed` is `None`).
fn unused(endpoint: Endpoint, taken: u32, removed: Option<usize>) -> u64 {
    let unused = removed.map_or(u64::from(taken), |removed| removed as u64);
    if endpoint.is_accounted() { unused } else { 0 }
}

/// How much of what came in was refused, by reason: these events, and what was refused `before`.
/// What was refused, here and before, each reason once: that is as many as there are reasons.
fn tallies(
    decoded: &RawBatch<'_>,
    refused: &[(u32, Reject)],
    before: &[(Reject, u32)],
) -> Vec<(Reject, u32)> {
    let here = refused.iter().map(|(index, reject)| {
        let raw = decoded.events[*index as usize].as_ref().ok();
        (*reject, raw.and_then(|raw| raw.samples).map_or(1, |samples| samples.received))
    });
    let mut tallies: Vec<(Reject, u32)> = Vec::new();
    for (reject, count) in before.iter().copied().chain(here) {
        match tallies.iter_mut().find(|(other, _)| *other == reject) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => tallies.push((reject, count)),
        }
    }
    tallies
}

fn text<'a>(
    raw: Option<&'a RawEvent<'_>>,
    field: impl Fn(&'a RawEvent<'_>) -> Option<&'a Cow<'a, str>>,
) -> String {
    raw.and_then(field).map(|text| text.chars().take(200).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_written_is_given_back_if_it_was_spent() {
        assert_eq!(unused(Endpoint::Events, 7, Some(2)), 2);
        assert_eq!(unused(Endpoint::Events, 7, None), 7);
        assert_eq!(unused(Endpoint::Monitor, 7, None), 0);
    }

    #[test]
    fn duplicates_are_named_by_their_place_in_the_request() {
        let refused = vec![(0, Reject::TooOld), (3, Reject::UnknownField)];
        // The request was: late, taken 0, taken 1, invalid, taken 2.
        let receipt = Receipt::of(3, 9, &[1, 2], refused);
        let expected = vec![
            (0, Reject::TooOld),
            (2, Reject::SeenBefore),
            (3, Reject::UnknownField),
            (4, Reject::SeenBefore),
        ];
        assert_eq!(receipt.refused, expected);
        assert_eq!(receipt.outcomes, [1, 2, 1, 1, 0]);
    }

    #[test]
    fn every_reason_is_told_once_however_often_it_was_given() {
        let before = vec![(Reject::NotUtf8, 2); 300];
        let told = tallies(&RawBatch::default(), &[], &before);
        assert_eq!(told, [(Reject::NotUtf8, 600)]);
        let builder = BatchBuilder::new(Endpoint::Import, KeyClass::Secret, 1, 0, 0);
        let (bytes, events) = builder.finish(&told);
        let batch = model::batch::EventBatch::read(&bytes).expect("it was just written");
        assert_eq!((events, batch.tallies().collect::<Vec<_>>()), (0, told));
        assert_eq!(batch.events().count(), 0);
    }
}
