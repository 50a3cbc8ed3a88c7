//! Quotas: events per second for each address, player, key and game; events and bytes per day for each game.

mod daily;

use std::net::IpAddr;

use model::Reject;
use model::batch::Endpoint;

use crate::catalog::{Access, address_group};
use crate::token_buckets::TokenBuckets;
use daily::{Amount, DAY_MS, DailyQuota};

pub use daily::QuotaUsage;

/// Seconds of the rate that an idle sender may send at once.
const BURST_S: f64 = 10.0;

/// The limits. 0 means no limit, except for flows and names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaSettings {
    /// Events per second of one game.
    pub game_events_per_second: u64,
    /// Events per second sent with one key.
    pub key_events_per_second: u64,
    /// Events per second from one address (IPv6: one /64).
    pub address_events_per_second: u64,
    /// Events per second of one player.
    pub player_events_per_second: u64,
    /// Events per day of one game.
    pub events_per_day: u64,
    /// Bytes per day of one game, as the log stores them.
    pub bytes_per_day: u64,
    /// Concurrent flows of one game; always a limit.
    pub flows_per_game: u32,
    /// Event names of one game with rows of their own; 0 means the default.
    pub event_names_per_game: u32,
}

/// The usage of all quotas.
pub(super) struct Quota {
    address: TokenBuckets,
    player: TokenBuckets,
    key: TokenBuckets,
    game: TokenBuckets,
    daily: DailyQuota,
}

/// A whole batch exceeds a quota.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{sender} exceeds the limit of {max} {unit}; send the batch again in {retry_s} s")]
pub struct QuotaExceeded {
    /// The name of the quota's setting.
    pub quota: &'static str,
    sender: &'static str,
    unit: &'static str,
    max: u64,
    /// Seconds until the batch fits.
    pub retry_s: u32,
    /// The reason under which the events are counted.
    pub reject: Reject,
}

impl Quota {
    pub(super) fn new(settings: QuotaSettings) -> Quota {
        Quota {
            address: buckets(settings.address_events_per_second),
            player: buckets(settings.player_events_per_second),
            key: buckets(settings.key_events_per_second),
            game: buckets(settings.game_events_per_second),
            daily: DailyQuota::new(settings.events_per_day, settings.bytes_per_day),
        }
    }

    /// Acquires the events of a batch. The narrowest limit is checked first, so that a sender above its own limit does
    /// not use up what others share.
    pub(super) fn acquire(
        &self,
        access: &Access,
        address: Option<IpAddr>,
        events: usize,
        now_ms: i64,
    ) -> Result<(), QuotaExceeded> {
        if let Some(address) = address.filter(|_| self.address.is_on()) {
            let acquired = self.address.acquire(address_group(address), events, now_ms);
            acquired.map_err(|retry_s| {
                self.address.exceeded("address_events_per_second", "this address", retry_s)
            })?;
        }
        let acquired = self.key.acquire((access.game.number, access.key), events, now_ms);
        acquired.map_err(|retry_s| self.key.exceeded("key_events_per_second", "this key", retry_s))?;
        let acquired = self.game.acquire(access.game.number, events, now_ms);
        acquired.map_err(|retry_s| self.game.exceeded("events_per_second", "the game", retry_s))
    }

    /// Acquires one event of a player.
    #[inline]
    pub(super) fn acquire_for_player(&self, game: u32, player: &[u8], now_ms: i64) -> Result<(), Reject> {
        if !self.player.is_on() || player.is_empty() {
            return Ok(());
        }
        self.player.acquire((game, player), 1, now_ms).map_err(|_| Reject::RateLimit)
    }

    /// Charges an amount to the game's day. `spent_before` returns the amount that the game spent today before this
    /// process started; it is called once per game.
    pub(super) fn spend(
        &self,
        game: u32,
        amount: Amount,
        now_ms: i64,
        spent_before: impl FnOnce() -> Amount,
    ) -> Result<Option<QuotaUsage>, QuotaExceeded> {
        if !self.daily.is_on() {
            return Ok(None);
        }
        self.daily.spend(game, amount, now_ms, spent_before).map_err(|(quota, max)| QuotaExceeded {
            quota,
            sender: "the game",
            unit: if quota == "events_per_day" { "events per day" } else { "bytes per day" },
            max,
            retry_s: ((DAY_MS - now_ms.rem_euclid(DAY_MS)) / 1000 + 1) as u32,
            reject: Reject::DailyQuota,
        })
    }

    /// Refunds events that were not written.
    pub(super) fn refund(&self, game: u32, events: u64) {
        if self.daily.is_on() && events > 0 {
            self.daily.refund(game, events);
        }
    }

    /// Returns the used share of each daily quota, as (game, quota, share).
    pub(super) fn used_today(&self, now_ms: i64) -> Vec<(u32, &'static str, f64)> {
        self.daily.used(now_ms)
    }
}

fn buckets(per_second: u64) -> TokenBuckets {
    TokenBuckets::new(per_second as f64, BURST_S)
}

/// Returns the number of charged events that were not written: duplicates, or all admitted ones if the append failed
/// (`removed` is `None`).
pub(super) fn unused(endpoint: Endpoint, admitted: u32, removed: Option<usize>) -> u64 {
    let unused = removed.map_or(u64::from(admitted), |removed| removed as u64);
    if endpoint.is_accounted() { unused } else { 0 }
}

impl TokenBuckets {
    fn exceeded(&self, quota: &'static str, sender: &'static str, retry_s: u32) -> QuotaExceeded {
        let (unit, max, reject) = ("events per second", self.per_second(), Reject::RateLimit);
        QuotaExceeded { quota, sender, unit, max, retry_s, reject }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::catalog::Catalog;

    fn access() -> Access {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (_, initial) = Catalog::open(folder.path(), 0).expect("a new catalog");
        Access::public(Arc::new(initial.expect("it is new").game))
    }

    fn check(settings: QuotaSettings, expected: &[Result<(), &str>]) {
        let (quota, access) = (Quota::new(settings), access());
        let from = |address: &str| {
            let address = address.parse().ok();
            let acquired = quota.acquire(&access, address, 10, 0);
            acquired.map_err(|exceeded| format!("{}: {exceeded}", exceeded.quota))
        };
        let sent = [from("2001:db8::1"), from("2001:db8::2"), from("203.0.113.7")];
        let expected = expected.iter().map(|one| one.map_err(str::to_owned));
        assert_eq!(sent.to_vec(), expected.collect::<Vec<_>>());
    }

    #[test]
    fn each_limit_has_its_own_senders() {
        check(QuotaSettings::default(), &[Ok(()), Ok(()), Ok(())]);
        let exceeded = "address_events_per_second: this address exceeds the limit of 1 events per second; send the batch again in 10 s";
        let settings = QuotaSettings { address_events_per_second: 1, ..QuotaSettings::default() };
        check(settings, &[Ok(()), Err(exceeded), Ok(())]);
        let exceeded = "key_events_per_second: this key exceeds the limit of 1 events per second; send the batch again in 10 s";
        let settings = QuotaSettings { key_events_per_second: 1, ..QuotaSettings::default() };
        check(settings, &[Ok(()), Err(exceeded), Err(exceeded)]);
        let exceeded = "events_per_second: the game exceeds the limit of 2 events per second; send the batch again in 5 s";
        let settings = QuotaSettings { game_events_per_second: 2, ..QuotaSettings::default() };
        check(settings, &[Ok(()), Ok(()), Err(exceeded)]);
    }

    #[test]
    fn a_sender_above_its_own_limit_uses_up_no_shared_limit() {
        let both = QuotaSettings {
            address_events_per_second: 1,
            game_events_per_second: 2,
            ..QuotaSettings::default()
        };
        let exceeded = "address_events_per_second: this address exceeds the limit of 1 events per second; send the batch again in 10 s";
        check(both, &[Ok(()), Err(exceeded), Ok(())]);
    }

    #[test]
    fn a_player_has_a_bucket_in_each_game() {
        let quota = Quota::new(QuotaSettings { player_events_per_second: 1, ..QuotaSettings::default() });
        let acquire = |game, player: &str| quota.acquire_for_player(game, player.as_bytes(), 0);
        assert!((0..10).all(|_| acquire(1, "ann") == Ok(())));
        assert_eq!(acquire(1, "ann"), Err(Reject::RateLimit));
        assert_eq!((acquire(1, "bo"), acquire(2, "ann"), acquire(1, "")), (Ok(()), Ok(()), Ok(())));
    }

    #[test]
    fn a_daily_quota_ends_at_midnight_utc() {
        let quota = Quota::new(QuotaSettings { events_per_day: 5, ..QuotaSettings::default() });
        assert_eq!(quota.spend(1, [5, 0], DAY_MS - 10_000, || [0, 0]).map(|used| used.is_some()), Ok(true));
        let exceeded = quota.spend(1, [1, 0], DAY_MS - 10_000, || [0, 0]).expect_err("it is used up");
        assert_eq!((exceeded.retry_s, exceeded.reject), (11, Reject::DailyQuota));
        assert_eq!(
            exceeded.to_string(),
            "the game exceeds the limit of 5 events per day; send the batch again in 11 s"
        );
    }

    #[test]
    fn events_that_were_not_written_are_refunded_if_they_were_charged() {
        assert_eq!(unused(Endpoint::Events, 7, Some(2)), 2);
        assert_eq!(unused(Endpoint::Events, 7, None), 7);
        assert_eq!(unused(Endpoint::Monitor, 7, None), 0);
    }
}
