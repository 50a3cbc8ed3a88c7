//! Token buckets by key, filled by time.
//!
//! A bucket is remembered while its key is among the last ones seen; one that is forgotten starts full. So memory is
//! bounded whatever comes, and nothing has to be swept.

use std::hash::{BuildHasher, Hash};

use hashbrown::{DefaultHashBuilder, HashMap};
use parking_lot::Mutex;

/// A quiet sender may send so many seconds' worth at once.
const BURST_S: f64 = 10.0;
/// Senders of different shards do not wait for each other.
const SHARDS: usize = 16;
/// Keys remembered in a generation of a shard. There are two: up to 131,072 keys of 32 bytes and their places.
const KEYS_MAX: usize = 4_096;

/// The buckets of one kind of sender.
pub(super) struct Buckets {
    per_second: f64,
    hasher: DefaultHashBuilder,
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Default)]
struct Shard {
    young: HashMap<u64, Bucket>,
    old: HashMap<u64, Bucket>,
}

#[derive(Clone, Copy)]
struct Bucket {
    tokens: f64,
    at_ms: i64,
}

impl Buckets {
    /// So many a second for each; 0: as many as they like.
    pub(super) fn new(per_second: u64) -> Buckets {
        let shards = std::array::from_fn(|_| Mutex::default());
        Buckets { per_second: per_second as f64, hasher: DefaultHashBuilder::default(), shards }
    }

    pub(super) fn per_second(&self) -> u64 {
        self.per_second as u64
    }

    pub(super) fn is_on(&self) -> bool {
        self.per_second > 0.0
    }

    /// Takes so many tokens of a sender now, or says after how many seconds to try again.
    ///
    /// More than the bucket holds is taken when the bucket is full, and paid in time afterwards.
    pub(super) fn take(&self, sender: impl Hash, tokens: usize, now_ms: i64) -> Result<(), u32> {
        if !self.is_on() {
            return Ok(());
        }
        let key = self.hasher.hash_one(sender);
        let mut shard = self.shards[key as usize % SHARDS].lock();
        let full = Bucket { tokens: self.per_second * BURST_S, at_ms: now_ms };
        self.pour(shard.bucket(key, full), tokens as f64, now_ms)
    }

    fn pour(&self, bucket: &mut Bucket, tokens: f64, now_ms: i64) -> Result<(), u32> {
        let size = self.per_second * BURST_S;
        let passed_s = (now_ms - bucket.at_ms).max(0) as f64 / 1000.0;
        bucket.tokens = (bucket.tokens + passed_s * self.per_second).min(size);
        bucket.at_ms = now_ms;
        let needed = tokens.min(size);
        if bucket.tokens < needed {
            return Err(((needed - bucket.tokens) / self.per_second).ceil().max(1.0) as u32);
        }
        bucket.tokens -= tokens;
        Ok(())
    }
}

impl Shard {
    fn bucket(&mut self, key: u64, full: Bucket) -> &mut Bucket {
        if self.young.len() >= KEYS_MAX && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        let old = &mut self.old;
        self.young.entry(key).or_insert_with(|| old.remove(&key).unwrap_or(full))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_may_send_its_rate_and_a_burst() {
        let buckets = Buckets::new(10);
        assert_eq!(buckets.take(1, 100, 0), Ok(()));
        assert_eq!(buckets.take(1, 5, 0), Err(1));
        assert_eq!(buckets.take(1, 30, 0), Err(3));
        assert_eq!(buckets.take(1, 30, 3_000), Ok(()));
        assert_eq!(buckets.take(2, 100, 3_000), Ok(()), "another sender has a bucket of its own");
    }

    #[test]
    fn more_than_the_bucket_holds_waits_for_a_full_one_and_is_paid_afterwards() {
        let buckets = Buckets::new(10);
        assert_eq!(buckets.take(1, 300, 0), Ok(()));
        assert_eq!(buckets.take(1, 1, 20_000), Err(1));
        assert_eq!(buckets.take(1, 1, 20_100), Ok(()));
    }

    #[test]
    fn a_clock_that_goes_back_gives_and_takes_nothing() {
        let buckets = Buckets::new(10);
        assert_eq!(buckets.take(1, 100, 60_000), Ok(()));
        assert_eq!(buckets.take(1, 1, 0), Err(1));
        assert_eq!(buckets.take(1, 1, 100), Ok(()));
    }

    #[test]
    fn without_a_rate_everything_is_taken() {
        assert_eq!(Buckets::new(0).take(1, usize::MAX, 0), Ok(()));
    }

    #[test]
    fn memory_is_bounded_and_who_comes_again_is_remembered() {
        let buckets = Buckets::new(1);
        assert_eq!(buckets.take("me", 10, 0), Ok(()));
        for crowd in 0..20u64 {
            for other in 0..10_000u64 {
                let _ = buckets.take((crowd, other), 1, 0);
            }
            assert_eq!(buckets.take("me", 1, 0), Err(1));
        }
        let kept = |shard: &Mutex<Shard>| {
            let shard = shard.lock();
            shard.young.len() + shard.old.len()
        };
        assert!(buckets.shards.iter().map(kept).sum::<usize>() <= 2 * SHARDS * KEYS_MAX);
    }
}
