//! Forgetting players behind the log: what a command has made invisible is taken out of every file.
//!
//! A player is forgotten in three steps, each of which a restart takes up again where it was:
//!
//! 1. A checkpoint contains the command that asked for it, so the log need not say again what led to it. Closed
//!    segments are then written again: of the player's events stays what is counted, commands about the player become
//!    empty. Offsets stay.
//! 2. `Erased` makes the receipt forget the player's ids. A checkpoint writes that, and the store is purged.
//! 3. `Purged` closes the receipt.
//!
//! What came after the command that asked for it is another story and stays.

mod gone;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use liveops::players::{Command as Players, Found, Stage};
use liveops::{By, Caller, Command, CommandRef, Touched};
use parking_lot::{Condvar, Mutex};
use tokio::sync::Semaphore;
use tracing::{error, info};
use wal::{Ack, Entry, Wal};

use crate::applier::{checkpoint_now, give_way};
use crate::ingest::{COMMAND, Claims, IdMasks, Remembered};
use crate::time::now_ms;
use crate::views::Views;

use gone::{Asked, Eraser};

/// Exports at a time: each reads the whole log.
const EXPORTS_MAX: usize = 2;
/// How long the writer may take to begin the next segment.
const ROLL: Duration = Duration::from_secs(10);
/// How long a disk that fails or is full is left alone.
const RETRY: Duration = Duration::from_secs(30);
/// Who asks within this time of another shares a pass.
const GATHER: Duration = Duration::from_millis(300);
/// After a pass, so many times its duration nothing is done: all who ask meanwhile share the next one.
const REST_TIMES: u32 = 4;
/// But no longer than this.
const REST_MAX: Duration = Duration::from_secs(3600);
/// How often it is looked whether the views have caught up.
const POLL: Duration = Duration::from_millis(1);

/// The thread that takes forgotten players out of files.
pub struct Erasure {
    work: Work,
    signal: Signal,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Held by whoever gives a player's data out.
    pub exports: Arc<Semaphore>,
}

#[derive(Default)]
struct Signal {
    state: Mutex<State>,
    bell: Condvar,
}

#[derive(Clone, Copy, Default)]
struct State {
    wanted: bool,
    stopped: bool,
}

struct Work {
    log: Wal<Claims>,
    views: Arc<Views>,
    remembered: Remembered,
    masks: IdMasks,
}

/// The server is stopping; the next start goes on.
#[derive(Debug, thiserror::Error)]
#[error("stopping")]
struct Stopping;

impl Erasure {
    /// Ready to be started.
    pub fn new(log: Wal<Claims>, views: Arc<Views>, remembered: Remembered, secret: &str) -> Arc<Erasure> {
        let masks = IdMasks::new(secret);
        let work = Work { log, views, remembered, masks };
        let exports = Arc::new(Semaphore::new(EXPORTS_MAX));
        Arc::new(Erasure { work, signal: Signal::default(), thread: Mutex::default(), exports })
    }

    /// Starts the thread, which first goes on with what an earlier run has begun.
    pub fn start(self: &Arc<Erasure>) -> std::io::Result<()> {
        let decided = Arc::downgrade(self);
        self.work.views.on_decided(move |_, touched| {
            let is_erased = touched.iter().any(|touched| matches!(touched, Touched::Erased(_)));
            if let Some(erasure) = decided.upgrade().filter(|_| is_erased) {
                erasure.signal.set(|state| state.wanted = true);
            }
        });
        let erasure = Arc::clone(self);
        let run = move || {
            give_way();
            erasure.run();
        };
        *self.thread.lock() = Some(std::thread::Builder::new().name("erasure".into()).spawn(run)?);
        Ok(())
    }

    /// Ends the thread at the next segment. Blocks.
    pub fn stop(&self) {
        self.signal.set(|state| state.stopped = true);
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            error!("the thread that forgets players has panicked; the next start goes on");
        }
    }

    fn run(&self) {
        while !self.signal.is_stopped() {
            let started = Instant::now();
            match self.work.pass(&self.signal) {
                Ok(0) => {
                    self.signal.wait(None);
                    self.signal.wait(Some(GATHER));
                }
                Ok(done) => {
                    info!(
                        players = done,
                        ms = started.elapsed().as_millis() as u64,
                        "players were forgotten"
                    );
                    self.signal.wait(Some((started.elapsed() * REST_TIMES).min(REST_MAX)));
                }
                Err(failure) if failure.is::<Stopping>() => return,
                Err(failure) => {
                    error!(failure = format!("{failure:#}"), "players cannot be forgotten; trying again");
                    self.signal.wait(Some(RETRY));
                }
            }
        }
    }
}

impl Signal {
    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        self.bell.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.state.lock().stopped
    }

    fn check(&self) -> Result<(), Stopping> {
        if self.is_stopped() { Err(Stopping) } else { Ok(()) }
    }

    /// Returns after `rest`, or without one when there is something to do; at once when it is to stop.
    fn wait(&self, rest: Option<Duration>) {
        let mut state = self.state.lock();
        let until = rest.map(|rest| Instant::now() + rest);
        while !state.stopped {
            match until {
                Some(until) => {
                    if self.bell.wait_until(&mut state, until).timed_out() {
                        break;
                    }
                }
                None if state.wanted => break,
                None => self.bell.wait(&mut state),
            }
        }
        state.wanted = false;
    }
}

impl Work {
    /// Carries out what has been asked for until now. Gives how many were forgotten.
    fn pass(&self, signal: &Signal) -> anyhow::Result<usize> {
        let (asked, mut erased) = self.under_way();
        if !asked.is_empty() {
            let found = self.erase(&asked, signal)?;
            for (asked, found) in asked.into_iter().zip(found) {
                let (game, receipt) = (asked.game, asked.receipt);
                self.command(game, Players::Erased { receipt: receipt.clone(), found }, signal)?;
                erased.push((game, receipt));
            }
        }
        if !erased.is_empty() {
            checkpoint_now(&self.views, &self.log, &self.remembered);
            signal.check()?;
            self.views.counters.purge().context("purging the store")?;
        }
        for (game, receipt) in &erased {
            self.command(*game, Players::Purged { receipt: receipt.clone() }, signal)?;
        }
        Ok(erased.len())
    }

    /// Those whom the log still knows, by the order of their commands, and those whom only the store knows.
    fn under_way(&self) -> (Vec<Asked>, Vec<(u32, String)>) {
        let (mut asked, mut erased) = (Vec::new(), Vec::new());
        for number in self.views.liveops.erasing() {
            let game = self.views.liveops.game(number);
            for (receipt, erasure) in game.read().players.erasures() {
                let receipt = receipt.to_owned();
                match erasure.stage {
                    Stage::Asked => {
                        let (offset, ids) = (erasure.offset, erasure.ids.clone());
                        asked.push(Asked { game: number, receipt, offset, ids });
                    }
                    Stage::Erased | Stage::Purged => erased.push((number, receipt)),
                }
            }
        }
        asked.sort_unstable_by_key(|asked| asked.offset);
        (asked, erased)
    }

    /// Takes them out of the log. Gives what was found of each.
    fn erase(&self, asked: &[Asked], signal: &Signal) -> anyhow::Result<Vec<Found>> {
        let last = asked.last().map_or(0, |asked| asked.offset);
        if self.views.counters.durable_until() <= last {
            checkpoint_now(&self.views, &self.log, &self.remembered);
        }
        if self.views.counters.durable_until() <= last {
            bail!("the views have not come so far");
        }
        let until = self.log.roll(ROLL).context("beginning the next segment")?;
        let remembered = self.remembered.load(Ordering::Acquire);
        let mut eraser = Eraser::new(asked, &self.views.seeds, &self.masks, remembered);
        for closed in self.log.closed_segments().into_iter().filter(|closed| closed.end <= until) {
            signal.check()?;
            let rewritten = self.log.rewrite(closed.start, &mut eraser).context("rewriting the log")?;
            if let Some(rewritten) = rewritten {
                info!(segment = closed.start, ?rewritten, "a segment of the log was written again");
            }
        }
        Ok(eraser.found())
    }

    /// Sends a command of the server's own, and returns when it was decided.
    fn command(&self, game: u32, command: Players, signal: &Signal) -> anyhow::Result<()> {
        let committed = self.log.append(entry(game, command))?.wait()?;
        let until = committed.context("it is waited for")?.offsets.end;
        while !self.views.is_caught_up(until) {
            signal.check()?;
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

/// A command that nobody outside has asked for.
pub fn entry(game: u32, command: Players) -> Entry<Claims> {
    let by = By { caller: Caller::Server, signed: None };
    let (tz, command) = ("UTC".to_owned(), Command::Players(command));
    let command = CommandRef { game, received_ms: now_ms(), by, tz, idempotency: None, command, blob: &[] };
    let bytes = liveops::encode(&command);
    Entry { kind: COMMAND, events: 0, bytes, ack: Ack::Disk, extra: Claims::default() }
}
