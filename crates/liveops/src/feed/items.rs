//! Items come and go: one more for who did something, and the oldest goes when there are too many.
//!
//! The cost of an item does not depend on who follows: nothing is written for a follower.

use super::Feed;
use super::actors::Actor;
use super::deed::{Deed, DeedBytes};
use super::records;
use super::stamp::Stamp;

/// How much is kept.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// The newest items of each player.
    pub(super) items_per_player: usize,
    /// The newest of equal items of one player. One is shown; the others tell where it stood before, for whoever
    /// reads on from a page that was asked for earlier.
    pub(super) equal_items: usize,
    /// The newest items of a game.
    pub(super) items: usize,
    /// Items in one record, so that a new item rewrites at most so many others.
    pub(super) items_per_record: u8,
    /// Follows in a game.
    pub(super) follows: usize,
    /// Players that the feed of a game knows.
    pub(super) players: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            items_per_player: 1_000,
            equal_items: 4,
            items: 1 << 24,
            items_per_record: 32,
            follows: 1 << 26,
            players: 1 << 24,
        }
    }
}

/// Something that a player did.
pub(super) struct Post<'a> {
    pub(super) at_ms: i64,
    pub(super) player: &'a str,
    /// Empty: the one that is known stays.
    pub(super) name: &'a str,
    pub(super) deed: Deed<'a>,
    /// What stands on disk beside the deed.
    pub(super) body: Option<Vec<u8>>,
}

impl Feed {
    /// Adds an item and gives its number. An item older than all that is kept is not kept either.
    pub(super) fn post(&mut self, post: Post<'_>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.dirty.insert(records::state_key());
        let stamp = Stamp::new(post.at_ms, number, 0);
        if self.has_room_for(post.player) && stamp > self.floor {
            let actor = self.actors.find_or_add(post.player);
            self.rename(actor, post.name);
            self.add_item(actor, stamp, &post.deed.bytes(), post.body);
            self.forget_too_many(actor);
        }
        number
    }

    /// Whether this player is known, or one more can be.
    pub(super) fn has_room_for(&self, player: &str) -> bool {
        self.actors.len() < self.limits.players || self.actors.find(player).is_some()
    }

    pub(super) fn rename(&mut self, actor: u32, name: &str) {
        let known = self.actors.get_mut(actor);
        if !name.is_empty() && *known.name != *name {
            known.name = name.into();
            self.dirty.insert(records::name_key(&known.id));
        }
    }

    fn add_item(&mut self, actor: u32, stamp: Stamp, deed: &[u8], body: Option<Vec<u8>>) {
        let stamp = stamp.with(self.deeds.add(deed, stamp.with(actor)));
        self.items += 1;
        let items_per_record = self.limits.items_per_record;
        self.change_items(actor, |it| {
            if it.items.len() == it.items.capacity() {
                // A quarter more instead of twice as much: most of the feed's memory is these lists.
                it.items.reserve_exact(it.items.len() / 4 + 2);
            }
            it.items.insert(it.items.partition_point(|other| *other < stamp), stamp);
            it.chunk(stamp.number(), items_per_record);
        });
        self.chunk_changed(actor, stamp.number());
        if let Some(body) = body {
            self.blobs.put(deed, body);
        }
        self.forget_repeated(actor, stamp.tail());
    }

    fn forget_repeated(&mut self, actor: u32, deed: u32) {
        let (mut count, mut oldest) = (0, None);
        self.deeds.doers(deed).of(actor, |stamp| {
            count += 1;
            oldest = oldest.map_or(Some(stamp), |oldest: Stamp| Some(oldest.min(stamp)));
        });
        if let Some(oldest) = oldest.filter(|_| count > self.limits.equal_items) {
            let place = self.actors.get(actor).items.binary_search(&oldest.with(deed));
            self.remove_item(actor, place.expect("each doer of a deed has it among the items"));
        }
    }

    fn forget_too_many(&mut self, actor: u32) {
        if self.actors.get(actor).items.len() > self.limits.items_per_player {
            self.remove_item(actor, 0);
        }
        if self.items > self.limits.items {
            let oldest = *self.oldest.first().expect("there are items");
            self.floor = oldest.with(0);
            self.remove_item(oldest.tail(), 0);
            self.forget_if_idle(oldest.tail());
        }
    }

    /// Takes an item away. The player stays known.
    pub(super) fn remove_item(&mut self, actor: u32, index: usize) {
        let item = self.actors.get(actor).items[index];
        self.chunk_changed(actor, item.number());
        self.change_items(actor, |it| {
            it.items.remove(index);
        });
        self.items -= 1;
        if let Some(deed) = self.deeds.remove(item.tail(), item.with(actor)) {
            self.forget_body(&deed);
        }
    }

    fn forget_body(&mut self, deed: &DeedBytes) {
        if Deed::has_body(deed.get()) {
            self.blobs.remove(deed.get());
        }
    }

    fn change_items(&mut self, actor: u32, change: impl FnOnce(&mut Actor)) {
        let it = self.actors.get_mut(actor);
        let before = it.items.first().copied();
        change(it);
        let after = it.items.first().copied();
        self.actors.items_changed(actor);
        if before != after {
            before.map(|first| self.oldest.remove(&first.with(actor)));
            self.oldest.extend(after.map(|first| first.with(actor)));
        }
    }

    /// Forgets a player of whom nothing is left to say.
    pub(super) fn forget_if_idle(&mut self, actor: u32) {
        let key = records::name_key(&self.actors.get(actor).id);
        if self.actors.forget_if_idle(actor) {
            self.dirty.insert(key);
        }
    }

    fn chunk_changed(&mut self, actor: u32, number: u64) {
        let it = self.actors.get(actor);
        if let Some(start) = it.chunk_of(number) {
            self.dirty.insert(records::items_key(&it.id, start));
        }
    }
}

impl Actor {
    /// Makes room for a new item in the last record, or in a new one.
    fn chunk(&mut self, number: u64, len_max: u8) {
        if self.chunks.is_empty() || self.chunk_len >= len_max {
            self.chunks.push(number);
            self.chunk_len = 0;
        }
        self.chunk_len += 1;
    }

    /// The record of the item with this number.
    fn chunk_of(&self, number: u64) -> Option<u64> {
        let after = self.chunks.partition_point(|start| *start <= number);
        self.chunks[..after].last().copied()
    }

    /// The items of one record.
    pub(super) fn chunk_items(&self, start: u64) -> Vec<Stamp> {
        if self.chunks.binary_search(&start).is_err() {
            return Vec::new();
        }
        let items = self.items.iter().copied();
        items.filter(|item| self.chunk_of(item.number()) == Some(start)).collect()
    }

    /// There is nothing left in this record.
    pub(super) fn forget_chunk(&mut self, start: u64) {
        if self.chunks.last() == Some(&start) {
            self.chunk_len = u8::MAX;
        }
        self.chunks.retain(|other| *other != start);
    }
}
