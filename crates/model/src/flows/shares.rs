//! How many flows each game has, so that none takes the room of the others.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The flows of each game, over all trackers that share it. Asked when a flow begins and when it is forgotten, never for
/// a packet in between.
#[derive(Debug)]
pub struct Shares {
    each_max: u32,
    flows: Mutex<HashMap<u32, u32>>,
}

impl Shares {
    /// At most so many flows of one game at the same time.
    pub fn new(each_max: u32) -> Shares {
        Shares { each_max, flows: Mutex::default() }
    }

    /// How many flows of a game there are.
    pub fn of(&self, game: u32) -> u32 {
        self.flows().get(&game).copied().unwrap_or(0)
    }

    /// Takes room for one flow; `false`: the game has as many as it may.
    pub(super) fn take(&self, game: u32) -> bool {
        let mut flows = self.flows();
        let own = flows.entry(game).or_default();
        let has_room = *own < self.each_max;
        *own += u32::from(has_room);
        has_room
    }

    /// Counts a flow that was there before. It keeps its room, however little there is.
    pub(super) fn take_back(&self, game: u32) {
        *self.flows().entry(game).or_default() += 1;
    }

    /// Gives the room of one flow back.
    pub(super) fn give_back(&self, game: u32) {
        let mut flows = self.flows();
        match flows.get_mut(&game) {
            Some(1) => drop(flows.remove(&game)),
            Some(own) => *own -= 1,
            None => {}
        }
    }

    fn flows(&self) -> MutexGuard<'_, HashMap<u32, u32>> {
        // Nothing in here can panic halfway.
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
