//! Rating a level: once per player, changeable.

use serde::Serialize;

use super::days::day;
use super::votes::{DatedRating, RATING_MAX, RATING_MIN, Votes};
use super::{Levels, limit_reached};
use crate::game::CommandContext;
use crate::names::check_player;
use crate::{CommandResponse, Refusal};

/// Votes of a game, 80 MB of memory.
pub(crate) const VOTES_MAX: usize = 5_000_000;
/// Votes of one player.
pub(crate) const PLAYER_VOTES_MAX: u32 = 10_000;

#[derive(Serialize)]
struct RateResponse {
    id: String,
    /// The mean of all votes on the level.
    rating: Option<f64>,
    score: f64,
    votes: u32,
    /// True if an earlier rating of this player was replaced.
    changed: bool,
}

impl Levels {
    /// Returns a player's rating of a level.
    pub fn rating_of(&self, id: &str, player: &str) -> Option<u8> {
        let level = self.arena.get(self.arena.slot(id.as_bytes())?);
        Some(level.votes.of(self.contributors.find_number(player)?)?.rating())
    }

    pub(super) fn rate(
        &mut self,
        context: &CommandContext<'_>,
        id: &str,
        player: &str,
        rating: u8,
    ) -> Result<CommandResponse, Refusal> {
        check_player("player", player)?;
        if !(RATING_MIN..=RATING_MAX).contains(&rating) {
            return Err(Refusal::invalid("rating", format!("must be between {RATING_MIN} and {RATING_MAX}")));
        }
        let slot = self.published(id)?;
        let level = self.arena.get(slot);
        let before =
            self.contributors.find_number(player).and_then(|contributor| level.votes.of(contributor));
        if before.is_none() {
            self.check_vote_room(player)?;
        }
        if before.is_none_or(|dated| dated.rating() != rating) {
            let dated = DatedRating::new(rating, day(context.at.ms, context.tz));
            self.cast(slot, player, before.is_none(), dated, context.at.offset);
        }
        let changed = before.is_some_and(|dated| dated.rating() != rating);
        let all = self.arena.get(slot).votes.all();
        let rated = RateResponse {
            id: id.to_owned(),
            rating: all.mean(),
            score: all.score(),
            votes: all.votes,
            changed,
        };
        Ok(if before.is_none() { CommandResponse::created(&rated) } else { CommandResponse::ok(&rated) })
    }

    fn check_vote_room(&self, player: &str) -> Result<(), Refusal> {
        if self.votes >= VOTES_MAX {
            return Err(limit_reached("rating", format!("a game can have at most {VOTES_MAX} votes")));
        }
        if self.contributors.find(player).is_some_and(|contributor| contributor.votes >= PLAYER_VOTES_MAX) {
            return Err(limit_reached(
                "player",
                format!("a player can rate at most {PLAYER_VOTES_MAX} levels"),
            ));
        }
        Ok(())
    }

    fn cast(&mut self, slot: u32, player: &str, is_first: bool, dated: DatedRating, offset: u64) {
        let contributor = self.contributors.find_or_add(player);
        if is_first {
            self.contributors.get_mut(contributor).votes += 1;
            self.votes += 1;
        }
        self.vote(slot, |votes| votes.cast(contributor, dated));
        self.unwritten.vote(self.arena.get(slot).id, player, offset, dated);
    }

    /// Changes a level's votes and its position in the lists.
    pub(super) fn vote(&mut self, slot: u32, change: impl FnOnce(&mut Votes)) {
        let level = self.arena.get_mut(slot);
        if !level.is_published() {
            return change(&mut level.votes);
        }
        self.orders.remove(level, slot);
        change(&mut level.votes);
        self.orders.insert(level, slot);
    }
}
