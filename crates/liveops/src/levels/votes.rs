//! The votes on one level, with their days and totals.

/// The lowest rating.
pub const RATING_MIN: u8 = 1;
/// The highest rating.
pub const RATING_MAX: u8 = 10;
/// Votes that count in the mode `recent`.
const RECENT: usize = 100;

/// The prior: one vote of each value.
const PRIOR_VOTES: u32 = 10;
const PRIOR_SUM: u32 = 55;

/// A number of votes and their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct VoteTally {
    pub(super) votes: u32,
    pub(super) sum: u32,
}

impl VoteTally {
    /// Returns the mean; `None` without votes.
    pub(super) fn mean(self) -> Option<f64> {
        (self.votes > 0).then(|| f64::from(self.sum) / f64::from(self.votes))
    }

    /// Returns the Bayesian average by which levels are ordered: `(55 + sum of the votes) / (10 + number of votes)`.
    ///
    /// It is the expected mean of further votes under a uniform prior: the posterior mean of ten equally likely values,
    /// with a Dirichlet prior of one vote each (P. Masurel, "Of Bayesian average and star ratings", 2013). One 10 gives
    /// 5.91, ninety 9s give 8.65.
    ///
    /// The mean of all votes of the game is not a suitable prior: it lies between the 9s and the 10, and an average
    /// that is pulled towards it from above stays above it. A prior that moves with each vote would also reorder all
    /// levels with each vote.
    pub(super) fn score(self) -> f64 {
        f64::from(PRIOR_SUM + self.sum) / f64::from(PRIOR_VOTES + self.votes)
    }

    fn add(&mut self, rating: u8, votes: u32) {
        self.votes += votes;
        self.sum += u32::from(rating) * votes;
    }
}

/// A rating and its day in 32 bits, so that a vote takes 8 bytes: the day in the upper bits, the rating in the last
/// four. Sorts by day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DatedRating(u32);

impl DatedRating {
    pub(super) fn new(rating: u8, day: u32) -> DatedRating {
        DatedRating(day << 4 | u32::from(rating & 15))
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

    pub(super) fn from_bytes(bytes: [u8; 4]) -> Option<DatedRating> {
        let dated = DatedRating(u32::from_le_bytes(bytes));
        (RATING_MIN..=RATING_MAX).contains(&dated.rating()).then_some(dated)
    }
}

#[derive(Clone, Copy, Debug)]
struct Vote {
    contributor: u32,
    dated: DatedRating,
}

/// All votes on a level.
///
/// A vote takes 8 bytes and at most as much in its day's bucket. Casting one is a pass over the level's votes, 0.1 ms
/// for 100,000 of them.
#[derive(Debug, Default)]
pub(super) struct Votes {
    all: VoteTally,
    recent: VoteTally,
    /// In log order. A changed vote counts as new.
    votes: Vec<Vote>,
    /// Non-zero counts by day and rating, sorted.
    buckets: Vec<(DatedRating, u32)>,
}

impl Votes {
    /// Returns the tally of all votes.
    pub(super) fn all(&self) -> VoteTally {
        self.all
    }

    /// Returns the tally of the last hundred votes.
    pub(super) fn recent(&self) -> VoteTally {
        self.recent
    }

    /// Returns the tally of the days from `first` to `last`, inclusive.
    pub(super) fn between(&self, first: u32, last: u32) -> VoteTally {
        let from = self.buckets.partition_point(|(dated, _)| dated.day() < first);
        let mut tally = VoteTally::default();
        for (dated, count) in self.buckets[from..].iter().take_while(|(dated, _)| dated.day() <= last) {
            tally.add(dated.rating(), *count);
        }
        tally
    }

    /// Returns a player's vote.
    pub(super) fn of(&self, contributor: u32) -> Option<DatedRating> {
        self.at(contributor).map(|at| self.votes[at].dated)
    }

    /// Returns all players who voted.
    pub(super) fn contributors(&self) -> impl Iterator<Item = u32> + '_ {
        self.votes.iter().map(|vote| vote.contributor)
    }

    /// Adds a vote. An earlier vote of the player is removed from its own day.
    pub(super) fn cast(&mut self, contributor: u32, dated: DatedRating) {
        self.remove(contributor);
        self.push(contributor, dated);
        self.count_recent();
    }

    /// Restores votes in log order.
    pub(super) fn restore(&mut self, votes: impl Iterator<Item = (u32, DatedRating)>) {
        votes.for_each(|(contributor, dated)| self.push(contributor, dated));
        self.count_recent();
    }

    /// Removes a player's vote.
    pub(super) fn withdraw(&mut self, contributor: u32) {
        self.remove(contributor);
        self.count_recent();
    }

    fn at(&self, contributor: u32) -> Option<usize> {
        self.votes.iter().position(|vote| vote.contributor == contributor)
    }

    fn push(&mut self, contributor: u32, dated: DatedRating) {
        self.votes.push(Vote { contributor, dated });
        self.all.add(dated.rating(), 1);
        match self.buckets.binary_search_by_key(&dated, |bucket| bucket.0) {
            Ok(at) => self.buckets[at].1 += 1,
            Err(at) => self.buckets.insert(at, (dated, 1)),
        }
    }

    fn remove(&mut self, contributor: u32) {
        let Some(at) = self.at(contributor) else { return };
        let dated = self.votes.remove(at).dated;
        self.all.votes -= 1;
        self.all.sum -= u32::from(dated.rating());
        let bucket = self.buckets.binary_search_by_key(&dated, |bucket| bucket.0);
        let bucket = bucket.expect("every vote is in its bucket");
        self.buckets[bucket].1 -= 1;
        if self.buckets[bucket].1 == 0 {
            self.buckets.remove(bucket);
        }
    }

    fn count_recent(&mut self) {
        self.recent = VoteTally::default();
        for vote in self.votes.iter().rev().take(RECENT) {
            self.recent.add(vote.dated.rating(), 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Casts votes of the form `contributor:rating@day`, and compares `votes/sum` of all, of the last hundred and of
    /// the days.
    fn check(casts: &str, days: std::ops::RangeInclusive<u32>, expected: &str) {
        let mut votes = Votes::default();
        for cast in casts.split_whitespace() {
            let (contributor, dated) = cast.split_once(':').expect("a contributor");
            let (rating, day) = dated.split_once('@').expect("a day");
            let number = |text: &str| text.parse::<u32>().expect("a number");
            votes.cast(number(contributor), DatedRating::new(number(rating) as u8, number(day)));
        }
        let text = |tally: VoteTally| format!("{}/{}", tally.votes, tally.sum);
        let window = votes.between(*days.start(), *days.end());
        let all = format!("{} {} {}", text(votes.all()), text(votes.recent()), text(window));
        assert_eq!(all, expected, "{casts}");
    }

    #[test]
    fn changed_vote_no_longer_counts_on_its_earlier_day() {
        check("1:4@7 2:5@7", 7..=7, "2/9 2/9 2/9");
        check("1:4@7 2:5@7 1:10@9", 7..=7, "2/15 2/15 1/5");
        check("1:4@7 2:5@7 1:10@9", 8..=9, "2/15 2/15 1/10");
        check("1:4@7 1:4@7 1:4@8", 7..=7, "1/4 1/4 0/0");
    }

    #[test]
    fn first_and_last_day_are_included() {
        check("1:1@6 2:2@7 3:3@8 4:4@9", 7..=8, "4/10 4/10 2/5");
        check("4:4@9 3:3@8 2:2@7 1:1@6", 9..=9, "4/10 4/10 1/4");
    }

    #[test]
    fn recent_counts_the_last_hundred_votes() {
        let ones = (0..100).map(|contributor| format!("{contributor}:1@1 ")).collect::<String>();
        check(&format!("{ones} 100:10@2"), 1..=1, "101/110 100/109 100/100");
        check(&format!("{ones} 100:10@2 100:2@2"), 2..=2, "101/102 100/101 1/2");
        check(&format!("{ones} 100:10@2 50:10@2"), 2..=2, "101/119 100/118 2/20");
    }

    #[test]
    fn one_10_does_not_beat_ninety_9s() {
        let score = |votes: u32, each: u32| VoteTally { votes, sum: votes * each }.score();
        assert!(score(1, 10) < score(90, 9));
        assert!(score(1, 1) < score(0, 0) && score(0, 0) < score(1, 10));
        assert!(score(90, 9) < score(90, 10) && score(50, 9) < score(90, 9));
    }

    #[test]
    fn scores_of_ten_million_votes_differ_by_one_point() {
        let votes = 10_000_000;
        let score = |more: u32| VoteTally { votes, sum: 5 * votes + more }.score();
        assert!(score(0) < score(1));
    }
}
