//! The players that the feed knows: who they are, what they did, whom they follow, what they were granted.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::stamp::Stamp;

/// A player. Players are numbered as they come; the numbers are not stored and differ from start to start.
#[derive(Default)]
pub(super) struct Actor {
    /// Empty: nobody, this number is free.
    pub(super) id: Box<str>,
    /// As last told; empty when never.
    pub(super) name: Box<str>,
    /// What this player did, oldest first; the tails are deeds.
    pub(super) items: Vec<Stamp>,
    /// The records that hold the items: the number of the first item of each.
    pub(super) chunks: Vec<u64>,
    /// Items that were put into the last of these.
    pub(super) chunk_len: u8,
    /// Whom this player follows, by number.
    pub(super) follows: Vec<u32>,
    /// How many follow this player.
    pub(super) followers: u32,
    /// In the order in which they were granted: the achievement and the time.
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
    /// The newest item of each, close together: a page looks at all the followed, but reads on only with a few.
    newest: Vec<Stamp>,
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

    /// All numbers that are or were in use.
    pub(super) fn numbers(&self) -> std::ops::Range<u32> {
        0..self.slots.len() as u32
    }

    /// Players there are.
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
            self.newest.push(Stamp::OLDEST);
            u32::try_from(self.slots.len() - 1).expect("there are fewer players than this")
        });
        self.slots[actor as usize].id = id.into();
        let (slots, hasher) = (&self.slots, &self.hasher);
        let hash_of = |actor: &u32| hasher.hash_one(&*slots[*actor as usize].id);
        self.by_id.insert_unique(hasher.hash_one(id), actor, hash_of);
        actor
    }

    /// The newest item; [`Stamp::OLDEST`] when there is none.
    pub(super) fn newest(&self, actor: u32) -> Stamp {
        self.newest[actor as usize]
    }

    /// To be called when items came or went.
    pub(super) fn items_changed(&mut self, actor: u32) {
        self.newest[actor as usize] = self.get(actor).items.last().copied().unwrap_or(Stamp::OLDEST);
    }

    /// Forgets a player of whom nothing is left to say; whether it did.
    pub(super) fn forget_if_idle(&mut self, actor: u32) -> bool {
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
