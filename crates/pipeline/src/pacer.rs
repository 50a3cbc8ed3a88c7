//! Pacing: the rate at which a backfill may run beside live traffic.
//!
//! A [`Pacer`] adapts its rate to the latency of live commits: below 5 ms it raises the rate by a tenth, from 5 to 10
//! ms it keeps it, above 10 ms it lowers it to two thirds. Without live commits it raises the rate. It has no clock and
//! does not sleep: the caller passes the time in and waits as long as the pacer says. [`CommitLatency`] is the server's
//! measurement. It does not contain the commits of the paced work itself, because on a slow disk these would throttle
//! the backfill although no live client waits.

mod commit_latency;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use commit_latency::CommitLatency;

/// The mean latency of live commits below which the rate is raised.
const FASTER_BELOW: Duration = Duration::from_millis(5);
/// The mean latency of live commits above which the rate is lowered.
const SLOWER_ABOVE: Duration = Duration::from_millis(10);
/// The time over which the latency of live commits is averaged.
const WINDOW: Duration = Duration::from_secs(1);

const FASTER: f64 = 1.1;
const SLOWER: f64 = 0.66;
/// The minimum interval between two raises of the rate.
const STEP: Duration = Duration::from_millis(200);
/// The initial rate in events per second: a tenth of a core.
const RATE_FIRST: f64 = 10_000.0;
/// The lowest rate, so that an import completes on any disk.
const RATE_MIN: f64 = 500.0;
/// The highest rate, above what any machine accepts.
const RATE_MAX: f64 = 10_000_000.0;
/// Batches per second, so that live batches wait little between two of them.
const REQUESTS_PER_SECOND: f64 = 50.0;
/// The smallest batch.
const EVENTS_MIN: usize = 50;
/// The largest batch. A larger one would keep a thread that serves live requests busy for milliseconds.
const EVENTS_MAX: usize = 1_000;

/// Decides the rate of a backfill. All times are since the same moment and never go back.
#[derive(Debug)]
pub struct Pacer {
    /// Events per second.
    rate: f64,
    /// The time at which the next events may be sent.
    due: Duration,
    step: PaceStep,
    /// The time until which measured latencies still contain commits from before the rate was lowered.
    settled: Duration,
}

/// The work since the rate was last evaluated.
#[derive(Debug, Default)]
struct PaceStep {
    since: Duration,
    events: u64,
    /// The events were limited by the rate, not by their source or the server.
    is_rate_limited: bool,
}

impl Default for Pacer {
    fn default() -> Pacer {
        let (due, settled) = (Duration::ZERO, Duration::ZERO);
        Pacer { rate: RATE_FIRST, due, step: PaceStep::default(), settled }
    }
}

impl Pacer {
    /// Returns the rate in events per second.
    #[cfg(test)]
    fn rate(&self) -> f64 {
        self.rate
    }

    /// Returns the number of events to send at once: 50 to 1,000.
    pub fn batch_size(&self) -> usize {
        ((self.rate / REQUESTS_PER_SECOND) as usize).clamp(EVENTS_MIN, EVENTS_MAX)
    }

    /// Returns the time to wait before sending this number of events. Unused time is not made up for.
    pub fn wait(&mut self, now: Duration, events: usize) -> Duration {
        let wait = self.due.saturating_sub(now);
        self.due = self.due.max(now) + Duration::from_secs_f64(events as f64 / self.rate);
        self.step.is_rate_limited |= wait > Duration::ZERO;
        self.step.events += events as u64;
        wait
    }

    /// Updates the rate from the mean latency of live commits; `None` if there were none.
    pub fn update(&mut self, now: Duration, commit: Option<Duration>) {
        let commit = commit.unwrap_or_default();
        if commit > SLOWER_ABOVE && now >= self.settled {
            self.slow_down(now);
        } else if commit < FASTER_BELOW && now >= self.step.since + STEP {
            self.speed_up(now);
        }
    }

    /// Raises the rate if it was reached. A rate that was not reached gives no evidence about a higher one.
    fn speed_up(&mut self, now: Duration) {
        if self.step.is_rate_limited {
            self.rate = (self.rate * FASTER).min(RATE_MAX);
        }
        self.step = PaceStep { since: now, ..PaceStep::default() };
    }

    /// Lowers the rate, starting from the actual rate if that was lower. The effect is measurable one window later.
    fn slow_down(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.step.since);
        if elapsed >= STEP {
            self.rate = self.rate.min(self.step.events as f64 / elapsed.as_secs_f64());
        }
        self.rate = (self.rate * SLOWER).max(RATE_MIN);
        self.settled = now + WINDOW;
        self.step = PaceStep { since: now, ..PaceStep::default() };
    }
}
