//! The votes on one level: who gave what on which day, and what they come to.

/// The least and the greatest that a player can give.
pub const RATING_MIN: u8 = 1;
/// See [`RATING_MIN`].
pub const RATING_MAX: u8 = 10;
/// As many votes count for the mode `recent`.
const RECENT: usize = 100;

/// One vote of each value, which every level is thought to have before the first real one.
const PRIOR_VOTES: u32 = 10;
const PRIOR_SUM: u32 = 55;

/// How many votes, and their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) votes: u32,
    pub(super) sum: u32,
}

impl Tally {
    /// The plain mean; nothing without votes.
    pub(super) fn mean(self) -> Option<f64> {
        (self.votes > 0).then(|| f64::from(self.sum) / f64::from(self.votes))
    }

    /// The Bayesian average by which levels are ordered: `(55 + sum of the votes) / (10 + number of votes)`.
    ///
    /// It is the mean that is to be expected of further votes when nothing was known before the first one: the
    /// posterior mean of ten equally likely values, a Dirichlet prior of one vote each (P. Masurel, "Of Bayesian
    /// average and star ratings", 2013). One 10 gives 5.91, ninety 9s give 8.65.
    ///
    /// The mean of all the game's votes would be no such prior: it lies between the 9s and the 10, and what is pulled
    /// towards it from above stays above it. And a prior that moves with each vote would reorder all levels with each.
    pub(super) fn score(self) -> f64 {
        f64::from(PRIOR_SUM + self.sum) / f64::from(PRIOR_VOTES + self.votes)
    }

    fn add(&mut self, rating: u8, votes: u32) {
        self.votes += votes;
        self.sum += u32::from(rating) * votes;
    }
}

/// A rating and the day it was given, in one word, so that a vote takes 8 bytes: days above, the rating in the last four
/// bits. The order is that of the days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Given(u32);

impl Given {
    pub(super) fn new(rating: u8, day: u32) -> Given {
        Given(day << 4 | u32::from(rating & 15))
    }

    pub(super) fn rating(self) -> u8 {
        (self.0 & 15) as u8
    }

    pub(super) fn day(self) -> u32 {
        self.0 >> 4
    }

    pub(super) fn to_bytes(self) -> [u8; 4] {
        self.0.to_le_bytes()
    }

    pub(super) fn from_bytes(bytes: [u8; 4]) -> Option<Given> {
        let given = Given(u32::from_le_bytes(bytes));
        (RATING_MIN..=RATING_MAX).contains(&given.rating()).then_some(given)
    }
}

#[derive(Clone, Copy, Debug)]
struct Vote {
    person: u32,
    given: Given,
}

/// All votes on a level.
///
/// A vote costs 8 bytes and at most as much in its day's bucket; casting one is a pass over the level's votes,
/// 0.1 ms at 100,000 of them.
#[derive(Debug, Default)]
pub(super) struct Votes {
    all: Tally,
    recent: Tally,
    /// In the order in which they were given; a changed vote is a new one.
    votes: Vec<Vote>,
    /// Ten counts a day, those that are not zero, in order.
    buckets: Vec<(Given, u32)>,
}

impl Votes {
    /// Of all votes.
    pub(super) fn all(&self) -> Tally {
        self.all
    }

    /// Of the last hundred.
    pub(super) fn recent(&self) -> Tally {
        self.recent
    }

    /// Of the days from `first` to `last`, both included.
    pub(super) fn between(&self, first: u32, last: u32) -> Tally {
        let from = self.buckets.partition_point(|(given, _)| given.day() < first);
        let mut tally = Tally::default();
        for (given, count) in self.buckets[from..].iter().take_while(|(given, _)| given.day() <= last) {
            tally.add(given.rating(), *count);
        }
        tally
    }

    /// What this person gave.
    pub(super) fn of(&self, person: u32) -> Option<Given> {
        self.at(person).map(|at| self.votes[at].given)
    }

    /// Everybody who voted.
    pub(super) fn people(&self) -> impl Iterator<Item = u32> + '_ {
        self.votes.iter().map(|vote| vote.person)
    }

    /// Takes a vote in place of the person's earlier one, which leaves its own day.
    pub(super) fn cast(&mut self, person: u32, given: Given) {
        self.take_out(person);
        self.push(person, given);
        self.count_recent();
    }

    /// Takes votes that were read back, in the order in which they were given.
    pub(super) fn restore(&mut self, votes: impl Iterator<Item = (u32, Given)>) {
        votes.for_each(|(person, given)| self.push(person, given));
        self.count_recent();
    }

    /// Forgets this person's vote.
    pub(super) fn withdraw(&mut self, person: u32) {
        self.take_out(person);
        self.count_recent();
    }

    fn at(&self, person: u32) -> Option<usize> {
        self.votes.iter().position(|vote| vote.person == person)
    }

    fn push(&mut self, person: u32, given: Given) {
        self.votes.push(Vote { person, given });
        self.all.add(given.rating(), 1);
        match self.buckets.binary_search_by_key(&given, |bucket| bucket.0) {
            Ok(at) => self.buckets[at].1 += 1,
            Err(at) => self.buckets.insert(at, (given, 1)),
        }
    }

    fn take_out(&mut self, person: u32) {
        let Some(at) = self.at(person) else { return };
        let given = self.votes.remove(at).given;
        self.all.votes -= 1;
        self.all.sum -= u32::from(given.rating());
        let bucket = self.buckets.binary_search_by_key(&given, |bucket| bucket.0);
        let bucket = bucket.expect("every vote is in its bucket");
        self.buckets[bucket].1 -= 1;
        if self.buckets[bucket].1 == 0 {
            self.buckets.remove(bucket);
        }
    }

    fn count_recent(&mut self) {
        self.recent = Tally::default();
        for vote in self.votes.iter().rev().take(RECENT) {
            self.recent.add(vote.given.rating(), 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Casts `person:rating@day` one after the other and tells `votes/sum` of all, of the last hundred and of the days.
    fn check(casts: &str, days: std::ops::RangeInclusive<u32>, expected: &str) {
        let mut votes = Votes::default();
        for cast in casts.split_whitespace() {
            let (person, given) = cast.split_once(':').expect("a person");
            let (rating, day) = given.split_once('@').expect("a day");
            let number = |text: &str| text.parse::<u32>().expect("a number");
            votes.cast(number(person), Given::new(number(rating) as u8, number(day)));
        }
        let told = |tally: Tally| format!("{}/{}", tally.votes, tally.sum);
        let window = votes.between(*days.start(), *days.end());
        let all = format!("{} {} {}", told(votes.all()), told(votes.recent()), told(window));
        assert_eq!(all, expected, "{casts}");
    }

    #[test]
    fn a_changed_vote_leaves_its_own_day() {
        check("1:4@7 2:5@7", 7..=7, "2/9 2/9 2/9");
        check("1:4@7 2:5@7 1:10@9", 7..=7, "2/15 2/15 1/5");
        check("1:4@7 2:5@7 1:10@9", 8..=9, "2/15 2/15 1/10");
        check("1:4@7 1:4@7 1:4@8", 7..=7, "1/4 1/4 0/0");
    }

    #[test]
    fn a_day_has_its_edges() {
        check("1:1@6 2:2@7 3:3@8 4:4@9", 7..=8, "4/10 4/10 2/5");
        check("4:4@9 3:3@8 2:2@7 1:1@6", 9..=9, "4/10 4/10 1/4");
    }

    #[test]
    fn only_the_last_hundred_are_recent() {
        let ones = (0..100).map(|person| format!("{person}:1@1 ")).collect::<String>();
        check(&format!("{ones} 100:10@2"), 1..=1, "101/110 100/109 100/100");
        check(&format!("{ones} 100:10@2 100:2@2"), 2..=2, "101/102 100/101 1/2");
        check(&format!("{ones} 100:10@2 50:10@2"), 2..=2, "101/119 100/118 2/20");
    }

    #[test]
    fn one_ten_does_not_beat_ninety_nines() {
        let score = |votes: u32, each: u32| Tally { votes, sum: votes * each }.score();
        assert!(score(1, 10) < score(90, 9));
        assert!(score(1, 1) < score(0, 0) && score(0, 0) < score(1, 10));
        assert!(score(90, 9) < score(90, 10) && score(50, 9) < score(90, 9));
    }

    #[test]
    fn scores_of_so_many_votes_are_told_apart() {
        let votes = 10_000_000;
        let score = |more: u32| Tally { votes, sum: 5 * votes + more }.score();
        assert!(score(0) < score(1));
    }
}
