//! Whose rules are evaluated next. The games take turns, and the expensive rules of a game rest without delaying those of
//! other games. Pure: the time comes from the caller.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// The rules of a game rest this many times as long as a query took: they use a fifth of a core at most.
const REST_FACTOR: u32 = 4;
/// Rests that are shorter are gathered.
const REST_MIN: Duration = Duration::from_millis(5);

/// The rules that are to be evaluated, by game.
#[derive(Default)]
pub(crate) struct Turns {
    games: BTreeMap<u32, Turn>,
    /// The game of the last turn.
    last: u32,
}

#[derive(Default)]
struct Turn {
    waiting: VecDeque<String>,
    rests_until: Option<Instant>,
    /// The rest that was not taken yet.
    debt: Duration,
}

impl Turn {
    fn rest(&self, now: Instant) -> Duration {
        self.rests_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }
}

impl Turns {
    /// Adds a rule unless it waits already.
    pub(crate) fn add(&mut self, game: u32, key: &str) {
        let waiting = &mut self.games.entry(game).or_default().waiting;
        if waiting.iter().all(|other| other != key) {
            waiting.push_back(key.to_owned());
        }
    }

    /// Forgets the games that `is_kept` does not accept.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(u32) -> bool) {
        self.games.retain(|game, _| is_kept(*game));
    }

    /// Removes and returns the next rule, of the next game that does not rest.
    pub(crate) fn next(&mut self, now: Instant) -> Option<(u32, String)> {
        let is_ready = |turn: &Turn| !turn.waiting.is_empty() && turn.rest(now).is_zero();
        let later = self.games.range(self.last.saturating_add(1)..).chain(self.games.range(..=self.last));
        let game = later.into_iter().find(|(_, turn)| is_ready(turn)).map(|(game, _)| *game)?;
        self.last = game;
        let key = self.games.get_mut(&game)?.waiting.pop_front()?;
        Some((game, key))
    }

    /// Has a game rest for what a query of it has cost.
    pub(crate) fn spend(&mut self, game: u32, cost: Duration, now: Instant) {
        let Some(turn) = self.games.get_mut(&game) else { return };
        turn.debt += cost * REST_FACTOR;
        if turn.debt >= REST_MIN {
            turn.rests_until = Some(now + std::mem::take(&mut turn.debt));
        }
    }

    /// Returns the time until the first game with waiting rules has rested.
    pub(crate) fn pause(&self, now: Instant) -> Option<Duration> {
        let waiting = self.games.values().filter(|turn| !turn.waiting.is_empty());
        waiting.map(|turn| turn.rest(now)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(turns: &mut Turns, now: Instant) -> Vec<String> {
        let next = std::iter::from_fn(|| turns.next(now).map(|(game, key)| format!("{game}{key}")));
        next.collect()
    }

    #[test]
    fn games_take_turns() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        for (game, key) in [(1, "a"), (1, "b"), (1, "a"), (2, "a"), (3, "a"), (3, "b")] {
            turns.add(game, key);
        }
        assert_eq!(all(&mut turns, now), ["1a", "2a", "3a", "1b", "3b"]);
        assert_eq!(turns.pause(now), None);
    }

    #[test]
    fn expensive_rules_of_one_game_do_not_delay_the_others() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        let second = Duration::from_secs(1);
        for (game, key) in [(1, "a"), (1, "b"), (2, "a"), (2, "b")] {
            turns.add(game, key);
        }
        assert_eq!(turns.next(now), Some((1, "a".to_owned())));
        turns.spend(1, second, now);
        assert_eq!(all(&mut turns, now), ["2a", "2b"]);
        assert_eq!(turns.pause(now), Some(4 * second));
        // A rule that waits is not added twice, and the next one goes first.
        turns.add(1, "a");
        turns.add(1, "b");
        assert_eq!(all(&mut turns, now + 3 * second), [""; 0]);
        assert_eq!(all(&mut turns, now + 4 * second), ["1b", "1a"]);
    }

    #[test]
    fn short_rests_are_gathered() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        ["a", "b", "c"].iter().for_each(|key| turns.add(1, key));
        turns.spend(1, Duration::from_millis(1), now);
        assert_eq!(turns.pause(now), Some(Duration::ZERO));
        turns.spend(1, Duration::from_millis(1), now);
        assert_eq!(turns.pause(now), Some(Duration::from_millis(8)));
        turns.retain(|game| game != 1);
        assert_eq!(turns.pause(now), None);
    }
}
