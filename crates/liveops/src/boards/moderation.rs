//! Moderation: quarantined scores and bans.

use serde::{Deserialize, Serialize};

use super::page::BoardRow;
use super::quarantine::Evidence;
use super::runs::Arrival;
use super::view::{BoardViewer, board_not_found};
use super::{Board, Boards};
use crate::game::{CommandContext, Touched};
use crate::names::{check_player, check_text};
use crate::{CommandResponse, Refusal};

const REASON_BYTES_MAX: usize = 500;
/// Banned players of a game.
const BANS_MAX: usize = 1_000_000;

/// A ban, as stored and exported.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Ban {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reason: String,
    at_ms: i64,
}

/// A quarantined score as moderators see it.
#[derive(Clone, Debug, Serialize)]
pub struct QuarantineItem {
    /// The id for the decision.
    pub id: String,
    /// The row; its rank is 0.
    pub row: BoardRow,
    /// The failed checks.
    pub evidence: Evidence,
}

impl Boards {
    /// Returns the quarantined scores of a board, oldest first.
    pub fn quarantine(&self, table: &str) -> Result<Vec<QuarantineItem>, Refusal> {
        let board = self.visible_board(table, BoardViewer::All)?;
        let waiting = board.quarantine.iter().map(|(id, quarantined)| QuarantineItem {
            id: id.to_string(),
            row: board.quarantined_row(0, Arrival(*id), quarantined),
            evidence: quarantined.evidence.clone(),
        });
        Ok(waiting.collect())
    }

    /// Returns true if a player is banned.
    pub fn is_banned(&self, player: &str) -> bool {
        self.bans.contains_key(player)
    }

    pub(super) fn decide(
        &mut self,
        context: &CommandContext<'_>,
        table: &str,
        id: &str,
        accept: bool,
    ) -> Result<CommandResponse, Refusal> {
        let board = self.boards.get_mut(table).ok_or_else(|| board_not_found(table))?;
        let missing = || Refusal::not_found("there is no quarantined score with this id");
        let id: u64 = id.parse().map_err(|_| missing())?;
        let quarantined = board.quarantine.get(&id).ok_or_else(missing)?;
        if accept {
            board.catalogue.check(&quarantined.attributes, &board.config.filters)?;
        }
        board.advance(context.at.ms, context.tz);
        let quarantined = board.remove_quarantined(id).ok_or_else(missing)?;
        let decision = if accept { "accept" } else { "reject" };
        if accept {
            let player = quarantined.player.clone();
            board.accept(id, quarantined);
            self.bans.get(&player).is_some().then(|| hide(board, &player, true));
        }
        Ok(CommandResponse::ok(&serde_json::json!({ "id": id.to_string(), "decision": decision })))
    }

    pub(super) fn ban(
        &mut self,
        context: &mut CommandContext<'_>,
        player: &str,
        reason: String,
    ) -> Result<CommandResponse, Refusal> {
        check_player("player", player)?;
        check_text("reason", &reason, REASON_BYTES_MAX)?;
        if self.bans.len() >= BANS_MAX && !self.is_banned(player) {
            return Err(Refusal::too_many(format!("a game can have at most {BANS_MAX} banned players")));
        }
        self.bans.insert(player.to_owned(), Ban { reason, at_ms: context.at.ms });
        self.bans_changed.push(player.to_owned());
        self.hide(context, player, true);
        Ok(CommandResponse::no_content())
    }

    pub(super) fn lift_ban(
        &mut self,
        context: &mut CommandContext<'_>,
        player: &str,
    ) -> Result<CommandResponse, Refusal> {
        self.bans.remove(player).ok_or_else(|| Refusal::not_found("this player is not banned"))?;
        self.bans_changed.push(player.to_owned());
        self.hide(context, player, false);
        Ok(CommandResponse::no_content())
    }

    fn hide(&mut self, context: &mut CommandContext<'_>, player: &str, is_hidden: bool) {
        for board in self.boards.values_mut() {
            if hide(board, player, is_hidden) {
                context.touched.push(Touched::Board(board.table.clone()));
            }
        }
    }
}

fn hide(board: &mut Board, player: &str, is_hidden: bool) -> bool {
    let Some(number) = board.roster.find(player) else { return false };
    board.set_hidden(number, is_hidden);
    true
}
