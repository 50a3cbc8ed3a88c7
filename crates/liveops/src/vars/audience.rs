//! Viewers and audiences: countries, platforms, versions, segments, and percentages of players.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Refusal;

/// Values in one list.
const LISTED_MAX: usize = 100;
/// Bytes of each value, as of an event's dimension.
const LISTED_BYTES_MAX: usize = model::limits::DIMENSION_BYTES_MAX;
/// Percentages have three decimals, so players are spread over this many buckets.
const BUCKETS: u64 = 100_000;
/// Bytes of a bucketing seed.
const SALT_BYTES_MAX: usize = 100;

/// The viewer for whom variables are evaluated. Fields that are not known are empty and match no condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct VarsViewer {
    /// The player's id.
    pub player: String,
    /// ISO 3166 two-letter code, upper case.
    pub country: String,
    /// The platform, as in events.
    pub platform: String,
    /// The game's version.
    pub version: String,
    /// The segments that the game assigns to the player.
    pub segments: Vec<String>,
    /// The cohorts that the player belongs to, among those that audiences name.
    pub cohorts: Vec<String>,
}

/// An audience: viewers who match every list that is not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Audience {
    /// ISO 3166 two-letter codes, upper case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub country: Vec<String>,
    /// Platforms, as in events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub platform: Vec<String>,
    /// Versions of the game, exactly as events name them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub version: Vec<String>,
    /// Segments, of which one must match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segment: Vec<String>,
    /// Cohorts, of which one must contain the player.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cohort: Vec<String>,
}

impl Audience {
    /// Returns true if the viewer belongs to the audience.
    pub fn matches(&self, viewer: &VarsViewer) -> bool {
        self.lists().matches(viewer)
    }

    /// Refuses invalid lists. `path` is prefixed to field names.
    pub(crate) fn check(&self, path: &str) -> Result<(), Refusal> {
        self.lists().check(path)
    }

    fn lists(&self) -> AudienceLists<'_> {
        AudienceLists {
            country: &self.country,
            platform: &self.platform,
            version: &self.version,
            segment: &self.segment,
            cohort: &self.cohort,
        }
    }
}

/// The lists of an [`Audience`] or a condition.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct AudienceLists<'a> {
    pub(crate) country: &'a [String],
    pub(crate) platform: &'a [String],
    pub(crate) version: &'a [String],
    pub(crate) segment: &'a [String],
    pub(crate) cohort: &'a [String],
}

impl AudienceLists<'_> {
    pub(crate) fn matches(&self, viewer: &VarsViewer) -> bool {
        allows(self.country, &viewer.country)
            && allows(self.platform, &viewer.platform)
            && allows(self.version, &viewer.version)
            && (self.segment.is_empty() || viewer.segments.iter().any(|own| self.segment.contains(own)))
            && (self.cohort.is_empty() || viewer.cohorts.iter().any(|own| self.cohort.contains(own)))
    }

    pub(crate) fn check(&self, path: &str) -> Result<(), Refusal> {
        let is_country =
            |text: &String| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_uppercase());
        if !self.country.iter().all(is_country) {
            return Err(Refusal::invalid(
                format!("{path}country"),
                "countries must be two upper-case letters each",
            ));
        }
        let lists = [
            ("country", self.country),
            ("platform", self.platform),
            ("version", self.version),
            ("segment", self.segment),
            ("cohort", self.cohort),
        ];
        lists.into_iter().try_for_each(|(name, list)| check_list(&format!("{path}{name}"), list))
    }
}

fn allows(list: &[String], own: &str) -> bool {
    list.is_empty() || (!own.is_empty() && list.iter().any(|listed| listed == own))
}

fn check_list(field: &str, list: &[String]) -> Result<(), Refusal> {
    if list.len() > LISTED_MAX {
        return Err(Refusal::invalid(field, format!("must have at most {LISTED_MAX} entries")));
    }
    if list.iter().any(|text| text.is_empty() || text.len() > LISTED_BYTES_MAX) {
        return Err(Refusal::invalid(field, format!("each entry must have 1 to {LISTED_BYTES_MAX} bytes")));
    }
    Ok(())
}

/// A stable share of all players.
///
/// The bucketing seed assigns each player a bucket from 0 to 99.999. A player is in the share if `from <= bucket < to`.
/// So raising `to` keeps all players who were in the share, `0..50` and `50..100` with the same seed are two halves,
/// and shares with different seeds are independent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Percent {
    /// 0 to 100.
    #[serde(default)]
    pub from: f64,
    /// 0 to 100, above `from`.
    pub to: f64,
    /// The bucketing seed; by default the variable's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub salt: Option<String>,
}

impl Percent {
    /// Returns true if the player is in the share. A player without an id never is.
    pub fn contains(&self, own_salt: &str, player: &str) -> bool {
        if player.is_empty() {
            return false;
        }
        let bucket = bucket(self.salt.as_deref().unwrap_or(own_salt), player);
        (buckets(self.from)..buckets(self.to)).contains(&bucket)
    }

    /// Returns the buckets of the share.
    pub(crate) fn buckets(&self) -> std::ops::Range<usize> {
        buckets(self.from) as usize..buckets(self.to) as usize
    }

    pub(crate) fn check(&self, path: &str) -> Result<(), Refusal> {
        let error = |field: &str, message: &str| Err(Refusal::invalid(format!("{path}.{field}"), message));
        if !(0.0..=100.0).contains(&self.from) {
            return error("from", "must be between 0 and 100");
        }
        if !(0.0..=100.0).contains(&self.to) || buckets(self.to) <= buckets(self.from) {
            return error("to", "must be between 0 and 100, and at least 0.001 greater than `from`");
        }
        match &self.salt {
            Some(salt) if salt.is_empty() || salt.len() > SALT_BYTES_MAX => {
                error("salt", "must have 1 to 100 bytes")
            }
            _ => Ok(()),
        }
    }
}

/// Returns a player's bucket in thousandths of a percent.
///
/// It is the first eight bytes of SHA-256 over the bucketing seed, a zero byte and the player's id, as a big-endian
/// number, modulo 100,000. Any program can compute it.
pub fn bucket(salt: &str, player: &str) -> u64 {
    let digest = Sha256::new().chain_update(salt).chain_update([0]).chain_update(player).finalize();
    let bytes = digest.first_chunk::<8>().expect("a digest has 32 bytes");
    u64::from_be_bytes(*bytes) % BUCKETS
}

fn buckets(percent: f64) -> u64 {
    (percent * (BUCKETS / 100) as f64).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAYERS: usize = 100_000;

    fn share(to: f64, salt: &str) -> Vec<bool> {
        let percent = Percent { from: 0.0, to, salt: None };
        (0..PLAYERS).map(|n| percent.contains(salt, &format!("player-{n}"))).collect()
    }

    fn count(share: &[bool]) -> f64 {
        share.iter().filter(|is_in| **is_in).count() as f64
    }

    #[test]
    fn bucket_is_the_documented_hash() {
        // From `printf 'speed\0ann' | sha256sum`.
        assert_eq!(bucket("speed", "ann"), 83_158);
    }

    #[test]
    fn share_has_the_stated_size() {
        for percent in [0.5, 1.0, 10.0, 33.333, 50.0, 99.9] {
            let (found, p) = (count(&share(percent, "a")) / PLAYERS as f64, percent / 100.0);
            // Five standard deviations of this many independent draws.
            let allowed = 5.0 * (p * (1.0 - p) / PLAYERS as f64).sqrt();
            assert!((found - p).abs() < allowed, "{percent}: {found}");
        }
        assert_eq!(count(&share(100.0, "a")), PLAYERS as f64);
    }

    #[test]
    fn growing_share_keeps_its_players() {
        let (ten, twenty) = (share(10.0, "a"), share(20.0, "a"));
        assert!(ten.iter().zip(&twenty).all(|(before, after)| !before || *after));
    }

    #[test]
    fn shares_with_different_seeds_are_independent() {
        let (one, other) = (share(50.0, "a"), share(50.0, "b"));
        let both = one.iter().zip(&other).filter(|(one, other)| **one && **other).count() as f64;
        let deviation = (0.25 * 0.75 * PLAYERS as f64).sqrt();
        assert!((both - 0.25 * PLAYERS as f64).abs() < 5.0 * deviation, "{both}");
    }

    #[test]
    fn adjacent_shares_cover_each_player_once() {
        let parts = [(0.0, 33.333), (33.333, 66.666), (66.666, 100.0)];
        for n in 0..10_000 {
            let player = format!("player-{n}");
            let inside =
                |part: &&(f64, f64)| Percent { from: part.0, to: part.1, salt: None }.contains("a", &player);
            assert_eq!(parts.iter().filter(inside).count(), 1);
        }
    }

    #[test]
    fn player_without_an_id_is_in_no_share() {
        assert!(!Percent { from: 0.0, to: 100.0, salt: None }.contains("a", ""));
    }
}
