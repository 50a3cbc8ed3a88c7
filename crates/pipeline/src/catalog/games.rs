//! Games: the tenants of an installation.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::error::invalid;
use super::{Catalog, CatalogError, GameAnalytics, GameSettings, Playtomic, SettingsChange, key_format};

const GAMES_MAX: usize = 10_000;
/// The longest display name of a game.
const NAME_CHARS_MAX: usize = 100;

/// A tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Game {
    /// The number that the log stores; never reused.
    pub number: u32,
    /// The id in routes and commands: lower-case letters, digits and `-`.
    pub id: String,
    /// The display name.
    pub name: String,
    /// The IANA time zone of days, weeks and months.
    pub tz: String,
    /// The public key. It is in every client and not a secret.
    pub public_key: String,
    /// Public keys that were replaced and still work.
    #[serde(default)]
    pub(crate) old_public_keys: Vec<String>,
    /// The keys of a game that uses Playtomic's SDKs.
    #[serde(default, skip_serializing_if = "Playtomic::is_default")]
    pub playtomic: Playtomic,
    /// The keys of a game that uses GameAnalytics' SDKs.
    #[serde(default, skip_serializing_if = "GameAnalytics::is_default")]
    pub gameanalytics: GameAnalytics,
    /// The domains and website ids by which trackers of web analytics name the game, in lower case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<String>,
    /// The time since which the game is archived, in seconds since 1970: its data can be read and nothing is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived_s: Option<u64>,
    /// The settings of the game.
    #[serde(default, skip_serializing_if = "GameSettings::is_default")]
    pub settings: GameSettings,
}

impl Game {
    pub(super) fn new(number: u32, id: &str, name: &str, tz: &str) -> Game {
        Game {
            number,
            id: id.to_owned(),
            name: name.to_owned(),
            tz: tz.to_owned(),
            public_key: key_format::random_public_key(),
            old_public_keys: Vec::new(),
            playtomic: Playtomic::default(),
            gameanalytics: GameAnalytics::default(),
            sites: Vec::new(),
            archived_s: None,
            settings: GameSettings::default(),
        }
    }
}

impl Game {
    /// Returns true if the game accepts no writes.
    pub fn is_archived(&self) -> bool {
        self.archived_s.is_some()
    }

    /// Fails if the game accepts no writes.
    pub fn check_writable(&self) -> Result<(), GameArchived> {
        if self.is_archived() { Err(GameArchived { game: self.id.clone() }) } else { Ok(()) }
    }
}

/// Changes to a game.
#[derive(Default)]
pub struct GameChange {
    /// The new display name.
    pub name: Option<String>,
    /// Changes of its settings.
    pub settings: SettingsChange,
    /// True to archive the game, false to restore it.
    pub archived: Option<bool>,
}

/// A write was rejected because the game is archived.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the game `{game}` is archived: its data can be read, but it accepts no writes until it is restored")]
pub struct GameArchived {
    game: String,
}

impl Catalog {
    /// Returns every game, oldest first.
    pub fn games(&self) -> Vec<Game> {
        self.current.load().file.games.clone()
    }

    /// Returns the game with this id.
    pub fn game(&self, id: &str) -> Option<Arc<Game>> {
        self.current.load().games.values().find(|game| game.id == id).cloned()
    }

    /// Returns the game with this stored number.
    pub fn game_by_number(&self, number: u32) -> Option<Arc<Game>> {
        self.current.load().games.get(&number).cloned()
    }

    /// Creates a game with a public key of its own.
    pub fn create_game(&self, id: &str, name: &str, tz: &str) -> Result<Game, CatalogError> {
        check_game_id(id)?;
        check_game_name(name)?;
        check_time_zone(tz)?;
        self.update(|file| {
            if file.games.len() >= GAMES_MAX {
                return Err(invalid("id", format!("the limit of {GAMES_MAX} games is reached")));
            }
            if file.games.iter().any(|game| game.id == id) {
                return Err(invalid("id", format!("a game `{id}` exists already")));
            }
            if file.deleted_games.iter().any(|game| game.id == id) {
                return Err(invalid("id", format!("a game `{id}` is being deleted; try again later")));
            }
            let number = file.next_game();
            if file.next_game.is_some() {
                file.next_game = Some(number + 1);
            }
            let game = Game::new(number, id, name, tz);
            file.games.push(game.clone());
            Ok(game)
        })
    }

    /// Changes the display name of a game; its id stays.
    pub fn rename_game(&self, id: &str, name: &str) -> Result<Game, CatalogError> {
        check_game_name(name)?;
        self.update(|file| {
            let game = file.game_mut(id)?;
            game.name = name.to_owned();
            Ok(game.clone())
        })
    }

    /// Archives a game: its data stays readable, and writes are rejected from now on. An archived game stays archived since
    /// the first time.
    pub fn archive_game(&self, id: &str, now_s: u64) -> Result<Game, CatalogError> {
        self.update(|file| {
            let game = file.game_mut(id)?;
            game.archived_s.get_or_insert(now_s);
            Ok(game.clone())
        })
    }

    /// Changes a game, all or nothing. What is not given stays.
    pub fn change_game(&self, id: &str, change: GameChange, now_s: u64) -> Result<Game, CatalogError> {
        let GameChange { name, settings, archived } = change;
        name.as_deref().map_or(Ok(()), check_game_name)?;
        self.update(|file| {
            let game = file.game_mut(id)?;
            game.settings.apply(settings)?;
            if let Some(name) = name {
                game.name = name;
            }
            match archived {
                None => {}
                Some(true) => game.archived_s = game.archived_s.or(Some(now_s)),
                Some(false) => game.archived_s = None,
            }
            Ok(game.clone())
        })
    }

    /// Lets an archived game accept writes again.
    pub fn restore_game(&self, id: &str) -> Result<Game, CatalogError> {
        self.update(|file| {
            let game = file.game_mut(id)?;
            game.archived_s = None;
            Ok(game.clone())
        })
    }

    /// Replaces the public key of a game. The old one works until [`Catalog::revoke_key`] revokes it.
    pub fn rotate_public_key(&self, id: &str) -> Result<Game, CatalogError> {
        self.update(|file| {
            let game = file.game_mut(id)?;
            let old = std::mem::replace(&mut game.public_key, key_format::random_public_key());
            game.old_public_keys.insert(0, old);
            game.old_public_keys.truncate(1);
            Ok(game.clone())
        })
    }
}

fn check_game_id(id: &str) -> Result<(), CatalogError> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (1..=40).contains(&id.len()) && id.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(invalid("id", "must be 1 to 40 lower-case letters, digits and `-`".to_owned()))
}

fn check_game_name(name: &str) -> Result<(), CatalogError> {
    let is_text = !name.trim().is_empty() && !name.chars().any(char::is_control);
    if is_text && name.chars().count() <= NAME_CHARS_MAX {
        return Ok(());
    }
    Err(invalid("name", format!("must be 1 to {NAME_CHARS_MAX} characters on one line")))
}

/// Accepts the zones of the IANA database.
fn check_time_zone(tz: &str) -> Result<(), CatalogError> {
    let error = |error: jiff::Error| invalid("tz", format!("`{tz}` is not a time zone: {error}"));
    jiff::tz::TimeZone::get(tz).map(|_| ()).map_err(error)
}
