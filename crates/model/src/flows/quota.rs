//! The limit of flows per game, so that one game cannot use up the room of the others.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of flows of each game, over all trackers that share the quota. Locked only when a flow is opened or
/// evicted, never per packet.
#[derive(Debug)]
pub struct FlowQuota {
    flows_max: u32,
    used: Mutex<HashMap<u32, u32>>,
}

impl FlowQuota {
    /// Creates a quota of at most `flows_max` concurrent flows per game.
    pub fn new(flows_max: u32) -> FlowQuota {
        FlowQuota { flows_max, used: Mutex::default() }
    }

    /// Returns the number of flows of a game.
    #[cfg(test)]
    pub(crate) fn used(&self, game: u32) -> u32 {
        self.lock().get(&game).copied().unwrap_or(0)
    }

    /// Reserves room for one flow; returns false if the game has reached its limit.
    pub(super) fn acquire(&self, game: u32) -> bool {
        let mut flows = self.lock();
        let used = flows.entry(game).or_default();
        let has_room = *used < self.flows_max;
        *used += u32::from(has_room);
        has_room
    }

    /// Reserves room for a restored flow, even beyond the limit.
    pub(super) fn acquire_restored(&self, game: u32) {
        *self.lock().entry(game).or_default() += 1;
    }

    /// Releases the room of one flow.
    pub(super) fn release(&self, game: u32) {
        let mut flows = self.lock();
        match flows.get_mut(&game) {
            Some(1) => drop(flows.remove(&game)),
            Some(used) => *used -= 1,
            None => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, u32>> {
        // No code under the lock can panic halfway, so a poisoned lock is still consistent.
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
