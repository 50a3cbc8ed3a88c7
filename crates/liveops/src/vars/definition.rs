//! The definition of a variable: its value, and the conditions for other values.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use super::audience::{AudienceLists, Percent, VarsViewer};
use super::json::Json;
use super::schema::{CheckBudget, Schema, SchemaError};
use super::timestamp::{TimestampMs, is_within};
use crate::{Refusal, check_text, is_key};

/// Bytes of a definition as JSON.
pub(crate) const DEFINITION_BYTES_MAX: usize = 64 << 10;
/// Conditions of one variable.
const CONDITIONS_MAX: usize = 100;
const DESCRIPTION_BYTES_MAX: usize = 1_000;

/// A variable as it was written, and as the log and the records store it.
///
/// Unknown fields are refused everywhere: a program that ignored a condition's unknown criterion would give the value
/// to every viewer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VarDefinition {
    /// The value of viewers whom no condition matches.
    pub value: Json,
    /// The value outside of `starts_at` and `ends_at`; by default `null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Json>,
    /// A JSON Schema for the value, the default and the values of all conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
    /// Conditions for other values. The first matching condition wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// A description for the game's developers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Before this time, the default applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<TimestampMs>,
    /// From this time on, the default applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<TimestampMs>,
}

/// A condition under which viewers get another value. All given criteria must match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// The name of the variant in charts.
    pub name: String,
    /// The value of viewers who match.
    pub value: Json,
    /// ISO 3166 two-letter codes, upper case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub country: Vec<String>,
    /// Platforms, as in events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub platform: Vec<String>,
    /// Versions of the game, exactly as events name them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub version: Vec<String>,
    /// Segments, of which one must match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segment: Vec<String>,
    /// Cohorts, of which one must contain the player.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cohort: Vec<String>,
    /// A share of all players.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<Percent>,
    /// Before this time, it does not match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<TimestampMs>,
    /// From this time on, it does not match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<TimestampMs>,
}

impl Condition {
    fn lists(&self) -> AudienceLists<'_> {
        AudienceLists {
            country: &self.country,
            platform: &self.platform,
            version: &self.version,
            segment: &self.segment,
            cohort: &self.cohort,
        }
    }

    /// Returns true if the condition matches apart from its percentage.
    pub(crate) fn applies(&self, viewer: &VarsViewer, now_ms: i64) -> bool {
        is_within(now_ms, self.starts_at, self.ends_at) && self.lists().matches(viewer)
    }

    /// Returns true if the condition matches the same viewers at the same times as another, apart from percentages.
    pub(crate) fn has_audience_of(&self, other: &Condition) -> bool {
        self.lists() == other.lists() && (self.starts_at, self.ends_at) == (other.starts_at, other.ends_at)
    }

    fn matches(&self, variable: &str, viewer: &VarsViewer, now_ms: i64) -> bool {
        self.applies(viewer, now_ms)
            && self.percent.as_ref().is_none_or(|percent| percent.contains(variable, &viewer.player))
    }

    fn check(&self, path: &str) -> Result<(), Refusal> {
        if !is_key(&self.name) {
            let message = "must have 1 to 100 letters, digits, `.`, `_` or `-`";
            return Err(Refusal::invalid(format!("{path}.name"), message));
        }
        self.lists().check(&format!("{path}."))?;
        check_window(&format!("{path}."), self.starts_at, self.ends_at)?;
        self.percent.as_ref().map_or(Ok(()), |percent| percent.check(&format!("{path}.percent")))
    }
}

pub(crate) fn check_window(
    path: &str,
    starts: Option<TimestampMs>,
    ends: Option<TimestampMs>,
) -> Result<(), Refusal> {
    match (starts, ends) {
        (Some(starts), Some(ends)) if ends <= starts => {
            Err(Refusal::invalid(format!("{path}ends_at"), "must be after `starts_at`"))
        }
        _ => Ok(()),
    }
}

impl VarDefinition {
    /// Refuses an invalid definition. `path` is prefixed to field names.
    pub(crate) fn check(&self, path: &str, budget: &CheckBudget) -> Result<(), Refusal> {
        if self.conditions.len() > CONDITIONS_MAX {
            let message = format!("must have at most {CONDITIONS_MAX} entries");
            return Err(Refusal::invalid(format!("{path}conditions"), message));
        }
        check_text(
            &format!("{path}description"),
            self.description.as_deref().unwrap_or(""),
            DESCRIPTION_BYTES_MAX,
        )?;
        check_window(path, self.starts_at, self.ends_at)?;
        for (index, condition) in self.conditions.iter().enumerate() {
            condition.check(&format!("{path}conditions[{index}]"))?;
            if self.conditions[..index].iter().any(|earlier| earlier.name == condition.name) {
                let message = "an earlier condition has the same name";
                return Err(Refusal::invalid(format!("{path}conditions[{index}].name"), message));
            }
        }
        self.check_values(path, budget)?;
        if self.bytes() > DEFINITION_BYTES_MAX {
            let message =
                format!("a variable with its conditions can have at most {DEFINITION_BYTES_MAX} bytes");
            return Err(Refusal::invalid(format!("{path}value"), message));
        }
        Ok(())
    }

    fn check_values(&self, path: &str, budget: &CheckBudget) -> Result<(), Refusal> {
        let error = |field: &str, error: SchemaError| {
            Refusal::invalid(format!("{path}{field}{}", error.path), error.message)
        };
        let tree = |field: &str, json: &Json| match json.node() {
            Ok(_) => Ok(()),
            Err(message) => Err(Refusal::invalid(format!("{path}{field}"), message)),
        };
        let fields: Vec<(String, &Json)> = self.values().collect();
        let Some(text) = &self.schema else {
            return fields.iter().try_for_each(|(field, json)| tree(field, json));
        };
        tree("schema", text)?;
        let node = text.node().expect("it was parsed above");
        let schema = Schema::read(&node).map_err(|found| error("schema", found))?;
        fields.iter().try_for_each(|(field, json)| {
            tree(field, json)?;
            let node = json.node().expect("it was parsed above");
            schema.check(&node, budget).map_err(|found| error(field, found))
        })
    }

    /// Returns every value with its path.
    fn values(&self) -> impl Iterator<Item = (String, &Json)> {
        let conditions = self.conditions.iter().enumerate();
        let conditions =
            conditions.map(|(index, condition)| (format!("conditions[{index}].value"), &condition.value));
        let default = self.default.iter().map(|json| ("default".to_owned(), json));
        [("value".to_owned(), &self.value)].into_iter().chain(default).chain(conditions)
    }

    /// Returns the length as JSON, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        serde_json::to_vec(self).expect("a definition has text keys").len()
    }

    /// Returns the times at which a value changes without a command.
    pub(crate) fn transitions(&self) -> impl Iterator<Item = i64> {
        let conditions = self.conditions.iter().flat_map(|it| [it.starts_at, it.ends_at]);
        [self.starts_at, self.ends_at].into_iter().chain(conditions).flatten().map(TimestampMs::ms)
    }

    /// Returns the cohorts that its conditions name, each with the field.
    pub(crate) fn cohorts(&self) -> impl Iterator<Item = (String, &str)> {
        let conditions = self.conditions.iter().enumerate();
        conditions.flat_map(|(index, condition)| {
            let field = format!("conditions[{index}].cohort");
            condition.cohort.iter().map(move |name| (field.clone(), name.as_str()))
        })
    }

    pub(crate) fn has_percent(&self) -> bool {
        self.conditions.iter().any(|condition| condition.percent.is_some())
    }
}

/// The value of a variable that applies to a viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ChosenValue {
    /// The default: the variable is outside of its time.
    Default,
    /// The value: no condition matches.
    Value,
    /// The value of a condition.
    Condition(usize),
}

/// A variable, ready to be evaluated. Cheap to share: a change of another variable does not copy it.
#[derive(Clone, Debug)]
pub(crate) struct Variable(Arc<VariableData>);

#[derive(Debug)]
struct VariableData {
    definition: VarDefinition,
    bytes: usize,
    /// Digests of the name with the default, the value, and the value of each condition.
    digests: OnceLock<Vec<u128>>,
}

impl Variable {
    pub(crate) fn definition(&self) -> &VarDefinition {
        &self.0.definition
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes
    }

    pub(crate) fn choose(&self, name: &str, viewer: &VarsViewer, now_ms: i64) -> ChosenValue {
        let definition = &self.0.definition;
        if !is_within(now_ms, definition.starts_at, definition.ends_at) {
            return ChosenValue::Default;
        }
        let matches = |condition: &Condition| condition.matches(name, viewer, now_ms);
        definition.conditions.iter().position(matches).map_or(ChosenValue::Value, ChosenValue::Condition)
    }

    /// Returns a value as JSON.
    pub(crate) fn text(&self, chosen: ChosenValue) -> &str {
        let definition = &self.0.definition;
        match chosen {
            ChosenValue::Default => definition.default.as_ref().map_or("null", Json::text),
            ChosenValue::Value => definition.value.text(),
            ChosenValue::Condition(index) => definition.conditions[index].value.text(),
        }
    }

    /// Returns a digest of the name and a value, which is computed once: a variable has one name.
    pub(crate) fn digest(&self, name: &str, chosen: ChosenValue) -> u128 {
        let index = match chosen {
            ChosenValue::Default => 0,
            ChosenValue::Value => 1,
            ChosenValue::Condition(index) => 2 + index,
        };
        self.0.digests.get_or_init(|| self.digests(name))[index]
    }

    fn digests(&self, name: &str) -> Vec<u128> {
        let conditions = (0..self.0.definition.conditions.len()).map(ChosenValue::Condition);
        let all = [ChosenValue::Default, ChosenValue::Value].into_iter().chain(conditions);
        all.map(|chosen| digest(name, self.text(chosen))).collect()
    }
}

impl From<VarDefinition> for Variable {
    fn from(definition: VarDefinition) -> Variable {
        Variable(Arc::new(VariableData { bytes: definition.bytes(), digests: OnceLock::new(), definition }))
    }
}

impl PartialEq for Variable {
    fn eq(&self, other: &Variable) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.definition == other.0.definition
    }
}

impl<'de> Deserialize<'de> for Variable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Variable, D::Error> {
        VarDefinition::deserialize(deserializer).map(Variable::from)
    }
}

impl Serialize for Variable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.definition.serialize(serializer)
    }
}

/// 128 bits of SHA-256. Names have no zero byte.
fn digest(name: &str, text: &str) -> u128 {
    let digest = Sha256::new().chain_update(name).chain_update([0]).chain_update(text).finalize();
    u128::from_be_bytes(*digest.first_chunk().expect("a digest has 32 bytes"))
}
