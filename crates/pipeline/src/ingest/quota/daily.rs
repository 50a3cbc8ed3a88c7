//! What a game has used of its day, in events and bytes. A day is one of UTC.

use std::collections::HashMap;

use parking_lot::Mutex;

pub(super) const DAY_MS: i64 = 24 * 3_600_000;
/// From this share on clients are told.
const SOFT_PERCENT: u64 = 80;

/// The quotas of a day, in the order of [`Spent`].
const NAMES: [&str; 2] = ["events_per_day", "bytes_per_day"];

/// Events and bytes.
pub type Spent = [u64; 2];

/// How much of a quota is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// The quota's name in settings, answers and metrics.
    pub quota: &'static str,
    /// Of the quota.
    pub percent: u64,
}

/// The days of all games.
pub(super) struct Daily {
    /// 0: no limit.
    limits: Spent,
    games: Mutex<HashMap<u32, Day>>,
}

#[derive(Clone, Copy)]
struct Day {
    day: i64,
    spent: Spent,
}

impl Daily {
    pub(super) fn new(events: u64, bytes: u64) -> Daily {
        Daily { limits: [events, bytes], games: Mutex::default() }
    }

    pub(super) fn is_on(&self) -> bool {
        self.limits != [0, 0]
    }

    /// Spends of the game's day, or names the quota that it would exceed and its size. `known` says what the game has
    /// spent today before this process; it is asked once.
    pub(super) fn spend(
        &self,
        game: u32,
        spent: Spent,
        now_ms: i64,
        known: impl FnOnce() -> Spent,
    ) -> Result<Option<Used>, (&'static str, u64)> {
        let today = now_ms.div_euclid(DAY_MS);
        let mut games = self.games.lock();
        let day = games.entry(game).or_insert_with(|| Day { day: today, spent: known() });
        // A clock that goes back over midnight does not give the day before a second time.
        if today > day.day {
            *day = Day { day: today, spent: [0, 0] };
        }
        let after = [day.spent[0].saturating_add(spent[0]), day.spent[1].saturating_add(spent[1])];
        let over = (0..2).find(|quota| self.limits[*quota] > 0 && after[*quota] > self.limits[*quota]);
        if let Some(over) = over {
            return Err((NAMES[over], self.limits[over]));
        }
        day.spent = after;
        Ok(self.fullest(&after).filter(|used| used.percent >= SOFT_PERCENT))
    }

    /// Takes back events that turned out to be duplicates.
    pub(super) fn give_back(&self, game: u32, events: u64) {
        if let Some(day) = self.games.lock().get_mut(&game) {
            day.spent[0] = day.spent[0].saturating_sub(events);
        }
    }

    /// What is used today of each quota that there is, by game.
    pub(super) fn used(&self, now_ms: i64) -> Vec<(u32, &'static str, f64)> {
        let today = now_ms.div_euclid(DAY_MS);
        let games = self.games.lock();
        let mut used = Vec::new();
        for (game, day) in games.iter() {
            for quota in (0..2).filter(|quota| self.limits[*quota] > 0) {
                let spent = if day.day < today { 0 } else { day.spent[quota] };
                used.push((*game, NAMES[quota], spent as f64 / self.limits[quota] as f64));
            }
        }
        used.sort_by_key(|(game, quota, _)| (*game, *quota));
        used
    }

    fn fullest(&self, spent: &Spent) -> Option<Used> {
        let limited = (0..2).filter(|quota| self.limits[*quota] > 0);
        let used = limited.map(|quota| {
            let percent = (u128::from(spent[quota]) * 100 / u128::from(self.limits[quota])) as u64;
            Used { quota: NAMES[quota], percent }
        });
        used.max_by_key(|used| used.percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spend(daily: &Daily, events: u64, bytes: u64, now_ms: i64) -> String {
        match daily.spend(1, [events, bytes], now_ms, || [0, 0]) {
            Ok(None) => "fine".into(),
            Ok(Some(used)) => format!("{} {} %", used.quota, used.percent),
            Err((quota, limit)) => format!("over {quota} {limit}"),
        }
    }

    #[test]
    fn from_four_fifths_on_it_is_told_and_the_whole_is_the_end() {
        let daily = Daily::new(100, 0);
        assert_eq!(spend(&daily, 79, 5, 0), "fine");
        assert_eq!(spend(&daily, 1, 5, 0), "events_per_day 80 %");
        assert_eq!(spend(&daily, 21, 5, 0), "over events_per_day 100");
        assert_eq!(spend(&daily, 20, 5, 0), "events_per_day 100 %");
        assert_eq!(spend(&daily, 1, 5, DAY_MS - 1), "over events_per_day 100");
        assert_eq!(spend(&daily, 1, 5, DAY_MS), "fine");
        assert_eq!(spend(&daily, 100, 5, DAY_MS - 1), "over events_per_day 100", "the clock went back");
    }

    #[test]
    fn the_fuller_of_two_quotas_is_told() {
        let daily = Daily::new(100, 1_000);
        assert_eq!(spend(&daily, 10, 900, 0), "bytes_per_day 90 %");
        assert_eq!(spend(&daily, 10, 101, 0), "over bytes_per_day 1000");
        assert_eq!(spend(&daily, 85, 0, 0), "events_per_day 95 %");
    }

    #[test]
    fn what_was_spent_before_counts_and_duplicates_do_not() {
        let daily = Daily::new(100, 0);
        assert_eq!(
            daily.spend(1, [10, 0], 5, || [90, 0]).map(|used| used.map(|used| used.percent)),
            Ok(Some(100))
        );
        daily.give_back(1, 5);
        assert_eq!(spend(&daily, 5, 0, 6), "events_per_day 100 %");
        assert_eq!(daily.used(7), [(1, "events_per_day", 1.0)]);
        assert_eq!(daily.used(DAY_MS), [(1, "events_per_day", 0.0)]);
    }
}
