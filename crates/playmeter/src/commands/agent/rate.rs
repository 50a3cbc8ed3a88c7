//! Rates of counters. Rates are sent instead of totals, so that a reading that is sent twice, because its response was
//! lost, does not count anything twice.

use std::collections::HashMap;
use std::time::Instant;

/// The last value of a counter and the time when it was read.
#[derive(Clone, Copy, Default)]
pub(crate) struct CounterRate(Option<(Instant, f64)>);

impl CounterRate {
    /// Returns the growth per second since the last read. Returns `None` for the first read and after a counter reset.
    pub(crate) fn per_second(&mut self, total: f64, at: Instant) -> Option<f64> {
        let (last_read, last_total) = self.0.replace((at, total))?;
        let seconds = at.checked_duration_since(last_read)?.as_secs_f64();
        (seconds > 0.0 && total >= last_total).then(|| (total - last_total) / seconds)
    }
}

/// Counters by name.
#[derive(Default)]
pub(crate) struct CounterRates(HashMap<String, CounterRate>);

impl CounterRates {
    /// Returns the rate of the counter with this name, as [`CounterRate::per_second`].
    pub(crate) fn per_second(&mut self, name: &str, total: f64, at: Instant) -> Option<f64> {
        match self.0.get_mut(name) {
            Some(rate) => rate.per_second(total, at),
            None => self.0.entry(name.to_owned()).or_default().per_second(total, at),
        }
    }

    /// Drops the counters that were not read at this time, so that names that come and go use no memory.
    pub(crate) fn retain_read_at(&mut self, at: Instant) {
        self.0.retain(|_, rate| rate.0.is_some_and(|(read, _)| read == at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn rate_is_the_difference_per_second() {
        let (mut rate, start) = (CounterRate::default(), Instant::now());
        let mut at = |seconds, total| rate.per_second(total, start + Duration::from_secs(seconds));
        assert_eq!(at(0, 100.0), None, "one read has no difference");
        assert_eq!(at(10, 150.0), Some(5.0));
        assert_eq!(at(10, 150.0), None, "no time has passed");
        assert_eq!(at(20, 7.0), None, "the counter was reset");
        assert_eq!(at(22, 8.0), Some(0.5));
    }

    #[test]
    fn counters_that_are_no_longer_read_are_dropped() {
        let (mut rates, start) = (CounterRates::default(), Instant::now());
        let later = start + Duration::from_secs(1);
        rates.per_second("a", 1.0, start);
        rates.per_second("b", 1.0, start);
        assert_eq!(rates.per_second("a", 2.0, later), Some(1.0));
        rates.retain_read_at(later);
        assert_eq!(rates.0.len(), 1);
    }
}
