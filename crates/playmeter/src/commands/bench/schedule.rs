//! The open-loop timetable: when each request is due, whatever happened before.

/// Hands out due times in order; a late caller gets the times it missed, unchanged.
#[derive(Clone, Debug)]
pub struct Schedule {
    rate: f64,
    count: u64,
    taken: u64,
}

impl Schedule {
    /// `rate` requests a second for `seconds`, the first of them due at 0.
    pub fn new(rate: f64, seconds: f64) -> Self {
        Self { rate, count: (rate * seconds).round() as u64, taken: 0 }
    }

    /// When the next request is due, in nanoseconds from the start; `None` when all were taken.
    pub fn next_due_ns(&self) -> Option<u64> {
        (self.taken < self.count).then(|| self.due_ns(self.taken))
    }

    /// Takes the next request if it is due, and says since when.
    pub fn take(&mut self, now_ns: u64) -> Option<u64> {
        let due_ns = self.next_due_ns().filter(|due_ns| *due_ns <= now_ns)?;
        self.taken += 1;
        Some(due_ns)
    }

    /// A double holds every nanosecond of a hundred days, so multiplying once loses nothing,
    /// while adding up an interval would drift.
    fn due_ns(&self, request: u64) -> u64 {
        (request as f64 * 1e9 / self.rate) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rate: f64, seconds: f64, asked_at_ns: &[u64], expected: &[Option<u64>]) {
        let mut schedule = Schedule::new(rate, seconds);
        let taken: Vec<_> = asked_at_ns.iter().map(|now_ns| schedule.take(*now_ns)).collect();
        assert_eq!(taken, expected);
    }

    #[test]
    fn a_request_is_not_given_before_it_is_due() {
        check(1_000.0, 1.0, &[0, 999_999, 1_000_000], &[Some(0), None, Some(1_000_000)]);
    }

    #[test]
    fn a_stall_moves_no_due_time() {
        check(1_000.0, 1.0, &[0, 9_000_000, 9_000_000], &[Some(0), Some(1_000_000), Some(2_000_000)]);
    }

    #[test]
    fn it_ends_after_rate_times_seconds() {
        check(2.0, 1.0, &[u64::MAX; 3], &[Some(0), Some(500_000_000), None]);
    }

    #[test]
    fn the_last_of_a_long_run_is_due_to_the_nanosecond() {
        let mut schedule = Schedule::new(100_000.0, 3_600.0);
        schedule.taken = schedule.count - 1;
        assert_eq!(schedule.next_due_ns(), Some(3_600_000_000_000 - 10_000));
    }
}
