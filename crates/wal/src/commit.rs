//! The writer: takes the queued entries, runs the sequencer, writes, syncs, acknowledges.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use crate::chunk::Chunk;
use crate::disk::{write_all, write_zeros};
use crate::error::{WalError, is_no_space};
use crate::folder::{Active, PublishError, Segment, URGENT};
use crate::format::{
    ENTRY_HEADER_BYTES, FRAME_ALIGN, FRAME_HEADER_BYTES, FRAMES_FROM, FrameBuilder, FrameHeader, Salt,
    offsets_of,
};
use crate::queue::{Ack, Entry, Queue, WakeReason};
use crate::receipt::{Committed, Slot};
use crate::shared::{Core, count, report_fatal};

/// Makes the decisions that depend on the order of the log, for instance which ids are new.
pub trait Sequencer<X>: Send {
    /// Called with all entries of a commit, in log order, before they are written. May change, shrink or reject each
    /// of them; the first that is not rejected gets the offset `first`.
    fn decide(&mut self, batch: &mut [PendingEntry<X>], first: u64, now_ms: u64);

    /// Called if the commit was not written because the disk is full. The batch is as `decide` left it.
    fn undo(&mut self, batch: &mut [PendingEntry<X>]);
}

/// A sequencer that leaves every entry as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct AcceptAll;

impl<X> Sequencer<X> for AcceptAll {
    fn decide(&mut self, _: &mut [PendingEntry<X>], _: u64, _: u64) {}

    fn undo(&mut self, _: &mut [PendingEntry<X>]) {}
}

/// An entry between append and commit.
pub struct PendingEntry<X> {
    /// The kind given by the caller.
    pub kind: u8,
    /// Number of events.
    pub events: u32,
    /// Its content.
    pub bytes: Vec<u8>,
    /// Data that the caller passed along and gets back.
    pub extra: X,
    rejected: Option<WalError>,
    ack: Ack,
    lane: u32,
    cost: usize,
    offset: u64,
    slot: Option<Arc<Slot<X>>>,
}

impl<X> PendingEntry<X> {
    pub(crate) fn new(
        entry: Entry<X>,
        slot: Option<Arc<Slot<X>>>,
        lane: u32,
        cost: usize,
    ) -> PendingEntry<X> {
        let Entry { kind, events, bytes, ack, extra } = entry;
        PendingEntry { kind, events, bytes, extra, rejected: None, ack, lane, cost, offset: 0, slot }
    }

    /// Leaves the entry out of the log. Its receipt resolves to `error`.
    pub fn reject(&mut self, error: WalError) {
        self.rejected = Some(error);
    }

    /// Returns true after `reject`.
    pub fn is_rejected(&self) -> bool {
        self.rejected.is_some()
    }

    /// Returns the number of offsets it takes as it is now.
    pub fn offsets(&self) -> u64 {
        if self.is_rejected() { 0 } else { offsets_of(self.events) }
    }

    fn frame_bytes(&self) -> usize {
        if self.is_rejected() { 0 } else { ENTRY_HEADER_BYTES + self.bytes.len() }
    }
}

impl<X> Drop for PendingEntry<X> {
    /// Fails the receipt if it was not completed, so that a caller does not wait forever if the writer panicked.
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take()
            && let Some(waker) = slot.complete(Err(WalError::Stopped))
        {
            waker.wake();
        }
    }
}

/// The writer without its thread: tests call `step` and decide when time passes.
pub struct Committer<X> {
    core: Arc<Core>,
    queue: Arc<Queue<X>>,
    sequencer: Box<dyn Sequencer<X>>,
    batch: Vec<PendingEntry<X>>,
    wakers: WakersByLane,
    active: Active,
    /// The offset of the next entry.
    next: u64,
    unsynced: Unsynced,
    /// Length of the active segment at which the next spare is requested.
    spare_request_at: u64,
    closed: bool,
}

/// Frames that were written and are not yet durable.
#[derive(Default)]
struct Unsynced {
    chunks: Vec<Arc<Chunk>>,
    bytes: usize,
    /// The first of them, as (offset, byte).
    from: (u64, u64),
    sync_by: Option<Instant>,
}

/// The error of a commit.
enum CommitError {
    Full,
    Fatal(WalError),
}

impl CommitError {
    /// A write that failed for lack of space leaves nothing behind; any other failure stops the log.
    fn from_write(error: std::io::Error, action: &'static str, path: &Path) -> CommitError {
        if is_no_space(&error) {
            CommitError::Full
        } else {
            CommitError::Fatal(WalError::io(action, path)(error))
        }
    }
}

impl<X: Default + Send + 'static> Committer<X> {
    pub(crate) fn new(
        core: Arc<Core>,
        queue: Arc<Queue<X>>,
        sequencer: Box<dyn Sequencer<X>>,
        active: Active,
        next: u64,
    ) -> Committer<X> {
        let spare_request_at = active.prepared / 2;
        Committer {
            core,
            queue,
            sequencer,
            batch: Vec::new(),
            wakers: WakersByLane::default(),
            active,
            next,
            unsynced: Unsynced::default(),
            spare_request_at,
            closed: false,
        }
    }

    /// Runs on the writer thread: commits when there are entries, at most once per interval, and sleeps otherwise.
    pub(crate) fn run(mut self) {
        let mut earliest = Instant::now();
        loop {
            match self.queue.wait(earliest, self.unsynced.sync_by) {
                WakeReason::Work => {
                    earliest = Instant::now() + self.core.options.commit_interval;
                    let now_ms = (self.core.options.clock)();
                    self.step(now_ms);
                }
                WakeReason::SyncDue => self.sync(),
                WakeReason::Roll => self.roll(),
                WakeReason::Closed => break,
            }
        }
        self.close();
    }

    /// Commits everything that is queued, with one write and one sync per full frame.
    pub fn step(&mut self, now_ms: u64) {
        let mut batch = std::mem::take(&mut self.batch);
        self.queue.take_all(&mut batch);
        let (mut rest, mut full) = (&mut batch[..], false);
        while !rest.is_empty() && !self.closed {
            let count = self.group_len(rest);
            let (group, after) = rest.split_at_mut(count);
            // One attempt on a full disk is enough; the other groups are rejected without one.
            if full {
                self.reject_full(group);
            } else {
                full = self.commit(group, now_ms);
            }
            rest = after;
        }
        batch.clear();
        self.batch = batch;
    }

    /// Makes durable what was written without a sync.
    pub fn sync(&mut self) {
        if let Err(error) = self.make_durable() {
            self.fail(error);
        }
    }

    /// Starts the next segment unless the active one is empty. On a full disk the active segment stays.
    pub fn roll(&mut self) {
        if self.closed || self.active.at == FRAMES_FROM {
            return;
        }
        if let Err(CommitError::Fatal(error)) = self.rotate() {
            self.fail(error);
        }
    }

    /// Commits what is queued, syncs and closes the log.
    pub fn close(mut self) {
        self.queue.close(WalError::Closed);
        self.step((self.core.options.clock)());
        self.sync();
        self.shut_down(WalError::Closed);
    }

    /// Returns how many of these entries share a frame.
    fn group_len(&self, batch: &[PendingEntry<X>]) -> usize {
        let mut bytes = 0;
        let excess = batch.iter().position(|pending| {
            bytes += pending.frame_bytes();
            bytes > self.core.options.frame_bytes_max
        });
        excess.map_or(batch.len(), |excess| excess.max(1))
    }

    /// Returns true if the disk is full.
    fn commit(&mut self, group: &mut [PendingEntry<X>], now_ms: u64) -> bool {
        self.sequencer.decide(group, self.next, now_ms);
        let is_full = group.iter().all(|pending| matches!(pending.rejected, Some(WalError::Full)));
        self.report_rejected(group);
        if is_full {
            // Not the log's own disk is full, but that of what is written with it.
            self.core.disk_full.set(&self.core.options);
            self.queue.release(group.iter().map(|pending| pending.cost).sum());
            return true;
        }
        match self.write(group, now_ms) {
            Ok(()) => self.core.disk_full.clear(),
            Err(CommitError::Full) => {
                self.sequencer.undo(group);
                self.reject_full(group);
                return true;
            }
            Err(CommitError::Fatal(error)) => {
                self.fail(error);
                return false;
            }
        }
        self.acknowledge(group, now_ms, |ack| ack != Ack::Disk);
        self.inject_early_ack(group, now_ms);
        if group.iter().any(|pending| pending.ack == Ack::Disk) || self.is_sync_due() {
            if let Err(error) = self.make_durable() {
                self.fail(error);
                return false;
            }
            self.acknowledge(group, now_ms, |ack| ack == Ack::Disk);
        }
        self.queue.release(group.iter().map(|pending| pending.cost).sum());
        self.request_spare_if_due();
        false
    }

    #[cfg(feature = "fault-injection")]
    fn inject_early_ack(&mut self, group: &mut [PendingEntry<X>], now_ms: u64) {
        if self.core.options.injected_fault == Some(crate::InjectedFault::AckBeforeSync) {
            self.acknowledge(group, now_ms, |ack| ack == Ack::Disk);
        }
    }

    #[cfg(not(feature = "fault-injection"))]
    fn inject_early_ack(&mut self, _: &mut [PendingEntry<X>], _: u64) {}

    fn is_sync_due(&self) -> bool {
        self.unsynced.bytes > self.core.options.frame_bytes_max
            || self.unsynced.sync_by.is_some_and(|by| by <= Instant::now())
    }

    /// Writes the group as one frame; writes nothing if all of it is rejected.
    fn write(&mut self, group: &mut [PendingEntry<X>], now_ms: u64) -> Result<(), CommitError> {
        let entries_bytes: usize = group.iter().map(PendingEntry::frame_bytes).sum();
        let mut builder = FrameBuilder::new(self.next, entries_bytes);
        for pending in &mut *group {
            pending.offset = builder.until();
            if !pending.is_rejected() {
                builder.push(pending.kind, pending.events, &pending.bytes);
            }
        }
        if builder.until() == self.next {
            return Ok(());
        }
        self.ensure_space((FRAME_HEADER_BYTES + entries_bytes) as u64 + FRAME_ALIGN)?;
        let (salt, synced_until) = (Salt::new(self.active.salt), self.core.tail.durable_until());
        let (header, frame) = builder.seal(salt, synced_until, now_ms);
        if let Err(error) = write_all(&*self.active.file, &frame, self.active.at) {
            self.zero_failed_write(frame.len());
            return Err(CommitError::from_write(error, "writing", &self.active_path()));
        }
        self.record_written(&header, frame);
        Ok(())
    }

    fn record_written(&mut self, header: &FrameHeader, frame: Vec<u8>) {
        if self.unsynced.chunks.is_empty() {
            self.unsynced.from = (self.next, self.active.at);
            self.unsynced.sync_by = Some(Instant::now() + self.core.options.sync_after);
        }
        let counts = &self.core.counts;
        count(&counts.commits, 1);
        count(&counts.entries, u64::from(header.entries));
        count(&counts.offsets, u64::from(header.offsets));
        count(&counts.bytes, frame.len() as u64);
        self.unsynced.bytes += frame.len();
        self.active.at += frame.len() as u64;
        self.next = header.until();
        self.unsynced.chunks.push(Arc::new(Chunk::new(header, frame, FRAME_HEADER_BYTES)));
    }

    /// Best effort: the bytes of a failed write have no valid checksum and the next frame overwrites them.
    fn zero_failed_write(&self, frame_bytes: usize) {
        let written = self.active.file.bytes().unwrap_or(self.active.at);
        let until = written.min(self.active.at + frame_bytes as u64);
        let _ = write_zeros(&*self.active.file, self.active.at, until);
    }

    /// Switches to the next segment if this one is used up and a spare is ready, or if it is too long.
    fn ensure_space(&mut self, frame_bytes: u64) -> Result<(), CommitError> {
        let until = self.active.at + frame_bytes;
        if until <= self.active.prepared {
            return Ok(());
        }
        let (core, empty) = (&self.core, self.active.at == FRAMES_FROM);
        if !empty && (core.housekeeping.has_spare() || until > core.options.segment_bytes) {
            self.rotate()?;
        }
        if self.active.at + frame_bytes > self.active.prepared {
            self.check_free_space(frame_bytes)?;
        }
        Ok(())
    }

    fn check_free_space(&self, wanted: u64) -> Result<(), CommitError> {
        let (folder, options) = (&self.core.folder, &self.core.options);
        match folder.disk.free_bytes(&folder.path) {
            Ok(free) if free < wanted + options.free_bytes_min => Err(CommitError::Full),
            // Unknown free space is no reason to reject: the write itself fails if there is none.
            _ => Ok(()),
        }
    }

    fn rotate(&mut self) -> Result<(), CommitError> {
        self.make_durable().map_err(CommitError::Fatal)?;
        let core = Arc::clone(&self.core);
        let (folder, path) = (&core.folder, core.folder.segment_path(self.next));
        let spare = match core.housekeeping.take_spare() {
            Some(spare) => spare,
            None => {
                self.check_free_space(FRAMES_FROM)?;
                let created = folder.prepare(URGENT, FRAMES_FROM);
                created.map_err(|error| CommitError::from_write(error, "creating", &path))?
            }
        };
        let created_ms = (core.options.clock)();
        let active = folder.publish(spare, self.next, created_ms).map_err(|error| match error {
            PublishError::NotCreated(error) => CommitError::from_write(error, "creating", &path),
            PublishError::Unknown(error) => {
                CommitError::Fatal(WalError::io("syncing the folder of", &path)(error))
            }
        })?;
        self.activate(active, created_ms);
        Ok(())
    }

    fn activate(&mut self, active: Active, created_ms: u64) {
        let mut segments = self.core.segments.lock();
        if let Some(last) = segments.list.back_mut() {
            last.bytes = self.active.prepared.max(self.active.at);
        }
        segments.list.push_back(Segment::active(&active, created_ms));
        segments.durable_at = active.at;
        drop(segments);
        self.spare_request_at = active.prepared / 2;
        self.active = active;
        count(&self.core.counts.rotations, 1);
        self.core.housekeeping.request_retention();
    }

    /// Requests a spare early enough that it is ready when it is needed, and not at every commit.
    fn request_spare_if_due(&mut self) {
        if self.active.at >= self.spare_request_at {
            self.spare_request_at = self.active.at + self.core.options.segment_bytes / 8;
            self.core.housekeeping.request_spare();
        }
    }

    /// Syncs and publishes to readers what is durable now. After an error nothing is ever synced again.
    fn make_durable(&mut self) -> Result<(), WalError> {
        if self.unsynced.chunks.is_empty() {
            return Ok(());
        }
        let started = Instant::now();
        self.active.file.sync().map_err(WalError::io("syncing", &self.active_path()))?;
        count(&self.core.counts.syncs, 1);
        count(&self.core.counts.sync_ns, started.elapsed().as_nanos() as u64);
        let mut segments = self.core.segments.lock();
        if let Some(last) = segments.list.back_mut() {
            last.index_frame(self.unsynced.from.0, self.unsynced.from.1);
        }
        segments.durable_at = self.active.at;
        drop(segments);
        self.core.tail.publish(self.unsynced.chunks.drain(..), self.next);
        self.unsynced.bytes = 0;
        self.unsynced.sync_by = None;
        Ok(())
    }

    /// Acknowledges the entries of the group whose guarantee is reached, and wakes their tasks together.
    fn acknowledge(&mut self, group: &mut [PendingEntry<X>], time_ms: u64, reached: impl Fn(Ack) -> bool) {
        for pending in group.iter_mut().filter(|pending| reached(pending.ack)) {
            let Some(slot) = pending.slot.take() else { continue };
            let offsets = pending.offset..pending.offset + pending.offsets();
            let extra = std::mem::take(&mut pending.extra);
            self.wakers.add(pending.lane, slot.complete(Ok(Committed { offsets, time_ms, extra })));
        }
        self.wakers.wake(&self.core);
    }

    fn reject_full(&mut self, group: &mut [PendingEntry<X>]) {
        self.core.disk_full.set(&self.core.options);
        let mut rejected = 0;
        for pending in group.iter_mut().filter(|pending| !pending.is_rejected()) {
            rejected += 1;
            self.count_if_lost(pending);
            let Some(slot) = pending.slot.take() else { continue };
            self.wakers.add(pending.lane, slot.complete(Err(WalError::Full)));
        }
        count(&self.core.counts.rejected_full, rejected);
        self.wakers.wake(&self.core);
        self.queue.release(group.iter().map(|pending| pending.cost).sum());
        // Retention may be able to remove old segments.
        self.core.housekeeping.request_retention();
    }

    /// Reports to their callers which entries the sequencer has rejected.
    fn report_rejected(&mut self, group: &mut [PendingEntry<X>]) {
        for pending in group {
            let Some(error) = pending.rejected.clone() else { continue };
            self.count_if_lost(pending);
            let Some(slot) = pending.slot.take() else { continue };
            self.wakers.add(pending.lane, slot.complete(Err(error)));
        }
        self.wakers.wake(&self.core);
    }

    /// Counts an entry that is not written although it was acknowledged when it was queued.
    fn count_if_lost(&self, pending: &PendingEntry<X>) {
        if pending.ack == Ack::Memory {
            count(&self.core.counts.lost_memory, 1);
            count(&self.core.counts.lost_memory_events, u64::from(pending.events));
        }
    }

    fn active_path(&self) -> PathBuf {
        self.core.folder.segment_path(self.active.first)
    }

    /// Handles a disk failure: marks the segment, acknowledges nothing any more, and reports the error.
    fn fail(&mut self, error: WalError) {
        let folder = &self.core.folder;
        let marker = folder.disk.create(&folder.suspect_path(self.active.first));
        let _ = marker.and_then(|_| folder.disk.sync_folder(&folder.path));
        // A later sync must not succeed and be taken as proof that these frames are durable.
        self.unsynced = Unsynced::default();
        self.shut_down(WalError::Stopped);
        report_fatal(&self.core, &error);
    }
}

impl<X> Committer<X> {
    /// Ends appending, following and housekeeping; waiting callers get `error`.
    fn shut_down(&mut self, error: WalError) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        self.queue.close(error.clone());
        self.core.tail.close(error);
        self.core.housekeeping.close();
        let mut rest = Vec::new();
        self.queue.take_all(&mut rest);
    }
}

impl<X> Drop for Committer<X> {
    fn drop(&mut self) {
        if !self.closed && std::thread::panicking() {
            report_fatal(&self.core, &WalError::Stopped);
        }
        self.shut_down(WalError::Stopped);
    }
}

/// Tasks to wake, by lane; the first lane is for appends without a lane.
#[derive(Default)]
struct WakersByLane {
    lanes: Vec<Vec<Waker>>,
}

impl WakersByLane {
    fn add(&mut self, lane: u32, waker: Option<Waker>) {
        let Some(waker) = waker else { return };
        let lane = lane as usize;
        if self.lanes.len() <= lane {
            self.lanes.resize_with(lane + 1, Vec::new);
        }
        self.lanes[lane].push(waker);
    }

    fn wake(&mut self, core: &Core) {
        let Some((direct, lanes)) = self.lanes.split_first_mut() else { return };
        direct.drain(..).for_each(Waker::wake);
        let lanes_known = core.lanes.read();
        for (wakers, lane) in
            lanes.iter_mut().zip(lanes_known.iter()).filter(|(wakers, _)| !wakers.is_empty())
        {
            lane.wake_all(wakers);
        }
    }
}
