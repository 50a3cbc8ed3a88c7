//! Surveys: questions to players, answered once.

use serde::{Deserialize, Serialize};

use crate::game::{Context, Game};
use crate::subject::{Changes, Damaged, Subject};
use crate::{Answer, Refusal};

/// The commands of this subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {}

/// The state of this subject.
#[derive(Default)]
pub struct Surveys {}

impl Game {
    pub(crate) fn apply_surveys(&mut self, _: &mut Context<'_>, command: Command) -> Result<Answer, Refusal> {
        match command {}
    }
}

impl Subject for Surveys {
    fn restore(&mut self, _: &[u8], _: &[u8]) -> Result<(), Damaged> {
        Ok(())
    }

    fn changes(&mut self, _: &mut Changes<'_>) {}
}
