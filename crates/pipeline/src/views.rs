//! The views: everything derived from the log, as readers see it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use liveops::{LiveOps, Touched};
use model::deltas::Deltas;
use model::identity::Identities;
use model::ports::counters::{Checkpoint, Counters, SideState, StoreError};
use model::ports::records::Records;
use model::sessions::Sessions;
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use crate::accounting::IngestAccounting;
use crate::applier::{Quarantine, SESSIONS, commit_later};
use crate::cohorts::CohortSets;
use crate::deleted_games::DeletedGames;
use crate::disk_space::DiskSpace;
use crate::lag::Lag;
use crate::pending_answers::{CommandOutcome, PendingAnswers};
use crate::recent_events::RecentEvents;
use crate::urgent_watchers::UrgentWatchers;

/// The interval at which [`Views::pause_at_checkpoint`] polls a running checkpoint.
const COMMIT_POLL: Duration = Duration::from_millis(10);
/// The time after which [`Views::pause_at_checkpoint`] no longer waits for a running checkpoint.
const COMMIT_WAIT: Duration = Duration::from_secs(60);
/// The time that a request waits for the views at most.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// The lag of the views from which on the server is not ready.
const LAG_MAX: Duration = Duration::from_secs(10);

/// Called when the process cannot continue, with a sentence that says why and what to do.
pub type OnFatal = Arc<dyn Fn(&str) + Send + Sync>;
/// Called with every set of deltas.
type OnApplied = Box<dyn Fn(&Deltas) + Send>;
/// Called with a game and the changes of one command.
type OnCommand = Box<dyn Fn(u32, &[Touched]) + Send>;

/// The views and the log position that they contain.
pub struct Views {
    /// The rollups.
    pub counters: Arc<dyn Counters>,
    /// The sessions of every game.
    pub sessions: Mutex<Sessions>,
    /// The links of anonymous ids to players.
    pub identities: Identities,
    /// The state of live-ops: variables, boards, levels and so on.
    pub liveops: LiveOps,
    /// The outcomes of commands, for the requests that wait for them.
    pub(crate) pending_answers: PendingAnswers,
    /// The players of cohorts.
    pub cohorts: CohortSets,
    /// The ingest accounting.
    pub accounting: IngestAccounting,
    /// The last events of every game.
    pub recent_events: Arc<RecentEvents>,
    /// The subscribers for whom the applier ends its cycle early.
    pub urgent_watchers: UrgentWatchers,
    /// The seeds under which player ids are hashed.
    pub seeds: PlayerSeeds,
    /// Locked while the log is read and applied. Under this lock, rollups and sessions are at the same position.
    pub(crate) applying: Mutex<()>,
    /// A checkpoint is being committed.
    pub(crate) committing: AtomicBool,
    /// How often the applier has waited because the rollups exceeded their memory budget.
    pub memory_waits: AtomicU64,
    pub(crate) throttle: ApplyThrottle,
    /// The entries on which the applier panicked.
    pub quarantine: Quarantine,
    /// The games of which nothing is applied any more.
    pub deleted_games: Arc<DeletedGames>,
    /// The room on the disk.
    pub space: Arc<DiskSpace>,
    /// Locked while erased players are removed from files, and while a backup copies them.
    pub files: Mutex<()>,
    /// Locked while files of the archive are written or removed, and while a backup links them.
    pub archive_files: Mutex<()>,
    /// The position of the log before which all events are in files of the archive: the log keeps what comes after.
    pub archived_until: AtomicU64,
    /// How long the applier has been behind the log.
    pub(crate) lag: Lag,
    on_fatal: OnceLock<OnFatal>,
    stopping: AtomicBool,
    /// A captured checkpoint was given up while the server stops.
    checkpoints_abandoned: AtomicBool,
    applied: watch::Sender<u64>,
    on_applied: Mutex<Vec<OnApplied>>,
    on_command: Mutex<Vec<OnCommand>>,
}

impl Views {
    /// Opens the views of an engine and restores the sessions from its side state.
    pub fn open(counters: Arc<dyn Counters>, secret: &str) -> Result<Views, StoreError> {
        let sessions = match counters.side_state(SESSIONS)? {
            Some(bytes) => Sessions::restore(&bytes).map_err(|bad| StoreError(bad.to_string()))?,
            None => Sessions::default(),
        };
        let liveops = LiveOps::open(Arc::clone(&counters) as Arc<dyn Records>)?;
        let identities = Identities::restore(&*counters)?;
        let (applied, _) = watch::channel(counters.applied_until());
        Ok(Views {
            counters,
            sessions: Mutex::new(sessions),
            identities,
            liveops,
            pending_answers: PendingAnswers::default(),
            cohorts: CohortSets::default(),
            accounting: IngestAccounting::default(),
            recent_events: Arc::default(),
            urgent_watchers: UrgentWatchers::default(),
            seeds: PlayerSeeds::new(secret),
            applying: Mutex::default(),
            committing: AtomicBool::new(false),
            memory_waits: AtomicU64::new(0),
            throttle: ApplyThrottle::default(),
            quarantine: Quarantine::default(),
            deleted_games: Arc::default(),
            space: Arc::default(),
            files: Mutex::default(),
            archive_files: Mutex::default(),
            archived_until: AtomicU64::new(0),
            lag: Lag::default(),
            on_fatal: OnceLock::new(),
            stopping: AtomicBool::new(false),
            checkpoints_abandoned: AtomicBool::new(false),
            applied,
            on_applied: Mutex::default(),
            on_command: Mutex::default(),
        })
    }

    /// Sets what happens when the process cannot continue. Without it, the failure is only logged.
    pub(crate) fn set_on_fatal(&self, on_fatal: OnFatal) {
        let _ = self.on_fatal.set(on_fatal);
    }

    /// Reports that the process cannot continue.
    pub(crate) fn fail(&self, failure: &str) {
        match self.on_fatal.get() {
            Some(on_fatal) => on_fatal(failure),
            None => tracing::error!("{failure}"),
        }
    }

    /// Stops waiting for disk space: a checkpoint that cannot be written soon is given up.
    pub fn stop_waiting(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Returns true once the server stops, so that long work ends.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn abandon_checkpoints(&self) {
        self.checkpoints_abandoned.store(true, Ordering::Release);
    }

    pub(crate) fn are_checkpoints_abandoned(&self) -> bool {
        self.checkpoints_abandoned.load(Ordering::Acquire)
    }

    /// Returns how long the views have been behind the log.
    pub fn lag(&self) -> Duration {
        self.lag.elapsed()
    }

    /// Returns an error if the views are so far behind the log that reads would not be answered.
    pub fn check_lag(&self) -> Result<(), ViewsBehind> {
        if self.lag() > LAG_MAX { Err(ViewsBehind) } else { Ok(()) }
    }

    /// Waits for the outcome of the durable command at this offset. Returns `None` if the command could not be read.
    ///
    /// # Errors
    /// If the command is not applied in time. It is durable and will be.
    pub async fn wait_for_outcome(&self, offset: u64) -> Result<Option<CommandOutcome>, ViewsBehind> {
        self.throttle.skip_until(offset + 1);
        let outcome = tokio::time::timeout(WAIT_MAX, self.pending_answers.wait(offset)).await;
        outcome.map_err(|_| {
            self.pending_answers.cancel(offset);
            ViewsBehind
        })
    }

    /// Captures the applied state for a checkpoint. The caller holds the lock `applying`, so that all views are at one
    /// position.
    pub(crate) fn capture_checkpoint(&self) -> Box<dyn Checkpoint> {
        let sessions = self.sessions.lock().snapshot();
        let mut records = self.liveops.changes();
        records.extend(self.identities.changes());
        self.counters.checkpoint(SideState { states: vec![(SESSIONS, sessions)], records })
    }

    /// Pauses the applier at a position where everything applied is durable, until the returned guard is dropped.
    /// Rollups may only be replaced in this state: after a crash, pending changes would be applied twice. Blocks.
    ///
    /// # Errors
    /// If the checkpoint cannot be written now. It is then tried again in the background, because the changes that it has
    /// captured exist nowhere else.
    pub fn pause_at_checkpoint(self: &Arc<Views>) -> Result<PausedApplier<'_>, StoreError> {
        let deadline = Instant::now() + COMMIT_WAIT;
        let applying = loop {
            let applying = self.applying.lock();
            if !self.committing.swap(true, Ordering::AcqRel) {
                break applying;
            }
            drop(applying);
            if Instant::now() >= deadline || self.is_stopping() {
                return Err(StoreError(
                    "a checkpoint is being written and does not end; is the disk full?".into(),
                ));
            }
            std::thread::sleep(COMMIT_POLL);
        };
        let mut checkpoint = self.capture_checkpoint();
        if let Err(failure) = checkpoint.commit() {
            commit_later(Arc::clone(self), checkpoint);
            return Err(failure.into());
        }
        self.committing.store(false, Ordering::Release);
        Ok(PausedApplier { _applying: applying })
    }

    /// Returns when the views contain everything before `position`.
    ///
    /// # Errors
    /// If they do not in time.
    pub async fn caught_up(&self, position: u64) -> Result<(), ViewsBehind> {
        if *self.applied.borrow() >= position {
            return Ok(());
        }
        self.throttle.skip_until(position);
        let mut applied = self.applied.subscribe();
        // The sender lives in `self`, so it cannot be gone.
        let wait = applied.wait_for(|until| *until >= position);
        tokio::time::timeout(WAIT_MAX, wait).await.map(|_| ()).map_err(|_| ViewsBehind)
    }

    /// Has this position applied without waiting for the end of the apply cycle.
    pub(crate) fn wake_applier(&self, position: u64) {
        self.throttle.skip_until(position);
    }

    /// Blocks until the views contain everything before `position`. See [`Views::caught_up`].
    ///
    /// # Errors
    /// If they do not in time.
    pub fn wait_caught_up(&self, position: u64) -> Result<(), ViewsBehind> {
        let deadline = Instant::now() + COMMIT_WAIT;
        while *self.applied.borrow() < position {
            if Instant::now() >= deadline {
                return Err(ViewsBehind);
            }
            self.throttle.skip_until(position);
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Registers a callback that receives every set of deltas. It runs on the applier's thread and must be quick.
    pub fn on_applied(&self, callback: impl Fn(&Deltas) + Send + 'static) {
        self.on_applied.lock().push(Box::new(callback));
    }

    /// Registers a callback that receives the changes of each command. It runs on the applier's thread and must be
    /// quick.
    pub fn on_command(&self, callback: impl Fn(u32, &[Touched]) + Send + 'static) {
        self.on_command.lock().push(Box::new(callback));
    }

    /// Removes the events of erased players from the recent events.
    pub fn erase_recent_events(&self, game: u32, touched: &[Touched]) {
        for touched in touched {
            if let Touched::Erased(ids) = touched {
                self.recent_events.erase_player(game, ids);
            }
        }
    }

    /// Returns true if the views contain everything before `position`. If they do not, wakes the applier.
    pub(crate) fn is_caught_up(&self, position: u64) -> bool {
        let caught_up = *self.applied.borrow() >= position;
        if !caught_up {
            self.throttle.skip_until(position);
        }
        caught_up
    }

    /// Publishes the changes of a command to the callbacks.
    pub fn publish_command(&self, game: u32, touched: &[Touched]) {
        if !touched.is_empty() {
            self.on_command.lock().iter().for_each(|callback| callback(game, touched));
        }
    }

    /// Publishes that everything before `until` was applied. The callbacks run first, so that a reader who waits for
    /// the position and then subscribes sees the events that it waited for.
    pub fn publish_applied(&self, until: u64, deltas: &Deltas) {
        self.on_applied.lock().iter().for_each(|callback| callback(deltas));
        self.applied.send_replace(until);
    }
}

/// The views do not contain everything that was acknowledged, and did not within the time that a reader waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the views are behind the log at the moment; nothing acknowledged is lost, try again soon")]
pub struct ViewsBehind;

/// Keeps the applier paused until it is dropped.
pub struct PausedApplier<'a> {
    _applying: MutexGuard<'a, ()>,
}

/// Delays the applier to gather larger cycles, unless a reader waits.
#[derive(Default)]
pub(crate) struct ApplyThrottle {
    /// The highest position that a reader waits for.
    wanted: Mutex<u64>,
    changed: Condvar,
}

impl ApplyThrottle {
    /// Does not delay the applier before it has applied `position`.
    fn skip_until(&self, position: u64) {
        let mut wanted = self.wanted.lock();
        *wanted = position.max(*wanted);
        self.changed.notify_all();
    }

    /// Returns after `delay`, or as soon as a reader waits for a position that is not applied yet.
    pub(crate) fn wait(&self, delay: Duration, applied_until: u64) {
        let end = Instant::now() + delay;
        let mut wanted = self.wanted.lock();
        while *wanted <= applied_until {
            if self.changed.wait_until(&mut wanted, end).timed_out() {
                return;
            }
        }
    }
}

/// The seeds under which the player ids of each game are hashed: constant in one installation, different in others.
pub struct PlayerSeeds {
    secret: String,
    seeds: RwLock<HashMap<u32, u64>>,
}

impl PlayerSeeds {
    /// Creates the seeds that follow from an installation's secret.
    pub(crate) fn new(secret: &str) -> PlayerSeeds {
        PlayerSeeds { secret: secret.to_owned(), seeds: RwLock::default() }
    }

    /// Returns the seed of a game.
    pub fn of(&self, game: u32) -> u64 {
        if let Some(seed) = self.seeds.read().get(&game) {
            return *seed;
        }
        *self.seeds.write().entry(game).or_insert_with(|| {
            let digest = Sha256::digest(format!("{} player {game}", self.secret));
            u64::from_be_bytes(*digest.first_chunk().expect("SHA-256 has 32 bytes"))
        })
    }
}

#[cfg(test)]
mod tests {
    use testkit::counters::{MemoryCounters, MemoryDisk};

    use super::*;

    #[test]
    fn callbacks_run_before_waiting_readers_are_woken() {
        let counters = Arc::new(MemoryCounters::open(&MemoryDisk::default()));
        let views = Arc::new(Views::open(counters, "secret").expect("an empty store is readable"));
        let (seen, weak_views) = (Arc::new(Mutex::new(None)), Arc::downgrade(&views));
        let seen_by_callback = Arc::clone(&seen);
        views.on_applied(move |_| {
            *seen_by_callback.lock() = weak_views.upgrade().map(|views| views.is_caught_up(1));
        });
        views.publish_applied(1, &Deltas::default());
        assert_eq!(*seen.lock(), Some(false), "no reader could have subscribed by then");
        assert!(views.is_caught_up(1));
    }

    fn empty_views() -> Views {
        let counters = Arc::new(MemoryCounters::open(&MemoryDisk::default()));
        Views::open(counters, "secret").expect("an empty store is readable")
    }

    #[tokio::test(start_paused = true)]
    async fn waits_for_the_views_end() {
        let views = empty_views();
        assert_eq!(views.caught_up(0).await, Ok(()));
        assert_eq!(views.caught_up(1).await, Err(ViewsBehind));
        assert_eq!(views.wait_for_outcome(7).await, Err(ViewsBehind));
        views.publish_applied(1, &Deltas::default());
        assert_eq!(views.caught_up(1).await, Ok(()));
    }

    #[test]
    fn views_that_are_long_behind_the_log_are_not_ready() {
        let views = empty_views();
        assert_eq!(views.check_lag(), Ok(()));
        let lag = views.lag.start();
        assert_eq!(views.check_lag(), Ok(()), "a cycle has just begun");
        drop(lag);
        let lag = views.lag.start_at(Instant::now() - 2 * LAG_MAX);
        assert!(views.lag() >= LAG_MAX);
        assert_eq!(views.check_lag(), Err(ViewsBehind));
        drop(lag);
        assert_eq!((views.check_lag(), views.lag()), (Ok(()), Duration::ZERO));
    }
}
