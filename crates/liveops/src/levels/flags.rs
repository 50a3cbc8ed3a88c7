//! Flags: players' words that a level should not be there, and what moderators make of them.

use serde::Serialize;

/// Players who can flag one level; a moderator knows long before.
pub(super) const FLAGS_MAX: usize = 1_000;
/// Reasons that the queue shows of each level, the latest ones.
const REASONS_SHOWN: usize = 20;

/// What one player said.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Flag {
    pub(super) person: u32,
    pub(super) at_ms: i64,
    pub(super) offset: u64,
    pub(super) reason: Box<str>,
}

/// The flags of one level.
#[derive(Debug, Default)]
pub(super) struct Flags {
    /// One of each player, in order of their offsets.
    flags: Vec<Flag>,
    /// Flags that came after the last decision, those of events included.
    pub(super) open: u64,
    /// The offset of the decision to keep the level; flags after it are open.
    pub(super) kept_at: u64,
}

impl Flags {
    pub(super) fn len(&self) -> usize {
        self.flags.len()
    }

    /// Whether this person flagged the level, ever.
    pub(super) fn has(&self, person: u32) -> bool {
        self.flags.iter().any(|flag| flag.person == person)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Flag> {
        self.flags.iter()
    }

    /// Takes the first flag of this person.
    pub(super) fn raise(&mut self, flag: Flag) {
        self.flags.push(flag);
        self.open += 1;
    }

    /// Takes flags that were read back; how many are open was read back as well.
    pub(super) fn restore(&mut self, flags: Vec<Flag>) {
        self.flags = flags;
    }

    /// Forgets what this person said. That a flag was raised stays counted.
    pub(super) fn withdraw(&mut self, person: u32) {
        self.flags.retain(|flag| flag.person != person);
    }

    /// A moderator looked and keeps the level.
    pub(super) fn keep(&mut self, offset: u64) {
        self.open = 0;
        self.kept_at = offset;
    }

    /// The latest flags that nobody decided on yet, the latest first.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Flag> {
        self.flags.iter().rev().filter(|flag| flag.offset > self.kept_at).take(REASONS_SHOWN)
    }
}

/// A flag as moderators see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// Who flagged.
    pub player: String,
    /// Why; may be empty.
    pub reason: String,
    /// When.
    pub at: String,
}
