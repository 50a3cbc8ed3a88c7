//! The games that are being deleted: nothing of them enters the log, the views or the archive any more.
//!
//! A deletion begins with an entry in the catalog, so that it is completed after a crash. The thread of the erasures does
//! the rest ([`crate::erasure`]).

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::catalog::{Catalog, CatalogError, DeletedGame};
use crate::ingest::{BATCH, COMMAND};
use crate::time::now_s;
use crate::views::Views;

/// The numbers of deleted games. A number stays until the process ends: requests that began before the deletion may still
/// try to write.
#[derive(Default)]
pub struct DeletedGames {
    /// Most installations never delete a game; this flag saves them the lock.
    is_used: AtomicBool,
    numbers: RwLock<HashSet<u32>>,
    on_insert: Mutex<Vec<Box<dyn Fn() + Send>>>,
}

impl DeletedGames {
    /// Returns true if the game is deleted.
    pub fn contains(&self, game: u32) -> bool {
        self.is_used.load(Ordering::Acquire) && self.numbers.read().contains(&game)
    }

    /// Returns true if an entry of the log belongs to a deleted game.
    pub(crate) fn contains_entry(&self, kind: u8, bytes: &[u8]) -> bool {
        self.is_used.load(Ordering::Acquire)
            && game_of_entry(kind, bytes).is_some_and(|game| self.contains(game))
    }

    pub(crate) fn insert(&self, game: u32) {
        self.numbers.write().insert(game);
        self.is_used.store(true, Ordering::Release);
        self.on_insert.lock().iter().for_each(|callback| callback());
    }

    /// Registers a callback for each game that is inserted.
    pub(crate) fn on_insert(&self, callback: impl Fn() + Send + 'static) {
        self.on_insert.lock().push(Box::new(callback));
    }
}

/// Returns the game of a batch or a command: both have its number in the same place.
pub(crate) fn game_of_entry(kind: u8, bytes: &[u8]) -> Option<u32> {
    let has_game = kind == BATCH || kind == COMMAND;
    bytes.get(4..8).filter(|_| has_game).and_then(|game| game.try_into().ok()).map(u32::from_le_bytes)
}

/// Deletes an archived game: its keys are invalid at once, and its data is removed from all files in the background, also
/// after a restart. `confirm` must be the display name of the game.
///
/// # Errors
/// If the game is not archived, is the only one, or has another name, or the catalog cannot be written.
pub fn delete_game(
    catalog: &Catalog,
    views: &Views,
    id: &str,
    confirm: &str,
) -> Result<DeletedGame, CatalogError> {
    let deleted = catalog.delete_game(id, confirm, now_s())?;
    views.deleted_games.insert(deleted.number);
    Ok(deleted)
}

#[cfg(test)]
mod tests {
    use liveops::players::PlayerCommand;
    use model::batch::{BatchBuilder, Endpoint, KeyClass};

    use super::*;
    use crate::erasure::server_command;

    #[test]
    fn game_of_an_entry_is_found_without_decoding_it() {
        let (batch, _) = BatchBuilder::new(Endpoint::Events, KeyClass::Public, 70_000, 5, 64).finish(&[]);
        let command = server_command(70_001, PlayerCommand::Exported { receipt: "r".into() });
        assert_eq!(game_of_entry(BATCH, &batch), Some(70_000));
        assert_eq!(game_of_entry(COMMAND, &command.bytes), Some(70_001));
        assert_eq!((game_of_entry(3, &batch), game_of_entry(BATCH, &[1, 2])), (None, None));
    }
}
