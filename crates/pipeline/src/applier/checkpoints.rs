//! Checkpoints: frequent enough that a restart is quick, rare enough to cost little.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::ports::counters::Checkpoint;
use tracing::{error, warn};
use wal::Wal;

use super::lower_priority;
use crate::ingest::{Claims, RegisteredUntil};
use crate::views::Views;

/// Applied bytes after which a checkpoint is due; about the most that a restart applies again.
const BYTES_MAX: usize = 64 << 20;
/// The time after which a checkpoint is due.
const INTERVAL: Duration = Duration::from_secs(30);
/// The pause before a failed store is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// The interval at which a running checkpoint is polled.
const BUSY_POLL: Duration = Duration::from_millis(10);
/// Attempts to write the final checkpoint. What is not durable then is applied again at the next start.
const FINAL_ATTEMPTS: u32 = 5;

/// Writes a checkpoint of everything applied, independent of the schedule. Blocks.
pub(crate) fn checkpoint_now(views: &Views, log: &Wal<Claims>, registered_until: &AtomicU64) {
    let checkpoint = loop {
        let applying = views.applying.lock();
        if !views.committing.swap(true, Ordering::AcqRel) {
            break views.capture_checkpoint();
        }
        drop(applying);
        std::thread::sleep(BUSY_POLL);
    };
    commit(views, log, registered_until, checkpoint);
}

/// Commits a checkpoint. Retries until it is written, because the captured changes exist nowhere else.
fn commit(
    views: &Views,
    log: &Wal<Claims>,
    registered_until: &AtomicU64,
    mut checkpoint: Box<dyn Checkpoint>,
) {
    while let Err(failure) = checkpoint.commit() {
        error!(%failure, "a checkpoint could not be written; trying again");
        std::thread::sleep(RETRY);
    }
    log.keep_from(views.counters.durable_until().min(registered_until.load(Ordering::Acquire)));
    views.committing.store(false, Ordering::Release);
}

/// Captures checkpoints on the applier's thread and commits each on a thread of its own.
pub(super) struct CheckpointScheduler {
    views: Arc<Views>,
    log: Wal<Claims>,
    registered_until: RegisteredUntil,
    captured_until: u64,
    captured_at: Instant,
    bytes: usize,
    running: Option<JoinHandle<()>>,
}

impl CheckpointScheduler {
    pub(super) fn new(
        views: Arc<Views>,
        log: Wal<Claims>,
        registered_until: RegisteredUntil,
        captured_until: u64,
    ) -> CheckpointScheduler {
        let (captured_at, bytes, running) = (Instant::now(), 0, None);
        CheckpointScheduler { views, log, registered_until, captured_until, captured_at, bytes, running }
    }

    /// Adds bytes of the log that were applied.
    pub(super) fn add_bytes(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Returns the time until the next checkpoint is due, if nothing more is applied.
    pub(super) fn due_in(&self) -> Duration {
        if self.bytes == 0 {
            return Duration::from_secs(3600);
        }
        INTERVAL.saturating_sub(self.captured_at.elapsed()).max(Duration::from_millis(10))
    }

    /// Starts a checkpoint if one is due and none is running.
    pub(super) fn start_if_due(&mut self, applied_until: u64) {
        let due = self.bytes >= BYTES_MAX || self.captured_at.elapsed() >= INTERVAL;
        let views = Arc::clone(&self.views);
        let _applying = views.applying.lock();
        if !due || self.bytes == 0 || views.committing.swap(true, Ordering::AcqRel) {
            return;
        }
        let checkpoint = self.capture(applied_until);
        let (views, log) = (Arc::clone(&self.views), self.log.clone());
        let registered_until = Arc::clone(&self.registered_until);
        let work = move || {
            lower_priority();
            commit(&views, &log, &registered_until, checkpoint);
        };
        match std::thread::Builder::new().name("checkpoint".into()).spawn(work) {
            Ok(thread) => self.running = Some(thread),
            Err(failure) => panic!("cannot start the checkpoint thread: {failure}"),
        }
    }

    /// Writes the final checkpoint before the process ends.
    pub(super) fn write_final(&mut self) {
        if let Some(running) = self.running.take() {
            let _ = running.join();
        }
        let applied_until = self.views.counters.applied_until();
        if applied_until == self.captured_until {
            return;
        }
        let mut checkpoint = self.capture(applied_until);
        for _ in 0..FINAL_ATTEMPTS {
            match checkpoint.commit() {
                Ok(()) => return,
                Err(failure) => warn!(%failure, "the final checkpoint could not be written; trying again"),
            }
            std::thread::sleep(RETRY);
        }
        error!("the final checkpoint was not written; the next start applies the end of the log again");
    }

    fn capture(&mut self, applied_until: u64) -> Box<dyn Checkpoint> {
        (self.captured_at, self.bytes, self.captured_until) = (Instant::now(), 0, applied_until);
        self.views.capture_checkpoint()
    }
}
