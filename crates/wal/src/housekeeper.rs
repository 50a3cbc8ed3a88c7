//! Background work next to the writer: prepares spare segments, notes the newest segment and removes old ones.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::error::WalError;
use crate::folder::UNFINISHED;
use crate::options::Retention;
use crate::shared::{Core, HousekeepingTask};

/// Interval between checks of the age limit, if there is one.
const AGE_CHECK: Duration = Duration::from_secs(60);

/// The housekeeper without its thread, for tests that decide when it works.
pub struct Housekeeper {
    core: Arc<Core>,
}

impl Housekeeper {
    pub(crate) fn new(core: Arc<Core>) -> Housekeeper {
        Housekeeper { core }
    }

    pub(crate) fn run(mut self) {
        self.note_newest();
        loop {
            let has_age_limit = self.core.options.retention.age_ms_max.is_some();
            match self.core.housekeeping.wait(has_age_limit.then(|| Instant::now() + AGE_CHECK)) {
                HousekeepingTask::Stop => return,
                task => self.run_task(task),
            }
        }
    }

    /// Runs all requested tasks.
    pub fn step(&mut self) {
        while let Some(task) = self.core.housekeeping.next() {
            match task {
                HousekeepingTask::Stop => return,
                task => self.run_task(task),
            }
        }
    }

    fn run_task(&mut self, task: HousekeepingTask) {
        match task {
            HousekeepingTask::PrepareSpare => self.prepare_spare(),
            HousekeepingTask::ApplyRetention => self.apply_retention(),
            HousekeepingTask::Stop => {}
        }
    }

    /// Without space for a spare the writer continues in its segment, at a higher cost per commit.
    fn prepare_spare(&mut self) {
        let (folder, options) = (&self.core.folder, &self.core.options);
        let bytes = options.segment_bytes;
        let free = folder.disk.free_bytes(&folder.path).unwrap_or(u64::MAX);
        let spare = if free < bytes.saturating_add(options.free_bytes_min) {
            None
        } else {
            let spare = folder.prepare(UNFINISHED, bytes).and_then(|spare| folder.store_spare(spare));
            spare.inspect_err(|error| tracing::warn!(%error, "cannot prepare a spare segment")).ok()
        };
        self.core.housekeeping.put_spare(spare);
    }

    /// Notes which segment is the newest one. Without the note, only the loss of this segment goes unnoticed.
    fn note_newest(&self) {
        let newest = self.core.segments.lock().list.back().map(|segment| segment.first);
        let noted = newest.map_or(Ok(()), |newest| self.core.folder.note_newest(newest));
        if let Err(error) = noted {
            tracing::warn!(%error, "cannot note the newest segment of the log");
        }
    }

    /// Called when a segment has begun.
    fn apply_retention(&mut self) {
        self.note_newest();
        let now_ms = self.core.options.deletion_now_ms();
        let until = self.core.retention_end(now_ms);
        if let Err(error) = self.core.trim(until) {
            tracing::warn!(%error, "cannot remove old segments");
        }
    }
}

impl Core {
    /// Returns the offset up to which retention removes segments.
    ///
    /// The next segment was started when the oldest was closed, so its creation time bounds the age of all entries. The
    /// clock may have been wrong then: a segment is not older than one before it, and one from the future, or whose header
    /// is damaged, is as old as the next.
    fn retention_end(&self, now_ms: u64) -> u64 {
        let Retention { bytes_max, age_ms_max } = self.options.retention;
        let segments = self.segments.lock();
        let mut bytes: u64 = segments.list.iter().map(|segment| segment.bytes).sum();
        let (mut until, mut created_ms) = (0, 0);
        for (oldest, next) in segments.list.iter().zip(segments.list.iter().skip(1)) {
            let exceeds_bytes = bytes_max.is_some_and(|max| bytes > max);
            bytes -= oldest.bytes;
            let is_ahead = next.created_ms > now_ms || next.salt.is_none();
            if !is_ahead {
                created_ms = next.created_ms.max(created_ms);
            }
            let exceeds_age = age_ms_max.is_some_and(|max| created_ms.saturating_add(max) < now_ms);
            if exceeds_bytes || (exceeds_age && !is_ahead) {
                until = next.first;
            } else if !is_ahead {
                break;
            }
        }
        until.min(self.keep_from.load(Ordering::Acquire))
    }

    /// Removes the segments that lie entirely before `until`, oldest first, each durably before the next: after a
    /// power cut the log still has no hole.
    pub(crate) fn trim(&self, until: u64) -> Result<(), WalError> {
        let _trimming = self.trimming.lock();
        let until = until.min(self.tail.durable_until());
        loop {
            let first = {
                let segments = self.segments.lock();
                match (segments.list.front(), segments.list.get(1)) {
                    (Some(oldest), Some(next)) if next.first <= until => oldest.first,
                    _ => return Ok(()),
                }
            };
            let path = self.folder.segment_path(first);
            self.folder.disk.remove(&path).map_err(WalError::io("removing", &path))?;
            self.segments.lock().list.pop_front();
            let synced = self.folder.disk.sync_folder(&self.folder.path);
            synced.map_err(WalError::io("syncing", &self.folder.path))?;
        }
    }
}
