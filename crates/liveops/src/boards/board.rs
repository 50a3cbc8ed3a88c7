//! One board: its players, their runs, and a tree for each list in each window.
//!
//! What a player's rows are follows from the player's runs alone ([`places`](super::places)). Every change, a score, a
//! ban, a new day, a run that leaves a rolling window, is the difference between the places before and after it, and
//! costs a few ways down a tree, whatever the number of players.

use std::collections::{BTreeMap, VecDeque};

use hashbrown::{HashMap, HashSet};
use rustc_hash::FxBuildHasher;

use super::attributes::Catalogue;
use super::calendar::{Calendar, Instance, Window};
use super::config::{Config, Keep};
use super::held::Held;
use super::places::{Place, Places};
use super::recent::Recent;
use super::roster::Roster;
use super::runs::{Arrival, NONE, Run, Runs};
use super::store::Stored;
use super::tree::Tree;

/// Rows of forgotten windows that are looked at with each command.
const FORGOTTEN_ROWS_PER_COMMAND: usize = 64;

/// A board.
pub struct Board {
    /// Its name.
    pub table: String,
    /// Its settings.
    pub config: Config,
    /// Its windows.
    pub calendar: Calendar,
    /// The arrival that the next run can have.
    pub clock: Arrival,
    /// Its players.
    pub roster: Roster,
    /// Players who are banned.
    pub hidden: HashSet<u32, FxBuildHasher>,
    /// Their runs.
    pub runs: Runs,
    /// What runs have beside scores, and the lists that follow.
    pub catalogue: Catalogue,
    /// Scores that wait for a moderator.
    pub held: BTreeMap<u64, Held>,
    /// What has to be written.
    pub stored: Stored,
    pub(super) trees: HashMap<(u32, u32), Tree, FxBuildHasher>,
    pub(super) rolling: Vec<Rolling>,
    /// Runs in the longest rolling window by arrival: the player, or where a player may have very many, the run.
    pub(super) queue: VecDeque<(Arrival, u32)>,
    pub(super) recent: Recent,
    /// Trees of forgotten windows, whose runs may not be needed any more.
    forgotten: Vec<Forgotten>,
    pub(super) before: Places,
    pub(super) after: Places,
}

/// A rolling window as the trees show it.
#[derive(Clone, Copy, Debug)]
pub struct Rolling {
    pub(super) window: Window,
    pub(super) id: u32,
    /// The first arrival in it.
    pub(super) floor: Arrival,
    since: Arrival,
}

impl Rolling {
    fn floor_at(&self, now: Arrival) -> Arrival {
        floor(self.window.rolling_ms().expect("it is a rolling one"), now).max(self.since)
    }
}

/// The first arrival in the last `length_ms`: what is exactly so old is not in them any more.
pub fn floor(length_ms: i64, now: Arrival) -> Arrival {
    Arrival::first_of(now.ms() - length_ms + 1)
}

struct Forgotten {
    tree: Tree,
    left: usize,
}

impl Board {
    /// A board without players, with its first windows.
    pub fn new(number: u32, table: &str, config: Config, now: Arrival, tz: &str) -> Board {
        let calendar = Calendar::default();
        let mut board = Board::of(number, table, config, calendar, now);
        board.calendar.declare(&board.config.windows, Arrival(0));
        board.calendar.begin(now, tz);
        board.find_rolling();
        board
    }

    /// A board of this calendar, to be filled by the store.
    pub fn of(number: u32, table: &str, config: Config, calendar: Calendar, clock: Arrival) -> Board {
        Board {
            table: table.to_owned(),
            runs: Runs::new(config.order, config.keep),
            config,
            calendar,
            clock,
            roster: Roster::default(),
            hidden: HashSet::default(),
            catalogue: Catalogue::default(),
            held: BTreeMap::new(),
            stored: Stored::new(number),
            trees: HashMap::default(),
            rolling: Vec::new(),
            queue: VecDeque::new(),
            recent: Recent::default(),
            forgotten: Vec::new(),
            before: Places::new(),
            after: Places::new(),
        }
    }

    /// Whether there are scores, which were ranked by the settings that they came with.
    pub fn has_rows(&self) -> bool {
        self.runs.count() > 0 || !self.held.is_empty()
    }

    /// When a command of this time happens: never before one that was decided.
    pub fn now(&self, ms: i64) -> Arrival {
        self.clock.max(Arrival::first_of(ms))
    }

    /// Brings the windows to the time of a command.
    pub fn begin(&mut self, now: Arrival, tz: &str) {
        if self.clock != now {
            self.clock = now;
            self.stored.meta();
        }
        if self.calendar.is_due(now) {
            let forgotten = self.calendar.begin(now, tz);
            self.forget(forgotten);
            self.find_rolling();
        }
        self.slide(now);
        self.leave_queue(now);
        self.collect_forgotten();
    }

    /// Other windows and filters.
    pub fn declare(&mut self, config: Config, now: Arrival, tz: &str) {
        let filters_changed = config.filters != self.config.filters;
        self.config = config;
        let gone = self.calendar.declare(&self.config.windows, now);
        self.forget(gone);
        let forgotten = self.calendar.begin(now, tz);
        self.forget(forgotten);
        self.find_rolling();
        if self.runs.count() == 0 {
            self.runs.reorder(self.config.order, self.config.keep);
        }
        if filters_changed {
            self.catalogue.redeclare(&self.config.filters);
            self.rebuild(self.roster.len());
        }
        self.stored.meta();
    }

    /// Closes the season; tells the number of the new one.
    pub fn reset(&mut self, now: Arrival) -> Option<u32> {
        let (season, forgotten) = self.calendar.reset(now)?;
        self.forget(forgotten);
        self.clock = now.next();
        self.stored.meta();
        Some(season)
    }

    /// The number of a player, who is added if new.
    pub fn player(&mut self, id: &str, name: &str) -> u32 {
        let found = self.roster.find(id);
        let is_changed = match found {
            Some(number) => !name.is_empty() && self.roster.rename(number, name),
            None => true,
        };
        let number = found.unwrap_or_else(|| self.roster.add(id, name));
        if is_changed {
            self.stored.players.change(number);
        }
        number
    }

    /// Adds a run of a player, who then has the rows that the board's windows give to its runs.
    pub fn add(&mut self, player: u32, run: &Run) -> u32 {
        let number = match self.config.keep {
            Keep::Best | Keep::Last => self.add_best(player, run),
            Keep::All => self.add_row(player, run),
            Keep::Sum => self.add_to_sums(player, run),
        };
        self.recent.add(run.arrival, player, &self.runs);
        number
    }

    fn add_best(&mut self, player: u32, run: &Run) -> u32 {
        self.look_before(player);
        let number = self.runs.add(player, run);
        self.enter_queue(run.arrival, player);
        self.look_after(player);
        let is_alone = self.runs.of(player).nth(1).is_none();
        if !is_alone || self.after.is_empty() {
            self.prune(player);
        }
        number
    }

    fn add_row(&mut self, player: u32, run: &Run) -> u32 {
        let number = self.runs.add(player, run);
        self.enter_queue(run.arrival, number);
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
            self.enter_queue(run.arrival, number);
        }
        for (list, instance) in self.lists(run) {
            self.add_to_sum(player, list, instance, run);
        }
        if self.rolling.is_empty() {
            self.catalogue.release(run.attributes);
        }
        number
    }

    /// Removes what is not needed of a player's runs any more.
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

    /// Takes a player's rows away, or gives them back.
    pub fn hide(&mut self, player: u32, is_hidden: bool) {
        self.look_before(player);
        if is_hidden {
            self.hidden.insert(player);
        } else {
            self.hidden.remove(&player);
        }
        self.look_after(player);
    }

    /// Forgets a player.
    pub fn erase(&mut self, player: u32) {
        self.hide(player, true);
        let mut runs: Vec<u32> = self.runs.of(player).collect();
        if self.config.keep == Keep::Sum {
            let own = |(arrival, run): &(Arrival, u32)| {
                self.is_queued(*arrival, *run) && self.runs.player(*run) == player
            };
            runs.extend(self.queue.iter().filter(|it| own(it)).map(|it| it.1));
        }
        runs.into_iter().for_each(|run| self.free(player, run));
        self.hidden.remove(&player);
        self.roster.erase(player);
        self.stored.players.change(player);
        self.stored.erased.change(player);
    }

    /// Whether the run that was queued is still there: the number of one that is gone may be another's.
    fn is_queued(&self, arrival: Arrival, run: u32) -> bool {
        self.runs.is_there(run) && self.runs.arrival(run) == arrival && self.runs.tag(run) == 0
    }

    /// The runs that leave the longest rolling window stay only where another window has them.
    fn leave_queue(&mut self, now: Arrival) {
        let floor = self.kept_from(now);
        while let Some((arrival, it)) = self.queue.pop_front_if(|(arrival, _)| *arrival < floor) {
            match self.config.keep {
                Keep::Best | Keep::Last => self.prune(it),
                Keep::All | Keep::Sum if self.is_queued(arrival, it) => self.look_at(it),
                Keep::All | Keep::Sum => {}
            }
        }
    }

    /// Gives up a run, or all of its player's, if no window needs it.
    fn look_at(&mut self, run: u32) {
        if !self.runs.is_there(run) {
            return;
        }
        let player = self.runs.player(run);
        match self.config.keep {
            Keep::Best | Keep::Last => self.prune(player),
            Keep::All | Keep::Sum if self.is_row_needed(run) => {}
            Keep::All | Keep::Sum => self.free(player, run),
        }
    }

    /// The first arrival that a rolling window may still ask for.
    pub(super) fn kept_from(&self, now: Arrival) -> Arrival {
        self.calendar.longest_rolling_ms().map_or(Arrival::NEVER, |length_ms| floor(length_ms, now))
    }

    fn enter_queue(&mut self, arrival: Arrival, it: u32) {
        if self.rolling.is_empty() {
            return;
        }
        let at = match self.queue.back() {
            Some((last, _)) if *last > arrival => self.queue.partition_point(|(other, _)| *other < arrival),
            _ => self.queue.len(),
        };
        self.queue.insert(at, (arrival, it));
    }

    /// What windows there were is looked through little by little.
    fn forget(&mut self, instances: Vec<Instance>) {
        for instance in instances {
            let lists: Vec<(u32, u32)> =
                self.trees.keys().filter(|key| key.1 == instance.id).copied().collect();
            for tree in lists.iter().filter_map(|key| self.trees.remove(key)) {
                self.forgotten.push(Forgotten { left: tree.len(), tree });
            }
            self.stored.meta();
        }
    }

    fn collect_forgotten(&mut self) {
        for _ in 0..FORGOTTEN_ROWS_PER_COMMAND {
            let Some(last) = self.forgotten.last_mut() else { return };
            match last.left.checked_sub(1) {
                None => drop(self.forgotten.pop()),
                Some(left) => {
                    last.left = left;
                    let run = last.tree.row(left).expect("rows of forgotten trees stay");
                    self.look_at(run);
                }
            }
        }
    }

    pub(super) fn find_rolling(&mut self) {
        let before = std::mem::take(&mut self.rolling);
        let known = |id: u32| before.iter().find(|it| it.id == id);
        let rolling = self.calendar.rolling().map(|(window, id, since)| {
            let new = Rolling { window, id, since, floor: since };
            Rolling { floor: known(id).map_or_else(|| new.floor_at(self.clock), |it| it.floor), ..new }
        });
        self.rolling = rolling.collect();
        if self.rolling.is_empty() {
            self.queue.clear();
        }
    }

    /// Whether rolling windows show something else than at this time.
    pub fn is_elsewhere(&self, ms: i64) -> bool {
        let now = self.now(ms);
        self.rolling.iter().any(|it| {
            let floor = it.floor_at(now);
            floor != it.floor && self.queued(floor) != self.queued(it.floor)
        })
    }

    fn queued(&self, floor: Arrival) -> usize {
        self.queue.partition_point(|(arrival, _)| *arrival < floor)
    }

    /// Lets rolling windows show this time: rows leave exactly when their time is over, and come back when a command
    /// is decided that came before a read.
    pub fn slide(&mut self, now: Arrival) {
        for at in 0..self.rolling.len() {
            let (from, to) = (self.rolling[at].floor, self.rolling[at].floor_at(now));
            if from < to {
                self.slide_on(at, from, to);
            } else if to < from {
                self.slide_back(at, from, to);
            }
            self.rolling[at].floor = to;
        }
    }

    fn slide_on(&mut self, at: usize, from: Arrival, to: Arrival) {
        let (first, last) = (self.queued(from), self.queued(to));
        if first == last {
            return;
        }
        if last == self.queue.len() && self.config.keep != Keep::Sum {
            // All of them leave.
            let id = self.rolling[at].id;
            return self.trees.retain(|(_, instance), _| *instance != id);
        }
        for item in first..last {
            let (arrival, it) = self.queue[item];
            self.slide_over(at, it, arrival, arrival.next());
        }
    }

    fn slide_back(&mut self, at: usize, from: Arrival, to: Arrival) {
        for item in (self.queued(to)..self.queued(from)).rev() {
            let (arrival, it) = self.queue[item];
            self.slide_over(at, it, arrival, arrival);
        }
    }

    /// Moves the beginning of a window over the run that came at `arrival`.
    fn slide_over(&mut self, at: usize, it: u32, arrival: Arrival, floor: Arrival) {
        match self.config.keep {
            Keep::Best | Keep::Last => {}
            Keep::All | Keep::Sum if !self.is_queued(arrival, it) => return,
            Keep::All => return self.slide_over_row(at, it, floor),
            Keep::Sum => return self.slide_over_part(at, it, floor),
        }
        self.look_before(it);
        self.rolling[at].floor = floor;
        self.look_after(it);
    }

    fn slide_over_row(&mut self, at: usize, run: u32, floor: Arrival) {
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
        places.extend(lists.map(|list| Place { list, instance, run }));
        self.replace();
    }

    pub(super) fn slide_over_part(&mut self, at: usize, run: u32, floor: Arrival) {
        let (player, run, instance) = (self.runs.player(run), self.runs.get(run), self.rolling[at].id);
        let lists = std::iter::once(0).chain(self.catalogue.lists_of(run.attributes).iter().copied());
        for list in lists.collect::<Vec<u32>>() {
            if floor > run.arrival {
                self.take_from_sum(player, list, instance, &run);
            } else {
                self.add_to_sum(player, list, instance, &run);
            }
        }
    }

    /// Makes everything that follows from the runs of so many players.
    pub fn rebuild(&mut self, players: u32) {
        self.trees.clear();
        self.queue.clear();
        self.forgotten.clear();
        self.find_rolling();
        let clock = self.clock;
        self.rolling.iter_mut().for_each(|it| it.floor = it.floor_at(clock));
        self.rebuild_trees(players);
        self.recent = Recent::of(&self.runs);
    }
}

/// Bytes of memory that a board takes, without what its collections keep free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Runs, chains and trees: all that ranks are made of.
    pub ranks: usize,
    /// From ids to players.
    pub lookup: usize,
    /// Ids and names.
    pub texts: usize,
    /// Subscores, attributes, sums, time.
    pub rest: usize,
}

impl Board {
    /// Bytes of memory.
    pub fn bytes(&self) -> Bytes {
        let ((texts, lookup), (rows, rest)) = (self.roster.bytes(), self.runs.bytes());
        let trees: usize = self.trees.values().map(Tree::bytes).sum();
        let times = self.queue.capacity() * size_of::<(Arrival, u32)>() + self.recent.bytes();
        Bytes { ranks: rows + trees, lookup, texts, rest: rest + times }
    }

    /// A player's rank in a current window, from 1 on.
    pub fn rank_of(&self, player: u32, window: Window) -> Option<usize> {
        self.rank(self.current_row(player, window)?, window)
    }
}

/// The list in a window whose sum a row is.
pub(super) fn tag(list: u32, instance: u32) -> u64 {
    u64::from(list) << 32 | u64::from(instance)
}
