//! The outcomes of recent batches of events, so that a client that lost a response can ask for it.
//!
//! A page that is left passes its events to the browser and never sees the response. The next page asks for the outcome
//! by the id of the batch instead of sending all events again. Only in memory: a batch that was dropped, or that another
//! server received, is sent again and deduplicated by its event ids.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

/// Shards with a lock each.
const SHARDS: usize = 16;
/// Batches per shard; the oldest are dropped first. All together use less than 10 MiB.
const BATCHES_PER_SHARD_MAX: usize = 4_096;

/// The number of a game and the id of a batch, which the client chose.
type BatchKey = (u32, u128);

/// The numbers of events by outcome, in the order of [`model::Outcome::ALL`].
pub(crate) type OutcomeCounts = [u32; 5];

/// The outcomes of recent batches.
#[derive(Default)]
pub struct BatchReceipts {
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Default)]
struct Shard {
    outcomes: HashMap<BatchKey, OutcomeCounts>,
    /// The keys of `outcomes`, oldest first.
    order: VecDeque<BatchKey>,
}

impl BatchReceipts {
    /// Stores the outcome of a batch that is durable. A repeated batch keeps its first outcome.
    pub(crate) fn record(&self, game: u32, batch: u128, outcomes: OutcomeCounts) {
        let key = (game, batch);
        let mut shard = self.shard(batch).lock();
        if shard.outcomes.contains_key(&key) {
            return;
        }
        if shard.order.len() >= BATCHES_PER_SHARD_MAX
            && let Some(oldest) = shard.order.pop_front()
        {
            shard.outcomes.remove(&oldest);
        }
        shard.order.push_back(key);
        shard.outcomes.insert(key, outcomes);
    }

    /// Returns the outcome of a batch of this game, if it is known.
    pub(crate) fn get(&self, game: u32, batch: u128) -> Option<OutcomeCounts> {
        self.shard(batch).lock().outcomes.get(&(game, batch)).copied()
    }

    fn shard(&self, batch: u128) -> &Mutex<Shard> {
        &self.shards[batch as usize % SHARDS]
    }
}

/// Parses the id of a batch: a UUID in its usual form.
pub(crate) fn parse_batch(text: &str) -> Option<u128> {
    let dashes = text.len() == 36 && [8, 13, 18, 23].into_iter().all(|at| text.as_bytes()[at] == b'-');
    let digits = text.replace('-', "");
    let is_hex = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    (dashes && is_hex).then(|| u128::from_str_radix(&digits, 16).expect("32 hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcome_belongs_to_one_game_and_the_first_one_stays() {
        let receipts = BatchReceipts::default();
        receipts.record(1, 7, [3, 0, 0, 0, 1]);
        receipts.record(1, 7, [0, 3, 0, 0, 1]);
        assert_eq!((receipts.get(1, 7), receipts.get(2, 7)), (Some([3, 0, 0, 0, 1]), None));
    }

    #[test]
    fn number_of_batches_in_memory_is_limited() {
        let receipts = BatchReceipts::default();
        let batches = 2 * (SHARDS * BATCHES_PER_SHARD_MAX) as u128;
        (0..batches).for_each(|batch| receipts.record(1, batch, [1, 0, 0, 0, 0]));
        let sizes = receipts.shards.iter().map(|shard| {
            let shard = shard.lock();
            assert_eq!(shard.outcomes.len(), shard.order.len());
            shard.order.len()
        });
        assert_eq!(sizes.sum::<usize>() as u128, batches / 2);
        assert_eq!((receipts.get(1, 0), receipts.get(1, batches - 1)), (None, Some([1, 0, 0, 0, 0])));
    }

    #[test]
    fn batch_id_is_a_uuid() {
        assert_eq!(parse_batch("00000000-0000-7000-8000-00000000002A"), Some(0x7000_8000_0000_0000_002a));
        let wrong = ["", "7", "000000000000700080000000000000002a", "+0000000-0000-7000-8000-00000000002a"];
        let wrong =
            [&wrong[..], &["0000000-00000-7000-8000-00000000002a", "é000000-0000-7000-8000-00000000002a"]];
        wrong.concat().into_iter().for_each(|text| assert_eq!(parse_batch(text), None, "{text}"));
    }
}
