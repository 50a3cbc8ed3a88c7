//! The last changes of a game's variables, for the history page and rollbacks.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::definition::Variable;
use super::timestamp::TimestampMs;
use crate::Caller;

/// Changes that are kept.
pub const CHANGES_MAX: usize = 1_000;
/// Bytes of all kept changes. The newest change is always kept.
pub(crate) const CHANGES_BYTES_MAX: usize = 16 << 20;

/// One change: all variables that a command wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VarsChange {
    /// The version that the change created.
    pub version: u64,
    /// The time of the change.
    pub at: TimestampMs,
    /// The kind of credential that made it.
    pub by: Caller,
    /// The version that a rollback restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolled_back_to: Option<u64>,
    /// The changed variables by name.
    pub changed: BTreeMap<String, VariableDiff>,
}

/// A variable before and after a change; null if it did not exist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VariableDiff {
    pub(crate) before: Option<Variable>,
    pub(crate) after: Option<Variable>,
}

impl VarsChange {
    pub(crate) fn record(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a change has text keys")
    }
}

/// Oldest first, without gaps.
#[derive(Default)]
pub(crate) struct ChangeHistory {
    changes: VecDeque<(VarsChange, usize)>,
    bytes: usize,
}

impl ChangeHistory {
    /// Adds a change and returns the versions that are evicted.
    pub(crate) fn push(&mut self, change: VarsChange) -> Vec<u64> {
        let bytes = change.record().len();
        self.bytes += bytes;
        self.changes.push_back((change, bytes));
        let mut evicted = Vec::new();
        while self.changes.len() > 1 && (self.changes.len() > CHANGES_MAX || self.bytes > CHANGES_BYTES_MAX) {
            let Some((oldest, bytes)) = self.changes.pop_front() else { break };
            self.bytes -= bytes;
            evicted.push(oldest.version);
        }
        evicted
    }

    /// Returns the change that created a version.
    pub(crate) fn of(&self, version: u64) -> Option<&VarsChange> {
        let first = self.changes.front()?.0.version;
        let at = usize::try_from(version.checked_sub(first)?).ok()?;
        self.changes.get(at).map(|(change, _)| change)
    }

    /// Returns the changes, newest first.
    pub(crate) fn newest(&self) -> impl Iterator<Item = &VarsChange> {
        self.changes.iter().rev().map(|(change, _)| change)
    }

    /// Returns the variables that changed after a version, as they were at that version; `None` if the history does not
    /// reach back that far.
    pub(crate) fn before(&self, version: u64) -> Option<BTreeMap<&str, Option<&Variable>>> {
        self.of(version + 1)?;
        let mut variables = BTreeMap::new();
        for change in self.newest().take_while(|change| change.version > version) {
            let before = change.changed.iter().map(|(name, it)| (name.as_str(), it.before.as_ref()));
            variables.extend(before);
        }
        Some(variables)
    }
}
