//! What was refused where bytes came in: how often, by reason, and the first few for people to look at.

use model::Reject;
use model::batch::Endpoint;

use crate::recent_events::{Inspector, Refusal};
use crate::time::now_ms;

/// Refused lines that people are shown.
const SHOWN_MAX: usize = 10;
/// Characters of one of them.
const SHOWN_CHARS: usize = 200;

/// What was refused since it was last emptied.
#[derive(Debug, Default)]
pub struct Refusals {
    counts: Vec<(Reject, u32)>,
    shown: Vec<(Reject, String)>,
}

impl Refusals {
    /// One line or packet, with what it was.
    #[cold]
    pub fn one(&mut self, reject: Reject, text: &[u8]) {
        let cut = &text[..text.len().min(4 * SHOWN_CHARS)];
        self.one_told(reject, || String::from_utf8_lossy(cut).into_owned());
    }

    /// One that is no text: `tell` says what it was, if anybody is going to see it.
    #[cold]
    pub fn one_told(&mut self, reject: Reject, tell: impl FnOnce() -> String) {
        self.many(reject, 1);
        if self.shown.len() < SHOWN_MAX {
            self.shown.push((reject, tell().chars().take(SHOWN_CHARS).collect()));
        }
    }

    /// So many of which nothing else is known.
    pub fn many(&mut self, reject: Reject, count: u32) {
        if count == 0 {
            return;
        }
        match self.counts.iter_mut().find(|(other, _)| *other == reject) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => self.counts.push((reject, count)),
        }
    }

    /// How many there were, by reason.
    pub fn counts(&self) -> &[(Reject, u32)] {
        &self.counts
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    /// Nothing was refused.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Shows people the first few, each once.
    pub fn show(&mut self, inspector: &Inspector, game: u32, endpoint: Endpoint) {
        if self.shown.is_empty() {
            return;
        }
        let at_ms = now_ms();
        let refusal = |(reject, name)| Refusal { at_ms, name, player: String::new(), reject, endpoint };
        inspector.refused(game, self.shown.drain(..).map(refusal));
    }

    /// As if nothing had been refused.
    pub fn clear(&mut self) {
        self.counts.clear();
        self.shown.clear();
    }
}
