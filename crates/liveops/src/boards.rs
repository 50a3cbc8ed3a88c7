//! Leaderboards: scores in windows of time, with exact ranks.
//!
//! A score belongs to every window that contains its time: the day, week, month and season of the game's calendar, all
//! time, and the last 24 hours, 7 and 30 days. A rank, a page and the surroundings of a player cost one path down a
//! tree each, and are exact for any number of players. `apply.rs` decides commands; `page.rs` reads pages.

mod apply;
mod attributes;
mod board;
mod calendar;
mod chunked;
mod config;
mod decimal;
mod lookup;
mod moderation;
mod page;
mod places;
mod privacy;
mod quarantine;
mod recent;
mod records;
mod roster;
mod row_pages;
mod runs;
mod standings;
mod submit;
mod tree;
mod view;
mod wins;

use hashbrown::HashMap;
use model::batch::StoredEvent;
use serde::{Deserialize, Serialize};

pub use self::attributes::{Filter, SOURCE};
pub use self::board::{Board, BoardMemory};
pub use self::calendar::BoardWindow;
pub use self::config::{BoardConfig, BoardUpdate, KeepRule, ScoreChecks, ScoreOrder, SubmitMode};
pub use self::decimal::ScoreDecimal;
pub use self::moderation::QuarantineItem;
pub use self::page::{BoardPage, BoardQuery, BoardRow, FRIENDS_MAX, PER_PAGE_MAX};
pub use self::quarantine::{Evidence, FailedCheck};
pub use self::runs::{Arrival, Run};
pub use self::standings::Standings;
pub use self::submit::SubmittedScore;
pub(crate) use self::submit::{PageRequest, SubmittedPage};
pub use self::view::{BoardView, BoardViewer};

use self::moderation::Ban;
use self::wins::Wins;
use crate::Refusal;
use crate::game::LogPoint;

/// The commands of this subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoardCommand {
    /// Creates a board or changes its settings.
    Define {
        /// The board's name.
        table: String,
        /// The settings to change.
        change: BoardUpdate,
    },
    /// Closes a board's season and opens the next one.
    Reset {
        /// The board's name.
        table: String,
    },
    /// Submits a score.
    Submit {
        /// The board's name. The first score creates the board if it does not exist.
        table: String,
        /// The score.
        score: SubmittedScore,
        /// If given, the response includes the page with the score.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        list: Option<Box<BoardQuery>>,
    },
    /// Accepts or rejects a quarantined score.
    Decide {
        /// The board's name.
        table: String,
        /// The id of the quarantined score.
        id: String,
        /// True to accept the score.
        accept: bool,
    },
    /// Bans a player: hides the player on all boards and refuses further scores.
    Ban {
        /// The player's id.
        player: String,
        /// A note for moderators.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// Lifts a ban.
    Lift {
        /// The player's id.
        player: String,
    },
}

/// The boards of a game.
#[derive(Default)]
pub struct Boards {
    boards: HashMap<String, Board>,
    bans: HashMap<String, Ban>,
    bans_changed: Vec<String>,
    wins: Wins,
    last_number: u32,
    /// Boards by number, while records are restored.
    restoring: HashMap<u32, Board>,
}

impl Boards {
    /// Returns true if there is a board of this name, visible or not.
    pub(crate) fn has(&self, table: &str) -> bool {
        self.boards.contains_key(table)
    }

    /// Returns a page of a board. Call [`Boards::advance`] first if [`Boards::needs_advance`] returns true.
    pub fn page(
        &self,
        table: &str,
        viewer: BoardViewer<'_>,
        query: &BoardQuery,
        now_ms: i64,
    ) -> Result<BoardPage, Refusal> {
        self.visible_board(table, viewer)?.page(query, now_ms)
    }

    /// Returns true if the board's rolling windows show another time than `now_ms`.
    pub fn needs_advance(&self, table: &str, now_ms: i64) -> bool {
        self.boards.get(table).is_some_and(|board| board.needs_advance(now_ms))
    }

    /// Advances the board's rolling windows to this time. Does not affect any decision or record.
    pub fn advance(&mut self, table: &str, now_ms: i64) {
        if let Some(board) = self.boards.get_mut(table) {
            let now = board.now_of_read(now_ms);
            board.slide(now);
        }
    }

    pub(crate) fn apply_event(&mut self, at: LogPoint, event: &StoredEvent<'_>) {
        self.wins.apply_event(at, event);
    }
}
