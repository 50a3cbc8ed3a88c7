//! Saved questions and dashboards of a game.
//!
//! What a question asks is checked before the command is written, by the parser that answers it: here a question is JSON
//! with the names of the cohorts that it needs.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::command::Caller;
use crate::erased_operands::without_player;
use crate::game::{CommandContext, Game};
use crate::subject::{RecordError, RecordWriter, Subject};
use crate::vars::{Json, TimestampMs};
use crate::{CommandResponse, Refusal, check_text, is_key};

/// Saved questions of one game.
pub const QUESTIONS_MAX: usize = 1_000;
/// Dashboards of one game.
pub const DASHBOARDS_MAX: usize = 200;
/// Bytes of all saved questions and dashboards of one game together.
pub const SAVED_BYTES_MAX: usize = 8 << 20;
const NAME_BYTES_MAX: usize = 200;

/// The commands of this subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SavedCommand {
    /// Creates or replaces a question or a dashboard.
    Put {
        /// Which of them.
        kind: SavedKind,
        /// Its id.
        id: String,
        /// The complete content.
        content: SavedContent,
        /// The command is refused if the version is another one; 0 if there must be none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected_version: Option<u64>,
    },
    /// Deletes a question or a dashboard.
    Delete {
        /// Which of them.
        kind: SavedKind,
        /// Its id.
        id: String,
    },
}

/// What can be saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SavedKind {
    /// One question.
    Question,
    /// A grid of questions. It is only replaced by a command that knows its version.
    Dashboard,
}

/// The content of a question or a dashboard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedContent {
    /// Its display name.
    pub name: String,
    /// The question, or the tiles of the dashboard.
    pub body: Json,
    /// The cohorts that its questions name, with the field that names each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cohorts: BTreeMap<String, String>,
}

/// A saved question or dashboard with its last change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    /// The content.
    pub content: SavedContent,
    /// The number of times that it was written.
    pub version: u64,
    /// The time of creation.
    pub created_at: TimestampMs,
    /// The time of the last change.
    pub changed_at: TimestampMs,
    /// The sender of the last change.
    pub changed_by: Caller,
}

/// The saved questions and dashboards of a game.
#[derive(Default)]
pub struct SavedItems {
    items: BTreeMap<(SavedKind, String), Saved>,
    bytes: usize,
    /// Those that the next checkpoint writes.
    unwritten: BTreeSet<(SavedKind, String)>,
}

impl SavedKind {
    /// Returns the name in responses and errors.
    pub fn label(self) -> &'static str {
        match self {
            SavedKind::Question => "question",
            SavedKind::Dashboard => "dashboard",
        }
    }

    fn count_max(self) -> usize {
        match self {
            SavedKind::Question => QUESTIONS_MAX,
            SavedKind::Dashboard => DASHBOARDS_MAX,
        }
    }

    /// The first byte of a record's key. Stored, never reused.
    fn tag(self) -> u8 {
        match self {
            SavedKind::Question => b'q',
            SavedKind::Dashboard => b'd',
        }
    }
}

impl Game {
    pub(crate) fn apply_saved(
        &mut self,
        context: &mut CommandContext<'_>,
        command: SavedCommand,
    ) -> Result<CommandResponse, Refusal> {
        match command {
            SavedCommand::Put { kind, id, content, expected_version } => {
                let named = content.cohorts.iter().map(|(name, field)| (field.clone(), name.as_str()));
                self.cohorts.check_known("", named)?;
                self.saved.put(context, (kind, id), content, expected_version)
            }
            SavedCommand::Delete { kind, id } => self.saved.delete((kind, id)),
        }
    }
}

impl SavedItems {
    /// Returns those of a kind by id.
    pub fn iter(&self, kind: SavedKind) -> impl Iterator<Item = (&str, &Saved)> {
        let of_kind = self.items.iter().filter(move |((own, _), _)| *own == kind);
        of_kind.map(|((_, id), saved)| (id.as_str(), saved))
    }

    /// Returns one of them.
    pub fn get(&self, kind: SavedKind, id: &str) -> Option<&Saved> {
        self.items.get(&(kind, id.to_owned()))
    }

    /// Returns the kinds and ids of those that name a cohort.
    pub(crate) fn users_of_cohort(&self, cohort: &str) -> impl Iterator<Item = (SavedKind, &str)> {
        let naming = self.items.iter().filter(move |(_, saved)| saved.content.cohorts.contains_key(cohort));
        naming.map(|((kind, id), _)| (*kind, id.as_str()))
    }

    fn put(
        &mut self,
        context: &CommandContext<'_>,
        key: (SavedKind, String),
        content: SavedContent,
        expected_version: Option<u64>,
    ) -> Result<CommandResponse, Refusal> {
        let kind = key.0;
        if !is_key(&key.1) {
            return Err(Refusal::invalid("id", "must have 1 to 100 letters, digits, `.`, `_` or `-`"));
        }
        if content.name.is_empty() {
            return Err(Refusal::invalid("name", "must not be empty"));
        }
        check_text("name", &content.name, NAME_BYTES_MAX)?;
        let before = self.items.get(&key);
        check_version(kind, before.map_or(0, |saved| saved.version), expected_version)?;
        let label = kind.label();
        if before.is_none() && self.iter(kind).count() >= kind.count_max() {
            let detail = format!("a game can have at most {} {label}s", kind.count_max());
            return Err(Refusal::too_many(detail));
        }
        let bytes = self.bytes - before.map_or(0, |saved| saved.content.bytes()) + content.bytes();
        if bytes > SAVED_BYTES_MAX && bytes > self.bytes {
            let detail = format!(
                "the saved questions and dashboards of a game can have at most {SAVED_BYTES_MAX} bytes together"
            );
            return Err(Refusal::too_many(detail));
        }
        let now = TimestampMs::from_ms(context.at.ms);
        let saved = Saved {
            version: before.map_or(0, |saved| saved.version) + 1,
            created_at: before.map_or(now, |saved| saved.created_at),
            changed_at: now,
            changed_by: context.by.caller,
            content,
        };
        let json = saved.json(kind, &key.1);
        let answer = match before {
            Some(_) => CommandResponse::ok(&json),
            None => CommandResponse::created(&json),
        };
        self.bytes = bytes;
        self.unwritten.insert(key.clone());
        self.items.insert(key, saved);
        Ok(answer)
    }

    fn delete(&mut self, key: (SavedKind, String)) -> Result<CommandResponse, Refusal> {
        let Some(saved) = self.items.remove(&key) else {
            let detail = format!("there is no {} `{}`", key.0.label(), key.1);
            return Err(Refusal { field: Some("id".to_owned()), ..Refusal::not_found(detail) });
        };
        self.bytes -= saved.content.bytes();
        self.unwritten.insert(key);
        Ok(CommandResponse::no_content())
    }

    /// Returns all of a kind, for the export of a game.
    pub(crate) fn export(&self, kind: SavedKind) -> Vec<Value> {
        self.iter(kind).map(|(id, saved)| saved.json(kind, id)).collect()
    }

    /// Removes a player from questions about players.
    pub(crate) fn erase_player(&mut self, player: &str) {
        for (key, saved) in &mut self.items {
            let Some(body) = without_player(&saved.content.body, player) else { continue };
            self.bytes -= saved.content.bytes();
            saved.content.body = body;
            saved.version += 1;
            self.bytes += saved.content.bytes();
            self.unwritten.insert(key.clone());
        }
    }
}

/// A change of a dashboard by a page that shows an older version would undo what others did.
fn check_version(kind: SavedKind, version: u64, expected: Option<u64>) -> Result<(), Refusal> {
    let is_expected = match expected {
        Some(expected) => expected == version,
        None => kind == SavedKind::Question || version == 0,
    };
    if is_expected {
        return Ok(());
    }
    let label = kind.label();
    let detail = match (version, expected) {
        (_, None) => format!("the {label} exists; send its version, {version}, to replace it"),
        (0, _) => format!("there is no such {label}; leave out the field to create it"),
        (_, Some(expected)) => format!("the {label} has version {version}, not {expected}; load it again"),
    };
    Err(Refusal { field: Some("expected_version".to_owned()), ..Refusal::conflict(detail) })
}

impl SavedContent {
    fn bytes(&self) -> usize {
        let cohorts = self.cohorts.iter().map(|(name, field)| name.len() + field.len()).sum::<usize>();
        self.name.len() + self.body.text().len() + cohorts
    }
}

impl Saved {
    /// Returns it as JSON, with the body as `question` or `tiles`.
    pub fn json(&self, kind: SavedKind, id: &str) -> Value {
        let mut json = self.summary(id);
        json[match kind {
            SavedKind::Question => "question",
            SavedKind::Dashboard => "tiles",
        }] = json!(self.content.body);
        json
    }

    /// Returns it as JSON without the body.
    pub fn summary(&self, id: &str) -> Value {
        json!({
            "id": id,
            "name": self.content.name,
            "version": self.version,
            "created_at": self.created_at,
            "changed_at": self.changed_at,
            "changed_by": self.changed_by,
        })
    }
}

impl Subject for SavedItems {
    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecordError> {
        let damaged = || RecordError("unknown record key of saved questions".to_owned());
        let (tag, id) = key.split_first().ok_or_else(damaged)?;
        let kinds = [SavedKind::Question, SavedKind::Dashboard];
        let kind = kinds.into_iter().find(|kind| kind.tag() == *tag).ok_or_else(damaged)?;
        let id = std::str::from_utf8(id).map_err(|_| damaged())?;
        let saved: Saved = serde_json::from_slice(value)?;
        self.bytes += saved.content.bytes();
        self.items.insert((kind, id.to_owned()), saved);
        Ok(())
    }

    fn write_changes(&mut self, writer: &mut RecordWriter<'_>) {
        for key in std::mem::take(&mut self.unwritten) {
            let record = [&[key.0.tag()], key.1.as_bytes()].concat();
            match self.items.get(&key) {
                Some(saved) => {
                    writer.put(&record, serde_json::to_vec(saved).expect("records have text keys"));
                }
                None => writer.remove(&record),
            }
        }
    }
}
