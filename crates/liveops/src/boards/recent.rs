//! The newest runs of a board, for lists by time.

use std::collections::VecDeque;

use super::runs::{Arrival, Runs};

/// Runs that are kept. At the limit, removed runs are dropped first, then the older half.
const RUNS_MAX: usize = 65_536;

/// The newest runs by arrival, each with its player.
#[derive(Default)]
pub(super) struct RecentRuns {
    runs: VecDeque<(Arrival, u32)>,
}

impl RecentRuns {
    /// Returns the newest of all runs.
    pub(super) fn from_runs(runs: &Runs) -> RecentRuns {
        let existing = (0..runs.len()).filter(|run| runs.exists(*run));
        let mut all: Vec<(Arrival, u32)> = existing.map(|run| (runs.arrival(run), run)).collect();
        if all.len() > RUNS_MAX / 2 {
            let older = all.len() - RUNS_MAX / 2;
            all.select_nth_unstable(older);
            all.drain(..older);
        }
        all.sort_unstable();
        all.iter_mut().for_each(|it| it.1 = runs.player(it.1));
        all.dedup();
        RecentRuns { runs: all.into() }
    }

    pub(super) fn add(&mut self, arrival: Arrival, player: u32, runs: &Runs) {
        if self.runs.len() >= RUNS_MAX {
            self.runs.retain(|(arrival, player)| exists(runs, *player, *arrival));
            let older = self.runs.len().saturating_sub(RUNS_MAX / 2);
            self.runs.drain(..older);
        }
        let at = match self.runs.back() {
            Some((last, _)) if *last > arrival => self.runs.partition_point(|(other, _)| *other < arrival),
            _ => self.runs.len(),
        };
        self.runs.insert(at, (arrival, player));
    }

    pub(super) fn bytes(&self) -> usize {
        self.runs.capacity() * size_of::<(Arrival, u32)>()
    }

    /// Returns the runs newest first. A run may have been removed.
    pub(super) fn newest(&self) -> impl Iterator<Item = (Arrival, u32)> {
        self.runs.iter().rev().copied()
    }
}

/// Returns true if a run probably still exists. A run behind many newer ones of its player counts as existing, because
/// boards that keep many runs rarely remove them.
fn exists(runs: &Runs, player: u32, arrival: Arrival) -> bool {
    const EXAMINED_MAX: usize = 32;
    let mut examined = 0;
    let found = runs
        .of_player(player)
        .take(EXAMINED_MAX)
        .inspect(|_| examined += 1)
        .any(|run| runs.arrival(run) == arrival);
    found || examined == EXAMINED_MAX
}
