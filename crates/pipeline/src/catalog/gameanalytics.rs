//! What a game that was built with GameAnalytics' SDKs knows itself by: a key and a secret of fixed lengths.
//!
//! Neither is a secret in truth: both are in every client.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Catalog, Game, Refused, invalid, keys, no_game};

/// Characters of a game's key and of its secret; the SDKs take no others.
const KEY_LENGTHS: [(&str, usize); 2] = [("key", 32), ("secret_key", 40)];

/// The keys that are compiled into a game; empty: those that were derived for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GameAnalytics {
    /// Names the game.
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

    /// Both keys of a game: its own, or those that are derived for it from the installation's secret.
    pub(super) fn of(game: &Game, secret: &str) -> GameAnalytics {
        let derived = |kept: &str, (what, length): (&str, usize)| match kept {
            "" => keys::sha256_hex(&format!("{secret} gameanalytics {what} {}", game.number))[..length]
                .to_owned(),
            kept => kept.to_owned(),
        };
        let [key, secret_key] = KEY_LENGTHS;
        GameAnalytics {
            key: derived(&game.gameanalytics.key, key),
            secret_key: derived(&game.gameanalytics.secret_key, secret_key),
        }
    }
}

impl Catalog {
    /// The game of this key.
    pub fn gameanalytics_game(&self, key: &str) -> Option<Arc<Game>> {
        self.current.load().gameanalytics.get(key).cloned()
    }

    /// The keys that a game is known by.
    pub fn gameanalytics_keys(&self, game: &Game) -> GameAnalytics {
        GameAnalytics::of(game, &self.id_secret())
    }

    /// Takes the keys that are compiled into a game. What is `None` stays as it is; empty: those that are derived.
    pub fn set_gameanalytics(
        &self,
        id: &str,
        key: Option<String>,
        secret_key: Option<String>,
    ) -> Result<Game, Refused> {
        for ((field, length), text) in KEY_LENGTHS.into_iter().zip([&key, &secret_key]) {
            let is_right = |text: &String| {
                text.is_empty()
                    || text.len() == length && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
            };
            if !text.as_ref().is_none_or(is_right) {
                return Err(invalid(field, format!("{length} letters and digits, or nothing")));
            }
        }
        let other = key.as_deref().and_then(|key| self.gameanalytics_game(key));
        if other.is_some_and(|other| other.id != id) {
            return Err(invalid("key", "another game has this key".to_owned()));
        }
        self.change(|document| {
            let game = document.games.iter_mut().find(|game| game.id == id).ok_or_else(|| no_game(id))?;
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
    fn a_game_has_keys_that_stay_until_it_brings_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let (catalog, _) = Catalog::open(folder.path(), 100).expect("a new catalog");
        catalog.keep().expect("it is written");
        let demo = catalog.game("demo").expect("the first game");
        let derived = catalog.gameanalytics_keys(&demo);
        assert_eq!((derived.key.len(), derived.secret_key.len()), (32, 40));
        assert_eq!(catalog.gameanalytics_game(&derived.key).expect("it is found").id, "demo");
        let own = "5c6bcb5402204249437fb5a7a80a4959".to_owned();
        let set = |id: &str, key: &str| catalog.set_gameanalytics(id, Some(key.to_owned()), None);
        let demo = set("demo", &own).expect("a free key");
        assert_eq!(catalog.gameanalytics_keys(&demo), GameAnalytics { key: own.clone(), ..derived.clone() });
        catalog.create_game("two", "Two", "UTC").expect("a game");
        assert!(set("two", &own).is_err() && set("two", "short").is_err() && set("nobody", "").is_err());
        assert!(
            catalog.gameanalytics_game(&derived.key).is_none() && catalog.gameanalytics_game("").is_none()
        );
    }
}
