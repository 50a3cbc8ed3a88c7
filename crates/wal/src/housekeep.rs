//! What is done beside the writer: spares are prepared, old segments given back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::error::WalError;
use crate::folder::{Segment, UNFINISHED};
use crate::options::Retention;
use crate::shared::{Chore, Core};

/// How often age is looked at, when there is a limit to it.
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
        loop {
            let ages = self.core.options.retention.age_ms_max.is_some();
            match self.core.chores.wait(ages.then(|| Instant::now() + AGE_CHECK)) {
                Chore::End => return,
                chore => self.work(chore),
            }
        }
    }

    /// Does everything that has been asked for.
    pub fn step(&mut self) {
        while let Some(chore) = self.core.chores.next() {
            match chore {
                Chore::End => return,
                chore => self.work(chore),
            }
        }
    }

    fn work(&mut self, chore: Chore) {
        match chore {
            Chore::Spare => self.prepare_spare(),
            Chore::Tidy => self.retain(),
            Chore::End => {}
        }
    }

    /// Without room for a spare the writer goes on in the segment it has, at a higher price.
    fn prepare_spare(&mut self) {
        let (folder, options) = (&self.core.folder, &self.core.options);
        let bytes = options.segment_bytes;
        let free = folder.disk.free_bytes(&folder.path).unwrap_or(u64::MAX);
        let spare = if free < bytes.saturating_add(options.free_bytes_min) {
            None
        } else {
            let made = folder.prepare(UNFINISHED, bytes).and_then(|spare| folder.shelve(spare));
            made.inspect_err(|error| tracing::warn!(%error, "no spare segment could be prepared")).ok()
        };
        self.core.chores.put_spare(spare);
    }

    fn retain(&mut self) {
        let now_ms = (self.core.options.clock)();
        let until = self.core.retained_from(now_ms);
        if let Err(error) = self.core.trim(until) {
            tracing::warn!(%error, "old segments could not be removed");
        }
    }
}

impl Core {
    /// The offset up to which retention gives back.
    fn retained_from(&self, now_ms: u64) -> u64 {
        let segments = self.segments.lock();
        let mut bytes: u64 = segments.list.iter().map(|segment| segment.bytes).sum();
        let mut until = 0;
        for (oldest, next) in segments.list.iter().zip(segments.list.iter().skip(1)) {
            if !is_over(&self.options.retention, bytes, next, now_ms) {
                break;
            }
            bytes -= oldest.bytes;
            until = next.first;
        }
        until.min(self.keep_from.load(Ordering::Acquire))
    }

    /// Removes the segments that lie wholly before `until`, oldest first, each durably before the
    /// next: after a power cut the log still has no hole.
    pub(crate) fn trim(&self, until: u64) -> Result<(), WalError> {
        let _one_at_a_time = self.trimming.lock();
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

/// The next segment was begun when the oldest was left: by then all in the oldest was written.
fn is_over(retention: &Retention, bytes: u64, next: &Segment, now_ms: u64) -> bool {
    retention.bytes_max.is_some_and(|max| bytes > max)
        || retention.age_ms_max.is_some_and(|max| next.made_ms.saturating_add(max) < now_ms)
}
