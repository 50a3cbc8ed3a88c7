//! Erasure: players that a command has already made invisible are removed from every file, and so are deleted games
//! ([`game_deletion`]).
//!
//! An erasure has three steps. A restart continues at the step that was reached:
//!
//! 1. A checkpoint contains the command that requested the erasure, so that the log is not needed to derive it. Closed
//!    segments are then rewritten: the player's events keep what rollups count, and commands about the player become
//!    empty. Offsets stay. Then the files of the archive that contain the player's events are written anew.
//! 2. The command `Erased` removes the player's ids from the receipt. A checkpoint writes that, and the store is
//!    purged.
//! 3. The command `Purged` closes the receipt.
//!
//! Entries after the command that requested the erasure are not part of it and stay.
//!
//! While a backup copies the files, an erasure waits.

mod game_deletion;
mod log_eraser;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use liveops::players::{ErasedCounts, ErasureStage, PlayerCommand as Players};
use liveops::{Caller, Command, CommandRef, Principal, Touched};
use model::rollup::hash_player;
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::Semaphore;
use tracing::{error, info};
use wal::{Ack, Entry, Wal};

use crate::applier::{checkpoint_now, lower_priority};
use crate::archiver::Archiver;
use crate::catalog::Catalog;
use crate::flows::Flows;
use crate::ingest::{COMMAND, Claims, IdMasks, RegisteredUntil};
use crate::time::now_ms;
use crate::views::Views;
use log_eraser::{ErasureRequest, LogEraser};

/// Concurrent exports, each of which reads the whole log.
const EXPORTS_MAX: usize = 2;
/// The time that the log writer may take to begin the next segment.
const ROLL_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after a failure, such as a full disk.
const RETRY: Duration = Duration::from_secs(30);
/// Requests within this time share a pass.
const GATHER: Duration = Duration::from_millis(300);
/// The pause after a pass, as a multiple of its duration. Requests meanwhile share the next pass.
const PAUSE_FACTOR: u32 = 4;
/// The longest pause after a pass.
const PAUSE_MAX: Duration = Duration::from_secs(3600);
/// The interval at which a stop is noticed while a backup runs.
const BACKUP_POLL: Duration = Duration::from_millis(200);
/// The interval at which the views are polled until they have caught up.
const POLL: Duration = Duration::from_millis(1);

/// The thread that removes erased players from files.
pub struct Erasure {
    pass: ErasurePass,
    signal: ErasureSignal,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The permits of exports of a player's data.
    pub exports: Arc<Semaphore>,
}

#[derive(Default)]
struct ErasureSignal {
    state: Mutex<SignalState>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default)]
struct SignalState {
    requested: bool,
    stopped: bool,
}

/// Everything that a pass over the log and the store needs.
struct ErasurePass {
    log: Wal<Claims>,
    views: Arc<Views>,
    registered_until: RegisteredUntil,
    archiver: Arc<Archiver>,
    masks: IdMasks,
    catalog: Arc<Catalog>,
    flows: Arc<Flows>,
    data: PathBuf,
    on_deleted: OnDeleted,
}

/// Removes what else is stored about the deleted game with this id.
pub type OnDeleted = Box<dyn Fn(&str) -> anyhow::Result<()> + Send + Sync>;

/// What an erasure works on.
pub struct ErasureContext {
    /// The log.
    pub log: Wal<Claims>,
    /// The views.
    pub views: Arc<Views>,
    /// The log position up to which event ids need no replay from the log.
    pub registered_until: RegisteredUntil,
    /// The archive.
    pub archiver: Arc<Archiver>,
    /// The catalog of games.
    pub catalog: Arc<Catalog>,
    /// The running flows.
    pub flows: Arc<Flows>,
    /// The data folder.
    pub data: PathBuf,
    /// Called before a deletion ends.
    pub on_deleted: OnDeleted,
}

/// The server is stopping; the next start continues the erasure.
#[derive(Debug, thiserror::Error)]
#[error("stopping")]
struct Stopping;

impl Erasure {
    /// Creates the erasure without starting its thread.
    pub fn new(context: ErasureContext) -> Arc<Erasure> {
        let ErasureContext { log, views, registered_until, archiver, catalog, flows, data, on_deleted } =
            context;
        let masks = IdMasks::new(&catalog.id_secret());
        let pass =
            ErasurePass { log, views, registered_until, archiver, masks, catalog, flows, data, on_deleted };
        let exports = Arc::new(Semaphore::new(EXPORTS_MAX));
        Arc::new(Erasure { pass, signal: ErasureSignal::default(), thread: Mutex::default(), exports })
    }

    /// Starts the thread, which first continues the erasures that an earlier run has begun.
    pub fn start(self: &Arc<Erasure>) -> std::io::Result<()> {
        let erasure = Arc::downgrade(self);
        self.pass.views.on_command(move |_, touched| {
            let is_erased = touched.iter().any(|touched| matches!(touched, Touched::Erased(_)));
            if let Some(erasure) = erasure.upgrade().filter(|_| is_erased) {
                erasure.signal.set(|state| state.requested = true);
            }
        });
        let erasure = Arc::downgrade(self);
        self.pass.views.deleted_games.on_insert(move || {
            if let Some(erasure) = erasure.upgrade() {
                erasure.signal.set(|state| state.requested = true);
            }
        });
        let erasure = Arc::clone(self);
        let run = move || {
            lower_priority();
            erasure.run();
        };
        *self.thread.lock() = Some(std::thread::Builder::new().name("erasure".into()).spawn(run)?);
        Ok(())
    }

    /// Stops the thread at the next segment. Blocks until it has ended.
    pub fn stop(&self) {
        self.signal.set(|state| state.stopped = true);
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            error!("the erasure thread has panicked; the next start continues its work");
        }
    }

    fn run(&self) {
        while !self.signal.is_stopped() {
            let started = Instant::now();
            // First, because players of a deleted game are not erased on their own.
            let games = self.pass.delete_games(&self.signal);
            // A game that cannot be deleted holds up no erasure of a player.
            let players = self.pass.run(&self.signal);
            match games.and_then(|games| Ok((games, players?))) {
                Ok((0, 0)) => {
                    self.signal.wait(None);
                    self.signal.wait(Some(GATHER));
                }
                Ok((_, players)) => {
                    let ms = started.elapsed().as_millis() as u64;
                    if players > 0 {
                        info!(players, ms, "players were erased");
                    }
                    self.signal.wait(Some((started.elapsed() * PAUSE_FACTOR).min(PAUSE_MAX)));
                }
                Err(failure) if failure.is::<Stopping>() => return,
                Err(failure) => {
                    error!(
                        failure = format!("{failure:#}"),
                        "players or games could not be erased; trying again"
                    );
                    self.signal.wait(Some(RETRY));
                }
            }
        }
    }
}

impl ErasureSignal {
    fn set(&self, change: impl FnOnce(&mut SignalState)) {
        change(&mut self.state.lock());
        self.changed.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.state.lock().stopped
    }

    fn check(&self) -> Result<(), Stopping> {
        if self.is_stopped() { Err(Stopping) } else { Ok(()) }
    }

    /// Waits for `pause`, or without one for the next request. Returns at once if the thread is to stop.
    fn wait(&self, pause: Option<Duration>) {
        let mut state = self.state.lock();
        let until = pause.map(|pause| Instant::now() + pause);
        while !state.stopped {
            match until {
                Some(until) => {
                    if self.changed.wait_until(&mut state, until).timed_out() {
                        break;
                    }
                }
                None if state.requested => break,
                None => self.changed.wait(&mut state),
            }
        }
        state.requested = false;
    }
}

impl ErasurePass {
    /// Completes all erasures of players requested so far. Returns the number of erased players.
    fn run(&self, signal: &ErasureSignal) -> anyhow::Result<usize> {
        let (requests, mut erased) = self.unfinished();
        let _files =
            if requests.is_empty() && erased.is_empty() { None } else { Some(self.lock_files(signal)?) };
        if !requests.is_empty() {
            let found = self.erase_from_log(&requests, signal)?;
            self.erase_from_archive(&requests, signal)?;
            for (request, found) in requests.into_iter().zip(found) {
                let (game, receipt, until) = (request.game, request.receipt, request.offset);
                self.command(game, Players::Erased { receipt: receipt.clone(), found, until }, signal)?;
                erased.push((game, receipt));
            }
        }
        if !erased.is_empty() {
            checkpoint_now(&self.views, &self.log, &self.registered_until)?;
            signal.check()?;
            self.views.counters.purge().context("purging the store")?;
        }
        for (game, receipt) in &erased {
            self.command(*game, Players::Purged { receipt: receipt.clone() }, signal)?;
        }
        Ok(erased.len())
    }

    /// Waits until no backup copies the files: it would keep what is removed from them.
    fn lock_files(&self, signal: &ErasureSignal) -> Result<MutexGuard<'_, ()>, Stopping> {
        loop {
            if let Some(files) = self.views.files.try_lock_for(BACKUP_POLL) {
                return Ok(files);
            }
            signal.check()?;
        }
    }

    /// Returns the erasures that are still to be done in the log, in log order, and those that are left in the store
    /// only, as (game, receipt).
    fn unfinished(&self) -> (Vec<ErasureRequest>, Vec<(u32, String)>) {
        let (mut requests, mut erased) = (Vec::new(), Vec::new());
        for number in self.views.liveops.games_with_erasures() {
            if self.views.deleted_games.contains(number) {
                continue;
            }
            let game = self.views.liveops.game(number);
            for (receipt, erasure) in game.read().players.erasures() {
                let receipt = receipt.to_owned();
                match erasure.stage {
                    ErasureStage::Requested => {
                        let (offset, ids) = (erasure.offset, erasure.ids.clone());
                        requests.push(ErasureRequest { game: number, receipt, offset, ids });
                    }
                    ErasureStage::Erased | ErasureStage::Purged => erased.push((number, receipt)),
                }
            }
        }
        requests.sort_unstable_by_key(|request| request.offset);
        (requests, erased)
    }

    /// Removes the players from the log. Returns what was found of each.
    fn erase_from_log(
        &self,
        requests: &[ErasureRequest],
        signal: &ErasureSignal,
    ) -> anyhow::Result<Vec<ErasedCounts>> {
        let last = requests.last().map_or(0, |request| request.offset);
        if self.views.counters.durable_until() <= last {
            checkpoint_now(&self.views, &self.log, &self.registered_until)?;
        }
        if self.views.counters.durable_until() <= last {
            bail!("no checkpoint contains the requests yet");
        }
        let registered_until = self.registered_until.load(Ordering::Acquire);
        let mut eraser = LogEraser::new(requests, &self.views.seeds, &self.masks, registered_until);
        self.rewrite_log(&mut eraser, signal)?;
        Ok(eraser.found())
    }

    /// Removes the players from the archive. Until the log was rewritten, the archive might append them again after a crash.
    fn erase_from_archive(&self, requests: &[ErasureRequest], signal: &ErasureSignal) -> anyhow::Result<()> {
        let games: BTreeSet<u32> = requests.iter().map(|request| request.game).collect();
        for game in games {
            let seed = self.views.seeds.of(game);
            let of_game = || requests.iter().filter(|request| request.game == game);
            let players = of_game().flat_map(|request| &request.ids);
            let players: Vec<u64> = players.map(|id| hash_player(seed, id.as_bytes())).collect();
            let until = of_game().map(|request| request.offset + 1).max().unwrap_or_default();
            let is_done = self.archiver.erase(game, &players, until, || signal.is_stopped());
            if !is_done.context("erasing from the archive")? {
                return Err(Stopping.into());
            }
        }
        Ok(())
    }

    /// Appends a command of the server itself and returns when it is applied.
    fn command(&self, game: u32, command: Players, signal: &ErasureSignal) -> anyhow::Result<()> {
        let committed = self.log.append(server_command(game, command))?.wait()?;
        let until = committed.context("the log did not confirm the command")?.offsets.end;
        while !self.views.is_caught_up(until) {
            signal.check()?;
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

/// Returns the log entry of a command of the server itself.
pub fn server_command(game: u32, command: Players) -> Entry<Claims> {
    let by = Principal { caller: Caller::Server, signed: None };
    let (tz, command) = ("UTC".to_owned(), Command::Players(command));
    let command = CommandRef { game, received_ms: now_ms(), by, tz, idempotency: None, command, blob: &[] };
    let bytes = liveops::encode(&command);
    Entry { kind: COMMAND, events: 0, bytes, ack: Ack::Disk, extra: Claims::default() }
}
