//! How much may be sent: by the second for each address, player, key and game, by the day for each game.

mod buckets;
mod daily;

use std::net::IpAddr;

use buckets::Buckets;
use daily::{DAY_MS, Daily};
pub use daily::{Spent, Used};
use model::Reject;

use crate::catalog::{Access, address_group};

/// What may be sent; 0: as much as they like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaSettings {
    /// Events a second of one game.
    pub game_events_per_second: u64,
    /// Events a second with one key.
    pub key_events_per_second: u64,
    /// Events a second from one address (IPv6: one /64).
    pub address_events_per_second: u64,
    /// Events a second of one player.
    pub player_events_per_second: u64,
    /// Events a day of one game.
    pub events_per_day: u64,
    /// Bytes a day of one game, as the log stores them.
    pub bytes_per_day: u64,
    /// Flows of one game at the same time: always a number.
    pub flows_per_game: u32,
}

/// What has been sent.
pub struct Quota {
    address: Buckets,
    player: Buckets,
    key: Buckets,
    game: Buckets,
    daily: Daily,
}

/// A whole request is more than may be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{who} sends more than {max} {what}; send these again in {retry_s} s")]
pub struct Over {
    /// The setting's name.
    pub quota: &'static str,
    who: &'static str,
    what: &'static str,
    max: u64,
    /// When there is room.
    pub retry_s: u32,
    /// How the events are counted.
    pub reject: Reject,
}

impl Quota {
    /// Nothing has been sent yet.
    pub fn new(settings: QuotaSettings) -> Quota {
        Quota {
            address: Buckets::new(settings.address_events_per_second),
            player: Buckets::new(settings.player_events_per_second),
            key: Buckets::new(settings.key_events_per_second),
            game: Buckets::new(settings.game_events_per_second),
            daily: Daily::new(settings.events_per_day, settings.bytes_per_day),
        }
    }

    /// Takes the events of a request. The narrowest limit comes first, so that one who sends too much does not use up
    /// what others share.
    pub fn take(
        &self,
        access: &Access,
        address: Option<IpAddr>,
        events: usize,
        now_ms: i64,
    ) -> Result<(), Over> {
        if let Some(address) = address.filter(|_| self.address.is_on()) {
            let taken = self.address.take(address_group(address), events, now_ms);
            taken
                .map_err(|retry_s| self.address.over("address_events_per_second", "this address", retry_s))?;
        }
        let taken = self.key.take((access.game.number, access.key), events, now_ms);
        taken.map_err(|retry_s| self.key.over("key_events_per_second", "this key", retry_s))?;
        let taken = self.game.take(access.game.number, events, now_ms);
        taken.map_err(|retry_s| self.game.over("events_per_second", "the game", retry_s))
    }

    /// Takes one event of a player.
    #[inline]
    pub fn take_of_player(&self, game: u32, player: &[u8], now_ms: i64) -> Result<(), Reject> {
        if !self.player.is_on() || player.is_empty() {
            return Ok(());
        }
        self.player.take((game, player), 1, now_ms).map_err(|_| Reject::RateLimit)
    }

    /// Spends of the game's day. `known` says what it has spent today before this process; it is asked once.
    pub fn spend(
        &self,
        game: u32,
        spent: Spent,
        now_ms: i64,
        known: impl FnOnce() -> Spent,
    ) -> Result<Option<Used>, Over> {
        if !self.daily.is_on() {
            return Ok(None);
        }
        self.daily.spend(game, spent, now_ms, known).map_err(|(quota, max)| Over {
            quota,
            who: "the game",
            what: if quota == "events_per_day" { "events a day" } else { "bytes a day" },
            max,
            retry_s: ((DAY_MS - now_ms.rem_euclid(DAY_MS)) / 1000 + 1) as u32,
            reject: Reject::DailyQuota,
        })
    }

    /// Takes back events that turned out to be duplicates.
    pub fn give_back(&self, game: u32, events: u64) {
        if self.daily.is_on() && events > 0 {
            self.daily.give_back(game, events);
        }
    }

    /// The used share of each daily quota, by game.
    pub fn used_today(&self, now_ms: i64) -> Vec<(u32, &'static str, f64)> {
        self.daily.used(now_ms)
    }
}

impl Buckets {
    fn over(&self, quota: &'static str, who: &'static str, retry_s: u32) -> Over {
        let (what, max, reject) = ("events a second", self.per_second(), Reject::RateLimit);
        Over { quota, who, what, max, retry_s, reject }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::catalog::Catalog;

    fn access() -> Access {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (_, made) = Catalog::open(folder.path(), 0).expect("a new catalog");
        Access::public(Arc::new(made.expect("it is new").game))
    }

    fn check(settings: QuotaSettings, expected: &[Result<(), &str>]) {
        let (quota, access) = (Quota::new(settings), access());
        let from = |address: &str| {
            let address = address.parse().ok();
            quota.take(&access, address, 10, 0).map_err(|over| format!("{}: {over}", over.quota))
        };
        let sent = [from("2001:db8::1"), from("2001:db8::2"), from("203.0.113.7")];
        let expected = expected.iter().map(|one| one.map_err(str::to_owned));
        assert_eq!(sent.to_vec(), expected.collect::<Vec<_>>());
    }

    #[test]
    fn each_limit_counts_its_own_senders() {
        check(QuotaSettings::default(), &[Ok(()), Ok(()), Ok(())]);
        let over = "address_events_per_second: this address sends more than 1 events a second; send these again in 10 s";
        let settings = QuotaSettings { address_events_per_second: 1, ..QuotaSettings::default() };
        check(settings, &[Ok(()), Err(over), Ok(())]);
        let over =
            "key_events_per_second: this key sends more than 1 events a second; send these again in 10 s";
        let settings = QuotaSettings { key_events_per_second: 1, ..QuotaSettings::default() };
        check(settings, &[Ok(()), Err(over), Err(over)]);
        let over = "events_per_second: the game sends more than 2 events a second; send these again in 5 s";
        let settings = QuotaSettings { game_events_per_second: 2, ..QuotaSettings::default() };
        check(settings, &[Ok(()), Ok(()), Err(over)]);
    }

    #[test]
    fn who_sends_too_much_uses_up_nothing_of_the_others() {
        let both = QuotaSettings {
            address_events_per_second: 1,
            game_events_per_second: 2,
            ..QuotaSettings::default()
        };
        let over = "address_events_per_second: this address sends more than 1 events a second; send these again in 10 s";
        check(both, &[Ok(()), Err(over), Ok(())]);
    }

    #[test]
    fn a_player_has_a_bucket_in_each_game() {
        let quota = Quota::new(QuotaSettings { player_events_per_second: 1, ..QuotaSettings::default() });
        let take = |game, player: &str| quota.take_of_player(game, player.as_bytes(), 0);
        assert!((0..10).all(|_| take(1, "ann") == Ok(())));
        assert_eq!(take(1, "ann"), Err(Reject::RateLimit));
        assert_eq!((take(1, "bo"), take(2, "ann"), take(1, "")), (Ok(()), Ok(()), Ok(())));
    }

    #[test]
    fn a_day_ends_at_midnight_utc() {
        let quota = Quota::new(QuotaSettings { events_per_day: 5, ..QuotaSettings::default() });
        assert_eq!(quota.spend(1, [5, 0], DAY_MS - 10_000, || [0, 0]).map(|used| used.is_some()), Ok(true));
        let over = quota.spend(1, [1, 0], DAY_MS - 10_000, || [0, 0]).expect_err("it is used up");
        assert_eq!((over.retry_s, over.reject), (11, Reject::DailyQuota));
        assert_eq!(over.to_string(), "the game sends more than 5 events a day; send these again in 11 s");
    }
}
