//! When to try again what has failed.

use std::time::Duration;

/// The first wait.
const FIRST: Duration = Duration::from_secs(5);
/// The longest.
const LONGEST: Duration = Duration::from_secs(5 * 60);

/// Waits that grow by half with each failure and begin anew after a success: what has run for longer than the last wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    first: Duration,
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff::from(FIRST)
    }
}

impl From<Duration> for Backoff {
    /// With another first wait.
    fn from(first: Duration) -> Backoff {
        Backoff { first, next: first }
    }
}

impl Backoff {
    /// How long to wait after a failure of what has run for so long.
    pub fn failed_after(&mut self, ran: Duration) -> Duration {
        if ran > self.next {
            self.reset();
        }
        let wait = self.next;
        self.next = (wait * 3 / 2).min(LONGEST);
        wait
    }

    /// Somebody wants it to be tried as if it had never failed.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ran_s: &[u64], expected_s: &[f64]) {
        let mut backoff = Backoff::default();
        let waits = ran_s.iter().map(|ran| backoff.failed_after(Duration::from_secs(*ran)).as_secs_f64());
        assert_eq!(waits.collect::<Vec<_>>(), expected_s);
    }

    #[test]
    fn a_wait_is_half_as_long_again_as_the_one_before_up_to_five_minutes() {
        check(&[0; 4], &[5.0, 7.5, 11.25, 16.875]);
        let mut backoff = Backoff::default();
        let longest = (0..20).map(|_| backoff.failed_after(Duration::ZERO)).max();
        assert_eq!(longest, Some(LONGEST));
    }

    #[test]
    fn a_success_begins_anew() {
        check(&[0, 0, 3600, 0], &[5.0, 7.5, 5.0, 7.5]);
        check(&[0, 0, 12, 0], &[5.0, 7.5, 5.0, 7.5]);
        check(&[0, 0, 11, 0], &[5.0, 7.5, 11.25, 16.875]);
    }
}
