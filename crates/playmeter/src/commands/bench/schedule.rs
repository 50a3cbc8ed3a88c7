//! The open-loop schedule: the due time of each request, independent of earlier responses.

/// The due times in order. A late caller gets the times that it missed, unchanged.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    rate: f64,
    count: u64,
    issued: u64,
}

impl Schedule {
    /// Creates a schedule of `rate` requests per second for `seconds`. The first one is due at 0.
    pub(crate) fn new(rate: f64, seconds: f64) -> Self {
        Self { rate, count: (rate * seconds).round() as u64, issued: 0 }
    }

    /// Returns when the next request is due, in nanoseconds from the start. `None` after the last one.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        (self.issued < self.count).then(|| self.due_ns(self.issued))
    }

    /// Removes the next request if it is due, and returns its due time.
    pub(crate) fn pop_due(&mut self, now_ns: u64) -> Option<u64> {
        let due_ns = self.next_due_ns().filter(|due_ns| *due_ns <= now_ns)?;
        self.issued += 1;
        Some(due_ns)
    }

    /// Multiplies instead of adding up an interval, which would drift. A double is exact to the nanosecond for a hundred
    /// days.
    fn due_ns(&self, request: u64) -> u64 {
        (request as f64 * 1e9 / self.rate) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rate: f64, seconds: f64, called_at_ns: &[u64], expected: &[Option<u64>]) {
        let mut schedule = Schedule::new(rate, seconds);
        let popped: Vec<_> = called_at_ns.iter().map(|now_ns| schedule.pop_due(*now_ns)).collect();
        assert_eq!(popped, expected);
    }

    #[test]
    fn request_is_not_returned_before_it_is_due() {
        check(1_000.0, 1.0, &[0, 999_999, 1_000_000], &[Some(0), None, Some(1_000_000)]);
    }

    #[test]
    fn stall_does_not_move_due_times() {
        check(1_000.0, 1.0, &[0, 9_000_000, 9_000_000], &[Some(0), Some(1_000_000), Some(2_000_000)]);
    }

    #[test]
    fn schedule_ends_after_rate_times_seconds() {
        check(2.0, 1.0, &[u64::MAX; 3], &[Some(0), Some(500_000_000), None]);
    }

    #[test]
    fn last_due_time_of_a_long_run_is_exact() {
        let mut schedule = Schedule::new(100_000.0, 3_600.0);
        schedule.issued = schedule.count - 1;
        assert_eq!(schedule.next_due_ns(), Some(3_600_000_000_000 - 10_000));
    }
}
