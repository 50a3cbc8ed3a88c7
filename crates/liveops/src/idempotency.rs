//! Responses to repeated requests: a request that is sent again gets the response of the first time.

use std::collections::VecDeque;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use crate::players::contains_text;
use crate::subject::{RecordError, RecordWriter, Subject};
use crate::{CommandResponse, Idempotency, Refusal};

/// The retention of a response.
const WINDOW_MS: i64 = 24 * 3600 * 1000;
/// Shorter player ids often occur in unrelated keys by chance.
const WORD_BYTES_MIN: usize = 6;
/// Responses kept per game; beyond it the oldest is evicted early.
const KEYS_MAX: usize = 100_000;

/// Responses by `Idempotency-Key`.
#[derive(Default)]
pub(crate) struct IdempotentResponses {
    by_key: HashMap<String, StoredResponse>,
    /// Keys by time of receipt, oldest first.
    order: VecDeque<(i64, String)>,
    changed: Vec<String>,
}

#[derive(Clone, Serialize, Deserialize)]
struct StoredResponse {
    at_ms: i64,
    request: String,
    outcome: Result<CommandResponse, Refusal>,
}

impl IdempotentResponses {
    /// Returns the response to an earlier request with this key, or a refusal if that request was a different one.
    pub(crate) fn get(&self, request: &Idempotency, now_ms: i64) -> Option<Result<CommandResponse, Refusal>> {
        let stored = self.by_key.get(&request.key).filter(|it| it.at_ms + WINDOW_MS > now_ms)?;
        if stored.request != request.request {
            return Some(Err(Refusal::conflict("this Idempotency-Key was already used for another request")));
        }
        Some(stored.outcome.clone())
    }

    pub(crate) fn insert(
        &mut self,
        request: Idempotency,
        outcome: &Result<CommandResponse, Refusal>,
        now_ms: i64,
    ) {
        self.evict(now_ms);
        let stored = StoredResponse { at_ms: now_ms, request: request.request, outcome: outcome.clone() };
        self.order.push_back((now_ms, request.key.clone()));
        self.changed.push(request.key.clone());
        self.by_key.insert(request.key, stored);
    }

    /// Removes all responses that contain the player's id, and those whose key does: clients choose the keys.
    pub(crate) fn erase_player(&mut self, player: &str) {
        let quoted = serde_json::to_string(player).expect("text is JSON");
        let names = |text: &str| text == player;
        // A short id must be a whole word of the key.
        let is_named = |key: &str| {
            key.contains(player)
                && (player.len() >= WORD_BYTES_MIN || key.split(|it: char| !it.is_alphanumeric()).any(names))
        };
        // The substring search is cheap and excludes most responses.
        let is_in_response =
            |answer: &CommandResponse| answer.json.contains(&quoted) && contains_text(&answer.json, &names);
        let is_about =
            |key: &str, it: &StoredResponse| is_named(key) || it.outcome.as_ref().is_ok_and(is_in_response);
        let removed: Vec<String> =
            self.by_key.iter().filter(|(key, it)| is_about(key, it)).map(|(key, _)| key.clone()).collect();
        for key in removed {
            self.by_key.remove(&key);
            self.changed.push(key);
        }
        let by_key = &self.by_key;
        self.order.retain(|(at_ms, key)| by_key.get(key).is_some_and(|it| it.at_ms == *at_ms));
    }

    fn evict(&mut self, now_ms: i64) {
        while let Some((at_ms, key)) = self.order.front() {
            if at_ms + WINDOW_MS > now_ms && self.order.len() < KEYS_MAX {
                return;
            }
            if self.by_key.get(key).is_some_and(|it| it.at_ms == *at_ms) {
                self.by_key.remove(key);
                self.changed.push(key.clone());
            }
            self.order.pop_front();
        }
    }
}

impl Subject for IdempotentResponses {
    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecordError> {
        let key = String::from_utf8_lossy(key).into_owned();
        let stored: StoredResponse = serde_json::from_slice(value)?;
        self.order.push_back((stored.at_ms, key.clone()));
        self.by_key.insert(key, stored);
        Ok(())
    }

    fn finish_restore(&mut self) {
        self.order.make_contiguous().sort_unstable();
    }

    fn write_changes(&mut self, writer: &mut RecordWriter<'_>) {
        for key in self.changed.drain(..) {
            match self.by_key.get(&key) {
                Some(it) => writer
                    .put(key.as_bytes(), serde_json::to_vec(it).expect("a response is text and numbers")),
                None => writer.remove(key.as_bytes()),
            }
        }
    }
}
