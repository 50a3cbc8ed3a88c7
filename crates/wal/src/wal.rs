//! The handle of a log: open, start, append, read, follow, trim, close.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::commit::{Committer, Sequencer};
use crate::disk::Disk;
use crate::error::{Damage, WalError};
use crate::folder::Active;
use crate::held_files::HeldFiles;
use crate::housekeeper::Housekeeper;
use crate::lane::{Lane, LaneWakers};
use crate::options::Options;
use crate::queue::{Entry, Queue};
use crate::read::ReadBatch;
use crate::receipt::Receipt;
use crate::recover::{Recovered, recover};
use crate::rewrite::{RewriteStats, Rewriter};
use crate::shared::{Core, Stats};
use crate::tail::Follow;
use crate::verify::VerifyReport;

/// Interval at which `roll` checks whether the next segment was started.
const ROLL_POLL: Duration = Duration::from_millis(2);

/// The durable log. A cheap handle; dropping the last one closes the log.
///
/// `X` is data that callers pass along with an entry for the sequencer to read and to fill.
pub struct Wal<X> {
    core: Arc<Core>,
    queue: Arc<Queue<X>>,
    threads: Arc<Threads<X>>,
}

impl<X> Clone for Wal<X> {
    fn clone(&self) -> Wal<X> {
        let (core, queue, threads) = (&self.core, &self.queue, &self.threads);
        Wal { core: Arc::clone(core), queue: Arc::clone(queue), threads: Arc::clone(threads) }
    }
}

/// Closes the queue when the last handle is dropped, which ends the threads.
struct Threads<X> {
    queue: Arc<Queue<X>>,
    handles: Mutex<Vec<JoinHandle<()>>>,
}

impl<X> Drop for Threads<X> {
    fn drop(&mut self) {
        self.queue.close(WalError::Closed);
    }
}

/// The state of a log when it was opened, for display and metrics. It needs no reaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// The first offset that was not trimmed.
    pub first: u64,
    /// The offset of the next entry. Everything before it is durable.
    pub next: u64,
    /// Bytes at the end that a power cut had torn and that opening removed. They were never acknowledged.
    pub torn_bytes: u64,
    /// Damage in the newest segment. Older segments are checked when they are read, and by `verify`.
    pub damage: Vec<Damage>,
    /// Number of segments.
    pub segments: usize,
}

/// A log that is open for reading and not yet started, so that its views can be rebuilt first.
pub struct OpenedWal {
    core: Arc<Core>,
    active: Active,
    report: OpenReport,
}

impl OpenedWal {
    /// Returns the state in which the log was found.
    pub fn report(&self) -> &OpenReport {
        &self.report
    }

    /// Returns the folder of the log.
    pub fn folder(&self) -> &Path {
        &self.core.folder.path
    }

    /// Like [`Wal::read`].
    pub fn read(&self, from: u64, limit_bytes: usize) -> Result<ReadBatch, WalError> {
        self.core.read(from, limit_bytes)
    }

    /// Returns the log without threads: the caller steps the writer and the housekeeper.
    pub fn into_parts<X: Default + Send + 'static>(
        self,
        sequencer: Box<dyn Sequencer<X>>,
    ) -> (Wal<X>, Committer<X>, Housekeeper) {
        let OpenedWal { core, active, report } = self;
        let queue = Arc::new(Queue::new(core.options.queue_bytes_max));
        let threads = Threads { queue: Arc::clone(&queue), handles: Mutex::default() };
        let committer = Committer::new(Arc::clone(&core), Arc::clone(&queue), sequencer, active, report.next);
        let housekeeper = Housekeeper::new(Arc::clone(&core));
        (Wal { core, queue, threads: Arc::new(threads) }, committer, housekeeper)
    }
}

impl<X: Default + Send + 'static> Wal<X> {
    /// Opens a folder and creates it if it does not exist. Removes a torn end, leaves damage in place, and
    /// returns when everything that was found is durable. Needs memory for one block, whatever the log's size.
    pub fn open(disk: Arc<dyn Disk>, folder: &Path, options: Options) -> Result<OpenedWal, WalError> {
        let Recovered { folder, segments, active, next, torn_bytes, spare } =
            recover(disk, folder, &options)?;
        let damage = segments.damage();
        let (first, count) = {
            let segments = segments.lock();
            (segments.list.front().map_or(0, |oldest| oldest.first), segments.list.len())
        };
        let core = Core::new(folder, options, segments, next);
        core.housekeeping.put_spare(spare);
        let report = OpenReport { first, next, torn_bytes, damage, segments: count };
        Ok(OpenedWal { core: Arc::new(core), active, report })
    }

    /// Starts the writer and the housekeeper, each on its own thread.
    pub fn start(opened: OpenedWal, sequencer: Box<dyn Sequencer<X>>) -> Result<Wal<X>, WalError> {
        let (wal, committer, housekeeper) = opened.into_parts(sequencer);
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
            thread.map_err(WalError::io("starting a thread for", &wal.core.folder.path))
        };
        let housekeeper = spawn("log-keeper", Box::new(move || housekeeper.run()))?;
        let writer = spawn("log-writer", Box::new(move || committer.run()))?;
        wal.threads.handles.lock().extend([housekeeper, writer]);
        Ok(wal)
    }

    /// Queues an entry; never blocks. The receipt resolves when the entry is as safe as its `Ack` demands.
    ///
    /// # Errors
    /// `Full` and `Overloaded`: nothing was stored and the entry may be retried. `TooLarge`, `Stopped` and
    /// `Closed`: nothing was stored.
    pub fn append(&self, entry: Entry<X>) -> Result<Receipt<X>, WalError> {
        self.append_from(0, entry)
    }

    pub(crate) fn append_from(&self, lane: u32, entry: Entry<X>) -> Result<Receipt<X>, WalError> {
        if !self.core.disk_full.allows_attempt(&self.core.options) {
            return Err(WalError::Full);
        }
        self.queue.push(lane, entry)
    }

    /// Creates a handle for one runtime whose waiting tasks are woken together. Create one per runtime: lanes
    /// are never released.
    pub fn lane(&self) -> Lane<X> {
        let wakers = Arc::new(LaneWakers::default());
        let mut lanes = self.core.lanes.write();
        lanes.push(Arc::clone(&wakers));
        Lane::new(self.clone(), lanes.len() as u32, wakers)
    }

    /// Closes the log: rejects further appends, commits what is queued, syncs, and joins the threads. Blocks.
    ///
    /// # Errors
    /// `Stopped`: the disk had failed, and not everything that was queued is durable.
    pub fn close(&self) -> Result<(), WalError> {
        self.queue.close(WalError::Closed);
        let handles = std::mem::take(&mut *self.threads.handles.lock());
        let panicked = handles.into_iter().map(JoinHandle::join).filter(Result::is_err).count();
        match self.core.tail.close_error() {
            Some(WalError::Stopped) => Err(WalError::Stopped),
            _ if panicked > 0 => Err(WalError::Stopped),
            _ => Ok(()),
        }
    }
}

impl<X> Wal<X> {
    /// Reads durable entries starting at `from`: about `limit_bytes` of them, but at least one chunk if there
    /// is one. Blocks on the disk if they are no longer in memory.
    ///
    /// # Errors
    /// `Trimmed`: `from` is before the first offset. `Io`: the disk failed to read.
    pub fn read(&self, from: u64, limit_bytes: usize) -> Result<ReadBatch, WalError> {
        self.core.read(from, limit_bytes)
    }

    /// Returns the offset before which everything is durable.
    pub fn durable_until(&self) -> u64 {
        self.core.tail.durable_until()
    }

    /// The first offset that was not trimmed.
    pub fn first(&self) -> u64 {
        self.core.first()
    }

    /// Blocks until something at or after `from` is durable or the timeout expires; returns the durable end.
    ///
    /// # Errors
    /// `Stopped` or `Closed`: no further entries will be written.
    pub fn wait(&self, from: u64, timeout: Duration) -> Result<u64, WalError> {
        self.core.tail.wait(from, timeout)
    }

    /// Like `wait`, as a future without a timeout.
    pub fn follow(&self, from: u64) -> Follow {
        Follow { tail: Arc::clone(&self.core.tail), from }
    }

    /// Makes retention keep everything at or after this offset. Until the first call it keeps everything.
    pub fn keep_from(&self, offset: u64) {
        self.core.keep_from.fetch_max(offset, Ordering::AcqRel);
        self.core.housekeeping.request_retention();
    }

    /// Removes the closed segments that lie entirely before `until`. Blocks.
    pub fn trim(&self, until: u64) -> Result<(), WalError> {
        self.core.trim(until)
    }

    /// Starts the next segment, so that everything durable now lies in closed segments, and returns the offset at
    /// which the new one starts. Blocks for `timeout` at most.
    ///
    /// # Errors
    /// `Full`: there was no room, or the timeout expired. `Stopped` or `Closed`: nothing will be written any more.
    pub fn roll(&self, timeout: Duration) -> Result<u64, WalError> {
        let (until, deadline) = (self.durable_until(), Instant::now() + timeout);
        self.queue.request_roll();
        loop {
            let first = self.core.segments.lock().list.back().map_or(0, |active| active.first);
            if first >= until {
                return Ok(first);
            }
            if let Some(error) = self.core.tail.close_error() {
                return Err(error);
            }
            if Instant::now() >= deadline {
                return Err(WalError::Full);
            }
            thread::sleep(ROLL_POLL);
        }
    }

    /// Returns the closed segments, oldest first, each as its range of offsets.
    pub fn closed_segments(&self) -> Vec<Range<u64>> {
        self.core.closed_segments()
    }

    /// Rewrites the closed segment that starts at `first` if `rewriter` affects any of its entries. Offsets do not
    /// change. On return no file of the log contains the replaced bytes, and a power cut does not bring them back; a
    /// power cut during the call leaves either the old segment or the new one, complete. Reads continue meanwhile.
    ///
    /// Damaged parts of the segment are not copied, because they may contain what has to be removed; they stay listed
    /// as damage. Returns `None` if nothing had to change or if no closed segment starts there any more. Blocks.
    ///
    /// # Errors
    /// `Full`: there is no room for a copy. `Unreadable`: the segment's header is damaged. `Io`: the disk failed.
    /// `Stopped`: an earlier failure left open which of the two files survives a power cut; the next start resolves it.
    pub fn rewrite(&self, first: u64, rewriter: &mut dyn Rewriter) -> Result<Option<RewriteStats>, WalError> {
        self.core.rewrite(first, rewriter)
    }

    /// Keeps the files of the log as they are until the result is dropped: none is removed or rewritten. Entries can be
    /// appended meanwhile, at the end of the last file. Blocks while a segment is being rewritten.
    pub fn hold_files(&self) -> HeldFiles<'_> {
        HeldFiles::of(&self.core)
    }

    /// Reads all durable bytes and checks them against their checksums. Blocks; needs memory for one block.
    pub fn verify(&self) -> Result<VerifyReport, WalError> {
        self.core.verify()
    }

    /// Returns all damage found so far.
    pub fn damage(&self) -> Vec<Damage> {
        self.core.segments.damage()
    }

    /// Returns statistics since the start.
    pub fn stats(&self) -> Stats {
        let segments = self.core.segments.lock();
        let disk_bytes = segments.list.iter().map(|segment| segment.bytes).sum();
        let segments = segments.list.len() as u64;
        let (queued_bytes, full) = (self.queue.bytes() as u64, self.core.disk_full.is_set());
        Stats { queued_bytes, full, disk_bytes, segments, ..self.core.counts.read() }
    }
}
