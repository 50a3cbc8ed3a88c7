//! Adding and evicting items.
//!
//! The cost of an item does not depend on the number of followers, because nothing is written for them.

use super::Feed;
use super::activity_key::{ActivityKey, ActivityKeyBytes};
use super::actors::Actor;
use super::item_position::ItemPosition;
use super::records;

/// The limits of a game's feed.
#[derive(Clone, Copy)]
pub(super) struct FeedLimits {
    /// Items of each player; the oldest are evicted.
    pub(super) items_per_player: usize,
    /// Equal items of one player; the oldest are evicted. Only one is shown. The others keep the position that earlier
    /// pages have shown, for readers who continue from those.
    pub(super) equal_items: usize,
    /// Items of a game; the oldest are evicted.
    pub(super) items: usize,
    /// Items in one record: a new item rewrites at most this many others.
    pub(super) items_per_record: u8,
    /// Follows of a game.
    pub(super) follows: usize,
    /// Players in the feed of a game.
    pub(super) players: usize,
}

impl Default for FeedLimits {
    fn default() -> FeedLimits {
        FeedLimits {
            items_per_player: 1_000,
            equal_items: 4,
            items: 1 << 24,
            items_per_record: 32,
            follows: 1 << 26,
            players: 1 << 24,
        }
    }
}

/// An item to be added.
pub(super) struct NewItem<'a> {
    pub(super) at_ms: i64,
    pub(super) player: &'a str,
    /// If empty, the known name stays.
    pub(super) name: &'a str,
    pub(super) activity: ActivityKey<'a>,
    /// The body in the blob store.
    pub(super) body: Option<Vec<u8>>,
}

impl Feed {
    /// Adds an item and returns its number. Drops an item that is older than all kept ones.
    pub(super) fn post(&mut self, post: NewItem<'_>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.dirty.insert(records::state_key());
        let position = ItemPosition::new(post.at_ms, number, 0);
        if self.has_room_for(post.player) && position > self.floor {
            let actor = self.actors.find_or_add(post.player);
            self.rename(actor, post.name);
            self.add_item(actor, position, &post.activity.bytes(), post.body);
            self.evict_over_limits(actor);
        }
        number
    }

    /// Returns true if the player is known or another one can be added.
    pub(super) fn has_room_for(&self, player: &str) -> bool {
        self.actors.len() < self.limits.players || self.actors.find(player).is_some()
    }

    pub(super) fn rename(&mut self, actor: u32, name: &str) {
        let player = self.actors.get_mut(actor);
        if !name.is_empty() && *player.name != *name {
            player.name = name.into();
            self.dirty.insert(records::name_key(&player.id));
        }
    }

    fn add_item(&mut self, actor: u32, position: ItemPosition, activity: &[u8], body: Option<Vec<u8>>) {
        let position = position.with_tail(self.activities.add(activity, position.with_tail(actor)));
        self.items += 1;
        let items_per_record = self.limits.items_per_record;
        self.update_items(actor, |it| {
            if it.items.len() == it.items.capacity() {
                // Grows by a quarter instead of doubling: these lists are most of the feed's memory.
                it.items.reserve_exact(it.items.len() / 4 + 2);
            }
            it.items.insert(it.items.partition_point(|other| *other < position), position);
            it.assign_chunk(position.number(), items_per_record);
        });
        self.mark_chunk_changed(actor, position.number());
        if let Some(body) = body {
            self.blobs.put(activity, body);
        }
        self.evict_repeated(actor, position.tail());
    }

    fn evict_repeated(&mut self, actor: u32, activity: u32) {
        let (mut count, mut oldest) = (0, None);
        self.activities.occurrences(activity).of(actor, |position| {
            count += 1;
            oldest = oldest.map_or(Some(position), |oldest: ItemPosition| Some(oldest.min(position)));
        });
        if let Some(oldest) = oldest.filter(|_| count > self.limits.equal_items) {
            let place = self.actors.get(actor).items.binary_search(&oldest.with_tail(activity));
            self.remove_item(actor, place.expect("each occurrence is an item of its player"));
        }
    }

    fn evict_over_limits(&mut self, actor: u32) {
        if self.actors.get(actor).items.len() > self.limits.items_per_player {
            self.remove_item(actor, 0);
        }
        if self.items > self.limits.items {
            let oldest = *self.oldest.first().expect("there are items");
            self.floor = oldest.with_tail(0);
            self.remove_item(oldest.tail(), 0);
            self.remove_if_idle(oldest.tail());
        }
    }

    /// Removes an item, but not the player.
    pub(super) fn remove_item(&mut self, actor: u32, index: usize) {
        let item = self.actors.get(actor).items[index];
        self.mark_chunk_changed(actor, item.number());
        self.update_items(actor, |it| {
            it.items.remove(index);
        });
        self.items -= 1;
        if let Some(activity) = self.activities.remove(item.tail(), item.with_tail(actor)) {
            self.remove_body(&activity);
        }
    }

    fn remove_body(&mut self, activity: &ActivityKeyBytes) {
        if ActivityKey::has_body(activity.get()) {
            self.blobs.remove(activity.get());
        }
    }

    fn update_items(&mut self, actor: u32, change: impl FnOnce(&mut Actor)) {
        let it = self.actors.get_mut(actor);
        let before = it.items.first().copied();
        change(it);
        let after = it.items.first().copied();
        self.actors.update_newest(actor);
        if before != after {
            before.map(|first| self.oldest.remove(&first.with_tail(actor)));
            self.oldest.extend(after.map(|first| first.with_tail(actor)));
        }
    }

    /// Removes a player who has no items, follows, followers or grants.
    pub(super) fn remove_if_idle(&mut self, actor: u32) {
        let key = records::name_key(&self.actors.get(actor).id);
        if self.actors.remove_if_idle(actor) {
            self.dirty.insert(key);
        }
    }

    fn mark_chunk_changed(&mut self, actor: u32, number: u64) {
        let it = self.actors.get(actor);
        if let Some(start) = it.chunk_of(number) {
            self.dirty.insert(records::items_key(&it.id, start));
        }
    }
}

impl Actor {
    /// Assigns a new item to the last record, or to a new one.
    fn assign_chunk(&mut self, number: u64, len_max: u8) {
        if self.chunks.is_empty() || self.chunk_len >= len_max {
            self.chunks.push(number);
            self.chunk_len = 0;
        }
        self.chunk_len += 1;
    }

    /// Returns the record of the item with this number.
    fn chunk_of(&self, number: u64) -> Option<u64> {
        let after = self.chunks.partition_point(|start| *start <= number);
        self.chunks[..after].last().copied()
    }

    /// Returns the items of a record.
    pub(super) fn chunk_items(&self, start: u64) -> Vec<ItemPosition> {
        if self.chunks.binary_search(&start).is_err() {
            return Vec::new();
        }
        let items = self.items.iter().copied();
        items.filter(|item| self.chunk_of(item.number()) == Some(start)).collect()
    }

    /// Removes an empty record.
    pub(super) fn remove_chunk(&mut self, start: u64) {
        if self.chunks.last() == Some(&start) {
            self.chunk_len = u8::MAX;
        }
        self.chunks.retain(|other| *other != start);
    }
}
