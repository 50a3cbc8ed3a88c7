//! Responses to repeated requests: a request that is sent again gets the response of the first time.

use std::collections::VecDeque;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use crate::boards::SubmittedPage;
use crate::players::contains_text;
use crate::subject::{RecordError, RecordWriter, Subject};
use crate::{CommandResponse, Idempotency, Refusal};

/// The retention of a response.
const WINDOW_MS: i64 = 24 * 3600 * 1000;
/// Shorter player ids often occur in unrelated keys by chance.
const WORD_BYTES_MIN: usize = 6;
/// Responses kept per game, and their memory; beyond either, the oldest is evicted early.
const KEYS_MAX: usize = 100_000;
const BYTES_MAX: usize = 64 << 20;
/// The memory of a response beside its texts: the entries in two tables.
const ENTRY_BYTES: usize = 256;
/// The start of the keys of requests with a public key, which every client has.
const PUBLIC_PREFIX: &str = "public:";
/// The share of the keys and of the memory that neither kind of sender can take from the other, as a divisor for requests
/// with a public key. The others have the rest.
const PUBLIC_SHARE: usize = 4;

/// Responses by `Idempotency-Key`.
#[derive(Default)]
pub(crate) struct IdempotentResponses {
    by_key: HashMap<String, StoredResponse>,
    /// Those to requests with a public key.
    public: ResponseGroup,
    /// Those to servers and signed-in people.
    trusted: ResponseGroup,
    changed: Vec<String>,
}

/// The responses to one kind of sender.
#[derive(Default)]
struct ResponseGroup {
    /// Keys by time of receipt, oldest first.
    order: VecDeque<(i64, String)>,
    /// The memory of all responses, about.
    bytes: usize,
}

#[derive(Clone, Serialize, Deserialize)]
struct StoredResponse {
    at_ms: i64,
    request: String,
    /// The decision. Records of earlier versions contain the page, too, and have no `page`.
    outcome: Result<CommandResponse, Refusal>,
    /// The score whose page the response contains beside the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    page: Option<SubmittedPage>,
}

/// The outcome of an earlier request, and the score whose page to render with it.
pub(crate) type StoredOutcome = (Result<CommandResponse, Refusal>, Option<SubmittedPage>);

impl StoredResponse {
    fn bytes(&self, key: &str) -> usize {
        let outcome = match &self.outcome {
            Ok(response) => response.json.len(),
            Err(refusal) => refusal.detail.len() + refusal.field.as_ref().map_or(0, String::len),
        };
        let page = self.page.as_ref().map_or(0, SubmittedPage::bytes);
        ENTRY_BYTES + 2 * key.len() + self.request.len() + outcome + page
    }
}

impl IdempotentResponses {
    /// Returns the outcome of an earlier request with this key, or a refusal if that request was a different one.
    pub(crate) fn get(&self, request: &Idempotency, now_ms: i64) -> Option<StoredOutcome> {
        let stored = self.by_key.get(&request.key).filter(|it| it.at_ms + WINDOW_MS > now_ms)?;
        if stored.request != request.request {
            let refusal = Refusal::conflict("this Idempotency-Key was already used for another request");
            return Some((Err(refusal), None));
        }
        Some((stored.outcome.clone(), stored.page.clone()))
    }

    pub(crate) fn insert(
        &mut self,
        request: Idempotency,
        outcome: &Result<CommandResponse, Refusal>,
        page: Option<&SubmittedPage>,
        now_ms: i64,
    ) {
        let (outcome, page) = (outcome.clone(), page.cloned());
        let stored = StoredResponse { at_ms: now_ms, request: request.request, outcome, page };
        self.evict(now_ms, stored.bytes(&request.key));
        self.changed.push(request.key.clone());
        self.put(request.key, stored);
    }

    fn group(&mut self, key: &str) -> &mut ResponseGroup {
        if key.starts_with(PUBLIC_PREFIX) { &mut self.public } else { &mut self.trusted }
    }

    fn put(&mut self, key: String, stored: StoredResponse) {
        self.remove(&key);
        let bytes = stored.bytes(&key);
        let group = self.group(&key);
        group.bytes += bytes;
        group.order.push_back((stored.at_ms, key.clone()));
        self.by_key.insert(key, stored);
    }

    fn remove(&mut self, key: &str) {
        if let Some(removed) = self.by_key.remove(key) {
            self.group(key).bytes -= removed.bytes(key);
        }
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
        let is_in_page = |it: &StoredResponse| it.page.as_ref().is_some_and(|page| page.names(player));
        let is_about = |key: &str, it: &StoredResponse| {
            is_named(key) || it.outcome.as_ref().is_ok_and(is_in_response) || is_in_page(it)
        };
        let removed: Vec<String> =
            self.by_key.iter().filter(|(key, it)| is_about(key, it)).map(|(key, _)| key.clone()).collect();
        for key in removed {
            self.remove(&key);
            self.changed.push(key);
        }
        let by_key = &self.by_key;
        for group in [&mut self.public, &mut self.trusted] {
            group.order.retain(|(at_ms, key)| by_key.get(key).is_some_and(|it| it.at_ms == *at_ms));
        }
    }

    /// Evicts old responses, and as many others as are needed for a new one of `bytes`. Requests with a public key evict
    /// no response to a server unless those have more than their share.
    fn evict(&mut self, now_ms: i64, bytes: usize) {
        for is_public in [true, false] {
            while self.oldest(is_public).is_some_and(|at_ms| at_ms + WINDOW_MS <= now_ms) {
                self.evict_oldest(is_public);
            }
        }
        while self.len() >= KEYS_MAX || self.bytes() + bytes > BYTES_MAX {
            let is_over_share = self.public.order.len() > KEYS_MAX / PUBLIC_SHARE
                || self.public.bytes > BYTES_MAX / PUBLIC_SHARE;
            let is_public = is_over_share || self.trusted.order.is_empty();
            if self.oldest(is_public).is_none() {
                return;
            }
            self.evict_oldest(is_public);
        }
    }

    fn len(&self) -> usize {
        self.public.order.len() + self.trusted.order.len()
    }

    fn bytes(&self) -> usize {
        self.public.bytes + self.trusted.bytes
    }

    /// Returns the time of the oldest response of a group.
    fn oldest(&self, is_public: bool) -> Option<i64> {
        let group = if is_public { &self.public } else { &self.trusted };
        group.order.front().map(|(at_ms, _)| *at_ms)
    }

    fn evict_oldest(&mut self, is_public: bool) {
        let group = if is_public { &mut self.public } else { &mut self.trusted };
        let Some((at_ms, key)) = group.order.pop_front() else { return };
        if self.by_key.get(&key).is_some_and(|it| it.at_ms == at_ms) {
            self.remove(&key);
            self.changed.push(key);
        }
    }
}

impl Subject for IdempotentResponses {
    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecordError> {
        let key = String::from_utf8_lossy(key).into_owned();
        let stored: StoredResponse = serde_json::from_slice(value)?;
        self.put(key, stored);
        Ok(())
    }

    fn finish_restore(&mut self) {
        for group in [&mut self.public, &mut self.trusted] {
            group.order.make_contiguous().sort_unstable();
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn request(key: usize) -> Idempotency {
        Idempotency { key: format!("public:{key}"), request: "digest".to_owned() }
    }

    #[test]
    fn responses_are_bounded_by_their_memory() {
        let mut responses = IdempotentResponses::default();
        let large = CommandResponse { status: 200, json: "x".repeat(1 << 20) };
        for key in 0..200 {
            responses.insert(request(key), &Ok(large.clone()), None, key as i64);
            assert!(responses.bytes() <= BYTES_MAX, "{} bytes", responses.bytes());
        }
        let kept = (0..200).filter(|key| responses.get(&request(*key), 200).is_some());
        assert_eq!(kept.collect::<Vec<_>>(), (137..200).collect::<Vec<_>>(), "the newest are kept");
        let mut writes = Vec::new();
        responses.write_changes(&mut RecordWriter::new(1, 0, &mut writes));
        let mut restored = IdempotentResponses::default();
        for write in writes {
            if let Some(value) = write.value {
                restored.restore(&write.key[5..], &value).expect("it was written");
            }
        }
        restored.finish_restore();
        assert_eq!(restored.bytes(), responses.bytes());
        restored.insert(request(137), &Ok(CommandResponse::no_content()), None, 300);
        (138..200).for_each(|key| restored.remove(&format!("public:{key}")));
        restored.remove("public:137");
        assert_eq!(restored.bytes(), 0);
    }

    #[test]
    fn requests_with_a_public_key_evict_no_response_to_a_server() {
        let mut responses = IdempotentResponses::default();
        let key = |of: &str, key: usize| Idempotency { key: format!("{of}:{key}"), request: "d".to_owned() };
        let large = Ok(CommandResponse { status: 200, json: "x".repeat(1 << 20) });
        let kept = |responses: &IdempotentResponses, of: &str| {
            (0..200).filter(|number| responses.get(&key(of, *number), 0).is_some()).count()
        };
        responses.insert(key("server", 0), &large, None, 0);
        responses.insert(key("person", 0), &large, None, 0);
        (0..200).for_each(|number| responses.insert(key("public", number), &large, None, 0));
        assert_eq!(["server", "person", "public"].map(|of| kept(&responses, of)), [1, 1, 61]);
        (0..200).for_each(|number| responses.insert(key("server", number), &large, None, 0));
        assert_eq!(["server", "person", "public"].map(|of| kept(&responses, of)), [48, 0, 15]);
        (0..200).for_each(|number| responses.insert(key("public", number), &large, None, 0));
        assert_eq!(["server", "public"].map(|of| kept(&responses, of)), [47, 16]);
    }

    #[test]
    fn record_of_an_earlier_version_is_read() {
        let mut responses = IdempotentResponses::default();
        let record =
            br#"{"at_ms":5,"request":"digest","outcome":{"Ok":{"status":200,"json":"{\"rows\":[]}"}}}"#;
        responses.restore(b"public:1", record).expect("it can be read");
        let expected = Ok(CommandResponse { status: 200, json: r#"{"rows":[]}"#.to_owned() });
        assert_eq!(responses.get(&request(1), 6).map(|(outcome, _)| outcome), Some(expected));
    }
}
