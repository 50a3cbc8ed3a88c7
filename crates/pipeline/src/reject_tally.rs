//! Rejected input of a transport: counts by reason, and the first few texts for people to look at.

use model::Reject;
use model::batch::Endpoint;

use crate::recent_events::{RecentEvents, RejectedEvent};
use crate::time::now_ms;

/// Rejected texts that are shown.
const SHOWN_MAX: usize = 10;
/// Characters of each of them.
const SHOWN_CHARS: usize = 200;

/// The rejected lines and packets since the tally was last cleared.
#[derive(Debug, Default)]
pub struct RejectTally {
    counts: Vec<(Reject, u32)>,
    shown: Vec<(Reject, String)>,
}

impl RejectTally {
    /// Adds one line or packet with its text.
    #[cold]
    pub fn add(&mut self, reject: Reject, text: &[u8]) {
        let cut = &text[..text.len().min(4 * SHOWN_CHARS)];
        self.add_described(reject, || String::from_utf8_lossy(cut).into_owned());
    }

    /// Adds one packet that is not text. `describe` is called only if the packet is going to be shown.
    #[cold]
    pub fn add_described(&mut self, reject: Reject, describe: impl FnOnce() -> String) {
        self.add_count(reject, 1);
        if self.shown.len() < SHOWN_MAX {
            self.shown.push((reject, describe().chars().take(SHOWN_CHARS).collect()));
        }
    }

    /// Adds a number of lines or packets whose content is not known.
    pub fn add_count(&mut self, reject: Reject, count: u32) {
        if count == 0 {
            return;
        }
        match self.counts.iter_mut().find(|(other, _)| *other == reject) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => self.counts.push((reject, count)),
        }
    }

    /// Returns the counts by reason.
    pub fn counts(&self) -> &[(Reject, u32)] {
        &self.counts
    }

    /// Returns the sum of all counts.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    /// Returns true if nothing was rejected.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Moves the first texts to the recent events of a game.
    pub fn show(&mut self, recent_events: &RecentEvents, game: u32, endpoint: Endpoint) {
        if self.shown.is_empty() {
            return;
        }
        let at_ms = now_ms();
        let event = |(reject, name)| RejectedEvent { at_ms, name, player: String::new(), reject, endpoint };
        recent_events.add_rejected(game, self.shown.drain(..).map(event));
    }

    /// Removes all counts and texts.
    pub fn clear(&mut self) {
        self.counts.clear();
        self.shown.clear();
    }
}
