//! Answers about levels, as the description shows them.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

/// A level.
#[derive(Serialize, ToSchema)]
pub struct Level {
    /// 12 letters and digits.
    id: String,
    name: String,
    /// Who made it.
    player: String,
    player_name: String,
    /// `draft`, `published` or `removed`.
    state: String,
    fields: BTreeMap<String, String>,
    source: String,
    created_at: String,
    /// How many players rated it.
    votes: u32,
    /// The mean of all votes; null without votes.
    rating: Option<f64>,
    /// `(55 + sum of the votes) / (10 + number of votes)`: one 10 does not beat ninety 9s.
    score: f64,
    /// From `$level` events, as the four below.
    starts: u64,
    wins: u64,
    retries: u64,
    quits: u64,
    /// Flags of players, and `$level` events that say so.
    flags: u64,
    /// In lists that do not count all votes: the votes by which the list is ordered.
    window: Option<Window>,
    /// A data URL.
    thumb: Option<String>,
    /// Of one level, and in lists that ask for it.
    data: Option<String>,
}

/// Some of a level's votes.
#[derive(Serialize, ToSchema)]
pub struct Window {
    votes: u32,
    rating: Option<f64>,
    score: f64,
}

/// A level that was saved.
#[derive(Serialize, ToSchema)]
pub struct Saved {
    #[serde(flatten)]
    level: Level,
    /// Whether this player had saved the same data under the same name before: this is that level.
    duplicate: bool,
}

/// A page of levels.
#[derive(Serialize, ToSchema)]
pub struct Page {
    levels: Vec<Level>,
    /// Levels on all pages.
    total: usize,
    page: u64,
    per_page: u64,
}

/// What a vote came to.
#[derive(Serialize, ToSchema)]
pub struct Rated {
    id: String,
    /// The mean of all votes on the level.
    rating: Option<f64>,
    score: f64,
    votes: u32,
    /// Whether another rating of this player was replaced.
    changed: bool,
}

/// What a flag came to.
#[derive(Serialize, ToSchema)]
pub struct Flagged {
    id: String,
    flags: u64,
    /// Whether this player had flagged the level before.
    already: bool,
}

/// What waits for a moderator.
#[derive(Serialize, ToSchema)]
pub struct Queue {
    items: Vec<Waiting>,
    total: usize,
    page: u64,
    per_page: u64,
}

/// A level that was flagged.
#[derive(Serialize, ToSchema)]
pub struct Waiting {
    id: String,
    level: Level,
    /// Flags since the last decision.
    open_flags: u64,
    /// What the latest of them say.
    reasons: Vec<Reason>,
}

/// Why somebody flagged a level.
#[derive(Serialize, ToSchema)]
pub struct Reason {
    player: String,
    reason: String,
    at: String,
}
