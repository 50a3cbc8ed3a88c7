//! A histogram of durations with buckets of equal ratio: small, and merged without loss.

use std::time::Duration;

/// Buckets per doubling: the upper end of a bucket is at most a quarter above its lower end.
const PER_DOUBLING: u32 = 4;
/// The range: 1 µs to a little more than two minutes.
const DOUBLINGS: u32 = 27;
const BUCKETS: usize = (DOUBLINGS * PER_DOUBLING) as usize;

/// Counts durations by bucket, with an exact count and sum.
#[derive(Clone, Debug)]
pub(super) struct LatencyHistogram {
    buckets: [u32; BUCKETS],
    count: u64,
    total_us: u64,
}

impl Default for LatencyHistogram {
    fn default() -> LatencyHistogram {
        LatencyHistogram { buckets: [0; BUCKETS], count: 0, total_us: 0 }
    }
}

impl LatencyHistogram {
    /// Counts one duration.
    pub(super) fn observe(&mut self, took: Duration) {
        let us = took.as_micros().min(u128::from(u64::MAX)) as u64;
        let bucket = &mut self.buckets[bucket_of(us)];
        *bucket = bucket.saturating_add(1);
        self.count += 1;
        self.total_us += us;
    }

    /// Adds the counts of another histogram.
    pub(super) fn add(&mut self, other: &LatencyHistogram) {
        let pairs = self.buckets.iter_mut().zip(other.buckets);
        pairs.for_each(|(own, other)| *own = own.saturating_add(other));
        self.count += other.count;
        self.total_us += other.total_us;
    }

    /// Returns the number of durations.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of all durations in microseconds.
    pub(super) fn total_us(&self) -> u64 {
        self.total_us
    }

    /// Returns the non-empty buckets: the upper end in microseconds, and the count.
    pub(super) fn buckets(&self) -> impl Iterator<Item = (u64, u32)> {
        let counted = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(bucket, count)| (upper_us(bucket), *count))
    }

    /// Returns a quantile in microseconds, rounded up to the end of its bucket; `None` if the histogram is empty.
    pub(super) fn quantile_us(&self, quantile: f64) -> Option<u64> {
        let rank = ((quantile * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let bucket = self.buckets.iter().position(|count| {
            seen += u64::from(*count);
            seen >= rank
        })?;
        Some(upper_us(bucket))
    }
}

fn bucket_of(us: u64) -> usize {
    let us = us.max(1);
    let doubling = us.ilog2();
    // The two bits below the highest select the quarter of the doubling.
    let quarter = if doubling >= 2 { us >> (doubling - 2) & 3 } else { us << (2 - doubling) & 3 };
    ((doubling * PER_DOUBLING) as usize + quarter as usize).min(BUCKETS - 1)
}

/// Returns the upper end of a bucket in microseconds.
fn upper_us(bucket: usize) -> u64 {
    let (doubling, quarter) = (bucket as u32 / PER_DOUBLING, bucket as u64 % u64::from(PER_DOUBLING));
    ((u64::from(PER_DOUBLING) + quarter + 1) << doubling) / u64::from(PER_DOUBLING) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn histogram(times_us: &[u64]) -> LatencyHistogram {
        let mut latency = LatencyHistogram::default();
        times_us.iter().for_each(|us| latency.observe(Duration::from_micros(*us)));
        latency
    }

    #[test]
    fn quantiles_are_at_most_a_quarter_too_high() {
        let latency = histogram(&(1..=1_000).collect::<Vec<_>>());
        let check = |quantile, exact: f64| {
            let found = latency.quantile_us(quantile).expect("the histogram is not empty") as f64;
            assert!((exact..exact * 1.25).contains(&found), "{quantile}: {found}, exactly {exact}");
        };
        check(0.5, 500.0);
        check(0.99, 990.0);
        assert_eq!(LatencyHistogram::default().quantile_us(0.5), None);
        assert_eq!((latency.count(), latency.total_us()), (1_000, 500_500));
    }

    proptest! {
        #[test]
        fn duration_is_counted_in_the_bucket_that_ends_at_or_above_it(us in 1u64..1 << 26) {
            let bucket = bucket_of(us);
            prop_assert!(us <= upper_us(bucket));
            prop_assert!(bucket == 0 || us > upper_us(bucket - 1) || upper_us(bucket - 1) == upper_us(bucket));
        }

        #[test]
        fn merged_parts_equal_the_whole(one in prop::collection::vec(0u64..1 << 40, 0..20), other in prop::collection::vec(0u64..1 << 40, 0..20)) {
            let mut parts = histogram(&one);
            parts.add(&histogram(&other));
            let whole = histogram(&[one, other].concat());
            prop_assert_eq!(parts.buckets, whole.buckets);
            prop_assert_eq!((parts.count(), parts.total_us()), (whole.count(), whole.total_us()));
        }
    }
}
