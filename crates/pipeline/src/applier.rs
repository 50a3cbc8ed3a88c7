//! The applier: the thread that reads the durable log and applies every entry to the views, once and in order.
//!
//! It works in cycles: the batches of a cycle become one set of deltas, which costs less than many small ones. A reader
//! that must see the newest batch ends the cycle at once.

mod checkpoints;
mod quarantine;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::bail;
use liveops::LiveOps;
use model::batch::{EventBatch, StoredEvent};
use model::deltas::Deltas;
use model::identity::Identities;
use model::ports::counters::StoreError;
use model::sessions::{PLAY_TIME, SESSION, SessionSignal, Sessions};
use tracing::{error, warn};
use wal::{EntryRef, Wal, WalError};

use crate::accounting::AccountingMetrics;
use crate::ingest::{BATCH, COMMAND, Claims, ERASED, RegisteredUntil};
use crate::open_log::advice_for_damaged_views;
use crate::views::Views;

use checkpoints::CheckpointScheduler;

pub(crate) use checkpoints::{checkpoint_now, commit_later};
pub use quarantine::{PanickedRange, Quarantine};

/// The length of a cycle if no reader waits.
const CYCLE: Duration = Duration::from_millis(200);
/// Rows of one set of deltas; a larger one is applied before the cycle ends.
const ROWS_MAX: usize = 200_000;
/// Bytes that are read from the log at a time.
const READ_BYTES: usize = 8 << 20;
/// The interval at which a checkpoint that frees memory is polled.
const MEMORY_POLL: Duration = Duration::from_millis(5);
/// The pause before a failed store or log is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// Attempts to read the log or to load rollups before the process ends.
const ATTEMPTS: u32 = 5;
/// The name of the sessions in the side state of a checkpoint.
pub(crate) const SESSIONS: &str = "sessions";

/// Applies the log to the views.
pub struct Applier {
    log: Wal<Claims>,
    views: Arc<Views>,
    metrics: &'static AccountingMetrics,
    deltas: Deltas,
    /// The log position at which the deltas begin.
    from: u64,
    /// The log position that is read next.
    at: u64,
    /// What is being applied, if it is known: one entry, or the range of the deltas.
    current: Option<Range<u64>>,
    checkpoints: CheckpointScheduler,
    /// The data folder, for advice.
    data: PathBuf,
}

/// The error of one cycle. Nothing is lost: the next cycle continues where this one ended.
#[derive(Debug, thiserror::Error)]
enum CycleError {
    #[error("the log cannot be read: {0}")]
    Log(#[from] WalError),
    #[error("rollups cannot be loaded: {0}")]
    Store(#[from] StoreError),
    #[error(
        "a log entry that causes a panic twice is skipped and listed by `playmeter verify`; the panic: {0}"
    )]
    Panicked(String),
}

impl Applier {
    /// Creates an applier that continues at the position of the views.
    pub(crate) fn new(
        data: &Path,
        log: Wal<Claims>,
        views: Arc<Views>,
        registered_until: RegisteredUntil,
    ) -> Applier {
        let at = views.counters.applied_until();
        let checkpoints = CheckpointScheduler::new(Arc::clone(&views), log.clone(), registered_until, at);
        let (metrics, deltas) = (AccountingMetrics::get(), Deltas::default());
        let data = data.to_owned();
        Applier { log, views, metrics, deltas, from: at, at, current: None, checkpoints, data }
    }

    /// Applies everything that is durable now. Called once, before the first query is answered.
    pub(crate) fn catch_up(&mut self) -> anyhow::Result<()> {
        self.apply_until(self.log.durable_until())
    }

    /// Starts the thread. It ends when the log is closed, after a final checkpoint. If it fails, the process must end,
    /// because views no longer follow the log.
    pub fn start(self) -> std::io::Result<JoinHandle<()>> {
        let views = Arc::clone(&self.views);
        let run = move || {
            lower_priority();
            match catch_unwind(AssertUnwindSafe(|| self.run())) {
                Ok(Ok(())) => {}
                Ok(Err(failure)) => views.fail(&format!("{failure:#}")),
                Err(_) => views.fail("the applier panicked; start the server again"),
            }
        };
        std::thread::Builder::new().name("applier".into()).spawn(run)
    }

    fn run(mut self) -> anyhow::Result<()> {
        loop {
            match self.log.wait(self.at, self.checkpoints.due_in()) {
                Ok(durable_until) if durable_until > self.at => {
                    self.views.throttle.wait(CYCLE, self.views.counters.applied_until());
                    self.apply_until(self.log.durable_until())?;
                }
                Ok(_) => {}
                Err(WalError::Closed) => break,
                // The log reports the failure of the disk itself.
                Err(_) => return Ok(()),
            }
            self.checkpoints.start_if_due(self.at);
        }
        self.apply_until(self.log.durable_until())?;
        self.checkpoints.write_final();
        Ok(())
    }

    /// Applies the log up to `until`, in parts between which checkpoints are taken, so that neither a long log at start
    /// nor a slow store needs more memory.
    fn apply_until(&mut self, until: u64) -> anyhow::Result<()> {
        let views = Arc::clone(&self.views);
        let _lag = views.lag.start();
        let mut failures = 0;
        while self.at < until {
            match self.guarded_cycle(until) {
                Ok(()) => failures = 0,
                Err(failure) => {
                    failures += 1;
                    error!(%failure, at = self.at, "the log cannot be applied");
                    if failures == ATTEMPTS || !matches!(failure, CycleError::Log(_)) {
                        let advice = match failure {
                            CycleError::Store(_) => advice_for_damaged_views(&self.data),
                            _ => "start the server again".into(),
                        };
                        bail!("the log cannot be applied at offset {}: {failure}; {advice}", self.at);
                    }
                    std::thread::sleep(RETRY);
                }
            }
            self.checkpoints.start_if_due(self.at);
            self.checkpoints.wait_while_far_behind();
            self.wait_for_memory();
        }
        Ok(())
    }

    /// Waits for the running checkpoint if the rollups exceed their budget. What is not applied yet waits in the log.
    fn wait_for_memory(&self) {
        let is_committing = || self.views.committing.load(Ordering::Acquire);
        while self.views.counters.is_over_budget() && is_committing() && !self.views.is_stopping() {
            self.views.memory_waits.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(MEMORY_POLL);
        }
    }

    /// Runs a cycle. If it panics, stores what was being applied. The views are not usable after a panic or a failure of
    /// the store.
    fn guarded_cycle(&mut self, until: u64) -> Result<(), CycleError> {
        let views = Arc::clone(&self.views);
        // Reading moves the sessions ahead of the rollups. After a crash, a checkpoint taken in between would have the
        // sessions observe the same events twice.
        let applying = views.applying.lock();
        let result = catch_unwind(AssertUnwindSafe(|| self.cycle(until)));
        let result = result.unwrap_or_else(|panic| {
            let message = quarantine::message_of(&*panic);
            if let Some(current) = self.current.take() {
                self.views.quarantine.record(current, message.clone());
            }
            Err(CycleError::Panicked(message))
        });
        if let Err(CycleError::Store(_) | CycleError::Panicked(_)) = &result {
            // The views stay locked until the process ends: nothing may capture a state that is half applied.
            std::mem::forget(applying);
        }
        result
    }

    /// Reads the log, up to `until` or until a checkpoint is due or would free memory, and applies it.
    fn cycle(&mut self, until: u64) -> Result<(), CycleError> {
        self.views.recent_events.start_cycle();
        let bytes_max = self.checkpoints.bytes() + self.checkpoints.limits.bytes;
        let mut read = Ok(());
        while self.at < until && read.is_ok() && self.checkpoints.bytes() < bytes_max {
            read = self.read();
            if let Err(CycleError::Store(_)) = read {
                return read;
            }
            if self.is_short_of_memory() {
                break;
            }
        }
        self.apply()?;
        read
    }

    /// Returns true if a checkpoint has to be started, or to be waited for, before more is applied.
    fn is_short_of_memory(&self) -> bool {
        self.views.counters.wants_checkpoint() || self.views.counters.is_over_budget()
    }

    /// Returns the number of rows to apply at once: fewer if memory is scarce, because each may be new.
    fn rows_max(&self) -> usize {
        let memory = self.views.counters.memory();
        if memory.bytes > memory.bytes_max / 2 { ROWS_MAX / 10 } else { ROWS_MAX }
    }

    /// Reads a part of the log and adds it to the deltas. Applies them when they are large, and ends early if a checkpoint
    /// would free memory.
    fn read(&mut self) -> Result<(), CycleError> {
        let read_bytes = READ_BYTES.min(self.checkpoints.limits.bytes);
        let batch = match self.log.read(self.at, read_bytes) {
            Err(WalError::Trimmed { first }) => {
                error!(from = self.at, until = first, "a part of the log was removed before it was applied");
                self.at = first;
                return Ok(());
            }
            batch => batch?,
        };
        for damage in &batch.skipped {
            error!(?damage, "a damaged part of the log was skipped");
        }
        for chunk in &batch.chunks {
            for entry in chunk.entries_from(self.at) {
                if self.views.quarantine.is_suspect(entry.offset) {
                    self.apply_alone(&entry)?;
                } else {
                    self.apply_entry(&entry);
                }
            }
            self.checkpoints.add_bytes(chunk.bytes());
            if self.deltas.len() > self.rows_max() {
                self.at = chunk.until();
                self.apply()?;
                if self.is_short_of_memory() {
                    return Ok(());
                }
            }
        }
        self.at = batch.next;
        Ok(())
    }

    /// Applies an entry and nothing else, so that a panic has one cause.
    fn apply_alone(&mut self, entry: &EntryRef<'_>) -> Result<(), StoreError> {
        self.at = self.at.max(entry.offset);
        self.apply()?;
        self.apply_entry(entry);
        self.at = entry.until();
        self.apply()
    }

    /// Adds an entry to the deltas, unless it is quarantined.
    fn apply_entry(&mut self, entry: &EntryRef<'_>) {
        if self.views.quarantine.is_skipped(entry.offset) {
            error!(offset = entry.offset, "a log entry is skipped because applying it panicked twice");
            self.views.pending_answers.cancel(entry.offset);
            return;
        }
        if self.views.deleted_games.contains_entry(entry.kind, entry.bytes) {
            self.views.pending_answers.cancel(entry.offset);
            return;
        }
        self.current = Some(entry.offset..entry.until());
        apply_entry(&self.views, self.metrics, &mut self.deltas, entry);
        self.current = None;
    }

    /// Applies the deltas. The sessions are ahead of the rollups until that succeeds, so the caller holds the lock.
    fn apply(&mut self) -> Result<(), StoreError> {
        self.current = Some(self.from..self.at);
        let mut attempts = 1;
        while let Err(failure) = self.views.counters.apply(self.from..self.at, &self.deltas) {
            error!(%failure, "the store did not accept rollups");
            if attempts == ATTEMPTS {
                return Err(failure);
            }
            attempts += 1;
            std::thread::sleep(RETRY);
        }
        self.from = self.at;
        self.views.publish_applied(self.at, &self.deltas);
        self.deltas.clear();
        self.current = None;
        Ok(())
    }
}

/// Applies one entry of the log: a command to live-ops, a batch to the deltas and the sessions.
pub fn apply_entry(views: &Views, metrics: &AccountingMetrics, deltas: &mut Deltas, entry: &EntryRef<'_>) {
    if entry.kind == COMMAND {
        return apply_command(views, entry);
    }
    if entry.kind == ERASED {
        return;
    }
    if entry.kind != BATCH {
        warn!(kind = entry.kind, offset = entry.offset, "a log entry of an unknown kind was skipped");
        return;
    }
    let batch = match EventBatch::read(entry.bytes) {
        Ok(batch) => batch,
        Err(failure) => {
            error!(%failure, offset = entry.offset, "an invalid batch in the log was skipped");
            return;
        }
    };
    #[cfg(feature = "fault-injection")]
    panic_if_injected(&batch);
    deltas.set_offset(entry.offset);
    views.accounting.count(&batch, entry.events, entry.time_ms, deltas, metrics);
    if entry.events > 0 {
        if batch.endpoint.is_accounted() {
            let events = batch.events().filter(|event| event.samples.is_none());
            let count = batch.accepted(entry.events).events;
            views.recent_events.add_accepted(batch.game, batch.endpoint, count, events);
        }
        let on_event = |event: &StoredEvent<'_>, linked| {
            if LiveOps::is_relevant_event(event.name) {
                views.liveops.apply_event(batch.game, entry.offset, event);
            }
            if linked == LinkOutcome::Linked && !event.erased {
                views.liveops.apply_link(batch.game, event.anonymous, event.player);
            }
        };
        let mut sessions = views.sessions.lock();
        let seed = views.seeds.of(batch.game);
        let players = PlayerViews { sessions: &mut sessions, identities: &views.identities, seed };
        apply_events(players, entry, &batch, deltas, on_event);
    }
}

/// Panics on an event with the name `panic`, for tests.
#[cfg(feature = "fault-injection")]
fn panic_if_injected(batch: &EventBatch<'_>) {
    static IS_INJECTED: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
        std::env::var("PLAYMETER_INJECTED_FAULT").is_ok_and(|fault| fault == "panic_on_apply")
    });
    if *IS_INJECTED && batch.events().any(|event| event.name == b"panic") {
        panic!("an injected fault");
    }
}

/// Applies one command and publishes its outcome to the request that waits for it.
fn apply_command(views: &Views, entry: &EntryRef<'_>) {
    match views.liveops.apply(entry.offset, entry.bytes) {
        Ok(applied) => {
            views.erase_recent_events(applied.game, &applied.touched);
            // Before the outcome, so that a client that has it sees the change in its subscriptions.
            views.publish_command(applied.game, &applied.touched);
            views.pending_answers.resolve(entry.offset, applied.outcome);
        }
        Err(failure) => {
            error!(%failure, offset = entry.offset, "an invalid command in the log was skipped");
            views.pending_answers.cancel(entry.offset);
        }
    }
}

/// The views about players that applying a batch reads and updates.
pub struct PlayerViews<'a> {
    /// The sessions of every game.
    pub sessions: &'a mut Sessions,
    /// The links of anonymous ids to players.
    pub identities: &'a Identities,
    /// The hash seed of the batch's game.
    pub seed: u64,
}

/// The effect of an event on identity links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkOutcome {
    /// It linked two ids, or repeated an existing link.
    Linked,
    /// It linked nothing.
    NotLinked,
}

/// Applies the events of a batch to the deltas and to the views about players. The result depends only on the log and
/// on the state of these views before it. `on_event` is called with each event and its effect on identity links.
pub fn apply_events(
    views: PlayerViews<'_>,
    entry: &EntryRef<'_>,
    batch: &EventBatch<'_>,
    deltas: &mut Deltas,
    on_event: impl Fn(&StoredEvent<'_>, LinkOutcome),
) {
    let PlayerViews { sessions, identities, seed } = views;
    let players = sessions.game(batch.game);
    // By the time of the commit: a batch that was received slowly is committed long after its receipt began.
    players.turn_back_if_ahead((entry.time_ms / 1000) as u32);
    let mut links = identities.game(batch.game);
    deltas.set_values_max(batch.game, batch.values_max);
    for event in batch.events() {
        if let Some(samples) = event.samples {
            match samples.aggregate() {
                Ok(cell) => deltas.add_samples(batch.game, &event, cell),
                Err(failure) => {
                    error!(%failure, offset = entry.offset, "invalid samples in the log were skipped")
                }
            }
            continue;
        }
        let mut linked = LinkOutcome::NotLinked;
        if !event.anonymous.is_empty() {
            let (anonymous, player) = (event.anonymous_number(seed), event.player_number(seed));
            // A link is rejected if another one came first in log order. The event counts all the same.
            if identities.link(batch.game, anonymous, player, entry.offset).is_ok() {
                linked = LinkOutcome::Linked;
                links = identities.game(batch.game);
                players.link(anonymous, links.as_ref().map_or(player, |links| links.player(player)));
            }
        }
        on_event(&event, linked);
        let player = player_of(seed, &event);
        let player = player.map(|id| links.as_ref().map_or(id, |links| links.player(id)));
        deltas.add_event(batch.game, &event, player);
        let Some(player) = player else { continue };
        let at_s = (event.ts_ms.min(batch.received_ms) / 1000) as u32;
        let effect = players.observe(player, SessionSignal::from_event_name(event.name), at_s);
        if effect.started {
            deltas.add_derived(batch.game, SESSION, &event, Some(player), None);
        }
        if effect.play_s > 0 {
            deltas.add_derived(batch.game, PLAY_TIME, &event, Some(player), Some(f64::from(effect.play_s)));
        }
    }
}

/// Returns the number of the player that the event counts for. Events of bots and without a player id count for none.
fn player_of(seed: u64, event: &StoredEvent<'_>) -> Option<u64> {
    (!event.player.is_empty() && !event.bot).then(|| event.player_number(seed))
}

/// Lowers the priority of the calling thread, so that threads that acknowledge run first when cores are scarce: clients
/// wait for those, while views may lag for a moment.
pub fn lower_priority() {
    const NICE: i32 = 10;
    // On Linux this affects the calling thread only. If it fails the server still works, with less even latencies.
    let _ = rustix::process::setpriority_process(None, NICE);
}
