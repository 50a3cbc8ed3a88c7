//! The current rows of all boards, for programs that read all scores.

use super::Boards;
use super::page::{BoardQuery, BoardRow, PER_PAGE_MAX};
use crate::ExportCursor;

/// Rows of a board, and where the next ones begin.
pub struct Standings {
    /// The board's name.
    pub table: String,
    /// The rows, by player. Quarantined scores and those of banned players are left out.
    pub rows: Vec<BoardRow>,
    /// The place to continue.
    pub next: ExportCursor,
}

impl Boards {
    /// Returns the rows of the next `limit` players of boards, in the longest window of each board. A player whose score
    /// changes between two calls has the row of before or after the change. `None` after the last board.
    pub fn standings(&self, from: &ExportCursor, limit: u32, now_ms: i64) -> Option<Standings> {
        let boards = self.boards.values().filter(|board| board.table >= from.outer);
        let board = boards.min_by(|a, b| a.table.cmp(&b.table))?;
        let first = if board.table == from.outer { from.next } else { 0 };
        let until = first.saturating_add(limit.max(1)).min(board.roster.len());
        let mut rows = Vec::new();
        for number in first..until {
            let player = board.roster.get(number);
            // An erased player has an empty id.
            if player.id.is_empty() || board.hidden.contains(&number) {
                continue;
            }
            let player = Some(player.id.to_owned());
            let query = BoardQuery { player, per_page: PER_PAGE_MAX, ..BoardQuery::default() };
            if let Ok(page) = board.page(&query, now_ms) {
                rows.extend(page.rows.into_iter().filter(|row| !row.quarantined));
            }
        }
        let is_last = until == board.roster.len();
        // No board's name comes between this one and itself with a zero byte.
        let outer = if is_last { format!("{}\0", board.table) } else { board.table.clone() };
        let next = ExportCursor { outer, next: if is_last { 0 } else { until } };
        Some(Standings { table: board.table.clone(), rows, next })
    }
}
