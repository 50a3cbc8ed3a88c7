//! Rate limits of live-ops writes that are made with a public key, which every client has.
//!
//! Secret keys and signed-in people are not limited: they are trusted to write in bulk.

use std::net::IpAddr;

use crate::catalog::address_group;
use crate::token_buckets::TokenBuckets;

/// Seconds of the rate of writes that an idle sender may make at once.
const WRITES_BURST_S: f64 = 10.0;
/// The same for creations. Many players behind one address may start at the same time.
const CREATIONS_BURST_S: f64 = 300.0;
const DAY_S: f64 = 86_400.0;

/// The limits of writes with a public key. 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandQuotaSettings {
    /// Writes per second with one public key.
    pub key_writes_per_second: u64,
    /// Writes per second from one address (IPv6: one /64).
    pub address_writes_per_second: u64,
    /// Writes per second of one player from one address, or signed in one player session.
    pub player_writes_per_second: u64,
    /// Player sessions, boards and levels that one address may create per minute.
    pub address_creations_per_minute: u64,
    /// Boards that one address may create per day.
    pub address_boards_per_day: u64,
}

impl Default for CommandQuotaSettings {
    fn default() -> CommandQuotaSettings {
        CommandQuotaSettings {
            key_writes_per_second: 1_000,
            address_writes_per_second: 50,
            player_writes_per_second: 10,
            address_creations_per_minute: 60,
            address_boards_per_day: 250,
        }
    }
}

/// A write with a public key.
#[derive(Clone, Copy, Debug)]
pub struct PublicWrite<'a> {
    /// The game's number.
    pub game: u32,
    /// The number of the key.
    pub key: u64,
    /// The client's address, if it is known.
    pub address: Option<IpAddr>,
    /// The player who writes, if the write names one.
    pub player: Option<&'a str>,
    /// The player session that signed the write, if one did.
    pub session: Option<&'a str>,
    /// True if the write creates a player session, a board or a level.
    pub is_creation: bool,
    /// True if the write creates a board.
    pub is_board_creation: bool,
}

/// A write exceeds a limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{sender} exceeds the limit of {max} {unit}; send the request again in {retry_s} s")]
pub struct CommandQuotaExceeded {
    /// The name of the setting.
    pub quota: &'static str,
    sender: &'static str,
    unit: &'static str,
    max: u64,
    /// Seconds until the write is within the limit.
    pub retry_s: u32,
}

/// The usage of all limits.
pub struct CommandQuota {
    settings: CommandQuotaSettings,
    key: TokenBuckets,
    address: TokenBuckets,
    player: TokenBuckets,
    creations: TokenBuckets,
    boards: TokenBuckets,
}

/// The writer whose rate is limited. A client can send any player's id, so without a signature the id is one of its
/// address: it limits no writes from other addresses.
#[derive(Hash)]
enum Writer<'a> {
    Session(&'a str),
    Player(&'a str, Option<IpAddr>),
}

impl CommandQuota {
    /// Creates limits of which nothing is used.
    pub fn new(settings: CommandQuotaSettings) -> CommandQuota {
        let writes = |per_second: u64| TokenBuckets::new(per_second as f64, WRITES_BURST_S);
        CommandQuota {
            settings,
            key: writes(settings.key_writes_per_second),
            address: writes(settings.address_writes_per_second),
            player: writes(settings.player_writes_per_second),
            creations: TokenBuckets::new(
                settings.address_creations_per_minute as f64 / 60.0,
                CREATIONS_BURST_S,
            ),
            boards: TokenBuckets::new(settings.address_boards_per_day as f64 / DAY_S, DAY_S),
        }
    }

    /// Acquires one write. The narrowest limit is used first, so that a sender above its own limit does not use up what
    /// others share. An address above its limit uses nothing else.
    pub fn acquire(&self, write: &PublicWrite<'_>, now_ms: i64) -> Result<(), CommandQuotaExceeded> {
        let settings = &self.settings;
        let exceeded = |quota, sender, unit, max| {
            move |retry_s| CommandQuotaExceeded { quota, sender, unit, max, retry_s }
        };
        let address = write.address.map(address_group);
        let address_exceeded = exceeded(
            "address_writes_per_second",
            "this address",
            "writes per second",
            settings.address_writes_per_second,
        );
        if let Some(address) = address {
            self.address.check(address, 1, now_ms).map_err(&address_exceeded)?;
        }
        let player = write.player.map(|player| Writer::Player(player, address));
        if let Some(writer) = write.session.map(Writer::Session).or(player) {
            let max = settings.player_writes_per_second;
            let acquired = self.player.acquire((write.game, writer), 1, now_ms);
            let quota = "player_writes_per_second";
            acquired.map_err(exceeded(quota, "this player", "writes per second", max))?;
        }
        if let Some(address) = address {
            self.address.acquire(address, 1, now_ms).map_err(address_exceeded)?;
            if write.is_board_creation {
                let max = settings.address_boards_per_day;
                let acquired = self.boards.acquire((write.game, address), 1, now_ms);
                let (quota, unit) = ("address_boards_per_day", "new boards per day");
                acquired.map_err(exceeded(quota, "this address", unit, max))?;
            }
            if write.is_creation {
                let max = settings.address_creations_per_minute;
                let acquired = self.creations.acquire(address, 1, now_ms);
                let (quota, unit) = ("address_creations_per_minute", "new objects per minute");
                acquired.map_err(exceeded(quota, "this address", unit, max))?;
            }
        }
        let max = settings.key_writes_per_second;
        let acquired = self.key.acquire((write.game, write.key), 1, now_ms);
        acquired.map_err(exceeded("key_writes_per_second", "this key", "writes per second", max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFF: CommandQuotaSettings = CommandQuotaSettings {
        key_writes_per_second: 0,
        address_writes_per_second: 0,
        player_writes_per_second: 0,
        address_creations_per_minute: 0,
        address_boards_per_day: 0,
    };

    fn write<'a>(address: &str, player: &'a str, is_creation: bool) -> PublicWrite<'a> {
        let (address, player) = (address.parse().ok(), Some(player));
        let is_board_creation = false;
        PublicWrite { game: 1, key: 5, address, player, session: None, is_creation, is_board_creation }
    }

    /// Makes a write until it is rejected; returns how many were accepted, and the rejection.
    fn use_up(quota: &CommandQuota, write: PublicWrite<'_>) -> (usize, String) {
        for accepted in 0..100_000 {
            if let Err(exceeded) = quota.acquire(&write, 0) {
                return (accepted, format!("{}: {exceeded}", exceeded.quota));
            }
        }
        (usize::MAX, String::new())
    }

    #[test]
    fn each_sender_has_limits_of_its_own() {
        let check = |settings: CommandQuotaSettings, accepted: usize, message: &str| {
            let quota = CommandQuota::new(settings);
            let found = use_up(&quota, write("2001:db8::1", "ann", true));
            assert_eq!(found, (accepted, message.to_owned()));
            quota
        };
        let again = "send the request again in";
        let settings = CommandQuotaSettings { player_writes_per_second: 2, ..OFF };
        let message = format!(
            "player_writes_per_second: this player exceeds the limit of 2 writes per second; {again} 1 s"
        );
        let quota = check(settings, 20, &message);
        assert_eq!(quota.acquire(&write("2001:db8::1", "bo", true), 0), Ok(()));
        let settings = CommandQuotaSettings { address_writes_per_second: 3, ..OFF };
        let message = format!(
            "address_writes_per_second: this address exceeds the limit of 3 writes per second; {again} 1 s"
        );
        let quota = check(settings, 30, &message);
        assert!(quota.acquire(&write("2001:db8::2", "bo", false), 0).is_err(), "the same /64");
        assert_eq!(quota.acquire(&write("203.0.113.7", "ann", true), 0), Ok(()));
        let settings = CommandQuotaSettings { address_creations_per_minute: 6, ..OFF };
        let message = format!(
            "address_creations_per_minute: this address exceeds the limit of 6 new objects per minute; {again} 10 s"
        );
        let quota = check(settings, 30, &message);
        assert_eq!(quota.acquire(&write("2001:db8::1", "ann", false), 0), Ok(()));
        assert_eq!(quota.acquire(&write("2001:db8::1", "ann", true), 10_000), Ok(()));
        let settings = CommandQuotaSettings { key_writes_per_second: 4, ..OFF };
        let message =
            format!("key_writes_per_second: this key exceeds the limit of 4 writes per second; {again} 1 s");
        let quota = check(settings, 40, &message);
        assert!(quota.acquire(&write("203.0.113.7", "bo", false), 0).is_err());
    }

    #[test]
    fn writes_under_the_name_of_a_player_do_not_limit_those_of_the_player() {
        let quota = CommandQuota::new(CommandQuotaSettings::default());
        let forged = write("203.0.113.7", "ann", false);
        assert_eq!(use_up(&quota, forged).0, 100);
        assert_eq!(quota.acquire(&write("203.0.113.8", "ann", false), 0), Ok(()));
        let signed = PublicWrite { session: Some("s"), ..forged };
        assert_eq!(use_up(&quota, signed).0, 100, "a session has a limit of its own");
        assert!(quota.acquire(&PublicWrite { address: None, ..signed }, 0).is_err(), "at any address");
        assert_eq!(quota.acquire(&PublicWrite { session: Some("t"), ..forged }, 0), Ok(()));
    }

    #[test]
    fn address_above_its_limit_uses_no_limit_of_players() {
        let quota =
            CommandQuota::new(CommandQuotaSettings { address_writes_per_second: 1, ..Default::default() });
        (0..10).for_each(|_| quota.acquire(&write("203.0.113.7", "ann", false), 0).expect("it is the burst"));
        let rejected = use_up(&quota, write("203.0.113.7", "bo", false));
        assert!(rejected.0 == 0 && rejected.1.starts_with("address_writes_per_second"), "{rejected:?}");
        (0..200).for_each(|_| assert!(quota.acquire(&write("203.0.113.7", "bo", false), 0).is_err()));
        let free = (0..10).filter(|_| quota.acquire(&write("203.0.113.7", "bo", false), 10_000).is_ok());
        assert_eq!(free.count(), 10);
    }

    #[test]
    fn boards_of_an_address_are_limited_per_day() {
        let quota = CommandQuota::new(CommandQuotaSettings { address_boards_per_day: 24, ..OFF });
        let board = |address| PublicWrite { is_board_creation: true, ..write(address, "ann", true) };
        let (accepted, message) = use_up(&quota, board("203.0.113.7"));
        assert_eq!(accepted, 24);
        assert_eq!(
            message,
            "address_boards_per_day: this address exceeds the limit of 24 new boards per day; \
             send the request again in 3600 s"
        );
        assert_eq!(quota.acquire(&write("203.0.113.7", "ann", true), 0), Ok(()), "no board");
        assert_eq!(quota.acquire(&board("203.0.113.8"), 0), Ok(()));
        assert_eq!(quota.acquire(&board("203.0.113.7"), 3_600_000), Ok(()));
        assert!(quota.acquire(&board("203.0.113.7"), 3_600_000).is_err());
    }

    #[test]
    fn without_limits_every_write_passes() {
        assert_eq!(use_up(&CommandQuota::new(OFF), write("203.0.113.7", "ann", true)).0, usize::MAX);
    }

    #[test]
    fn player_above_its_limit_does_not_use_up_that_of_its_address() {
        let settings = CommandQuotaSettings::default();
        let quota = CommandQuota::new(settings);
        let (accepted, message) = use_up(&quota, write("203.0.113.7", "ann", false));
        assert_eq!((accepted, message.starts_with("player_writes_per_second")), (100, true));
        let players: Vec<String> = (0..1_000).map(|number| number.to_string()).collect();
        let passes = |player: &&String| quota.acquire(&write("203.0.113.7", player, false), 0).is_ok();
        assert_eq!(players.iter().filter(passes).count(), 400);
        assert_eq!(quota.acquire(&write("203.0.113.8", "ann", false), 20_000), Ok(()));
    }
}
