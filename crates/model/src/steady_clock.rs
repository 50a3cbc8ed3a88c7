//! A wall clock without jumps.
//!
//! System clocks jump: a wrong time server, an administrator or a firmware error moves them by days, and often back again.
//! A [`SteadyClock`] is the last time plus the monotonic time since then. It follows small corrections at once, and a
//! jump only after the system clock has kept its new course for a while.

/// A correction of at most this much is not a jump, in microseconds.
const CORRECTION_US_MAX: i64 = 2_000_000;

/// A wall clock that follows jumps of the system clock only once they have lasted.
///
/// Between two jumps that it follows, its time never decreases.
#[derive(Debug)]
pub struct SteadyClock {
    settle_us: i64,
    /// The course that is followed; `None` before the first one is trusted.
    course: Option<i64>,
    /// A course that the system clock has taken and that is not trusted yet.
    candidate: Option<Candidate>,
    last_us: i64,
}

/// A course: the difference between the system clock and the monotonic clock.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    course: i64,
    since_us: i64,
}

impl SteadyClock {
    /// Creates a clock that trusts its first reading. It follows a jump after `settle_us` microseconds.
    pub fn new(settle_us: i64) -> SteadyClock {
        SteadyClock { settle_us, course: None, candidate: None, last_us: i64::MIN }
    }

    /// Returns the time for a reading of the system clock and of the monotonic clock, all in microseconds. The monotonic
    /// clock must not go back.
    pub fn read(&mut self, system_us: i64, monotonic_us: i64) -> i64 {
        if self.course.is_none() {
            self.course = Some(system_us - monotonic_us);
        }
        self.read_settled(system_us, monotonic_us).unwrap_or(system_us)
    }

    /// Returns the time like [`SteadyClock::read`], but `None` until even the first course has lasted.
    pub fn read_settled(&mut self, system_us: i64, monotonic_us: i64) -> Option<i64> {
        let course = system_us - monotonic_us;
        match self.course {
            Some(followed) if is_correction(course, followed) => {
                (self.course, self.candidate) = (Some(course), None);
            }
            _ => self.consider(course, monotonic_us),
        }
        self.last_us = self.last_us.max(self.course? + monotonic_us);
        Some(self.last_us)
    }

    fn consider(&mut self, course: i64, monotonic_us: i64) {
        let since_us = match self.candidate {
            Some(candidate) if is_correction(course, candidate.course) => candidate.since_us,
            _ => monotonic_us,
        };
        self.candidate = Some(Candidate { course, since_us });
        if monotonic_us - since_us >= self.settle_us {
            (self.course, self.candidate, self.last_us) = (Some(course), None, i64::MIN);
        }
    }
}

fn is_correction(course: i64, followed: i64) -> bool {
    course.abs_diff(followed) <= CORRECTION_US_MAX.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S: i64 = 1_000_000;
    const DAY: i64 = 86_400 * S;
    /// The system clock at monotonic time 0.
    const START: i64 = 1_800_000_000 * S;

    /// Reads the clock once a second. Each step is the number of seconds and the error of the system clock in them.
    fn run(settle_s: i64, steps: &[(i64, i64)]) -> i64 {
        let (mut clock, mut monotonic, mut error) = (SteadyClock::new(settle_s * S), 0, 0);
        for (seconds, wrong) in steps {
            for _ in 0..*seconds {
                monotonic += S;
                error = clock.read(START + monotonic + wrong, monotonic) - START - monotonic;
            }
        }
        error
    }

    #[test]
    fn jump_is_followed_only_after_it_has_lasted() {
        for jump in [40 * DAY, -40 * DAY, 3 * S, -3 * S] {
            assert_eq!(run(300, &[(10, 0), (300, jump)]), 0);
            assert_eq!(run(300, &[(10, 0), (301, jump)]), jump);
            assert_eq!(run(300, &[(10, 0), (200, jump), (200, -jump), (200, jump)]), 0, "no course lasts");
            assert_eq!(run(300, &[(10, 0), (200, jump), (1, 0), (200, jump)]), 0, "it came back in between");
            assert_eq!(run(300, &[(10, 0), (400, jump), (301, 0)]), 0, "it is followed back");
        }
    }

    #[test]
    fn small_correction_is_followed_at_once() {
        assert_eq!(run(300, &[(10, 0), (1, S)]), S);
        // The time does not decrease: it waits until the system clock has caught up.
        assert_eq!(run(300, &[(10, 0), (1, -S)]), -S);
        let mut clock = SteadyClock::new(300 * S);
        assert_eq!(clock.read(START + 10 * S, 10 * S), START + 10 * S);
        assert_eq!(clock.read(START + 9 * S, 10 * S), START + 10 * S);
        assert_eq!(clock.read(START + 10 * S, 11 * S), START + 10 * S);
        assert_eq!(clock.read(START + 11 * S, 12 * S), START + 11 * S);
    }

    #[test]
    fn nothing_is_settled_before_the_first_course_has_lasted() {
        let mut clock = SteadyClock::new(100 * S);
        assert_eq!(clock.read_settled(START, 0), None);
        assert_eq!(clock.read_settled(START + 99 * S, 99 * S), None);
        assert_eq!(clock.read_settled(START + 100 * S, 100 * S), Some(START + 100 * S));
        assert_eq!(clock.read_settled(START + 40 * DAY, 101 * S), Some(START + 101 * S));
    }

    proptest! {
        #[test]
        fn one_wrong_reading_never_shows(wrong in -100 * DAY..100 * DAY, at in 0..1_000_i64) {
            let mut clock = SteadyClock::new(300 * S);
            let mut last = i64::MIN;
            for second in 0..1_000 {
                let error = if second == at && second > 0 { wrong } else { 0 };
                let now = clock.read(START + second * S + error, second * S);
                prop_assert!(now >= last && now.abs_diff(START + second * S) <= CORRECTION_US_MAX.unsigned_abs());
                last = now;
            }
        }
    }
}
