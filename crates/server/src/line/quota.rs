//! How many events a game may send: a token bucket each, filled by time.

use std::collections::HashMap;

use parking_lot::Mutex;

/// A quiet game may send so many seconds' worth at once.
const BURST_S: f64 = 10.0;

/// The buckets of all games. As many as there are games, which is bounded.
pub struct Quota {
    events_per_second: f64,
    buckets: Mutex<HashMap<u32, Bucket>>,
}

struct Bucket {
    tokens: f64,
    at_ms: i64,
}

impl Quota {
    /// A quota for each game; 0: none.
    pub fn new(events_per_second: u64) -> Quota {
        Quota { events_per_second: events_per_second as f64, buckets: Mutex::default() }
    }

    /// What each game may send; 0: as much as it likes.
    pub fn events_per_second(&self) -> u64 {
        self.events_per_second as u64
    }

    /// Takes so many events of a game now, or says after how many seconds to try again.
    ///
    /// A request larger than the bucket is taken when the bucket is full, and pays in time afterwards.
    pub fn take(&self, game: u32, events: usize, now_ms: i64) -> Result<(), u32> {
        if self.events_per_second == 0.0 {
            return Ok(());
        }
        let size = self.events_per_second * BURST_S;
        let mut buckets = self.buckets.lock();
        let bucket = buckets.entry(game).or_insert(Bucket { tokens: size, at_ms: now_ms });
        let passed_s = (now_ms - bucket.at_ms).max(0) as f64 / 1000.0;
        bucket.tokens = (bucket.tokens + passed_s * self.events_per_second).min(size);
        bucket.at_ms = now_ms;
        let needed = (events as f64).min(size);
        if bucket.tokens < needed {
            return Err(((needed - bucket.tokens) / self.events_per_second).ceil().max(1.0) as u32);
        }
        bucket.tokens -= events as f64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_game_may_send_its_rate_and_a_burst() {
        let quota = Quota::new(10);
        assert_eq!(quota.take(1, 100, 0), Ok(()));
        assert_eq!(quota.take(1, 5, 0), Err(1));
        assert_eq!(quota.take(1, 30, 0), Err(3));
        assert_eq!(quota.take(1, 30, 3_000), Ok(()));
        assert_eq!(quota.take(2, 100, 3_000), Ok(()), "another game has a bucket of its own");
    }

    #[test]
    fn a_request_larger_than_the_bucket_waits_for_a_full_one_and_pays_afterwards() {
        let quota = Quota::new(10);
        assert_eq!(quota.take(1, 300, 0), Ok(()));
        assert_eq!(quota.take(1, 1, 20_000), Err(1));
        assert_eq!(quota.take(1, 1, 20_100), Ok(()));
    }

    #[test]
    fn a_clock_that_goes_back_gives_and_takes_nothing() {
        let quota = Quota::new(10);
        assert_eq!(quota.take(1, 100, 60_000), Ok(()));
        assert_eq!(quota.take(1, 1, 0), Err(1));
        assert_eq!(quota.take(1, 1, 100), Ok(()));
    }

    #[test]
    fn without_a_quota_everything_is_taken() {
        assert_eq!(Quota::new(0).take(1, usize::MAX, 0), Ok(()));
    }
}
