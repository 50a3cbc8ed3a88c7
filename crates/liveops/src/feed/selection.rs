//! Selecting a page: the newest items of each followed player, with equal items collapsed.
//!
//! Nothing is precomputed for a reader. A page looks once at each followed player, then only at the items that it shows
//! or skips, in one of two orders:
//!
//! - `latest`: the newest item first.
//! - `fair` with `n`: the newest item of each followed player, newest first, then the second newest of each, up to the
//!   n-th. A player with a hundred items an hour appears once in each round.
//!
//! Equal items of several players are one group at the position of the first of them in that order, with all players.
//! All pages show the feed as of the first page, which the cursor records, so that later items do not move anything.

use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

use super::Feed;
use super::activities::Occurrences;
use super::cursor::Cursor;
use super::item_position::ItemPosition;

/// The work of one page, in items and players; about 20 ns each. A page that would need more ends early, and the next
/// one continues from there.
const WORK_MAX: usize = 300_000;
/// The work of an item that is skipped.
const ITEM_WORK: usize = 4;

/// The order of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedMode {
    /// Newest first.
    Latest,
    /// The newest of each followed player, then the second newest of each, and so on.
    Fair,
}

/// Equal items of followed players.
pub(super) struct ItemGroup {
    /// The newest of them; its tail is the activity.
    pub(super) item: ItemPosition,
    /// All of them, in no particular order; the tails are players.
    pub(super) members: Vec<ItemPosition>,
}

/// The groups of a page and the cursor of the next one.
#[derive(Default)]
pub(super) struct GroupPage {
    pub(super) groups: Vec<ItemGroup>,
    pub(super) next: Option<Cursor>,
}

/// The state of selecting one page.
struct PageWalk<'a> {
    feed: &'a Feed,
    followed: &'a [u32],
    /// One bit per player.
    is_followed: Vec<u64>,
    mode: FeedMode,
    n: usize,
    from: Option<Cursor>,
    /// Items with this number and greater ones are ignored.
    as_of: u64,
    work: usize,
    /// Activities that were visited on this page.
    seen: HashSet<u32, FxBuildHasher>,
    page: GroupPage,
}

/// The next item of a player.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// The tail is the activity.
    item: ItemPosition,
    actor: u32,
}

impl Feed {
    pub(super) fn groups(&self, player: &str, mode: FeedMode, n: usize, from: Option<Cursor>) -> GroupPage {
        let followed = self.followed(player);
        let mut walk = PageWalk {
            feed: self,
            followed,
            is_followed: vec![0; (self.actors.numbers().len()).div_ceil(64)],
            mode,
            n,
            from,
            as_of: from.map_or(self.next, |from| from.as_of),
            work: 0,
            seen: HashSet::default(),
            page: GroupPage::default(),
        };
        for &actor in followed {
            walk.is_followed[actor as usize / 64] |= 1 << (actor % 64);
        }
        match mode {
            FeedMode::Latest => walk.latest(),
            FeedMode::Fair => walk.fair(),
        }
        walk.page
    }
}

impl PageWalk<'_> {
    fn latest(&mut self) {
        let before = self.from.map(|from| from.item);
        let newest = self.followed.iter().filter_map(|&actor| self.newest(actor, before));
        let mut heap = BinaryHeap::from(newest.collect::<Vec<_>>());
        self.work += self.followed.len();
        while let Some(candidate) = self.pop_newest(&mut heap) {
            self.visit(candidate, 0);
            if self.is_full() {
                let next = Cursor { round: 0, item: candidate.item.with_tail(0), as_of: self.as_of };
                self.page.next = (!heap.is_empty()).then_some(next);
                return;
            }
        }
    }

    /// Returns the newest candidate and replaces it with the next one of the same player.
    fn pop_newest(&self, heap: &mut BinaryHeap<Candidate>) -> Option<Candidate> {
        let mut top = heap.peek_mut()?;
        let candidate = *top;
        match self.newest(candidate.actor, Some(candidate.item)) {
            Some(older) => *top = older,
            None => drop(PeekMut::pop(top)),
        }
        Some(candidate)
    }

    fn fair(&mut self) {
        let first_round = self.from.map_or(1, |from| from.round);
        for round in first_round..=self.n {
            let before = self.from.filter(|from| from.round == round).map(|from| from.item);
            let (mut heap, is_last) = self.round(round, before);
            while let Some(candidate) = heap.pop() {
                self.visit(candidate, round);
                if self.is_full() {
                    let next = Cursor { round, item: candidate.item.with_tail(0), as_of: self.as_of };
                    self.page.next = (!heap.is_empty() || !is_last).then_some(next);
                    return;
                }
            }
            if is_last {
                return;
            }
        }
    }

    /// Returns a followed player's newest item, or the newest before `before`.
    fn newest(&self, actor: u32, before: Option<ItemPosition>) -> Option<Candidate> {
        let newest = self.feed.actors.newest(actor);
        let is_before = |item: ItemPosition| before.is_none_or(|before| item < before);
        let is_visible = |item: &ItemPosition| item.number() < self.as_of;
        if newest == ItemPosition::OLDEST {
            return None;
        }
        if is_before(newest) && is_visible(&newest) {
            return Some(Candidate { item: newest, actor });
        }
        let items = &self.feed.actors.get(actor).items;
        let items = &items[..items.partition_point(|item| is_before(*item))];
        items.iter().rev().find(|item| is_visible(item)).map(|&item| Candidate { item, actor })
    }

    /// Returns the items of one round that come after `before`, and true if no player has an item for the next round.
    fn round(&mut self, round: usize, before: Option<ItemPosition>) -> (BinaryHeap<Candidate>, bool) {
        let (mut candidates, mut is_last) = (Vec::new(), round == self.n);
        let mut is_there_more = false;
        for &actor in self.followed {
            let mut items = self.newest_items(actor).skip(round - 1);
            let Some(item) = items.next() else { continue };
            is_there_more |= items.next().is_some();
            if before.is_none_or(|before| item < before) {
                candidates.push(Candidate { item, actor });
            }
        }
        is_last |= !is_there_more;
        self.work += self.followed.len();
        (BinaryHeap::from(candidates), is_last)
    }

    fn newest_items(&self, actor: u32) -> impl Iterator<Item = ItemPosition> {
        let items = self.feed.actors.get(actor).items.iter().rev();
        items.copied().filter(|item| item.number() < self.as_of)
    }

    fn is_full(&self) -> bool {
        self.page.groups.len() == self.n || self.work > WORK_MAX
    }

    /// Adds an item with all equal ones, unless an equal one came earlier.
    fn visit(&mut self, candidate: Candidate, round: usize) {
        self.work += ITEM_WORK;
        let activity = candidate.item.tail();
        if !self.seen.insert(activity) {
            return;
        }
        let members = self.members(activity);
        let item = candidate.item.with_tail(candidate.actor);
        // Items before it on this page were visited, so on the first page it is the first of its group.
        let is_before = |other: &ItemPosition| self.is_before(*other, activity, item, round);
        if self.from.is_none() || !members.iter().any(is_before) {
            let newest = members.iter().max().copied().unwrap_or(item);
            self.page.groups.push(ItemGroup { item: newest.with_tail(activity), members });
        }
    }

    /// Returns all items of followed players with this activity. Iterates over the smaller set: the occurrences or the
    /// followed players.
    fn members(&mut self, activity: u32) -> Vec<ItemPosition> {
        let occurrences = self.feed.activities.occurrences(activity);
        let mut members = Vec::new();
        let mut add = |occurrence: ItemPosition| {
            if occurrence.number() < self.as_of {
                members.push(occurrence);
            }
        };
        if matches!(occurrences, Occurrences::Many(_)) && occurrences.len() > self.followed.len() {
            self.followed.iter().for_each(|&actor| occurrences.of(actor, &mut add));
        } else {
            let is_followed = |actor: u32| self.is_followed[actor as usize / 64] >> (actor % 64) & 1 == 1;
            occurrences.each(|occurrence| {
                if is_followed(occurrence.tail()) {
                    add(occurrence)
                }
            });
        }
        // Members are visited twice more: to check whether they come earlier, and to collect their names.
        self.work += occurrences.len().min(self.followed.len()) + 2 * members.len();
        members
    }

    /// Returns true if an equal item comes before this one, which is in this round.
    fn is_before(&self, other: ItemPosition, activity: u32, item: ItemPosition, round: usize) -> bool {
        if self.mode == FeedMode::Latest {
            return other > item;
        }
        let rounds = if other > item { round } else { round - 1 };
        self.newest_items(other.tail()).take(rounds).any(|it| it == other.with_tail(activity))
    }
}
