//! The flows that ended last, with their final figures, so that the quality of a finished call can be looked up.
//!
//! They are in memory only, a few for each game. The permanent record is the event `$flow`.

use std::collections::{BTreeSet, HashMap, VecDeque};

use model::flows::Flow;
use parking_lot::Mutex;

/// The number of ended flows that are kept of each game.
pub const RECENTLY_ENDED_MAX: usize = 100;

/// The last ended flows of all games.
#[derive(Default)]
pub(super) struct RecentlyEnded(Mutex<HashMap<u32, VecDeque<Flow>>>);

impl RecentlyEnded {
    /// Adds ended flows, in the order of their end, and evicts the oldest.
    pub(super) fn add(&self, ended: &[Flow]) {
        if ended.is_empty() {
            return;
        }
        let mut games = self.0.lock();
        for flow in ended {
            let kept = games.entry(flow.game).or_default();
            kept.truncate(RECENTLY_ENDED_MAX - 1);
            kept.push_front(flow.clone());
        }
    }

    /// Removes the ended flows of some games.
    pub(super) fn remove(&self, games: &BTreeSet<u32>) {
        self.0.lock().retain(|game, _| !games.contains(game));
    }

    /// Returns the ended flows of a game, newest first.
    pub(super) fn of(&self, game: u32) -> Vec<Flow> {
        let mut ended: Vec<Flow> = self.0.lock().get(&game).into_iter().flatten().cloned().collect();
        ended.sort_by_key(|flow| std::cmp::Reverse(flow.ended.map(|(_, ended_ms)| ended_ms)));
        ended
    }

    /// Returns the ended flow with this id.
    pub(super) fn find(&self, game: u32, id: u64) -> Option<Flow> {
        self.0.lock().get(&game)?.iter().find(|flow| flow.id == id).cloned()
    }
}
