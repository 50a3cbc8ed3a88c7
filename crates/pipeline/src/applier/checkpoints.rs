//! Checkpoints: frequent enough that a restart is quick, rare enough to cost little.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::ports::counters::{Checkpoint, CheckpointError};
use tracing::{error, warn};
use wal::Wal;

use super::lower_priority;
use crate::ingest::{Claims, RegisteredUntil};
use crate::views::Views;

/// How much of the log is applied between checkpoints. The defaults are those of the product; tests use smaller values.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckpointLimits {
    /// Applied bytes after which a checkpoint is due; about the most that a restart applies again.
    pub(super) bytes: usize,
    /// Bytes applied since the last checkpoint after which the applier waits until the running one is written: what was
    /// applied since is in memory only.
    pub(super) waiting_bytes: usize,
}

impl Default for CheckpointLimits {
    fn default() -> CheckpointLimits {
        CheckpointLimits { bytes: 64 << 20, waiting_bytes: 256 << 20 }
    }
}

/// The time after which a checkpoint is due.
const INTERVAL: Duration = Duration::from_secs(30);
/// The pause before a failed store is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// The interval at which a running checkpoint is polled.
const BUSY_POLL: Duration = Duration::from_millis(10);
/// Attempts to write a checkpoint while the server stops. What is not durable then is applied again at the next start.
const FINAL_ATTEMPTS: u32 = 5;

/// Writes a checkpoint of everything applied, independent of the schedule. Blocks.
///
/// # Errors
/// If the server stops before it is written.
pub(crate) fn checkpoint_now(
    views: &Views,
    log: &Wal<Claims>,
    registered_until: &AtomicU64,
) -> Result<(), Abandoned> {
    let checkpoint = loop {
        let applying = views.applying.lock();
        if !views.committing.swap(true, Ordering::AcqRel) {
            break views.capture_checkpoint();
        }
        drop(applying);
        if views.is_stopping() {
            return Err(Abandoned);
        }
        std::thread::sleep(BUSY_POLL);
    };
    commit(views, log, registered_until, checkpoint)
}

/// The server stops and the checkpoint was not written. No later one may be written either: the captured changes exist
/// nowhere else, and the next start applies the log again.
#[derive(Debug, thiserror::Error)]
#[error("the server stops before the checkpoint is written")]
pub(crate) struct Abandoned;

/// Commits a checkpoint, and lets the log remove what it contains.
fn commit(
    views: &Views,
    log: &Wal<Claims>,
    registered_until: &AtomicU64,
    checkpoint: Box<dyn Checkpoint>,
) -> Result<(), Abandoned> {
    commit_durably(views, checkpoint)?;
    let archived_until = views.archived_until.load(Ordering::Acquire);
    let registered_until = registered_until.load(Ordering::Acquire);
    log.keep_from(views.counters.durable_until().min(registered_until).min(archived_until));
    views.committing.store(false, Ordering::Release);
    Ok(())
}

/// Commits a checkpoint on a thread of its own, after an attempt has failed.
pub(crate) fn commit_later(views: Arc<Views>, checkpoint: Box<dyn Checkpoint>) {
    let work = move || {
        lower_priority();
        // Abandoned only if the server stops, which then knows it.
        if commit_durably(&views, checkpoint).is_ok() {
            views.committing.store(false, Ordering::Release);
        }
    };
    if let Err(failure) = std::thread::Builder::new().name("checkpoint".into()).spawn(work) {
        panic!("cannot start the checkpoint thread: {failure}");
    }
}

/// Makes a checkpoint durable. While there is no room for it, it is tried again, because the captured changes exist
/// nowhere else; writes are rejected meanwhile. Any other failure ends the process.
fn commit_durably(views: &Views, mut checkpoint: Box<dyn Checkpoint>) -> Result<(), Abandoned> {
    let (mut waits, mut final_attempts) = (false, 0);
    loop {
        match checkpoint.commit() {
            Ok(()) => break,
            Err(CheckpointError::NoSpace) if views.space.release_reserve() => continue,
            Err(failure @ (CheckpointError::NoSpace | CheckpointError::Busy)) => {
                if !std::mem::replace(&mut waits, true) {
                    warn!(%failure, "a checkpoint waits; free some disk space if the disk is full");
                }
                views.space.set_checkpoint_waits(true);
            }
            Err(CheckpointError::Failed(failure)) => {
                error!(%failure, "a checkpoint could not be written");
                views.fail(&format!(
                    "the views cannot be stored ({failure}); check the disk, then start the server again: \
                     everything acknowledged is in the log and is applied then"
                ));
            }
        }
        if views.is_stopping() {
            final_attempts += 1;
            if final_attempts == FINAL_ATTEMPTS {
                error!("a checkpoint was not written; the next start applies the end of the log again");
                views.abandon_checkpoints();
                return Err(Abandoned);
            }
        }
        std::thread::sleep(RETRY);
    }
    views.space.set_checkpoint_waits(false);
    views.space.restore_reserve();
    Ok(())
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
    pub(super) limits: CheckpointLimits,
}

impl CheckpointScheduler {
    pub(super) fn new(
        views: Arc<Views>,
        log: Wal<Claims>,
        registered_until: RegisteredUntil,
        captured_until: u64,
    ) -> CheckpointScheduler {
        let (captured_at, bytes, running) = (Instant::now(), 0, None);
        let limits = CheckpointLimits::default();
        CheckpointScheduler {
            views,
            log,
            registered_until,
            captured_until,
            captured_at,
            bytes,
            running,
            limits,
        }
    }

    /// Adds bytes of the log that were applied.
    pub(super) fn add_bytes(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Returns the bytes of the log that were applied since the last capture.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Waits while a checkpoint is being written and as much was applied meanwhile as may be in memory only.
    pub(super) fn wait_while_far_behind(&self) {
        let is_committing = || self.views.committing.load(Ordering::Acquire);
        while self.bytes >= self.limits.waiting_bytes && is_committing() && !self.views.is_stopping() {
            std::thread::sleep(BUSY_POLL);
        }
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
        let due = self.bytes >= self.limits.bytes
            || self.captured_at.elapsed() >= INTERVAL
            || self.views.counters.wants_checkpoint();
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
            // Abandoned only if the server stops, which then knows it.
            let _ = commit(&views, &log, &registered_until, checkpoint);
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
        // Ends, because a checkpoint is given up after some attempts while the server stops.
        while self.views.committing.load(Ordering::Acquire) && !self.views.are_checkpoints_abandoned() {
            std::thread::sleep(BUSY_POLL);
        }
        let applied_until = self.views.counters.applied_until();
        if applied_until == self.captured_until || self.views.are_checkpoints_abandoned() {
            return;
        }
        self.views.committing.store(true, Ordering::Release);
        let checkpoint = self.capture(applied_until);
        // An abandoned checkpoint was logged.
        let _ = commit(&self.views, &self.log, &self.registered_until, checkpoint);
    }

    fn capture(&mut self, applied_until: u64) -> Box<dyn Checkpoint> {
        (self.captured_at, self.bytes, self.captured_until) = (Instant::now(), 0, applied_until);
        self.views.capture_checkpoint()
    }
}
