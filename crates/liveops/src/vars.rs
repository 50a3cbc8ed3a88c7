//! Game variables: named JSON values that clients load and are pushed.
//!
//! All variables of a game share one version, which each change increments. Values are computed from memory for each
//! viewer when they are read.

mod apply;
mod audience;
mod decimal;
mod definition;
mod experiment;
mod history;
mod json;
mod schema;
mod timestamp;

pub use audience::{Audience, Percent, VarsViewer, bucket};
pub use definition::{Condition, VarDefinition};
pub use experiment::{CONTROL, Experiment, ExperimentState, PlannedVariant};
pub use history::{CHANGES_MAX, VariableDiff, VarsChange};
pub use json::Json;
pub use timestamp::TimestampMs;

pub(crate) use definition::check_window;
pub(crate) use json::JsonNode;
pub(crate) use timestamp::is_within;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::subject::{RecordError, RecordWriter, Subject};

use definition::{ChosenValue, Variable};
use history::ChangeHistory;

/// Variables of one game.
pub const VARS_MAX: usize = 1_000;
/// Bytes of all definitions of one game together.
pub const VARS_BYTES_MAX: usize = 4 << 20;
/// Bytes of the text that [`Vars::variants`] returns.
pub const VARIANTS_BYTES_MAX: usize = 1_000;

/// The commands of this subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VarsCommand {
    /// Writes one variable.
    Put {
        /// The variable's name.
        name: String,
        /// The complete definition, which replaces an earlier one.
        definition: VarDefinition,
        /// The command is refused if the version is another one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected_version: Option<u64>,
    },
    /// Writes and removes several variables atomically.
    PutMany {
        /// Definitions by name; `None` removes the variable if it exists.
        vars: BTreeMap<String, Option<VarDefinition>>,
        /// The command is refused if the version is another one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected_version: Option<u64>,
    },
    /// Removes one variable.
    Delete {
        /// The variable's name.
        name: String,
    },
    /// Restores the variables of an earlier version, as a new version.
    RollBack {
        /// The version to restore.
        version: u64,
        /// The command is refused if the version is another one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected_version: Option<u64>,
    },
}

/// The variables of a game.
#[derive(Default)]
pub struct Vars {
    version: u64,
    variables: BTreeMap<String, Variable>,
    bytes: usize,
    history: ChangeHistory,
    /// Times at which a value changes without a command, with the number of definitions that name each.
    transitions: BTreeMap<i64, u32>,
    /// The cohorts that conditions name, with how often.
    cohorts: BTreeMap<String, u32>,
    unwritten: UnwrittenVars,
}

/// The changes that the next checkpoint writes.
#[derive(Default)]
struct UnwrittenVars {
    variables: BTreeSet<String>,
    versions: BTreeSet<u64>,
}

/// The version and entity tag of a viewer's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// The version of the variables.
    pub version: u64,
    /// An entity tag without quotes: equal for equal names and values, different otherwise.
    pub etag: String,
}

impl Vars {
    /// Returns the current version; 0 before the first change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the version and entity tag of a viewer's values.
    pub fn evaluate(&self, viewer: &VarsViewer, now_ms: i64) -> Evaluation {
        let digests =
            self.choose(viewer, now_ms).map(|(name, variable, chosen)| variable.digest(name, chosen));
        let digest = digests.fold(0_u128, u128::wrapping_add);
        Evaluation { version: self.version(), etag: format!("{digest:032x}") }
    }

    /// Returns a viewer's values as a JSON object by name.
    pub fn json(&self, viewer: &VarsViewer, now_ms: i64) -> String {
        let mut json = String::with_capacity(2 + self.bytes / 2);
        json.push('{');
        for (name, variable, chosen) in self.choose(viewer, now_ms) {
            if json.len() > 1 {
                json.push(',');
            }
            // Names need no escaping.
            json.extend(["\"", name, "\":", variable.text(chosen)]);
        }
        json.push('}');
        json
    }

    /// Returns a viewer's value of one variable as JSON, with its entity tag.
    pub fn value(&self, name: &str, viewer: &VarsViewer, now_ms: i64) -> Option<(&str, Evaluation)> {
        let (name, variable) = self.variables.get_key_value(name)?;
        let chosen = variable.choose(name, viewer, now_ms);
        let etag = format!("{:032x}", variable.digest(name, chosen));
        Some((variable.text(chosen), Evaluation { version: self.version(), etag }))
    }

    /// Returns the viewer's variant of each experiment, such as `button=blue,speed=(value)`.
    ///
    /// An experiment is a variable with a percentage condition. Its variant is the name of the condition that matched,
    /// or `(value)`. Experiments outside of their time are omitted, and so are those that would exceed
    /// [`VARIANTS_BYTES_MAX`].
    pub fn variants(&self, viewer: &VarsViewer, now_ms: i64) -> String {
        let mut text = String::new();
        for (name, variable, chosen) in self.choose(viewer, now_ms) {
            let variant = match chosen {
                ChosenValue::Default => continue,
                ChosenValue::Value => "(value)",
                ChosenValue::Condition(index) => &variable.definition().conditions[index].name,
            };
            let fits = text.len() + name.len() + variant.len() + 2 <= VARIANTS_BYTES_MAX;
            if variable.definition().has_percent() && fits {
                text.extend([if text.is_empty() { "" } else { "," }, name, "=", variant]);
            }
        }
        text
    }

    /// Returns the cohorts that conditions name.
    pub fn cohorts(&self) -> impl Iterator<Item = &str> {
        self.cohorts.keys().map(String::as_str)
    }

    /// Returns the variables whose conditions name a cohort.
    pub(crate) fn users_of_cohort(&self, cohort: &str) -> Vec<&str> {
        let names = |variable: &Variable| variable.definition().cohorts().any(|(_, name)| name == cohort);
        self.variables.iter().filter(|(_, variable)| names(variable)).map(|(name, _)| name.as_str()).collect()
    }

    /// Returns true if any variable has a percentage condition.
    pub fn has_experiments(&self) -> bool {
        self.variables.values().any(|variable| variable.definition().has_percent())
    }

    /// Returns the next time at which a value may change without a command, in milliseconds since 1970.
    pub fn next_change_ms(&self, now_ms: i64) -> Option<i64> {
        self.transitions.range(now_ms.saturating_add(1)..).next().map(|(transition, _)| *transition)
    }

    /// Returns all definitions by name, to be serialized.
    pub fn definitions(&self) -> impl Serialize + '_ {
        &self.variables
    }

    /// Returns one definition.
    pub fn definition(&self, name: &str) -> Option<&VarDefinition> {
        self.variables.get(name).map(Variable::definition)
    }

    /// Returns the last changes, newest first.
    pub fn history(&self, count_max: usize) -> Vec<&VarsChange> {
        self.history.newest().take(count_max).collect()
    }

    fn choose(
        &self,
        viewer: &VarsViewer,
        now_ms: i64,
    ) -> impl Iterator<Item = (&str, &Variable, ChosenValue)> {
        self.variables
            .iter()
            .map(move |(name, variable)| (name.as_str(), variable, variable.choose(name, viewer, now_ms)))
    }
}

/// The kinds of records. Stored, never reused.
const VERSION: u8 = b'v';
const VARIABLE: u8 = b'd';
const CHANGE: u8 = b'h';

impl Subject for Vars {
    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecordError> {
        let damaged = || RecordError("unknown record key of variables".to_owned());
        match key.split_first() {
            Some((&VERSION, [])) => {
                self.version = serde_json::from_slice(value)?;
            }
            Some((&VARIABLE, name)) => {
                let name = std::str::from_utf8(name).map_err(|_| damaged())?;
                self.set(name, Some(serde_json::from_slice(value)?));
            }
            Some((&CHANGE, _)) => {
                self.history.push(serde_json::from_slice(value)?);
            }
            _ => return Err(damaged()),
        }
        Ok(())
    }

    fn write_changes(&mut self, writer: &mut RecordWriter<'_>) {
        if self.unwritten.versions.is_empty() {
            return;
        }
        writer.put(&[VERSION], self.version().to_string());
        for name in std::mem::take(&mut self.unwritten.variables) {
            let key = [&[VARIABLE], name.as_bytes()].concat();
            match self.definition(&name) {
                Some(it) => writer.put(&key, serde_json::to_vec(it).expect("a definition has text keys")),
                None => writer.remove(&key),
            }
        }
        for version in std::mem::take(&mut self.unwritten.versions) {
            let key = [&[CHANGE], version.to_be_bytes().as_slice()].concat();
            match self.history.of(version) {
                Some(change) => writer.put(&key, change.record()),
                None => writer.remove(&key),
            }
        }
    }
}
