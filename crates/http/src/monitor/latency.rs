//! How long things took, as counts in buckets of equal ratio: small, exact to a tenth, and added up without loss.

use std::time::Duration;

/// Buckets per doubling: neighbours differ by less than a fifth.
const PER_DOUBLING: u32 = 4;
/// From one microsecond to a bit more than two minutes.
const DOUBLINGS: u32 = 27;
const BUCKETS: usize = (DOUBLINGS * PER_DOUBLING) as usize;

/// Counts of durations.
#[derive(Clone, Debug)]
pub struct Latency {
    buckets: [u32; BUCKETS],
    count: u64,
    total_us: u64,
}

impl Default for Latency {
    fn default() -> Latency {
        Latency { buckets: [0; BUCKETS], count: 0, total_us: 0 }
    }
}

impl Latency {
    /// Counts one.
    pub fn observe(&mut self, took: Duration) {
        let us = took.as_micros().min(u128::from(u64::MAX)) as u64;
        let bucket = &mut self.buckets[bucket_of(us)];
        *bucket = bucket.saturating_add(1);
        self.count += 1;
        self.total_us += us;
    }

    /// Adds those of another.
    pub fn add(&mut self, other: &Latency) {
        let pairs = self.buckets.iter_mut().zip(other.buckets);
        pairs.for_each(|(own, other)| *own = own.saturating_add(other));
        self.count += other.count;
        self.total_us += other.total_us;
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Microseconds of all together.
    pub fn total_us(&self) -> u64 {
        self.total_us
    }

    /// The buckets that are not empty: the most microseconds in each, and how many there are.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u32)> {
        let counted = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(bucket, count)| (upper_us(bucket), *count))
    }

    /// Microseconds that this share did not exceed, to the upper end of its bucket. `None`: there were none.
    pub fn quantile_us(&self, share: f64) -> Option<u64> {
        let rank = ((share * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let place = self.buckets.iter().position(|count| {
            seen += u64::from(*count);
            seen >= rank
        })?;
        Some(upper_us(place))
    }
}

fn bucket_of(us: u64) -> usize {
    let us = us.max(1);
    let doubling = us.ilog2();
    // The two bits below the highest say which quarter of the doubling.
    let quarter = if doubling >= 2 { us >> (doubling - 2) & 3 } else { us << (2 - doubling) & 3 };
    ((doubling * PER_DOUBLING) as usize + quarter as usize).min(BUCKETS - 1)
}

/// The largest number of microseconds in a bucket.
fn upper_us(bucket: usize) -> u64 {
    let (doubling, quarter) = (bucket as u32 / PER_DOUBLING, bucket as u64 % u64::from(PER_DOUBLING));
    ((u64::from(PER_DOUBLING) + quarter + 1) << doubling) / u64::from(PER_DOUBLING) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(times_us: &[u64]) -> Latency {
        let mut latency = Latency::default();
        times_us.iter().for_each(|us| latency.observe(Duration::from_micros(*us)));
        latency
    }

    #[test]
    fn quantiles_are_right_to_a_quarter() {
        let latency = of(&(1..=1_000).collect::<Vec<_>>());
        let check = |share, exact: f64| {
            let found = latency.quantile_us(share).expect("there are some") as f64;
            assert!((exact..exact * 1.25).contains(&found), "{share}: {found}, exactly {exact}");
        };
        check(0.5, 500.0);
        check(0.99, 990.0);
        assert_eq!(Latency::default().quantile_us(0.5), None);
        assert_eq!((latency.count(), latency.total_us()), (1_000, 500_500));
    }

    proptest! {
        #[test]
        fn every_time_is_in_the_bucket_that_ends_at_or_above_it(us in 1u64..1 << 26) {
            let bucket = bucket_of(us);
            prop_assert!(us <= upper_us(bucket));
            prop_assert!(bucket == 0 || us > upper_us(bucket - 1) || upper_us(bucket - 1) == upper_us(bucket));
        }

        #[test]
        fn parts_add_up_to_the_whole(one in prop::collection::vec(0u64..1 << 40, 0..20), other in prop::collection::vec(0u64..1 << 40, 0..20)) {
            let mut parts = of(&one);
            parts.add(&of(&other));
            let whole = of(&[one, other].concat());
            prop_assert_eq!(parts.buckets, whole.buckets);
            prop_assert_eq!((parts.count(), parts.total_us()), (whole.count(), whole.total_us()));
        }
    }
}
