//! Everything derived from the log, as those who answer questions see it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

use crate::accounting::Meter;
use crate::answers::{Answers, Outcome};
use crate::applier::SESSIONS;
use crate::recent_events::Inspector;
use crate::urgent_watchers::UrgentWatchers;

/// The interval at which [`Views::pause_at_checkpoint`] looks whether a running checkpoint is complete.
const COMMIT_POLL: Duration = Duration::from_millis(10);

/// Is called with every set of additions.
type OnApplied = Box<dyn Fn(&Deltas) + Send>;
/// Is called with what a command of a game changed.
type OnDecided = Box<dyn Fn(u32, &[Touched]) + Send>;

/// The views and how far they have come.
pub struct Views {
    /// Rollups.
    pub counters: Arc<dyn Counters>,
    /// Who is playing.
    pub sessions: Mutex<Sessions>,
    /// Which anonymous ids belong to which players.
    pub identities: Identities,
    /// Variables, boards, levels and the rest.
    pub liveops: LiveOps,
    /// What those are told who wait for a command.
    pub answers: Answers,
    /// What came in by the second.
    pub meter: Meter,
    /// The last events.
    pub inspector: Arc<Inspector>,
    /// Who wants to be told at once.
    pub urgent_watchers: UrgentWatchers,
    /// What turns player ids into numbers.
    pub seeds: Seeds,
    /// Held while the log is read and applied; whoever holds it sees rollups and sessions stand at the same position.
    pub(crate) applying: Mutex<()>,
    /// A checkpoint is on its way to the disk.
    pub(crate) committing: AtomicBool,
    pub(crate) throttle: ApplyThrottle,
    applied: watch::Sender<u64>,
    touched: Mutex<Vec<OnApplied>>,
    decided: Mutex<Vec<OnDecided>>,
}

impl Views {
    /// The views of an engine, with what it kept of the sessions.
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
            answers: Answers::default(),
            meter: Meter::default(),
            inspector: Arc::default(),
            urgent_watchers: UrgentWatchers::default(),
            seeds: Seeds::new(secret),
            applying: Mutex::default(),
            committing: AtomicBool::new(false),
            throttle: ApplyThrottle::default(),
            applied,
            touched: Mutex::default(),
            decided: Mutex::default(),
        })
    }

    /// The outcome of the command at this offset, which is durable. `None`: it could not be read.
    pub async fn outcome(&self, offset: u64) -> Option<Outcome> {
        self.throttle.want(offset + 1);
        self.answers.wait(offset).await
    }

    /// Takes what is applied aside for a checkpoint. Whoever calls this holds `applying`: all views stand at one position.
    pub(crate) fn freeze(&self) -> Box<dyn Checkpoint> {
        let sessions = self.sessions.lock().snapshot();
        let mut records = self.liveops.changes();
        records.extend(self.identities.changes());
        self.counters.checkpoint(SideState { states: vec![(SESSIONS, sessions)], records })
    }

    /// Pauses the applier at a position where everything applied is durable, until the returned guard is dropped. While
    /// rollups are replaced nothing may wait for the disk: after a crash it would be applied twice. Blocks.
    pub fn pause_at_checkpoint(&self) -> Result<PausedApplier<'_>, StoreError> {
        let applying = self.applying.lock();
        while self.committing.load(Ordering::Acquire) {
            std::thread::sleep(COMMIT_POLL);
        }
        self.freeze().commit()?;
        Ok(PausedApplier { _applying: applying })
    }

    /// Returns when the views contain everything before `position`.
    pub async fn caught_up(&self, position: u64) {
        if *self.applied.borrow() >= position {
            return;
        }
        self.throttle.want(position);
        let mut applied = self.applied.subscribe();
        // The sender lives in `self`, so it cannot be gone.
        let _ = applied.wait_for(|until| *until >= position).await;
    }

    /// Does not wait for more to come before this position is applied.
    pub fn wake_applier(&self, position: u64) {
        self.throttle.want(position);
    }

    /// As [`Views::caught_up`], for a thread that may block.
    pub fn wait_caught_up(&self, position: u64) {
        while *self.applied.borrow() < position {
            self.throttle.want(position);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Calls back with every set of additions, on the processor's thread: be quick.
    pub fn on_applied(&self, callback: impl Fn(&Deltas) + Send + 'static) {
        self.touched.lock().push(Box::new(callback));
    }

    /// Calls back with what each command changed, on the processor's thread: be quick.
    pub fn on_decided(&self, callback: impl Fn(u32, &[Touched]) + Send + 'static) {
        self.decided.lock().push(Box::new(callback));
    }

    /// Whoever was erased is not shown any more.
    pub fn forget(&self, game: u32, touched: &[Touched]) {
        for touched in touched {
            if let Touched::Erased(ids) = touched {
                self.inspector.forget(game, ids);
            }
        }
    }

    /// Whether the views contain everything before `position`; they hurry if not.
    pub fn is_caught_up(&self, position: u64) -> bool {
        let caught_up = *self.applied.borrow() >= position;
        if !caught_up {
            self.throttle.want(position);
        }
        caught_up
    }

    /// Notifies the callbacks of what a command changed.
    pub fn decided(&self, game: u32, touched: &[Touched]) {
        if !touched.is_empty() {
            self.decided.lock().iter().for_each(|callback| callback(game, touched));
        }
    }

    /// Says that everything up to this position was applied, first of all to those who tell what is watched: whoever waits
    /// for the position and then begins to watch is shown what it waited for.
    pub fn applied(&self, until: u64, deltas: &Deltas) {
        self.touched.lock().iter().for_each(|callback| callback(deltas));
        self.applied.send_replace(until);
    }
}

/// Keeps the applier paused until it is dropped.
pub struct PausedApplier<'a> {
    _applying: MutexGuard<'a, ()>,
}

/// Lets the processor rest, unless somebody waits for it.
#[derive(Default)]
pub(crate) struct ApplyThrottle {
    wanted: Mutex<u64>,
    bell: Condvar,
}

impl ApplyThrottle {
    fn want(&self, position: u64) {
        let mut wanted = self.wanted.lock();
        *wanted = position.max(*wanted);
        self.bell.notify_all();
    }

    /// Returns after `time`, or as soon as somebody wants more than what is applied.
    pub(crate) fn wait(&self, time: Duration, applied_until: u64) {
        let end = Instant::now() + time;
        let mut wanted = self.wanted.lock();
        while *wanted <= applied_until {
            if self.bell.wait_until(&mut wanted, end).timed_out() {
                return;
            }
        }
    }
}

/// The seeds under which each game's player ids are hashed: the same in one installation for ever, different in others.
pub struct Seeds {
    secret: String,
    known: RwLock<HashMap<u32, u64>>,
}

impl Seeds {
    /// Seeds of an installation's secret.
    pub fn new(secret: &str) -> Seeds {
        Seeds { secret: secret.to_owned(), known: RwLock::default() }
    }

    /// The seed of a game.
    pub fn of(&self, game: u32) -> u64 {
        if let Some(seed) = self.known.read().get(&game) {
            return *seed;
        }
        *self.known.write().entry(game).or_insert_with(|| {
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
    fn who_tells_what_is_watched_knows_before_those_who_wait_do() {
        let counters = Arc::new(MemoryCounters::open(&MemoryDisk::default()));
        let views =
            Arc::new(Views::open(counters, "secret").expect("there is nothing that could be damaged"));
        let (seen, looks) = (Arc::new(Mutex::new(None)), Arc::downgrade(&views));
        let tells = Arc::clone(&seen);
        views.on_applied(move |_| {
            *tells.lock() = looks.upgrade().map(|views| views.is_caught_up(1));
        });
        views.applied(1, &Deltas::default());
        assert_eq!(*seen.lock(), Some(false), "nobody could have begun to watch by then");
        assert!(views.is_caught_up(1));
    }
}
