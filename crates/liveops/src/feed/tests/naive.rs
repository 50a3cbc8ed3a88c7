//! A naive feed: one list of items, searched completely for every page.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{FeedLimits, FeedMode, rfc3339};

#[derive(Clone)]
pub(super) struct ModelItem {
    at: i64,
    pub(super) number: u64,
    pub(super) player: String,
    /// The JSON of the item without time and players; equal items have equal details.
    pub(super) details: Value,
}

/// The feed of a game.
#[derive(Default)]
pub(super) struct NaiveFeed {
    pub(super) items: Vec<ModelItem>,
    pub(super) next: u64,
    floor: (i64, u64),
    pub(super) follows: BTreeSet<(String, String)>,
    pub(super) grants: BTreeMap<(String, String), i64>,
    pub(super) names: BTreeMap<String, String>,
    pub(super) catalogue: BTreeSet<String>,
}

impl NaiveFeed {
    pub(super) fn post(&mut self, limits: FeedLimits, at: i64, player: &str, name: &str, details: Value) {
        let number = self.next;
        self.next += 1;
        if (at, number) <= self.floor {
            return;
        }
        self.items.push(ModelItem { at, number, player: player.to_owned(), details: details.clone() });
        self.items.sort_by_key(|item| (item.at, item.number));
        let is_equal = |item: &ModelItem| item.player == player && item.details == details;
        self.drop_oldest(limits.equal_items, is_equal);
        self.drop_oldest(limits.items_per_player, |item| item.player == player);
        if let Some(floor) = self.drop_oldest(limits.items, |_| true) {
            self.floor = floor;
        }
        if !name.is_empty() {
            self.names.insert(player.to_owned(), name.to_owned());
        }
        self.remove_idle_names();
    }

    fn drop_oldest(&mut self, max: usize, of: impl Fn(&ModelItem) -> bool) -> Option<(i64, u64)> {
        if self.items.iter().filter(|item| of(item)).count() <= max {
            return None;
        }
        let oldest = self.items.iter().position(of)?;
        let evicted = self.items.remove(oldest);
        Some((evicted.at, evicted.number))
    }

    pub(super) fn remove_idle_names(&mut self) {
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
        self.remove_idle_names();
    }

    /// The items of followed players in the order of a mode, each with its round.
    fn places(&self, reader: &str, mode: FeedMode, n: usize, as_of: u64) -> Vec<(usize, &ModelItem)> {
        let followed = |item: &&ModelItem| {
            item.number < as_of && self.follows.contains(&(reader.to_owned(), item.player.clone()))
        };
        let mut rounds: BTreeMap<&str, usize> = BTreeMap::new();
        let mut places = Vec::new();
        for item in self.items.iter().rev().filter(followed) {
            let round = rounds.entry(&item.player).or_default();
            *round += 1;
            places.push((if mode == FeedMode::Fair { *round } else { 0 }, item));
        }
        places.retain(|(round, _)| *round <= n);
        places.sort_by_key(|(round, _)| *round);
        places
    }

    /// Returns a page and the index after it.
    pub(super) fn page(
        &self,
        reader: &str,
        mode: FeedMode,
        n: usize,
        from: usize,
        as_of: u64,
    ) -> (Vec<Value>, Option<usize>) {
        let places = self.places(reader, mode, n, as_of);
        let all = self.places(reader, mode, usize::MAX, as_of);
        let mut page = Vec::new();
        for (index, (_, item)) in places.iter().enumerate() {
            let is_first = places[..index].iter().all(|(_, other)| other.details != item.details);
            if index >= from && is_first {
                page.push(self.item(&all, item));
                if page.len() == n {
                    return (page, (index + 1 < places.len()).then_some(index + 1));
                }
            }
        }
        (page, None)
    }

    fn item(&self, all: &[(usize, &ModelItem)], item: &ModelItem) -> Value {
        let mut equal: Vec<&ModelItem> =
            all.iter().map(|(_, other)| *other).filter(|other| other.details == item.details).collect();
        equal.sort_by_key(|item| std::cmp::Reverse((item.at, item.number)));
        let mut item = item.details.clone();
        item["at"] = rfc3339(equal[0].at).into();
        item["id"] = equal[0].number.to_string().into();
        let mut players: Vec<&str> = Vec::new();
        for item in equal {
            if !players.contains(&&*item.player) {
                players.push(&item.player);
            }
        }
        let name = |player: &&str| self.names.get(*player).cloned().unwrap_or_default();
        item["players"] = players.iter().map(|it| json!({ "player": it, "name": name(it) })).collect();
        item["players_count"] = players.len().into();
        item
    }
}
