//! Achievements, follows, and the feed: activities of the players someone follows.
//!
//! An *item* is one activity of one player: a score, a level, an achievement, or a post of the game. Items are stored
//! by player and nothing is written for followers, so that a write costs the same for a player with no follower and for
//! one with a million. A reader's page is selected from the newest items of each followed player; equal activities of
//! several players become one. `selection.rs` has the orders, `activity_key.rs` the definition of equal.
//!
//! Other subjects add activities with [`Feed::post_score`] and [`Feed::post_level`]. They push
//! [`Touched::Posted`](crate::Touched::Posted) themselves, because these methods have no context.

mod achievements;
mod activities;
mod activity_key;
mod actors;
mod cursor;
mod follows;
mod item_position;
mod items;
mod page;
mod post;
mod recent_grants;
mod records;
mod selection;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use hashbrown::HashSet;
use jiff::Timestamp;
use model::ports::counters::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::achievements::AchievementCatalogue;
use self::activities::Activities;
use self::activity_key::ActivityKey;
use self::actors::Actors;
use self::item_position::ItemPosition;
use self::items::{FeedLimits, NewItem};
use self::post::ItemBody;
use self::recent_grants::RecentGrants;
use crate::game::{CommandContext, Game, LogPoint};
use crate::subject::{BlobStore, RecordError, RecordWriter, Subject};
use crate::{CommandResponse, ExportCursor, ExportPage, Refusal, check_text};

pub use self::achievements::{Achievement, AchievementList, FriendFilter};
pub use self::cursor::Cursor;
pub use self::page::FeedPage;
pub use self::post::NewPost;
pub use self::selection::FeedMode;

/// Bytes of a player's display name.
const NAME_BYTES_MAX: usize = 64;
/// Bytes of a level's title that the feed keeps; the rest is cut off.
const TITLE_BYTES_MAX: usize = 200;

/// The commands of this subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeedCommand {
    /// Creates or replaces an achievement.
    PutAchievement {
        /// Its key.
        key: String,
        /// The new definition.
        achievement: Achievement,
    },
    /// Deletes an achievement from the catalogue.
    DeleteAchievement {
        /// Its key.
        key: String,
    },
    /// Grants an achievement to a player.
    Grant {
        /// The achievement's key.
        key: String,
        /// The player's id.
        player: String,
        /// The player's display name; if empty, the known name stays.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        name: String,
    },
    /// Adds a follow.
    Follow {
        /// The follower.
        player: String,
        /// The followed player.
        other: String,
    },
    /// Removes a follow.
    Unfollow {
        /// The follower.
        player: String,
        /// The followed player.
        other: String,
    },
    /// Posts an activity of the game's own.
    Post(NewPost),
}

/// Achievements, follows and activities of a game.
#[derive(Default)]
pub struct Feed {
    blobs: BlobStore,
    limits: FeedLimits,
    actors: Actors,
    activities: Activities,
    achievements: AchievementCatalogue,
    recent_grants: RecentGrants,
    /// The number of the next item.
    next: u64,
    /// The number of items.
    items: usize,
    /// The number of follows.
    follow_count: usize,
    /// The oldest item of each player who has any; the tails are players.
    oldest: BTreeSet<ItemPosition>,
    /// The newest item that was evicted because the game has too many. Items older than it are not accepted.
    floor: ItemPosition,
    /// Keys of records that may have changed.
    dirty: HashSet<Vec<u8>>,
}

impl Feed {
    pub(crate) fn blobs(&mut self) -> &mut BlobStore {
        &mut self.blobs
    }

    /// Adds a player's improved score on a board. An empty `name` keeps the known name.
    pub fn post_score(&mut self, at: LogPoint, player: &str, name: &str, table: &str, score: &str) {
        let activity = ActivityKey::Score { table, score };
        self.post(NewItem { at_ms: at.ms, player, name, activity, body: None });
    }

    /// Adds a level that a player published. An empty `name` keeps the known name.
    pub fn post_level(&mut self, at: LogPoint, player: &str, name: &str, level: &str, title: &str) {
        let title = &title[..title.floor_char_boundary(TITLE_BYTES_MAX)];
        let body = ItemBody { text: Some(title.to_owned()), ..ItemBody::default() }.bytes();
        self.post(NewItem {
            at_ms: at.ms,
            player,
            name,
            activity: ActivityKey::Level { level },
            body: Some(body),
        });
    }

    /// Returns the number of items of all players.
    pub fn item_count(&self) -> usize {
        self.items
    }

    /// Removes everything about a player: activities, grants, and follows in both directions.
    pub fn erase_player(&mut self, player: &str) {
        let Some(actor) = self.actors.find(player) else { return };
        while !self.actors.get(actor).items.is_empty() {
            self.remove_item(actor, self.actors.get(actor).items.len() - 1);
        }
        for (key, _) in std::mem::take(&mut self.actors.get_mut(actor).grants) {
            self.achievements.revoke(&key);
        }
        self.recent_grants.remove(actor);
        self.remove_all_follows(actor);
        self.dirty.insert(records::grants_key(player));
        self.remove_if_idle(actor);
    }

    /// Returns all achievements of the catalogue.
    pub(crate) fn export_achievements(&self) -> Vec<serde_json::Value> {
        self.achievements.export()
    }

    /// Returns the next players with everything about them.
    pub(crate) fn export_players(&self, from: &ExportCursor, limit: usize) -> Result<ExportPage, StoreError> {
        let until = from.next.saturating_add(limit as u32).min(self.actors.numbers().end);
        let mut rows = Vec::new();
        for actor in from.next..until {
            let id = &*self.actors.get(actor).id;
            if !id.is_empty() {
                let mut row = self.export_player(id)?;
                row["player"] = id.into();
                rows.push(row);
            }
        }
        let next =
            (until < self.actors.numbers().end).then(|| ExportCursor { outer: String::new(), next: until });
        Ok(ExportPage { rows, next })
    }

    /// Returns everything about a player as JSON: name, grants, follows and items.
    pub fn export_player(&self, player: &str) -> Result<serde_json::Value, StoreError> {
        let actor = self.actors.by_id(player);
        let grants = actor.map_or(&[][..], |actor| &actor.grants).iter();
        let grants = grants.map(|(key, at)| json!({ "achievement": &**key, "granted_at": rfc3339(*at) }));
        Ok(json!({
            "name": actor.map_or("", |actor| &actor.name),
            "achievements": grants.collect::<Vec<_>>(),
            "follows": self.follows(player),
            "items": self.items_of(player)?,
        }))
    }
}

impl Game {
    pub(crate) fn apply_feed(
        &mut self,
        context: &mut CommandContext<'_>,
        command: FeedCommand,
    ) -> Result<CommandResponse, Refusal> {
        if let Some(player) = command.acting_player() {
            self.check_acting_player(context, player)?;
        }
        let feed = &mut self.feed;
        match command {
            FeedCommand::PutAchievement { key, achievement } => feed.put_achievement(&key, achievement),
            FeedCommand::DeleteAchievement { key } => feed.delete_achievement(&key),
            FeedCommand::Grant { key, player, name } => feed.grant(context, &key, &player, &name),
            FeedCommand::Follow { player, other } => feed.follow(context, &player, &other),
            FeedCommand::Unfollow { player, other } => Ok(feed.unfollow(context, &player, &other)),
            FeedCommand::Post(post) => feed.post_custom(context, post),
        }
    }

    /// A signed request may only act for the player of its session.
    fn check_acting_player(&self, context: &CommandContext<'_>, player: &str) -> Result<(), Refusal> {
        let Some(signed) = &context.by.signed else { return Ok(()) };
        let session = self.players.session(&signed.session, context.at.ms);
        if session.is_some_and(|session| session.player == player) {
            return Ok(());
        }
        let detail = "a signed request can only act for the player of its session";
        Err(Refusal { field: Some("player".to_owned()), ..Refusal::forbidden(detail) })
    }
}

impl FeedCommand {
    /// Returns the player whom the command acts for.
    fn acting_player(&self) -> Option<&str> {
        match self {
            FeedCommand::PutAchievement { .. } | FeedCommand::DeleteAchievement { .. } => None,
            FeedCommand::Grant { player, .. }
            | FeedCommand::Follow { player, .. }
            | FeedCommand::Unfollow { player, .. }
            | FeedCommand::Post(NewPost { player, .. }) => Some(player),
        }
    }
}

impl Subject for Feed {
    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecordError> {
        self.restore_record(key, value)
    }

    fn finish_restore(&mut self) {
        self.sort_items();
    }

    fn write_changes(&mut self, writer: &mut RecordWriter<'_>) {
        self.write_records(writer);
    }
}

fn check_name(name: &str) -> Result<(), Refusal> {
    check_text("name", name, NAME_BYTES_MAX)
}

fn rfc3339(ms: i64) -> String {
    let time = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX);
    format!("{time:.3}")
}
