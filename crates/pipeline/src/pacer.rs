//! How fast work of the past may go beside live traffic.
//!
//! A [`Pacer`] holds a rate and hears how long live commits take: under 5 ms it goes a tenth faster, from 5 to 10 ms it
//! stays as it is, above 10 ms it goes down to two thirds. Where nobody waits for a commit, nobody is in the way. It has
//! no clock and does not sleep: the time is given to it, and it says how long to wait. [`Commits`] is what a server
//! measures; the commits of the paced work itself are not among them, since a disk that is slow by itself would have it
//! creep for nobody's sake.

mod commits;
#[cfg(test)]
mod tests;

pub use commits::Commits;

use std::time::Duration;

/// Live commits that take less on average leave room for more.
pub const FASTER_BELOW: Duration = Duration::from_millis(5);
/// Live commits that take more are being delayed.
pub const SLOWER_ABOVE: Duration = Duration::from_millis(10);
/// What is told covers so much time at most.
pub const WINDOW: Duration = Duration::from_secs(1);

const FASTER: f64 = 1.1;
const SLOWER: f64 = 0.66;
/// It goes faster at most so often.
const STEP: Duration = Duration::from_millis(200);
/// Events a second in the beginning: a tenth of a core.
const RATE_FIRST: f64 = 10_000.0;
/// However slow the disk is, an import comes to an end.
const RATE_MIN: f64 = 500.0;
/// More than any machine takes.
const RATE_MAX: f64 = 10_000_000.0;
/// A request is for this part of a second, so that what comes between two of them waits little.
const REQUESTS_PER_SECOND: f64 = 50.0;
/// Events of one request.
const EVENTS_MIN: usize = 50;
/// A larger request would have a thread that answers live ones busy for milliseconds.
const EVENTS_MAX: usize = 1_000;

/// Decides how fast to go. All times are since the same moment and never go back.
#[derive(Debug)]
pub struct Pacer {
    /// Events a second.
    rate: f64,
    /// When the next events may go.
    due: Duration,
    step: Step,
    /// What is told until then is still about how it was before it slowed down.
    settled: Duration,
}

/// What has been done since the rate was looked at last.
#[derive(Debug, Default)]
struct Step {
    since: Duration,
    events: u64,
    /// The rate was what held the events back, not their source and not the server.
    was_held_back: bool,
}

impl Default for Pacer {
    fn default() -> Pacer {
        let (due, settled) = (Duration::ZERO, Duration::ZERO);
        Pacer { rate: RATE_FIRST, due, step: Step::default(), settled }
    }
}

impl Pacer {
    /// Events a second.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// How many events to send at once: 50 to 1,000.
    pub fn events(&self) -> usize {
        ((self.rate / REQUESTS_PER_SECOND) as usize).clamp(EVENTS_MIN, EVENTS_MAX)
    }

    /// How long to wait before so many events go. Time that was not used is not made up for.
    pub fn wait(&mut self, now: Duration, events: usize) -> Duration {
        let wait = self.due.saturating_sub(now);
        self.due = self.due.max(now) + Duration::from_secs_f64(events as f64 / self.rate);
        self.step.was_held_back |= wait > Duration::ZERO;
        self.step.events += events as u64;
        wait
    }

    /// Hears how long live commits take on average; without a value there were none.
    pub fn hear(&mut self, now: Duration, commit: Option<Duration>) {
        let commit = commit.unwrap_or_default();
        if commit > SLOWER_ABOVE && now >= self.settled {
            self.slow_down(now);
        } else if commit < FASTER_BELOW && now >= self.step.since + STEP {
            self.speed_up(now);
        }
    }

    /// A rate that was not reached says nothing about what would happen at a higher one.
    fn speed_up(&mut self, now: Duration) {
        if self.step.was_held_back {
            self.rate = (self.rate * FASTER).min(RATE_MAX);
        }
        self.step = Step { since: now, ..Step::default() };
    }

    /// From what was done, if that was less than allowed. Then a window's time passes until the effect can be told.
    fn slow_down(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.step.since);
        if elapsed >= STEP {
            self.rate = self.rate.min(self.step.events as f64 / elapsed.as_secs_f64());
        }
        self.rate = (self.rate * SLOWER).max(RATE_MIN);
        self.settled = now + WINDOW;
        self.step = Step { since: now, ..Step::default() };
    }
}
