//! The CPU cost of a channel, which limits how often it is computed.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A channel uses at most one part in this many of a core.
const CORE_SHARE: u32 = 20;
/// A dirty channel is computed at least this often, whatever it costs.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The CPU time of a channel's computations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// The number of computations.
    pub(crate) computations: u64,
    /// The time of the last computation.
    pub(crate) last: Duration,
    /// The time of all computations.
    pub(crate) total: Duration,
    /// A moving average, so that one computation that happened to be slow has a short effect.
    recent: Duration,
}

impl Cost {
    /// Runs `compute` and adds its CPU time.
    pub(crate) fn measure<T>(&mut self, compute: impl FnOnce() -> T) -> T {
        let before = thread_time();
        let computed = compute();
        self.add(thread_time().saturating_sub(before));
        computed
    }

    /// Returns the mean time of all computations.
    pub(crate) fn mean(&self) -> Duration {
        self.total.checked_div(self.computations.min(u32::MAX.into()) as u32).unwrap_or_default()
    }

    /// Returns the shortest time between the start of a computation and the start of the next.
    pub(crate) fn pause(&self) -> Duration {
        (self.recent * CORE_SHARE).min(PAUSE_MAX)
    }

    pub(crate) fn add(&mut self, elapsed: Duration) {
        self.recent = if self.computations == 0 { elapsed } else { (self.recent * 3 + elapsed) / 4 };
        (self.last, self.total) = (elapsed, self.total + elapsed);
        self.computations += 1;
    }
}

/// Returns the CPU time of this thread. Unlike wall time, it does not grow when other threads are busy.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn expensive_channel_is_computed_less_often() {
        let mut cost = Cost::default();
        cost.add(MS);
        assert_eq!((cost.pause(), cost.mean()), (20 * MS, MS));
        cost.add(5 * MS);
        assert_eq!((cost.pause(), cost.mean(), cost.last), (40 * MS, 3 * MS, 5 * MS));
        (0..100).for_each(|_| cost.add(10_000 * MS));
        assert_eq!(cost.pause(), PAUSE_MAX);
    }
}
