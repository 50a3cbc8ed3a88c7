//! When what was applied is made durable: often enough that a restart is quick, seldom enough to cost little.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::ports::counters::Checkpoint;
use tracing::{error, warn};
use wal::Wal;

use super::give_way;
use crate::ingest::Claims;
use crate::views::Views;

/// A restart applies at most about so much of the log again.
const BYTES_MAX: usize = 64 << 20;
/// Or what came in this long.
const INTERVAL: Duration = Duration::from_secs(30);
/// How long a store that failed is left alone.
const RETRY: Duration = Duration::from_secs(1);
/// How often it is looked whether another checkpoint is done.
const BUSY_POLL: Duration = Duration::from_millis(10);
/// How long a stop waits for a store that fails. What is not durable there is applied again at the next start.
const LAST_TRIES: u32 = 5;

/// Makes everything that is applied durable, beside the checkpoints that are due. Blocks.
pub(crate) fn checkpoint_now(views: &Views, log: &Wal<Claims>, ids_remembered: &AtomicU64) {
    let checkpoint = loop {
        let applying = views.applying.lock();
        if !views.committing.swap(true, Ordering::AcqRel) {
            break views.freeze();
        }
        drop(applying);
        std::thread::sleep(BUSY_POLL);
    };
    commit(views, log, ids_remembered, checkpoint);
}

/// What was frozen is in no other place: it is tried until it is written.
fn commit(views: &Views, log: &Wal<Claims>, ids_remembered: &AtomicU64, mut checkpoint: Box<dyn Checkpoint>) {
    while let Err(failure) = checkpoint.commit() {
        error!(%failure, "a checkpoint could not be written; trying again");
        std::thread::sleep(RETRY);
    }
    log.keep_from(views.counters.durable_until().min(ids_remembered.load(Ordering::Acquire)));
    views.committing.store(false, Ordering::Release);
}

/// Freezes on the processor's thread, commits on one of its own.
pub(super) struct Checkpoints {
    views: Arc<Views>,
    log: Wal<Claims>,
    ids_remembered: Arc<AtomicU64>,
    frozen_until: u64,
    since: Instant,
    bytes: usize,
    running: Option<JoinHandle<()>>,
}

impl Checkpoints {
    pub(super) fn new(
        views: Arc<Views>,
        log: Wal<Claims>,
        ids_remembered: Arc<AtomicU64>,
        frozen_until: u64,
    ) -> Checkpoints {
        let (since, bytes, running) = (Instant::now(), 0, None);
        Checkpoints { views, log, ids_remembered, frozen_until, since, bytes, running }
    }

    /// So much of the log has been applied since.
    pub(super) fn read(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// How long nothing needs to be done here unless something is applied.
    pub(super) fn due_in(&self) -> Duration {
        if self.bytes == 0 {
            return Duration::from_secs(3600);
        }
        INTERVAL.saturating_sub(self.since.elapsed()).max(Duration::from_millis(10))
    }

    pub(super) fn when_due(&mut self, applied_until: u64) {
        let due = self.bytes >= BYTES_MAX || self.since.elapsed() >= INTERVAL;
        let views = Arc::clone(&self.views);
        let _applying = views.applying.lock();
        if !due || self.bytes == 0 || views.committing.swap(true, Ordering::AcqRel) {
            return;
        }
        let checkpoint = self.freeze(applied_until);
        let (views, log, ids) = (Arc::clone(&self.views), self.log.clone(), Arc::clone(&self.ids_remembered));
        let work = move || {
            give_way();
            commit(&views, &log, &ids, checkpoint);
        };
        match std::thread::Builder::new().name("checkpoint".into()).spawn(work) {
            Ok(thread) => self.running = Some(thread),
            Err(failure) => panic!("no thread for a checkpoint: {failure}"),
        }
    }

    /// Makes everything durable before the process ends.
    pub(super) fn last(&mut self) {
        if let Some(running) = self.running.take() {
            let _ = running.join();
        }
        let applied_until = self.views.counters.applied_until();
        if applied_until == self.frozen_until {
            return;
        }
        let mut checkpoint = self.freeze(applied_until);
        for _ in 0..LAST_TRIES {
            match checkpoint.commit() {
                Ok(()) => return,
                Err(failure) => warn!(%failure, "the last checkpoint could not be written; trying again"),
            }
            std::thread::sleep(RETRY);
        }
        error!("the last checkpoint was not written; the log is applied again at the next start");
    }

    fn freeze(&mut self, applied_until: u64) -> Box<dyn Checkpoint> {
        (self.since, self.bytes, self.frozen_until) = (Instant::now(), 0, applied_until);
        self.views.freeze()
    }
}
