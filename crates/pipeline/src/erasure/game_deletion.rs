//! Deleting a game: everything that is stored about it is removed from every file.
//!
//! The catalog names the game until the end, so that a restart begins again. Since the game is named, nothing of it
//! enters the log ([`crate::deleted_games`]). Then, in this order:
//!
//! 1. Its entries in the log become empty. Offsets stay.
//! 2. Its files in the archive and its flows are removed.
//! 3. Its rows, records, links and sessions are removed from the store, which is then purged.
//! 4. The catalog no longer names it.

use std::collections::BTreeSet;

use anyhow::Context;
use tracing::info;
use wal::{EntryRef, Replacement, Rewriter};

use super::{ErasurePass, ErasureSignal, ROLL_TIMEOUT};
use crate::applier::checkpoint_now;
use crate::deleted_games::game_of_entry;
use crate::ingest::ERASED;

/// Rows that are removed while the applier waits.
const ROWS_AT_ONCE: usize = 20_000;

impl ErasurePass {
    /// Completes all deletions of games requested so far. Returns their number.
    pub(super) fn delete_games(&self, signal: &ErasureSignal) -> anyhow::Result<usize> {
        let deleted = self.catalog.deleted_games();
        if deleted.is_empty() {
            return Ok(0);
        }
        let games: BTreeSet<u32> = deleted.iter().map(|game| game.number).collect();
        // The request that deletes a game enters it there a moment after the catalog.
        let is_new = |game: &&u32| !self.views.deleted_games.contains(**game);
        games.iter().filter(is_new).for_each(|game| self.views.deleted_games.insert(*game));
        // Flows end within half a minute, in which a backup may run.
        self.wait_for_flows(&games, signal)?;
        let _files = self.lock_files(signal)?;
        let until = self.rewrite_log(&mut GameEraser { games: &games }, signal)?;
        self.archiver.remove_games(&games, until, || signal.is_stopped())?;
        signal.check()?;
        self.flows.remove_ended(&games);
        self.flows.save(&self.data)?;
        self.views.wait_caught_up(until)?;
        for game in &games {
            self.remove_from_views(*game, signal)?;
        }
        checkpoint_now(&self.views, &self.log, &self.registered_until)?;
        signal.check()?;
        self.views.counters.purge_rows().context("purging the store")?;
        for game in deleted {
            (self.on_deleted)(&game.id).with_context(|| format!("forgetting the game `{}`", game.id))?;
            self.catalog.finish_deletion(game.number)?;
            info!(game = game.id, "a game was deleted");
        }
        Ok(games.len())
    }

    /// Rewrites everything in the log that was appended before the call. Returns its end.
    pub(super) fn rewrite_log(
        &self,
        rewriter: &mut dyn Rewriter,
        signal: &ErasureSignal,
    ) -> anyhow::Result<u64> {
        let until = self.log.roll(ROLL_TIMEOUT).context("beginning the next segment of the log")?;
        for closed in self.log.closed_segments().into_iter().filter(|closed| closed.end <= until) {
            signal.check()?;
            let rewritten = self.log.rewrite(closed.start, rewriter).context("rewriting the log")?;
            if let Some(rewritten) = rewritten {
                info!(segment = closed.start, ?rewritten, "a segment of the log was rewritten");
            }
        }
        Ok(until)
    }

    /// Waits until the flows of the games have ended: no packets continue them.
    fn wait_for_flows(&self, games: &BTreeSet<u32>, signal: &ErasureSignal) -> anyhow::Result<()> {
        while games.iter().any(|game| self.flows.has_any(*game)) {
            signal.check()?;
            std::thread::sleep(super::BACKUP_POLL);
        }
        Ok(())
    }

    fn remove_from_views(&self, game: u32, signal: &ErasureSignal) -> anyhow::Result<()> {
        let views = &self.views;
        {
            let _paused = views.pause_at_checkpoint().context("writing a checkpoint")?;
            views.sessions.lock().remove_game(game);
            views.identities.remove_game(game);
            views.liveops.remove_game(game).context("removing live-ops records")?;
            views.recent_events.remove_game(game);
            views.cohorts.remove_game(game);
        }
        loop {
            signal.check()?;
            let _paused = views.pause_at_checkpoint().context("writing a checkpoint")?;
            let removed = views.counters.remove_rows(game, ROWS_AT_ONCE).context("removing rollups")?;
            if removed < ROWS_AT_ONCE {
                return Ok(());
            }
        }
    }
}

/// Empties the entries of some games.
struct GameEraser<'a> {
    games: &'a BTreeSet<u32>,
}

impl Rewriter for GameEraser<'_> {
    fn affects(&mut self, entry: &EntryRef<'_>) -> bool {
        game_of_entry(entry.kind, entry.bytes).is_some_and(|game| self.games.contains(&game))
    }

    fn replace(&mut self, entry: &EntryRef<'_>) -> Option<Replacement> {
        self.affects(entry).then(|| Replacement { kind: ERASED, bytes: Vec::new() })
    }
}
