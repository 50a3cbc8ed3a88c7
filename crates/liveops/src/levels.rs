//! Player levels: saved, listed, rated, played and flagged.
//!
//! A level is a name, fields to filter by, and data that never changes. Data and thumbnails are compressed and stored
//! once under their SHA-256, on disk only. Everything else is in memory, about 500 bytes per level and 16 bytes per
//! vote.

mod content;
mod contributors;
mod days;
mod filter_index;
mod flags;
mod level;
mod list;
mod moderation;
mod orders;
mod privacy;
mod rate;
mod records;
mod save;
mod votes;

use std::collections::BTreeSet;

use model::batch::StoredEvent;
use model::event::Dimension;
use serde::{Deserialize, Serialize};

pub use content::{ContentDigest, ContentRef, DATA_BYTES_MAX, PackedLevel, THUMB_BYTES_MAX};
pub use flags::FlagReason;
pub use level::LevelState;
pub use list::{
    LevelPage, LevelQuery, LevelRow, LevelViewer, ListError, LoadedLevel, PAGE_BYTES_MAX, RatingWindow,
};
pub use moderation::{ModerationItem, ModerationQueue};
pub use orders::LevelMode;
pub use save::{PLAYER_DATA_BYTES_MAX, PLAYER_LEVELS_MAX, SaveLevel};
pub use votes::{RATING_MAX, RATING_MIN};

use crate::game::{CommandContext, Game, LogPoint, Touched};
use crate::subject::BlobStore;
use crate::{Caller, CommandResponse, Refusal};
use content::ContentReferences;
use contributors::Contributors;
use filter_index::FilterIndex;
use level::{Level, LevelArena};
use orders::LevelOrders;
use records::{RestoreBuffer, UnwrittenLevels};

/// The commands of this subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LevelCommand {
    /// Saves a level. The blob of the command has its data and thumbnail.
    Save(SaveLevel),
    /// Publishes, unpublishes or removes a level; by its maker or a moderator.
    SetState {
        /// The level's id.
        id: String,
        /// The new state.
        state: LevelState,
    },
    /// Rates a level, once per player. A later rating replaces an earlier one.
    Rate {
        /// The level's id.
        id: String,
        /// The player who rates.
        player: String,
        /// [`RATING_MIN`] to [`RATING_MAX`].
        rating: u8,
    },
    /// Flags a level for moderation, once per player.
    Flag {
        /// The level's id.
        id: String,
        /// The player who flags.
        player: String,
        /// The player's reason; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// Records a moderator's decision about a level.
    Decide {
        /// The level's id.
        id: String,
        /// The decision.
        decision: Decision,
    },
}

/// A moderator's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Keeps the level and settles its flags so far.
    Keep,
    /// Removes the level permanently.
    Remove,
}

/// The levels of a game.
#[derive(Default)]
pub struct Levels {
    blobs: BlobStore,
    arena: LevelArena,
    contributors: Contributors,
    orders: LevelOrders,
    filter_index: FilterIndex,
    references: ContentReferences,
    /// Levels with open flags.
    flagged: BTreeSet<u32>,
    /// The number of votes on all levels.
    votes: usize,
    /// The number of players' flags on all levels.
    flags: usize,
    unwritten: UnwrittenLevels,
    restore_buffer: RestoreBuffer,
}

#[derive(Deserialize)]
struct PlayProps<'a> {
    #[serde(borrow)]
    state: std::borrow::Cow<'a, str>,
}

impl Game {
    pub(crate) fn apply_levels(
        &mut self,
        context: &mut CommandContext<'_>,
        command: LevelCommand,
    ) -> Result<CommandResponse, Refusal> {
        let signer = self.signer(context);
        let only_self = |player: &str| check_signer(signer.as_deref(), player);
        match command {
            LevelCommand::Save(save) => {
                only_self(&save.player)?;
                let (slot, answer) = self.levels.save(context, save)?;
                self.post_published(context, slot);
                Ok(answer)
            }
            LevelCommand::SetState { id, state } => {
                let slot = self.levels.set_state(context, signer.as_deref(), &id, state)?;
                self.post_published(context, slot);
                Ok(CommandResponse::ok(&self.levels.row(self.levels.arena.get(slot))))
            }
            LevelCommand::Rate { id, player, rating } => {
                only_self(&player)?;
                self.levels.rate(context, &id, &player, rating)
            }
            LevelCommand::Flag { id, player, reason } => {
                only_self(&player)?;
                self.levels.flag(context.at, &id, &player, &reason)
            }
            LevelCommand::Decide { id, decision } => self.levels.decide(context, &id, decision),
        }
    }

    /// Returns the player whose session signed the request.
    fn signer(&self, context: &CommandContext<'_>) -> Option<String> {
        let signed = context.by.signed.as_ref()?;
        Some(self.players.session(&signed.session, context.at.ms)?.player.clone())
    }

    /// Adds a level to the feed when it is first published.
    fn post_published(&mut self, context: &mut CommandContext<'_>, slot: u32) {
        let level = self.levels.arena.get_mut(slot);
        if !level.is_published() || level.published_ms.is_some() {
            return;
        }
        level.published_ms = Some(context.at.ms);
        let player = &self.levels.contributors.get(level.maker).id;
        self.feed.post_level(context.at, player, &level.maker_name, level.id.as_str(), &level.name);
        context.touched.push(Touched::Posted(player.to_string()));
    }
}

/// A signed request may only act for its own player.
fn check_signer(signer: Option<&str>, player: &str) -> Result<(), Refusal> {
    match signer {
        Some(signer) if signer != player => {
            Err(Refusal::forbidden("the request is signed by another player"))
        }
        _ => Ok(()),
    }
}

impl Levels {
    pub(crate) fn blobs(&mut self) -> &mut BlobStore {
        &mut self.blobs
    }

    /// Counts a `$level` event of a level that is not removed.
    pub(crate) fn apply_event(&mut self, _: LogPoint, event: &StoredEvent<'_>) {
        let Some(slot) = self.arena.slot(event.dimensions[Dimension::Level as usize]) else { return };
        let Ok(played) = serde_json::from_slice::<PlayProps<'_>>(event.props) else { return };
        let level = self.arena.get_mut(slot);
        if level.is_removed() {
            return;
        }
        let counter = match &*played.state {
            "start" => &mut level.counters.starts,
            "win" => &mut level.counters.wins,
            "retry" => &mut level.counters.retries,
            "quit" => &mut level.counters.quits,
            "flag" => {
                level.flags.open += 1;
                self.flagged.insert(slot);
                &mut level.counters.flags
            }
            _ => return,
        };
        *counter += 1;
        self.unwritten.counters(level.id);
    }

    fn set_state(
        &mut self,
        context: &CommandContext<'_>,
        signer: Option<&str>,
        id: &str,
        state: LevelState,
    ) -> Result<u32, Refusal> {
        let slot = self.slot(id)?;
        let level = self.arena.get(slot);
        check_signer(signer, &self.contributors.get(level.maker).id)?;
        if signer.is_none() && context.by.caller == Caller::Public {
            return Err(Refusal::forbidden("the request must be signed by the level's maker"));
        }
        check_not_removed(level)?;
        if state == LevelState::Removed {
            self.remove(slot);
            return Ok(slot);
        }
        self.unindex(slot);
        self.arena.get_mut(slot).state = state;
        self.index(slot);
        self.unwritten.level(self.arena.get(slot).id);
        Ok(slot)
    }

    /// Removes a level permanently. What remains keeps its maker from saving the same level again.
    fn remove(&mut self, slot: u32) {
        self.clear(slot);
        let level = self.arena.get_mut(slot);
        level.state = LevelState::Removed;
        level.thumb = None;
        self.unwritten.level(level.id);
    }

    /// Removes a level from the lists, with its data, votes and flags.
    fn clear(&mut self, slot: u32) {
        self.unindex(slot);
        self.flagged.remove(&slot);
        let level = self.arena.get_mut(slot);
        let (id, votes, flags) =
            (level.id, std::mem::take(&mut level.votes), std::mem::take(&mut level.flags));
        self.contributors.get_mut(level.maker).content_bytes -= level.content_bytes();
        if !level.is_removed() {
            self.references.release(&level.data, &mut self.blobs);
            level.thumb.iter().for_each(|thumb| self.references.release(thumb, &mut self.blobs));
        }
        self.unwritten.counters(id);
        for contributor in votes.contributors() {
            self.unwritten.no_vote(id, &self.contributors.get(contributor).id);
            self.uncount_vote(contributor);
        }
        for flag in flags.iter() {
            self.unwritten.no_flag(id, &self.contributors.get(flag.contributor).id);
            self.uncount_flag(flag.contributor);
        }
    }

    fn uncount_vote(&mut self, contributor: u32) {
        self.votes -= 1;
        self.contributors.get_mut(contributor).votes -= 1;
        self.contributors.remove_if_idle(contributor);
    }

    fn uncount_flag(&mut self, contributor: u32) {
        self.flags -= 1;
        self.contributors.get_mut(contributor).flags -= 1;
        self.contributors.remove_if_idle(contributor);
    }

    fn slot(&self, id: &str) -> Result<u32, Refusal> {
        self.arena.slot(id.as_bytes()).ok_or_else(|| Refusal::not_found("there is no level with this id"))
    }

    fn published(&self, id: &str) -> Result<u32, Refusal> {
        let slot = self.slot(id)?;
        let published = self.arena.get(slot).is_published();
        published.then_some(slot).ok_or_else(|| Refusal::not_found("there is no level with this id"))
    }

    /// Adds a level to the lists if it is published.
    fn index(&mut self, slot: u32) {
        let level = self.arena.get(slot);
        if level.is_published() {
            self.orders.insert(level, slot);
            self.filter_index.insert(level, slot);
        }
    }

    fn unindex(&mut self, slot: u32) {
        let level = self.arena.get(slot);
        if level.is_published() {
            self.orders.remove(level, slot);
            self.filter_index.remove(level, slot);
        }
    }

    fn index_all(&mut self) {
        let slots: Vec<u32> = self.arena.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.index(slot);
            if self.arena.get(slot).flags.open > 0 {
                self.flagged.insert(slot);
            }
        }
    }
}

fn check_not_removed(level: &Level) -> Result<(), Refusal> {
    if level.is_removed() { Err(Refusal::conflict("this level was permanently removed")) } else { Ok(()) }
}

/// Returns a refusal because a limit is reached, with the field that caused it.
fn limit_reached(field: &str, detail: impl Into<String>) -> Refusal {
    Refusal { field: Some(field.to_owned()), ..Refusal::too_many(detail) }
}
