//! The settings of a board: how it ranks, which runs it keeps, who may submit and what is checked.

use serde::{Deserialize, Serialize};

use super::attributes::DECLARED_MAX;
use super::calendar::BoardWindow;
use super::decimal::{DECIMALS_MAX, ScoreDecimal};
use crate::names::check_text;
use crate::players::SESSION_MS;
use crate::{Refusal, is_key};

/// Decimals of a board whose settings name none: enough for times in seconds.
const DECIMALS_DEFAULT: u8 = 3;
const TITLE_BYTES_MAX: usize = 200;
const CODE_BYTES_MAX: usize = 64;
/// The limit of `min_play_s`: a session does not live longer.
const MIN_PLAY_S_MAX: u32 = (SESSION_MS / 1000) as u32;

/// The order of scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScoreOrder {
    /// Highest first.
    #[default]
    Desc,
    /// Lowest first.
    Asc,
}

/// The rule that decides which of a player's runs count in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeepRule {
    /// The best run.
    #[default]
    Best,
    /// The last run.
    Last,
    /// The sum of all runs.
    Sum,
    /// All runs, each as a row.
    All,
}

/// The senders that may submit scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubmitMode {
    /// Every client with the public key.
    Open,
    /// Players, with requests signed in a player session.
    #[default]
    Session,
    /// Servers, with a secret key.
    Server,
}

/// Checks of scores that clients submit. A score that fails one is quarantined until a moderator decides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreChecks {
    /// The least time from the start of the session to the score, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_play_s: Option<u32>,
    /// The most points per second since the start of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub points_per_s_max: Option<f64>,
    /// A level that the player must have won since the start of the session, according to `$level` events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
}

impl ScoreChecks {
    /// Returns true if nothing is checked.
    pub fn is_empty(&self) -> bool {
        *self == ScoreChecks::default()
    }
}

/// The settings of a board.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BoardConfig {
    /// The order of scores.
    pub order: ScoreOrder,
    /// The rule that decides which of a player's runs count.
    pub keep: KeepRule,
    /// The board's windows.
    pub windows: Vec<BoardWindow>,
    /// The lowest accepted score, in units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<i64>,
    /// The highest accepted score, in units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<i64>,
    /// Decimals of scores and subscores.
    pub decimals: u8,
    /// The senders that may submit scores.
    pub mode: SubmitMode,
    /// True if the board is competitive.
    pub competitive: bool,
    /// Checks of scores that clients submit.
    #[serde(default, skip_serializing_if = "ScoreChecks::is_empty")]
    pub checks: ScoreChecks,
    /// Fields by which rows can be filtered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<String>,
    /// The access code of a private board.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The display name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
}

impl BoardConfig {
    /// Returns the settings of a board that is created by its first use.
    pub fn new(mode: SubmitMode) -> BoardConfig {
        BoardConfig {
            order: ScoreOrder::Desc,
            keep: KeepRule::Best,
            windows: BoardWindow::ALL.to_vec(),
            min: None,
            max: None,
            decimals: DECIMALS_DEFAULT,
            mode,
            competitive: false,
            checks: ScoreChecks::default(),
            filters: Vec::new(),
            code: None,
            title: String::new(),
        }
    }
}

/// Settings to change; those that are absent stay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BoardUpdate {
    /// The order of scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<ScoreOrder>,
    /// The rule that decides which of a player's runs count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<KeepRule>,
    /// The board's windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<Vec<BoardWindow>>,
    /// The lowest accepted score, as a JSON number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<String>,
    /// The highest accepted score, as a JSON number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<String>,
    /// Decimals of scores and subscores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decimals: Option<u8>,
    /// The senders that may submit scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<SubmitMode>,
    /// True makes the board competitive: only servers submit, unless `mode` says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub competitive: Option<bool>,
    /// Checks of scores that clients submit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<ScoreChecks>,
    /// Fields by which rows can be filtered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<Vec<String>>,
    /// The access code of a private board; empty makes the board public.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The random code for a board that becomes private without a code of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_code: Option<String>,
    /// The display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

impl BoardUpdate {
    /// Returns the new settings. Refuses to change settings that affect ranks if the board has rows.
    pub(super) fn apply_to(
        self,
        before: &BoardConfig,
        is_new: bool,
        has_rows: bool,
    ) -> Result<BoardConfig, Refusal> {
        let mut config = before.clone();
        let decimals = self.decimals.unwrap_or(before.decimals);
        if decimals > DECIMALS_MAX {
            return Err(Refusal::invalid("decimals", format!("must be at most {DECIMALS_MAX}")));
        }
        (config.min, config.max) = self.bounds(before, decimals)?;
        config.decimals = decimals;
        config.mode = match (self.mode, self.competitive) {
            (Some(mode), _) => mode,
            (None, Some(true)) if is_new || !before.competitive => SubmitMode::Server,
            _ => before.mode,
        };
        config.order = self.order.unwrap_or(config.order);
        config.keep = self.keep.unwrap_or(config.keep);
        config.competitive = self.competitive.unwrap_or(config.competitive);
        config.checks = self.checks.unwrap_or(config.checks);
        config.filters = self.filters.unwrap_or(config.filters);
        config.windows = self.windows.unwrap_or(config.windows);
        config.title = self.title.unwrap_or(config.title);
        if let Some(code) = self.code {
            config.code = Some(code).filter(|code| !code.is_empty());
        }
        config.code = config.code.or(self.new_code);
        config.normalise();
        config.check()?;
        if has_rows {
            check_unchanged("order", config.order == before.order)?;
            check_unchanged("keep", config.keep == before.keep)?;
            check_unchanged("decimals", config.decimals == before.decimals)?;
        }
        Ok(config)
    }

    fn bounds(&self, before: &BoardConfig, decimals: u8) -> Result<(Option<i64>, Option<i64>), Refusal> {
        let read = |field: &str, new: &Option<String>, old: Option<i64>| {
            let old = || old.map(|units| ScoreDecimal { units, decimals: before.decimals }.to_string());
            let Some(text) = new.clone().or_else(old) else { return Ok(None) };
            let parsed = ScoreDecimal::parse(&text, decimals).map(|it| Some(it.units));
            parsed.map_err(|invalid| Refusal::invalid(field, invalid.to_string()))
        };
        let (min, max) = (read("min", &self.min, before.min)?, read("max", &self.max, before.max)?);
        if min.zip(max).is_some_and(|(min, max)| min > max) {
            return Err(Refusal::invalid("min", "must be at most `max`"));
        }
        Ok((min, max))
    }
}

fn check_unchanged(field: &str, is_same: bool) -> Result<(), Refusal> {
    if is_same {
        return Ok(());
    }
    let detail = format!("`{field}` cannot change while the board has scores; create another board");
    Err(Refusal { field: Some(field.to_owned()), ..Refusal::conflict(detail) })
}

impl BoardConfig {
    fn normalise(&mut self) {
        self.windows.sort_unstable();
        self.windows.dedup();
        self.filters.sort_unstable();
        self.filters.dedup();
    }

    fn check(&self) -> Result<(), Refusal> {
        if self.windows.is_empty() {
            return Err(Refusal::invalid("windows", "must have at least one entry"));
        }
        if self.filters.len() > DECLARED_MAX {
            return Err(Refusal::invalid("filters", format!("must have at most {DECLARED_MAX} entries")));
        }
        if let Some(name) = self.filters.iter().find(|name| !is_key(name)) {
            return Err(Refusal::invalid("filters", format!("`{name}` is not a valid field name")));
        }
        check_text("title", &self.title, TITLE_BYTES_MAX)?;
        if let Some(code) = &self.code {
            check_text("private", code, CODE_BYTES_MAX)?;
        }
        self.checks.check()
    }
}

impl ScoreChecks {
    fn check(&self) -> Result<(), Refusal> {
        if self.min_play_s.is_some_and(|seconds| seconds > MIN_PLAY_S_MAX) {
            let detail = format!("must be at most {MIN_PLAY_S_MAX}, the lifetime of a session");
            return Err(Refusal::invalid("checks.min_play_s", detail));
        }
        if self.points_per_s_max.is_some_and(|points| !points.is_finite() || points <= 0.0) {
            return Err(Refusal::invalid("checks.points_per_s_max", "must be greater than 0"));
        }
        if self.level.as_ref().is_some_and(|level| level.is_empty() || level.len() > LEVEL_BYTES_MAX) {
            return Err(Refusal::invalid("checks.level", format!("must have 1 to {LEVEL_BYTES_MAX} bytes")));
        }
        Ok(())
    }
}

/// Bytes of a level's name, as in events.
const LEVEL_BYTES_MAX: usize = model::limits::DIMENSION_BYTES_MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &BoardConfig, has_rows: bool, change: &str, expected: &str) {
        let change: BoardUpdate = serde_json::from_str(change).expect("a change");
        let found = match change.apply_to(before, !has_rows, has_rows) {
            Ok(config) => serde_json::to_string(&config).expect("JSON"),
            Err(refusal) => refusal.field.expect("a field"),
        };
        assert!(found.contains(expected), "{found}");
    }

    #[test]
    fn absent_settings_stay() {
        let mut board = BoardConfig::new(SubmitMode::Session);
        (board.min, board.max) = (Some(1), Some(500));
        check(&board, true, "{}", &serde_json::to_string(&board).expect("JSON"));
        check(&board, false, r#"{"decimals":5}"#, r#""min":100,"max":50000,"decimals":5"#);
        check(&board, true, r#"{"max":"7"}"#, r#""min":1,"max":7"#);
        check(&board, true, r#"{"windows":["all","day","all"]}"#, r#""windows":["day","all"]"#);
    }

    #[test]
    fn competitive_board_defaults_to_mode_server() {
        let board = BoardConfig::new(SubmitMode::Session);
        check(&board, false, r#"{"competitive":true}"#, r#""mode":"server""#);
        check(&board, true, r#"{"competitive":true}"#, r#""mode":"server""#);
        check(&board, false, r#"{"competitive":true,"mode":"session"}"#, r#""mode":"session""#);
        check(&BoardConfig { competitive: true, ..board }, true, r#"{"title":"x"}"#, r#""mode":"session""#);
    }

    #[test]
    fn refusal_names_the_invalid_setting() {
        let board = BoardConfig::new(SubmitMode::Session);
        for (change, field) in [
            (r#"{"decimals":7}"#, "decimals"),
            (r#"{"min":"2","max":"1"}"#, "min"),
            (r#"{"min":"many"}"#, "min"),
            (r#"{"min":"0.1234"}"#, "min"),
            (r#"{"decimals":0,"max":"1.5"}"#, "max"),
            (r#"{"windows":[]}"#, "windows"),
            (r#"{"filters":["a","b","c","d","e"]}"#, "filters"),
            (r#"{"filters":["a b"]}"#, "filters"),
            (r#"{"checks":{"min_play_s":901}}"#, "checks.min_play_s"),
            (r#"{"checks":{"points_per_s_max":0}}"#, "checks.points_per_s_max"),
            (r#"{"checks":{"level":""}}"#, "checks.level"),
        ] {
            check(&board, false, change, field);
        }
        for change in [r#"{"order":"asc"}"#, r#"{"keep":"sum"}"#, r#"{"decimals":1}"#] {
            let field = change.split('"').nth(1).expect("a field");
            check(&board, true, change, field);
        }
    }
}
