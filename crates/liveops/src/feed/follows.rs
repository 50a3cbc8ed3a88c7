//! Who follows whom.

use super::Feed;
use super::records;
use crate::game::Context;
use crate::{Answer, Refusal, Touched, check_player};

/// How many one player can follow.
const FOLLOWS_MAX: usize = 20_000;

impl Feed {
    /// The ids of those whom the player follows, in the order of the ids.
    pub fn follows(&self, player: &str) -> Vec<&str> {
        let followed = self.followed(player).iter();
        let mut ids: Vec<&str> = followed.map(|&other| &*self.actors.get(other).id).collect();
        ids.sort_unstable();
        ids
    }

    /// Whether the one follows the other.
    pub fn is_following(&self, player: &str, other: &str) -> bool {
        let other = self.actors.find(other);
        other.is_some_and(|other| self.followed(player).binary_search(&other).is_ok())
    }

    /// How many follow a player.
    pub fn followers(&self, player: &str) -> u32 {
        self.actors.by_id(player).map_or(0, |actor| actor.followers)
    }

    pub(super) fn followed(&self, player: &str) -> &[u32] {
        self.actors.by_id(player).map_or(&[], |actor| &actor.follows)
    }

    pub(super) fn follow(
        &mut self,
        context: &mut Context<'_>,
        player: &str,
        other: &str,
    ) -> Result<Answer, Refusal> {
        check_player("player", player)?;
        check_player("other", other)?;
        if player == other {
            return Err(Refusal::invalid("other", "nobody follows themselves"));
        }
        if !self.is_following(player, other) {
            self.check_follows(player, other)?;
            self.restore_follow(player, other);
            self.dirty.insert(records::follow_key(player, other));
            context.touched.push(Touched::Follows(player.to_owned()));
        }
        Ok(Answer::nothing())
    }

    fn check_follows(&self, player: &str, other: &str) -> Result<(), Refusal> {
        if self.followed(player).len() >= FOLLOWS_MAX {
            return Err(too_many("other", format!("a player follows at most {FOLLOWS_MAX}")));
        }
        if self.follow_count >= self.limits.follows {
            return Err(too_many("other", "there are as many follows in this game as there can be"));
        }
        if !self.has_room_for(player) || !self.has_room_for(other) {
            return Err(too_many("player", "the feed of this game knows as many players as it can"));
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

    pub(super) fn unfollow(&mut self, context: &mut Context<'_>, player: &str, other: &str) -> Answer {
        if let (Some(from), Some(to)) = (self.actors.find(player), self.actors.find(other))
            && self.cut(from, to)
        {
            context.touched.push(Touched::Follows(player.to_owned()));
            self.forget_if_idle(from);
            self.forget_if_idle(to);
        }
        Answer::nothing()
    }

    /// Ends a follow, if there is one. Both players stay known.
    fn cut(&mut self, from: u32, to: u32) -> bool {
        let follower = self.actors.get_mut(from);
        let Ok(place) = follower.follows.binary_search(&to) else { return false };
        follower.follows.remove(place);
        self.actors.get_mut(to).followers -= 1;
        self.follow_count -= 1;
        self.dirty.insert(records::follow_key(&self.actors.get(from).id, &self.actors.get(to).id));
        true
    }

    /// Ends all follows of a player in both directions.
    ///
    /// Followers are looked for among all players of the game: about 10 ms for a million of them, which nobody pays
    /// but the one who erases, and it saves every follow a second list.
    pub(super) fn cut_all(&mut self, actor: u32) {
        for other in self.actors.get(actor).follows.clone() {
            self.cut(actor, other);
            self.forget_if_idle(other);
        }
        for other in self.actors.numbers() {
            if self.actors.get(actor).followers == 0 {
                return;
            }
            if self.cut(other, actor) {
                self.forget_if_idle(other);
            }
        }
    }
}

/// A limit, and the field that went over it.
pub(super) fn too_many(field: &str, detail: impl Into<String>) -> Refusal {
    Refusal { field: Some(field.to_owned()), ..Refusal::too_many(detail) }
}
