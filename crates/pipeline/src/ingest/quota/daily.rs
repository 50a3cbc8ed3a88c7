//! Daily quotas of each game, in events and bytes. Days are UTC.

use std::collections::HashMap;

use parking_lot::Mutex;

pub(super) const DAY_MS: i64 = 24 * 3_600_000;
/// Clients are warned from this share on.
const SOFT_PERCENT: u64 = 80;

/// The daily quotas, in the order of [`Amount`].
const NAMES: [&str; 2] = ["events_per_day", "bytes_per_day"];

/// Events and bytes.
pub(super) type Amount = [u64; 2];

/// The used share of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaUsage {
    /// The quota's name in settings, responses and metrics.
    pub quota: &'static str,
    /// The used percentage of the quota.
    pub percent: u64,
}

/// The daily quotas and their usage by every game.
pub(super) struct DailyQuota {
    /// 0 means no limit.
    limits: Amount,
    games: Mutex<HashMap<u32, DayUsage>>,
}

#[derive(Clone, Copy)]
struct DayUsage {
    /// Days since 1970.
    day: i64,
    spent: Amount,
}

impl DailyQuota {
    pub(super) fn new(events: u64, bytes: u64) -> DailyQuota {
        DailyQuota { limits: [events, bytes], games: Mutex::default() }
    }

    pub(super) fn is_on(&self) -> bool {
        self.limits != [0, 0]
    }

    /// Charges an amount to the game's day, or returns the name and the limit of the quota that it would exceed.
    /// `spent_before` returns the amount that the game spent today before this process started; it is called once per
    /// game.
    pub(super) fn spend(
        &self,
        game: u32,
        amount: Amount,
        now_ms: i64,
        spent_before: impl FnOnce() -> Amount,
    ) -> Result<Option<QuotaUsage>, (&'static str, u64)> {
        let today = now_ms.div_euclid(DAY_MS);
        let mut games = self.games.lock();
        let day = games.entry(game).or_insert_with(|| DayUsage { day: today, spent: spent_before() });
        // A clock that goes back over midnight does not start the previous day again; one that was days ahead does.
        if today > day.day || today + 1 < day.day {
            *day = DayUsage { day: today, spent: [0, 0] };
        }
        let after = [day.spent[0].saturating_add(amount[0]), day.spent[1].saturating_add(amount[1])];
        let exceeded = (0..2).find(|quota| self.limits[*quota] > 0 && after[*quota] > self.limits[*quota]);
        if let Some(exceeded) = exceeded {
            return Err((NAMES[exceeded], self.limits[exceeded]));
        }
        day.spent = after;
        Ok(self.highest_usage(&after).filter(|used| used.percent >= SOFT_PERCENT))
    }

    /// Refunds events that were not written.
    pub(super) fn refund(&self, game: u32, events: u64) {
        if let Some(day) = self.games.lock().get_mut(&game) {
            day.spent[0] = day.spent[0].saturating_sub(events);
        }
    }

    /// Returns today's used share of each limited quota, as (game, quota, share).
    pub(super) fn used(&self, now_ms: i64) -> Vec<(u32, &'static str, f64)> {
        let today = now_ms.div_euclid(DAY_MS);
        let games = self.games.lock();
        let mut used = Vec::new();
        for (game, day) in games.iter() {
            for quota in (0..2).filter(|quota| self.limits[*quota] > 0) {
                let spent = if day.day < today || today + 1 < day.day { 0 } else { day.spent[quota] };
                used.push((*game, NAMES[quota], spent as f64 / self.limits[quota] as f64));
            }
        }
        used.sort_by_key(|(game, quota, _)| (*game, *quota));
        used
    }

    fn highest_usage(&self, spent: &Amount) -> Option<QuotaUsage> {
        let limited = (0..2).filter(|quota| self.limits[*quota] > 0);
        let used = limited.map(|quota| {
            let percent = (u128::from(spent[quota]) * 100 / u128::from(self.limits[quota])) as u64;
            QuotaUsage { quota: NAMES[quota], percent }
        });
        used.max_by_key(|used| used.percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spend(daily: &DailyQuota, events: u64, bytes: u64, now_ms: i64) -> String {
        match daily.spend(1, [events, bytes], now_ms, || [0, 0]) {
            Ok(None) => "fine".into(),
            Ok(Some(used)) => format!("{} {} %", used.quota, used.percent),
            Err((quota, limit)) => format!("over {quota} {limit}"),
        }
    }

    #[test]
    fn usage_is_reported_from_80_percent_and_limited_at_100() {
        let daily = DailyQuota::new(100, 0);
        assert_eq!(spend(&daily, 79, 5, 0), "fine");
        assert_eq!(spend(&daily, 1, 5, 0), "events_per_day 80 %");
        assert_eq!(spend(&daily, 21, 5, 0), "over events_per_day 100");
        assert_eq!(spend(&daily, 20, 5, 0), "events_per_day 100 %");
        assert_eq!(spend(&daily, 1, 5, DAY_MS - 1), "over events_per_day 100");
        assert_eq!(spend(&daily, 1, 5, DAY_MS), "fine");
        assert_eq!(spend(&daily, 100, 5, DAY_MS - 1), "over events_per_day 100", "the clock jumped back");
        assert_eq!(spend(&daily, 90, 5, 41 * DAY_MS), "events_per_day 90 %", "the clock was ahead");
        assert_eq!(spend(&daily, 90, 5, DAY_MS + 1), "events_per_day 90 %", "it went back");
    }

    #[test]
    fn the_quota_with_the_highest_usage_is_reported() {
        let daily = DailyQuota::new(100, 1_000);
        assert_eq!(spend(&daily, 10, 900, 0), "bytes_per_day 90 %");
        assert_eq!(spend(&daily, 10, 101, 0), "over bytes_per_day 1000");
        assert_eq!(spend(&daily, 85, 0, 0), "events_per_day 95 %");
    }

    #[test]
    fn earlier_usage_counts_and_duplicates_do_not() {
        let daily = DailyQuota::new(100, 0);
        assert_eq!(
            daily.spend(1, [10, 0], 5, || [90, 0]).map(|used| used.map(|used| used.percent)),
            Ok(Some(100))
        );
        daily.refund(1, 5);
        assert_eq!(spend(&daily, 5, 0, 6), "events_per_day 100 %");
        assert_eq!(daily.used(7), [(1, "events_per_day", 1.0)]);
        assert_eq!(daily.used(DAY_MS), [(1, "events_per_day", 0.0)]);
    }
}
