//! Achievements, follows, and the feed of what the followed did.

use serde::{Deserialize, Serialize};

use crate::game::{Context, Game};
use crate::subject::{Blobs, Changes, Damaged, Subject};
use crate::{Answer, Refusal};

/// The commands of this subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {}

/// The state of this subject.
#[derive(Default)]
pub struct Feed {
    blobs: Blobs,
}

impl Feed {
    /// Values that are kept on disk.
    pub fn blobs(&mut self) -> &mut Blobs {
        &mut self.blobs
    }
}

impl Game {
    pub(crate) fn apply_feed(&mut self, _: &mut Context<'_>, command: Command) -> Result<Answer, Refusal> {
        match command {}
    }
}

impl Subject for Feed {
    fn restore(&mut self, _: &[u8], _: &[u8]) -> Result<(), Damaged> {
        Ok(())
    }

    fn changes(&mut self, _: &mut Changes<'_>) {}
}
