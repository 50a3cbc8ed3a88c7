//! The same request sent again gets the same answer.

use std::collections::VecDeque;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use crate::players::is_mentioned;
use crate::subject::{Changes, Damaged, Subject};
use crate::{Answer, Idempotency, Refusal};

/// For so long a key is remembered.
const WINDOW_MS: i64 = 24 * 3600 * 1000;
/// An id of so many bytes is hardly found in a key that has nothing to do with it.
const WORD_BYTES_MIN: usize = 6;
/// Keys remembered per game; beyond it the oldest is forgotten early.
const KEYS_MAX: usize = 100_000;

/// Answers by `Idempotency-Key`.
#[derive(Default)]
pub(crate) struct Answers {
    known: HashMap<String, Remembered>,
    /// Keys with the time they came, oldest first.
    order: VecDeque<(i64, String)>,
    changed: Vec<String>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Remembered {
    at_ms: i64,
    request: String,
    outcome: Result<Answer, Refusal>,
}

impl Answers {
    /// The answer to a request that came before; a refusal if another came with its key.
    pub(crate) fn known(&self, asked: &Idempotency, now_ms: i64) -> Option<Result<Answer, Refusal>> {
        let remembered = self.known.get(&asked.key).filter(|it| it.at_ms + WINDOW_MS > now_ms)?;
        if remembered.request != asked.request {
            return Some(Err(Refusal::conflict("another request came with this Idempotency-Key")));
        }
        Some(remembered.outcome.clone())
    }

    pub(crate) fn remember(&mut self, asked: Idempotency, outcome: &Result<Answer, Refusal>, now_ms: i64) {
        self.forget(now_ms);
        let remembered = Remembered { at_ms: now_ms, request: asked.request, outcome: outcome.clone() };
        self.order.push_back((now_ms, asked.key.clone()));
        self.changed.push(asked.key.clone());
        self.known.insert(asked.key, remembered);
    }

    /// Forgets what was answered about a player. The keys are the clients' own: one that holds the player's id goes, too.
    pub(crate) fn erase_player(&mut self, player: &str) {
        let quoted = serde_json::to_string(player).expect("text is JSON");
        let names = |text: &str| text == player;
        // A short id stands in many keys by chance.
        let is_named = |key: &str| {
            key.contains(player)
                && (player.len() >= WORD_BYTES_MIN || key.split(|it: char| !it.is_alphanumeric()).any(names))
        };
        // Most answers are not even read.
        let is_told = |answer: &Answer| answer.json.contains(&quoted) && is_mentioned(&answer.json, &names);
        let is_about = |key: &str, it: &Remembered| is_named(key) || it.outcome.as_ref().is_ok_and(is_told);
        let gone: Vec<String> =
            self.known.iter().filter(|(key, it)| is_about(key, it)).map(|(key, _)| key.clone()).collect();
        for key in gone {
            self.known.remove(&key);
            self.changed.push(key);
        }
        let known = &self.known;
        self.order.retain(|(at_ms, key)| known.get(key).is_some_and(|it| it.at_ms == *at_ms));
    }

    fn forget(&mut self, now_ms: i64) {
        while let Some((at_ms, key)) = self.order.front() {
            if at_ms + WINDOW_MS > now_ms && self.order.len() < KEYS_MAX {
                return;
            }
            if self.known.get(key).is_some_and(|it| it.at_ms == *at_ms) {
                self.known.remove(key);
                self.changed.push(key.clone());
            }
            self.order.pop_front();
        }
    }
}

impl Subject for Answers {
    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), Damaged> {
        let key = String::from_utf8_lossy(key).into_owned();
        let remembered: Remembered = serde_json::from_slice(value)?;
        self.order.push_back((remembered.at_ms, key.clone()));
        self.known.insert(key, remembered);
        Ok(())
    }

    fn restored(&mut self) {
        self.order.make_contiguous().sort_unstable();
    }

    fn changes(&mut self, changes: &mut Changes<'_>) {
        for key in self.changed.drain(..) {
            match self.known.get(&key) {
                Some(it) => changes
                    .put(key.as_bytes(), serde_json::to_vec(it).expect("an answer is text and numbers")),
                None => changes.remove(key.as_bytes()),
            }
        }
    }
}
