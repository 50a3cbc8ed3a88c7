//! The sorted lists of published levels.
//!
//! Popular, newest and recent always exist. The lists of days are built when they are first read on a day, with one
//! pass over all levels (30 ms for 100,000), and kept up to date from then on: a vote moves one level in each list in
//! logarithmic time. A page costs 20 ns for each level before it. A level takes 35 bytes in each list.

use std::collections::BTreeSet;

use parking_lot::RwLock;

use super::level::{Level, LevelArena};
use super::votes::VoteTally;

/// The order of a list: by which votes, or by time. Levels with equal scores are ordered by the number of votes, then
/// newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelMode {
    /// By all votes.
    Popular,
    /// By time of creation, newest first.
    Newest,
    /// By each level's last hundred votes.
    Recent,
    /// By votes cast today. This mode and the ones below only list levels with votes on these days.
    Today,
    /// By votes cast yesterday.
    Yesterday,
    /// By votes of the last seven days, including today.
    Days7,
    /// By votes of the last thirty days, including today.
    Days30,
    /// By votes of the last ninety days, including today.
    Days90,
}

const ALL_TIME: [LevelMode; 3] = [LevelMode::Popular, LevelMode::Newest, LevelMode::Recent];
const BY_DAYS: [LevelMode; 5] =
    [LevelMode::Today, LevelMode::Yesterday, LevelMode::Days7, LevelMode::Days30, LevelMode::Days90];

impl LevelMode {
    /// Returns the name in requests.
    pub fn label(self) -> &'static str {
        ["popular", "newest", "recent", "today", "yesterday", "7d", "30d", "90d"][self as usize]
    }

    /// Returns the mode with this name.
    pub fn from_label(label: &str) -> Option<LevelMode> {
        ALL_TIME.into_iter().chain(BY_DAYS).find(|mode| mode.label() == label)
    }

    /// Returns the first and the last day whose votes count.
    pub(super) fn days(self, today: u32) -> Option<(u32, u32)> {
        let back = |first: u32, last: u32| Some((today.saturating_sub(first), today.saturating_sub(last)));
        match self {
            LevelMode::Popular | LevelMode::Newest | LevelMode::Recent => None,
            LevelMode::Today => back(0, 0),
            LevelMode::Yesterday => back(1, 1),
            LevelMode::Days7 => back(6, 0),
            LevelMode::Days30 => back(29, 0),
            LevelMode::Days90 => back(89, 0),
        }
    }

    /// Returns the votes that decide the order.
    pub(super) fn tally(self, level: &Level, today: u32) -> VoteTally {
        match (self, self.days(today)) {
            (_, Some((first, last))) => level.votes.between(first, last),
            (LevelMode::Recent, None) => level.votes.recent(),
            (_, None) => level.votes.all(),
        }
    }
}

/// The sort key of a level; the greatest is listed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OrderKey {
    /// The bits of a score, which is never negative, or a time: both sort like the numbers.
    by: u64,
    votes: u32,
    sequence: u64,
    pub(super) slot: u32,
}

impl OrderKey {
    /// Returns the key of a level in this mode; `None` if it is not listed.
    pub(super) fn of(mode: LevelMode, level: &Level, slot: u32, today: u32) -> Option<OrderKey> {
        let sequence = level.sequence;
        if mode == LevelMode::Newest {
            return Some(OrderKey { by: level.created_ms.max(0) as u64, votes: 0, sequence, slot });
        }
        let tally = mode.tally(level, today);
        if tally.votes == 0 && mode.days(today).is_some() {
            return None;
        }
        Some(OrderKey { by: tally.score().to_bits(), votes: tally.votes, sequence, slot })
    }

    /// Returns the least key of levels created at this time, in mode `newest`.
    fn created_at(ms: i64) -> OrderKey {
        OrderKey { by: ms.max(0) as u64, votes: 0, sequence: 0, slot: 0 }
    }
}

/// The published levels in every order.
#[derive(Debug, Default)]
pub(super) struct LevelOrders {
    all_time: [BTreeSet<OrderKey>; ALL_TIME.len()],
    by_days: RwLock<DayOrders>,
}

#[derive(Debug, Default)]
struct DayOrders {
    today: u32,
    orders: [Option<BTreeSet<OrderKey>>; BY_DAYS.len()],
}

impl LevelOrders {
    /// Adds a level.
    pub(super) fn insert(&mut self, level: &Level, slot: u32) {
        self.each(level, slot, |order, place| {
            order.insert(place);
        });
    }

    /// Removes a level, which must not have changed since it was added.
    pub(super) fn remove(&mut self, level: &Level, slot: u32) {
        self.each(level, slot, |order, place| {
            order.remove(&place);
        });
    }

    fn each(&mut self, level: &Level, slot: u32, change: impl Fn(&mut BTreeSet<OrderKey>, OrderKey)) {
        for (mode, order) in ALL_TIME.into_iter().zip(&mut self.all_time) {
            if let Some(place) = OrderKey::of(mode, level, slot, 0) {
                change(order, place);
            }
        }
        let by_days = self.by_days.get_mut();
        for (mode, order) in BY_DAYS.into_iter().zip(&mut by_days.orders) {
            let Some(order) = order else { continue };
            if let Some(place) = OrderKey::of(mode, level, slot, by_days.today) {
                change(order, place);
            }
        }
    }

    /// Returns the number of levels in the list, and the slots of one page.
    pub(super) fn page(
        &self,
        mode: LevelMode,
        today: u32,
        arena: &LevelArena,
        skip: usize,
        take: usize,
    ) -> (usize, Vec<u32>) {
        let cut = |order: &BTreeSet<OrderKey>| {
            let slots = order.iter().rev().skip(skip).take(take).map(|place| place.slot);
            (order.len(), slots.collect())
        };
        let Some(index) = BY_DAYS.iter().position(|it| *it == mode) else {
            return cut(&self.all_time[mode as usize]);
        };
        if let Some(order) = self.by_days.read().of(index, today) {
            return cut(order);
        }
        let mut by_days = self.by_days.write();
        by_days.build(index, mode, today, arena);
        cut(by_days.of(index, today).expect("it was built above"))
    }

    /// Returns the slots of the levels created in `from..to`, in milliseconds since 1970.
    pub(super) fn created_between(&self, from_ms: i64, to_ms: i64) -> Vec<u32> {
        if from_ms >= to_ms {
            return Vec::new();
        }
        let newest = &self.all_time[LevelMode::Newest as usize];
        newest
            .range(OrderKey::created_at(from_ms)..OrderKey::created_at(to_ms))
            .map(|place| place.slot)
            .collect()
    }
}

impl DayOrders {
    fn of(&self, index: usize, today: u32) -> Option<&BTreeSet<OrderKey>> {
        self.orders[index].as_ref().filter(|_| self.today == today)
    }

    fn build(&mut self, index: usize, mode: LevelMode, today: u32, arena: &LevelArena) {
        if self.today != today {
            *self = DayOrders { today, ..DayOrders::default() };
        }
        let published = arena.iter().filter(|(_, level)| level.is_published());
        let order = published.filter_map(|(slot, level)| OrderKey::of(mode, level, slot, today));
        self.orders[index] = Some(order.collect());
    }
}
