//! The flows that ended last, with their last figures: how a call was that is over a moment ago.
//!
//! They are in memory alone, a few for each game. What has to outlive the process is the event `$flow`.

use std::collections::{HashMap, VecDeque};

use model::flows::Flow;
use parking_lot::Mutex;

/// So many are kept of a game.
pub const RECENT_MAX: usize = 100;

/// The last ends of all games.
#[derive(Default)]
pub(super) struct RecentlyEnded(Mutex<HashMap<u32, VecDeque<Flow>>>);

impl RecentlyEnded {
    /// Notes ends, in their order. The oldest make room.
    pub fn note(&self, ended: &[Flow]) {
        if ended.is_empty() {
            return;
        }
        let mut games = self.0.lock();
        for flow in ended {
            let kept = games.entry(flow.game).or_default();
            kept.truncate(RECENT_MAX - 1);
            kept.push_front(flow.clone());
        }
    }

    /// Those of a game, the last to end first.
    pub fn of(&self, game: u32) -> Vec<Flow> {
        let mut ended: Vec<Flow> = self.0.lock().get(&game).into_iter().flatten().cloned().collect();
        ended.sort_by_key(|flow| std::cmp::Reverse(flow.ended.map(|(_, ended_ms)| ended_ms)));
        ended
    }

    /// The one of this id.
    pub fn find(&self, game: u32, id: u64) -> Option<Flow> {
        self.0.lock().get(&game)?.iter().find(|flow| flow.id == id).cloned()
    }
}
