//! What a variable is: its value for everybody, and the conditions under which somebody gets another.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use super::audience::{Lists, Percent, Who};
use super::json::Json;
use super::moment::{Moment, is_within};
use super::schema::{Budget, Fault, Schema};
use crate::{Refusal, check_text, is_key};

/// Bytes of a definition as JSON.
pub const DEFINITION_BYTES_MAX: usize = 64 << 10;
/// Conditions of one variable.
const CONDITIONS_MAX: usize = 100;
const DESCRIPTION_BYTES_MAX: usize = 1_000;

/// A variable as its makers wrote it, and as the log and the records keep it.
///
/// An unknown field is refused everywhere: a program that did not know a condition's new criterion, and passed over it,
/// would give the value to everybody.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// What everybody gets whom no condition matches.
    pub value: Json,
    /// What everybody gets outside of `starts_at` and `ends_at`; without it, `null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Json>,
    /// A JSON Schema that the value, the default and the values of all conditions fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
    /// The first one that matches decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Before this, the default holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Moment>,
    /// From here on, the default holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Moment>,
}

/// Who gets another value. Of the criteria that are given, all have to match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// The variant's name in charts.
    pub name: String,
    /// What they get.
    pub value: Json,
    /// ISO 3166 two-letter codes, upper case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub country: Vec<String>,
    /// As in events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub platform: Vec<String>,
    /// The game's versions, each exactly as events name it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub version: Vec<String>,
    /// One of these is enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segment: Vec<String>,
    /// A share of all players.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<Percent>,
    /// Before this it does not match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Moment>,
    /// From here on it does not match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Moment>,
}

impl Condition {
    fn lists(&self) -> Lists<'_> {
        Lists {
            country: &self.country,
            platform: &self.platform,
            version: &self.version,
            segment: &self.segment,
        }
    }

    fn has(&self, variable: &str, who: &Who, now_ms: i64) -> bool {
        is_within(now_ms, self.starts_at, self.ends_at)
            && self.lists().has(who)
            && self.percent.as_ref().is_none_or(|percent| percent.has(variable, &who.player))
    }

    fn check(&self, at: &str) -> Result<(), Refusal> {
        if !is_key(&self.name) {
            let why = "it has 1 to 100 letters, digits, `.`, `_` or `-`";
            return Err(Refusal::invalid(format!("{at}.name"), why));
        }
        self.lists().check(&format!("{at}."))?;
        check_window(&format!("{at}."), self.starts_at, self.ends_at)?;
        self.percent.as_ref().map_or(Ok(()), |percent| percent.check(&format!("{at}.percent")))
    }
}

pub(crate) fn check_window(at: &str, starts: Option<Moment>, ends: Option<Moment>) -> Result<(), Refusal> {
    match (starts, ends) {
        (Some(starts), Some(ends)) if ends <= starts => {
            Err(Refusal::invalid(format!("{at}ends_at"), "it is after `starts_at`"))
        }
        _ => Ok(()),
    }
}

impl Definition {
    /// Refuses what a variable may not be. `at` goes before the fields' names.
    pub(crate) fn check(&self, at: &str, budget: &Budget) -> Result<(), Refusal> {
        if self.conditions.len() > CONDITIONS_MAX {
            let why = format!("there are at most {CONDITIONS_MAX}");
            return Err(Refusal::invalid(format!("{at}conditions"), why));
        }
        check_text(
            &format!("{at}description"),
            self.description.as_deref().unwrap_or(""),
            DESCRIPTION_BYTES_MAX,
        )?;
        check_window(at, self.starts_at, self.ends_at)?;
        for (index, condition) in self.conditions.iter().enumerate() {
            condition.check(&format!("{at}conditions[{index}]"))?;
            if self.conditions[..index].iter().any(|earlier| earlier.name == condition.name) {
                let why = "an earlier condition has this name";
                return Err(Refusal::invalid(format!("{at}conditions[{index}].name"), why));
            }
        }
        self.check_values(at, budget)?;
        if self.bytes() > DEFINITION_BYTES_MAX {
            let why = format!("a variable with its conditions has at most {DEFINITION_BYTES_MAX} bytes");
            return Err(Refusal::invalid(format!("{at}value"), why));
        }
        Ok(())
    }

    fn check_values(&self, at: &str, budget: &Budget) -> Result<(), Refusal> {
        let fault =
            |field: &str, fault: Fault| Refusal::invalid(format!("{at}{field}{}", fault.at), fault.why);
        let tree = |field: &str, json: &Json| match json.node() {
            Ok(_) => Ok(()),
            Err(why) => Err(Refusal::invalid(format!("{at}{field}"), why)),
        };
        let fields: Vec<(String, &Json)> = self.values().collect();
        let Some(text) = &self.schema else {
            return fields.iter().try_for_each(|(field, json)| tree(field, json));
        };
        tree("schema", text)?;
        let node = text.node().expect("it was read just now");
        let schema = Schema::read(&node).map_err(|found| fault("schema", found))?;
        fields.iter().try_for_each(|(field, json)| {
            tree(field, json)?;
            let node = json.node().expect("it was read just now");
            schema.check(&node, budget).map_err(|found| fault(field, found))
        })
    }

    /// Every value that somebody may get, with its place.
    fn values(&self) -> impl Iterator<Item = (String, &Json)> {
        let conditions = self.conditions.iter().enumerate();
        let conditions =
            conditions.map(|(index, condition)| (format!("conditions[{index}].value"), &condition.value));
        let default = self.default.iter().map(|json| ("default".to_owned(), json));
        [("value".to_owned(), &self.value)].into_iter().chain(default).chain(conditions)
    }

    /// Bytes as JSON.
    pub(crate) fn bytes(&self) -> usize {
        serde_json::to_vec(self).expect("a definition has text keys").len()
    }

    /// Every moment at which somebody's value may change by itself.
    pub(crate) fn edges(&self) -> impl Iterator<Item = i64> {
        let conditions = self.conditions.iter().flat_map(|it| [it.starts_at, it.ends_at]);
        [self.starts_at, self.ends_at].into_iter().chain(conditions).flatten().map(Moment::ms)
    }

    pub(crate) fn has_percent(&self) -> bool {
        self.conditions.iter().any(|condition| condition.percent.is_some())
    }
}

/// Which of a variable's values somebody gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Chosen {
    /// The default: it is not the variable's time.
    Default,
    /// The value: no condition matches.
    Value,
    /// That of a condition.
    Condition(usize),
}

/// A variable, ready to be asked. Cheap to share: a change of another variable copies nothing of it.
#[derive(Clone, Debug)]
pub(crate) struct Variable(Arc<Ready>);

#[derive(Debug)]
struct Ready {
    definition: Definition,
    bytes: usize,
    /// Of the name with the default, the value, and the value of each condition.
    digests: OnceLock<Vec<u128>>,
}

impl Variable {
    pub(crate) fn definition(&self) -> &Definition {
        &self.0.definition
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes
    }

    pub(crate) fn chosen(&self, name: &str, who: &Who, now_ms: i64) -> Chosen {
        let definition = &self.0.definition;
        if !is_within(now_ms, definition.starts_at, definition.ends_at) {
            return Chosen::Default;
        }
        let matches = |condition: &Condition| condition.has(name, who, now_ms);
        definition.conditions.iter().position(matches).map_or(Chosen::Value, Chosen::Condition)
    }

    /// The JSON text of a value.
    pub(crate) fn text(&self, chosen: Chosen) -> &str {
        let definition = &self.0.definition;
        match chosen {
            Chosen::Default => definition.default.as_ref().map_or("null", Json::text),
            Chosen::Value => definition.value.text(),
            Chosen::Condition(index) => definition.conditions[index].value.text(),
        }
    }

    /// A digest of the name with a value. Computed once; a variable has one name.
    pub(crate) fn digest(&self, name: &str, chosen: Chosen) -> u128 {
        let index = match chosen {
            Chosen::Default => 0,
            Chosen::Value => 1,
            Chosen::Condition(index) => 2 + index,
        };
        self.0.digests.get_or_init(|| self.digests(name))[index]
    }

    fn digests(&self, name: &str) -> Vec<u128> {
        let conditions = (0..self.0.definition.conditions.len()).map(Chosen::Condition);
        let all = [Chosen::Default, Chosen::Value].into_iter().chain(conditions);
        all.map(|chosen| digest(name, self.text(chosen))).collect()
    }
}

impl From<Definition> for Variable {
    fn from(definition: Definition) -> Variable {
        Variable(Arc::new(Ready { bytes: definition.bytes(), digests: OnceLock::new(), definition }))
    }
}

impl PartialEq for Variable {
    fn eq(&self, other: &Variable) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.definition == other.0.definition
    }
}

impl<'de> Deserialize<'de> for Variable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Variable, D::Error> {
        Definition::deserialize(deserializer).map(Variable::from)
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
