//! What a channel costs, and how often it may therefore be computed.

use std::time::Duration;

/// A channel takes at most this part of a core.
const SHARE: u32 = 20;
/// And is computed at least this often while something it reads is touched.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The cost of a channel's computations, in time of a processor.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// How many there were.
    pub computations: u64,
    /// Of the last one.
    pub last: Duration,
    /// Of all of them.
    pub total: Duration,
    /// Follows the last ones, so that one that was dear by chance does not count for long.
    recent: Duration,
}

impl Cost {
    /// Runs something and adds what it took.
    pub fn of<T>(&mut self, compute: impl FnOnce() -> T) -> T {
        let before = thread_time();
        let computed = compute();
        self.add(thread_time().saturating_sub(before));
        computed
    }

    /// The mean of all.
    pub fn mean(&self) -> Duration {
        self.total.checked_div(self.computations.min(u32::MAX.into()) as u32).unwrap_or_default()
    }

    /// How long to leave it alone after a computation.
    pub fn pause(&self) -> Duration {
        (self.recent * SHARE).min(PAUSE_MAX)
    }

    fn add(&mut self, took: Duration) {
        self.recent = if self.computations == 0 { took } else { (self.recent * 3 + took) / 4 };
        (self.last, self.total) = (took, self.total + took);
        self.computations += 1;
    }
}

/// Time that this thread has used of a processor: what other threads do does not make a query look dear.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn what_is_dear_is_computed_less_often() {
        let mut cost = Cost::default();
        cost.add(MS);
        assert_eq!((cost.pause(), cost.mean()), (20 * MS, MS));
        cost.add(5 * MS);
        assert_eq!((cost.pause(), cost.mean(), cost.last), (40 * MS, 3 * MS, 5 * MS));
        (0..100).for_each(|_| cost.add(10_000 * MS));
        assert_eq!(cost.pause(), PAUSE_MAX);
    }
}
