//! Deleting old days and whole games.

use super::changes::Cutting;
use super::{Archive, ArchiveError};
use crate::builder::day_of;
use crate::files;

impl Archive {
    /// Deletes the events of a game before the start of a UTC day (`first_kept_ms` is rounded down to one) from files.
    /// Events in memory are deleted by a later call. Returns the number of events.
    ///
    /// The manifest keeps the day: see [`Snapshot::events_since`](crate::snapshot::Snapshot::events_since).
    pub fn delete_before(&self, game: u32, first_kept_ms: i64) -> Result<u64, ArchiveError> {
        let _writing = self.start_writing()?;
        let first_kept = day_of(first_kept_ms);
        let old = self.with_game(game, |game| {
            game.parts.range(..first_kept).flat_map(|(_, parts)| parts.clone()).collect::<Vec<_>>()
        });
        let old = old.unwrap_or_default();
        if !old.is_empty() {
            let before = self.nothing_cut(game);
            let deleted_before = before.deleted_before.max(Some(first_kept));
            self.replace_parts(game, Cutting { deleted_before, ..before }, &old, Vec::new())?;
        }
        Ok(old.iter().map(|part| part.info.rows).sum())
    }

    /// Deletes all events of a game. The caller appends no more of its entries.
    pub fn remove_game(&self, game: u32) -> Result<(), ArchiveError> {
        let _writing = self.start_writing()?;
        let (games, position) = {
            let state = self.state.lock();
            (state.listed().into_iter().filter(|listed| *listed != game).collect(), state.position)
        };
        let is_listed = self.with_game(game, |game| game.is_listed) == Some(true);
        if is_listed {
            self.write_index(games, position)?;
        }
        let removed = {
            let mut state = self.state.lock();
            let removed = state.games.remove(&game);
            let bytes = removed.as_ref().map_or(0, |game| game.tail.bytes());
            state.tail_bytes = state.tail_bytes.saturating_sub(bytes);
            removed
        };
        // A start removes what is left of a game that `archive.json` does not name.
        self.forget(removed.into_iter().flat_map(|game| game.parts.into_values().flatten()).collect());
        let folder = self.game_folder(game);
        let manifest = folder.join("manifest.json");
        files::remove_if_there(&*self.disk, &manifest).map_err(|error| self.disk_error(&manifest, error))?;
        let _ = std::fs::remove_dir(folder);
        Ok(())
    }
}
