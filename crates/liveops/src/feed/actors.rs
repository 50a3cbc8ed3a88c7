//! The players of the feed with their items, follows and grants.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::item_position::ItemPosition;

/// A player. Numbers are given in order of appearance; they are not stored and differ from start to start.
#[derive(Default)]
pub(super) struct Actor {
    /// Empty if this number is free.
    pub(super) id: Box<str>,
    /// The last known display name; may be empty.
    pub(super) name: Box<str>,
    /// The player's items, oldest first; the tails are activities.
    pub(super) items: Vec<ItemPosition>,
    /// The records that hold the items: the number of the first item of each.
    pub(super) chunks: Vec<u64>,
    /// Items that were put into the last record.
    pub(super) chunk_len: u8,
    /// The numbers of the followed players, sorted.
    pub(super) follows: Vec<u32>,
    /// The number of followers.
    pub(super) followers: u32,
    /// Achievements and times, in the order in which they were granted.
    pub(super) grants: Vec<(Arc<str>, i64)>,
}

impl Actor {
    fn is_idle(&self) -> bool {
        self.items.is_empty() && self.follows.is_empty() && self.grants.is_empty() && self.followers == 0
    }
}

/// Players by number and by id.
#[derive(Default)]
pub(super) struct Actors {
    slots: Vec<Actor>,
    /// The newest item of each player, contiguous in memory: a page reads it for all followed players, but further
    /// items only for a few.
    newest: Vec<ItemPosition>,
    free: Vec<u32>,
    by_id: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Actors {
    pub(super) fn get(&self, actor: u32) -> &Actor {
        &self.slots[actor as usize]
    }

    pub(super) fn get_mut(&mut self, actor: u32) -> &mut Actor {
        &mut self.slots[actor as usize]
    }

    /// Returns all numbers that are or were in use.
    pub(super) fn numbers(&self) -> std::ops::Range<u32> {
        0..self.slots.len() as u32
    }

    /// Returns the number of players.
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn find(&self, id: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(id);
        self.by_id.find(hash, |&actor| *self.get(actor).id == *id).copied()
    }

    pub(super) fn by_id(&self, id: &str) -> Option<&Actor> {
        self.find(id).map(|actor| self.get(actor))
    }

    pub(super) fn find_or_add(&mut self, id: &str) -> u32 {
        if let Some(actor) = self.find(id) {
            return actor;
        }
        let actor = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Actor::default());
            self.newest.push(ItemPosition::OLDEST);
            u32::try_from(self.slots.len() - 1).expect("the number of players is limited")
        });
        self.slots[actor as usize].id = id.into();
        let (slots, hasher) = (&self.slots, &self.hasher);
        let hash_of = |actor: &u32| hasher.hash_one(&*slots[*actor as usize].id);
        self.by_id.insert_unique(hasher.hash_one(id), actor, hash_of);
        actor
    }

    /// Returns the player's newest item, or [`ItemPosition::OLDEST`] if there is none.
    pub(super) fn newest(&self, actor: u32) -> ItemPosition {
        self.newest[actor as usize]
    }

    /// Must be called after items were added or removed.
    pub(super) fn update_newest(&mut self, actor: u32) {
        self.newest[actor as usize] = self.get(actor).items.last().copied().unwrap_or(ItemPosition::OLDEST);
    }

    /// Removes a player who has no items, follows, followers or grants. Returns true if it did.
    pub(super) fn remove_if_idle(&mut self, actor: u32) -> bool {
        if !self.get(actor).is_idle() {
            return false;
        }
        let idle = std::mem::take(self.get_mut(actor));
        if let Ok(entry) = self.by_id.find_entry(self.hasher.hash_one(&*idle.id), |&other| other == actor) {
            entry.remove();
        }
        self.free.push(actor);
        true
    }
}
