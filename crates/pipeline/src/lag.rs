//! How long the views have been behind the log.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The time since the applier found entries that it has not applied yet.
#[derive(Default)]
pub(crate) struct Lag(Mutex<Option<Instant>>);

impl Lag {
    /// Begins a time of lag, which ends when the guard is dropped.
    pub(crate) fn start(&self) -> LagGuard<'_> {
        self.start_at(Instant::now())
    }

    /// As [`Lag::start`], at another time.
    pub(crate) fn start_at(&self, since: Instant) -> LagGuard<'_> {
        *self.0.lock() = Some(since);
        LagGuard(self)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.lock().map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// Ends the lag when it is dropped.
pub(crate) struct LagGuard<'a>(&'a Lag);

impl Drop for LagGuard<'_> {
    fn drop(&mut self) {
        *self.0.0.lock() = None;
    }
}
