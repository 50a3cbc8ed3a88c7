//! Follows between players.

use super::Feed;
use super::records;
use crate::game::CommandContext;
use crate::{CommandResponse, Refusal, Touched, check_player};

/// Players that one player can follow.
const FOLLOWS_MAX: usize = 20_000;

impl Feed {
    /// Returns the ids of the followed players, sorted.
    pub fn follows(&self, player: &str) -> Vec<&str> {
        let followed = self.followed(player).iter();
        let mut ids: Vec<&str> = followed.map(|&other| &*self.actors.get(other).id).collect();
        ids.sort_unstable();
        ids
    }

    /// Returns true if `player` follows `other`.
    pub fn is_following(&self, player: &str, other: &str) -> bool {
        let other = self.actors.find(other);
        other.is_some_and(|other| self.followed(player).binary_search(&other).is_ok())
    }

    /// Returns the number of a player's followers.
    pub fn followers(&self, player: &str) -> u32 {
        self.actors.by_id(player).map_or(0, |actor| actor.followers)
    }

    pub(super) fn followed(&self, player: &str) -> &[u32] {
        self.actors.by_id(player).map_or(&[], |actor| &actor.follows)
    }

    pub(super) fn follow(
        &mut self,
        context: &mut CommandContext<'_>,
        player: &str,
        other: &str,
    ) -> Result<CommandResponse, Refusal> {
        check_player("player", player)?;
        check_player("other", other)?;
        if player == other {
            return Err(Refusal::invalid("other", "a player cannot follow themselves"));
        }
        if !self.is_following(player, other) {
            self.check_follows(player, other)?;
            self.restore_follow(player, other);
            self.dirty.insert(records::follow_key(player, other));
            context.touched.push(Touched::Follows(player.to_owned()));
        }
        Ok(CommandResponse::no_content())
    }

    fn check_follows(&self, player: &str, other: &str) -> Result<(), Refusal> {
        if self.followed(player).len() >= FOLLOWS_MAX {
            return Err(too_many("other", format!("a player can follow at most {FOLLOWS_MAX} others")));
        }
        if self.follow_count >= self.limits.follows {
            return Err(too_many("other", "this game cannot have more follows"));
        }
        if !self.has_room_for(player) || !self.has_room_for(other) {
            return Err(too_many("player", "the feed of this game cannot have more players"));
        }
        Ok(())
    }

    pub(super) fn restore_follow(&mut self, player: &str, other: &str) {
        let (player, other) = (self.actors.find_or_add(player), self.actors.find_or_add(other));
        let follows = &mut self.actors.get_mut(player).follows;
        if let Err(place) = follows.binary_search(&other) {
            follows.insert(place, other);
            self.actors.get_mut(other).followers += 1;
            self.follow_count += 1;
        }
    }

    pub(super) fn unfollow(
        &mut self,
        context: &mut CommandContext<'_>,
        player: &str,
        other: &str,
    ) -> CommandResponse {
        if let (Some(from), Some(to)) = (self.actors.find(player), self.actors.find(other))
            && self.remove_follow(from, to)
        {
            context.touched.push(Touched::Follows(player.to_owned()));
            self.remove_if_idle(from);
            self.remove_if_idle(to);
        }
        CommandResponse::no_content()
    }

    /// Removes a follow if it exists, and returns true if it did. Does not remove players.
    fn remove_follow(&mut self, from: u32, to: u32) -> bool {
        let follower = self.actors.get_mut(from);
        let Ok(place) = follower.follows.binary_search(&to) else { return false };
        follower.follows.remove(place);
        self.actors.get_mut(to).followers -= 1;
        self.follow_count -= 1;
        self.dirty.insert(records::follow_key(&self.actors.get(from).id, &self.actors.get(to).id));
        true
    }

    /// Removes all follows of a player in both directions.
    ///
    /// Searches all players of the game for followers: about 10 ms for a million players, once per erasure, which saves
    /// a second list for every follow.
    pub(super) fn remove_all_follows(&mut self, actor: u32) {
        for other in self.actors.get(actor).follows.clone() {
            self.remove_follow(actor, other);
            self.remove_if_idle(other);
        }
        for other in self.actors.numbers() {
            if self.actors.get(actor).followers == 0 {
                return;
            }
            if self.remove_follow(other, actor) {
                self.remove_if_idle(other);
            }
        }
    }
}

/// Returns a refusal because a limit is reached, with the field that caused it.
pub(super) fn too_many(field: &str, detail: impl Into<String>) -> Refusal {
    Refusal { field: Some(field.to_owned()), ..Refusal::too_many(detail) }
}
