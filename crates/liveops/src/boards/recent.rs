//! The newest runs of a board, for lists by time.

use std::collections::VecDeque;

use super::runs::{Arrival, Runs};

/// Runs that are remembered, before those that are gone are dropped and then the older half.
const MOST: usize = 65_536;

/// The newest runs, each with its player, in the order of their arrival.
#[derive(Default)]
pub struct Recent {
    runs: VecDeque<(Arrival, u32)>,
}

impl Recent {
    /// The newest of all runs.
    pub fn of(runs: &Runs) -> Recent {
        let there = (0..runs.len()).filter(|run| runs.is_there(*run));
        let mut all: Vec<(Arrival, u32)> = there.map(|run| (runs.arrival(run), run)).collect();
        if all.len() > MOST / 2 {
            let older = all.len() - MOST / 2;
            all.select_nth_unstable(older);
            all.drain(..older);
        }
        all.sort_unstable();
        all.iter_mut().for_each(|it| it.1 = runs.player(it.1));
        all.dedup();
        Recent { runs: all.into() }
    }

    /// A run came.
    pub fn add(&mut self, arrival: Arrival, player: u32, runs: &Runs) {
        if self.runs.len() >= MOST {
            self.runs.retain(|(arrival, player)| is_there(runs, *player, *arrival));
            let older = self.runs.len().saturating_sub(MOST / 2);
            self.runs.drain(..older);
        }
        let at = match self.runs.back() {
            Some((last, _)) if *last > arrival => self.runs.partition_point(|(other, _)| *other < arrival),
            _ => self.runs.len(),
        };
        self.runs.insert(at, (arrival, player));
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.runs.capacity() * size_of::<(Arrival, u32)>()
    }

    /// Newest first. The run may be gone.
    pub fn newest(&self) -> impl Iterator<Item = (Arrival, u32)> {
        self.runs.iter().rev().copied()
    }
}

/// Whether a run seems to be there still. Behind many newer ones it counts as there: where a player may have many runs,
/// they stay.
fn is_there(runs: &Runs, player: u32, arrival: Arrival) -> bool {
    const LOOKED_AT: usize = 32;
    let mut looked_at = 0;
    let found =
        runs.of(player).take(LOOKED_AT).inspect(|_| looked_at += 1).any(|run| runs.arrival(run) == arrival);
    found || looked_at == LOOKED_AT
}
