//! Rating a level: once per player, changeable.

use serde::Serialize;

use super::days::day;
use super::votes::{Given, RATING_MAX, RATING_MIN, Votes};
use super::{Levels, full};
use crate::game::Context;
use crate::names::check_player;
use crate::{Answer, Refusal};

/// Votes of a game, 80 MB of memory.
pub const VOTES_MAX: usize = 5_000_000;
/// Votes of one player.
pub const PLAYER_VOTES_MAX: u32 = 10_000;

#[derive(Serialize)]
struct Rated {
    id: String,
    /// The mean of all votes on the level.
    rating: Option<f64>,
    score: f64,
    votes: u32,
    /// Whether another rating of this player was replaced.
    changed: bool,
}

impl Levels {
    /// What a player gave a level.
    pub fn rating_of(&self, id: &str, player: &str) -> Option<u8> {
        let level = self.shelf.get(self.shelf.slot(id.as_bytes())?);
        Some(level.votes.of(self.people.number(player)?)?.rating())
    }

    pub(super) fn rate(
        &mut self,
        context: &Context<'_>,
        id: &str,
        player: &str,
        rating: u8,
    ) -> Result<Answer, Refusal> {
        check_player("player", player)?;
        if !(RATING_MIN..=RATING_MAX).contains(&rating) {
            return Err(Refusal::invalid("rating", format!("it is {RATING_MIN} to {RATING_MAX}")));
        }
        let slot = self.published(id)?;
        let level = self.shelf.get(slot);
        let before = self.people.number(player).and_then(|person| level.votes.of(person));
        if before.is_none() {
            self.check_vote_room(player)?;
        }
        if before.is_none_or(|given| given.rating() != rating) {
            let given = Given::new(rating, day(context.at.ms, context.tz));
            self.cast(slot, player, before.is_none(), given, context.at.offset);
        }
        let changed = before.is_some_and(|given| given.rating() != rating);
        let all = self.shelf.get(slot).votes.all();
        let rated =
            Rated { id: id.to_owned(), rating: all.mean(), score: all.score(), votes: all.votes, changed };
        Ok(if before.is_none() { Answer::created(&rated) } else { Answer::ok(&rated) })
    }

    fn check_vote_room(&self, player: &str) -> Result<(), Refusal> {
        if self.votes >= VOTES_MAX {
            return Err(full("rating", format!("a game has at most {VOTES_MAX} votes")));
        }
        if self.people.find(player).is_some_and(|person| person.votes >= PLAYER_VOTES_MAX) {
            return Err(full("player", format!("a player rates at most {PLAYER_VOTES_MAX} levels")));
        }
        Ok(())
    }

    fn cast(&mut self, slot: u32, player: &str, is_first: bool, given: Given, offset: u64) {
        let person = self.people.enter(player);
        if is_first {
            self.people.get_mut(person).votes += 1;
            self.votes += 1;
        }
        self.vote(slot, |votes| votes.cast(person, given));
        self.unwritten.vote(self.shelf.get(slot).id, player, offset, given);
    }

    /// Changes a level's votes and its place in the lists.
    pub(super) fn vote(&mut self, slot: u32, change: impl FnOnce(&mut Votes)) {
        let level = self.shelf.get_mut(slot);
        if !level.is_published() {
            return change(&mut level.votes);
        }
        self.orders.remove(level, slot);
        change(&mut level.votes);
        self.orders.insert(level, slot);
    }
}
