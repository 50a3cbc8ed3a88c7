//! Players: their sessions, bans, erasure.

use serde::{Deserialize, Serialize};

use crate::command::Signed;
use crate::game::{At, Context, Game};
use crate::subject::{Changes, Damaged, Subject};
use crate::{Answer, Refusal};

/// The commands of this subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {}

/// The state of this subject.
#[derive(Default)]
pub struct Players {}

impl Players {
    pub(crate) fn check_nonce(&mut self, _: At, _: &Signed) -> Result<(), Refusal> {
        Ok(())
    }
}

impl Game {
    pub(crate) fn apply_players(&mut self, _: &mut Context<'_>, command: Command) -> Result<Answer, Refusal> {
        match command {}
    }
}

impl Subject for Players {
    fn restore(&mut self, _: &[u8], _: &[u8]) -> Result<(), Damaged> {
        Ok(())
    }

    fn changes(&mut self, _: &mut Changes<'_>) {}
}
