//! The settings of a log.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::WalError;

/// The settings of a log. The defaults are those of the product; tests use smaller values.
#[derive(Clone)]
pub struct Options {
    /// A segment is closed when the next frame would make it larger than this.
    pub segment_bytes: u64,
    /// Size to which the first segment of a new folder is preallocated: small, so that a start takes milliseconds.
    pub first_segment_bytes: u64,
    /// Minimum time between the starts of two commits under load.
    pub commit_interval: Duration,
    /// Entries written for `Ack::Os` or `Ack::Memory` are synced after this time at the latest.
    pub sync_after: Duration,
    /// Limit of the bytes that are queued or being written. A larger entry is accepted if the queue is empty.
    pub queue_bytes_max: usize,
    /// Maximum bytes of one commit; a larger entry is committed on its own.
    pub frame_bytes_max: usize,
    /// Durable frames kept in memory for readers close to the end of the log, in bytes.
    pub tail_bytes: usize,
    /// Which old segments are removed automatically.
    pub retention: Retention,
    /// With less free disk space than this the log rejects writes that need more, so that other work can finish.
    pub free_bytes_min: u64,
    /// While the disk is full, one append per this time is attempted; the others fail at once.
    pub full_retry: Duration,
    /// The wall clock in milliseconds since 1970, as the writer thread sees it.
    pub clock: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// The offset at which the reader of the log continues, if it is known. Opening fails, and changes nothing, if the
    /// log ends before it or starts after it.
    pub continues_at: Option<u64>,
    /// The time by which entries are old enough to be removed, in milliseconds since 1970; `None` while it is not known.
    /// Without this clock it is the time of `clock`.
    pub deletion_clock: Option<Arc<dyn Fn() -> Option<u64> + Send + Sync>>,
    /// Called once when the disk has failed, on the thread that noticed it.
    pub on_fatal: Arc<dyn Fn(&WalError) + Send + Sync>,
    /// A deliberate bug that a crash test has to detect.
    #[cfg(feature = "fault-injection")]
    pub injected_fault: Option<InjectedFault>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            segment_bytes: 64 << 20,
            first_segment_bytes: 256 << 10,
            commit_interval: Duration::from_millis(1),
            sync_after: Duration::from_millis(100),
            queue_bytes_max: 64 << 20,
            frame_bytes_max: 4 << 20,
            tail_bytes: 32 << 20,
            retention: Retention::default(),
            free_bytes_min: 32 << 20,
            full_retry: Duration::from_millis(100),
            clock: Arc::new(wall_clock_ms),
            continues_at: None,
            deletion_clock: None,
            on_fatal: Arc::new(|_| ()),
            #[cfg(feature = "fault-injection")]
            injected_fault: None,
        }
    }
}

impl Options {
    /// Returns the time by which entries are old enough to be removed: 0 while it is not known.
    pub(crate) fn deletion_now_ms(&self) -> u64 {
        match &self.deletion_clock {
            Some(clock) => clock().unwrap_or(0),
            None => (self.clock)(),
        }
    }
}

fn wall_clock_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Which closed segments are removed, oldest first. Retention never removes anything at or after the offset
/// passed to `Wal::keep_from`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retention {
    /// Remove the oldest while all segments together are larger than this.
    pub bytes_max: Option<u64>,
    /// Remove segments whose entries are all older than this.
    pub age_ms_max: Option<u64>,
}

/// A fault injected on purpose.
#[cfg(feature = "fault-injection")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// Acknowledges before `fdatasync` instead of after it.
    AckBeforeSync,
    /// Renames a rewritten segment before it is synced.
    NameBeforeSync,
}
