//! What may stand in the body of a write about boards.

use std::collections::BTreeMap;

use liveops::boards::{
    BoardUpdate, BoardWindow, KeepRule, ScoreChecks, ScoreDecimal, ScoreOrder, SubmitMode, SubmittedScore,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::problem::Problem;
use pipeline::random;

/// Random bytes of a code.
const CODE_BYTES: usize = 9;

/// Settings of a board; what is absent stays as it is.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutBoard {
    /// `desc`: the highest scores come first. `asc`: the lowest.
    #[schema(value_type = Option<String>, example = "desc")]
    order: Option<ScoreOrder>,
    /// What becomes of a player's scores in a window: the `best` or the `last` is the row, or their `sum`, or `all` are.
    #[schema(value_type = Option<String>, example = "best")]
    keep: Option<KeepRule>,
    /// `day`, `week` (from Monday), `month`, `season`, `all`, `24h`, `7d`, `30d`. All if never said; one that is added
    /// later counts from then on.
    #[schema(value_type = Option<Vec<String>>)]
    windows: Option<Vec<BoardWindow>>,
    /// The lowest score that is taken.
    #[schema(value_type = Option<f64>)]
    min: Option<Box<RawValue>>,
    /// The highest score that is taken.
    #[schema(value_type = Option<f64>)]
    max: Option<Box<RawValue>>,
    /// 0 to 6; further digits of a score are rounded.
    decimals: Option<u8>,
    /// `open`: anybody with the public key. `session`: players with signed requests. `server`: secret keys.
    #[schema(value_type = Option<String>, example = "session")]
    mode: Option<SubmitMode>,
    /// Whether something is at stake: then servers submit, unless `mode` says otherwise.
    competitive: Option<bool>,
    /// What players' scores are checked against.
    checks: Option<PutChecks>,
    /// Up to four fields by which rows can be filtered.
    filters: Option<Vec<String>>,
    /// A board that is seen with its code only: `true` for a code that is drawn, or a code of your own.
    private: Option<Private>,
    /// For people, up to 200 bytes.
    title: Option<String>,
}

/// What players' scores are checked against. A score that fails waits for a moderator.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutChecks {
    /// Seconds from the beginning of the session to the score.
    min_play_s: Option<u32>,
    /// Points per second since the beginning of the session.
    points_per_s_max: Option<f64>,
    /// A level that the player has to have won in the session, by `$level` events.
    level: Option<String>,
}

/// Whether a board is private.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Private {
    /// With a code that is drawn, or not any more.
    Flag(bool),
    /// With this code.
    Code(String),
}

/// A score.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PostScore {
    /// Whose, 1 to 128 bytes.
    player: String,
    /// The player's name as others see it, up to 64 bytes; as before if not given.
    #[serde(default)]
    name: String,
    /// Kept exactly, to the board's decimals.
    #[schema(value_type = f64)]
    score: Box<RawValue>,
    /// Decides between equal scores.
    #[schema(value_type = Option<f64>)]
    subscore: Option<Box<RawValue>>,
    /// Up to 16, of 200 bytes each. Those that the board declares are filters.
    #[serde(default)]
    fields: BTreeMap<String, String>,
    /// Where it was played, up to 200 bytes.
    source: Option<String>,
    /// The player's session, where the request is not signed and the board checks scores.
    session: Option<String>,
}

/// What a moderator decides.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DecideScore {
    /// `accept` or `reject`.
    #[schema(value_type = String, example = "reject")]
    pub decision: Decision,
}

/// What becomes of a score that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It is taken, as of when it came.
    Accept,
    /// It is gone.
    Reject,
}

/// Why a player is banned.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutBan {
    /// For the other moderators, up to 500 bytes.
    #[serde(default)]
    pub reason: String,
}

impl PutBoard {
    /// The settings to be made.
    pub fn change(self) -> Result<BoardUpdate, Problem> {
        let checks = self.checks.map(|PutChecks { min_play_s, points_per_s_max, level }| ScoreChecks {
            min_play_s,
            points_per_s_max,
            level,
        });
        let (code, new_code) = match self.private {
            None => (None, None),
            Some(Private::Flag(false)) => (Some(String::new()), None),
            Some(Private::Flag(true)) => (None, Some(random::token(CODE_BYTES))),
            Some(Private::Code(code)) if code.is_empty() => {
                return Err(Problem::invalid("a code is not empty").field("private"));
            }
            Some(Private::Code(code)) => (Some(code), None),
        };
        Ok(BoardUpdate {
            order: self.order,
            keep: self.keep,
            windows: self.windows,
            min: self.min.map(|raw| number("min", &raw)).transpose()?,
            max: self.max.map(|raw| number("max", &raw)).transpose()?,
            decimals: self.decimals,
            mode: self.mode,
            competitive: self.competitive,
            checks,
            filters: self.filters,
            code,
            new_code,
            title: self.title,
        })
    }
}

impl PostScore {
    /// The score that was sent, to a board that may be private.
    pub fn score(self, code: Option<String>) -> Result<SubmittedScore, Problem> {
        Ok(SubmittedScore {
            player: self.player,
            name: self.name,
            score: number("score", &self.score)?,
            subscore: self.subscore.map(|raw| number("subscore", &raw)).transpose()?,
            fields: self.fields,
            source: self.source,
            session: self.session,
            code,
        })
    }
}

/// The digits of a number as they were sent.
fn number(field: &str, raw: &RawValue) -> Result<String, Problem> {
    if ScoreDecimal::is_number(raw.get()) {
        return Ok(raw.get().to_owned());
    }
    Err(Problem::invalid("it is a number of at most 64 characters").field(field))
}
