//! Personal data: exporting and erasing a player, and exporting all of them.

use serde_json::{Value, json};

use super::Boards;
use super::page::BoardPage;
use crate::{ExportCursor, ExportPage};

impl Boards {
    /// Erases a player on all boards. A ban stays.
    pub fn erase_player(&mut self, player: &str) {
        for board in self.boards.values_mut() {
            if let Some(number) = board.roster.find(player) {
                board.erase(number);
            }
            let own = board
                .quarantine
                .iter()
                .filter(|(_, quarantined)| quarantined.player == player)
                .map(|(id, _)| *id);
            let own: Vec<u64> = own.collect();
            own.into_iter().for_each(|id| drop(board.remove_quarantined(id)));
        }
        self.wins.erase_player(player);
    }

    /// Returns the next players of boards with their rows in every window.
    pub(crate) fn export_scores(&self, from: &ExportCursor, limit: usize, now_ms: i64) -> ExportPage {
        let next_board = self.boards.values().filter(|board| board.table >= from.outer);
        let Some(board) = next_board.min_by(|a, b| a.table.cmp(&b.table)) else { return Vec::new().into() };
        let first = if board.table == from.outer { from.next } else { 0 };
        let until = first.saturating_add(limit as u32).min(board.roster.len());
        let players = (first..until).map(|number| board.roster.get(number));
        let row = |id: &str, name: &str| {
            let windows = board.pages_of(id, now_ms);
            json!({ "board": board.table, "player": id, "name": name, "windows": windows })
        };
        // An erased player has an empty id.
        let rows = players.filter(|player| !player.id.is_empty()).map(|player| row(player.id, player.name));
        let rows = rows.collect();
        let is_last = until == board.roster.len();
        // No board's name comes between this one and itself with a zero byte.
        let outer = if is_last { format!("{}\0", board.table) } else { board.table.clone() };
        ExportPage { rows, next: Some(ExportCursor { outer, next: if is_last { 0 } else { until } }) }
    }

    /// Returns all bans.
    pub(crate) fn export_bans(&self) -> Vec<Value> {
        self.bans.iter().map(|(player, ban)| json!({ "player": player, "ban": ban })).collect()
    }

    /// Returns everything that boards store about a player, as JSON.
    pub fn export_player(&self, player: &str, now_ms: i64) -> serde_json::Value {
        let mut boards: Vec<(&String, Vec<BoardPage>)> =
            self.boards.values().map(|board| (&board.table, board.pages_of(player, now_ms))).collect();
        boards.retain(|(_, pages)| !pages.is_empty());
        boards.sort_unstable_by_key(|(table, _)| *table);
        let rows: serde_json::Map<String, serde_json::Value> =
            boards.into_iter().map(|(table, pages)| (table.clone(), serde_json::json!(pages))).collect();
        serde_json::json!({ "boards": rows, "ban": self.bans.get(player) })
    }
}
