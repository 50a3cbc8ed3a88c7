//! The catalogue of achievements, and the achievements that players were granted.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};

use super::activity_key::ActivityKey;
use super::actors::Actor;
use super::follows::too_many;
use super::items::NewItem;
use super::{Feed, check_name, records, rfc3339};
use crate::game::CommandContext;
use crate::{CommandResponse, Refusal, Touched, check_player, check_text, is_key};

/// Achievements of one game, including deleted ones that players still have.
const ACHIEVEMENTS_MAX: usize = 1_000;
const NAME_BYTES_MAX: usize = 200;
const DESCRIPTION_BYTES_MAX: usize = 2_000;
const ICON_BYTES_MAX: usize = 2_000;
const POINTS_MAX: u32 = 1_000_000;
/// Friends that a list names for each achievement. The count includes all.
const FRIENDS_NAMED_MAX: usize = 100;

/// The definition of an achievement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Achievement {
    /// The display name, 1 to 200 bytes.
    pub name: String,
    /// The description, up to 2,000 bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The points it is worth, up to 1,000,000.
    #[serde(default)]
    pub points: u32,
    /// The URL of an icon, up to 2,000 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// True if only players who have it see it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
}

#[derive(Serialize)]
struct KeyedAchievement<'a> {
    key: &'a str,
    #[serde(flatten)]
    achievement: &'a Achievement,
}

/// All keys that are in the catalogue or were granted to a player.
#[derive(Default)]
pub(super) struct AchievementCatalogue {
    by_key: BTreeMap<Arc<str>, CatalogueEntry>,
}

#[derive(Default)]
struct CatalogueEntry {
    /// `None` if deleted. Players keep a deleted achievement and see it again when it is created again.
    achievement: Option<Achievement>,
    granted: u32,
}

impl AchievementCatalogue {
    /// Returns the achievements by key, as JSON.
    pub(super) fn export(&self) -> Vec<serde_json::Value> {
        let defined = self.by_key.iter().filter_map(|(key, entry)| Some((key, entry.achievement.as_ref()?)));
        defined.map(|(key, achievement)| serde_json::json!(KeyedAchievement { key, achievement })).collect()
    }

    pub(super) fn get(&self, key: &str) -> Option<&Achievement> {
        self.by_key.get(key)?.achievement.as_ref()
    }

    pub(super) fn put(&mut self, key: &str, achievement: Achievement) {
        self.entry(key).1.achievement = Some(achievement);
    }

    fn entry(&mut self, key: &str) -> (Arc<str>, &mut CatalogueEntry) {
        let entry = self.by_key.entry(key.into());
        (Arc::clone(entry.key()), entry.or_default())
    }

    fn delete(&mut self, key: &str) -> bool {
        let deleted = self.by_key.get_mut(key).and_then(|entry| entry.achievement.take());
        self.remove_if_unused(key);
        deleted.is_some()
    }

    /// Counts a grant and returns the shared key.
    pub(super) fn grant(&mut self, key: &str) -> Arc<str> {
        let (key, entry) = self.entry(key);
        entry.granted += 1;
        key
    }

    /// Uncounts a grant.
    pub(super) fn revoke(&mut self, key: &str) {
        if let Some(entry) = self.by_key.get_mut(key) {
            entry.granted -= 1;
        }
        self.remove_if_unused(key);
    }

    fn remove_if_unused(&mut self, key: &str) {
        if self.by_key.get(key).is_some_and(|entry| entry.achievement.is_none() && entry.granted == 0) {
            self.by_key.remove(key);
        }
    }
}

/// The players whose grants a list shows beside the player's own.
#[derive(Clone, Copy, Debug)]
pub enum FriendFilter<'a> {
    /// These players.
    Players(&'a [&'a str]),
    /// The players that this player follows.
    FollowedBy(&'a str),
    /// All players. Only the newest 1,000 grants are listed.
    Everyone,
}

/// The catalogue as a player sees it.
#[derive(Debug, Serialize)]
pub struct AchievementList<'a> {
    achievements: Vec<AchievementRow<'a>>,
}

impl AchievementList<'_> {
    /// Adds a `sequence` to each friend's grant. Of grants in the same millisecond, also of different achievements, the
    /// later one in the log has the greater number. It is absent if the feed no longer keeps the grant's item; such a
    /// grant is older than those with a number.
    pub fn with_sequence(mut self) -> Self {
        let friends = self.achievements.iter_mut().flat_map(|listed| &mut listed.friends);
        friends.for_each(|friend| friend.sequence = friend.number);
        self
    }
}

#[derive(Debug, Serialize)]
struct AchievementRow<'a> {
    key: &'a str,
    #[serde(flatten)]
    achievement: &'a Achievement,
    #[serde(skip_serializing_if = "Option::is_none")]
    granted_at: Option<String>,
    friends: Vec<FriendGrant<'a>>,
    friends_count: usize,
}

#[derive(Debug, Serialize)]
struct FriendGrant<'a> {
    player: &'a str,
    name: &'a str,
    at: String,
    /// The number of the feed item that was added with the grant.
    #[serde(skip)]
    number: Option<u64>,
    /// The same number, if [`AchievementList::with_sequence`] was called.
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<u64>,
}

/// Times and players by achievement.
type Grants<'a> = HashMap<&'a str, Vec<(i64, u32)>, FxBuildHasher>;

impl Feed {
    /// Returns the catalogue by key, with the times of the player's own grants and up to 100 friends who have each
    /// achievement, newest grant first; [`FriendFilter::Everyone`] has no such limit. Hidden achievements are listed for players who have them, or for everyone if
    /// `hidden` is true.
    pub fn achievements(
        &self,
        player: Option<&str>,
        friends: FriendFilter<'_>,
        hidden: bool,
    ) -> AchievementList<'_> {
        let own = player.and_then(|player| self.actors.find(player));
        let own = self.grants_of(own.into_iter());
        let named_max =
            if matches!(friends, FriendFilter::Everyone) { usize::MAX } else { FRIENDS_NAMED_MAX };
        let friends = match friends {
            FriendFilter::Everyone => self.grants_of_everyone(),
            FriendFilter::Players(ids) => {
                let actors: HashSet<u32> = ids.iter().filter_map(|id| self.actors.find(id)).collect();
                self.grants_of(actors.into_iter())
            }
            FriendFilter::FollowedBy(player) => self.grants_of(self.followed(player).iter().copied()),
        };
        let mut list = AchievementList { achievements: Vec::new() };
        for (key, entry) in &self.achievements.by_key {
            let granted_at = own.get(&**key).and_then(|grants| grants.first()).map(|(at, _)| rfc3339(*at));
            let Some(achievement) = &entry.achievement else { continue };
            if !achievement.hidden || hidden || granted_at.is_some() {
                let mut grants = friends.get(&**key).cloned().unwrap_or_default();
                let friends_count = grants.len();
                let friends = self.newest_friends(key, &mut grants, named_max);
                list.achievements.push(AchievementRow {
                    key,
                    achievement,
                    granted_at,
                    friends,
                    friends_count,
                });
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

    fn grants_of_everyone(&self) -> Grants<'_> {
        let mut grants = Grants::default();
        for (at_ms, actor, key) in self.recent_grants.iter() {
            grants.entry(key).or_default().push((at_ms, actor));
        }
        grants
    }

    /// Returns the newest grants first; grants of the same millisecond are ordered by log position.
    ///
    /// The position is not stored with a grant, but the number of the item that was added with it has the same order. A
    /// grant whose item was evicted counts as older than those with an item; without items, ids decide.
    fn newest_friends(
        &self,
        key: &str,
        grants: &mut Vec<(i64, u32)>,
        named_max: usize,
    ) -> Vec<FriendGrant<'_>> {
        let activity = self.activities.find(&ActivityKey::Achievement { key }.bytes());
        let number = |actor: u32| self.item_number(activity?, actor);
        let id = |actor: u32| &*self.actors.get(actor).id;
        grants.sort_by_cached_key(|(at, actor)| (Reverse((*at, number(*actor))), id(*actor)));
        grants.truncate(named_max);
        let friend = |(at, actor): &(i64, u32)| {
            let Actor { id, name, .. } = self.actors.get(*actor);
            FriendGrant { player: id, name, at: rfc3339(*at), number: number(*actor), sequence: None }
        };
        grants.iter().map(friend).collect()
    }

    /// Returns the number of a player's last item of this activity.
    fn item_number(&self, activity: u32, actor: u32) -> Option<u64> {
        let mut number = None;
        self.activities
            .occurrences(activity)
            .of(actor, |position| number = number.max(Some(position.number())));
        number
    }

    /// Returns the time at which a player was granted an achievement, in milliseconds since 1970.
    pub(crate) fn granted_ms(&self, player: &str, key: &str) -> Option<i64> {
        let mut grants = self.actors.by_id(player)?.grants.iter();
        grants.find(|(granted, _)| **granted == *key).map(|(_, at)| *at)
    }

    pub(super) fn put_achievement(
        &mut self,
        key: &str,
        achievement: Achievement,
    ) -> Result<CommandResponse, Refusal> {
        if !is_key(key) {
            return Err(Refusal::invalid("key", "must have 1 to 100 letters, digits, `.`, `_` or `-`"));
        }
        achievement.check()?;
        let answer = CommandResponse::ok(&KeyedAchievement { key, achievement: &achievement });
        if self.achievements.by_key.len() >= ACHIEVEMENTS_MAX && !self.achievements.by_key.contains_key(key) {
            return Err(too_many("key", format!("a game can have at most {ACHIEVEMENTS_MAX} achievements")));
        }
        self.achievements.put(key, achievement);
        self.dirty.insert(records::achievement_key(key));
        Ok(answer)
    }

    pub(super) fn delete_achievement(&mut self, key: &str) -> Result<CommandResponse, Refusal> {
        if !self.achievements.delete(key) {
            return Err(unknown(key));
        }
        self.dirty.insert(records::achievement_key(key));
        Ok(CommandResponse::no_content())
    }

    pub(super) fn grant(
        &mut self,
        context: &mut CommandContext<'_>,
        key: &str,
        player: &str,
        name: &str,
    ) -> Result<CommandResponse, Refusal> {
        check_player("player", player)?;
        check_name(name)?;
        self.achievements.get(key).ok_or_else(|| unknown(key))?;
        if let Some(at_ms) = self.granted_ms(player, key) {
            return Ok(CommandResponse::ok(&GrantResponse { granted: false, at: rfc3339(at_ms) }));
        }
        if !self.has_room_for(player) {
            return Err(too_many("player", "the feed of this game cannot have more players"));
        }
        let at_ms = context.at.ms;
        let kept = self.achievements.grant(key);
        let actor = self.actors.find_or_add(player);
        self.recent_grants.add(at_ms, actor, &kept);
        self.actors.get_mut(actor).grants.push((kept, at_ms));
        self.dirty.insert(records::grants_key(player));
        self.post(NewItem { at_ms, player, name, activity: ActivityKey::Achievement { key }, body: None });
        context.touched.push(Touched::Posted(player.to_owned()));
        Ok(CommandResponse::created(&GrantResponse { granted: true, at: rfc3339(at_ms) }))
    }
}

#[derive(Serialize)]
struct GrantResponse {
    granted: bool,
    at: String,
}

fn unknown(key: &str) -> Refusal {
    Refusal::not_found(format!("there is no achievement {key:?}"))
}

impl Achievement {
    fn check(&self) -> Result<(), Refusal> {
        if self.name.is_empty() {
            return Err(Refusal::invalid("name", "must not be empty"));
        }
        check_text("name", &self.name, NAME_BYTES_MAX)?;
        check_text("description", &self.description, DESCRIPTION_BYTES_MAX)?;
        check_text("icon", self.icon.as_deref().unwrap_or_default(), ICON_BYTES_MAX)?;
        if self.points > POINTS_MAX {
            return Err(Refusal::invalid("points", format!("must be at most {POINTS_MAX}")));
        }
        Ok(())
    }
}
