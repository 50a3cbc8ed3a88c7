//! Scores that failed a check and wait for a moderator, with the evidence.

use serde::{Deserialize, Serialize};

use super::attributes::RunAttributes;
use super::board::Board;
use super::runs::{Arrival, Run};

/// Quarantined scores of a board. Beyond it the oldest is dropped, so that flooding the queue does not hide anyone's
/// score for longer.
const QUARANTINE_MAX: usize = 10_000;
/// Quarantined scores of one player on a board.
const PER_PLAYER_MAX: usize = 10;

/// A score that waits for a moderator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct QuarantinedScore {
    /// The player's id.
    pub player: String,
    /// The player's display name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The score in units.
    pub score: i64,
    /// The subscore in units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscore: Option<i64>,
    #[serde(default, skip_serializing_if = "RunAttributes::is_empty")]
    pub attributes: RunAttributes,
    pub evidence: Evidence,
}

/// The evidence that a moderator sees with the score.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The checks that failed.
    pub failed: Vec<FailedCheck>,
    /// The session in which the score was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Seconds from the start of the session to the score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub played_s: Option<f64>,
}

/// A check that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailedCheck {
    /// The check's name in the settings, or `session` if there was no session.
    pub check: String,
    /// The allowed and the actual value.
    pub detail: String,
}

impl QuarantinedScore {
    /// Returns the run that the score becomes when it is accepted.
    pub(super) fn run(&self, arrival: Arrival, flags: u8) -> Run {
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
    /// Quarantines a score. Its id is its arrival.
    pub(super) fn put_quarantined(&mut self, arrival: Arrival, score: QuarantinedScore) {
        let own = self.quarantine.iter().filter(|(_, it)| it.player == score.player).map(|(id, _)| *id);
        let own: Vec<u64> = own.collect();
        if own.len() >= PER_PLAYER_MAX {
            self.remove_quarantined(own[0]);
        }
        if let Some(oldest) =
            self.quarantine.keys().next().copied().filter(|_| self.quarantine.len() >= QUARANTINE_MAX)
        {
            self.remove_quarantined(oldest);
        }
        self.stored.quarantine.push(arrival.0);
        self.quarantine.insert(arrival.0, score);
    }

    /// Removes a score from the quarantine.
    pub(super) fn remove_quarantined(&mut self, id: u64) -> Option<QuarantinedScore> {
        let score = self.quarantine.remove(&id)?;
        self.stored.quarantine.push(id);
        Some(score)
    }
}
