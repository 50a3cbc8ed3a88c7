//! What is told about boards, for the description of the routes. The answers themselves are made where it is decided.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

/// A board.
#[derive(Serialize, ToSchema)]
pub struct Board {
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
    /// For secret keys.
    code: Option<String>,
    /// The season that is not closed; 0: the board has none.
    season: u32,
    /// Players who are known to it.
    players: u32,
}

/// All boards that you may see.
#[derive(Serialize, ToSchema)]
pub struct Boards {
    boards: Vec<Board>,
}

/// What became of a score.
#[derive(Serialize, ToSchema)]
pub struct Submitted {
    /// Whether it is the player's row in some window.
    saved: bool,
    /// The player's score in the longest window.
    best: Option<f64>,
    /// And its rank.
    rank: Option<u64>,
    /// The player's rank in each window.
    ranks: BTreeMap<String, u64>,
    /// How much better the player's score in the longest window is than before.
    improved_by: Option<f64>,
    /// It waits for a moderator.
    quarantined: Option<bool>,
}

/// A row.
#[derive(Serialize, ToSchema)]
pub struct Row {
    rank: u64,
    player: String,
    name: String,
    score: f64,
    subscore: Option<f64>,
    fields: Option<BTreeMap<String, String>>,
    source: Option<String>,
    /// RFC 3339.
    at: String,
    /// Whether it was signed or came from a server.
    verified: bool,
    /// It is the one that was just submitted.
    submitted: Option<bool>,
    /// It waits for a moderator.
    quarantined: Option<bool>,
}

/// A page of a board.
#[derive(Serialize, ToSchema)]
pub struct Page {
    table: String,
    window: String,
    /// Of the window `season`.
    season: Option<u32>,
    page: u32,
    per_page: u32,
    /// Rows on all pages.
    total: u64,
    rows: Vec<Row>,
}

/// A score that waits.
#[derive(Serialize, ToSchema)]
pub struct Waiting {
    id: String,
    row: Row,
    /// The checks that failed, the session, and how long it was played.
    evidence: serde_json::Value,
}

/// The scores of a board that wait.
#[derive(Serialize, ToSchema)]
pub struct Quarantine {
    items: Vec<Waiting>,
}
