//! The runs of a board: each a score and when it came, chained by player.
//!
//! A run is 20 bytes. What few boards use has a column of its own, made when it is first needed: subscores, attributes,
//! and on boards where a player may have many runs, the player and the list that a run belongs to.

use super::chunked::Chunked;
use super::config::{Keep, Order};
use super::memory;
use super::tree::{Key, Keys};

/// 2020-01-01: times are counted from here.
const EPOCH_MS: i64 = 1_577_836_800_000;
/// Runs that can come within the same millisecond: 2^18.
const SEQUENCE_BITS: u32 = 18;

/// When a run came: milliseconds since 2020, and its turn within the millisecond. Later ones are greater.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct Arrival(pub u64);

impl Arrival {
    /// Later than any.
    pub const NEVER: Arrival = Arrival(u64::MAX >> FLAG_BITS);

    /// The first of a millisecond. Times before 2020 and after 2159 are the first and the last that there is.
    pub fn first_of(ms: i64) -> Arrival {
        let ms = ms.saturating_sub(EPOCH_MS).clamp(0, (1 << (64 - SEQUENCE_BITS - FLAG_BITS)) - 1);
        Arrival((ms as u64) << SEQUENCE_BITS)
    }

    /// The time, milliseconds since 1970.
    pub fn ms(self) -> i64 {
        EPOCH_MS + (self.0 >> SEQUENCE_BITS) as i64
    }

    /// The next one.
    pub fn next(self) -> Arrival {
        Arrival(self.0 + 1)
    }
}

/// Whether a run was signed or came from a server.
pub const VERIFIED: u8 = 1;
/// The run has a subscore.
pub const WITH_SUBSCORE: u8 = 2;
/// The run has to be written with the next checkpoint.
const CHANGED: u8 = 4;
/// There is no run at this number.
const FREE: u8 = 8;
const FLAG_BITS: u32 = 4;
const FLAGS: u64 = (1 << FLAG_BITS) - 1;

/// The end of a chain carries this bit and the player's number; an empty chain is this alone.
const END: u32 = 1 << 31;
/// No run.
pub const NONE: u32 = END - 1;

/// A run as it is given and told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// In units of the board's decimals.
    pub score: i64,
    /// 0 when there is none.
    pub subscore: i64,
    /// When it came.
    pub arrival: Arrival,
    /// [`VERIFIED`] and [`WITH_SUBSCORE`].
    pub flags: u8,
    /// The number of its attributes; 0: none.
    pub attributes: u32,
    /// On boards of sums: which list's sum it is; 0: a run.
    pub tag: u64,
}

/// 20 bytes.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
struct Row {
    score: i64,
    /// With flags in the lowest bits, below the order of arrival.
    arrival: u64,
    /// The player's next older run, or [`END`] and the player.
    next: u32,
}

impl Row {
    fn has(&self, flag: u8) -> bool {
        self.arrival & u64::from(flag) != 0
    }
}

/// All runs of a board.
#[derive(Default)]
pub struct Runs {
    rows: Chunked<Row>,
    subscores: Option<Chunked<i64>>,
    attributes: Option<Chunked<u32>>,
    tags: Option<Chunked<u64>>,
    owners: Option<Chunked<u32>>,
    /// The newest run of each player.
    heads: Chunked<u32>,
    free: Vec<u32>,
    changed: Vec<u32>,
    order: Order,
    keep: Keep,
}

impl Runs {
    /// The runs of a board.
    pub fn new(order: Order, keep: Keep) -> Runs {
        let mut runs = Runs::default();
        runs.reorder(order, keep);
        runs
    }

    /// Another order, while there is no run.
    pub fn reorder(&mut self, order: Order, keep: Keep) {
        debug_assert_eq!(self.count(), 0, "runs are kept in the order that they came with");
        let mut owners = Chunked::default();
        owners.grow(self.rows.len(), 0);
        let has_many = matches!(keep, Keep::All | Keep::Sum);
        (self.order, self.keep, self.owners) = (order, keep, has_many.then_some(owners));
    }

    /// Of the runs behind sums a player has very many; they are not chained. Sums are.
    fn is_chained(&self, run: u32) -> bool {
        self.keep != Keep::Sum || self.tag(run) != 0
    }

    /// Numbers in use and free ones.
    pub fn len(&self) -> u32 {
        self.rows.len() as u32
    }

    /// Runs that there are.
    pub fn count(&self) -> usize {
        self.rows.len() - self.free.len()
    }

    /// Whether there is a run at this number.
    pub fn is_there(&self, run: u32) -> bool {
        !self.rows[run].has(FREE)
    }

    /// When a run came.
    #[inline]
    pub fn arrival(&self, run: u32) -> Arrival {
        Arrival(self.rows[run].arrival >> FLAG_BITS)
    }

    /// A run's score in units.
    pub fn score(&self, run: u32) -> i64 {
        self.rows[run].score
    }

    /// The number of a run's attributes.
    #[inline]
    pub fn attributes(&self, run: u32) -> u32 {
        self.attributes.as_ref().and_then(|all| all.get(run)).copied().unwrap_or(0)
    }

    /// Which list's sum it is.
    pub fn tag(&self, run: u32) -> u64 {
        self.tags.as_ref().and_then(|all| all.get(run)).copied().unwrap_or(0)
    }

    fn subscore(&self, run: u32) -> i64 {
        self.subscores.as_ref().and_then(|all| all.get(run)).copied().unwrap_or(0)
    }

    /// All of a run.
    pub fn get(&self, run: u32) -> Run {
        let row = self.rows[run];
        Run {
            score: row.score,
            subscore: self.subscore(run),
            arrival: self.arrival(run),
            flags: row.arrival as u8 & (VERIFIED | WITH_SUBSCORE),
            attributes: self.attributes(run),
            tag: self.tag(run),
        }
    }

    /// The player of a run.
    pub fn player(&self, run: u32) -> u32 {
        if let Some(owners) = &self.owners {
            return owners[run];
        }
        let mut next = self.rows[run].next;
        while next & END == 0 {
            next = self.rows[next].next;
        }
        next & !END
    }

    /// A player's runs, newest first. On boards of sums: the sums.
    #[inline]
    pub fn of(&self, player: u32) -> impl Iterator<Item = u32> {
        let first = if (player as usize) < self.heads.len() { self.heads[player] } else { NONE };
        std::iter::successors((first != NONE).then_some(first), |run| {
            let next = self.rows[*run].next;
            (next & END == 0).then_some(next)
        })
    }

    /// Adds a run to those of a player.
    pub fn add(&mut self, player: u32, run: &Run) -> u32 {
        let number = self.put(player, run);
        if self.is_chained(number) {
            self.chain(player, number);
        }
        self.change(number);
        number
    }

    /// Puts a run at a number of its own.
    fn put(&mut self, player: u32, run: &Run) -> u32 {
        let number = self.free.pop().unwrap_or(self.rows.len() as u32);
        self.put_at(number, player, run);
        number
    }

    /// Puts a run at a number, for a player whose chain [`Runs::restored`] makes.
    pub fn put_at(&mut self, number: u32, player: u32, run: &Run) {
        self.room(number);
        // A changed row that was given up and is used again is still listed as changed.
        let changed = self.rows[number].arrival & u64::from(CHANGED);
        let flags = u64::from(run.flags) | changed;
        self.rows[number] =
            Row { score: run.score, arrival: run.arrival.0 << FLAG_BITS | flags, next: END | player };
        set(&mut self.subscores, number, run.subscore);
        set(&mut self.attributes, number, run.attributes);
        set(&mut self.tags, number, run.tag);
        if let Some(owners) = &mut self.owners {
            owners.grow(number as usize + 1, 0);
            owners[number] = player;
        }
    }

    /// Says that there is no run at a number.
    pub fn put_free(&mut self, number: u32) {
        self.room(number);
        self.rows[number] = Row { score: 0, arrival: u64::from(FREE), next: END };
    }

    fn room(&mut self, number: u32) {
        self.rows.grow(number as usize + 1, Row { score: 0, arrival: u64::from(FREE), next: END });
    }

    /// Makes chains and the list of free numbers from what was put.
    pub fn restored(&mut self, players: u32) {
        self.heads = Chunked::default();
        self.heads.grow(players as usize, NONE);
        self.free.clear();
        for number in 0..self.len() {
            let row = self.rows[number];
            if row.has(FREE) {
                self.free.push(number);
            } else if self.is_chained(number) {
                self.chain(row.next & !END, number);
            }
        }
    }

    /// Puts a run into its player's chain, newest first.
    fn chain(&mut self, player: u32, run: u32) {
        self.heads.grow(player as usize + 1, NONE);
        let arrival = self.arrival(run);
        let newer = self.of(player).take_while(|it| self.arrival(*it) > arrival).last();
        let older = match newer {
            None => std::mem::replace(&mut self.heads[player], run),
            Some(newer) => std::mem::replace(&mut self.rows[newer].next, run),
        };
        self.rows[run].next = if older == NONE || older & END != 0 { END | player } else { older };
    }

    /// Removes a run of a player.
    pub fn remove(&mut self, player: u32, run: u32) {
        let after = self.rows[run].next;
        if !self.is_chained(run) {
            // Nothing points to it.
        } else if self.heads[player] == run {
            self.heads[player] = if after & END == 0 { after } else { NONE };
        } else {
            let newer = self.of(player).find(|it| self.rows[*it].next == run);
            self.rows[newer.expect("a run is in its player's chain")].next = after;
        }
        self.change(run);
        let row = &mut self.rows[run];
        *row = Row { score: 0, arrival: row.arrival & FLAGS | u64::from(FREE), next: END };
        self.free.push(run);
    }

    fn change(&mut self, run: u32) {
        if !self.rows[run].has(CHANGED) {
            self.rows[run].arrival |= u64::from(CHANGED);
            self.changed.push(run);
        }
    }

    /// Numbers whose run changed since the last call.
    pub fn take_changed(&mut self) -> Vec<u32> {
        let changed = std::mem::take(&mut self.changed);
        for run in &changed {
            self.rows[*run].arrival &= !u64::from(CHANGED);
        }
        changed
    }

    /// Bytes of memory: of rows and chains, and of what few boards use.
    pub fn bytes(&self) -> (usize, usize) {
        let rows = self.rows.len() * size_of::<Row>() + (self.heads.len() + self.free.len()) * 4;
        let eights = [self.subscores.as_ref().map(Chunked::len), self.tags.as_ref().map(Chunked::len)];
        let fours = [self.attributes.as_ref().map(Chunked::len), self.owners.as_ref().map(Chunked::len)];
        let sum = |lens: [Option<usize>; 2]| lens.into_iter().flatten().sum::<usize>();
        (rows, sum(eights) * 8 + sum(fours) * 4)
    }
}

impl Keys for Runs {
    #[inline]
    fn key(&self, run: u32) -> Key {
        let row = self.rows[run];
        let subscore = if row.has(WITH_SUBSCORE) { self.subscore(run) } else { 0 };
        self.key_of(row.score, subscore, Arrival(row.arrival >> FLAG_BITS))
    }

    #[inline]
    fn prefetch(&self, run: u32) {
        memory::prefetch(&self.rows[run]);
    }
}

impl Runs {
    /// The key that a run of this score would have.
    #[inline]
    pub fn key_of(&self, score: i64, subscore: i64, arrival: Arrival) -> Key {
        // `!` turns the order around and has no value that it cannot turn.
        let turn = |units: i64| if self.order == Order::Asc { units } else { !units };
        Key { score: turn(score), subscore: turn(subscore), arrival: arrival.0 }
    }
}

fn set<T: Copy + Default + PartialEq>(column: &mut Option<Chunked<T>>, number: u32, value: T) {
    if column.is_none() && value == T::default() {
        return;
    }
    let column = column.get_or_insert_default();
    if value != T::default() || (number as usize) < column.len() {
        column.grow(number as usize + 1, T::default());
        column[number] = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(score: i64, turn: u64) -> Run {
        Run { score, arrival: Arrival(turn), ..Run::default() }
    }

    fn check(runs: &Runs, player: u32, expected: &[i64]) {
        let scores: Vec<i64> = runs.of(player).map(|run| runs.score(run)).collect();
        assert_eq!(scores, expected);
        assert!(runs.of(player).all(|run| runs.player(run) == player));
    }

    #[test]
    fn the_runs_of_a_player_are_told_newest_first() {
        for keep in [Keep::Best, Keep::All] {
            let mut runs = Runs::new(Order::Desc, keep);
            let [first, second, third] =
                [(10, 1), (30, 3), (20, 2)].map(|(score, turn)| runs.add(7, &run(score, turn)));
            runs.add(3, &run(5, 4));
            check(&runs, 7, &[30, 20, 10]);
            check(&runs, 3, &[5]);
            check(&runs, 0, &[]);
            runs.remove(7, third);
            check(&runs, 7, &[30, 10]);
            assert_eq!(runs.add(3, &run(6, 5)), third, "the number is used again");
            check(&runs, 3, &[6, 5]);
            runs.remove(7, second);
            runs.remove(7, first);
            check(&runs, 7, &[]);
            assert_eq!(runs.count(), 2);
        }
    }

    #[test]
    fn what_was_put_is_what_is_told() {
        let mut runs = Runs::new(Order::Desc, Keep::Best);
        let plain = runs.add(0, &run(-5, 1));
        let arrival = Arrival::first_of(1_800_000_000_123).next();
        let full =
            Run { score: 1, subscore: -2, arrival, flags: VERIFIED | WITH_SUBSCORE, attributes: 3, tag: 4 };
        let number = runs.add(0, &full);
        assert_eq!((runs.get(number), arrival.ms()), (full, 1_800_000_000_123));
        assert_eq!(runs.get(plain), run(-5, 1));
        assert_eq!(size_of::<Row>(), 20);
    }

    #[test]
    fn better_scores_have_smaller_keys_in_both_orders() {
        for (order, better, worse) in [(Order::Desc, i64::MAX, i64::MIN), (Order::Asc, i64::MIN, i64::MAX)] {
            let runs = Runs::new(order, Keep::Best);
            let key = |score, subscore, turn| runs.key_of(score, subscore, Arrival(turn));
            assert!(key(better, 0, 9) < key(0, 0, 1) && key(0, 0, 9) < key(worse, 0, 1));
            assert!(key(0, better, 9) < key(0, 0, 1));
            assert!(key(0, 0, 1) < key(0, 0, 2));
        }
    }

    #[test]
    fn each_changed_number_is_told_once() {
        let mut runs = Runs::new(Order::Desc, Keep::Best);
        let first = runs.add(0, &run(1, 1));
        runs.remove(0, first);
        runs.add(0, &run(2, 2));
        assert_eq!(runs.take_changed(), [first]);
        assert!(runs.take_changed().is_empty());
        runs.remove(0, first);
        assert_eq!(runs.take_changed(), [first]);
    }
}
