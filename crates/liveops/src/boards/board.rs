//! One board: its players, their runs, and a tree for each list in each window.
//!
//! A player's rows follow from the player's runs alone ([`places`](super::places)). Every change, such as a score, a
//! ban, a new day, or a run that leaves a rolling window, is applied as the difference between the places before and
//! after it. It costs a few paths down a tree, whatever the number of players.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hashbrown::{HashMap, HashSet};
use model::limits::CLOCK_BACK_MS;
use rustc_hash::FxBuildHasher;

use super::attributes::AttributeCatalogue;
use super::calendar::{BoardCalendar, BoardWindow, WindowInstance};
use super::config::{BoardConfig, KeepRule};
use super::places::{TreePlace, TreePlaces};
use super::quarantine::QuarantinedScore;
use super::recent::RecentRuns;
use super::records::BoardRecords;
use super::roster::Roster;
use super::runs::{Arrival, NONE, Run, Runs};
use super::tree::Tree;

/// Rows of retired windows that are checked with each command.
const RETIRED_ROWS_PER_COMMAND: usize = 64;

/// A board.
pub struct Board {
    pub(super) table: String,
    pub(super) config: BoardConfig,
    pub(super) calendar: BoardCalendar,
    /// The least arrival that the next run can have.
    pub clock: Arrival,
    /// The board's players.
    pub roster: Roster,
    /// Banned players.
    pub(super) hidden: HashSet<u32, FxBuildHasher>,
    /// The players' runs.
    pub runs: Runs,
    pub(super) catalogue: AttributeCatalogue,
    /// Quarantined scores by arrival.
    pub(super) quarantine: BTreeMap<u64, QuarantinedScore>,
    pub(super) stored: BoardRecords,
    pub(super) trees: HashMap<(u32, u32), Tree, FxBuildHasher>,
    pub(super) rolling: Vec<RollingWindow>,
    /// Runs in the longest rolling window by arrival: the player, or the run if a player may have many.
    pub(super) queue: VecDeque<(Arrival, u32)>,
    pub(super) recent: RecentRuns,
    /// Trees of removed windows, whose runs may no longer be needed.
    retired: Vec<RetiredTree>,
    pub(super) before: TreePlaces,
    pub(super) after: TreePlaces,
}

/// A rolling window as the trees currently show it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RollingWindow {
    pub(super) window: BoardWindow,
    pub(super) id: u32,
    /// The first arrival in it.
    pub(super) floor: Arrival,
    since: Arrival,
}

impl RollingWindow {
    fn floor_at(&self, now: Arrival) -> Arrival {
        floor(self.window.rolling_ms().expect("the window is rolling"), now).max(self.since)
    }
}

/// Returns the first arrival in the last `length_ms`. A run of exactly that age is no longer included.
pub(super) fn floor(length_ms: i64, now: Arrival) -> Arrival {
    Arrival::first_of(now.ms() - length_ms + 1)
}

struct RetiredTree {
    tree: Tree,
    left: usize,
}

impl Board {
    /// Creates a board without players and opens its first windows.
    pub fn new(number: u32, table: &str, config: BoardConfig, now: Arrival, tz: &str) -> Board {
        let calendar = BoardCalendar::default();
        let mut board = Board::with_calendar(number, table, config, calendar, now);
        board.calendar.declare(&board.config.windows, Arrival(0));
        board.calendar.open_windows(now, tz);
        board.update_rolling();
        board
    }

    /// Creates an empty board with this calendar, to be filled from records.
    pub(super) fn with_calendar(
        number: u32,
        table: &str,
        config: BoardConfig,
        calendar: BoardCalendar,
        clock: Arrival,
    ) -> Board {
        Board {
            table: table.to_owned(),
            runs: Runs::new(config.order, config.keep),
            config,
            calendar,
            clock,
            roster: Roster::default(),
            hidden: HashSet::default(),
            catalogue: AttributeCatalogue::default(),
            quarantine: BTreeMap::new(),
            stored: BoardRecords::new(number),
            trees: HashMap::default(),
            rolling: Vec::new(),
            queue: VecDeque::new(),
            recent: RecentRuns::default(),
            retired: Vec::new(),
            before: TreePlaces::new(),
            after: TreePlaces::new(),
        }
    }

    /// Returns true if there are scores: settings that affect ranks can then no longer change.
    pub(super) fn has_rows(&self) -> bool {
        self.runs.count() > 0 || !self.quarantine.is_empty()
    }

    /// Returns the arrival of a command with this time: never before an earlier command's.
    pub fn now(&self, ms: i64) -> Arrival {
        self.clock.max(Arrival::first_of(ms))
    }

    /// Returns the arrival that a read at this time sees. It is before that of the last command if that had a clock which
    /// was ahead.
    pub(super) fn now_of_read(&self, ms: i64) -> Arrival {
        if self.is_ahead_of(ms) { Arrival::first_of(ms) } else { self.now(ms) }
    }

    /// Returns true if the clock was ahead at the last command.
    fn is_ahead_of(&self, ms: i64) -> bool {
        ms.saturating_add(CLOCK_BACK_MS) < self.clock.ms()
    }

    /// Advances the windows to the time of a command. Returns the command's arrival.
    pub(super) fn advance(&mut self, ms: i64, tz: &str) -> Arrival {
        if self.is_ahead_of(ms) {
            self.turn_back(Arrival::first_of(ms), tz);
        }
        let now = self.now(ms);
        self.advance_to(now, tz);
        now
    }

    /// Sets the time back after the clock was ahead. Scores from the future arrive now, in their order, and windows of the
    /// future close. Costs as much as a restart.
    fn turn_back(&mut self, now: Arrival, tz: &str) {
        let from_future = |run: &u32| self.runs.exists(*run) && self.runs.arrival(*run) >= now;
        let late: Vec<u32> = (0..self.runs.len()).filter(from_future).collect();
        let arrivals: BTreeSet<Arrival> = late.iter().map(|run| self.runs.arrival(*run)).collect();
        let arrivals: Vec<Arrival> = arrivals.into_iter().collect();
        let moved = |arrival: Arrival| match arrival {
            Arrival::NEVER => arrival,
            _ if arrival < now => arrival,
            _ => Arrival(now.0 + arrivals.partition_point(|other| *other < arrival) as u64),
        };
        late.into_iter().for_each(|run| self.runs.set_arrival(run, moved(self.runs.arrival(run))));
        self.clock = Arrival(now.0 + arrivals.len() as u64);
        let closed = self.calendar.turn_back(now, moved);
        self.calendar.open_windows(self.clock, tz);
        self.trees.clear();
        if self.config.keep == KeepRule::Sum {
            self.move_sums(&closed);
        }
        self.rebuild(self.roster.len());
        self.stored.mark_meta_changed();
    }

    /// Adds the sums of closed windows to those of the windows that are open instead.
    fn move_sums(&mut self, closed: &[(BoardWindow, WindowInstance)]) {
        for (window, instance) in closed {
            let Some(open) = self.calendar.current(*window, self.clock) else { continue };
            let is_moved = |run: &u32| self.runs.exists(*run) && self.runs.tag(*run) as u32 == instance.id;
            let moved: Vec<u32> = (0..self.runs.len()).filter(is_moved).collect();
            for sum in moved {
                let (player, list) = (self.runs.player(sum), (self.runs.tag(sum) >> 32) as u32);
                let run = self.runs.get(sum);
                self.add_to_sum(player, list, open.id, &run);
                self.free(player, sum);
            }
        }
    }

    /// Advances the windows to the time of a command.
    fn advance_to(&mut self, now: Arrival, tz: &str) {
        if self.clock != now {
            self.clock = now;
            self.stored.mark_meta_changed();
        }
        if self.calendar.is_due(now) {
            let retired = self.calendar.open_windows(now, tz);
            self.retire_windows(retired);
            self.update_rolling();
        }
        self.slide(now);
        self.expire_queue(now);
        self.collect_retired();
    }

    /// Changes the windows and filters.
    pub fn declare(&mut self, config: BoardConfig, now: Arrival, tz: &str) {
        let filters_changed = config.filters != self.config.filters;
        self.config = config;
        let removed = self.calendar.declare(&self.config.windows, now);
        self.retire_windows(removed);
        let retired = self.calendar.open_windows(now, tz);
        self.retire_windows(retired);
        self.update_rolling();
        if self.runs.count() == 0 {
            self.runs.reorder(self.config.order, self.config.keep);
        }
        if filters_changed {
            self.catalogue.redeclare(&self.config.filters);
            self.rebuild(self.roster.len());
        }
        self.stored.mark_meta_changed();
    }

    /// Closes the season and returns the number of the new one.
    pub fn reset(&mut self, now: Arrival) -> Option<u32> {
        let (season, retired) = self.calendar.reset(now)?;
        self.retire_windows(retired);
        self.clock = now.next();
        self.stored.mark_meta_changed();
        Some(season)
    }

    /// Returns the number of a player. Adds the player or updates the name if needed.
    pub fn find_or_add_player(&mut self, id: &str, name: &str) -> u32 {
        let found = self.roster.find(id);
        let is_changed = match found {
            Some(number) => !name.is_empty() && self.roster.rename(number, name),
            None => true,
        };
        let number = found.unwrap_or_else(|| self.roster.add(id, name));
        if is_changed {
            self.stored.players.push(number);
        }
        number
    }

    /// Adds a run and updates the player's rows in all windows. Returns the run's number.
    pub fn add_run(&mut self, player: u32, run: &Run) -> u32 {
        let number = match self.config.keep {
            KeepRule::Best | KeepRule::Last => self.add_best(player, run),
            KeepRule::All => self.add_row(player, run),
            KeepRule::Sum => self.add_to_sums(player, run),
        };
        self.recent.add(run.arrival, player, &self.runs);
        number
    }

    fn add_best(&mut self, player: u32, run: &Run) -> u32 {
        self.snapshot_before(player);
        let number = self.runs.add(player, run);
        self.enqueue(run.arrival, player);
        self.update_trees_after(player);
        let is_alone = self.runs.of_player(player).nth(1).is_none();
        if !is_alone || self.after.is_empty() {
            self.prune(player);
        }
        number
    }

    fn add_row(&mut self, player: u32, run: &Run) -> u32 {
        let number = self.runs.add(player, run);
        self.enqueue(run.arrival, number);
        self.before.clear();
        let mut after = std::mem::take(&mut self.after);
        after.clear();
        if !self.hidden.contains(&player) {
            self.memberships(number, &mut after);
        }
        self.after = after;
        self.replace();
        number
    }

    fn add_to_sums(&mut self, player: u32, run: &Run) -> u32 {
        let mut number = NONE;
        if !self.rolling.is_empty() {
            number = self.runs.add(player, run);
            self.enqueue(run.arrival, number);
        }
        for (list, instance) in self.lists(run) {
            self.add_to_sum(player, list, instance, run);
        }
        if self.rolling.is_empty() {
            self.catalogue.release(run.attributes);
        }
        number
    }

    /// Removes a player's runs that are no longer needed.
    pub(super) fn prune(&mut self, player: u32) {
        for run in self.unneeded(player) {
            self.free(player, run);
        }
    }

    /// Removes a run that is in no tree.
    pub(super) fn free(&mut self, player: u32, run: u32) {
        self.catalogue.release(self.runs.attributes(run));
        self.runs.remove(player, run);
    }

    /// Hides or shows a player's rows.
    pub(super) fn set_hidden(&mut self, player: u32, is_hidden: bool) {
        self.snapshot_before(player);
        if is_hidden {
            self.hidden.insert(player);
        } else {
            self.hidden.remove(&player);
        }
        self.update_trees_after(player);
    }

    /// Erases a player.
    pub fn erase(&mut self, player: u32) {
        self.set_hidden(player, true);
        let mut runs: Vec<u32> = self.runs.of_player(player).collect();
        if self.config.keep == KeepRule::Sum {
            let own = |(arrival, run): &(Arrival, u32)| {
                self.is_queued(*arrival, *run) && self.runs.player(*run) == player
            };
            runs.extend(self.queue.iter().filter(|it| own(it)).map(|it| it.1));
        }
        runs.into_iter().for_each(|run| self.free(player, run));
        self.hidden.remove(&player);
        self.roster.erase(player);
        self.stored.players.push(player);
        self.stored.erased.push(player);
    }

    /// Returns true if the queued run still exists: its number may have been reused.
    fn is_queued(&self, arrival: Arrival, run: u32) -> bool {
        self.runs.exists(run) && self.runs.arrival(run) == arrival && self.runs.tag(run) == 0
    }

    /// Removes runs that have left the longest rolling window and are in no other window.
    fn expire_queue(&mut self, now: Arrival) {
        let floor = self.kept_from(now);
        while let Some((arrival, it)) = self.queue.pop_front_if(|(arrival, _)| *arrival < floor) {
            match self.config.keep {
                KeepRule::Best | KeepRule::Last => self.prune(it),
                KeepRule::All | KeepRule::Sum if self.is_queued(arrival, it) => self.free_if_unneeded(it),
                KeepRule::All | KeepRule::Sum => {}
            }
        }
    }

    /// Removes a run, or all unneeded runs of its player.
    fn free_if_unneeded(&mut self, run: u32) {
        if !self.runs.exists(run) {
            return;
        }
        let player = self.runs.player(run);
        match self.config.keep {
            KeepRule::Best | KeepRule::Last => self.prune(player),
            KeepRule::All | KeepRule::Sum if self.is_row_needed(run) => {}
            KeepRule::All | KeepRule::Sum => self.free(player, run),
        }
    }

    /// Returns the first arrival that a rolling window may still need.
    pub(super) fn kept_from(&self, now: Arrival) -> Arrival {
        self.calendar.longest_rolling_ms().map_or(Arrival::NEVER, |length_ms| floor(length_ms, now))
    }

    fn enqueue(&mut self, arrival: Arrival, it: u32) {
        if self.rolling.is_empty() {
            return;
        }
        let at = match self.queue.back() {
            Some((last, _)) if *last > arrival => self.queue.partition_point(|(other, _)| *other < arrival),
            _ => self.queue.len(),
        };
        self.queue.insert(at, (arrival, it));
    }

    /// Retires the trees of removed windows. Their runs are checked gradually.
    fn retire_windows(&mut self, instances: Vec<WindowInstance>) {
        for instance in instances {
            let lists: Vec<(u32, u32)> =
                self.trees.keys().filter(|key| key.1 == instance.id).copied().collect();
            for tree in lists.iter().filter_map(|key| self.trees.remove(key)) {
                self.retired.push(RetiredTree { left: tree.len(), tree });
            }
            self.stored.mark_meta_changed();
        }
    }

    fn collect_retired(&mut self) {
        for _ in 0..RETIRED_ROWS_PER_COMMAND {
            let Some(last) = self.retired.last_mut() else { return };
            match last.left.checked_sub(1) {
                None => drop(self.retired.pop()),
                Some(left) => {
                    last.left = left;
                    let run = last.tree.row(left).expect("a retired tree does not change");
                    self.free_if_unneeded(run);
                }
            }
        }
    }

    pub(super) fn update_rolling(&mut self) {
        let before = std::mem::take(&mut self.rolling);
        let previous = |id: u32| before.iter().find(|it| it.id == id);
        let rolling = self.calendar.rolling().map(|(window, id, since)| {
            let new = RollingWindow { window, id, since, floor: since };
            RollingWindow {
                floor: previous(id).map_or_else(|| new.floor_at(self.clock), |it| it.floor),
                ..new
            }
        });
        self.rolling = rolling.collect();
        if self.rolling.is_empty() {
            self.queue.clear();
        }
    }

    /// Returns true if the rolling windows show another time than `ms`.
    pub fn needs_advance(&self, ms: i64) -> bool {
        let now = self.now_of_read(ms);
        self.rolling.iter().any(|it| {
            let floor = it.floor_at(now);
            floor != it.floor && self.queued(floor) != self.queued(it.floor)
        })
    }

    fn queued(&self, floor: Arrival) -> usize {
        self.queue.partition_point(|(arrival, _)| *arrival < floor)
    }

    /// Moves the rolling windows to this time. Rows leave exactly when they are too old, and return if a command is
    /// applied with an earlier time than a read.
    pub(super) fn slide(&mut self, now: Arrival) {
        for at in 0..self.rolling.len() {
            let (from, to) = (self.rolling[at].floor, self.rolling[at].floor_at(now));
            if from < to {
                self.slide_forward(at, from, to);
            } else if to < from {
                self.slide_back(at, from, to);
            }
            self.rolling[at].floor = to;
        }
    }

    fn slide_forward(&mut self, at: usize, from: Arrival, to: Arrival) {
        let (first, last) = (self.queued(from), self.queued(to));
        if first == last {
            return;
        }
        if last == self.queue.len() && self.config.keep != KeepRule::Sum {
            // All rows leave.
            let id = self.rolling[at].id;
            return self.trees.retain(|(_, instance), _| *instance != id);
        }
        for item in first..last {
            let (arrival, it) = self.queue[item];
            self.slide_past(at, it, arrival, arrival.next());
        }
    }

    fn slide_back(&mut self, at: usize, from: Arrival, to: Arrival) {
        for item in (self.queued(to)..self.queued(from)).rev() {
            let (arrival, it) = self.queue[item];
            self.slide_past(at, it, arrival, arrival);
        }
    }

    /// Moves the start of a window past the run that arrived at `arrival`.
    fn slide_past(&mut self, at: usize, it: u32, arrival: Arrival, floor: Arrival) {
        match self.config.keep {
            KeepRule::Best | KeepRule::Last => {}
            KeepRule::All | KeepRule::Sum if !self.is_queued(arrival, it) => return,
            KeepRule::All => return self.slide_past_row(at, it, floor),
            KeepRule::Sum => return self.slide_past_part(at, it, floor),
        }
        self.snapshot_before(it);
        self.rolling[at].floor = floor;
        self.update_trees_after(it);
    }

    fn slide_past_row(&mut self, at: usize, run: u32, floor: Arrival) {
        if self.hidden.contains(&self.runs.player(run)) {
            return;
        }
        let instance = self.rolling[at].id;
        let lists =
            std::iter::once(0).chain(self.catalogue.lists_of(self.runs.attributes(run)).iter().copied());
        let (before, after) = (&mut self.before, &mut self.after);
        before.clear();
        after.clear();
        let places = if floor > self.runs.arrival(run) { before } else { after };
        places.extend(lists.map(|list| TreePlace { list, instance, run }));
        self.replace();
    }

    pub(super) fn slide_past_part(&mut self, at: usize, run: u32, floor: Arrival) {
        let (player, run, instance) = (self.runs.player(run), self.runs.get(run), self.rolling[at].id);
        let lists = std::iter::once(0).chain(self.catalogue.lists_of(run.attributes).iter().copied());
        for list in lists.collect::<Vec<u32>>() {
            if floor > run.arrival {
                self.subtract_from_sum(player, list, instance, &run);
            } else {
                self.add_to_sum(player, list, instance, &run);
            }
        }
    }

    /// Rebuilds everything that follows from the runs of this many players.
    pub(super) fn rebuild(&mut self, players: u32) {
        self.trees.clear();
        self.queue.clear();
        self.retired.clear();
        self.update_rolling();
        let clock = self.clock;
        self.rolling.iter_mut().for_each(|it| it.floor = it.floor_at(clock));
        self.rebuild_trees(players);
        self.recent = RecentRuns::from_runs(&self.runs);
    }
}

/// Memory of a board in bytes, without the spare capacity of collections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BoardMemory {
    /// Runs, chains and trees.
    pub ranks: usize,
    /// The lookup of players by id.
    pub lookup: usize,
    /// Ids and names.
    pub texts: usize,
    /// Subscores, attributes, sums and lists by time.
    pub rest: usize,
}

impl Board {
    /// Returns the memory of the board in bytes.
    pub fn memory(&self) -> BoardMemory {
        let ((texts, lookup), (rows, rest)) = (self.roster.bytes(), self.runs.bytes());
        let trees: usize = self.trees.values().map(Tree::bytes).sum();
        let times = self.queue.capacity() * size_of::<(Arrival, u32)>() + self.recent.bytes();
        BoardMemory { ranks: rows + trees, lookup, texts, rest: rest + times }
    }

    /// Returns a player's rank in a current window, from 1 on.
    pub fn rank_of(&self, player: u32, window: BoardWindow) -> Option<usize> {
        self.rank(self.current_row(player, window)?, window)
    }
}

/// Returns the tag of a player's sum in a list of a window.
pub(super) fn tag(list: u32, instance: u32) -> u64 {
    u64::from(list) << 32 | u64::from(instance)
}
