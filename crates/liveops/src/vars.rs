//! Game variables: named JSON values that clients load and get pushed.
//!
//! All variables of a game have one version, which rises by one with each change. Values are computed from memory for
//! whoever asks, at the time they ask.

mod apply;
mod audience;
mod decimal;
mod definition;
mod history;
mod json;
mod moment;
mod schema;

pub use audience::{Audience, Percent, Who, place};
pub use definition::{Condition, DEFINITION_BYTES_MAX, Definition};
pub use history::{CHANGES_BYTES_MAX, CHANGES_MAX, Change, Changed};
pub use json::{DEPTH_MAX, Json};
pub use moment::Moment;

pub(crate) use definition::check_window;
pub(crate) use json::Node;
pub(crate) use moment::is_within;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::subject::{Changes, Damaged, Subject};

use definition::{Chosen, Variable};
use history::History;

/// Variables of one game.
pub const VARS_MAX: usize = 1_000;
/// Bytes of all definitions of one game together.
pub const VARS_BYTES_MAX: usize = 4 << 20;
/// Bytes of [`Vars::variants`].
pub const VARIANTS_BYTES_MAX: usize = 1_000;

/// The commands of this subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Writes one variable.
    Put {
        /// Its name.
        name: String,
        /// All of it: what is not given is not kept.
        definition: Definition,
        /// Refuse if the version is another one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected_version: Option<u64>,
    },
    /// Writes and removes several at once: all of them or none.
    PutMany {
        /// By name; `None` removes, if it is there.
        vars: BTreeMap<String, Option<Definition>>,
        /// Refuse if the version is another one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected_version: Option<u64>,
    },
    /// Removes one variable.
    Delete {
        /// Its name.
        name: String,
    },
    /// Makes the variables what they were at a version. That is a new version.
    RollBack {
        /// The version whose variables come back.
        version: u64,
        /// Refuse if the version is another one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected_version: Option<u64>,
    },
}

/// The variables of a game.
#[derive(Default)]
pub struct Vars {
    /// For those who stamp events, without a lock.
    version: Arc<AtomicU64>,
    variables: BTreeMap<String, Variable>,
    bytes: usize,
    history: History,
    /// Every moment at which a value changes by itself, with how many definitions name it.
    edges: BTreeMap<i64, u32>,
    unwritten: Unwritten,
}

/// What the next checkpoint writes.
#[derive(Default)]
struct Unwritten {
    variables: BTreeSet<String>,
    versions: BTreeSet<u64>,
}

/// What somebody gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluated {
    /// The version of the variables.
    pub version: u64,
    /// The same for the same names and values, and only for those: an entity tag without quotes.
    pub etag: String,
}

impl Vars {
    /// The current version; 0 before the first change.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The current version for those who ask often: it follows every change, without a lock on the game.
    pub fn version_handle(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.version)
    }

    /// What identifies the values that somebody gets.
    pub fn evaluate(&self, who: &Who, now_ms: i64) -> Evaluated {
        let digests = self.chosen(who, now_ms).map(|(name, variable, chosen)| variable.digest(name, chosen));
        let digest = digests.fold(0_u128, u128::wrapping_add);
        Evaluated { version: self.version(), etag: format!("{digest:032x}") }
    }

    /// The values that somebody gets, as the JSON of an object by name.
    pub fn json(&self, who: &Who, now_ms: i64) -> String {
        let mut json = String::with_capacity(2 + self.bytes / 2);
        json.push('{');
        for (name, variable, chosen) in self.chosen(who, now_ms) {
            if json.len() > 1 {
                json.push(',');
            }
            // Names are plain: nothing in them needs an escape.
            json.extend(["\"", name, "\":", variable.text(chosen)]);
        }
        json.push('}');
        json
    }

    /// The value that somebody gets of one variable, as JSON, and its entity tag.
    pub fn value(&self, name: &str, who: &Who, now_ms: i64) -> Option<(&str, Evaluated)> {
        let (name, variable) = self.variables.get_key_value(name)?;
        let chosen = variable.chosen(name, who, now_ms);
        let etag = format!("{:032x}", variable.digest(name, chosen));
        Some((variable.text(chosen), Evaluated { version: self.version(), etag }))
    }

    /// Which variant of each experiment somebody has: `button=blue,speed=(value)`.
    ///
    /// An experiment is a variable with a percentage condition. It is named with the condition that matched, or with
    /// `(value)`; outside of its time it is left out. What would go beyond [`VARIANTS_BYTES_MAX`] is left out, too.
    pub fn variants(&self, who: &Who, now_ms: i64) -> String {
        let mut text = String::new();
        for (name, variable, chosen) in self.chosen(who, now_ms) {
            let variant = match chosen {
                Chosen::Default => continue,
                Chosen::Value => "(value)",
                Chosen::Condition(index) => &variable.definition().conditions[index].name,
            };
            let fits = text.len() + name.len() + variant.len() + 2 <= VARIANTS_BYTES_MAX;
            if variable.definition().has_percent() && fits {
                text.extend([if text.is_empty() { "" } else { "," }, name, "=", variant]);
            }
        }
        text
    }

    /// Whether there is a variable with a percentage condition.
    pub fn has_experiments(&self) -> bool {
        self.variables.values().any(|variable| variable.definition().has_percent())
    }

    /// The next moment at which somebody's values may change without a command.
    pub fn next_change_ms(&self, now_ms: i64) -> Option<i64> {
        self.edges.range(now_ms.saturating_add(1)..).next().map(|(edge, _)| *edge)
    }

    /// All definitions by name, to be written as JSON.
    pub fn definitions(&self) -> impl Serialize + '_ {
        &self.variables
    }

    /// One definition.
    pub fn definition(&self, name: &str) -> Option<&Definition> {
        self.variables.get(name).map(Variable::definition)
    }

    /// The last changes, newest first.
    pub fn history(&self, count_max: usize) -> Vec<&Change> {
        self.history.newest().take(count_max).collect()
    }

    fn chosen(&self, who: &Who, now_ms: i64) -> impl Iterator<Item = (&str, &Variable, Chosen)> {
        self.variables
            .iter()
            .map(move |(name, variable)| (name.as_str(), variable, variable.chosen(name, who, now_ms)))
    }
}

/// The kinds of records. Stored, never reused.
const VERSION: u8 = b'v';
const VARIABLE: u8 = b'd';
const CHANGE: u8 = b'h';

impl Subject for Vars {
    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), Damaged> {
        let damaged = || Damaged("a record of the variables has a key that is not known".to_owned());
        match key.split_first() {
            Some((&VERSION, [])) => {
                self.version.store(serde_json::from_slice(value)?, Ordering::Release);
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

    fn changes(&mut self, changes: &mut Changes<'_>) {
        if self.unwritten.versions.is_empty() {
            return;
        }
        changes.put(&[VERSION], self.version().to_string());
        for name in std::mem::take(&mut self.unwritten.variables) {
            let key = [&[VARIABLE], name.as_bytes()].concat();
            match self.definition(&name) {
                Some(it) => changes.put(&key, serde_json::to_vec(it).expect("a definition has text keys")),
                None => changes.remove(&key),
            }
        }
        for version in std::mem::take(&mut self.unwritten.versions) {
            let key = [&[CHANGE], version.to_be_bytes().as_slice()].concat();
            match self.history.of(version) {
                Some(change) => changes.put(&key, change.record()),
                None => changes.remove(&key),
            }
        }
    }
}
