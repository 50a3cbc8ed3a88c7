//! Personal data: exporting and erasing a player.

use super::Boards;
use super::page::BoardPage;

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
