//! What a game that was built with Playtomic's SDKs knows itself by.
//!
//! Such a game has a public key (a GUID, in older SDKs) and a private one compiled in, and cannot be changed any more.
//! Neither is a secret: both are in every client.

use serde::{Deserialize, Serialize};

use super::{Catalog, Game, Refused, invalid, keys, no_game};

/// Bytes of a key.
const KEY_BYTES_MAX: usize = 100;

/// The keys that are compiled into a game.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Playtomic {
    /// Names the game in requests, beside its own public key. Empty: none.
    #[serde(default)]
    pub key: String,
    /// Signs requests. Empty: one that was derived for the game.
    #[serde(default)]
    pub private_key: String,
    /// Clients may ask for totals of views, plays and metrics.
    #[serde(default)]
    pub data_api: bool,
}

impl Playtomic {
    pub(super) fn is_default(&self) -> bool {
        *self == Playtomic::default()
    }
}

impl Catalog {
    /// The game that a request of these SDKs names. In the name of a host there is no upper case, so case is ignored.
    pub fn playtomic_game(&self, key: &str) -> Option<std::sync::Arc<Game>> {
        self.current.load().playtomic.get(&key.to_ascii_lowercase()).cloned()
    }

    /// What signs the game's requests: its own, or the one that was derived for it.
    pub fn playtomic_private_key(&self, game: &Game) -> String {
        if !game.playtomic.private_key.is_empty() {
            return game.playtomic.private_key.clone();
        }
        let derived = keys::sha256_hex(&format!("{} playtomic {}", self.id_secret(), game.number));
        derived[..32].to_owned()
    }

    /// Takes the keys that are compiled into a game. What is `None` stays as it is.
    pub fn set_playtomic(
        &self,
        id: &str,
        key: Option<String>,
        private_key: Option<String>,
        data_api: Option<bool>,
    ) -> Result<Game, Refused> {
        check("key", key.as_deref())?;
        check("private_key", private_key.as_deref())?;
        self.change(|document| {
            let taken = |game: &Game| key.as_deref().is_some_and(|key| game.is_called(key));
            if document.games.iter().any(|game| game.id != id && taken(game)) {
                return Err(invalid("key", "another game has this key".to_owned()));
            }
            let game = document.games.iter_mut().find(|game| game.id == id).ok_or_else(|| no_game(id))?;
            let keys = &mut game.playtomic;
            keys.key = key.unwrap_or_else(|| std::mem::take(&mut keys.key));
            keys.private_key = private_key.unwrap_or_else(|| std::mem::take(&mut keys.private_key));
            keys.data_api = data_api.unwrap_or(keys.data_api);
            Ok(game.clone())
        })
    }
}

impl Game {
    /// By what requests of these SDKs name the game.
    pub(super) fn playtomic_names(&self) -> impl Iterator<Item = &String> {
        let own = Some(&self.playtomic.key).filter(|key| !key.is_empty());
        std::iter::once(&self.public_key).chain(&self.old_public_keys).chain(own)
    }

    fn is_called(&self, key: &str) -> bool {
        !key.is_empty() && self.playtomic_names().any(|name| name.eq_ignore_ascii_case(key))
    }
}

fn check(field: &'static str, key: Option<&str>) -> Result<(), Refused> {
    let visible = |key: &str| key.len() <= KEY_BYTES_MAX && key.bytes().all(|byte| byte.is_ascii_graphic());
    if key.is_none_or(visible) {
        return Ok(());
    }
    Err(invalid(field, format!("up to {KEY_BYTES_MAX} visible characters")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> (tempfile::TempDir, Catalog) {
        let folder = tempfile::tempdir().expect("a folder");
        let (catalog, _) = Catalog::open(folder.path(), 100).expect("a new catalog");
        catalog.keep().expect("it is written");
        (folder, catalog)
    }

    #[test]
    fn a_game_is_found_by_its_old_key_and_by_its_new_one() {
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
    fn a_game_without_a_private_key_gets_one_that_stays() {
        let (folder, catalog) = open();
        let game = catalog.create_game("two", "Two", "UTC").expect("a game");
        let key = catalog.playtomic_private_key(&game);
        assert_eq!(key.len(), 32);
        assert_ne!(key, catalog.playtomic_private_key(&catalog.game("demo").expect("the first game")));
        let again = Catalog::open(folder.path(), 200).expect("the same catalog").0;
        assert_eq!(again.playtomic_private_key(&game), key);
    }

    #[test]
    fn no_two_games_have_the_same_key() {
        let (_folder, catalog) = open();
        let two = catalog.create_game("two", "Two", "UTC").expect("a game");
        let set = |id: &str, key: &str| catalog.set_playtomic(id, Some(key.to_owned()), None, None);
        assert!(set("demo", "a").is_ok());
        assert!(set("two", "A").is_err());
        assert!(set("demo", &two.public_key).is_err());
        assert!(set("demo", "").is_ok() && set("two", "").is_ok());
        assert!(set("demo", "a b").is_err() && set("nobody", "a").is_err());
    }
}
