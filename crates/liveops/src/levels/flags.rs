//! Flags of a level: players' reports for moderation.

use serde::Serialize;

/// Players who can flag one level. The level is in the moderation queue long before.
pub(super) const FLAGS_MAX: usize = 1_000;
/// Reasons that the moderation queue shows of each level, the latest ones.
const REASONS_SHOWN: usize = 20;

/// A flag of one player.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Flag {
    pub(super) contributor: u32,
    pub(super) at_ms: i64,
    pub(super) offset: u64,
    pub(super) reason: Box<str>,
}

/// The flags of one level.
#[derive(Debug, Default)]
pub(super) struct LevelFlags {
    /// At most one per player, ordered by offset.
    flags: Vec<Flag>,
    /// Flags after the last decision, including those of events.
    pub(super) open: u64,
    /// The offset of the decision to keep the level. Flags after it are open.
    pub(super) kept_at: u64,
}

impl LevelFlags {
    pub(super) fn len(&self) -> usize {
        self.flags.len()
    }

    /// Returns true if this player has ever flagged the level.
    pub(super) fn has(&self, contributor: u32) -> bool {
        self.flags.iter().any(|flag| flag.contributor == contributor)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Flag> {
        self.flags.iter()
    }

    /// Adds a player's first flag.
    pub(super) fn add(&mut self, flag: Flag) {
        self.flags.push(flag);
        self.open += 1;
    }

    /// Restores the flags. The number of open flags is restored separately.
    pub(super) fn restore(&mut self, flags: Vec<Flag>) {
        self.flags = flags;
    }

    /// Removes a player's flag, which stays counted.
    pub(super) fn withdraw(&mut self, contributor: u32) {
        self.flags.retain(|flag| flag.contributor != contributor);
    }

    /// Settles all flags: a moderator keeps the level.
    pub(super) fn keep(&mut self, offset: u64) {
        self.open = 0;
        self.kept_at = offset;
    }

    /// Returns the latest open flags, newest first.
    pub(super) fn open_flags(&self) -> impl Iterator<Item = &Flag> {
        self.flags.iter().rev().filter(|flag| flag.offset > self.kept_at).take(REASONS_SHOWN)
    }
}

/// A flag as moderators see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlagReason {
    /// The player who flagged.
    pub player: String,
    /// The player's reason; may be empty.
    pub reason: String,
    /// The time of the flag.
    pub at: String,
}
