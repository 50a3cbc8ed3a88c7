//! The catalogue of achievements, and who was granted which when.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};

use super::deed::Deed;
use super::follows::too_many;
use super::items::Post;
use super::{Feed, check_name, records, rfc3339};
use crate::game::Context;
use crate::{Answer, Refusal, Touched, check_player, check_text, is_key};

/// Achievements of one game, those included that were deleted but are still somebody's.
const ACHIEVEMENTS_MAX: usize = 1_000;
const NAME_BYTES_MAX: usize = 200;
const DESCRIPTION_BYTES_MAX: usize = 2_000;
const ICON_BYTES_MAX: usize = 2_000;
const POINTS_MAX: u32 = 1_000_000;
/// Friends that a list names for each achievement; it counts all.
const FRIENDS_NAMED_MAX: usize = 100;

/// What there is to achieve.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Achievement {
    /// For people, 1 to 200 bytes.
    pub name: String,
    /// For people, up to 2,000 bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What it is worth, up to a million.
    #[serde(default)]
    pub points: u32,
    /// The address of a picture, up to 2,000 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// Whether it is a secret from those who do not have it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
}

/// An achievement under its key.
#[derive(Serialize)]
struct Keyed<'a> {
    key: &'a str,
    #[serde(flatten)]
    achievement: &'a Achievement,
}

/// All keys that are in the catalogue or that somebody was granted.
#[derive(Default)]
pub(super) struct Achievements {
    by_key: BTreeMap<Arc<str>, Known>,
}

#[derive(Default)]
struct Known {
    /// `None`: deleted. Who has it keeps it, and it is seen again when it is put again.
    achievement: Option<Achievement>,
    granted: u32,
}

impl Achievements {
    pub(super) fn get(&self, key: &str) -> Option<&Achievement> {
        self.by_key.get(key)?.achievement.as_ref()
    }

    pub(super) fn put(&mut self, key: &str, achievement: Achievement) {
        self.known(key).1.achievement = Some(achievement);
    }

    fn known(&mut self, key: &str) -> (Arc<str>, &mut Known) {
        let entry = self.by_key.entry(key.into());
        (Arc::clone(entry.key()), entry.or_default())
    }

    fn delete(&mut self, key: &str) -> bool {
        let deleted = self.by_key.get_mut(key).and_then(|known| known.achievement.take());
        self.forget_if_nobodys(key);
        deleted.is_some()
    }

    /// Counts a grant, and gives the key to keep.
    pub(super) fn grant(&mut self, key: &str) -> Arc<str> {
        let (key, known) = self.known(key);
        known.granted += 1;
        key
    }

    /// Takes a grant back.
    pub(super) fn revoke(&mut self, key: &str) {
        if let Some(known) = self.by_key.get_mut(key) {
            known.granted -= 1;
        }
        self.forget_if_nobodys(key);
    }

    fn forget_if_nobodys(&mut self, key: &str) {
        if self.by_key.get(key).is_some_and(|known| known.achievement.is_none() && known.granted == 0) {
            self.by_key.remove(key);
        }
    }
}

/// Whose grants a list shows beside the player's own.
#[derive(Clone, Copy, Debug)]
pub enum Friends<'a> {
    /// These players'.
    These(&'a [&'a str]),
    /// Those of everybody whom this player follows.
    FollowedBy(&'a str),
}

/// The catalogue as a player sees it.
#[derive(Debug, Serialize)]
pub struct AchievementList<'a> {
    achievements: Vec<Listed<'a>>,
}

#[derive(Debug, Serialize)]
struct Listed<'a> {
    key: &'a str,
    #[serde(flatten)]
    achievement: &'a Achievement,
    #[serde(skip_serializing_if = "Option::is_none")]
    granted_at: Option<String>,
    friends: Vec<Friend<'a>>,
    friends_count: usize,
}

#[derive(Debug, Serialize)]
struct Friend<'a> {
    player: &'a str,
    name: &'a str,
    at: String,
}

/// Times and players by achievement.
type Grants<'a> = HashMap<&'a str, Vec<(i64, u32)>, FxBuildHasher>;

impl Feed {
    /// The catalogue in the order of its keys, with the times of the player's own grants and with the friends that
    /// have each, the newest first, at most 100 of them. A hidden achievement is listed for who has it, and for all
    /// with `hidden`.
    pub fn achievements(
        &self,
        player: Option<&str>,
        friends: Friends<'_>,
        hidden: bool,
    ) -> AchievementList<'_> {
        let own = player.and_then(|player| self.actors.find(player));
        let own = self.grants_of(own.into_iter());
        let friends = match friends {
            Friends::These(ids) => {
                let actors: HashSet<u32> = ids.iter().filter_map(|id| self.actors.find(id)).collect();
                self.grants_of(actors.into_iter())
            }
            Friends::FollowedBy(player) => self.grants_of(self.followed(player).iter().copied()),
        };
        let mut list = AchievementList { achievements: Vec::new() };
        for (key, known) in &self.achievements.by_key {
            let granted_at = own.get(&**key).and_then(|grants| grants.first()).map(|(at, _)| rfc3339(*at));
            let Some(achievement) = &known.achievement else { continue };
            if !achievement.hidden || hidden || granted_at.is_some() {
                let mut grants = friends.get(&**key).cloned().unwrap_or_default();
                let friends_count = grants.len();
                let friends = self.newest_friends(&mut grants);
                list.achievements.push(Listed { key, achievement, granted_at, friends, friends_count });
            }
        }
        list
    }

    fn grants_of(&self, actors: impl Iterator<Item = u32>) -> Grants<'_> {
        let mut grants = Grants::default();
        for actor in actors {
            for (key, at) in &self.actors.get(actor).grants {
                grants.entry(&**key).or_default().push((*at, actor));
            }
        }
        grants
    }

    /// The newest first, those of the same time in the order of their ids.
    fn newest_friends(&self, grants: &mut Vec<(i64, u32)>) -> Vec<Friend<'_>> {
        let id = |actor: u32| &*self.actors.get(actor).id;
        grants.sort_unstable_by(|(at, actor), (at2, actor2)| {
            at2.cmp(at).then_with(|| id(*actor).cmp(id(*actor2)))
        });
        grants.truncate(FRIENDS_NAMED_MAX);
        let friend = |(at, actor): &(i64, u32)| {
            let actor = self.actors.get(*actor);
            Friend { player: &actor.id, name: &actor.name, at: rfc3339(*at) }
        };
        grants.iter().map(friend).collect()
    }

    /// When a player was granted an achievement, milliseconds since 1970.
    pub fn granted_ms(&self, player: &str, key: &str) -> Option<i64> {
        let mut grants = self.actors.by_id(player)?.grants.iter();
        grants.find(|(granted, _)| **granted == *key).map(|(_, at)| *at)
    }

    pub(super) fn put_achievement(&mut self, key: &str, achievement: Achievement) -> Result<Answer, Refusal> {
        if !is_key(key) {
            return Err(Refusal::invalid("key", "it has 1 to 100 letters, digits, `.`, `_` or `-`"));
        }
        achievement.check()?;
        let answer = Answer::ok(&Keyed { key, achievement: &achievement });
        if self.achievements.by_key.len() >= ACHIEVEMENTS_MAX && !self.achievements.by_key.contains_key(key) {
            return Err(too_many("key", format!("a game has at most {ACHIEVEMENTS_MAX} achievements")));
        }
        self.achievements.put(key, achievement);
        self.dirty.insert(records::achievement_key(key));
        Ok(answer)
    }

    pub(super) fn delete_achievement(&mut self, key: &str) -> Result<Answer, Refusal> {
        if !self.achievements.delete(key) {
            return Err(unknown(key));
        }
        self.dirty.insert(records::achievement_key(key));
        Ok(Answer::nothing())
    }

    pub(super) fn grant(
        &mut self,
        context: &mut Context<'_>,
        key: &str,
        player: &str,
        name: &str,
    ) -> Result<Answer, Refusal> {
        check_player("player", player)?;
        check_name(name)?;
        self.achievements.get(key).ok_or_else(|| unknown(key))?;
        if let Some(at_ms) = self.granted_ms(player, key) {
            return Ok(Answer::ok(&Granted { granted: false, at: rfc3339(at_ms) }));
        }
        if !self.has_room_for(player) {
            return Err(too_many("player", "this game has as many players as it can"));
        }
        let at_ms = context.at.ms;
        let kept = self.achievements.grant(key);
        let actor = self.actors.find_or_add(player);
        self.actors.get_mut(actor).grants.push((kept, at_ms));
        self.dirty.insert(records::grants_key(player));
        self.post(Post { at_ms, player, name, deed: Deed::Achievement { key }, body: None });
        context.touched.push(Touched::Posted(player.to_owned()));
        Ok(Answer::created(&Granted { granted: true, at: rfc3339(at_ms) }))
    }
}

#[derive(Serialize)]
struct Granted {
    granted: bool,
    at: String,
}

fn unknown(key: &str) -> Refusal {
    Refusal::not_found(format!("there is no achievement {key:?}"))
}

impl Achievement {
    fn check(&self) -> Result<(), Refusal> {
        if self.name.is_empty() {
            return Err(Refusal::invalid("name", "an achievement has a name"));
        }
        check_text("name", &self.name, NAME_BYTES_MAX)?;
        check_text("description", &self.description, DESCRIPTION_BYTES_MAX)?;
        check_text("icon", self.icon.as_deref().unwrap_or_default(), ICON_BYTES_MAX)?;
        if self.points > POINTS_MAX {
            return Err(Refusal::invalid("points", format!("it is at most {POINTS_MAX}")));
        }
        Ok(())
    }
}
