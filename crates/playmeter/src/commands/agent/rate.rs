//! From totals that only grow to how much they grow a second. Rates are sent, totals are not: a reading that is sent
//! twice, because its answer was lost, then counts nothing twice.

use std::collections::HashMap;
use std::time::Instant;

/// A total and when it was read.
#[derive(Clone, Copy, Default)]
pub struct Meter(Option<(Instant, f64)>);

impl Meter {
    /// How much it grew a second since it was read last. Nothing at first, and when it became less: it began again.
    pub fn per_second(&mut self, total: f64, at: Instant) -> Option<f64> {
        let (before, old) = self.0.replace((at, total))?;
        let seconds = at.checked_duration_since(before)?.as_secs_f64();
        (seconds > 0.0 && total >= old).then(|| (total - old) / seconds)
    }
}

/// Totals by name.
#[derive(Default)]
pub struct Meters(HashMap<String, Meter>);

impl Meters {
    /// As [`Meter::per_second`], of the total of this name.
    pub fn per_second(&mut self, name: &str, total: f64, at: Instant) -> Option<f64> {
        match self.0.get_mut(name) {
            Some(meter) => meter.per_second(total, at),
            None => self.0.entry(name.to_owned()).or_default().per_second(total, at),
        }
    }

    /// Forgets what was not read at this moment, so that names that come and go take no memory.
    pub fn keep(&mut self, at: Instant) {
        self.0.retain(|_, meter| meter.0.is_some_and(|(read, _)| read == at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_rate_is_the_difference_by_the_seconds_between() {
        let (mut meter, start) = (Meter::default(), Instant::now());
        let mut at = |seconds, total| meter.per_second(total, start + Duration::from_secs(seconds));
        assert_eq!(at(0, 100.0), None, "one reading is no difference");
        assert_eq!(at(10, 150.0), Some(5.0));
        assert_eq!(at(10, 150.0), None, "no time has passed");
        assert_eq!(at(20, 7.0), None, "it began again");
        assert_eq!(at(22, 8.0), Some(0.5));
    }

    #[test]
    fn what_is_not_read_any_more_is_forgotten() {
        let (mut meters, start) = (Meters::default(), Instant::now());
        let later = start + Duration::from_secs(1);
        meters.per_second("a", 1.0, start);
        meters.per_second("b", 1.0, start);
        assert_eq!(meters.per_second("a", 2.0, later), Some(1.0));
        meters.keep(later);
        assert_eq!(meters.0.len(), 1);
    }
}
