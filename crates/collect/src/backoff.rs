//! The wait before a failed collector is started again.

use std::time::Duration;

const FIRST_WAIT: Duration = Duration::from_secs(5);
const WAIT_MAX: Duration = Duration::from_secs(5 * 60);

/// Waits that grow by half with each failure. They start over after a success: a run longer than the last wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Backoff {
    first: Duration,
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff::from(FIRST_WAIT)
    }
}

impl From<Duration> for Backoff {
    /// Sets the first wait.
    fn from(first: Duration) -> Backoff {
        Backoff { first, next: first }
    }
}

impl Backoff {
    /// Returns the wait before the next attempt, after an attempt that failed when it had run for `ran`.
    pub(crate) fn next_wait(&mut self, ran: Duration) -> Duration {
        if ran > self.next {
            self.reset();
        }
        let wait = self.next;
        self.next = (wait * 3 / 2).min(WAIT_MAX);
        wait
    }

    /// Starts over with the first wait.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ran_s: &[u64], expected_s: &[f64]) {
        let mut backoff = Backoff::default();
        let waits = ran_s.iter().map(|ran| backoff.next_wait(Duration::from_secs(*ran)).as_secs_f64());
        assert_eq!(waits.collect::<Vec<_>>(), expected_s);
    }

    #[test]
    fn each_wait_is_half_longer_than_the_last_up_to_five_minutes() {
        check(&[0; 4], &[5.0, 7.5, 11.25, 16.875]);
        let mut backoff = Backoff::default();
        let longest = (0..20).map(|_| backoff.next_wait(Duration::ZERO)).max();
        assert_eq!(longest, Some(WAIT_MAX));
    }

    #[test]
    fn run_longer_than_the_last_wait_resets_the_backoff() {
        check(&[0, 0, 3600, 0], &[5.0, 7.5, 5.0, 7.5]);
        check(&[0, 0, 12, 0], &[5.0, 7.5, 5.0, 7.5]);
        check(&[0, 0, 11, 0], &[5.0, 7.5, 11.25, 16.875]);
    }
}
