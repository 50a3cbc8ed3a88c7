//! Token buckets by key, refilled over time.
//!
//! The buckets of the least recently seen keys are evicted; an evicted bucket starts full again. So memory is bounded
//! for any traffic, and no background sweep is needed.

use std::hash::{BuildHasher, Hash};

use hashbrown::{DefaultHashBuilder, HashMap};
use parking_lot::Mutex;

/// Senders of different shards do not wait for each other.
const SHARDS: usize = 16;
/// Keys in one of the two generations of a shard: up to 131,072 keys of 32 bytes in all, plus the table slots.
const KEYS_MAX: usize = 4_096;

/// The buckets of one kind of sender.
pub(crate) struct TokenBuckets {
    per_second: f64,
    /// The most tokens that a sender can save up.
    size: f64,
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

impl TokenBuckets {
    /// Each sender may send `per_second` events, and after a pause as many as in `burst_s` seconds at once; 0 means no
    /// limit.
    pub(crate) fn new(per_second: f64, burst_s: f64) -> TokenBuckets {
        let (size, hasher) = (per_second * burst_s, DefaultHashBuilder::default());
        TokenBuckets { per_second, size, hasher, shards: std::array::from_fn(|_| Mutex::default()) }
    }

    pub(crate) fn per_second(&self) -> u64 {
        self.per_second as u64
    }

    pub(crate) fn is_on(&self) -> bool {
        self.per_second > 0.0
    }

    /// Acquires tokens for a sender, or returns the number of seconds after which to retry.
    ///
    /// A request larger than the bucket is granted when the bucket is full and leaves it in debt.
    pub(crate) fn acquire(&self, sender: impl Hash, tokens: usize, now_ms: i64) -> Result<(), u32> {
        if !self.is_on() {
            return Ok(());
        }
        let key = self.hasher.hash_one(sender);
        let mut shard = self.shards[key as usize % SHARDS].lock();
        let full = Bucket { tokens: self.size, at_ms: now_ms };
        self.refill_and_acquire(shard.bucket(key, full), tokens as f64, now_ms)
    }

    /// As [`TokenBuckets::acquire`], without taking the tokens.
    pub(crate) fn check(&self, sender: impl Hash, tokens: usize, now_ms: i64) -> Result<(), u32> {
        if !self.is_on() {
            return Ok(());
        }
        let key = self.hasher.hash_one(sender);
        let shard = self.shards[key as usize % SHARDS].lock();
        match shard.young.get(&key).or_else(|| shard.old.get(&key)) {
            Some(bucket) => {
                let mut copy = *bucket;
                self.refill_and_acquire(&mut copy, tokens as f64, now_ms)
            }
            None => Ok(()),
        }
    }

    fn refill_and_acquire(&self, bucket: &mut Bucket, tokens: f64, now_ms: i64) -> Result<(), u32> {
        let size = self.size;
        let elapsed_s = (now_ms - bucket.at_ms).max(0) as f64 / 1000.0;
        bucket.tokens = (bucket.tokens + elapsed_s * self.per_second).min(size);
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
        let buckets = TokenBuckets::new(10.0, 10.0);
        assert_eq!(buckets.acquire(1, 100, 0), Ok(()));
        assert_eq!(buckets.acquire(1, 5, 0), Err(1));
        assert_eq!(buckets.acquire(1, 30, 0), Err(3));
        assert_eq!(buckets.acquire(1, 30, 3_000), Ok(()));
        assert_eq!(buckets.acquire(2, 100, 3_000), Ok(()), "another sender has a bucket of its own");
    }

    #[test]
    fn a_request_larger_than_the_bucket_needs_a_full_one_and_leaves_it_in_debt() {
        let buckets = TokenBuckets::new(10.0, 10.0);
        assert_eq!(buckets.acquire(1, 300, 0), Ok(()));
        assert_eq!(buckets.acquire(1, 1, 20_000), Err(1));
        assert_eq!(buckets.acquire(1, 1, 20_100), Ok(()));
    }

    #[test]
    fn a_clock_that_jumps_back_changes_no_bucket() {
        let buckets = TokenBuckets::new(10.0, 10.0);
        assert_eq!(buckets.acquire(1, 100, 60_000), Ok(()));
        assert_eq!(buckets.acquire(1, 1, 0), Err(1));
        assert_eq!(buckets.acquire(1, 1, 100), Ok(()));
    }

    #[test]
    fn without_a_rate_there_is_no_limit() {
        assert_eq!(TokenBuckets::new(0.0, 10.0).acquire(1, usize::MAX, 0), Ok(()));
    }

    #[test]
    fn memory_is_bounded_and_active_senders_keep_their_buckets() {
        let buckets = TokenBuckets::new(1.0, 10.0);
        assert_eq!(buckets.acquire("me", 10, 0), Ok(()));
        for crowd in 0..20u64 {
            for other in 0..10_000u64 {
                let _ = buckets.acquire((crowd, other), 1, 0);
            }
            assert_eq!(buckets.acquire("me", 1, 0), Err(1));
        }
        let kept = |shard: &Mutex<Shard>| {
            let shard = shard.lock();
            shard.young.len() + shard.old.len()
        };
        assert!(buckets.shards.iter().map(kept).sum::<usize>() <= 2 * SHARDS * KEYS_MAX);
    }
}
