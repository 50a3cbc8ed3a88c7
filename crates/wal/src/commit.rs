//! The writer: takes what waits, decides, writes, syncs, answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use crate::chunk::Chunk;
use crate::disk::{write_all, write_zeros};
use crate::error::{WalError, is_no_space};
use crate::folder::{Active, Publish, Segment, URGENT};
use crate::format::{
    ENTRY_HEADER_BYTES, FRAME_ALIGN, FRAME_HEADER_BYTES, FRAMES_FROM, FrameBuilder, FrameHeader, Salt,
    offsets_of,
};
use crate::queue::{Ack, Entry, Queue, Wake};
use crate::receipt::{Committed, Slot};
use crate::shared::{Core, count, report_fatal};

/// Decides what can only be decided in log order, for instance which ids are new.
pub trait Sequencer<X>: Send {
    /// Called with all entries of a commit, in the order of the log, before they are written. May
    /// rewrite, shrink or skip each; the first that is not skipped will get the offset `first`.
    fn decide(&mut self, batch: &mut [Pending<X>], first: u64, now_ms: u64);

    /// The commit was not written: the disk is full. The batch is as `decide` left it.
    fn undo(&mut self, batch: &mut [Pending<X>]);
}

/// The sequencer that leaves every entry as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct TakeAll;

impl<X> Sequencer<X> for TakeAll {
    fn decide(&mut self, _: &mut [Pending<X>], _: u64, _: u64) {}

    fn undo(&mut self, _: &mut [Pending<X>]) {}
}

/// An entry between append and commit.
pub struct Pending<X> {
    /// As the caller gave it.
    pub kind: u8,
    /// How many events it holds.
    pub events: u32,
    /// Its content.
    pub bytes: Vec<u8>,
    /// What the caller gave along and gets back.
    pub extra: X,
    skipped: bool,
    ack: Ack,
    lane: u32,
    cost: usize,
    offset: u64,
    slot: Option<Arc<Slot<X>>>,
}

impl<X> Pending<X> {
    pub(crate) fn new(entry: Entry<X>, slot: Option<Arc<Slot<X>>>, lane: u32, cost: usize) -> Pending<X> {
        let Entry { kind, events, bytes, ack, extra } = entry;
        Pending { kind, events, bytes, extra, skipped: false, ack, lane, cost, offset: 0, slot }
    }

    /// Leaves the entry out of the log. It is answered with the others of its commit, without offsets.
    pub fn skip(&mut self) {
        self.skipped = true;
    }

    /// True after `skip`.
    pub fn is_skipped(&self) -> bool {
        self.skipped
    }

    /// How many offsets it takes as it is now.
    pub fn offsets(&self) -> u64 {
        if self.skipped { 0 } else { offsets_of(self.events) }
    }

    fn frame_bytes(&self) -> usize {
        if self.skipped { 0 } else { ENTRY_HEADER_BYTES + self.bytes.len() }
    }
}

impl<X> Drop for Pending<X> {
    /// Nobody waits for ever, even for a writer that panicked.
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take()
            && let Some(waker) = slot.put(Err(WalError::Stopped))
        {
            waker.wake();
        }
    }
}

/// The writer without its thread: `step` by `step`, for tests that decide when time passes.
pub struct Committer<X> {
    core: Arc<Core>,
    queue: Arc<Queue<X>>,
    sequencer: Box<dyn Sequencer<X>>,
    batch: Vec<Pending<X>>,
    wakers: Wakers,
    active: Active,
    /// The offset of the next entry.
    next: u64,
    unsynced: Unsynced,
    /// When the active segment is this long, the next spare is asked for.
    ask_at: u64,
    ended: bool,
}

/// What was written and is not yet durable.
#[derive(Default)]
struct Unsynced {
    chunks: Vec<Arc<Chunk>>,
    bytes: usize,
    /// The place of the first, as (offset, byte).
    from: (u64, u64),
    sync_by: Option<Instant>,
}

/// How a commit ended when it did not succeed.
enum Failure {
    Full,
    Fatal(WalError),
}

impl Failure {
    /// A write that found no room leaves nothing behind; any other failure ends the log.
    fn of_write(error: std::io::Error, action: &'static str, path: &Path) -> Failure {
        if is_no_space(&error) { Failure::Full } else { Failure::Fatal(WalError::io(action, path)(error)) }
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
        let ask_at = active.prepared / 2;
        Committer {
            core,
            queue,
            sequencer,
            batch: Vec::new(),
            wakers: Wakers::default(),
            active,
            next,
            unsynced: Unsynced::default(),
            ask_at,
            ended: false,
        }
    }

    /// The thread's work: commits when there is something, no more often than the interval, sleeps
    /// when there is nothing.
    pub(crate) fn run(mut self) {
        let mut earliest = Instant::now();
        loop {
            match self.queue.wait(earliest, self.unsynced.sync_by) {
                Wake::Work => {
                    earliest = Instant::now() + self.core.options.commit_interval;
                    let now_ms = (self.core.options.clock)();
                    self.step(now_ms);
                }
                Wake::SyncDue => self.sync(),
                Wake::Roll => self.roll(),
                Wake::Closed => break,
            }
        }
        self.close();
    }

    /// Commits everything that waits, with one write and one sync for as much as a frame may hold.
    pub fn step(&mut self, now_ms: u64) {
        let mut batch = std::mem::take(&mut self.batch);
        self.queue.take(&mut batch);
        let (mut rest, mut full) = (&mut batch[..], false);
        while !rest.is_empty() && !self.ended {
            let count = self.group_len(rest);
            let (group, after) = rest.split_at_mut(count);
            // One attempt on a full disk is enough; the others are answered without one.
            if full {
                self.refuse(group);
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
            self.stop(error);
        }
    }

    /// Begins the next segment, unless nothing was written to this one. A full disk leaves it as it is.
    pub fn roll(&mut self) {
        if self.ended || self.active.at == FRAMES_FROM {
            return;
        }
        if let Err(Failure::Fatal(error)) = self.rotate() {
            self.stop(error);
        }
    }

    /// Commits what waits, syncs and ends the log.
    pub fn close(mut self) {
        self.queue.close(WalError::Closed);
        self.step((self.core.options.clock)());
        self.sync();
        self.end(WalError::Closed);
    }

    /// How many of these share a frame.
    fn group_len(&self, batch: &[Pending<X>]) -> usize {
        let mut bytes = 0;
        let over = batch.iter().position(|pending| {
            bytes += pending.frame_bytes();
            bytes > self.core.options.frame_bytes_max
        });
        over.map_or(batch.len(), |over| over.max(1))
    }

    /// True when the disk is full.
    fn commit(&mut self, group: &mut [Pending<X>], now_ms: u64) -> bool {
        self.sequencer.decide(group, self.next, now_ms);
        match self.write(group, now_ms) {
            Ok(()) => self.core.full.clear(),
            Err(Failure::Full) => {
                self.sequencer.undo(group);
                self.refuse(group);
                return true;
            }
            Err(Failure::Fatal(error)) => {
                self.stop(error);
                return false;
            }
        }
        self.answer(group, now_ms, |ack| ack != Ack::Disk);
        self.inject_early_answer(group, now_ms);
        if group.iter().any(|pending| pending.ack == Ack::Disk) || self.is_sync_due() {
            if let Err(error) = self.make_durable() {
                self.stop(error);
                return false;
            }
            self.answer(group, now_ms, |ack| ack == Ack::Disk);
        }
        self.queue.give_back(group.iter().map(|pending| pending.cost).sum());
        self.ask_for_spare();
        false
    }

    #[cfg(feature = "fault-injection")]
    fn inject_early_answer(&mut self, group: &mut [Pending<X>], now_ms: u64) {
        if self.core.options.injected_fault == Some(crate::InjectedFault::AckBeforeSync) {
            self.answer(group, now_ms, |ack| ack == Ack::Disk);
        }
    }

    #[cfg(not(feature = "fault-injection"))]
    fn inject_early_answer(&mut self, _: &mut [Pending<X>], _: u64) {}

    fn is_sync_due(&self) -> bool {
        self.unsynced.bytes > self.core.options.frame_bytes_max
            || self.unsynced.sync_by.is_some_and(|by| by <= Instant::now())
    }

    /// Writes the group as one frame; nothing if all of it is skipped.
    fn write(&mut self, group: &mut [Pending<X>], now_ms: u64) -> Result<(), Failure> {
        let entries_bytes: usize = group.iter().map(Pending::frame_bytes).sum();
        let mut builder = FrameBuilder::new(self.next, entries_bytes);
        for pending in &mut *group {
            pending.offset = builder.until();
            if !pending.skipped {
                builder.push(pending.kind, pending.events, &pending.bytes);
            }
        }
        if builder.until() == self.next {
            return Ok(());
        }
        self.make_room((FRAME_HEADER_BYTES + entries_bytes) as u64 + FRAME_ALIGN)?;
        let (salt, synced_until) = (Salt::new(self.active.salt), self.core.tail.durable_until());
        let (header, frame) = builder.seal(salt, synced_until, now_ms);
        if let Err(error) = write_all(&*self.active.file, &frame, self.active.at) {
            self.blank(frame.len());
            return Err(Failure::of_write(error, "writing", &self.active_path()));
        }
        self.wrote(&header, frame);
        Ok(())
    }

    fn wrote(&mut self, header: &FrameHeader, frame: Vec<u8>) {
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

    /// Best effort: what a failed write left has no valid checksum and is written over by the next frame.
    fn blank(&self, frame_bytes: usize) {
        let written = self.active.file.bytes().unwrap_or(self.active.at);
        let until = written.min(self.active.at + frame_bytes as u64);
        let _ = write_zeros(&*self.active.file, self.active.at, until);
    }

    /// Goes on to the next segment if this one is used up and another is ready, or if it is too long.
    fn make_room(&mut self, frame_bytes: u64) -> Result<(), Failure> {
        let until = self.active.at + frame_bytes;
        if until <= self.active.prepared {
            return Ok(());
        }
        let (core, empty) = (&self.core, self.active.at == FRAMES_FROM);
        if !empty && (core.chores.has_spare() || until > core.options.segment_bytes) {
            self.rotate()?;
        }
        if self.active.at + frame_bytes > self.active.prepared {
            self.check_free(frame_bytes)?;
        }
        Ok(())
    }

    fn check_free(&self, wanted: u64) -> Result<(), Failure> {
        let (folder, options) = (&self.core.folder, &self.core.options);
        match folder.disk.free_bytes(&folder.path) {
            Ok(free) if free < wanted + options.free_bytes_min => Err(Failure::Full),
            // Not knowing is no reason to refuse: the write itself will tell.
            _ => Ok(()),
        }
    }

    fn rotate(&mut self) -> Result<(), Failure> {
        self.make_durable().map_err(Failure::Fatal)?;
        let core = Arc::clone(&self.core);
        let (folder, path) = (&core.folder, core.folder.segment_path(self.next));
        let spare = match core.chores.take_spare() {
            Some(spare) => spare,
            None => {
                self.check_free(FRAMES_FROM)?;
                let made = folder.prepare(URGENT, FRAMES_FROM);
                made.map_err(|error| Failure::of_write(error, "making", &path))?
            }
        };
        let made_ms = (core.options.clock)();
        let active = folder.publish(spare, self.next, made_ms).map_err(|failure| match failure {
            Publish::NotMade(error) => Failure::of_write(error, "making", &path),
            Publish::Unknown(error) => Failure::Fatal(WalError::io("syncing the folder of", &path)(error)),
        })?;
        self.turn_to(active, made_ms);
        Ok(())
    }

    fn turn_to(&mut self, active: Active, made_ms: u64) {
        let mut segments = self.core.segments.lock();
        if let Some(last) = segments.list.back_mut() {
            last.bytes = self.active.prepared.max(self.active.at);
        }
        segments.list.push_back(Segment::active(&active, made_ms));
        segments.durable_at = active.at;
        drop(segments);
        self.ask_at = active.prepared / 2;
        self.active = active;
        count(&self.core.counts.rotations, 1);
        self.core.chores.want_tidy();
    }

    /// Asks early enough that the spare is ready when it is needed, and not at every commit.
    fn ask_for_spare(&mut self) {
        if self.active.at >= self.ask_at {
            self.ask_at = self.active.at + self.core.options.segment_bytes / 8;
            self.core.chores.want_spare();
        }
    }

    /// Syncs and shows readers what is durable now. After an error nothing is ever synced again.
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
            last.learn(self.unsynced.from.0, self.unsynced.from.1);
        }
        segments.durable_at = self.active.at;
        drop(segments);
        self.core.tail.publish(self.unsynced.chunks.drain(..), self.next);
        self.unsynced.bytes = 0;
        self.unsynced.sync_by = None;
        Ok(())
    }

    /// Answers those of the group whose level is reached, and wakes them together.
    fn answer(&mut self, group: &mut [Pending<X>], time_ms: u64, reached: impl Fn(Ack) -> bool) {
        for pending in group.iter_mut().filter(|pending| reached(pending.ack)) {
            let Some(slot) = pending.slot.take() else { continue };
            let offsets = pending.offset..pending.offset + pending.offsets();
            let extra = std::mem::take(&mut pending.extra);
            self.wakers.add(pending.lane, slot.put(Ok(Committed { offsets, time_ms, extra })));
        }
        self.wakers.wake(&self.core);
    }

    fn refuse(&mut self, group: &mut [Pending<X>]) {
        self.core.full.set(&self.core.options);
        let memory = group.iter().filter(|pending| pending.ack == Ack::Memory).count() as u64;
        count(&self.core.counts.refused_full, group.len() as u64);
        count(&self.core.counts.lost_memory, memory);
        for pending in &mut *group {
            let Some(slot) = pending.slot.take() else { continue };
            self.wakers.add(pending.lane, slot.put(Err(WalError::Full)));
        }
        self.wakers.wake(&self.core);
        self.queue.give_back(group.iter().map(|pending| pending.cost).sum());
        // Old segments may be given back, if retention allows it.
        self.core.chores.want_tidy();
    }

    fn active_path(&self) -> PathBuf {
        self.core.folder.segment_path(self.active.first)
    }

    /// The disk has failed: marks the segment, answers nobody any more, says so.
    fn stop(&mut self, error: WalError) {
        let folder = &self.core.folder;
        let marked = folder.disk.create(&folder.suspect_path(self.active.first));
        let _ = marked.and_then(|_| folder.disk.sync_folder(&folder.path));
        // Nothing may sync these again and take the success of that for theirs.
        self.unsynced = Unsynced::default();
        self.end(WalError::Stopped);
        report_fatal(&self.core, &error);
    }
}

impl<X> Committer<X> {
    /// Ends appending, following and housekeeping; whoever still waits is told why.
    fn end(&mut self, why: WalError) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        self.queue.close(why.clone());
        self.core.tail.end(why);
        self.core.chores.close();
        let mut left = Vec::new();
        self.queue.take(&mut left);
    }
}

impl<X> Drop for Committer<X> {
    fn drop(&mut self) {
        if !self.ended && std::thread::panicking() {
            report_fatal(&self.core, &WalError::Stopped);
        }
        self.end(WalError::Stopped);
    }
}

/// Who is to be woken, by lane; the first lane is that of everyone without one.
#[derive(Default)]
struct Wakers {
    lanes: Vec<Vec<Waker>>,
}

impl Wakers {
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
        let known = core.lanes.read();
        for (wakers, lane) in lanes.iter_mut().zip(known.iter()).filter(|(wakers, _)| !wakers.is_empty()) {
            lane.hand_over(wakers);
        }
    }
}
