//! Players who made, rated or flagged a level, by number.

use std::sync::Arc;

use hashbrown::HashMap;

/// A contributor.
#[derive(Debug, Default)]
pub(super) struct Contributor {
    pub(super) id: Arc<str>,
    /// The slots of the levels that this player made, in no particular order.
    pub(super) levels: Vec<u32>,
    /// The uncompressed size of the data and thumbnails of these levels.
    pub(super) content_bytes: u64,
    pub(super) votes: u32,
    pub(super) flags: u32,
}

impl Contributor {
    fn is_idle(&self) -> bool {
        self.levels.is_empty() && self.votes == 0 && self.flags == 0
    }
}

/// Contributors by number. Numbers are valid until the next start, and are reused when a player has no levels, votes
/// and flags left.
#[derive(Debug, Default)]
pub(super) struct Contributors {
    numbers: HashMap<Arc<str>, u32>,
    contributors: Vec<Contributor>,
    free: Vec<u32>,
}

impl Contributors {
    /// Returns the number of a contributor.
    pub(super) fn find_number(&self, id: &str) -> Option<u32> {
        self.numbers.get(id).copied()
    }

    /// Returns the number of a player, adding the player if needed.
    pub(super) fn find_or_add(&mut self, id: &str) -> u32 {
        if let Some(number) = self.find_number(id) {
            return number;
        }
        let id: Arc<str> = id.into();
        let contributor = Contributor { id: Arc::clone(&id), ..Contributor::default() };
        let number = match self.free.pop() {
            Some(number) => {
                self.contributors[number as usize] = contributor;
                number
            }
            None => {
                self.contributors.push(contributor);
                self.contributors.len() as u32 - 1
            }
        };
        self.numbers.insert(id, number);
        number
    }

    /// Removes a player who has no levels, votes and flags left.
    pub(super) fn remove_if_idle(&mut self, number: u32) {
        let contributor = &mut self.contributors[number as usize];
        if contributor.is_idle() && self.numbers.remove(&contributor.id).is_some() {
            *contributor = Contributor::default();
            self.free.push(number);
        }
    }

    pub(super) fn get(&self, number: u32) -> &Contributor {
        &self.contributors[number as usize]
    }

    pub(super) fn get_mut(&mut self, number: u32) -> &mut Contributor {
        &mut self.contributors[number as usize]
    }

    /// Returns the contributor with this id.
    pub(super) fn find(&self, id: &str) -> Option<&Contributor> {
        self.find_number(id).map(|number| self.get(number))
    }
}
