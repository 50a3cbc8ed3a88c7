//! Scores that failed a check: they wait for a moderator, with the evidence.

use serde::{Deserialize, Serialize};

use super::attributes::Attributes;
use super::board::Board;
use super::runs::{Arrival, Run};

/// Scores of a board that wait. Beyond it the oldest is given up: whoever floods a queue hides in it no longer than
/// others.
const HELD_MAX: usize = 10_000;
/// Scores of one player that wait on a board.
const PER_PLAYER_MAX: usize = 10;

/// A score that waits for a moderator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// Whose.
    pub player: String,
    /// As others would see the player.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// In units.
    pub score: i64,
    /// In units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscore: Option<i64>,
    /// Fields and source.
    #[serde(default, skip_serializing_if = "Attributes::is_empty")]
    pub attributes: Attributes,
    /// What did not fit.
    pub evidence: Evidence,
}

/// What a moderator sees beside the score.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The checks that failed.
    pub failed: Vec<Failed>,
    /// The session in which the score was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Seconds from the beginning of the session to the score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub played_s: Option<f64>,
}

/// A check that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failed {
    /// Its name among the board's checks; `session` when there was none.
    pub check: String,
    /// What is allowed, and what was found.
    pub detail: String,
}

impl Held {
    /// The run that it becomes when it is accepted.
    pub fn run(&self, arrival: Arrival, flags: u8) -> Run {
        let with_subscore = if self.subscore.is_some() { super::runs::WITH_SUBSCORE } else { 0 };
        Run {
            score: self.score,
            subscore: self.subscore.unwrap_or(0),
            arrival,
            flags: flags | with_subscore,
            ..Run::default()
        }
    }
}

impl Board {
    /// Holds a score back. Its id is its arrival.
    pub fn hold(&mut self, arrival: Arrival, held: Held) {
        let own = self.held.iter().filter(|(_, it)| it.player == held.player).map(|(id, _)| *id);
        let own: Vec<u64> = own.collect();
        if own.len() >= PER_PLAYER_MAX {
            self.take_held(own[0]);
        }
        if let Some(oldest) = self.held.keys().next().copied().filter(|_| self.held.len() >= HELD_MAX) {
            self.take_held(oldest);
        }
        self.stored.held.push(arrival.0);
        self.held.insert(arrival.0, held);
    }

    /// Takes a score out of those that wait.
    pub fn take_held(&mut self, id: u64) -> Option<Held> {
        let held = self.held.remove(&id)?;
        self.stored.held.push(id);
        Some(held)
    }
}
