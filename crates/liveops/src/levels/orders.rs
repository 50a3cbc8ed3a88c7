//! The orders in which levels are listed, kept sorted.
//!
//! Popular, newest and recent are always there. The orders of days are made when they are first asked for on a day, with
//! one pass over all levels (30 ms for 100,000), and kept up to date from then on: a vote moves one level in each order,
//! which costs its logarithm. A page costs what lies before it, 20 ns a level. A level takes 35 bytes in each order.

use std::collections::BTreeSet;

use parking_lot::RwLock;

use super::level::{Level, Shelf};
use super::votes::Tally;

/// By which votes, or by what else, levels are ordered. Ties: more votes first, then the newer level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All votes.
    Popular,
    /// When it was made, the latest first.
    Newest,
    /// Each level's last hundred votes.
    Recent,
    /// Votes given today. This and the modes below list only levels that got a vote on these days.
    Today,
    /// Votes given yesterday.
    Yesterday,
    /// Votes of the last seven days, today included.
    Days7,
    /// Votes of the last thirty days, today included.
    Days30,
    /// Votes of the last ninety days, today included.
    Days90,
}

const STEADY: [Mode; 3] = [Mode::Popular, Mode::Newest, Mode::Recent];
const OF_DAYS: [Mode; 5] = [Mode::Today, Mode::Yesterday, Mode::Days7, Mode::Days30, Mode::Days90];

impl Mode {
    /// The word in requests.
    pub fn label(self) -> &'static str {
        ["popular", "newest", "recent", "today", "yesterday", "7d", "30d", "90d"][self as usize]
    }

    /// The mode of this word.
    pub fn from_label(label: &str) -> Option<Mode> {
        STEADY.into_iter().chain(OF_DAYS).find(|mode| mode.label() == label)
    }

    /// The days whose votes count, first and last, when `today` is today.
    pub(super) fn days(self, today: u32) -> Option<(u32, u32)> {
        let back = |first: u32, last: u32| Some((today.saturating_sub(first), today.saturating_sub(last)));
        match self {
            Mode::Popular | Mode::Newest | Mode::Recent => None,
            Mode::Today => back(0, 0),
            Mode::Yesterday => back(1, 1),
            Mode::Days7 => back(6, 0),
            Mode::Days30 => back(29, 0),
            Mode::Days90 => back(89, 0),
        }
    }

    /// The votes by which this mode orders.
    pub(super) fn tally(self, level: &Level, today: u32) -> Tally {
        match (self, self.days(today)) {
            (_, Some((first, last))) => level.votes.between(first, last),
            (Mode::Recent, None) => level.votes.recent(),
            (_, None) => level.votes.all(),
        }
    }
}

/// Where a level stands; the greatest is listed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// The bits of a score, which is never negative, or a time: either way the order of the numbers.
    by: u64,
    votes: u32,
    sequence: u64,
    pub(super) slot: u32,
}

impl Place {
    /// Where a level stands in this mode, if it is listed there.
    pub(super) fn of(mode: Mode, level: &Level, slot: u32, today: u32) -> Option<Place> {
        let sequence = level.sequence;
        if mode == Mode::Newest {
            return Some(Place { by: level.created_ms.max(0) as u64, votes: 0, sequence, slot });
        }
        let tally = mode.tally(level, today);
        if tally.votes == 0 && mode.days(today).is_some() {
            return None;
        }
        Some(Place { by: tally.score().to_bits(), votes: tally.votes, sequence, slot })
    }

    /// Where the first level made at this time would stand among the newest.
    fn made_at(ms: i64) -> Place {
        Place { by: ms.max(0) as u64, votes: 0, sequence: 0, slot: 0 }
    }
}

/// Published levels in every order.
#[derive(Debug, Default)]
pub(super) struct Orders {
    steady: [BTreeSet<Place>; STEADY.len()],
    of_days: RwLock<OfDays>,
}

#[derive(Debug, Default)]
struct OfDays {
    today: u32,
    orders: [Option<BTreeSet<Place>>; OF_DAYS.len()],
}

impl Orders {
    /// Takes a level in.
    pub(super) fn insert(&mut self, level: &Level, slot: u32) {
        self.each(level, slot, |order, place| {
            order.insert(place);
        });
    }

    /// Takes a level out; it must not have changed since it was taken in.
    pub(super) fn remove(&mut self, level: &Level, slot: u32) {
        self.each(level, slot, |order, place| {
            order.remove(&place);
        });
    }

    fn each(&mut self, level: &Level, slot: u32, change: impl Fn(&mut BTreeSet<Place>, Place)) {
        for (mode, order) in STEADY.into_iter().zip(&mut self.steady) {
            if let Some(place) = Place::of(mode, level, slot, 0) {
                change(order, place);
            }
        }
        let of_days = self.of_days.get_mut();
        for (mode, order) in OF_DAYS.into_iter().zip(&mut of_days.orders) {
            let Some(order) = order else { continue };
            if let Some(place) = Place::of(mode, level, slot, of_days.today) {
                change(order, place);
            }
        }
    }

    /// How many levels the mode lists, and the slots of a page of them.
    pub(super) fn page(
        &self,
        mode: Mode,
        today: u32,
        shelf: &Shelf,
        skip: usize,
        take: usize,
    ) -> (usize, Vec<u32>) {
        let cut = |order: &BTreeSet<Place>| {
            let slots = order.iter().rev().skip(skip).take(take).map(|place| place.slot);
            (order.len(), slots.collect())
        };
        let Some(index) = OF_DAYS.iter().position(|it| *it == mode) else {
            return cut(&self.steady[mode as usize]);
        };
        if let Some(order) = self.of_days.read().of(index, today) {
            return cut(order);
        }
        let mut of_days = self.of_days.write();
        of_days.make(index, mode, today, shelf);
        cut(of_days.of(index, today).expect("it was made just now"))
    }

    /// The slots of the levels made in `from..to`, milliseconds since 1970.
    pub(super) fn made_between(&self, from_ms: i64, to_ms: i64) -> Vec<u32> {
        if from_ms >= to_ms {
            return Vec::new();
        }
        let newest = &self.steady[Mode::Newest as usize];
        newest.range(Place::made_at(from_ms)..Place::made_at(to_ms)).map(|place| place.slot).collect()
    }
}

impl OfDays {
    fn of(&self, index: usize, today: u32) -> Option<&BTreeSet<Place>> {
        self.orders[index].as_ref().filter(|_| self.today == today)
    }

    fn make(&mut self, index: usize, mode: Mode, today: u32, shelf: &Shelf) {
        if self.today != today {
            *self = OfDays { today, ..OfDays::default() };
        }
        let published = shelf.iter().filter(|(_, level)| level.is_published());
        let order = published.filter_map(|(slot, level)| Place::of(mode, level, slot, today));
        self.orders[index] = Some(order.collect());
    }
}
