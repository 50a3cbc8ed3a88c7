//! The places of a player's runs: their rows in the lists of windows, according to the board's [`KeepRule`].

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::board::{Board, tag};
use super::calendar::WindowInstance;
use super::config::KeepRule;
use super::runs::Run;
use super::tree::{RankKey, RankKeys, Tree};

/// A row in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TreePlace {
    pub list: u32,
    pub instance: u32,
    pub run: u32,
}

impl TreePlace {
    fn is_in_same_tree(&self, other: &TreePlace) -> bool {
        (self.list, self.instance) == (other.list, other.instance)
    }
}

pub(super) type TreePlaces = Vec<TreePlace>;

impl Board {
    pub(super) fn snapshot_before(&mut self, player: u32) {
        let mut before = std::mem::take(&mut self.before);
        self.shown_places(player, &mut before);
        self.before = before;
    }

    /// Updates the trees from the places before to the places now.
    pub(super) fn update_trees_after(&mut self, player: u32) {
        let mut after = std::mem::take(&mut self.after);
        self.shown_places(player, &mut after);
        self.after = after;
        self.replace();
    }

    pub(super) fn replace(&mut self) {
        let (before, after) = (std::mem::take(&mut self.before), std::mem::take(&mut self.after));
        for (old, new) in
            before.iter().zip(&after).filter(|(old, new)| old != new && old.is_in_same_tree(new))
        {
            if let Some(tree) = self.trees.get(&(old.list, old.instance)) {
                tree.prefetch_paths(&self.runs.key(old.run), &self.runs.key(new.run), &self.runs);
            }
        }
        for place in before.iter().filter(|place| !after.contains(place)) {
            self.remove_from_tree(*place, &self.runs.key(place.run));
        }
        for place in after.iter().filter(|place| !before.contains(place)) {
            self.trees.entry((place.list, place.instance)).or_default().insert(place.run, &self.runs);
        }
        (self.before, self.after) = (before, after);
    }

    fn shown_places(&self, player: u32, places: &mut TreePlaces) {
        places.clear();
        if !self.hidden.contains(&player) {
            self.places(player, places);
        }
    }

    /// Appends the places of a player, ignoring bans.
    pub(super) fn places(&self, player: u32, places: &mut TreePlaces) {
        match self.config.keep {
            KeepRule::Best | KeepRule::Last => self.best_places(player, places),
            KeepRule::All => self.runs.of_player(player).for_each(|run| self.memberships(run, places)),
            KeepRule::Sum => self.sum_places(player, places),
        }
    }

    fn best_places(&self, player: u32, places: &mut TreePlaces) {
        let is_best = self.config.keep == KeepRule::Best;
        for run in self.runs.of_player(player) {
            self.each_membership(run, |list, instance| {
                match places.iter_mut().find(|it| it.list == list && it.instance == instance) {
                    None => places.push(TreePlace { list, instance, run }),
                    // Runs come newest first, so the last one is there already.
                    Some(place) if is_best && self.runs.key(run) < self.runs.key(place.run) => {
                        place.run = run
                    }
                    Some(_) => {}
                }
            });
        }
    }

    fn sum_places(&self, player: u32, places: &mut TreePlaces) {
        for run in self.runs.of_player(player) {
            let (list, instance) = untag(self.runs.tag(run));
            if instance != 0 && self.calendar.has(instance) {
                places.push(TreePlace { list, instance, run });
            }
        }
    }

    /// Appends a place in every list of every window that contains a run.
    pub(super) fn memberships(&self, run: u32, places: &mut TreePlaces) {
        self.each_membership(run, |list, instance| places.push(TreePlace { list, instance, run }));
    }

    #[inline]
    fn each_membership(&self, run: u32, mut visit: impl FnMut(u32, u32)) {
        let arrival = self.runs.arrival(run);
        let lists = self.catalogue.lists_of(self.runs.attributes(run));
        let mut all = |instance: u32| {
            visit(0, instance);
            lists.iter().for_each(|list| visit(*list, instance));
        };
        self.calendar.containing(arrival).for_each(|(_, instance)| all(instance));
        self.rolling.iter().filter(|it| it.floor <= arrival).for_each(|it| all(it.id));
    }

    /// Returns every list of every window to whose sum a new run adds.
    pub(super) fn lists(&self, run: &Run) -> Vec<(u32, u32)> {
        let lists = || std::iter::once(0).chain(self.catalogue.lists_of(run.attributes).iter().copied());
        let calendar = self.calendar.containing(run.arrival).map(|(_, instance)| instance);
        let rolling = self.rolling.iter().filter(|it| it.floor <= run.arrival).map(|it| it.id);
        calendar.chain(rolling).flat_map(|instance| lists().map(move |list| (list, instance))).collect()
    }

    fn sum(&self, player: u32, tag: u64) -> Option<u32> {
        self.runs.of_player(player).find(|run| self.runs.tag(*run) == tag)
    }

    /// Adds a run to a player's sum in a list. A sum's subscore, attributes and time are those of its newest run.
    pub(super) fn add_to_sum(&mut self, player: u32, list: u32, instance: u32, run: &Run) {
        let tag = tag(list, instance);
        let run = Run { tag, ..*run };
        let old = self.sum(player, tag);
        let new = old.map(|old| self.runs.get(old)).map_or(run, |sum| {
            let newest = if sum.arrival > run.arrival { sum } else { run };
            // Wraps around on overflow, so that subtracting a run always restores the sum.
            Run { score: sum.score.wrapping_add(run.score), ..newest }
        });
        self.change_sum(player, old, Some(new));
    }

    /// Subtracts the oldest run from a player's sum in a list.
    pub(super) fn subtract_from_sum(&mut self, player: u32, list: u32, instance: u32, run: &Run) {
        let Some(old) = self.sum(player, tag(list, instance)) else { return };
        let sum = self.runs.get(old);
        let rest = Run { score: sum.score.wrapping_sub(run.score), ..sum };
        self.change_sum(player, Some(old), Some(rest).filter(|_| sum.arrival > run.arrival));
    }

    fn change_sum(&mut self, player: u32, old: Option<u32>, new: Option<Run>) {
        // Referenced before the old one is released, so that shared attributes are not removed.
        new.iter().for_each(|new| self.catalogue.add_reference(new.attributes));
        old.into_iter().for_each(|old| self.remove_sum(player, old));
        new.iter().for_each(|new| self.insert_sum(player, new));
    }

    fn insert_sum(&mut self, player: u32, sum: &Run) {
        let (list, instance) = untag(sum.tag);
        let run = self.runs.add(player, sum);
        if !self.hidden.contains(&player) {
            self.trees.entry((list, instance)).or_default().insert(run, &self.runs);
        }
    }

    fn remove_sum(&mut self, player: u32, run: u32) {
        let key = self.runs.key(run);
        let (list, instance) = untag(self.runs.tag(run));
        self.remove_from_tree(TreePlace { list, instance, run }, &key);
        self.free(player, run);
    }

    /// Removes a row of a board that keeps all runs.
    pub(super) fn remove_row(&mut self, player: u32, run: u32) {
        let (mut places, key) = (TreePlaces::new(), self.runs.key(run));
        self.memberships(run, &mut places);
        places.into_iter().for_each(|place| self.remove_from_tree(place, &key));
        self.free(player, run);
    }

    fn remove_from_tree(&mut self, place: TreePlace, key: &RankKey) {
        let Some(tree) = self.trees.get_mut(&(place.list, place.instance)) else { return };
        tree.remove(place.run, key);
        if tree.is_empty() {
            self.trees.remove(&(place.list, place.instance));
        }
    }

    /// Returns the runs of a player that no window has or can get back.
    pub(super) fn unneeded(&self, player: u32) -> Vec<u32> {
        match self.config.keep {
            KeepRule::Best | KeepRule::Last => self.unneeded_runs(player),
            KeepRule::All | KeepRule::Sum => {
                self.runs.of_player(player).filter(|run| !self.is_row_needed(*run)).collect()
            }
        }
    }

    fn unneeded_runs(&self, player: u32) -> Vec<u32> {
        let mut places = TreePlaces::new();
        self.best_places(player, &mut places);
        let has_place = |run: u32| places.iter().any(|place| place.run == run);
        let (from, is_best) = (self.kept_from(self.clock), self.config.keep == KeepRule::Best);
        let mut best: Vec<(u32, RankKey)> = Vec::new();
        let mut unneeded = Vec::new();
        for run in self.runs.of_player(player) {
            let can_return = self.runs.arrival(run) >= from && self.is_better(run, is_best, &mut best);
            if !can_return && !has_place(run) {
                unneeded.push(run);
            }
        }
        unneeded
    }

    /// Returns true if a run is better than all later ones in some list: then it is the player's row until it is too
    /// old. With [`KeepRule::Last`], only the last run is.
    fn is_better(&self, run: u32, is_best: bool, best: &mut Vec<(u32, RankKey)>) -> bool {
        let key = self.runs.key(run);
        let lists = self.catalogue.lists_of(self.runs.attributes(run)).iter().copied();
        let mut is_better = false;
        for list in std::iter::once(0).chain(lists) {
            match best.iter_mut().find(|it| it.0 == list) {
                None => best.push((list, key)),
                Some((_, other)) if is_best && key < *other => *other = key,
                Some(_) => continue,
            }
            is_better = true;
        }
        is_better
    }

    /// If each run is kept: returns true if a window has or can get back the row. For sums: if their list exists.
    pub(super) fn is_row_needed(&self, run: u32) -> bool {
        let arrival = self.runs.arrival(run);
        match untag(self.runs.tag(run)) {
            (_, 0) if arrival >= self.kept_from(self.clock) => true,
            (_, 0) => self.config.keep == KeepRule::All && self.calendar.containing(arrival).next().is_some(),
            (list, instance) => self.calendar.has(instance) && self.catalogue.has(list),
        }
    }

    /// Rebuilds all trees and the queue from the runs of this many players.
    pub(super) fn rebuild_trees(&mut self, players: u32) {
        self.rebuild_queue();
        if self.config.keep == KeepRule::Sum {
            self.rebuild_sums();
        }
        let mut lists: HashMap<(u32, u32), Vec<(RankKey, u32)>, FxBuildHasher> = HashMap::default();
        let mut places = TreePlaces::new();
        for player in 0..players {
            places.clear();
            self.places(player, &mut places);
            if places.is_empty() || self.runs.of_player(player).nth(1).is_some() {
                self.prune(player);
            }
            let shown = places.iter().filter(|_| !self.hidden.contains(&player));
            shown.for_each(|it| {
                lists.entry((it.list, it.instance)).or_default().push((self.runs.key(it.run), it.run));
            });
        }
        for (list, rows) in lists {
            self.trees.insert(list, Tree::from_sorted(sorted(rows).into_iter(), &self.runs));
        }
    }

    /// Recomputes the sums of rolling windows: the stored ones may be as of a read.
    fn rebuild_sums(&mut self) {
        let is_rolling = |run: u32| self.rolling.iter().any(|it| it.id == untag(self.runs.tag(run)).1);
        let existing = (0..self.runs.len()).filter(|run| self.runs.exists(*run) && is_rolling(*run));
        let old: Vec<u32> = existing.collect();
        old.into_iter().for_each(|run| self.free(self.runs.player(run), run));
        for at in 0..self.rolling.len() {
            let floor = self.rolling[at].floor;
            let first = self.queue.partition_point(|(arrival, _)| *arrival < floor);
            for item in first..self.queue.len() {
                self.slide_past_part(at, self.queue[item].1, floor);
            }
        }
        self.trees.clear();
    }

    fn rebuild_queue(&mut self) {
        let from = self.kept_from(self.clock);
        if self.rolling.is_empty() {
            return;
        }
        let by_run = matches!(self.config.keep, KeepRule::All | KeepRule::Sum);
        let (mut queue, mut old) = (Vec::new(), Vec::new());
        for run in (0..self.runs.len()).filter(|run| self.runs.exists(*run) && self.runs.tag(*run) == 0) {
            let arrival = self.runs.arrival(run);
            if arrival >= from {
                queue.push((arrival, if by_run { run } else { self.runs.player(run) }));
            } else if self.config.keep == KeepRule::Sum {
                old.push(run);
            }
        }
        old.into_iter().for_each(|run| self.free(self.runs.player(run), run));
        queue.sort_unstable();
        self.queue = queue.into();
    }

    /// Returns the row of a player in a list of a window; with [`KeepRule::All`], the best one.
    pub(super) fn row_of(&self, player: u32, list: u32, instance: &WindowInstance) -> Option<u32> {
        if self.hidden.contains(&player) {
            return None;
        }
        let is_listed = |run: &u32| match self.config.keep {
            KeepRule::Sum => self.runs.tag(*run) == tag(list, instance.id),
            _ => instance.contains(self.runs.arrival(*run)) && self.is_in_list(*run, list),
        };
        let mut runs = self.runs.of_player(player).filter(is_listed);
        match self.config.keep {
            KeepRule::Best | KeepRule::All => runs.min_by_key(|run| self.runs.key(*run)),
            KeepRule::Last | KeepRule::Sum => runs.next(),
        }
    }

    fn is_in_list(&self, run: u32, list: u32) -> bool {
        list == 0 || self.catalogue.lists_of(self.runs.attributes(run)).contains(&list)
    }
}

fn untag(tag: u64) -> (u32, u32) {
    ((tag >> 32) as u32, tag as u32)
}

/// Sorts rows by key; of many rows, the halves are sorted in parallel.
fn sorted(mut rows: Vec<(RankKey, u32)>) -> Vec<u32> {
    const MANY: usize = 100_000;
    let half = if rows.len() < MANY { 0 } else { rows.len() / 2 };
    let (left, right) = rows.split_at_mut(half);
    std::thread::scope(|scope| {
        let other = (!left.is_empty()).then(|| scope.spawn(|| sort(left)));
        sort(right);
        if let Some(other) = other {
            other.join().expect("sorting does not panic");
        }
    });
    merged(left, right)
}

fn sort(rows: &mut [(RankKey, u32)]) {
    // 128-bit numbers compare faster than three fields, and few boards have subscores.
    if rows.iter().all(|(key, _)| key.subscore == rows[0].0.subscore) {
        rows.sort_unstable_by_key(|(key, _)| key.without_subscore());
    } else {
        rows.sort_unstable();
    }
}

fn merged(left: &[(RankKey, u32)], right: &[(RankKey, u32)]) -> Vec<u32> {
    let mut runs = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        let next = if a < b { left.next() } else { right.next() };
        runs.extend(next.map(|row| row.1));
    }
    runs.extend(left.chain(right).map(|row| row.1));
    runs
}
