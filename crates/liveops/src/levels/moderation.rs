//! Flags of players and the queue of moderators.

use serde::Serialize;

use super::days::rfc3339;
use super::flags::{FLAGS_MAX, Flag, Reason};
use super::level::Level;
use super::list::Row;
use super::{Decision, Levels, full, not_removed};
use crate::game::{At, Context};
use crate::names::{check_player, check_text};
use crate::{Answer, Refusal};

const REASON_BYTES_MAX: usize = 200;
/// Flags of a game that are remembered, 20 MB at most.
const GAME_FLAGS_MAX: usize = 100_000;
const PLAYER_FLAGS_MAX: u32 = 1_000;

/// A page of the queue: what has the most open flags first, of equals the oldest level.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Queue {
    /// Levels that wait for a decision.
    pub items: Vec<Waiting>,
    /// How many wait.
    pub total: usize,
}

/// A level that waits for a decision.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Waiting {
    /// The level's id, by which it is decided.
    pub id: String,
    /// The level.
    pub level: Row,
    /// Flags since the last decision.
    pub open_flags: u64,
    /// What the latest of them say.
    pub reasons: Vec<Reason>,
}

#[derive(Serialize)]
struct Flagged {
    id: String,
    flags: u64,
    /// Whether this player had flagged the level before.
    already: bool,
}

impl Levels {
    /// A page of the levels that were flagged and not decided on.
    pub fn queue(&self, page: u64, per_page: u64) -> Queue {
        let mut slots: Vec<u32> = self.flagged.iter().copied().collect();
        slots.sort_unstable_by_key(|slot| {
            let level = self.shelf.get(*slot);
            (std::cmp::Reverse(level.flags.open), level.sequence)
        });
        let skip = usize::try_from(page.saturating_sub(1).saturating_mul(per_page)).unwrap_or(usize::MAX);
        let shown = slots.iter().skip(skip).take(per_page as usize);
        Queue { items: shown.map(|slot| self.waiting(self.shelf.get(*slot))).collect(), total: slots.len() }
    }

    fn waiting(&self, level: &Level) -> Waiting {
        let reason = |flag: &Flag| Reason {
            player: self.people.get(flag.person).id.to_string(),
            reason: flag.reason.to_string(),
            at: rfc3339(flag.at_ms),
        };
        Waiting {
            id: level.id.as_str().to_owned(),
            level: self.row(level),
            open_flags: level.flags.open,
            reasons: level.flags.waiting().map(reason).collect(),
        }
    }

    pub(super) fn flag(&mut self, at: At, id: &str, player: &str, reason: &str) -> Result<Answer, Refusal> {
        check_player("player", player)?;
        check_text("reason", reason, REASON_BYTES_MAX)?;
        let slot = self.published(id)?;
        let level = self.shelf.get(slot);
        let already = self.people.number(player).is_some_and(|person| level.flags.has(person));
        if !already {
            self.check_flag_room(level, player)?;
            self.raise(at, slot, player, reason);
        }
        let flags = self.shelf.get(slot).counters.flags;
        let flagged = Flagged { id: id.to_owned(), flags, already };
        Ok(if already { Answer::ok(&flagged) } else { Answer::created(&flagged) })
    }

    fn check_flag_room(&self, level: &Level, player: &str) -> Result<(), Refusal> {
        if level.flags.len() >= FLAGS_MAX {
            return Err(full("id", format!("{FLAGS_MAX} players flagged this level already")));
        }
        if self.flags >= GAME_FLAGS_MAX {
            return Err(full("id", format!("there are {GAME_FLAGS_MAX} flags already")));
        }
        if self.people.find(player).is_some_and(|person| person.flags >= PLAYER_FLAGS_MAX) {
            return Err(full("player", format!("this player flagged {PLAYER_FLAGS_MAX} levels already")));
        }
        Ok(())
    }

    fn raise(&mut self, at: At, slot: u32, player: &str, reason: &str) {
        let person = self.people.enter(player);
        self.people.get_mut(person).flags += 1;
        self.flags += 1;
        let flag = Flag { person, at_ms: at.ms, offset: at.offset, reason: reason.into() };
        let level = self.shelf.get_mut(slot);
        self.unwritten.flag(level.id, player, &flag);
        self.unwritten.counters(level.id);
        level.counters.flags += 1;
        level.flags.raise(flag);
        self.flagged.insert(slot);
    }

    pub(super) fn decide(
        &mut self,
        context: &Context<'_>,
        id: &str,
        decision: Decision,
    ) -> Result<Answer, Refusal> {
        let slot = self.slot(id)?;
        not_removed(self.shelf.get(slot))?;
        match decision {
            Decision::Remove => self.remove(slot),
            Decision::Keep => {
                let level = self.shelf.get_mut(slot);
                level.flags.keep(context.at.offset);
                self.unwritten.counters(level.id);
                self.flagged.remove(&slot);
            }
        }
        Ok(Answer::ok(&self.row(self.shelf.get(slot))))
    }
}
