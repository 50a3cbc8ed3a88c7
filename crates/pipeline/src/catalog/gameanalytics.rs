//! The keys of games that were built with GameAnalytics' SDKs: a key and a secret key of fixed lengths.
//!
//! Neither is really a secret: both are in every client.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::error::invalid;
use super::{Catalog, CatalogError, Game, key_format};

/// The lengths of a game's key and of its secret key; the SDKs accept no others.
const KEY_LENGTHS: [(&str, usize); 2] = [("key", 32), ("secret_key", 40)];

/// The keys that are compiled into a game. An empty key stands for a derived one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GameAnalytics {
    /// Identifies the game.
    #[serde(default)]
    pub key: String,
    /// Signs requests.
    #[serde(default)]
    pub secret_key: String,
}

impl GameAnalytics {
    pub(super) fn is_default(&self) -> bool {
        *self == GameAnalytics::default()
    }

    /// Returns both keys of a game: its own, or those derived from the installation's secret.
    pub(super) fn of(game: &Game, secret: &str) -> GameAnalytics {
        let own_or_derived = |own: &str, (name, length): (&str, usize)| match own {
            "" => key_format::sha256_hex(&format!("{secret} gameanalytics {name} {}", game.number))[..length]
                .to_owned(),
            own => own.to_owned(),
        };
        let [key, secret_key] = KEY_LENGTHS;
        GameAnalytics {
            key: own_or_derived(&game.gameanalytics.key, key),
            secret_key: own_or_derived(&game.gameanalytics.secret_key, secret_key),
        }
    }
}

impl Catalog {
    /// Returns the game with this key.
    pub fn gameanalytics_game(&self, key: &str) -> Option<Arc<Game>> {
        self.current.load().gameanalytics.get(key).cloned()
    }

    /// Returns both keys of a game, its own or derived ones.
    pub fn gameanalytics_keys(&self, game: &Game) -> GameAnalytics {
        GameAnalytics::of(game, &self.id_secret())
    }

    /// Sets the keys that are compiled into a game. A value of `None` stays unchanged; an empty one selects the derived
    /// key.
    pub fn set_gameanalytics(
        &self,
        id: &str,
        key: Option<String>,
        secret_key: Option<String>,
    ) -> Result<Game, CatalogError> {
        for ((field, length), text) in KEY_LENGTHS.into_iter().zip([&key, &secret_key]) {
            let is_valid = |text: &String| {
                text.is_empty()
                    || text.len() == length && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
            };
            if !text.as_ref().is_none_or(is_valid) {
                return Err(invalid(field, format!("must be {length} letters and digits, or empty")));
            }
        }
        let other = key.as_deref().and_then(|key| self.gameanalytics_game(key));
        if other.is_some_and(|other| other.id != id) {
            return Err(invalid("key", "is used by another game".to_owned()));
        }
        self.update(|file| {
            let game = file.game_mut(id)?;
            let keys = &mut game.gameanalytics;
            keys.key = key.unwrap_or_else(|| std::mem::take(&mut keys.key));
            keys.secret_key = secret_key.unwrap_or_else(|| std::mem::take(&mut keys.secret_key));
            Ok(game.clone())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_game_has_derived_keys_until_its_own_are_set() {
        let folder = tempfile::tempdir().expect("a folder");
        let (catalog, _) = Catalog::open(folder.path(), 100).expect("a new catalog");
        catalog.save().expect("it is written");
        let demo = catalog.game("demo").expect("the first game");
        let derived = catalog.gameanalytics_keys(&demo);
        assert_eq!((derived.key.len(), derived.secret_key.len()), (32, 40));
        assert_eq!(catalog.gameanalytics_game(&derived.key).expect("it is found").id, "demo");
        let own = "5c6bcb5402204249437fb5a7a80a4959".to_owned();
        let set = |id: &str, key: &str| catalog.set_gameanalytics(id, Some(key.to_owned()), None);
        let demo = set("demo", &own).expect("a free key");
        assert_eq!(catalog.gameanalytics_keys(&demo), GameAnalytics { key: own.clone(), ..derived.clone() });
        catalog.create_game("two", "Two", "UTC").expect("a game");
        assert!(set("two", &own).is_err() && set("two", "short").is_err() && set("missing", "").is_err());
        assert!(
            catalog.gameanalytics_game(&derived.key).is_none() && catalog.gameanalytics_game("").is_none()
        );
    }
}
