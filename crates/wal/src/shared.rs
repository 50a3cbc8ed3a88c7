//! State shared by the handle, the writer, the housekeeper and the readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex, RwLock};

use crate::disk::DiskFile;
use crate::error::WalError;
use crate::folder::{Folder, Segments, Spare};
use crate::lane::LaneWakers;
use crate::options::Options;
use crate::tail::Tail;

/// Everything but the queue, which alone depends on the callers' type parameter.
pub(crate) struct Core {
    pub(crate) folder: Folder,
    pub(crate) options: Options,
    pub(crate) segments: Segments,
    pub(crate) tail: Arc<Tail>,
    pub(crate) housekeeping: HousekeepingQueue,
    pub(crate) disk_full: DiskFullGate,
    pub(crate) lanes: RwLock<Vec<Arc<LaneWakers>>>,
    pub(crate) cursors: Mutex<Vec<Cursor>>,
    pub(crate) keep_from: AtomicU64,
    pub(crate) trimming: Mutex<()>,
    pub(crate) rewriting: Mutex<Rewriting>,
    pub(crate) counts: Counts,
}

impl Core {
    pub(crate) fn new(folder: Folder, options: Options, segments: Segments, durable_until: u64) -> Core {
        Core {
            tail: Arc::new(Tail::new(durable_until, options.tail_bytes)),
            disk_full: DiskFullGate::default(),
            housekeeping: HousekeepingQueue::default(),
            lanes: RwLock::default(),
            cursors: Mutex::default(),
            keep_from: AtomicU64::new(0),
            trimming: Mutex::new(()),
            rewriting: Mutex::default(),
            counts: Counts::default(),
            folder,
            options,
            segments,
        }
    }
}

/// The state of segment rewrites. Only one runs at a time.
#[derive(Default)]
pub(crate) struct Rewriting {
    /// A rename may or may not be durable: only the next start can find out.
    pub(crate) failed: bool,
}

/// The position at which a reader stopped, so that its next read continues there without a search.
pub(crate) struct Cursor {
    pub(crate) offset: u64,
    pub(crate) segment: u64,
    /// The salt of the file. A rewritten segment has another.
    pub(crate) salt: u64,
    pub(crate) at: u64,
    pub(crate) file: Arc<dyn DiskFile>,
}

/// Requests of the writer to the housekeeper.
#[derive(Default)]
pub(crate) struct HousekeepingQueue {
    state: Mutex<HousekeepingState>,
    wakeup: Condvar,
}

#[derive(Default)]
struct HousekeepingState {
    is_spare_requested: bool,
    spare: Option<Spare>,
    is_retention_requested: bool,
    closed: bool,
}

/// A task of the housekeeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HousekeepingTask {
    PrepareSpare,
    ApplyRetention,
    Stop,
}

impl HousekeepingQueue {
    pub(crate) fn request_spare(&self) {
        let mut state = self.state.lock();
        if state.spare.is_none() && !state.is_spare_requested {
            state.is_spare_requested = true;
            self.wakeup.notify_one();
        }
    }

    pub(crate) fn request_retention(&self) {
        self.state.lock().is_retention_requested = true;
        self.wakeup.notify_one();
    }

    pub(crate) fn has_spare(&self) -> bool {
        self.state.lock().spare.is_some()
    }

    pub(crate) fn take_spare(&self) -> Option<Spare> {
        self.state.lock().spare.take()
    }

    /// Completes the request for a spare, with or without one.
    pub(crate) fn put_spare(&self, spare: Option<Spare>) {
        let mut state = self.state.lock();
        state.is_spare_requested = false;
        state.spare = spare;
    }

    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.wakeup.notify_one();
    }

    /// Returns the next task, if there is one.
    pub(crate) fn next(&self) -> Option<HousekeepingTask> {
        HousekeepingQueue::pick(&mut self.state.lock())
    }

    /// Waits for the next task; applies retention at `until` at the latest.
    pub(crate) fn wait(&self, until: Option<Instant>) -> HousekeepingTask {
        let mut state = self.state.lock();
        loop {
            if let Some(chore) = HousekeepingQueue::pick(&mut state) {
                return chore;
            }
            match until {
                Some(until) if until <= Instant::now() => return HousekeepingTask::ApplyRetention,
                Some(until) => drop(self.wakeup.wait_until(&mut state, until)),
                None => self.wakeup.wait(&mut state),
            }
        }
    }

    fn pick(state: &mut HousekeepingState) -> Option<HousekeepingTask> {
        match state {
            HousekeepingState { closed: true, .. } => Some(HousekeepingTask::Stop),
            HousekeepingState { is_spare_requested: true, .. } => Some(HousekeepingTask::PrepareSpare),
            HousekeepingState { is_retention_requested, .. } => {
                std::mem::take(is_retention_requested).then_some(HousekeepingTask::ApplyRetention)
            }
        }
    }
}

/// Limits the attempts to append while the disk is full.
#[derive(Default)]
pub(crate) struct DiskFullGate {
    full: AtomicBool,
    retry_at: Mutex<Option<Instant>>,
}

impl DiskFullGate {
    /// Returns true for one caller per `full_retry` while the disk is full, and for all callers while it is not.
    pub(crate) fn allows_attempt(&self, options: &Options) -> bool {
        if !self.full.load(Ordering::Relaxed) {
            return true;
        }
        let (mut retry_at, now) = (self.retry_at.lock(), Instant::now());
        let is_allowed = retry_at.is_none_or(|at| at <= now);
        if is_allowed {
            *retry_at = Some(now + options.full_retry);
        }
        is_allowed
    }

    pub(crate) fn set(&self, options: &Options) {
        *self.retry_at.lock() = Some(Instant::now() + options.full_retry);
        self.full.store(true, Ordering::Relaxed);
    }

    pub(crate) fn clear(&self) {
        if self.full.load(Ordering::Relaxed) {
            self.full.store(false, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_set(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters since the start. Written by one thread only.
        #[derive(Default)]
        pub(crate) struct Counts { $(pub(crate) $name: AtomicU64),* }

        /// Statistics of a log since its start.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
            /// Bytes that are queued or being written.
            pub queued_bytes: u64,
            /// The last attempt to write found the disk full.
            pub full: bool,
            /// Bytes of all segments, preallocated bytes included.
            pub disk_bytes: u64,
            /// Number of segments.
            pub segments: u64,
        }

        impl Counts {
            pub(crate) fn read(&self) -> Stats {
                Stats { $($name: self.$name.load(Ordering::Relaxed),)* ..Stats::default() }
            }
        }
    };
}

counts! {
    /// Frames written.
    commits,
    /// Entries written.
    entries,
    /// Offsets that these entries took.
    offsets,
    /// Bytes of the frames written.
    bytes,
    /// Calls of `fdatasync`.
    syncs,
    /// Time spent in `fdatasync`, in nanoseconds.
    sync_ns,
    /// Entries rejected because the disk was full.
    rejected_full,
    /// Rejected entries with `Ack::Memory`, which had already been acknowledged as queued.
    lost_memory,
    /// Events in these entries.
    lost_memory_events,
    /// Segments started after the first.
    rotations,
}

/// Adds to a counter that only this thread writes.
pub(crate) fn count(counter: &AtomicU64, add: u64) {
    counter.store(counter.load(Ordering::Relaxed) + add, Ordering::Relaxed);
}

/// Logs the disk failure and calls `on_fatal`.
pub(crate) fn report_fatal(core: &Core, error: &WalError) {
    tracing::error!(%error, "the disk of the log has failed: nothing is acknowledged any more");
    (core.options.on_fatal)(error);
}
