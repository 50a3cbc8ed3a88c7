//! Request bodies of leaderboard writes.

use std::collections::BTreeMap;

use liveops::boards::{
    BoardUpdate, BoardWindow, KeepRule, ScoreChecks, ScoreDecimal, ScoreOrder, SubmitMode, SubmittedScore,
};
use pipeline::random;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::problem::Problem;

/// Random bytes of a generated access code.
const CODE_BYTES: usize = 9;

/// Settings of a board. Fields that you leave out keep their value.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutBoardRequest {
    /// `desc`: highest scores first. `asc`: lowest scores first.
    #[schema(value_type = Option<String>, example = "desc")]
    order: Option<ScoreOrder>,
    /// Which scores of a player a window ranks: the `best`, the `last`, their `sum` or `all` of them.
    #[schema(value_type = Option<String>, example = "best")]
    keep: Option<KeepRule>,
    /// `day`, `week` (starting on Monday), `month`, `season`, `all`, `24h`, `7d`, `30d`. Default: all of them. A window
    /// that is added later starts empty.
    #[schema(value_type = Option<Vec<String>>)]
    windows: Option<Vec<BoardWindow>>,
    /// The lowest accepted score.
    #[schema(value_type = Option<f64>)]
    min: Option<Box<RawValue>>,
    /// The highest accepted score.
    #[schema(value_type = Option<f64>)]
    max: Option<Box<RawValue>>,
    /// Decimal places of scores, 0 to 6. Default: 3. A score with more is rejected, not rounded. The largest score is
    /// 9007199254740991 divided by 10 for each decimal place.
    decimals: Option<u8>,
    /// Allowed submitters. `open`: any client with the public key. `session`: players with signed requests. `server`:
    /// secret keys.
    #[schema(value_type = Option<String>, example = "session")]
    mode: Option<SubmitMode>,
    /// Competitive boards default to mode `server`.
    competitive: Option<bool>,
    /// Plausibility checks for the scores of players.
    checks: Option<BoardChecks>,
    /// Up to four fields by which rows can be filtered.
    filters: Option<Vec<String>>,
    /// Makes the board private: `true` generates an access code, a text is used as the code, `false` makes it public.
    private: Option<BoardPrivacy>,
    /// Display name, up to 200 bytes.
    title: Option<String>,
}

/// Plausibility checks for the scores of players. A score that fails a check is quarantined for a moderator.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BoardChecks {
    /// Minimum time in seconds from the start of the session to the score.
    min_play_s: Option<u32>,
    /// Maximum points per second since the start of the session.
    points_per_s_max: Option<f64>,
    /// A level that the player must have won in the session, according to `$level` events.
    level: Option<String>,
}

/// `true`, `false` or an access code.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum BoardPrivacy {
    /// Private with a generated code, or public.
    Flag(bool),
    /// Private with this code.
    Code(String),
}

/// A score to submit.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubmitScoreRequest {
    /// The player's id, 1 to 128 bytes.
    player: String,
    /// Display name of the player, up to 64 bytes. Default: the name known so far.
    #[serde(default)]
    name: String,
    /// The score, stored exactly. It may have as many decimal places as the board: 3 unless its settings say otherwise.
    /// Digits after the 15th significant one count as floating-point noise and are rounded.
    #[schema(value_type = f64)]
    score: Box<RawValue>,
    /// Tie-breaker between equal scores.
    #[schema(value_type = Option<f64>)]
    subscore: Option<Box<RawValue>>,
    /// Up to 16 fields of up to 200 bytes each. Fields that the board declares can be used as filters.
    #[serde(default)]
    fields: BTreeMap<String, String>,
    /// Source of the score, such as a site, up to 200 bytes.
    source: Option<String>,
    /// The player's session, for boards with checks if the request is not signed.
    session: Option<String>,
}

/// A moderator's decision about a quarantined score.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecideScoreRequest {
    /// `accept` or `reject`.
    #[schema(value_type = String, example = "reject")]
    pub(crate) decision: ScoreDecision,
}

/// The decision about a quarantined score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ScoreDecision {
    /// It is ranked as of its submission.
    Accept,
    /// It is deleted.
    Reject,
}

/// A ban of a player.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BanPlayerRequest {
    /// Reason, shown to other moderators, up to 500 bytes.
    #[serde(default)]
    pub(crate) reason: String,
}

impl PutBoardRequest {
    /// Returns the change of settings, with a generated access code if the board needs one.
    pub(crate) fn change(self) -> Result<BoardUpdate, Problem> {
        let checks = self.checks.map(|BoardChecks { min_play_s, points_per_s_max, level }| ScoreChecks {
            min_play_s,
            points_per_s_max,
            level,
        });
        let (code, new_code) = match self.private {
            None => (None, None),
            Some(BoardPrivacy::Flag(false)) => (Some(String::new()), None),
            Some(BoardPrivacy::Flag(true)) => (None, Some(random::token(CODE_BYTES))),
            Some(BoardPrivacy::Code(code)) if code.is_empty() => {
                return Err(Problem::invalid("the access code must not be empty").field("private"));
            }
            Some(BoardPrivacy::Code(code)) => (Some(code), None),
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

impl SubmitScoreRequest {
    /// Returns the score, with the access code of a private board.
    pub(crate) fn score(self, code: Option<String>) -> Result<SubmittedScore, Problem> {
        Ok(SubmittedScore {
            replace: false,
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

/// Returns the digits of a number exactly as they were sent.
fn number(field: &str, raw: &RawValue) -> Result<String, Problem> {
    if ScoreDecimal::is_number(raw.get()) {
        return Ok(raw.get().to_owned());
    }
    Err(Problem::invalid("must be a number of at most 64 characters").field(field))
}
