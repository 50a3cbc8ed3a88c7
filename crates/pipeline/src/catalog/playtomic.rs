//! The keys of games that were built with Playtomic's SDKs.
//!
//! Such a game has a public key (a GUID in older SDKs) and a private one compiled in and cannot be changed. Neither is
//! a secret: both are in every client.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::error::invalid;
use super::{Catalog, CatalogError, Game, key_format};

/// The maximum length of a key in bytes.
const KEY_BYTES_MAX: usize = 100;

/// The keys that are compiled into a game.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Playtomic {
    /// Identifies the game in requests, beside its own public key; empty if there is none.
    #[serde(default)]
    pub key: String,
    /// Signs requests; empty if the derived key is used.
    #[serde(default)]
    pub private_key: String,
    /// Clients may read totals of views, plays and metrics.
    #[serde(default)]
    pub data_api: bool,
}

impl Playtomic {
    pub(super) fn is_default(&self) -> bool {
        *self == Playtomic::default()
    }
}

impl Catalog {
    /// Returns the game with this key. Case is ignored, because the key may be part of a host name.
    pub fn playtomic_game(&self, key: &str) -> Option<Arc<Game>> {
        self.current.load().playtomic.get(&key.to_ascii_lowercase()).cloned()
    }

    /// Returns the key that signs the game's requests: its own, or a derived one.
    pub fn playtomic_private_key(&self, game: &Game) -> String {
        if !game.playtomic.private_key.is_empty() {
            return game.playtomic.private_key.clone();
        }
        let derived = key_format::sha256_hex(&format!("{} playtomic {}", self.id_secret(), game.number));
        derived[..32].to_owned()
    }

    /// Sets the keys that are compiled into a game. A value of `None` stays unchanged.
    pub fn set_playtomic(
        &self,
        id: &str,
        key: Option<String>,
        private_key: Option<String>,
        data_api: Option<bool>,
    ) -> Result<Game, CatalogError> {
        check("key", key.as_deref())?;
        check("private_key", private_key.as_deref())?;
        self.update(|file| {
            let has_key = |game: &Game| key.as_deref().is_some_and(|key| game.has_playtomic_key(key));
            if file.games.iter().any(|game| game.id != id && has_key(game)) {
                return Err(invalid("key", "is used by another game".to_owned()));
            }
            let game = file.game_mut(id)?;
            let keys = &mut game.playtomic;
            keys.key = key.unwrap_or_else(|| std::mem::take(&mut keys.key));
            keys.private_key = private_key.unwrap_or_else(|| std::mem::take(&mut keys.private_key));
            keys.data_api = data_api.unwrap_or(keys.data_api);
            Ok(game.clone())
        })
    }
}

impl Game {
    /// Returns the keys by which requests of these SDKs may identify the game.
    pub(super) fn playtomic_keys(&self) -> impl Iterator<Item = &String> {
        let own = Some(&self.playtomic.key).filter(|key| !key.is_empty());
        std::iter::once(&self.public_key).chain(&self.old_public_keys).chain(own)
    }

    fn has_playtomic_key(&self, key: &str) -> bool {
        !key.is_empty() && self.playtomic_keys().any(|own| own.eq_ignore_ascii_case(key))
    }
}

fn check(field: &'static str, key: Option<&str>) -> Result<(), CatalogError> {
    let visible = |key: &str| key.len() <= KEY_BYTES_MAX && key.bytes().all(|byte| byte.is_ascii_graphic());
    if key.is_none_or(visible) {
        return Ok(());
    }
    Err(invalid(field, format!("must be up to {KEY_BYTES_MAX} visible ASCII characters")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> (tempfile::TempDir, Catalog) {
        let folder = tempfile::tempdir().expect("a folder");
        let (catalog, _) = Catalog::open(folder.path(), 100).expect("a new catalog");
        catalog.save().expect("it is written");
        (folder, catalog)
    }

    #[test]
    fn a_game_is_found_by_its_playtomic_key_and_by_its_public_key() {
        let (folder, catalog) = open();
        let demo = catalog.set_playtomic("demo", Some("7BF0867af8".into()), Some("old".into()), None);
        let demo = demo.expect("a free key");
        let again = Catalog::open(folder.path(), 200).expect("the same catalog").0;
        for key in ["7bf0867af8", "7BF0867AF8", &demo.public_key, &demo.public_key.to_lowercase()] {
            assert_eq!(again.playtomic_game(key).expect(key).number, demo.number);
        }
        assert!(again.playtomic_game("").is_none());
        assert_eq!(again.playtomic_private_key(&demo), "old");
    }

    #[test]
    fn a_game_without_a_private_key_gets_a_stable_derived_one() {
        let (folder, catalog) = open();
        let game = catalog.create_game("two", "Two", "UTC").expect("a game");
        let key = catalog.playtomic_private_key(&game);
        assert_eq!(key.len(), 32);
        assert_ne!(key, catalog.playtomic_private_key(&catalog.game("demo").expect("the first game")));
        let again = Catalog::open(folder.path(), 200).expect("the same catalog").0;
        assert_eq!(again.playtomic_private_key(&game), key);
    }

    #[test]
    fn two_games_cannot_have_the_same_key() {
        let (_folder, catalog) = open();
        let two = catalog.create_game("two", "Two", "UTC").expect("a game");
        let set = |id: &str, key: &str| catalog.set_playtomic(id, Some(key.to_owned()), None, None);
        assert!(set("demo", "a").is_ok());
        assert!(set("two", "A").is_err());
        assert!(set("demo", &two.public_key).is_err());
        assert!(set("demo", "").is_ok() && set("two", "").is_ok());
        assert!(set("demo", "a b").is_err() && set("missing", "a").is_err());
    }
}
