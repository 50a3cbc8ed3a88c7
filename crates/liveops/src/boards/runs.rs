//! The runs of a board: each a score with its arrival, chained by player.
//!
//! A run takes 20 bytes. Data that few boards use is in columns of their own, created when first needed: subscores,
//! attributes, and, if a player may have many runs, the player and the list of a run.

use super::chunked::Chunked;
use super::config::{KeepRule, ScoreOrder};
use super::tree::{RankKey, RankKeys};

/// 2020-01-01, the epoch of arrivals.
const EPOCH_MS: i64 = 1_577_836_800_000;
/// Bits of the sequence within a millisecond: up to 2^18 runs.
const SEQUENCE_BITS: u32 = 18;

/// The time of a run: milliseconds since 2020, and a sequence number within the millisecond. Later runs have greater
/// ones.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct Arrival(pub u64);

impl Arrival {
    /// Later than any run.
    pub(super) const NEVER: Arrival = Arrival(u64::MAX >> FLAG_BITS);

    /// Returns the first arrival of a millisecond. Times before 2020 and after 2159 are clamped.
    pub fn first_of(ms: i64) -> Arrival {
        let ms = ms.saturating_sub(EPOCH_MS).clamp(0, (1 << (64 - SEQUENCE_BITS - FLAG_BITS)) - 1);
        Arrival((ms as u64) << SEQUENCE_BITS)
    }

    /// Returns the time in milliseconds since 1970.
    pub fn ms(self) -> i64 {
        EPOCH_MS + (self.0 >> SEQUENCE_BITS) as i64
    }

    /// Returns the next arrival.
    pub fn next(self) -> Arrival {
        Arrival(self.0 + 1)
    }
}

/// The run was signed or came from a server.
pub(super) const VERIFIED: u8 = 1;
/// The run has a subscore.
pub(super) const WITH_SUBSCORE: u8 = 2;
/// The run must be written with the next checkpoint.
const CHANGED: u8 = 4;
/// The number is not in use.
const FREE: u8 = 8;
const FLAG_BITS: u32 = 4;
const FLAGS: u64 = (1 << FLAG_BITS) - 1;

/// The last run of a chain has this bit and the player's number as its next.
const END: u32 = 1 << 31;
/// No run: the head of an empty chain.
pub(super) const NONE: u32 = END - 1;

/// A run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// In units of the board's decimals.
    pub score: i64,
    /// 0 if there is none.
    pub subscore: i64,
    /// Its time and position among all runs of the board.
    pub arrival: Arrival,
    /// Flags: verified (1), with subscore (2).
    pub flags: u8,
    /// The number of its attributes; 0 for none.
    pub attributes: u32,
    /// On boards of sums, the list and window of a sum; 0 for a run.
    pub tag: u64,
}

/// A stored run, 20 bytes.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
struct RunRow {
    score: i64,
    /// With flags in the lowest bits, which do not affect the order.
    arrival: u64,
    /// The player's next older run, or [`END`] and the player.
    next: u32,
}

impl RunRow {
    fn has(&self, flag: u8) -> bool {
        self.arrival & u64::from(flag) != 0
    }
}

/// The runs of a board.
#[derive(Default)]
pub struct Runs {
    rows: Chunked<RunRow>,
    subscores: Option<Chunked<i64>>,
    attributes: Option<Chunked<u32>>,
    tags: Option<Chunked<u64>>,
    owners: Option<Chunked<u32>>,
    /// The newest run of each player.
    heads: Chunked<u32>,
    free: Vec<u32>,
    changed: Vec<u32>,
    order: ScoreOrder,
    keep: KeepRule,
}

impl Runs {
    pub fn new(order: ScoreOrder, keep: KeepRule) -> Runs {
        let mut runs = Runs::default();
        runs.reorder(order, keep);
        runs
    }

    /// Changes order and keep rule. The board must have no runs.
    pub(super) fn reorder(&mut self, order: ScoreOrder, keep: KeepRule) {
        debug_assert_eq!(self.count(), 0, "runs keep the order with which they were added");
        let mut owners = Chunked::default();
        owners.grow(self.rows.len(), 0);
        let has_many = matches!(keep, KeepRule::All | KeepRule::Sum);
        (self.order, self.keep, self.owners) = (order, keep, has_many.then_some(owners));
    }

    /// On boards of sums a player may have very many runs, which are not chained; sums are.
    fn is_chained(&self, run: u32) -> bool {
        self.keep != KeepRule::Sum || self.tag(run) != 0
    }

    /// Returns the count of numbers, including free ones.
    pub fn len(&self) -> u32 {
        self.rows.len() as u32
    }

    /// Returns the count of runs.
    pub fn count(&self) -> usize {
        self.rows.len() - self.free.len()
    }

    pub(super) fn exists(&self, run: u32) -> bool {
        !self.rows[run].has(FREE)
    }

    #[inline]
    pub fn arrival(&self, run: u32) -> Arrival {
        Arrival(self.rows[run].arrival >> FLAG_BITS)
    }

    /// Changes the arrival of a run. The order of the player's runs must stay the same.
    pub(super) fn set_arrival(&mut self, run: u32, arrival: Arrival) {
        let row = &mut self.rows[run];
        row.arrival = arrival.0 << FLAG_BITS | row.arrival & FLAGS;
        self.mark_changed(run);
    }

    pub fn score(&self, run: u32) -> i64 {
        self.rows[run].score
    }

    #[inline]
    pub(super) fn attributes(&self, run: u32) -> u32 {
        self.attributes.as_ref().and_then(|all| all.get(run)).copied().unwrap_or(0)
    }

    pub fn tag(&self, run: u32) -> u64 {
        self.tags.as_ref().and_then(|all| all.get(run)).copied().unwrap_or(0)
    }

    fn subscore(&self, run: u32) -> i64 {
        self.subscores.as_ref().and_then(|all| all.get(run)).copied().unwrap_or(0)
    }

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

    /// Returns the player of a run.
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

    /// Returns a player's runs, newest first. On boards of sums, returns the sums.
    #[inline]
    pub(super) fn of_player(&self, player: u32) -> impl Iterator<Item = u32> {
        let first = if (player as usize) < self.heads.len() { self.heads[player] } else { NONE };
        std::iter::successors((first != NONE).then_some(first), |run| {
            let next = self.rows[*run].next;
            (next & END == 0).then_some(next)
        })
    }

    /// Adds a run of a player and returns its number.
    pub fn add(&mut self, player: u32, run: &Run) -> u32 {
        let number = self.put(player, run);
        if self.is_chained(number) {
            self.chain(player, number);
        }
        self.mark_changed(number);
        number
    }

    /// Puts a run at a free number.
    fn put(&mut self, player: u32, run: &Run) -> u32 {
        let number = self.free.pop().unwrap_or(self.rows.len() as u32);
        self.put_at(number, player, run);
        number
    }

    /// Puts a run at a number. [`Runs::finish_restore`] must follow to build the player's chain.
    pub(super) fn put_at(&mut self, number: u32, player: u32, run: &Run) {
        self.grow_to(number);
        // A row that changed, was freed and is used again is still listed as changed.
        let changed = self.rows[number].arrival & u64::from(CHANGED);
        let flags = u64::from(run.flags) | changed;
        self.rows[number] =
            RunRow { score: run.score, arrival: run.arrival.0 << FLAG_BITS | flags, next: END | player };
        set(&mut self.subscores, number, run.subscore);
        set(&mut self.attributes, number, run.attributes);
        set(&mut self.tags, number, run.tag);
        if let Some(owners) = &mut self.owners {
            owners.grow(number as usize + 1, 0);
            owners[number] = player;
        }
    }

    /// Marks a number as not in use.
    pub(super) fn put_empty(&mut self, number: u32) {
        self.grow_to(number);
        self.rows[number] = RunRow { score: 0, arrival: u64::from(FREE), next: END };
    }

    fn grow_to(&mut self, number: u32) {
        self.rows.grow(number as usize + 1, RunRow { score: 0, arrival: u64::from(FREE), next: END });
    }

    /// Builds the chains and the list of free numbers.
    pub fn finish_restore(&mut self, players: u32) {
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

    /// Inserts a run into its player's chain, newest first.
    fn chain(&mut self, player: u32, run: u32) {
        self.heads.grow(player as usize + 1, NONE);
        let arrival = self.arrival(run);
        let newer = self.of_player(player).take_while(|it| self.arrival(*it) > arrival).last();
        let older = match newer {
            None => std::mem::replace(&mut self.heads[player], run),
            Some(newer) => std::mem::replace(&mut self.rows[newer].next, run),
        };
        self.rows[run].next = if older == NONE || older & END != 0 { END | player } else { older };
    }

    pub fn remove(&mut self, player: u32, run: u32) {
        let after = self.rows[run].next;
        if !self.is_chained(run) {
            // Nothing points to it.
        } else if self.heads[player] == run {
            self.heads[player] = if after & END == 0 { after } else { NONE };
        } else {
            let newer = self.of_player(player).find(|it| self.rows[*it].next == run);
            self.rows[newer.expect("a run is in its player's chain")].next = after;
        }
        self.mark_changed(run);
        let row = &mut self.rows[run];
        *row = RunRow { score: 0, arrival: row.arrival & FLAGS | u64::from(FREE), next: END };
        self.free.push(run);
    }

    fn mark_changed(&mut self, run: u32) {
        if !self.rows[run].has(CHANGED) {
            self.rows[run].arrival |= u64::from(CHANGED);
            self.changed.push(run);
        }
    }

    /// Returns the numbers of runs that changed since the previous call.
    pub fn drain_changed(&mut self) -> Vec<u32> {
        let changed = std::mem::take(&mut self.changed);
        for run in &changed {
            self.rows[*run].arrival &= !u64::from(CHANGED);
        }
        changed
    }

    /// Returns the bytes of rows and chains, and of the optional columns.
    pub fn bytes(&self) -> (usize, usize) {
        let rows = self.rows.len() * size_of::<RunRow>() + (self.heads.len() + self.free.len()) * 4;
        let eights = [self.subscores.as_ref().map(Chunked::len), self.tags.as_ref().map(Chunked::len)];
        let fours = [self.attributes.as_ref().map(Chunked::len), self.owners.as_ref().map(Chunked::len)];
        let sum = |lens: [Option<usize>; 2]| lens.into_iter().flatten().sum::<usize>();
        (rows, sum(eights) * 8 + sum(fours) * 4)
    }
}

impl RankKeys for Runs {
    #[inline]
    fn key(&self, run: u32) -> RankKey {
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
    /// Returns the key that a run with this score would have.
    #[inline]
    pub fn key_of(&self, score: i64, subscore: i64, arrival: Arrival) -> RankKey {
        // `!` inverts the order and, unlike `-`, works for every value.
        let invert = |units: i64| if self.order == ScoreOrder::Asc { units } else { !units };
        RankKey { score: invert(score), subscore: invert(subscore), arrival: arrival.0 }
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
        let scores: Vec<i64> = runs.of_player(player).map(|run| runs.score(run)).collect();
        assert_eq!(scores, expected);
        assert!(runs.of_player(player).all(|run| runs.player(run) == player));
    }

    #[test]
    fn runs_of_a_player_are_listed_newest_first() {
        for keep in [KeepRule::Best, KeepRule::All] {
            let mut runs = Runs::new(ScoreOrder::Desc, keep);
            let [first, second, third] =
                [(10, 1), (30, 3), (20, 2)].map(|(score, turn)| runs.add(7, &run(score, turn)));
            runs.add(3, &run(5, 4));
            check(&runs, 7, &[30, 20, 10]);
            check(&runs, 3, &[5]);
            check(&runs, 0, &[]);
            runs.remove(7, third);
            check(&runs, 7, &[30, 10]);
            assert_eq!(runs.add(3, &run(6, 5)), third, "the number is reused");
            check(&runs, 3, &[6, 5]);
            runs.remove(7, second);
            runs.remove(7, first);
            check(&runs, 7, &[]);
            assert_eq!(runs.count(), 2);
        }
    }

    #[test]
    fn run_is_read_back_as_it_was_added() {
        let mut runs = Runs::new(ScoreOrder::Desc, KeepRule::Best);
        let plain = runs.add(0, &run(-5, 1));
        let arrival = Arrival::first_of(1_800_000_000_123).next();
        let full =
            Run { score: 1, subscore: -2, arrival, flags: VERIFIED | WITH_SUBSCORE, attributes: 3, tag: 4 };
        let number = runs.add(0, &full);
        assert_eq!((runs.get(number), arrival.ms()), (full, 1_800_000_000_123));
        assert_eq!(runs.get(plain), run(-5, 1));
        assert_eq!(size_of::<RunRow>(), 20);
    }

    #[test]
    fn better_scores_have_smaller_keys_in_both_orders() {
        for (order, better, worse) in
            [(ScoreOrder::Desc, i64::MAX, i64::MIN), (ScoreOrder::Asc, i64::MIN, i64::MAX)]
        {
            let runs = Runs::new(order, KeepRule::Best);
            let key = |score, subscore, turn| runs.key_of(score, subscore, Arrival(turn));
            assert!(key(better, 0, 9) < key(0, 0, 1) && key(0, 0, 9) < key(worse, 0, 1));
            assert!(key(0, better, 9) < key(0, 0, 1));
            assert!(key(0, 0, 1) < key(0, 0, 2));
        }
    }

    #[test]
    fn each_changed_number_is_drained_once() {
        let mut runs = Runs::new(ScoreOrder::Desc, KeepRule::Best);
        let first = runs.add(0, &run(1, 1));
        runs.remove(0, first);
        runs.add(0, &run(2, 2));
        assert_eq!(runs.drain_changed(), [first]);
        assert!(runs.drain_changed().is_empty());
        runs.remove(0, first);
        assert_eq!(runs.drain_changed(), [first]);
    }
}
