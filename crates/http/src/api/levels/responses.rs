//! Level responses as the OpenAPI description shows them.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

/// A level.
#[derive(Serialize, ToSchema)]
pub(crate) struct Level {
    /// Id of the level, 12 letters and digits.
    id: String,
    name: String,
    /// The creator's player id.
    player: String,
    player_name: String,
    /// `draft`, `published` or `removed`.
    state: String,
    fields: BTreeMap<String, String>,
    source: String,
    created_at: String,
    /// Number of votes.
    votes: u32,
    /// Mean of all votes; null without votes.
    rating: Option<f64>,
    /// Weighted rating: `(55 + sum of the votes) / (10 + number of votes)`. A single vote of 10 does not beat ninety
    /// 9s.
    score: f64,
    /// Counted from `$level` events, like `wins`, `retries` and `quits`.
    starts: u64,
    wins: u64,
    retries: u64,
    quits: u64,
    /// Flags by players and by `$level` events.
    flags: u64,
    /// The votes that order the list, if it does not count all votes.
    window: Option<VoteWindow>,
    /// Picture as a data URL.
    thumb: Option<String>,
    /// The level data. In lists only with `data=1`.
    data: Option<String>,
}

/// The votes on a level in the time window of a list.
#[derive(Serialize, ToSchema)]
pub(crate) struct VoteWindow {
    votes: u32,
    rating: Option<f64>,
    score: f64,
}

/// A saved level.
#[derive(Serialize, ToSchema)]
pub(crate) struct SavedLevel {
    #[serde(flatten)]
    level: Level,
    /// True if the player had already saved the same name and data; this is that level.
    duplicate: bool,
}

/// A page of levels.
#[derive(Serialize, ToSchema)]
pub(crate) struct LevelPage {
    levels: Vec<Level>,
    /// Number of levels on all pages.
    total: usize,
    page: u64,
    per_page: u64,
}

/// The rating of a level after a vote.
#[derive(Serialize, ToSchema)]
pub(crate) struct LevelRating {
    id: String,
    /// Mean of all votes on the level.
    rating: Option<f64>,
    score: f64,
    votes: u32,
    /// True if an earlier vote of the player was replaced.
    changed: bool,
}

/// The flags of a level after a flag.
#[derive(Serialize, ToSchema)]
pub(crate) struct LevelFlags {
    id: String,
    flags: u64,
    /// True if the player had already flagged the level.
    already: bool,
}

/// A page of flagged levels.
#[derive(Serialize, ToSchema)]
pub(crate) struct ModerationQueue {
    items: Vec<FlaggedLevel>,
    total: usize,
    page: u64,
    per_page: u64,
}

/// A flagged level.
#[derive(Serialize, ToSchema)]
pub(crate) struct FlaggedLevel {
    id: String,
    level: Level,
    /// Flags since the last decision.
    open_flags: u64,
    /// Reasons of the latest flags.
    reasons: Vec<FlagReason>,
}

/// The reason of a flag.
#[derive(Serialize, ToSchema)]
pub(crate) struct FlagReason {
    player: String,
    reason: String,
    at: String,
}
