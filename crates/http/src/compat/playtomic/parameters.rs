//! Parameters that several actions share. Playtomic was less strict about them than this server.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde_json::Value;
use sha2::{Digest, Sha256};

use liveops::is_key;
use model::placeholder_id::is_placeholder_id;

use super::code::ReplyCode;
use super::reply::Reply;

/// The longest id of a player.
const PLAYER_BYTES_MAX: usize = 128;
/// The prefix of an id that is made of the name of a player.
const NAME_PREFIX: &str = "name:";
/// The rows of one page.
const PERPAGE_MAX: usize = 1_000;
const PAGE_MAX: usize = 1_000_000;
const DAY_MS: i64 = 24 * 3_600_000;
/// The ids of friends in one request.
const FRIENDS_MAX: usize = 1_000;

/// Text that may be sent as a string, a number or a boolean.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LenientText(pub(super) String);

/// Text by name, such as the fields of a score.
pub(super) type TextMap = BTreeMap<String, LenientText>;

impl<'de> Deserialize<'de> for LenientText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LenientText, D::Error> {
        struct TextVisitor;
        impl Visitor<'_> for TextVisitor {
            type Value = LenientText;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("text, a number or a boolean")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<LenientText, E> {
                Ok(LenientText(text.to_owned()))
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<LenientText, E> {
                Ok(LenientText(value.to_string()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<LenientText, E> {
                Ok(LenientText(number.to_string()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<LenientText, E> {
                Ok(LenientText(number.to_string()))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<LenientText, E> {
                Ok(LenientText(number.to_string()))
            }

            fn visit_unit<E: de::Error>(self) -> Result<LenientText, E> {
                Ok(LenientText::default())
            }
        }
        deserializer.deserialize_any(TextVisitor)
    }
}

/// Converts a map of text to strings.
pub(super) fn to_strings(texts: TextMap) -> BTreeMap<String, String> {
    texts.into_iter().map(|(name, text)| (name, text.0)).collect()
}

/// Returns the live-ops key for a name: the name itself if it is a valid key, otherwise its valid characters and a digest,
/// so that different names get different keys.
pub(super) fn key_of(name: &str) -> String {
    if is_key(name) {
        return name.to_owned();
    }
    let allowed = |char: char| if char.is_ascii_alphanumeric() { char } else { '_' };
    let start: String = name.chars().take(40).map(allowed).collect();
    let digest = Sha256::digest(name);
    format!("{start}-{:08x}", u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]))
}

/// Returns the id of a player: the given id or, without one, an id made of the name and the source.
pub(super) fn player_id(id: Option<&LenientText>, name: &str, source: Option<&str>) -> String {
    if let Some(LenientText(id)) = id.filter(|id| !is_placeholder_id(&id.0)) {
        return id.clone();
    }
    let source = source.filter(|source| !source.is_empty());
    let source = source.map(|source| format!("@{source}")).unwrap_or_default();
    let id = format!("{NAME_PREFIX}{name}{source}");
    if id.len() <= PLAYER_BYTES_MAX { id } else { format!("{NAME_PREFIX}{}", key_of(&id)) }
}

/// Returns the id as it appears in replies: none if it is made of a name.
pub(super) fn public_id(id: &str) -> Option<&str> {
    (!id.starts_with(NAME_PREFIX)).then_some(id)
}

/// Normalizes the source of a game as event ingestion does; empty if there is none.
pub(super) fn source(source: Option<&str>) -> String {
    source.and_then(decode::playtomic::source).unwrap_or_default()
}

/// Returns the ids of a list of friends. Fails if the list is too long.
pub(super) fn friends(list: Vec<LenientText>) -> Result<Vec<String>, Reply> {
    if list.len() > FRIENDS_MAX {
        let detail = format!("`friendslist` must have at most {FRIENDS_MAX} ids");
        return Err(Reply::error_with(ReplyCode::InvalidRequest, &detail));
    }
    Ok(list.into_iter().map(|LenientText(id)| id).collect())
}

/// The page of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paging {
    /// The number of the page, from 1.
    pub(super) page: usize,
    pub(super) perpage: usize,
}

impl Paging {
    /// Validates the parameters. The default is the first page of 20 rows.
    pub(super) fn new(page: Option<usize>, perpage: Option<usize>) -> Result<Paging, Reply> {
        let (page, perpage) = (page.unwrap_or(1).max(1), perpage.unwrap_or(20));
        if (1..=PERPAGE_MAX).contains(&perpage) && page <= PAGE_MAX {
            return Ok(Paging { page, perpage });
        }
        let detail = format!("`perpage` must be between 1 and {PERPAGE_MAX}, `page` at most {PAGE_MAX}");
        Err(Reply::error_with(ReplyCode::InvalidRequest, &detail))
    }

    /// Returns the rows of the page.
    pub(super) fn slice(self, list: Vec<Value>) -> Value {
        list.into_iter().skip((self.page - 1) * self.perpage).take(self.perpage).collect()
    }
}

/// Returns the start of the rolling window of a mode in milliseconds since 1970.
pub(super) fn since_ms(mode: Option<&str>, now_ms: i64) -> Result<i64, Reply> {
    match mode.unwrap_or("alltime").to_ascii_lowercase().as_str() {
        "alltime" => Ok(i64::MIN),
        "today" => Ok(now_ms - DAY_MS),
        "last7days" => Ok(now_ms - 7 * DAY_MS),
        "last30days" => Ok(now_ms - 30 * DAY_MS),
        mode => Err(Reply::error_with(ReplyCode::InvalidRequest, &format!("unknown mode `{mode}`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_names_get_different_keys() {
        assert_eq!(key_of("scores"), "scores");
        assert_eq!(key_of("High Scores!"), "High_Scores_-aa9a9ac3");
        assert_ne!(key_of("a b"), key_of("a_b"));
        assert_ne!(key_of("a b"), key_of("a/b"));
        assert!(is_key(&key_of("")) && is_key(&key_of(&"é".repeat(500))));
    }

    #[test]
    fn id_of_a_player_without_one_is_made_of_the_name() {
        let id = |id: Option<&str>| {
            player_id(id.map(|id| LenientText(id.to_owned())).as_ref(), "Bo", Some("kong"))
        };
        assert_eq!(
            (id(Some("7")), id(Some("0")), id(None)),
            ("7".into(), "name:Bo@kong".into(), "name:Bo@kong".into())
        );
        assert!(player_id(None, &"x".repeat(500), None).len() <= PLAYER_BYTES_MAX);
        assert_eq!((public_id("7"), public_id("name:Bo")), (Some("7"), None));
    }
}
