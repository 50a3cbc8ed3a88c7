//! The definition of an alert rule.

use serde::{Deserialize, Serialize};

use crate::vars::Json;
use crate::{Refusal, check_text};

const NAME_BYTES_MAX: usize = 200;
const MESSAGE_BYTES_MAX: usize = 2_000;
const QUERY_BYTES_MAX: usize = 16 << 10;
/// Seconds that a condition must be met.
const FOR_S_MAX: u32 = 24 * 3_600;
/// Seconds without data, and of a cooldown.
const SECONDS_MAX: u32 = 7 * 24 * 3_600;
const NO_DATA_S_MIN: u32 = 60;
/// Weeks of a band.
const WEEKS: std::ops::RangeInclusive<u32> = 2..=8;
const WIDTH_MAX: f64 = 100.0;
const FACTOR_MAX: f64 = 1_000_000.0;

/// An alert rule as it was written, without its targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlertRule {
    /// The display name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// A text that notifications contain.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The query, or the question over raw events, whose values are compared.
    pub query: Json,
    /// The condition.
    pub compare: AlertComparison,
    /// How long the condition must be met before the rule fires, in seconds.
    #[serde(default)]
    pub for_s: u32,
    /// How long the rule does not fire again after it has resolved, in seconds.
    #[serde(default)]
    pub cooldown_s: u32,
    /// What it means that the query has no value.
    #[serde(default)]
    pub no_data: NoDataPolicy,
}

/// What it means that the query of a rule has no value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoDataPolicy {
    /// The condition is not met.
    #[default]
    Ok,
    /// The condition is met.
    Fire,
    /// The state stays.
    Keep,
}

/// The condition of a rule: exactly one of a fixed value, a band, the previous period, or no data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlertComparison {
    /// Compares with `value`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<ComparisonOperator>,
    /// A fixed value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The condition is met outside of a band around the values of the same minutes in earlier weeks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub band: Option<BandComparison>,
    /// Compares with the period before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<PreviousComparison>,
    /// The condition is met when there was no data for this many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_data_s: Option<u32>,
}

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ComparisonOperator {
    /// Greater.
    #[serde(rename = ">")]
    Greater,
    /// Greater or equal.
    #[serde(rename = ">=")]
    GreaterOrEqual,
    /// Less.
    #[serde(rename = "<")]
    Less,
    /// Less or equal.
    #[serde(rename = "<=")]
    LessOrEqual,
    /// Equal.
    #[serde(rename = "=")]
    Equal,
    /// Not equal.
    #[serde(rename = "!=")]
    NotEqual,
}

/// A band around the values of the same minutes in earlier weeks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BandComparison {
    /// The number of weeks.
    pub weeks: u32,
    /// Half of the width of the band, in standard deviations.
    pub width: f64,
}

/// A comparison with the period before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreviousComparison {
    /// How the value is compared.
    pub op: ComparisonOperator,
    /// By what the value of the period before is multiplied.
    pub factor: f64,
    /// The condition is not met while both values are below this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
}

impl ComparisonOperator {
    /// Returns the operator as it is written.
    pub fn label(self) -> &'static str {
        [">", ">=", "<", "<=", "=", "!="][self as usize]
    }

    /// Returns true if the values compare so.
    pub fn holds(self, left: f64, right: f64) -> bool {
        match self {
            ComparisonOperator::Greater => left > right,
            ComparisonOperator::GreaterOrEqual => left >= right,
            ComparisonOperator::Less => left < right,
            ComparisonOperator::LessOrEqual => left <= right,
            ComparisonOperator::Equal => left == right,
            ComparisonOperator::NotEqual => left != right,
        }
    }
}

impl AlertRule {
    /// Refuses an invalid rule. The query is checked by the caller.
    pub fn check(&self) -> Result<(), Refusal> {
        check_text("name", &self.name, NAME_BYTES_MAX)?;
        check_text("message", &self.message, MESSAGE_BYTES_MAX)?;
        if self.query.text().len() > QUERY_BYTES_MAX {
            let detail = format!("must not be larger than {QUERY_BYTES_MAX} bytes");
            return Err(Refusal::invalid("query", detail));
        }
        at_most("for_s", self.for_s, FOR_S_MAX)?;
        at_most("cooldown_s", self.cooldown_s, SECONDS_MAX)?;
        self.compare.check()
    }

    /// Returns true if the rules have the same condition, so that the state of one is valid for the other.
    pub(super) fn is_same_condition(&self, other: &AlertRule) -> bool {
        self.query == other.query && self.compare == other.compare && self.no_data == other.no_data
    }
}

impl AlertComparison {
    fn check(&self) -> Result<(), Refusal> {
        let has_value = self.op.is_some() || self.value.is_some();
        let kinds = [has_value, self.band.is_some(), self.previous.is_some(), self.no_data_s.is_some()];
        if kinds.iter().filter(|is_set| **is_set).count() != 1 {
            let detail = "must have exactly one of `op` with `value`, `band`, `previous` and `no_data_s`";
            return Err(Refusal::invalid("compare", detail));
        }
        if has_value && self.op.is_none() {
            return Err(Refusal::invalid("compare.op", "is required with `value`"));
        }
        if has_value && self.value.is_none() {
            return Err(Refusal::invalid("compare.value", "is required with `op`"));
        }
        if let Some(BandComparison { weeks, width }) = self.band {
            if !WEEKS.contains(&weeks) {
                let detail = format!("must be between {} and {}", WEEKS.start(), WEEKS.end());
                return Err(Refusal::invalid("compare.band.weeks", detail));
            }
            positive("compare.band.width", width, WIDTH_MAX)?;
        }
        if let Some(PreviousComparison { factor, .. }) = self.previous {
            positive("compare.previous.factor", factor, FACTOR_MAX)?;
        }
        match self.no_data_s {
            Some(seconds) if !(NO_DATA_S_MIN..=SECONDS_MAX).contains(&seconds) => {
                let detail = format!("must be between {NO_DATA_S_MIN} and {SECONDS_MAX}");
                Err(Refusal::invalid("compare.no_data_s", detail))
            }
            _ => Ok(()),
        }
    }
}

fn at_most(field: &str, value: u32, max: u32) -> Result<(), Refusal> {
    if value > max { Err(Refusal::invalid(field, format!("must be between 0 and {max}"))) } else { Ok(()) }
}

fn positive(field: &str, value: f64, max: f64) -> Result<(), Refusal> {
    if value > 0.0 && value <= max {
        return Ok(());
    }
    Err(Refusal::invalid(field, format!("must be greater than 0 and at most {max}")))
}
