//! Request bodies of level writes.

use std::collections::BTreeMap;

use liveops::levels::{Decision, LevelState};
use serde::Deserialize;
use utoipa::ToSchema;

/// A level to save.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SaveLevelRequest {
    /// Name of the level, up to 100 bytes.
    pub(crate) name: String,
    /// The level data in any format, 1 byte to 3 MiB.
    pub(crate) data: String,
    /// The creator's player id.
    pub(crate) player: String,
    /// Display name of the creator, up to 64 bytes.
    #[serde(default)]
    pub(crate) player_name: String,
    /// Up to 20 fields that lists can filter by, up to 1,000 bytes in total.
    #[serde(default)]
    pub(crate) fields: BTreeMap<String, String>,
    /// A picture as a data URL: PNG, JPEG, GIF or WebP in base64, up to 64 KiB.
    pub(crate) thumb: Option<String>,
    /// Source of the level, such as a site, up to 100 bytes.
    #[serde(default)]
    pub(crate) source: String,
    /// Initial state. Default: `published`.
    #[serde(default)]
    pub(crate) state: InitialLevelState,
}

/// The initial state of a level.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum InitialLevelState {
    /// Visible to its creator only.
    Draft,
    /// Visible to all players.
    #[default]
    Published,
}

impl From<InitialLevelState> for LevelState {
    fn from(state: InitialLevelState) -> LevelState {
        match state {
            InitialLevelState::Draft => LevelState::Draft,
            InitialLevelState::Published => LevelState::Published,
        }
    }
}

/// A new state of a level.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetLevelStateRequest {
    /// `draft`, `published` or `removed`. `removed` is permanent.
    #[schema(value_type = String, example = "published")]
    pub(crate) state: LevelState,
}

/// A player's vote.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RateLevelRequest {
    /// The player who votes.
    pub(crate) player: String,
    /// Rating, 1 to 10.
    #[schema(minimum = 1, maximum = 10)]
    pub(crate) rating: u8,
}

/// A player's flag on a level.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlagLevelRequest {
    /// The player who flags the level.
    pub(crate) player: String,
    /// Reason, up to 200 bytes.
    #[serde(default)]
    pub(crate) reason: String,
}

/// A moderator's decision.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModerateLevelRequest {
    /// `keep` or `remove`.
    #[schema(value_type = String, example = "keep")]
    pub(crate) decision: Decision,
}
