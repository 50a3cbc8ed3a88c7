//! The handle: open, start, append, read, follow, give back, close.

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
use crate::housekeep::Housekeeper;
use crate::lane::{Lane, Wakes};
use crate::options::Options;
use crate::queue::{Entry, Queue};
use crate::read::Batch;
use crate::receipt::Receipt;
use crate::recover::{Recovered, recover};
use crate::rewrite::{Rewrite, Rewritten};
use crate::shared::{Core, Stats};
use crate::tail::Follow;
use crate::verify::Verified;

/// How often it is looked whether the next segment was begun.
const ROLL_POLL: Duration = Duration::from_millis(2);

/// The durable log. A cheap handle; the last one to be dropped closes the log.
///
/// `X` is what callers give along with an entry for the sequencer to read and to fill.
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

/// Closes the queue when the last handle is gone; the threads then end by themselves.
struct Threads<X> {
    queue: Arc<Queue<X>>,
    handles: Mutex<Vec<JoinHandle<()>>>,
}

impl<X> Drop for Threads<X> {
    fn drop(&mut self) {
        self.queue.close(WalError::Closed);
    }
}

/// What opening found. Nothing here needs an answer; it is to be shown and counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The first offset that is still there.
    pub first: u64,
    /// The offset the next entry gets. Everything before it is durable.
    pub next: u64,
    /// Bytes at the end that a power cut had torn, now cut off. They were never acknowledged.
    pub torn_bytes: u64,
    /// Damage in the newest segment; older ones are checked when they are read, and by `verify`.
    pub damage: Vec<Damage>,
    /// Segments there are.
    pub segments: usize,
}

/// A log that is open for reading and not yet started, so that what depends on it can be rebuilt first.
pub struct Opened {
    core: Arc<Core>,
    active: Active,
    report: Report,
}

impl Opened {
    /// What was found.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// As `Log::read`.
    pub fn read(&self, from: u64, limit_bytes: usize) -> Result<Batch, WalError> {
        self.core.read(from, limit_bytes)
    }

    /// The log without its threads: the caller steps the writer and the housekeeper.
    pub fn by_hand<X: Default + Send + 'static>(
        self,
        sequencer: Box<dyn Sequencer<X>>,
    ) -> (Wal<X>, Committer<X>, Housekeeper) {
        let Opened { core, active, report } = self;
        let queue = Arc::new(Queue::new(core.options.queue_bytes_max));
        let threads = Threads { queue: Arc::clone(&queue), handles: Mutex::default() };
        let committer = Committer::new(Arc::clone(&core), Arc::clone(&queue), sequencer, active, report.next);
        let housekeeper = Housekeeper::new(Arc::clone(&core));
        (Wal { core, queue, threads: Arc::new(threads) }, committer, housekeeper)
    }
}

impl<X: Default + Send + 'static> Wal<X> {
    /// Opens a folder, or makes it. Cuts what a power cut has torn, leaves damage where it is, and
    /// returns when everything found is durable. Takes memory for one block, whatever the size.
    pub fn open(disk: Arc<dyn Disk>, folder: &Path, options: Options) -> Result<Opened, WalError> {
        let Recovered { folder, segments, active, next, torn_bytes, spare } =
            recover(disk, folder, &options)?;
        let damage = segments.damage();
        let (first, count) = {
            let segments = segments.lock();
            (segments.list.front().map_or(0, |oldest| oldest.first), segments.list.len())
        };
        let core = Core::new(folder, options, segments, next);
        core.chores.put_spare(spare);
        let report = Report { first, next, torn_bytes, damage, segments: count };
        Ok(Opened { core: Arc::new(core), active, report })
    }

    /// Starts the writer and the housekeeper, each on a thread of its own.
    pub fn start(opened: Opened, sequencer: Box<dyn Sequencer<X>>) -> Result<Wal<X>, WalError> {
        let (log, committer, housekeeper) = opened.by_hand(sequencer);
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
            thread.map_err(WalError::io("starting a thread for", &log.core.folder.path))
        };
        let housekeeper = spawn("log-keeper", Box::new(move || housekeeper.run()))?;
        let writer = spawn("log-writer", Box::new(move || committer.run()))?;
        log.threads.handles.lock().extend([housekeeper, writer]);
        Ok(log)
    }

    /// Queues an entry; never blocks. The receipt tells when it is as safe as its `Ack` asks for.
    ///
    /// # Errors
    /// `Overloaded` and `Full`: nothing was kept, the entry may be sent again. `TooLarge`, `Stopped`,
    /// `Closed`: nothing was kept.
    pub fn append(&self, entry: Entry<X>) -> Result<Receipt<X>, WalError> {
        self.append_from(0, entry)
    }

    pub(crate) fn append_from(&self, lane: u32, entry: Entry<X>) -> Result<Receipt<X>, WalError> {
        if !self.core.full.lets_through(&self.core.options) {
            return Err(WalError::Full);
        }
        self.queue.push(lane, entry)
    }

    /// A handle for one runtime, whose waiting tasks are then woken together. One per runtime: lanes
    /// are never given back.
    pub fn lane(&self) -> Lane<X> {
        let wakes = Arc::new(Wakes::default());
        let mut lanes = self.core.lanes.write();
        lanes.push(Arc::clone(&wakes));
        Lane::new(self.clone(), lanes.len() as u32, wakes)
    }

    /// Ends the log: takes no more, commits what waits, syncs, and joins the threads. Blocks.
    ///
    /// # Errors
    /// `Stopped`: the disk had failed, and not everything that was queued is durable.
    pub fn close(&self) -> Result<(), WalError> {
        self.queue.close(WalError::Closed);
        let handles = std::mem::take(&mut *self.threads.handles.lock());
        let panicked = handles.into_iter().map(JoinHandle::join).filter(Result::is_err).count();
        match self.core.tail.ended() {
            Some(WalError::Stopped) => Err(WalError::Stopped),
            _ if panicked > 0 => Err(WalError::Stopped),
            _ => Ok(()),
        }
    }
}

impl<X> Wal<X> {
    /// Reads durable entries from `from` on: about `limit_bytes` of them, one chunk at least if there
    /// is one. Blocks for the disk if they are no longer in memory.
    ///
    /// # Errors
    /// `Trimmed` when `from` is before the first offset. `Io` when the disk does not read.
    pub fn read(&self, from: u64, limit_bytes: usize) -> Result<Batch, WalError> {
        self.core.read(from, limit_bytes)
    }

    /// The offset before which everything is durable.
    pub fn durable_until(&self) -> u64 {
        self.core.tail.durable_until()
    }

    /// The first offset that is still there.
    pub fn first(&self) -> u64 {
        self.core.first()
    }

    /// Blocks until something at or after `from` is durable, or the time is over; gives what is durable.
    ///
    /// # Errors
    /// `Stopped` or `Closed` when nothing will come.
    pub fn wait(&self, from: u64, timeout: Duration) -> Result<u64, WalError> {
        self.core.tail.wait(from, timeout)
    }

    /// As `wait`, as a future without a time-out.
    pub fn follow(&self, from: u64) -> Follow {
        Follow { tail: Arc::clone(&self.core.tail), from }
    }

    /// Retention keeps everything from this offset on. It keeps everything until this is first called.
    pub fn keep_from(&self, offset: u64) {
        self.core.keep_from.fetch_max(offset, Ordering::AcqRel);
        self.core.chores.want_tidy();
    }

    /// Gives back the space of the closed segments that lie wholly before `until`. Blocks.
    pub fn trim(&self, until: u64) -> Result<(), WalError> {
        self.core.trim(until)
    }

    /// Begins the next segment, so that everything durable now lies in closed ones. Gives the offset where the new one
    /// begins. Blocks, at most so long.
    ///
    /// # Errors
    /// `Full` when there was no room or no time for it. `Stopped` or `Closed` when nothing will be written any more.
    pub fn roll(&self, timeout: Duration) -> Result<u64, WalError> {
        let (until, deadline) = (self.durable_until(), Instant::now() + timeout);
        self.queue.want_roll();
        loop {
            let first = self.core.segments.lock().list.back().map_or(0, |active| active.first);
            if first >= until {
                return Ok(first);
            }
            if let Some(why) = self.core.tail.ended() {
                return Err(why);
            }
            if Instant::now() >= deadline {
                return Err(WalError::Full);
            }
            thread::sleep(ROLL_POLL);
        }
    }

    /// The closed segments, oldest first, each as its range of offsets.
    pub fn closed(&self) -> Vec<Range<u64>> {
        self.core.closed()
    }

    /// Writes the closed segment that begins at `first` again, if it has entries that `rewrite` replaces. Offsets stay
    /// as they are. On return no file of the log holds what was replaced, and a power cut brings nothing back; one in
    /// between leaves the old segment or the new one, whole. Readers go on meanwhile.
    ///
    /// What is damaged in the segment is not copied: nobody can say that it is free of what has to go. It stays listed
    /// as damage. `None`: nothing had to be changed, or there is no such closed segment any more. Blocks.
    ///
    /// # Errors
    /// `Full`: there is no room for a copy. `Unreadable`: its header is damaged. `Io`: the disk failed. `Stopped`: it
    /// failed in a way that leaves open which of the two files a power cut would leave; a start finds out.
    pub fn rewrite(&self, first: u64, rewrite: &mut dyn Rewrite) -> Result<Option<Rewritten>, WalError> {
        self.core.rewrite(first, rewrite)
    }

    /// Reads everything that is durable and compares it with its checksums. Blocks; memory for one block.
    pub fn verify(&self) -> Result<Verified, WalError> {
        self.core.verify()
    }

    /// All damage that was come by so far.
    pub fn damage(&self) -> Vec<Damage> {
        self.core.segments.damage()
    }

    /// Figures since the start.
    pub fn stats(&self) -> Stats {
        let segments = self.core.segments.lock();
        let disk_bytes = segments.list.iter().map(|segment| segment.bytes).sum();
        let segments = segments.list.len() as u64;
        let (queued_bytes, full) = (self.queue.bytes() as u64, self.core.full.is_set());
        Stats { queued_bytes, full, disk_bytes, segments, ..self.core.counts.read() }
    }
}
