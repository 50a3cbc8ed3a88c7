//! Cohorts: named sets of players, by condition or by list.
//!
//! Only their definitions are here. The players of a cohort are found from raw events, outside of live-ops, and so are
//! conditions checked: a command carries a definition that was read before.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::command::Caller;
use crate::erased_operands::without_player;
use crate::game::{CommandContext, Game, LogPoint, Touched};
use crate::subject::{RecordError, RecordWriter, Subject};
use crate::vars::{Json, TimestampMs};
use crate::{CommandResponse, Refusal, check_player, check_text, is_key};

/// Cohorts of one game.
pub const COHORTS_MAX: usize = 200;
/// Bytes of all definitions of one game together.
pub const COHORTS_BYTES_MAX: usize = 8 << 20;
/// Bytes of a name.
const NAME_BYTES_MAX: usize = 64;
const DESCRIPTION_BYTES_MAX: usize = 1_000;

/// The commands of this subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CohortCommand {
    /// Creates or replaces a cohort.
    Put {
        /// The complete definition.
        definition: CohortDefinition,
    },
    /// Deletes a cohort. Refused while an audience or a saved question names it.
    Delete {
        /// The cohort's name.
        name: String,
    },
}

/// A cohort as it was written, and as the log and the records store it. It has either a condition or a list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CohortDefinition {
    /// How questions and audiences name it.
    pub name: String,
    /// A description for the game's developers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The condition that players meet, as the archive reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Json>,
    /// Only players with an event in so many days belong to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_within_days: Option<u32>,
    /// The ids of the players of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub players: Option<Vec<String>>,
}

/// A cohort with its last change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cohort {
    /// The definition.
    pub definition: CohortDefinition,
    /// Another number after each change.
    pub revision: u64,
    /// The time of creation.
    pub created_at: TimestampMs,
    /// The time of the last change.
    pub changed_at: TimestampMs,
    /// The sender of the last change.
    pub changed_by: Caller,
}

/// What names a cohort.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CohortUser {
    /// `variable`, `survey`, `question` or `dashboard`.
    pub kind: &'static str,
    /// Its name, key or id.
    pub name: String,
}

/// The cohorts of a game.
#[derive(Default)]
pub struct Cohorts {
    cohorts: BTreeMap<String, Cohort>,
    bytes: usize,
    /// The names of those that the next checkpoint writes.
    unwritten: BTreeSet<String>,
}

impl Game {
    pub(crate) fn apply_cohorts(
        &mut self,
        context: &mut CommandContext<'_>,
        command: CohortCommand,
    ) -> Result<CommandResponse, Refusal> {
        let answer = match command {
            CohortCommand::Put { definition } => {
                self.cohorts.put(context.at, context.by.caller, definition)?
            }
            CohortCommand::Delete { name } => {
                let users = self.cohort_users(&name);
                self.cohorts.delete(&name, &users)?
            }
        };
        context.touched.push(Touched::Cohorts);
        Ok(answer)
    }

    /// Returns what names a cohort.
    pub fn cohort_users(&self, cohort: &str) -> Vec<CohortUser> {
        let user = |kind| move |name: &str| CohortUser { kind, name: name.to_owned() };
        let variables = self.vars.users_of_cohort(cohort).into_iter().map(user("variable"));
        let surveys = self.surveys.users_of_cohort(cohort).into_iter().map(user("survey"));
        let saved = self.saved.users_of_cohort(cohort);
        let saved = saved.map(|(kind, id)| CohortUser { kind: kind.label(), name: id.to_owned() });
        variables.chain(surveys).chain(saved).collect()
    }

    /// Returns the cohorts that audiences name.
    pub fn audience_cohorts(&self) -> BTreeSet<&str> {
        self.vars.cohorts().chain(self.surveys.cohorts()).collect()
    }
}

impl Cohorts {
    /// Returns the cohorts by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Cohort)> {
        self.cohorts.iter().map(|(name, cohort)| (name.as_str(), cohort))
    }

    /// Returns a cohort.
    pub fn get(&self, name: &str) -> Option<&Cohort> {
        self.cohorts.get(name)
    }

    /// Refuses names of cohorts that do not exist. Each comes with its field, to which `path` is prefixed.
    pub(crate) fn check_known<'n>(
        &self,
        path: &str,
        mut names: impl Iterator<Item = (String, &'n str)>,
    ) -> Result<(), Refusal> {
        match names.find(|(_, name)| !self.cohorts.contains_key(*name)) {
            None => Ok(()),
            Some((field, name)) => {
                Err(Refusal::invalid(format!("{path}{field}"), format!("there is no cohort `{name}`")))
            }
        }
    }

    fn put(
        &mut self,
        at: LogPoint,
        by: Caller,
        definition: CohortDefinition,
    ) -> Result<CommandResponse, Refusal> {
        definition.check()?;
        let now = TimestampMs::from_ms(at.ms);
        let before = self.cohorts.get(&definition.name);
        if before.is_none() && self.cohorts.len() >= COHORTS_MAX {
            return Err(Refusal::too_many(format!("a game can have at most {COHORTS_MAX} cohorts")));
        }
        let bytes = self.bytes - before.map_or(0, |cohort| cohort.definition.bytes()) + definition.bytes();
        if bytes > COHORTS_BYTES_MAX && bytes > self.bytes {
            let detail = format!("the cohorts of a game can have at most {COHORTS_BYTES_MAX} bytes together");
            return Err(Refusal::too_many(detail));
        }
        let cohort = Cohort {
            revision: before.map_or(0, |cohort| cohort.revision + 1).max(at.offset),
            created_at: before.map_or(now, |cohort| cohort.created_at),
            changed_at: now,
            changed_by: by,
            definition,
        };
        let is_new = before.is_none();
        let answer = cohort.json();
        let answer = if is_new { CommandResponse::created(&answer) } else { CommandResponse::ok(&answer) };
        self.bytes = bytes;
        self.unwritten.insert(cohort.definition.name.clone());
        self.cohorts.insert(cohort.definition.name.clone(), cohort);
        Ok(answer)
    }

    fn delete(&mut self, name: &str, users: &[CohortUser]) -> Result<CommandResponse, Refusal> {
        let field = |refusal: Refusal| Refusal { field: Some("name".to_owned()), ..refusal };
        let Some(cohort) = self.cohorts.get(name) else {
            return Err(field(Refusal::not_found(format!("there is no cohort `{name}`"))));
        };
        if !users.is_empty() {
            let users: Vec<String> =
                users.iter().map(|user| format!("the {} `{}`", user.kind, user.name)).collect();
            let detail = format!("the cohort is used by {}; change or delete it first", users.join(", "));
            return Err(field(Refusal::conflict(detail)));
        }
        self.bytes -= cohort.definition.bytes();
        self.cohorts.remove(name);
        self.unwritten.insert(name.to_owned());
        Ok(CommandResponse::no_content())
    }

    /// Removes a player from lists and from conditions about players.
    pub(crate) fn erase_player(&mut self, player: &str) {
        for (name, cohort) in &mut self.cohorts {
            let before = cohort.definition.bytes();
            if !cohort.definition.erase_player(player) {
                continue;
            }
            cohort.revision += 1;
            self.bytes = self.bytes - before + cohort.definition.bytes();
            self.unwritten.insert(name.clone());
        }
    }

    /// Returns the names of the lists that contain a player.
    pub(crate) fn export_player(&self, player: &str) -> Vec<&str> {
        let contains =
            |cohort: &Cohort| cohort.definition.players.iter().flatten().any(|listed| listed == player);
        self.iter().filter(|(_, cohort)| contains(cohort)).map(|(name, _)| name).collect()
    }
}

impl CohortDefinition {
    fn check(&self) -> Result<(), Refusal> {
        if !is_key(&self.name) || self.name.len() > NAME_BYTES_MAX {
            let detail = format!("must have 1 to {NAME_BYTES_MAX} letters, digits, `.`, `_` or `-`");
            return Err(Refusal::invalid("name", detail));
        }
        check_text("description", self.description.as_deref().unwrap_or(""), DESCRIPTION_BYTES_MAX)?;
        if self.condition.is_some() == self.players.is_some() {
            return Err(Refusal::invalid("condition", "either `condition` or `players` is required"));
        }
        let mut players = self.players.iter().flatten().enumerate();
        players.try_for_each(|(index, id)| check_player(&format!("players[{index}]"), id))
    }

    fn bytes(&self) -> usize {
        let players = self.players.iter().flatten().map(|id| id.len() + size_of::<String>()).sum::<usize>();
        let condition = self.condition.as_ref().map_or(0, |condition| condition.text().len());
        self.name.len() + self.description.as_ref().map_or(0, String::len) + players + condition
    }

    /// Removes a player. Returns false if the definition does not name them.
    fn erase_player(&mut self, player: &str) -> bool {
        let mut is_changed = false;
        if let Some(players) = &mut self.players {
            let count = players.len();
            players.retain(|listed| listed != player);
            is_changed = players.len() != count;
        }
        if let Some(condition) = self.condition.as_ref().and_then(|json| without_player(json, player)) {
            (self.condition, is_changed) = (Some(condition), true);
        }
        is_changed
    }
}

impl Cohort {
    /// Returns the definition and the last change as JSON.
    pub fn json(&self) -> serde_json::Value {
        let mut json = json!(self.definition);
        json["created_at"] = json!(self.created_at);
        json["changed_at"] = json!(self.changed_at);
        json["changed_by"] = json!(self.changed_by);
        json
    }
}

impl Subject for Cohorts {
    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecordError> {
        let name = std::str::from_utf8(key).map_err(|_| RecordError("a cohort's name is not text".into()))?;
        let cohort: Cohort = serde_json::from_slice(value)?;
        self.bytes += cohort.definition.bytes();
        self.cohorts.insert(name.to_owned(), cohort);
        Ok(())
    }

    fn write_changes(&mut self, writer: &mut RecordWriter<'_>) {
        for name in std::mem::take(&mut self.unwritten) {
            match self.cohorts.get(&name) {
                Some(cohort) => {
                    let value = serde_json::to_vec(cohort).expect("records have text keys");
                    writer.put(name.as_bytes(), value);
                }
                None => writer.remove(name.as_bytes()),
            }
        }
    }
}
