//! What follows the log: every batch is folded into the views, once, in order.
//!
//! One thread reads what has become durable, a cycle at a time: many batches make one set of additions, which costs
//! less than many small ones. A question that must see the newest batch ends the cycle at once.

mod checkpoints;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use std::time::Duration;

use liveops::LiveOps;
use model::batch::{EventBatch, StoredEvent};
use model::deltas::Deltas;
use model::identity::Identities;
use model::sessions::{PLAY_TIME, SESSION, SessionSignal, Sessions};
use tracing::{error, warn};
use wal::{EntryRef, Wal, WalError};

use crate::accounting::Names;
use crate::ingest::{BATCH, COMMAND, Claims, ERASED};
use crate::views::Views;

pub(crate) use checkpoints::checkpoint_now;

use checkpoints::Checkpoints;

/// How long additions are gathered when nobody asks.
const CYCLE: Duration = Duration::from_millis(200);
/// Rows of one set of additions; more are applied at once.
const ROWS_MAX: usize = 200_000;
/// What is read from the log at a time.
const READ_BYTES: usize = 8 << 20;
/// How long a store that failed is left alone.
const RETRY: Duration = Duration::from_secs(1);
/// The name under which sessions are kept beside the rollups.
pub const SESSIONS: &str = "sessions";

/// The thread that applies the log.
pub struct Processor {
    log: Wal<Claims>,
    views: Arc<Views>,
    names: &'static Names,
    deltas: Deltas,
    /// Where the additions begin.
    from: u64,
    /// What is read next.
    at: u64,
    checkpoints: Checkpoints,
}

impl Processor {
    /// A processor that goes on where the views stand. `ids_remembered` is how far the ids need no log.
    pub fn new(log: Wal<Claims>, views: Arc<Views>, ids_remembered: Arc<AtomicU64>) -> Processor {
        let at = views.counters.applied_until();
        let checkpoints = Checkpoints::new(Arc::clone(&views), log.clone(), ids_remembered, at);
        Processor { log, views, names: Names::get(), deltas: Deltas::default(), from: at, at, checkpoints }
    }

    /// Applies everything that is durable now. Called once before the first question is answered.
    pub fn catch_up(&mut self) {
        self.cycle(self.log.durable_until());
    }

    /// Starts the thread. It ends when the log is closed, after a last checkpoint.
    pub fn start(self) -> std::io::Result<JoinHandle<()>> {
        let run = move || {
            give_way();
            self.run();
        };
        std::thread::Builder::new().name("processor".into()).spawn(run)
    }

    fn run(mut self) {
        loop {
            match self.log.wait(self.at, self.checkpoints.due_in()) {
                Ok(durable_until) if durable_until > self.at => {
                    self.views.throttle.wait(CYCLE, self.views.counters.applied_until());
                    self.cycle(self.log.durable_until());
                }
                Ok(_) => {}
                Err(WalError::Closed) => break,
                Err(failure) => {
                    error!(%failure, "the views stop following the log");
                    return;
                }
            }
            self.checkpoints.when_due(self.at);
        }
        self.cycle(self.log.durable_until());
        self.checkpoints.last();
    }

    /// Reads up to `until` and applies it.
    fn cycle(&mut self, until: u64) {
        let views = Arc::clone(&self.views);
        // Reading moves the sessions ahead of the rollups. A checkpoint of both in between would, after a crash, have
        // the sessions see the same events twice.
        let _applying = views.applying.lock();
        views.inspector.next_cycle();
        while self.at < until {
            self.read();
            if self.deltas.len() > ROWS_MAX {
                self.apply();
            }
        }
        self.apply();
    }

    fn read(&mut self) {
        let batch = match self.log.read(self.at, READ_BYTES) {
            Ok(batch) => batch,
            Err(WalError::Trimmed { first }) => {
                error!(from = self.at, until = first, "this part of the log is gone before it was applied");
                self.at = first;
                return;
            }
            Err(failure) => {
                error!(%failure, at = self.at, "the log cannot be read");
                std::thread::sleep(RETRY);
                return;
            }
        };
        for damage in &batch.skipped {
            error!(?damage, "this part of the log is damaged and was passed over");
        }
        for chunk in &batch.chunks {
            chunk
                .entries_from(self.at)
                .for_each(|entry| fold(&self.views, self.names, &mut self.deltas, &entry));
            self.checkpoints.read(chunk.bytes());
        }
        self.at = batch.next;
    }

    fn apply(&mut self) {
        while let Err(failure) = self.views.counters.apply(self.from..self.at, &self.deltas) {
            error!(%failure, "rollups cannot be applied");
            std::thread::sleep(RETRY);
        }
        self.from = self.at;
        self.views.applied(self.at, &self.deltas);
        self.deltas.clear();
    }
}

/// Adds what one entry of the log means.
pub fn fold(views: &Views, names: &Names, deltas: &mut Deltas, entry: &EntryRef<'_>) {
    if entry.kind == COMMAND {
        return decide(views, entry);
    }
    if entry.kind == ERASED {
        return;
    }
    if entry.kind != BATCH {
        warn!(kind = entry.kind, offset = entry.offset, "an entry of an unknown kind was passed over");
        return;
    }
    let batch = match EventBatch::read(entry.bytes) {
        Ok(batch) => batch,
        Err(failure) => {
            error!(%failure, offset = entry.offset, "an entry was passed over");
            return;
        }
    };
    deltas.set_offset(entry.offset);
    views.meter.count(&batch, entry.events, deltas, names);
    if entry.events > 0 {
        if batch.endpoint.is_accounted() {
            views.inspector.accepted(batch.game, batch.endpoint, entry.events, batch.events());
        }
        let wanted = |event: &StoredEvent<'_>, linked| {
            if LiveOps::is_wanted(event.name) {
                views.liveops.event(batch.game, entry.offset, event);
            }
            if linked == Linked::Yes && !event.erased {
                views.liveops.linked(batch.game, event.anonymous, event.player);
            }
        };
        let mut sessions = views.sessions.lock();
        let seed = views.seeds.of(batch.game);
        let people = People { sessions: &mut sessions, identities: &views.identities, seed };
        fold_events(people, entry.offset, &batch, deltas, wanted);
    }
}

/// Decides what one entry of the log commands, and tells whoever waits for it.
fn decide(views: &Views, entry: &EntryRef<'_>) {
    match views.liveops.apply(entry.offset, entry.bytes) {
        Ok(applied) => {
            views.forget(applied.game, &applied.touched);
            // Who gets the answer finds what it changed among what is watched.
            views.decided(applied.game, &applied.touched);
            views.answers.tell(entry.offset, applied.outcome);
        }
        Err(failure) => {
            error!(%failure, offset = entry.offset, "a command was passed over");
            views.answers.never(entry.offset);
        }
    }
}

/// Who plays, and who is who.
pub struct People<'a> {
    /// Sessions of every game.
    pub sessions: &'a mut Sessions,
    /// Links of anonymous ids to players.
    pub identities: &'a Identities,
    /// Of the batch's game.
    pub seed: u64,
}

/// Whether an event made two ids one player's, or said so again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linked {
    /// It did.
    Yes,
    /// It did not.
    No,
}

/// The events of a batch, as rollups and sessions see them. A pure function of the log and the people before it.
/// Each event is shown to `also`, with what it means for who is who.
pub fn fold_events(
    people: People<'_>,
    offset: u64,
    batch: &EventBatch<'_>,
    deltas: &mut Deltas,
    also: impl Fn(&StoredEvent<'_>, Linked),
) {
    let People { sessions, identities, seed } = people;
    let players = sessions.game(batch.game);
    let mut links = identities.game(batch.game);
    deltas.set_values_max(batch.game, batch.values_max);
    for event in batch.events() {
        if let Some(samples) = event.samples {
            match samples.aggregate() {
                Ok(cell) => deltas.add_samples(batch.game, &event, cell),
                Err(failure) => error!(%failure, offset, "samples were passed over"),
            }
            continue;
        }
        let mut linked = Linked::No;
        if !event.anonymous.is_empty() {
            let (anonymous, player) = (event.anonymous_number(seed), event.player_number(seed));
            // A refusal was decided by the log's order: another link came first. The event counts all the same.
            if identities.link(batch.game, anonymous, player, offset).is_ok() {
                linked = Linked::Yes;
                links = identities.game(batch.game);
                players.link(anonymous, links.as_ref().map_or(player, |links| links.player(player)));
            }
        }
        also(&event, linked);
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

/// Who is counted as a player: somebody with an id who is no bot.
fn player_of(seed: u64, event: &StoredEvent<'_>) -> Option<u64> {
    (!event.player.is_empty() && !event.bot).then(|| event.player_number(seed))
}

/// Lets the threads that acknowledge go first when cores are scarce: views may be a moment behind, clients wait.
pub(crate) fn give_way() {
    const NICE: i32 = 10;
    // On Linux this is about the calling thread. Without it the server works, less evenly.
    let _ = rustix::process::setpriority_process(None, NICE);
}
