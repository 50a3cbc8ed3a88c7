//! The sizes and times of a log.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::WalError;

/// How a log behaves. The defaults are those of the product; tests take smaller ones.
#[derive(Clone)]
pub struct Options {
    /// A segment is left when the next frame would make it larger than this.
    pub segment_bytes: u64,
    /// The first segment of a new folder is prepared only so far, so that a start takes milliseconds.
    pub first_segment_bytes: u64,
    /// Under load a commit starts no sooner than this after the one before it started.
    pub commit_interval: Duration,
    /// What was written for `Ack::Os` or `Ack::Memory` is synced at the latest this much later.
    pub sync_after: Duration,
    /// Bound of what waits and what is being written. One larger entry is taken when nothing waits.
    pub queue_bytes_max: usize,
    /// One commit gathers at most this much; a larger entry is a commit of its own.
    pub frame_bytes_max: usize,
    /// Durable frames kept in memory for the readers that follow closely.
    pub tail_bytes: usize,
    /// What is removed by itself.
    pub retention: Retention,
    /// With less than this free the log takes no new room, so that others can finish their work.
    pub free_bytes_min: u64,
    /// While the disk is full, one attempt per this time reaches it; the others fail at once.
    pub full_retry: Duration,
    /// The wall clock in milliseconds since 1970, as the writer thread sees it.
    pub clock: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Called once, from the thread that found it, when the disk has failed.
    pub on_fatal: Arc<dyn Fn(&WalError) + Send + Sync>,
    /// A bug to show that a harness finds it.
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
            on_fatal: Arc::new(|_| ()),
            #[cfg(feature = "fault-injection")]
            injected_fault: None,
        }
    }
}

fn wall_clock_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// When whole closed segments are removed, oldest first. Nothing at or after the offset given to
/// `Log::keep_from` is ever removed by retention.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retention {
    /// Remove the oldest while all segments together are larger than this.
    pub bytes_max: Option<u64>,
    /// Remove what was written longer ago than this.
    pub age_ms_max: Option<u64>,
}

/// A fault injected on purpose.
#[cfg(feature = "fault-injection")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// Answers before `fdatasync` instead of after it.
    AckBeforeSync,
    /// Gives a segment that was written again its name before it is synced.
    NameBeforeSync,
}
