//! Leaderboard responses as the OpenAPI description shows them. `liveops` writes the actual JSON.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

/// A board.
#[derive(Serialize, ToSchema)]
pub(crate) struct Board {
    table: String,
    title: String,
    /// `desc` or `asc`.
    order: String,
    /// `best`, `last`, `sum` or `all`.
    keep: String,
    windows: Vec<String>,
    min: Option<f64>,
    max: Option<f64>,
    decimals: u8,
    /// `open`, `session` or `server`.
    mode: String,
    competitive: bool,
    checks: serde_json::Value,
    filters: Vec<String>,
    private: bool,
    /// The access code of a private board. Only shown to secret keys.
    code: Option<String>,
    /// The current season; 0 if the board has no seasons.
    season: u32,
    /// Number of players with a score.
    players: u32,
}

/// The boards that the key may see.
#[derive(Serialize, ToSchema)]
pub(crate) struct BoardList {
    boards: Vec<Board>,
}

/// The outcome of a submitted score.
#[derive(Serialize, ToSchema)]
pub(crate) struct SubmittedScore {
    /// True if the score is ranked in at least one window.
    saved: bool,
    /// The player's score in the longest window.
    best: Option<f64>,
    /// The player's rank in the longest window.
    rank: Option<u64>,
    /// The player's rank in each window.
    ranks: BTreeMap<String, u64>,
    /// Improvement of the player's score in the longest window.
    improved_by: Option<f64>,
    /// True if the score waits for a moderator.
    quarantined: Option<bool>,
}

/// A row of a leaderboard.
#[derive(Serialize, ToSchema)]
pub(crate) struct BoardRow {
    rank: u64,
    player: String,
    name: String,
    score: f64,
    subscore: Option<f64>,
    fields: Option<BTreeMap<String, String>>,
    source: Option<String>,
    /// RFC 3339.
    at: String,
    /// True if the score was signed or sent by a server.
    verified: bool,
    /// True for the score that was just submitted.
    submitted: Option<bool>,
    /// True if the score waits for a moderator.
    quarantined: Option<bool>,
}

/// A page of a leaderboard.
#[derive(Serialize, ToSchema)]
pub(crate) struct BoardPage {
    table: String,
    window: String,
    /// The season, for the window `season`.
    season: Option<u32>,
    page: u32,
    per_page: u32,
    /// Number of rows on all pages.
    total: u64,
    rows: Vec<BoardRow>,
}

/// A quarantined score.
#[derive(Serialize, ToSchema)]
pub(crate) struct QuarantinedScore {
    id: String,
    row: BoardRow,
    /// The failed checks, the session and its duration.
    evidence: serde_json::Value,
}

/// The quarantined scores of a board.
#[derive(Serialize, ToSchema)]
pub(crate) struct BoardQuarantine {
    items: Vec<QuarantinedScore>,
}
