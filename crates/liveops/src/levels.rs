//! Levels that players make and share: saved, listed, rated, played, flagged.
//!
//! A level is a name, fields to filter by, and data that never changes. Data and pictures are kept compressed under
//! their SHA-256, on disk and once; everything else is in memory, about 500 bytes a level and 16 bytes a vote.

mod content;
mod days;
mod erasure;
mod flags;
mod level;
mod list;
mod moderation;
mod orders;
mod people;
mod postings;
mod rate;
mod records;
mod save;
mod votes;

use std::collections::BTreeSet;

use model::batch::StoredEvent;
use model::event::Dimension;
use serde::{Deserialize, Serialize};

pub use content::{Content, DATA_BYTES_MAX, Digest, Packed, THUMB_BYTES_MAX};
pub use flags::Reason;
pub use level::State;
pub use list::{Found, List, ListError, PAGE_BYTES_MAX, Page, Row, Viewer, Window};
pub use moderation::{Queue, Waiting};
pub use orders::Mode;
pub use rate::{PLAYER_VOTES_MAX, VOTES_MAX};
pub use save::{GAME_DATA_BYTES_MAX, LEVELS_MAX, PLAYER_DATA_BYTES_MAX, PLAYER_LEVELS_MAX, Save};
pub use votes::{RATING_MAX, RATING_MIN};

use crate::game::{At, Context, Game, Touched};
use crate::subject::Blobs;
use crate::{Answer, Caller, Refusal};
use content::References;
use level::{Level, Shelf};
use orders::Orders;
use people::People;
use postings::Postings;
use records::{Unsorted, Unwritten};

/// The commands of this subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Saves a level, whose data and picture come as the command's blob.
    Save(Save),
    /// Publishes a level, takes it back, or removes it for good: its maker or a moderator.
    SetState {
        /// Which level.
        id: String,
        /// What becomes of it.
        state: State,
    },
    /// Rates a level, once per player; a later rating replaces it.
    Rate {
        /// Which level.
        id: String,
        /// Who rates.
        player: String,
        /// [`RATING_MIN`] to [`RATING_MAX`].
        rating: u8,
    },
    /// Says that a level should not be there, once per player.
    Flag {
        /// Which level.
        id: String,
        /// Who says so.
        player: String,
        /// Why.
        #[serde(default)]
        reason: String,
    },
    /// A moderator's decision about a level.
    Decide {
        /// Which level.
        id: String,
        /// What becomes of it.
        decision: Decision,
    },
}

/// What a moderator decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The level stays; the flags so far are settled.
    Keep,
    /// The level goes.
    Remove,
}

/// The levels of a game.
#[derive(Default)]
pub struct Levels {
    blobs: Blobs,
    shelf: Shelf,
    people: People,
    orders: Orders,
    postings: Postings,
    references: References,
    /// Levels with open flags.
    flagged: BTreeSet<u32>,
    /// How many votes there are on all levels.
    votes: usize,
    /// How many players' flags there are on all levels.
    flags: usize,
    unwritten: Unwritten,
    unsorted: Unsorted,
}

#[derive(Deserialize)]
struct Played<'a> {
    #[serde(borrow)]
    state: std::borrow::Cow<'a, str>,
}

impl Game {
    pub(crate) fn apply_levels(
        &mut self,
        context: &mut Context<'_>,
        command: Command,
    ) -> Result<Answer, Refusal> {
        let signer = self.signer(context);
        let only_self = |player: &str| check_signer(signer.as_deref(), player);
        match command {
            Command::Save(save) => {
                only_self(&save.player)?;
                let (slot, answer) = self.levels.save(context, save)?;
                self.tell_published(context, slot);
                Ok(answer)
            }
            Command::SetState { id, state } => {
                let slot = self.levels.set_state(context, signer.as_deref(), &id, state)?;
                self.tell_published(context, slot);
                Ok(Answer::ok(&self.levels.row(self.levels.shelf.get(slot))))
            }
            Command::Rate { id, player, rating } => {
                only_self(&player)?;
                self.levels.rate(context, &id, &player, rating)
            }
            Command::Flag { id, player, reason } => {
                only_self(&player)?;
                self.levels.flag(context.at, &id, &player, &reason)
            }
            Command::Decide { id, decision } => self.levels.decide(context, &id, decision),
        }
    }

    /// The player whose session signed the request.
    fn signer(&self, context: &Context<'_>) -> Option<String> {
        let signed = context.by.signed.as_ref()?;
        Some(self.players.session(&signed.session, context.at.ms)?.player.clone())
    }

    /// Tells followers that a level is there, once.
    fn tell_published(&mut self, context: &mut Context<'_>, slot: u32) {
        let level = self.levels.shelf.get_mut(slot);
        if !level.is_published() || level.published_ms.is_some() {
            return;
        }
        level.published_ms = Some(context.at.ms);
        let player = &self.levels.people.get(level.maker).id;
        self.feed.post_level(context.at, player, &level.maker_name, level.id.as_str(), &level.name);
        context.touched.push(Touched::Posted(player.to_string()));
    }
}

/// Whoever signs acts for themselves alone.
fn check_signer(signer: Option<&str>, player: &str) -> Result<(), Refusal> {
    match signer {
        Some(signer) if signer != player => Err(Refusal::forbidden("the signature is another player's")),
        _ => Ok(()),
    }
}

impl Levels {
    /// Values that are kept on disk.
    pub fn blobs(&mut self) -> &mut Blobs {
        &mut self.blobs
    }

    /// Counts what was played of a level that is there.
    pub(crate) fn event(&mut self, _: At, event: &StoredEvent<'_>) {
        let Some(slot) = self.shelf.slot(event.dimensions[Dimension::Level as usize]) else { return };
        let Ok(played) = serde_json::from_slice::<Played<'_>>(event.props) else { return };
        let level = self.shelf.get_mut(slot);
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
        context: &Context<'_>,
        signer: Option<&str>,
        id: &str,
        state: State,
    ) -> Result<u32, Refusal> {
        let slot = self.slot(id)?;
        let level = self.shelf.get(slot);
        check_signer(signer, &self.people.get(level.maker).id)?;
        if signer.is_none() && context.by.caller == Caller::Public {
            return Err(Refusal::forbidden("a level's maker signs this request"));
        }
        not_removed(level)?;
        if state == State::Removed {
            self.remove(slot);
            return Ok(slot);
        }
        self.unindex(slot);
        self.shelf.get_mut(slot).state = state;
        self.index(slot);
        self.unwritten.level(self.shelf.get(slot).id);
        Ok(slot)
    }

    /// Removes a level for good. What is left keeps its maker from saving the same again.
    fn remove(&mut self, slot: u32) {
        self.clear(slot);
        let level = self.shelf.get_mut(slot);
        level.state = State::Removed;
        level.thumb = None;
        self.unwritten.level(level.id);
    }

    /// Takes a level out of the lists and forgets its data and what was said of it.
    fn clear(&mut self, slot: u32) {
        self.unindex(slot);
        self.flagged.remove(&slot);
        let level = self.shelf.get_mut(slot);
        let (id, votes, flags) =
            (level.id, std::mem::take(&mut level.votes), std::mem::take(&mut level.flags));
        self.people.get_mut(level.maker).content_bytes -= level.held_bytes();
        if !level.is_removed() {
            self.references.release(&level.data, &mut self.blobs);
            level.thumb.iter().for_each(|thumb| self.references.release(thumb, &mut self.blobs));
        }
        self.unwritten.counters(id);
        for person in votes.people() {
            self.unwritten.no_vote(id, &self.people.get(person).id);
            self.forget_vote(person);
        }
        for flag in flags.iter() {
            self.unwritten.no_flag(id, &self.people.get(flag.person).id);
            self.forget_flag(flag.person);
        }
    }

    fn forget_vote(&mut self, person: u32) {
        self.votes -= 1;
        self.people.get_mut(person).votes -= 1;
        self.people.leave(person);
    }

    fn forget_flag(&mut self, person: u32) {
        self.flags -= 1;
        self.people.get_mut(person).flags -= 1;
        self.people.leave(person);
    }

    fn slot(&self, id: &str) -> Result<u32, Refusal> {
        self.shelf.slot(id.as_bytes()).ok_or_else(|| Refusal::not_found("there is no level of this id"))
    }

    fn published(&self, id: &str) -> Result<u32, Refusal> {
        let slot = self.slot(id)?;
        let published = self.shelf.get(slot).is_published();
        published.then_some(slot).ok_or_else(|| Refusal::not_found("there is no level of this id"))
    }

    /// Lists a level if it is published.
    fn index(&mut self, slot: u32) {
        let level = self.shelf.get(slot);
        if level.is_published() {
            self.orders.insert(level, slot);
            self.postings.insert(level, slot);
        }
    }

    fn unindex(&mut self, slot: u32) {
        let level = self.shelf.get(slot);
        if level.is_published() {
            self.orders.remove(level, slot);
            self.postings.remove(level, slot);
        }
    }

    fn index_all(&mut self) {
        let slots: Vec<u32> = self.shelf.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.index(slot);
            if self.shelf.get(slot).flags.open > 0 {
                self.flagged.insert(slot);
            }
        }
    }
}

fn not_removed(level: &Level) -> Result<(), Refusal> {
    if level.is_removed() { Err(Refusal::conflict("this level was removed for good")) } else { Ok(()) }
}

/// A limit on how much there may be, with the field that would go beyond it.
fn full(field: &str, detail: impl Into<String>) -> Refusal {
    Refusal { field: Some(field.to_owned()), ..Refusal::too_many(detail) }
}
