//! Deleting games: the entry in the catalog from the request until no file contains anything of the game.

use serde::{Deserialize, Serialize};

use super::error::invalid;
use super::{Catalog, CatalogError};

/// A game whose data is being removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeletedGame {
    /// The number that the log stores; never used again.
    pub number: u32,
    /// The id. It is free again when everything is removed.
    pub id: String,
    /// The time of the request, in seconds since 1970.
    pub deleted_s: u64,
}

impl Catalog {
    /// Removes a game and its keys from the catalog, and notes that its data has to be removed.
    pub(crate) fn delete_game(
        &self,
        id: &str,
        confirm: &str,
        now_s: u64,
    ) -> Result<DeletedGame, CatalogError> {
        let mut keys = Vec::new();
        let deleted = self.update(|file| {
            let game = file.game_mut(id)?.clone();
            if !game.is_archived() {
                return Err(invalid("game", format!("`{id}` is not archived; archive and export it first")));
            }
            if confirm != game.name {
                let message = format!("must be the name of the game, `{}`", game.name);
                return Err(invalid("confirm", message));
            }
            if file.games.len() == 1 {
                return Err(invalid(
                    "game",
                    "the only game cannot be deleted; create another one first".into(),
                ));
            }
            file.next_game = Some(file.next_game());
            file.games.retain(|other| other.number != game.number);
            keys = file.keys.extract_if(.., |key| key.game == game.number).map(|key| key.id).collect();
            let deleted = DeletedGame { number: game.number, id: game.id, deleted_s: now_s };
            file.deleted_games.push(deleted.clone());
            Ok(deleted)
        })?;
        self.last_used.remove(&keys);
        Ok(deleted)
    }

    /// Returns the games whose data is being removed.
    pub fn deleted_games(&self) -> Vec<DeletedGame> {
        self.current.load().file.deleted_games.clone()
    }

    /// Notes that nothing is left of a deleted game.
    pub(crate) fn finish_deletion(&self, number: u32) -> Result<(), CatalogError> {
        self.update(|file| {
            file.deleted_games.retain(|game| game.number != number);
            Ok(())
        })
    }
}
