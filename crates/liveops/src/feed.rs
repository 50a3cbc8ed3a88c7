//! Achievements, follows, and the feed of what the followed did.
//!
//! An *item* is one deed of one player: a score, a level, an achievement, a post of the game. Items are kept by
//! player and nothing is written for a follower, so a write costs the same for whoever has none and for whoever has a
//! million. A reader's page is chosen among the newest items of each of the followed; equal deeds of several become
//! one. See `page.rs` for the orders and `deed.rs` for what is equal.
//!
//! Other subjects tell what a player did with [`Feed::post_score`] and [`Feed::post_level`]; the caller pushes
//! [`Touched::Posted`](crate::Touched::Posted) itself, because these know no context.

mod achievements;
mod actors;
mod cursor;
mod deed;
mod deeds;
mod follows;
mod items;
mod page;
mod post;
mod records;
mod stamp;
#[cfg(test)]
mod tests;
mod told;

use std::collections::BTreeSet;

use hashbrown::HashSet;
use jiff::Timestamp;
use model::ports::counters::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::achievements::Achievements;
use self::actors::Actors;
use self::deed::Deed;
use self::deeds::Deeds;
use self::items::{Limits, Post};
use self::post::Body;
use self::stamp::Stamp;
use crate::game::{At, Context, Game};
use crate::subject::{Blobs, Changes, Damaged, Subject};
use crate::{Answer, Refusal, check_text};

pub use self::achievements::{Achievement, AchievementList, Friends};
pub use self::cursor::Cursor;
pub use self::page::Mode;
pub use self::post::NewPost;
pub use self::told::Page;

/// Bytes of a player's name.
const NAME_BYTES_MAX: usize = 64;
/// Bytes of a level's title that the feed keeps.
const TITLE_BYTES_MAX: usize = 200;

/// The commands of this subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Makes an achievement, or makes it another.
    PutAchievement {
        /// Its key.
        key: String,
        /// What it is from now on.
        achievement: Achievement,
    },
    /// Takes an achievement out of the catalogue.
    DeleteAchievement {
        /// Its key.
        key: String,
    },
    /// A player has achieved something.
    Grant {
        /// The achievement.
        key: String,
        /// Who has it.
        player: String,
        /// The player's name; empty: as it is known.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        name: String,
    },
    /// One player follows another.
    Follow {
        /// Who follows.
        player: String,
        /// Whom.
        other: String,
    },
    /// One player follows another no more.
    Unfollow {
        /// Who followed.
        player: String,
        /// Whom.
        other: String,
    },
    /// An item of the game's own.
    Post(NewPost),
}

/// The state of this subject.
#[derive(Default)]
pub struct Feed {
    blobs: Blobs,
    limits: Limits,
    actors: Actors,
    deeds: Deeds,
    achievements: Achievements,
    /// The number of the next item.
    next: u64,
    /// Items there are.
    items: usize,
    /// Follows there are.
    follow_count: usize,
    /// The oldest item of each player that has any; the tails are players.
    oldest: BTreeSet<Stamp>,
    /// The newest item that had to go because the game has too many. Older ones do not come in any more.
    floor: Stamp,
    /// Keys of records that may have changed.
    dirty: HashSet<Vec<u8>>,
}

impl Feed {
    /// Values that are kept on disk.
    pub fn blobs(&mut self) -> &mut Blobs {
        &mut self.blobs
    }

    /// A player's score on a board improved. An empty `name` leaves the name that is known.
    pub fn post_score(&mut self, at: At, player: &str, name: &str, table: &str, score: &str) {
        let deed = Deed::Score { table, score };
        self.post(Post { at_ms: at.ms, player, name, deed, body: None });
    }

    /// A player published a level of this id and title. An empty `name` leaves the name that is known.
    pub fn post_level(&mut self, at: At, player: &str, name: &str, level: &str, title: &str) {
        let title = &title[..title.floor_char_boundary(TITLE_BYTES_MAX)];
        let body = Body { text: Some(title.to_owned()), ..Body::default() }.bytes();
        self.post(Post { at_ms: at.ms, player, name, deed: Deed::Level { level }, body: Some(body) });
    }

    /// Items that are kept, of all players.
    pub fn item_count(&self) -> usize {
        self.items
    }

    /// Removes all that is known of a player: what they did, what they were granted, whom they follow, and that others
    /// follow them.
    pub fn erase_player(&mut self, player: &str) {
        let Some(actor) = self.actors.find(player) else { return };
        while !self.actors.get(actor).items.is_empty() {
            self.remove_item(actor, self.actors.get(actor).items.len() - 1);
        }
        for (key, _) in std::mem::take(&mut self.actors.get_mut(actor).grants) {
            self.achievements.revoke(&key);
        }
        self.cut_all(actor);
        self.dirty.insert(records::grants_key(player));
        self.forget_if_idle(actor);
    }

    /// All that is known of a player, as JSON: name, grants, follows and items.
    pub fn export_player(&self, player: &str) -> Result<serde_json::Value, StoreError> {
        let known = self.actors.by_id(player);
        let grants = known.map_or(&[][..], |known| &known.grants).iter();
        let grants = grants.map(|(key, at)| json!({ "achievement": &**key, "granted_at": rfc3339(*at) }));
        Ok(json!({
            "name": known.map_or("", |known| &known.name),
            "achievements": grants.collect::<Vec<_>>(),
            "follows": self.follows(player),
            "items": self.items_of(player)?,
        }))
    }
}

impl Game {
    pub(crate) fn apply_feed(
        &mut self,
        context: &mut Context<'_>,
        command: Command,
    ) -> Result<Answer, Refusal> {
        if let Some(player) = command.acts_for() {
            self.check_acts_for(context, player)?;
        }
        let feed = &mut self.feed;
        match command {
            Command::PutAchievement { key, achievement } => feed.put_achievement(&key, achievement),
            Command::DeleteAchievement { key } => feed.delete_achievement(&key),
            Command::Grant { key, player, name } => feed.grant(context, &key, &player, &name),
            Command::Follow { player, other } => feed.follow(context, &player, &other),
            Command::Unfollow { player, other } => Ok(feed.unfollow(context, &player, &other)),
            Command::Post(post) => feed.post_own(context, post),
        }
    }

    /// A signed request acts for its session's player and for nobody else.
    fn check_acts_for(&self, context: &Context<'_>, player: &str) -> Result<(), Refusal> {
        let Some(signed) = &context.by.signed else { return Ok(()) };
        let session = self.players.session(&signed.session, context.at.ms);
        if session.is_some_and(|session| session.player == player) {
            return Ok(());
        }
        let detail = "a signed request acts for its session's player only";
        Err(Refusal { field: Some("player".to_owned()), ..Refusal::forbidden(detail) })
    }
}

impl Command {
    /// The player in whose name this is done.
    fn acts_for(&self) -> Option<&str> {
        match self {
            Command::PutAchievement { .. } | Command::DeleteAchievement { .. } => None,
            Command::Grant { player, .. }
            | Command::Follow { player, .. }
            | Command::Unfollow { player, .. }
            | Command::Post(NewPost { player, .. }) => Some(player),
        }
    }
}

impl Subject for Feed {
    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), Damaged> {
        self.take_record(key, value)
    }

    fn restored(&mut self) {
        self.take_order();
    }

    fn changes(&mut self, changes: &mut Changes<'_>) {
        self.put_changes(changes);
    }
}

fn check_name(name: &str) -> Result<(), Refusal> {
    check_text("name", name, NAME_BYTES_MAX)
}

fn rfc3339(ms: i64) -> String {
    let time = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX);
    format!("{time:.3}")
}
