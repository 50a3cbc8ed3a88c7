//! What the old service let games say more freely than this one does, and how it told times.

use std::collections::BTreeMap;
use std::fmt;

use liveops::is_key;
use model::placeholder_id::is_placeholder_id;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::code::{Code, Reply};
use pipeline::time::rfc3339;

/// A player's id.
const PLAYER_BYTES_MAX: usize = 128;
/// Stands before the name of a player who has no id.
const NAMED: &str = "name:";
/// Rows of one page.
const PERPAGE_MAX: usize = 1_000;
const PAGE_MAX: usize = 1_000_000;
const DAY_MS: i64 = 24 * 3_600_000;
/// Ids of friends in one request.
const FRIENDS_MAX: usize = 1_000;

/// A text that may have come as a number or as true or false.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Text(pub(super) String);

/// Texts by name, such as the fields of a score.
pub(super) type Texts = BTreeMap<String, Text>;

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        struct AsText;
        impl Visitor<'_> for AsText {
            type Value = Text;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a text or a number")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }

            fn visit_bool<E: de::Error>(self, it: bool) -> Result<Text, E> {
                Ok(Text(it.to_string()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Text, E> {
                Ok(Text::default())
            }
        }
        deserializer.deserialize_any(AsText)
    }
}

/// The texts as live-ops take them.
pub(super) fn plain(texts: Texts) -> BTreeMap<String, String> {
    texts.into_iter().map(|(name, text)| (name, text.0)).collect()
}

/// The key under which something of this name is kept: the name itself where it can be one, otherwise what is left of it
/// and a digest, so that different names stay different.
pub(super) fn key_of(name: &str) -> String {
    if is_key(name) {
        return name.to_owned();
    }
    let plain = |char: char| if char.is_ascii_alphanumeric() { char } else { '_' };
    let start: String = name.chars().take(40).map(plain).collect();
    let digest = Sha256::digest(name);
    format!("{start}-{:08x}", u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]))
}

/// The id of a player: the game's own or, without one, the name, and for a site of the game the source.
pub(super) fn player_id(id: Option<&Text>, name: &str, source: Option<&str>) -> String {
    if let Some(Text(id)) = id.filter(|id| !is_placeholder_id(&id.0)) {
        return id.clone();
    }
    let source = source.filter(|source| !source.is_empty());
    let source = source.map(|source| format!("@{source}")).unwrap_or_default();
    let named = format!("{NAMED}{name}{source}");
    if named.len() <= PLAYER_BYTES_MAX { named } else { format!("{NAMED}{}", key_of(&named)) }
}

/// Where a game is played, as events say it; empty for nowhere in particular.
pub(super) fn source(source: Option<&str>) -> String {
    source.and_then(decode::playtomic::source).unwrap_or_default()
}

/// The id as games are told it: those made of a name are none.
pub(super) fn told_id(id: &str) -> Option<&str> {
    (!id.starts_with(NAMED)).then_some(id)
}

/// The ids of a list of friends, bounded.
pub(super) fn friends(list: Vec<Text>) -> Result<Vec<String>, Reply> {
    if list.len() > FRIENDS_MAX {
        let detail = format!("`friendslist` has at most {FRIENDS_MAX} ids");
        return Err(Reply::fails_because(Code::InvalidRequest, &detail));
    }
    Ok(list.into_iter().map(|Text(id)| id).collect())
}

/// A whole number without a point.
pub(super) fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 { Value::from(value as i64) } else { Value::from(value) }
}

/// Which page, of how many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paging {
    /// From 1 on.
    pub(super) page: usize,
    pub(super) perpage: usize,
}

impl Paging {
    /// Without them: the first page of 20.
    pub(super) fn of(page: Option<usize>, perpage: Option<usize>) -> Result<Paging, Reply> {
        let (page, perpage) = (page.unwrap_or(1).max(1), perpage.unwrap_or(20));
        if (1..=PERPAGE_MAX).contains(&perpage) && page <= PAGE_MAX {
            return Ok(Paging { page, perpage });
        }
        let detail = format!("`perpage` is 1 to {PERPAGE_MAX}, `page` up to {PAGE_MAX}");
        Err(Reply::fails_because(Code::InvalidRequest, &detail))
    }

    /// The page of a list.
    pub(super) fn cut(self, list: Vec<Value>) -> Value {
        list.into_iter().skip((self.page - 1) * self.perpage).take(self.perpage).collect()
    }
}

/// What a mode with a window, which rolls, begins with.
pub(super) fn since_ms(mode: Option<&str>, now_ms: i64) -> Result<i64, Reply> {
    match mode.unwrap_or("alltime").to_ascii_lowercase().as_str() {
        "alltime" => Ok(i64::MIN),
        "today" => Ok(now_ms - DAY_MS),
        "last7days" => Ok(now_ms - 7 * DAY_MS),
        "last30days" => Ok(now_ms - 30 * DAY_MS),
        mode => Err(Reply::fails_because(Code::InvalidRequest, &format!("there is no mode `{mode}`"))),
    }
}

/// How long ago something was, as games show it.
pub(super) fn ago(at_ms: i64, now_ms: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    match (now_ms - at_ms) / 1000 {
        ..30 => "just now".to_owned(),
        seconds @ 30..MINUTE => format!("{seconds} seconds ago"),
        MINUTE..120 => "a minute ago".to_owned(),
        seconds @ 120..HOUR => format!("{} minutes ago", seconds / MINUTE),
        HOUR..7_200 => "1 hour ago".to_owned(),
        seconds @ 7_200..DAY => format!("{} hours ago", seconds / HOUR),
        DAY..172_800 => "yesterday".to_owned(),
        _ => rfc3339(at_ms).chars().take(10).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_as_the_old_service_told_it() {
        const NOW: i64 = 1_800_000_000_000;
        for (seconds, expected) in [
            (-5, "just now"),
            (29, "just now"),
            (30, "30 seconds ago"),
            (60, "a minute ago"),
            (7 * 60 + 59, "7 minutes ago"),
            (3_600, "1 hour ago"),
            (7_200, "2 hours ago"),
            (86_400, "yesterday"),
            (172_800, "2027-01-13"),
        ] {
            assert_eq!(ago(NOW - seconds * 1000, NOW), expected, "{seconds}");
        }
    }

    #[test]
    fn names_that_are_no_keys_stay_different() {
        assert_eq!(key_of("scores"), "scores");
        assert_eq!(key_of("High Scores!"), "High_Scores_-aa9a9ac3");
        assert_ne!(key_of("a b"), key_of("a_b"));
        assert_ne!(key_of("a b"), key_of("a/b"));
        assert!(is_key(&key_of("")) && is_key(&key_of(&"é".repeat(500))));
    }

    #[test]
    fn a_player_without_an_id_is_the_name() {
        let id = |id: Option<&str>| player_id(id.map(|id| Text(id.to_owned())).as_ref(), "Bo", Some("kong"));
        assert_eq!(
            (id(Some("7")), id(Some("0")), id(None)),
            ("7".into(), "name:Bo@kong".into(), "name:Bo@kong".into())
        );
        assert!(player_id(None, &"x".repeat(500), None).len() <= PLAYER_BYTES_MAX);
        assert_eq!((told_id("7"), told_id("name:Bo")), (Some("7"), None));
    }
}
