//! The distinct activities of the feed with their occurrences, which is how equal items are found.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::activity_key::ActivityKeyBytes;
use super::item_position::ItemPosition;

/// From this number on, occurrences are looked up by hash; below it, a linear search is faster and smaller.
const LINEAR_MAX: usize = 16;

/// Activities by number and by key.
///
/// Keys come from clients, so they are hashed with a random seed.
#[derive(Default)]
pub(super) struct Activities {
    slots: Vec<ActivitySlot>,
    free: Vec<u32>,
    by_bytes: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

struct ActivitySlot {
    bytes: ActivityKeyBytes,
    occurrences: Occurrences,
}

/// The items of one activity; the tails are players. A player may occur several times.
pub(super) enum Occurrences {
    One(ItemPosition),
    Few(Vec<ItemPosition>),
    Many(Box<HashTable<ItemPosition>>),
}

impl Activities {
    pub(super) fn bytes(&self, activity: u32) -> &[u8] {
        self.slots[activity as usize].bytes.get()
    }

    pub(super) fn occurrences(&self, activity: u32) -> &Occurrences {
        &self.slots[activity as usize].occurrences
    }

    /// Returns the number of the activity with this key.
    pub(super) fn find(&self, bytes: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(bytes);
        self.by_bytes.find(hash, |&activity| self.bytes(activity) == bytes).copied()
    }

    /// Adds an occurrence and returns the number of the activity.
    pub(super) fn add(&mut self, bytes: &[u8], occurrence: ItemPosition) -> u32 {
        let hash = self.hasher.hash_one(bytes);
        let slots = &mut self.slots;
        if let Some(&activity) =
            self.by_bytes.find(hash, |&activity| slots[activity as usize].bytes.get() == bytes)
        {
            slots[activity as usize].occurrences.add(occurrence);
            return activity;
        }
        let slot =
            ActivitySlot { bytes: ActivityKeyBytes::new(bytes), occurrences: Occurrences::One(occurrence) };
        let activity = match self.free.pop() {
            Some(activity) => {
                slots[activity as usize] = slot;
                activity
            }
            None => {
                slots.push(slot);
                u32::try_from(slots.len() - 1).expect("the number of items is limited")
            }
        };
        let (slots, hasher) = (&self.slots, &self.hasher);
        let hash_of = |activity: &u32| hasher.hash_one(slots[*activity as usize].bytes.get());
        self.by_bytes.insert_unique(hash, activity, hash_of);
        activity
    }

    /// Removes an occurrence. If it was the last one, removes the activity and returns its key.
    pub(super) fn remove(&mut self, activity: u32, occurrence: ItemPosition) -> Option<ActivityKeyBytes> {
        let slot = &mut self.slots[activity as usize];
        if !slot.occurrences.remove(occurrence) {
            return None;
        }
        let bytes = std::mem::replace(&mut slot.bytes, ActivityKeyBytes::new(&[]));
        let hash = self.hasher.hash_one(bytes.get());
        if let Ok(entry) = self.by_bytes.find_entry(hash, |&other| other == activity) {
            entry.remove();
        }
        self.free.push(activity);
        Some(bytes)
    }
}

/// The server numbers the players, so clients cannot cause collisions and no random seed is needed.
fn hash(player: u32) -> u64 {
    rustc_hash::FxBuildHasher.hash_one(player)
}

impl Occurrences {
    pub(super) fn len(&self) -> usize {
        match self {
            Occurrences::One(_) => 1,
            Occurrences::Few(few) => few.len(),
            Occurrences::Many(many) => many.len(),
        }
    }

    /// Calls `call` with each occurrence.
    pub(super) fn each(&self, mut call: impl FnMut(ItemPosition)) {
        match self {
            Occurrences::One(occurrence) => call(*occurrence),
            Occurrences::Few(few) => few.iter().copied().for_each(call),
            Occurrences::Many(many) => many.iter().copied().for_each(call),
        }
    }

    /// Calls `call` with each occurrence of this player.
    pub(super) fn of(&self, player: u32, mut call: impl FnMut(ItemPosition)) {
        match self {
            Occurrences::Many(many) => {
                many.iter_hash(hash(player)).copied().filter(|it| it.tail() == player).for_each(call)
            }
            _ => self.each(|occurrence| {
                if occurrence.tail() == player {
                    call(occurrence);
                }
            }),
        }
    }

    fn add(&mut self, occurrence: ItemPosition) {
        match self {
            Occurrences::One(first) => *self = Occurrences::Few(vec![*first, occurrence]),
            Occurrences::Few(few) if few.len() < LINEAR_MAX => few.push(occurrence),
            Occurrences::Few(few) => {
                let mut many = HashTable::with_capacity(2 * LINEAR_MAX);
                for occurrence in few.drain(..).chain([occurrence]) {
                    many.insert_unique(hash(occurrence.tail()), occurrence, |it| hash(it.tail()));
                }
                *self = Occurrences::Many(Box::new(many));
            }
            Occurrences::Many(many) => {
                many.insert_unique(hash(occurrence.tail()), occurrence, |it| hash(it.tail()));
            }
        }
    }

    /// Returns true if this was the last one.
    fn remove(&mut self, occurrence: ItemPosition) -> bool {
        match self {
            Occurrences::One(_) => return true,
            Occurrences::Few(few) => few.retain(|it| *it != occurrence),
            Occurrences::Many(many) => {
                if let Ok(entry) = many.find_entry(hash(occurrence.tail()), |it| *it == occurrence) {
                    entry.remove();
                }
                // Half of the threshold, so that a count that goes up and down does not convert each time.
                if many.len() == LINEAR_MAX / 2 {
                    *self = Occurrences::Few(many.iter().copied().collect());
                }
            }
        }
        self.len() == 0
    }
}
