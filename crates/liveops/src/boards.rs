//! Leaderboards: scores in windows of time, with exact ranks.

use serde::{Deserialize, Serialize};

use model::record::Stored;

use crate::game::{At, Context, Game};
use crate::subject::{Changes, Damaged, Subject};
use crate::{Answer, Refusal};

/// The commands of this subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {}

/// The state of this subject.
#[derive(Default)]
pub struct Boards {}

impl Boards {
    pub(crate) fn event(&mut self, _: At, _: &Stored<'_>) {}
}

impl Game {
    pub(crate) fn apply_boards(&mut self, _: &mut Context<'_>, command: Command) -> Result<Answer, Refusal> {
        match command {}
    }
}

impl Subject for Boards {
    fn restore(&mut self, _: &[u8], _: &[u8]) -> Result<(), Damaged> {
        Ok(())
    }

    fn changes(&mut self, _: &mut Changes<'_>) {}
}
