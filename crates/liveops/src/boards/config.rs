//! What a board is: how it ranks, what it keeps, who may write to it and what it checks.

use serde::{Deserialize, Serialize};

use super::attributes::DECLARED_MAX;
use super::calendar::Window;
use super::decimal::{DECIMALS_MAX, Decimal};
use crate::names::check_text;
use crate::players::SESSION_MS;
use crate::{Refusal, is_key};

const TITLE_BYTES_MAX: usize = 200;
const CODE_BYTES_MAX: usize = 64;
/// A longer one would outlive the session.
const MIN_PLAY_S_MAX: u32 = (SESSION_MS / 1000) as u32;

/// Which scores come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The highest.
    #[default]
    Desc,
    /// The lowest.
    Asc,
}

/// What becomes of a player's runs in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// The best one is the player's row.
    #[default]
    Best,
    /// The last one is.
    Last,
    /// Their sum is.
    Sum,
    /// Each is a row.
    All,
}

/// Who may submit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Anybody with the public key.
    Open,
    /// A player, with requests signed by a session.
    #[default]
    Session,
    /// Servers with a secret key.
    Server,
}

/// What a player's score is checked against. A failed check holds the score back until a moderator decides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checks {
    /// Seconds from the beginning of the session to the score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_play_s: Option<u32>,
    /// Points per second since the beginning of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub points_per_s_max: Option<f64>,
    /// A level that the player has to have won since the beginning of the session, by `$level` events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
}

impl Checks {
    /// Whether nothing is checked.
    pub fn is_empty(&self) -> bool {
        *self == Checks::default()
    }
}

/// A board's settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Which scores come first.
    pub order: Order,
    /// What becomes of a player's runs.
    pub keep: Keep,
    /// Its windows.
    pub windows: Vec<Window>,
    /// The lowest score that is taken, in units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<i64>,
    /// The highest score that is taken, in units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<i64>,
    /// Decimals of scores and subscores.
    pub decimals: u8,
    /// Who may submit.
    pub mode: Mode,
    /// Whether something is at stake.
    pub competitive: bool,
    /// What scores of players are checked against.
    #[serde(default, skip_serializing_if = "Checks::is_empty")]
    pub checks: Checks,
    /// Fields by which rows can be filtered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<String>,
    /// Who does not know it does not see the board.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
}

impl Config {
    /// A board as it is made by its first use.
    pub fn new(mode: Mode) -> Config {
        Config {
            order: Order::Desc,
            keep: Keep::Best,
            windows: Window::ALL.to_vec(),
            min: None,
            max: None,
            decimals: 0,
            mode,
            competitive: false,
            checks: Checks::default(),
            filters: Vec::new(),
            code: None,
            title: String::new(),
        }
    }
}

/// Settings to be made; what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Which scores come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// What becomes of a player's runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<Keep>,
    /// Its windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<Vec<Window>>,
    /// The lowest score that is taken, as JSON writes numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<String>,
    /// The highest score that is taken, as JSON writes numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<String>,
    /// Decimals of scores and subscores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decimals: Option<u8>,
    /// Who may submit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Whether something is at stake; then servers submit, unless `mode` says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub competitive: Option<bool>,
    /// What scores of players are checked against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<Checks>,
    /// Fields by which rows can be filtered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<Vec<String>>,
    /// The code of a private board; empty: the board is for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The code of a board that becomes private and is given none; drawn at the door.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_code: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

impl Change {
    /// The settings that follow from those before. With rows on the board, what they were ranked by stays.
    pub fn of(self, before: &Config, is_new: bool, has_rows: bool) -> Result<Config, Refusal> {
        let mut config = before.clone();
        let decimals = self.decimals.unwrap_or(before.decimals);
        if decimals > DECIMALS_MAX {
            return Err(Refusal::invalid("decimals", format!("it is at most {DECIMALS_MAX}")));
        }
        (config.min, config.max) = self.bounds(before, decimals)?;
        config.decimals = decimals;
        config.mode = match (self.mode, self.competitive) {
            (Some(mode), _) => mode,
            (None, Some(true)) if is_new || !before.competitive => Mode::Server,
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
            same("order", config.order == before.order)?;
            same("keep", config.keep == before.keep)?;
            same("decimals", config.decimals == before.decimals)?;
        }
        Ok(config)
    }

    fn bounds(&self, before: &Config, decimals: u8) -> Result<(Option<i64>, Option<i64>), Refusal> {
        let read = |field: &str, new: &Option<String>, old: Option<i64>| {
            let old = || old.map(|units| Decimal { units, decimals: before.decimals }.to_string());
            let Some(text) = new.clone().or_else(old) else { return Ok(None) };
            let parsed = Decimal::parse(&text, decimals).map(|it| Some(it.units));
            parsed.ok_or_else(|| Refusal::invalid(field, "it is a number within the range of scores"))
        };
        let (min, max) = (read("min", &self.min, before.min)?, read("max", &self.max, before.max)?);
        if min.zip(max).is_some_and(|(min, max)| min > max) {
            return Err(Refusal::invalid("min", "it is at most `max`"));
        }
        Ok((min, max))
    }
}

fn same(field: &str, is_same: bool) -> Result<(), Refusal> {
    if is_same {
        return Ok(());
    }
    let detail = format!("`{field}` cannot change while the board has rows; make another board");
    Err(Refusal { field: Some(field.to_owned()), ..Refusal::conflict(detail) })
}

impl Config {
    fn normalise(&mut self) {
        self.windows.sort_unstable();
        self.windows.dedup();
        self.filters.sort_unstable();
        self.filters.dedup();
    }

    fn check(&self) -> Result<(), Refusal> {
        if self.windows.is_empty() {
            return Err(Refusal::invalid("windows", "a board has at least one window"));
        }
        if self.filters.len() > DECLARED_MAX {
            return Err(Refusal::invalid(
                "filters",
                format!("a board declares at most {DECLARED_MAX} fields"),
            ));
        }
        if let Some(name) = self.filters.iter().find(|name| !is_key(name)) {
            return Err(Refusal::invalid("filters", format!("`{name}` is no name of a field")));
        }
        check_text("title", &self.title, TITLE_BYTES_MAX)?;
        if let Some(code) = &self.code {
            check_text("private", code, CODE_BYTES_MAX)?;
        }
        self.checks.check()
    }
}

impl Checks {
    fn check(&self) -> Result<(), Refusal> {
        if self.min_play_s.is_some_and(|seconds| seconds > MIN_PLAY_S_MAX) {
            let detail = format!("it is at most {MIN_PLAY_S_MAX}: a session lives no longer");
            return Err(Refusal::invalid("checks.min_play_s", detail));
        }
        if self.points_per_s_max.is_some_and(|points| !points.is_finite() || points <= 0.0) {
            return Err(Refusal::invalid("checks.points_per_s_max", "it is greater than 0"));
        }
        if self.level.as_ref().is_some_and(|level| level.is_empty() || level.len() > LEVEL_BYTES_MAX) {
            return Err(Refusal::invalid("checks.level", format!("it has 1 to {LEVEL_BYTES_MAX} bytes")));
        }
        Ok(())
    }
}

/// As in events.
const LEVEL_BYTES_MAX: usize = model::limits::DIMENSION_BYTES_MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &Config, has_rows: bool, change: &str, expected: &str) {
        let change: Change = serde_json::from_str(change).expect("a change");
        let found = match change.of(before, !has_rows, has_rows) {
            Ok(config) => serde_json::to_string(&config).expect("JSON"),
            Err(refusal) => refusal.field.expect("a field"),
        };
        assert!(found.contains(expected), "{found}");
    }

    #[test]
    fn what_is_absent_stays_as_it_is() {
        let mut board = Config::new(Mode::Session);
        (board.min, board.max) = (Some(1), Some(500));
        check(&board, true, "{}", &serde_json::to_string(&board).expect("JSON"));
        check(&board, false, r#"{"decimals":2}"#, r#""min":100,"max":50000,"decimals":2"#);
        check(&board, true, r#"{"max":"7"}"#, r#""min":1,"max":7"#);
        check(&board, true, r#"{"windows":["all","day","all"]}"#, r#""windows":["day","all"]"#);
    }

    #[test]
    fn where_something_is_at_stake_servers_submit() {
        let board = Config::new(Mode::Session);
        check(&board, false, r#"{"competitive":true}"#, r#""mode":"server""#);
        check(&board, true, r#"{"competitive":true}"#, r#""mode":"server""#);
        check(&board, false, r#"{"competitive":true,"mode":"session"}"#, r#""mode":"session""#);
        check(&Config { competitive: true, ..board }, true, r#"{"title":"x"}"#, r#""mode":"session""#);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_its_field() {
        let board = Config::new(Mode::Session);
        for (change, field) in [
            (r#"{"decimals":7}"#, "decimals"),
            (r#"{"min":"2","max":"1"}"#, "min"),
            (r#"{"min":"many"}"#, "min"),
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
