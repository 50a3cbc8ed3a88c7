//! The last changes of a game's variables, so that people can see them and go back.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::definition::Variable;
use super::moment::Moment;
use crate::Caller;

/// Changes that are kept.
pub const CHANGES_MAX: usize = 1_000;
/// And their bytes together. The newest change is kept in any case.
pub const CHANGES_BYTES_MAX: usize = 16 << 20;

/// One change: everything that was written at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The version that it made.
    pub version: u64,
    /// When.
    pub at: Moment,
    /// The kind of credential.
    pub by: Caller,
    /// The version whose variables it brought back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolled_back_to: Option<u64>,
    /// What became what.
    pub changed: BTreeMap<String, Changed>,
}

/// What a variable was and became; nothing: there was none of this name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Changed {
    pub(crate) before: Option<Variable>,
    pub(crate) after: Option<Variable>,
}

impl Change {
    pub(crate) fn record(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a change has text keys")
    }
}

/// Oldest first, without gaps.
#[derive(Default)]
pub(crate) struct History {
    changes: VecDeque<(Change, usize)>,
    bytes: usize,
}

impl History {
    /// Takes note of a change; gives back the versions that are forgotten for it.
    pub(crate) fn push(&mut self, change: Change) -> Vec<u64> {
        let bytes = change.record().len();
        self.bytes += bytes;
        self.changes.push_back((change, bytes));
        let mut forgotten = Vec::new();
        while self.changes.len() > 1 && (self.changes.len() > CHANGES_MAX || self.bytes > CHANGES_BYTES_MAX) {
            let Some((oldest, bytes)) = self.changes.pop_front() else { break };
            self.bytes -= bytes;
            forgotten.push(oldest.version);
        }
        forgotten
    }

    /// The change that made a version.
    pub(crate) fn of(&self, version: u64) -> Option<&Change> {
        let first = self.changes.front()?.0.version;
        let at = usize::try_from(version.checked_sub(first)?).ok()?;
        self.changes.get(at).map(|(change, _)| change)
    }

    /// Newest first.
    pub(crate) fn newest(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().rev().map(|(change, _)| change)
    }

    /// What everything that changed after a version was at that version; nothing if that is no longer known.
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
