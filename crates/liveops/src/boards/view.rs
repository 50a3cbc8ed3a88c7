//! Boards as clients see them.

use serde::Serialize;

use super::calendar::BoardWindow;
use super::config::{KeepRule, ScoreChecks, ScoreOrder, SubmitMode};
use super::decimal::ScoreDecimal;
use super::{Board, Boards};
use crate::Refusal;

/// A board as clients see it.
#[derive(Clone, Debug, Serialize)]
pub struct BoardView {
    /// The board's name.
    pub table: String,
    /// The display name.
    pub title: String,
    /// The order of scores.
    pub order: ScoreOrder,
    /// The rule that decides which of a player's runs count.
    pub keep: KeepRule,
    /// The board's windows.
    pub windows: Vec<BoardWindow>,
    /// The lowest accepted score.
    pub min: Option<ScoreDecimal>,
    /// The highest accepted score.
    pub max: Option<ScoreDecimal>,
    /// Decimals of scores.
    pub decimals: u8,
    /// The senders that may submit scores.
    pub mode: SubmitMode,
    /// True if the board is competitive.
    pub competitive: bool,
    /// Checks of scores that clients submit.
    pub checks: ScoreChecks,
    /// Fields by which rows can be filtered.
    pub filters: Vec<String>,
    /// True if an access code is needed to see it.
    pub private: bool,
    /// The access code, for viewers who may know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The number of the open season; 0 if the board has none.
    pub season: u32,
    /// The number of its players.
    pub players: u32,
}

/// The viewer of a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoardViewer<'a> {
    /// A viewer who sees all boards.
    All,
    /// A viewer with the public key and, for a private board, its access code.
    Public(Option<&'a str>),
}

impl Boards {
    /// Returns a board.
    pub fn board(&self, table: &str, viewer: BoardViewer<'_>) -> Result<BoardView, Refusal> {
        self.visible_board(table, viewer).map(|board| view(board, viewer))
    }

    /// Returns the boards that the viewer sees without an access code, by name.
    pub fn boards(&self, viewer: BoardViewer<'_>) -> Vec<BoardView> {
        let visible_board =
            self.boards.values().filter(|board| viewer == BoardViewer::All || board.config.code.is_none());
        let mut boards: Vec<BoardView> = visible_board.map(|board| view(board, viewer)).collect();
        boards.sort_unstable_by(|a, b| a.table.cmp(&b.table));
        boards
    }

    pub(super) fn visible_board(&self, table: &str, viewer: BoardViewer<'_>) -> Result<&Board, Refusal> {
        let found = self.boards.get(table).filter(|board| is_visible(board, viewer));
        found.ok_or_else(|| board_not_found(table))
    }
}

pub(super) fn is_visible(board: &Board, viewer: BoardViewer<'_>) -> bool {
    match viewer {
        BoardViewer::All => true,
        BoardViewer::Public(code) => board.config.code.is_none() || board.config.code.as_deref() == code,
    }
}

pub(super) fn board_not_found(table: &str) -> Refusal {
    Refusal::not_found(format!("there is no board `{table}`"))
}

pub(super) fn view(board: &Board, viewer: BoardViewer<'_>) -> BoardView {
    let config = board.config.clone();
    let decimal = |units: i64| ScoreDecimal { units, decimals: config.decimals };
    BoardView {
        table: board.table.clone(),
        title: config.title,
        order: config.order,
        keep: config.keep,
        windows: config.windows,
        min: config.min.map(decimal),
        max: config.max.map(decimal),
        decimals: config.decimals,
        mode: config.mode,
        competitive: config.competitive,
        checks: config.checks,
        filters: config.filters,
        private: config.code.is_some(),
        code: config.code.filter(|_| viewer == BoardViewer::All),
        season: board.calendar.current_season(),
        players: board.roster.len(),
    }
}
