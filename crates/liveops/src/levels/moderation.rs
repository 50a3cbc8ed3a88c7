//! Flagging levels, and the moderation queue.

use serde::Serialize;

use super::days::rfc3339;
use super::flags::{FLAGS_MAX, Flag, FlagReason};
use super::level::Level;
use super::list::LevelRow;
use super::{Decision, Levels, check_not_removed, limit_reached};
use crate::game::{CommandContext, LogPoint};
use crate::names::{check_player, check_text};
use crate::{CommandResponse, Refusal};

const REASON_BYTES_MAX: usize = 200;
/// Flags kept per game, at most 20 MB.
const GAME_FLAGS_MAX: usize = 100_000;
const PLAYER_FLAGS_MAX: u32 = 1_000;

/// A page of the moderation queue: most open flags first, then the oldest level.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModerationQueue {
    /// Levels that wait for a decision.
    pub items: Vec<ModerationItem>,
    /// The number of levels that wait.
    pub total: usize,
}

/// A level that waits for a decision.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModerationItem {
    /// The level's id.
    pub id: String,
    /// The level.
    pub level: LevelRow,
    /// Flags since the last decision.
    pub open_flags: u64,
    /// The latest flags with their reasons, newest first.
    pub reasons: Vec<FlagReason>,
}

#[derive(Serialize)]
struct FlagResponse {
    id: String,
    flags: u64,
    /// True if this player had flagged the level before.
    already: bool,
}

impl Levels {
    /// Returns a page of the levels with open flags.
    pub fn queue(&self, page: u64, per_page: u64) -> ModerationQueue {
        let mut slots: Vec<u32> = self.flagged.iter().copied().collect();
        slots.sort_unstable_by_key(|slot| {
            let level = self.arena.get(*slot);
            (std::cmp::Reverse(level.flags.open), level.sequence)
        });
        let skip = usize::try_from(page.saturating_sub(1).saturating_mul(per_page)).unwrap_or(usize::MAX);
        let shown = slots.iter().skip(skip).take(per_page as usize);
        ModerationQueue {
            items: shown.map(|slot| self.moderation_item(self.arena.get(*slot))).collect(),
            total: slots.len(),
        }
    }

    fn moderation_item(&self, level: &Level) -> ModerationItem {
        let reason = |flag: &Flag| FlagReason {
            player: self.contributors.get(flag.contributor).id.to_string(),
            reason: flag.reason.to_string(),
            at: rfc3339(flag.at_ms),
        };
        ModerationItem {
            id: level.id.as_str().to_owned(),
            level: self.row(level),
            open_flags: level.flags.open,
            reasons: level.flags.open_flags().map(reason).collect(),
        }
    }

    pub(super) fn flag(
        &mut self,
        at: LogPoint,
        id: &str,
        player: &str,
        reason: &str,
    ) -> Result<CommandResponse, Refusal> {
        check_player("player", player)?;
        check_text("reason", reason, REASON_BYTES_MAX)?;
        let slot = self.published(id)?;
        let level = self.arena.get(slot);
        let already =
            self.contributors.find_number(player).is_some_and(|contributor| level.flags.has(contributor));
        if !already {
            self.check_flag_room(level, player)?;
            self.add_flag(at, slot, player, reason);
        }
        let flags = self.arena.get(slot).counters.flags;
        let flagged = FlagResponse { id: id.to_owned(), flags, already };
        Ok(if already { CommandResponse::ok(&flagged) } else { CommandResponse::created(&flagged) })
    }

    fn check_flag_room(&self, level: &Level, player: &str) -> Result<(), Refusal> {
        if level.flags.len() >= FLAGS_MAX {
            return Err(limit_reached("id", format!("{FLAGS_MAX} players have already flagged this level")));
        }
        if self.flags >= GAME_FLAGS_MAX {
            return Err(limit_reached("id", format!("this game already has {GAME_FLAGS_MAX} flags")));
        }
        if self.contributors.find(player).is_some_and(|contributor| contributor.flags >= PLAYER_FLAGS_MAX) {
            return Err(limit_reached(
                "player",
                format!("this player has already flagged {PLAYER_FLAGS_MAX} levels"),
            ));
        }
        Ok(())
    }

    fn add_flag(&mut self, at: LogPoint, slot: u32, player: &str, reason: &str) {
        let contributor = self.contributors.find_or_add(player);
        self.contributors.get_mut(contributor).flags += 1;
        self.flags += 1;
        let flag = Flag { contributor, at_ms: at.ms, offset: at.offset, reason: reason.into() };
        let level = self.arena.get_mut(slot);
        self.unwritten.flag(level.id, player, &flag);
        self.unwritten.counters(level.id);
        level.counters.flags += 1;
        level.flags.add(flag);
        self.flagged.insert(slot);
    }

    pub(super) fn decide(
        &mut self,
        context: &CommandContext<'_>,
        id: &str,
        decision: Decision,
    ) -> Result<CommandResponse, Refusal> {
        let slot = self.slot(id)?;
        check_not_removed(self.arena.get(slot))?;
        match decision {
            Decision::Remove => self.remove(slot),
            Decision::Keep => {
                let level = self.arena.get_mut(slot);
                level.flags.keep(context.at.offset);
                self.unwritten.counters(level.id);
                self.flagged.remove(&slot);
            }
        }
        Ok(CommandResponse::ok(&self.row(self.arena.get(slot))))
    }
}
