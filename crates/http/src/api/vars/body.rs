//! What may be written of variables.

use std::collections::BTreeMap;

use liveops::vars::{self, Json, TimestampMs, VarDefinition};
use serde::Deserialize;
use utoipa::ToSchema;

/// A variable, all of it: what is not given is not kept.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// What everybody gets whom no condition matches. Any JSON; numbers keep their text.
    #[schema(value_type = serde_json::Value)]
    value: Json,
    /// What everybody gets outside of `starts_at` and `ends_at`; `null` if not given.
    #[schema(value_type = Option<serde_json::Value>)]
    default: Option<Json>,
    /// A JSON Schema that all values fit. A keyword that is not checked is refused.
    #[schema(value_type = Option<serde_json::Value>)]
    schema: Option<Json>,
    /// The first one that matches decides.
    #[serde(default)]
    conditions: Vec<Condition>,
    /// For people.
    description: Option<String>,
    /// RFC 3339.
    #[schema(value_type = Option<String>)]
    starts_at: Option<TimestampMs>,
    /// RFC 3339.
    #[schema(value_type = Option<String>)]
    ends_at: Option<TimestampMs>,
}

/// As a variable, with the version that it is meant for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutVariable {
    /// What everybody gets whom no condition matches. Any JSON; numbers keep their text.
    #[schema(value_type = serde_json::Value)]
    value: Json,
    /// What everybody gets outside of `starts_at` and `ends_at`; `null` if not given.
    #[schema(value_type = Option<serde_json::Value>)]
    default: Option<Json>,
    /// A JSON Schema that all values fit. A keyword that is not checked is refused.
    #[schema(value_type = Option<serde_json::Value>)]
    schema: Option<Json>,
    /// The first one that matches decides.
    #[serde(default)]
    conditions: Vec<Condition>,
    /// For people.
    description: Option<String>,
    /// RFC 3339.
    #[schema(value_type = Option<String>)]
    starts_at: Option<TimestampMs>,
    /// RFC 3339.
    #[schema(value_type = Option<String>)]
    ends_at: Option<TimestampMs>,
    /// Refused with 409 if the version is another one.
    pub expected_version: Option<u64>,
}

/// Who gets another value. All criteria that are given have to match.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// The variant's name in charts.
    name: String,
    /// What they get.
    #[schema(value_type = serde_json::Value)]
    value: Json,
    /// ISO 3166 two-letter codes.
    #[serde(default)]
    country: Vec<String>,
    /// As in events.
    #[serde(default)]
    platform: Vec<String>,
    /// The game's versions.
    #[serde(default)]
    version: Vec<String>,
    /// One of these is enough.
    #[serde(default)]
    segment: Vec<String>,
    /// A share of all players.
    percent: Option<Percent>,
    /// RFC 3339.
    #[schema(value_type = Option<String>)]
    starts_at: Option<TimestampMs>,
    /// RFC 3339.
    #[schema(value_type = Option<String>)]
    ends_at: Option<TimestampMs>,
}

/// A share of all players: those whose place in the salt's order lies from `from` up to, not including, `to`. The place
/// is the first eight bytes of SHA-256 over the salt, a zero byte and the player's id, as a big-endian number, modulo
/// 100,000, in thousandths of a percent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Percent {
    /// 0 to 100.
    #[serde(default)]
    from: f64,
    /// 0 to 100.
    to: f64,
    /// Whose order; the variable's name if not given.
    salt: Option<String>,
}

/// Several variables at once.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutVariables {
    /// By name; `null` removes.
    #[schema(value_type = BTreeMap<String, Variable>)]
    pub vars: BTreeMap<String, Option<Variable>>,
    /// Refused with 409 if the version is another one.
    pub expected_version: Option<u64>,
}

/// Where to go back to.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RollBack {
    /// The version whose variables come back.
    pub version: u64,
    /// Refused with 409 if the version is another one.
    pub expected_version: Option<u64>,
}

impl From<PutVariable> for VarDefinition {
    fn from(it: PutVariable) -> VarDefinition {
        let PutVariable { value, default, schema, conditions, description, starts_at, ends_at, .. } = it;
        Variable { value, default, schema, conditions, description, starts_at, ends_at }.into()
    }
}

impl From<Variable> for VarDefinition {
    fn from(it: Variable) -> VarDefinition {
        VarDefinition {
            value: it.value,
            default: it.default,
            schema: it.schema,
            conditions: it.conditions.into_iter().map(vars::Condition::from).collect(),
            description: it.description,
            starts_at: it.starts_at,
            ends_at: it.ends_at,
        }
    }
}

impl From<Condition> for vars::Condition {
    fn from(it: Condition) -> vars::Condition {
        vars::Condition {
            name: it.name,
            value: it.value,
            country: it.country,
            platform: it.platform,
            version: it.version,
            segment: it.segment,
            percent: it.percent.map(|Percent { from, to, salt }| vars::Percent { from, to, salt }),
            starts_at: it.starts_at,
            ends_at: it.ends_at,
        }
    }
}
