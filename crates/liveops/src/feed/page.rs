//! Pages of the feed: chosen among the newest of each of the followed, equal items collapsed.
//!
//! Nothing is prepared for a reader. A page looks once at each of the followed, then only at the items that it shows
//! or passes over, in one of two orders:
//!
//! - `latest`: the newest item first.
//! - `fair` with `n`: the newest item of each of the followed, newest first, then the second newest of each, up to the
//!   n-th. Whoever does a hundred things an hour stands in as many rounds once each.
//!
//! Equal items of several are one group, which stands where the first of them stands in that order, and names
//! everybody. A page reads the feed as it was when the first page was asked for, which its cursor says: what comes
//! later moves nothing on it.

use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

use super::Feed;
use super::cursor::Cursor;
use super::deeds::Doers;
use super::stamp::Stamp;

/// What one page may look at, in items and in players; about 20 ns each. A page that would look at more ends early,
/// and the next one goes on from there.
const WORK_MAX: usize = 300_000;
/// The least work of an item that is passed over.
const ITEM_WORK: usize = 4;

/// In which order a page is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The newest first.
    Latest,
    /// The newest of each, then the second newest of each, and so on.
    Fair,
}

/// Equal items of the followed.
pub(super) struct Group {
    /// The newest of them; its tail is the deed.
    pub(super) item: Stamp,
    /// The items themselves, in no order; the tails are players.
    pub(super) members: Vec<Stamp>,
}

/// A page, before it is told.
#[derive(Default)]
pub(super) struct Groups {
    pub(super) groups: Vec<Group>,
    pub(super) next: Option<Cursor>,
}

/// One reader's walk through the items of the followed.
struct Walk<'a> {
    feed: &'a Feed,
    followed: &'a [u32],
    /// A bit for each player.
    is_followed: Vec<u64>,
    mode: Mode,
    n: usize,
    from: Option<Cursor>,
    /// Items of this number and later ones are not there yet.
    as_of: u64,
    work: usize,
    /// Deeds that were met on this page.
    met: HashSet<u32, FxBuildHasher>,
    page: Groups,
}

/// An item that may be the next one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// The tail is the deed.
    item: Stamp,
    actor: u32,
}

impl Feed {
    pub(super) fn groups(&self, player: &str, mode: Mode, n: usize, from: Option<Cursor>) -> Groups {
        let followed = self.followed(player);
        let mut walk = Walk {
            feed: self,
            followed,
            is_followed: vec![0; (self.actors.numbers().len()).div_ceil(64)],
            mode,
            n,
            from,
            as_of: from.map_or(self.next, |from| from.as_of),
            work: 0,
            met: HashSet::default(),
            page: Groups::default(),
        };
        for &actor in followed {
            walk.is_followed[actor as usize / 64] |= 1 << (actor % 64);
        }
        match mode {
            Mode::Latest => walk.latest(),
            Mode::Fair => walk.fair(),
        }
        walk.page
    }
}

impl Walk<'_> {
    fn latest(&mut self) {
        let before = self.from.map(|from| from.item);
        let newest = self.followed.iter().filter_map(|&actor| self.newest(actor, before));
        let mut heap = BinaryHeap::from(newest.collect::<Vec<_>>());
        self.work += self.followed.len();
        while let Some(candidate) = self.take_newest(&mut heap) {
            self.visit(candidate, 0);
            if self.is_full() {
                let next = Cursor { round: 0, item: candidate.item.with(0), as_of: self.as_of };
                self.page.next = (!heap.is_empty()).then_some(next);
                return;
            }
        }
    }

    /// The newest item, with the next one of the same player in its place.
    fn take_newest(&self, heap: &mut BinaryHeap<Candidate>) -> Option<Candidate> {
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
                    let next = Cursor { round, item: candidate.item.with(0), as_of: self.as_of };
                    self.page.next = (!heap.is_empty() || !is_last).then_some(next);
                    return;
                }
            }
            if is_last {
                return;
            }
        }
    }

    /// The newest item of one of the followed, or the newest before another.
    fn newest(&self, actor: u32, before: Option<Stamp>) -> Option<Candidate> {
        let newest = self.feed.actors.newest(actor);
        let is_before = |item: Stamp| before.is_none_or(|before| item < before);
        let is_there = |item: &Stamp| item.number() < self.as_of;
        if newest == Stamp::OLDEST {
            return None;
        }
        if is_before(newest) && is_there(&newest) {
            return Some(Candidate { item: newest, actor });
        }
        let items = &self.feed.actors.get(actor).items;
        let items = &items[..items.partition_point(|item| is_before(*item))];
        items.iter().rev().find(|item| is_there(item)).map(|&item| Candidate { item, actor })
    }

    /// The items of one round that come after `before`; whether nobody has one for the next round.
    fn round(&mut self, round: usize, before: Option<Stamp>) -> (BinaryHeap<Candidate>, bool) {
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

    fn newest_items(&self, actor: u32) -> impl Iterator<Item = Stamp> {
        let items = self.feed.actors.get(actor).items.iter().rev();
        items.copied().filter(|item| item.number() < self.as_of)
    }

    fn is_full(&self) -> bool {
        self.page.groups.len() == self.n || self.work > WORK_MAX
    }

    /// Shows an item with all that equal it, unless they stood somewhere before.
    fn visit(&mut self, candidate: Candidate, round: usize) {
        self.work += ITEM_WORK;
        let deed = candidate.item.tail();
        if !self.met.insert(deed) {
            return;
        }
        let members = self.members(deed);
        let item = candidate.item.with(candidate.actor);
        // What stands before it on this page was met; so on the first page it is the first.
        let is_before = |other: &Stamp| self.is_before(*other, deed, item, round);
        if self.from.is_none() || !members.iter().any(is_before) {
            let newest = members.iter().max().copied().unwrap_or(item);
            self.page.groups.push(Group { item: newest.with(deed), members });
        }
    }

    /// All items of the followed with this deed. Goes through the fewer of the two: who did it, or who is followed.
    fn members(&mut self, deed: u32) -> Vec<Stamp> {
        let doers = self.feed.deeds.doers(deed);
        let mut members = Vec::new();
        let mut add = |doer: Stamp| {
            if doer.number() < self.as_of {
                members.push(doer);
            }
        };
        if matches!(doers, Doers::Many(_)) && doers.len() > self.followed.len() {
            self.followed.iter().for_each(|&actor| doers.of(actor, &mut add));
        } else {
            let is_followed = |actor: u32| self.is_followed[actor as usize / 64] >> (actor % 64) & 1 == 1;
            doers.each(|doer| {
                if is_followed(doer.tail()) {
                    add(doer)
                }
            });
        }
        // Those who equal are looked at again: whether they stand before, and by which names.
        self.work += doers.len().min(self.followed.len()) + 2 * members.len();
        members
    }

    /// Whether an equal item stands before this one, which is in this round.
    fn is_before(&self, other: Stamp, deed: u32, item: Stamp, round: usize) -> bool {
        if self.mode == Mode::Latest {
            return other > item;
        }
        let rounds = if other > item { round } else { round - 1 };
        self.newest_items(other.tail()).take(rounds).any(|it| it == other.with(deed))
    }
}
