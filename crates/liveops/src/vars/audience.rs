//! Who asks, and who is meant: countries, platforms, versions, segments, and shares of all players.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Refusal;

/// Values that one list may name.
const LISTED_MAX: usize = 100;
/// Bytes of each, as of an event's dimension.
const LISTED_BYTES_MAX: usize = model::limits::DIMENSION_BYTES_MAX;
/// A percentage has three decimals: players are spread over so many places.
const PLACES: u64 = 100_000;
/// Bytes of a salt.
const SALT_BYTES_MAX: usize = 100;

/// Who asks. What is empty is not known, and matches no condition on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Who {
    /// The player's id.
    pub player: String,
    /// ISO 3166 two-letter code, upper case.
    pub country: String,
    /// As in events.
    pub platform: String,
    /// The game's version.
    pub version: String,
    /// What the game or a cohort counts the player to.
    pub segments: Vec<String>,
}

/// Who is meant: somebody who is in every list that is not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Audience {
    /// ISO 3166 two-letter codes, upper case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub country: Vec<String>,
    /// As in events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub platform: Vec<String>,
    /// The game's versions, each exactly as events name it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub version: Vec<String>,
    /// One of these is enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segment: Vec<String>,
}

impl Audience {
    /// Whether this one is meant.
    pub fn has(&self, who: &Who) -> bool {
        self.lists().has(who)
    }

    /// Refuses what could never match, or is too much. `at` goes before the fields' names.
    pub(crate) fn check(&self, at: &str) -> Result<(), Refusal> {
        self.lists().check(at)
    }

    fn lists(&self) -> Lists<'_> {
        Lists {
            country: &self.country,
            platform: &self.platform,
            version: &self.version,
            segment: &self.segment,
        }
    }
}

/// The lists of an [`Audience`] or a condition.
#[derive(Clone, Copy)]
pub(crate) struct Lists<'a> {
    pub(crate) country: &'a [String],
    pub(crate) platform: &'a [String],
    pub(crate) version: &'a [String],
    pub(crate) segment: &'a [String],
}

impl Lists<'_> {
    pub(crate) fn has(&self, who: &Who) -> bool {
        allows(self.country, &who.country)
            && allows(self.platform, &who.platform)
            && allows(self.version, &who.version)
            && (self.segment.is_empty() || who.segments.iter().any(|own| self.segment.contains(own)))
    }

    pub(crate) fn check(&self, at: &str) -> Result<(), Refusal> {
        let is_country =
            |text: &String| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_uppercase());
        if !self.country.iter().all(is_country) {
            return Err(Refusal::invalid(format!("{at}country"), "countries are two capital letters each"));
        }
        let lists = [
            ("country", self.country),
            ("platform", self.platform),
            ("version", self.version),
            ("segment", self.segment),
        ];
        lists.into_iter().try_for_each(|(name, list)| check_list(&format!("{at}{name}"), list))
    }
}

fn allows(list: &[String], own: &str) -> bool {
    list.is_empty() || (!own.is_empty() && list.iter().any(|listed| listed == own))
}

fn check_list(field: &str, list: &[String]) -> Result<(), Refusal> {
    if list.len() > LISTED_MAX {
        return Err(Refusal::invalid(field, format!("it names at most {LISTED_MAX}")));
    }
    if list.iter().any(|text| text.is_empty() || text.len() > LISTED_BYTES_MAX) {
        return Err(Refusal::invalid(field, format!("each has 1 to {LISTED_BYTES_MAX} bytes")));
    }
    Ok(())
}

/// A share of all players, the same ones every time.
///
/// Each player has a place from 0 to 99.999 in the order of a salt. Somebody is in the share when `from <= place < to`.
/// So raising `to` keeps everybody who was in, `0..50` and `50..100` under one salt are two halves, and shares under
/// different salts know nothing of each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Percent {
    /// 0 to 100.
    #[serde(default)]
    pub from: f64,
    /// 0 to 100, above `from`.
    pub to: f64,
    /// Whose order; without it, the variable's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub salt: Option<String>,
}

impl Percent {
    /// Whether the player is in the share. Nobody without an id is.
    pub fn has(&self, own_salt: &str, player: &str) -> bool {
        if player.is_empty() {
            return false;
        }
        let place = place(self.salt.as_deref().unwrap_or(own_salt), player);
        (places(self.from)..places(self.to)).contains(&place)
    }

    pub(crate) fn check(&self, at: &str) -> Result<(), Refusal> {
        let fault = |field: &str, why: &str| Err(Refusal::invalid(format!("{at}.{field}"), why));
        if !(0.0..=100.0).contains(&self.from) {
            return fault("from", "it is 0 to 100");
        }
        if !(0.0..=100.0).contains(&self.to) || places(self.to) <= places(self.from) {
            return fault("to", "it is 0 to 100 and above `from` by at least 0.001");
        }
        match &self.salt {
            Some(salt) if salt.is_empty() || salt.len() > SALT_BYTES_MAX => {
                fault("salt", "it has 1 to 100 bytes")
            }
            _ => Ok(()),
        }
    }
}

/// A player's place in the order of a salt, in thousandths of a percent.
///
/// The first eight bytes of SHA-256 over `salt`, a zero byte and the player's id, as a big-endian number, modulo
/// 100,000. Every other program can compute the same.
pub fn place(salt: &str, player: &str) -> u64 {
    let digest = Sha256::new().chain_update(salt).chain_update([0]).chain_update(player).finalize();
    let bytes = digest.first_chunk::<8>().expect("a digest has 32 bytes");
    u64::from_be_bytes(*bytes) % PLACES
}

fn places(percent: f64) -> u64 {
    (percent * (PLACES / 100) as f64).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAYERS: usize = 100_000;

    fn share(to: f64, salt: &str) -> Vec<bool> {
        let percent = Percent { from: 0.0, to, salt: None };
        (0..PLAYERS).map(|n| percent.has(salt, &format!("player-{n}"))).collect()
    }

    fn count(share: &[bool]) -> f64 {
        share.iter().filter(|is_in| **is_in).count() as f64
    }

    #[test]
    fn the_hash_is_the_documented_one() {
        // From `printf 'speed\0ann' | sha256sum`.
        assert_eq!(place("speed", "ann"), 83_158);
    }

    #[test]
    fn a_share_is_as_large_as_it_says() {
        for percent in [0.5, 1.0, 10.0, 33.333, 50.0, 99.9] {
            let (found, p) = (count(&share(percent, "a")) / PLAYERS as f64, percent / 100.0);
            // Five standard deviations of so many independent draws.
            let allowed = 5.0 * (p * (1.0 - p) / PLAYERS as f64).sqrt();
            assert!((found - p).abs() < allowed, "{percent}: {found}");
        }
        assert_eq!(count(&share(100.0, "a")), PLAYERS as f64);
    }

    #[test]
    fn a_growing_share_keeps_its_players() {
        let (ten, twenty) = (share(10.0, "a"), share(20.0, "a"));
        assert!(ten.iter().zip(&twenty).all(|(before, after)| !before || *after));
    }

    #[test]
    fn shares_of_different_salts_are_independent() {
        let (one, other) = (share(50.0, "a"), share(50.0, "b"));
        let both = one.iter().zip(&other).filter(|(one, other)| **one && **other).count() as f64;
        let deviation = (0.25 * 0.75 * PLAYERS as f64).sqrt();
        assert!((both - 0.25 * PLAYERS as f64).abs() < 5.0 * deviation, "{both}");
    }

    #[test]
    fn shares_side_by_side_divide_everybody() {
        let parts = [(0.0, 33.333), (33.333, 66.666), (66.666, 100.0)];
        for n in 0..10_000 {
            let player = format!("player-{n}");
            let inside =
                |part: &&(f64, f64)| Percent { from: part.0, to: part.1, salt: None }.has("a", &player);
            assert_eq!(parts.iter().filter(inside).count(), 1);
        }
    }

    #[test]
    fn nobody_in_particular_is_in_no_share() {
        assert!(!Percent { from: 0.0, to: 100.0, salt: None }.has("a", ""));
    }
}
