//! Request bodies of variable writes.

use std::collections::BTreeMap;

use liveops::vars::{self, Json, TimestampMs, VarDefinition};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, SchemaType, Type};
use utoipa::openapi::{Ref, Schema};

/// All fields of a variable. Fields that you leave out are reset to their defaults.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct VariableDefinition {
    /// Default value, used if no condition matches. Any JSON; numbers keep their exact text.
    #[schema(value_type = serde_json::Value)]
    value: Json,
    /// Value outside of `starts_at` and `ends_at`. Default: `null`.
    #[schema(value_type = Option<serde_json::Value>)]
    default: Option<Json>,
    /// A JSON Schema that all values must match. Unsupported keywords are rejected.
    #[schema(value_type = Option<serde_json::Value>)]
    schema: Option<Json>,
    /// Conditions for other values. The first matching condition wins.
    #[serde(default)]
    conditions: Vec<VariableCondition>,
    /// Description shown in the dashboard.
    description: Option<String>,
    /// Start, RFC 3339.
    #[schema(value_type = Option<String>)]
    starts_at: Option<TimestampMs>,
    /// End, RFC 3339.
    #[schema(value_type = Option<String>)]
    ends_at: Option<TimestampMs>,
}

/// A variable, with the version of the variables that it was written for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutVariableRequest {
    /// Default value, used if no condition matches. Any JSON; numbers keep their exact text.
    #[schema(value_type = serde_json::Value)]
    value: Json,
    /// Value outside of `starts_at` and `ends_at`. Default: `null`.
    #[schema(value_type = Option<serde_json::Value>)]
    default: Option<Json>,
    /// A JSON Schema that all values must match. Unsupported keywords are rejected.
    #[schema(value_type = Option<serde_json::Value>)]
    schema: Option<Json>,
    /// Conditions for other values. The first matching condition wins.
    #[serde(default)]
    conditions: Vec<VariableCondition>,
    /// Description shown in the dashboard.
    description: Option<String>,
    /// Start, RFC 3339.
    #[schema(value_type = Option<String>)]
    starts_at: Option<TimestampMs>,
    /// End, RFC 3339.
    #[schema(value_type = Option<String>)]
    ends_at: Option<TimestampMs>,
    /// Rejects the request with 409 if the current version differs.
    pub(crate) expected_version: Option<u64>,
}

/// Selects players who get another value. All given criteria must match.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct VariableCondition {
    /// Name of the variant in charts.
    name: String,
    /// The value for these players.
    #[schema(value_type = serde_json::Value)]
    value: Json,
    /// ISO 3166 two-letter codes.
    #[serde(default)]
    country: Vec<String>,
    /// Platforms, as in events.
    #[serde(default)]
    platform: Vec<String>,
    /// Versions of the game.
    #[serde(default)]
    version: Vec<String>,
    /// Segments; one match is enough.
    #[serde(default)]
    segment: Vec<String>,
    /// Cohorts; the player must belong to one of them.
    #[serde(default)]
    cohort: Vec<String>,
    /// A percentage of all players.
    percent: Option<PercentRange>,
    /// Start, RFC 3339.
    #[schema(value_type = Option<String>)]
    starts_at: Option<TimestampMs>,
    /// End, RFC 3339.
    #[schema(value_type = Option<String>)]
    ends_at: Option<TimestampMs>,
}

/// A percentage of all players: those whose bucket is at least `from` and less than `to`. The bucket of a player is the
/// first eight bytes of SHA-256 over the salt, a zero byte and the player's id, as a big-endian number, modulo 100,000,
/// in thousandths of a percent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PercentRange {
    /// Start of the range, 0 to 100, inclusive.
    #[serde(default)]
    from: f64,
    /// End of the range, 0 to 100, exclusive.
    to: f64,
    /// Bucketing seed. Default: the name of the variable.
    salt: Option<String>,
}

/// Several variables, written atomically.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutVariablesRequest {
    /// Variables by name; `null` removes a variable.
    #[schema(schema_with = definitions_or_null)]
    pub(crate) vars: BTreeMap<String, Option<VariableDefinition>>,
    /// Rejects the request with 409 if the current version differs.
    pub(crate) expected_version: Option<u64>,
}

/// Describes an object whose values are definitions or `null`.
fn definitions_or_null() -> Schema {
    let definition = Ref::from_schema_name(VariableDefinition::name());
    let null = ObjectBuilder::new().schema_type(SchemaType::Type(Type::Null));
    let either = Schema::OneOf(OneOfBuilder::new().item(definition).item(null).build());
    ObjectBuilder::new().additional_properties(Some(either)).build().into()
}

/// The target of a rollback.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RollBackRequest {
    /// The version to restore.
    pub(crate) version: u64,
    /// Rejects the request with 409 if the current version differs.
    pub(crate) expected_version: Option<u64>,
}

impl From<PutVariableRequest> for VarDefinition {
    fn from(it: PutVariableRequest) -> VarDefinition {
        let PutVariableRequest {
            value, default, schema, conditions, description, starts_at, ends_at, ..
        } = it;
        VariableDefinition { value, default, schema, conditions, description, starts_at, ends_at }.into()
    }
}

impl From<VariableDefinition> for VarDefinition {
    fn from(it: VariableDefinition) -> VarDefinition {
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

impl From<VariableCondition> for vars::Condition {
    fn from(it: VariableCondition) -> vars::Condition {
        vars::Condition {
            name: it.name,
            value: it.value,
            country: it.country,
            platform: it.platform,
            version: it.version,
            segment: it.segment,
            cohort: it.cohort,
            percent: it.percent.map(|PercentRange { from, to, salt }| vars::Percent { from, to, salt }),
            starts_at: it.starts_at,
            ends_at: it.ends_at,
        }
    }
}
