//! A naive feed: one list of items, and every answer made by looking at all of it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Limits, Mode, rfc3339};

/// An item as the model keeps it.
#[derive(Clone)]
pub(super) struct Item {
    at: i64,
    number: u64,
    player: String,
    /// What is told of it beside time and players; equal items have equal ones.
    what: Value,
}

/// All of a game's feed.
#[derive(Default)]
pub(super) struct Naive {
    pub(super) items: Vec<Item>,
    pub(super) next: u64,
    floor: (i64, u64),
    pub(super) follows: BTreeSet<(String, String)>,
    pub(super) grants: BTreeMap<(String, String), i64>,
    pub(super) names: BTreeMap<String, String>,
    pub(super) catalogue: BTreeSet<String>,
}

impl Naive {
    pub(super) fn post(&mut self, limits: Limits, at: i64, player: &str, name: &str, what: Value) {
        let number = self.next;
        self.next += 1;
        if (at, number) <= self.floor {
            return;
        }
        self.items.push(Item { at, number, player: player.to_owned(), what: what.clone() });
        self.items.sort_by_key(|item| (item.at, item.number));
        let is_equal = |item: &Item| item.player == player && item.what == what;
        self.drop_oldest(limits.equal_items, is_equal);
        self.drop_oldest(limits.items_per_player, |item| item.player == player);
        if let Some(floor) = self.drop_oldest(limits.items, |_| true) {
            self.floor = floor;
        }
        if !name.is_empty() {
            self.names.insert(player.to_owned(), name.to_owned());
        }
        self.forget_idle();
    }

    fn drop_oldest(&mut self, max: usize, of: impl Fn(&Item) -> bool) -> Option<(i64, u64)> {
        if self.items.iter().filter(|item| of(item)).count() <= max {
            return None;
        }
        let oldest = self.items.iter().position(of)?;
        let gone = self.items.remove(oldest);
        Some((gone.at, gone.number))
    }

    pub(super) fn forget_idle(&mut self) {
        let (items, follows, grants) = (&self.items, &self.follows, &self.grants);
        self.names.retain(|player, _| {
            items.iter().any(|item| item.player == *player)
                || follows.iter().any(|(one, other)| one == player || other == player)
                || grants.keys().any(|(granted, _)| granted == player)
        });
    }

    pub(super) fn erase(&mut self, player: &str) {
        self.items.retain(|item| item.player != player);
        self.follows.retain(|(one, other)| one != player && other != player);
        self.grants.retain(|(granted, _), _| granted != player);
        self.names.remove(player);
        self.forget_idle();
    }

    /// The items of the followed in the order of a mode, each with its round.
    fn places(&self, reader: &str, mode: Mode, n: usize, as_of: u64) -> Vec<(usize, &Item)> {
        let followed = |item: &&Item| {
            item.number < as_of && self.follows.contains(&(reader.to_owned(), item.player.clone()))
        };
        let mut rounds: BTreeMap<&str, usize> = BTreeMap::new();
        let mut places = Vec::new();
        for item in self.items.iter().rev().filter(followed) {
            let round = rounds.entry(&item.player).or_default();
            *round += 1;
            places.push((if mode == Mode::Fair { *round } else { 0 }, item));
        }
        places.retain(|(round, _)| *round <= n);
        places.sort_by_key(|(round, _)| *round);
        places
    }

    /// A page, and the place after it.
    pub(super) fn page(
        &self,
        reader: &str,
        mode: Mode,
        n: usize,
        from: usize,
        as_of: u64,
    ) -> (Vec<Value>, Option<usize>) {
        let places = self.places(reader, mode, n, as_of);
        let all = self.places(reader, mode, usize::MAX, as_of);
        let mut page = Vec::new();
        for (index, (_, item)) in places.iter().enumerate() {
            let is_first = places[..index].iter().all(|(_, other)| other.what != item.what);
            if index >= from && is_first {
                page.push(self.told(&all, item));
                if page.len() == n {
                    return (page, (index + 1 < places.len()).then_some(index + 1));
                }
            }
        }
        (page, None)
    }

    fn told(&self, all: &[(usize, &Item)], item: &Item) -> Value {
        let mut equal: Vec<&Item> =
            all.iter().map(|(_, other)| *other).filter(|other| other.what == item.what).collect();
        equal.sort_by_key(|item| std::cmp::Reverse((item.at, item.number)));
        let mut told = item.what.clone();
        told["at"] = rfc3339(equal[0].at).into();
        told["id"] = equal[0].number.to_string().into();
        let mut players: Vec<&str> = Vec::new();
        for item in equal {
            if !players.contains(&&*item.player) {
                players.push(&item.player);
            }
        }
        let name = |player: &&str| self.names.get(*player).cloned().unwrap_or_default();
        told["players"] = players.iter().map(|it| json!({ "player": it, "name": name(it) })).collect();
        told["players_count"] = players.len().into();
        told
    }
}
