//! What may stand in the body of a write about levels.

use std::collections::BTreeMap;

use liveops::levels::{Decision, LevelState};
use serde::Deserialize;
use utoipa::ToSchema;

/// A level to be saved.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SaveLevel {
    /// Up to 100 bytes.
    pub name: String,
    /// The level itself, whatever the game makes of it: 1 byte to 3 MiB.
    pub data: String,
    /// Who made it.
    pub player: String,
    /// The maker's name as others see it, up to 64 bytes.
    #[serde(default)]
    pub player_name: String,
    /// What lists can be filtered by: up to 20 fields, 1,000 bytes together.
    #[serde(default)]
    pub fields: BTreeMap<String, String>,
    /// A picture as a data URL: PNG, JPEG, GIF or WebP in base64, up to 64 KiB.
    pub thumb: Option<String>,
    /// Where it was made, up to 100 bytes.
    #[serde(default)]
    pub source: String,
    /// Published if not given.
    #[serde(default)]
    pub state: NewState,
}

/// What a level can be at first.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NewState {
    /// Its maker's alone.
    Draft,
    /// Everybody's.
    #[default]
    Published,
}

impl From<NewState> for LevelState {
    fn from(state: NewState) -> LevelState {
        match state {
            NewState::Draft => LevelState::Draft,
            NewState::Published => LevelState::Published,
        }
    }
}

/// What becomes of a level.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetState {
    /// `draft` or `published`; `removed` for good.
    #[schema(value_type = String, example = "published")]
    pub state: LevelState,
}

/// A player's vote.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RateLevel {
    /// Who rates.
    pub player: String,
    /// 1 to 10.
    #[schema(minimum = 1, maximum = 10)]
    pub rating: u8,
}

/// Somebody's word that a level should not be there.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FlagLevel {
    /// Who says so.
    pub player: String,
    /// Why, up to 200 bytes.
    #[serde(default)]
    pub reason: String,
}

/// A moderator's decision.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DecideLevel {
    /// `keep` or `remove`.
    #[schema(value_type = String, example = "keep")]
    pub decision: Decision,
}
