//! What the handle, the writer, the housekeeper and the readers have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex, RwLock};

use crate::disk::DiskFile;
use crate::error::WalError;
use crate::folder::{Folder, Segments, Spare};
use crate::lane::Wakes;
use crate::options::Options;
use crate::tail::Tail;

/// Everything but the queue, which alone depends on what callers give along.
pub(crate) struct Core {
    pub(crate) folder: Folder,
    pub(crate) options: Options,
    pub(crate) segments: Segments,
    pub(crate) tail: Arc<Tail>,
    pub(crate) chores: Chores,
    pub(crate) full: Full,
    pub(crate) lanes: RwLock<Vec<Arc<Wakes>>>,
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
            full: Full::default(),
            chores: Chores::default(),
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

/// Whether closed segments can be written again. One at a time is.
#[derive(Default)]
pub(crate) struct Rewriting {
    /// A change of names may or may not be durable: only a start can tell.
    pub(crate) failed: bool,
}

/// Where a reader stopped, so that it can go on there without searching.
pub(crate) struct Cursor {
    pub(crate) offset: u64,
    pub(crate) segment: u64,
    /// Of the file. A segment that was written again has another.
    pub(crate) salt: u64,
    pub(crate) at: u64,
    pub(crate) file: Arc<dyn DiskFile>,
}

/// What the writer asks the housekeeper for.
#[derive(Default)]
pub(crate) struct Chores {
    inner: Mutex<Wanted>,
    bell: Condvar,
}

#[derive(Default)]
struct Wanted {
    want_spare: bool,
    spare: Option<Spare>,
    tidy: bool,
    closed: bool,
}

/// What the housekeeper is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chore {
    Spare,
    Tidy,
    End,
}

impl Chores {
    pub(crate) fn want_spare(&self) {
        let mut inner = self.inner.lock();
        if inner.spare.is_none() && !inner.want_spare {
            inner.want_spare = true;
            self.bell.notify_one();
        }
    }

    pub(crate) fn want_tidy(&self) {
        self.inner.lock().tidy = true;
        self.bell.notify_one();
    }

    pub(crate) fn has_spare(&self) -> bool {
        self.inner.lock().spare.is_some()
    }

    pub(crate) fn take_spare(&self) -> Option<Spare> {
        self.inner.lock().spare.take()
    }

    /// Ends a request for a spare, with one or without.
    pub(crate) fn put_spare(&self, spare: Option<Spare>) {
        let mut inner = self.inner.lock();
        inner.want_spare = false;
        inner.spare = spare;
    }

    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
        self.bell.notify_one();
    }

    /// The next thing to do, if there is one.
    pub(crate) fn next(&self) -> Option<Chore> {
        Chores::pick(&mut self.inner.lock())
    }

    /// Waits for the next thing to do; with `until`, to tidy then at the latest.
    pub(crate) fn wait(&self, until: Option<Instant>) -> Chore {
        let mut inner = self.inner.lock();
        loop {
            if let Some(chore) = Chores::pick(&mut inner) {
                return chore;
            }
            match until {
                Some(until) if until <= Instant::now() => return Chore::Tidy,
                Some(until) => drop(self.bell.wait_until(&mut inner, until)),
                None => self.bell.wait(&mut inner),
            }
        }
    }

    fn pick(inner: &mut Wanted) -> Option<Chore> {
        match inner {
            Wanted { closed: true, .. } => Some(Chore::End),
            Wanted { want_spare: true, .. } => Some(Chore::Spare),
            Wanted { tidy, .. } => std::mem::take(tidy).then_some(Chore::Tidy),
        }
    }
}

/// Whether the disk is full, and who may find out whether it still is.
#[derive(Default)]
pub(crate) struct Full {
    full: AtomicBool,
    retry_at: Mutex<Option<Instant>>,
}

impl Full {
    /// True for one caller per `full_retry` while the disk is full, and for all while it is not.
    pub(crate) fn lets_through(&self, options: &Options) -> bool {
        if !self.full.load(Ordering::Relaxed) {
            return true;
        }
        let (mut retry_at, now) = (self.retry_at.lock(), Instant::now());
        let free = retry_at.is_none_or(|at| at <= now);
        if free {
            *retry_at = Some(now + options.full_retry);
        }
        free
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
        /// What the writer has done since it was started. Written by one thread only.
        #[derive(Default)]
        pub(crate) struct Counts { $(pub(crate) $name: AtomicU64),* }

        /// Figures of a log since it was started.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
            /// Bytes that wait in the queue or are being written.
            pub queued_bytes: u64,
            /// The last attempt to write found no room.
            pub full: bool,
            /// Bytes of all segments, prepared ones included.
            pub disk_bytes: u64,
            /// Segments there are.
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
    /// Entries in them.
    entries,
    /// Offsets they took.
    offsets,
    /// Bytes of these frames.
    bytes,
    /// Calls of `fdatasync`.
    syncs,
    /// Time spent in them.
    sync_ns,
    /// Entries that were answered with "the disk is full", or would have been had somebody waited.
    refused_full,
    /// Of these, the entries with `Ack::Memory`: their senders were told that they are queued.
    lost_memory,
    /// Segments begun.
    rotations,
}

/// Adds to a count of which this thread is the only writer.
pub(crate) fn count(counter: &AtomicU64, add: u64) {
    counter.store(counter.load(Ordering::Relaxed) + add, Ordering::Relaxed);
}

/// Reports the first disk failure to whoever asked for it.
pub(crate) fn report_fatal(core: &Core, error: &WalError) {
    tracing::error!(%error, "the log's disk has failed: nothing is acknowledged any more");
    (core.options.on_fatal)(error);
}
