//! Quantiles of values, to within one percent.

use super::bytes::{ByteReader, Corrupt, put_signed, put_varint};

/// Counts values by bucket, so that every quantile is known with a relative error below 1 %.
///
/// This is a DDSketch (Masson, Rim, Lee, "DDSketch", VLDB 2019) that never collapses its 7,001 buckets, so merging
/// is addition and order does not matter. Values can be removed again.
#[derive(Clone, Debug, Default)]
pub struct Quantiles {
    total: i64,
    counts: Counts,
}

/// The bucket of a value: 0, or one of 3,500 buckets of either sign. Buckets are ordered as values are.
///
/// Between two powers of two, 2^e and 2^(e+1), there are 35 buckets: bucket ⌊35e + 6s³ - 21s² + 50s⌋ for 2^e (1 +
/// s). This is 35 times the cubic that the reference implementations of DDSketch use for the logarithm (A = 6/35, B
/// = -3/5, C = 10/7). No bucket is wider than e^0.02, so no value in it is further than tanh 0.01 < 1 % from
/// `Bucket::value`. It needs no logarithm, so all machines agree.
///
/// Values below 2^-40 (0.9e-12) count as zero; values of 2^60 (1.15e18) and more go to the last bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(i16);

const PER_OCTAVE: i16 = 35;
const OCTAVE_MIN: i16 = -40;
const OCTAVES: i16 = 100;
const BUCKET_MAX: i16 = PER_OCTAVE * OCTAVES;

impl Bucket {
    /// Returns the bucket of a finite number.
    #[inline]
    pub fn of(value: f64) -> Bucket {
        let bits = value.to_bits();
        let octave = (bits >> 52 & 0x7ff) as i16 - 1_023 - OCTAVE_MIN;
        let s = f64::from_bits(bits & ((1 << 52) - 1) | 1.0f64.to_bits()) - 1.0;
        let inside = (((6.0 * s - 21.0) * s + 50.0) * s) as i16;
        let position = match octave {
            ..0 => 0,
            OCTAVES.. => BUCKET_MAX,
            _ => (octave * PER_OCTAVE + inside + 1).min(BUCKET_MAX),
        };
        Bucket(if value < 0.0 { -position } else { position })
    }

    /// Returns the representative value, which is within 1 % of every value in the bucket.
    pub(crate) fn value(self) -> f64 {
        let Some(position) = self.0.unsigned_abs().checked_sub(1) else { return 0.0 };
        let octave = i64::from(position / PER_OCTAVE as u16) + i64::from(OCTAVE_MIN);
        let power = f64::from_bits(((octave + 1_023) as u64) << 52);
        let value = MIDDLES[usize::from(position % PER_OCTAVE as u16)] * power;
        if self.0 < 0 { -value } else { value }
    }
}

/// For each bucket of the first octave, the value with the same relative distance to both of its ends.
static MIDDLES: [f64; PER_OCTAVE as usize] = middles();

const fn middles() -> [f64; PER_OCTAVE as usize] {
    let mut middles = [0.0; PER_OCTAVE as usize];
    let mut inside = 0;
    while inside < middles.len() {
        let (low, high) = (1.0 + start(inside), 1.0 + start(inside + 1));
        middles[inside] = 2.0 * low * high / (low + high);
        inside += 1;
    }
    middles
}

/// Returns the s at which 6s³ - 21s² + 50s reaches `inside`.
const fn start(inside: usize) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    let mut halvings = 0;
    while halvings < 53 {
        let s = (low + high) / 2.0;
        if ((6.0 * s - 21.0) * s + 50.0) * s < inside as f64 {
            low = s
        } else {
            high = s
        }
        halvings += 1;
    }
    high
}

/// Counts by bucket. May include buckets with a count of zero.
#[derive(Clone, Debug)]
enum Counts {
    /// A single bucket, as most aggregates have; empty if its count is zero.
    One([(Bucket, i64); 1]),
    /// A sorted list.
    Sparse(Vec<(Bucket, i64)>),
    /// All buckets from `first` on. The zero bucket is kept separately, because it is far below all others.
    Window { first: i16, counts: Box<[i32]>, zeros: i32 },
}

/// A full window takes a quarter of the memory of a list, a quarter-full one as much as a list, but finding a bucket
/// is five times as fast. A window stays until it is less than an eighth full, to avoid rebuilding it repeatedly.
const WINDOW_PER_ENTRY: usize = 4;
const WINDOW_PER_ENTRY_STAYING: usize = 8;
/// Up to this number, a list is searched fast enough.
const SPARSE_MIN: usize = 8;
const ZERO: Bucket = Bucket(0);

impl Default for Counts {
    fn default() -> Self {
        Counts::One([(Bucket(0), 0)])
    }
}

impl PartialEq for Quantiles {
    fn eq(&self, other: &Self) -> bool {
        self.total == other.total && self.counts.iter().eq(other.counts.iter())
    }
}

impl Quantiles {
    /// Adds `times` values of this bucket, or removes them if `times` is negative.
    #[inline]
    pub fn add(&mut self, bucket: Bucket, times: i64) {
        self.total = self.total.wrapping_add(times);
        self.counts.add(bucket, times);
    }

    /// Adds other quantiles.
    pub fn merge(&mut self, other: &Quantiles) {
        self.total = self.total.wrapping_add(other.total);
        other.counts.iter().for_each(|(bucket, count)| self.counts.add(bucket, count));
    }

    /// Returns the number of values.
    pub fn count(&self) -> i64 {
        self.total
    }

    /// Returns a value within 1 % of the smallest value that is not exceeded by at least the share `q` (0 to 1) of
    /// all values. `None` if there are no values.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let rank = ((q * self.total as f64).ceil() as i64).clamp(1, self.total.max(1));
        let mut passed = 0i64;
        let reached = |(_, count): &(Bucket, i64)| {
            passed = passed.wrapping_add(*count);
            passed >= rank
        };
        self.counts.iter().find(reached).map(|(bucket, _)| bucket.value())
    }

    /// Returns the heap memory in use, in bytes.
    pub fn heap_bytes(&self) -> usize {
        match &self.counts {
            Counts::One(_) => 0,
            Counts::Sparse(entries) => entries.capacity() * size_of::<(Bucket, i64)>(),
            Counts::Window { counts, .. } => size_of_val(&counts[..]),
        }
    }

    /// Encodes the number of buckets in use, and for each twice the number of free buckets before it, plus one if a
    /// count other than 1 follows.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.counts.iter().count() as u64);
        let mut next = -BUCKET_MAX;
        for (Bucket(position), count) in self.counts.iter() {
            put_varint(out, (position - next) as u64 * 2 + u64::from(count != 1));
            if count != 1 {
                put_signed(out, count);
            }
            next = position + 1;
        }
    }

    /// Decodes quantiles written by [`Quantiles::encode`].
    pub(super) fn decode(reader: &mut ByteReader) -> Result<Quantiles, Corrupt> {
        let mut entries = Vec::with_capacity(reader.length(1)?);
        let mut next = i64::from(-BUCKET_MAX);
        for _ in 0..entries.capacity() {
            let head = reader.varint()?;
            let position =
                next.checked_add_unsigned(head >> 1).filter(|position| *position <= BUCKET_MAX.into());
            let position = position.ok_or(Corrupt("a bucket is out of range"))?;
            let count = if head & 1 == 0 { 1 } else { reader.signed()? };
            if head & 1 == 1 && (count == 0 || count == 1) {
                return Err(Corrupt("a bucket's count is malformed"));
            }
            entries.push((Bucket(position as i16), count));
            next = position + 1;
        }
        let total = entries.iter().fold(0i64, |total, (_, count)| total.wrapping_add(*count));
        Ok(Quantiles { total, counts: Counts::of(entries, WINDOW_PER_ENTRY) })
    }
}

impl Counts {
    #[inline]
    fn add(&mut self, bucket: Bucket, times: i64) {
        if !self.try_add(bucket, times) {
            self.insert(bucket, times);
        }
    }

    /// Adds to a bucket that exists; returns false if there is no room for the bucket or its count.
    #[inline]
    fn try_add(&mut self, bucket: Bucket, times: i64) -> bool {
        match self {
            Counts::One([(own, count)]) => {
                if *count == 0 {
                    *own = bucket;
                }
                let same = *own == bucket;
                if same {
                    *count = count.wrapping_add(times);
                }
                same
            }
            Counts::Window { first, counts, zeros } => {
                // Buckets before the first give a very large index.
                let count = match counts.get_mut((bucket.0 - *first) as usize) {
                    Some(count) => count,
                    None if bucket == ZERO => zeros,
                    None => return false,
                };
                let sum = i64::from(*count).wrapping_add(times);
                let fits = i32::try_from(sum);
                *count = fits.unwrap_or(*count);
                fits.is_ok()
            }
            Counts::Sparse(entries) => {
                let found = entries.binary_search_by_key(&bucket, |(bucket, _)| *bucket);
                if let Ok(at) = found {
                    entries[at].1 = entries[at].1.wrapping_add(times);
                }
                found.is_ok()
            }
        }
    }

    /// Makes room for a new bucket, or for a count that a window cannot hold.
    #[cold]
    fn insert(&mut self, bucket: Bucket, times: i64) {
        let (mut entries, per_entry) = match std::mem::take(self) {
            Counts::One(one) => (one.to_vec(), WINDOW_PER_ENTRY),
            Counts::Sparse(entries) => (entries, WINDOW_PER_ENTRY),
            window => (window.iter().collect(), WINDOW_PER_ENTRY_STAYING),
        };
        let at = entries.partition_point(|(other, _)| *other < bucket);
        match entries.get_mut(at).filter(|(other, _)| *other == bucket) {
            Some((_, count)) => *count = count.wrapping_add(times),
            None => {
                if entries.len() == entries.capacity() {
                    // Most lists stay short.
                    entries.reserve_exact(entries.len().max(3));
                }
                entries.insert(at, (bucket, times));
            }
        }
        *self = Counts::of(entries, per_entry);
    }

    /// Builds a window if it needs at most `per_entry` buckets for each one in use and every count fits, else a
    /// list.
    fn of(entries: Vec<(Bucket, i64)>, per_entry: usize) -> Counts {
        match entries[..] {
            [] => return Counts::default(),
            [one] => return Counts::One([one]),
            _ => {}
        }
        let others = || entries.iter().filter(|(bucket, _)| *bucket != ZERO);
        let ends = others().next().zip(others().next_back());
        let Some(((first, _), (last, _))) = ends else { return Counts::Sparse(entries) };
        let span = (last.0 - first.0) as usize + 1;
        let is_wide = entries.iter().any(|(_, count)| i32::try_from(*count).is_err());
        if entries.len() <= SPARSE_MIN || span > entries.len() * per_entry || is_wide {
            return Counts::Sparse(entries);
        }
        let (first, mut counts) = (first.0, vec![0; span].into_boxed_slice());
        let mut zeros = 0;
        for (bucket, count) in &entries {
            let position = counts.get_mut((bucket.0 - first) as usize);
            *position.unwrap_or(&mut zeros) = *count as i32;
        }
        Counts::Window { first, counts, zeros }
    }

    /// Iterates over the buckets in use, in order.
    fn iter(&self) -> impl Iterator<Item = (Bucket, i64)> {
        let (entries, first, counts, zeros): (&[_], _, &[i32], _) = match self {
            Counts::One(one) => (one, 0, &[], 0),
            Counts::Sparse(entries) => (entries, 0, &[], 0),
            Counts::Window { first, counts, zeros } => (&[], *first, counts, i64::from(*zeros)),
        };
        // Zeros have a separate count only if the window lies on one side of them.
        let (before, after) = if first > 0 { (zeros, 0) } else { (0, zeros) };
        let window =
            counts.iter().zip(first..).map(|(count, position)| (Bucket(position), i64::from(*count)));
        let all = [(ZERO, before)].into_iter().chain(entries.iter().copied()).chain(window);
        all.chain([(ZERO, after)]).filter(|(_, count)| *count != 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sketch_of(values: &[f64]) -> Quantiles {
        values.iter().fold(Quantiles::default(), |mut quantiles, value| {
            quantiles.add(Bucket::of(*value), 1);
            quantiles
        })
    }

    fn bytes(quantiles: &Quantiles) -> Vec<u8> {
        let mut out = Vec::new();
        quantiles.encode(&mut out);
        out
    }

    fn decoded(bytes: &[u8]) -> Result<Quantiles, Corrupt> {
        let mut reader = ByteReader(bytes);
        let quantiles = Quantiles::decode(&mut reader)?;
        reader.end().map(|()| quantiles)
    }

    fn is_near(estimate: f64, exact: f64) -> bool {
        (estimate - exact).abs() <= 0.01 * exact.abs()
    }

    fn check(values: &[f64]) {
        let quantiles = sketch_of(values);
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        for q in [0.0, 0.5, 0.9, 0.99, 1.0] {
            let rank = (q * values.len() as f64).ceil().max(1.0) as usize;
            let (estimate, exact) = (quantiles.quantile(q).expect("there are values"), sorted[rank - 1]);
            assert!(is_near(estimate, exact), "p{q} of {} values: {estimate} for {exact}", values.len());
        }
        assert_eq!(decoded(&bytes(&quantiles)), Ok(quantiles));
    }

    #[test]
    fn quantiles_are_within_one_percent() {
        check(&[0.0]);
        check(&[-0.0, 7.0, -7.0]);
        check(&(1..=1_000).map(f64::from).collect::<Vec<_>>());
        check(&(-500..=500).map(|value| f64::from(value) / 7.0).collect::<Vec<_>>());
        check(&(0..90).map(|power| 2f64.powi(power - 35)).collect::<Vec<_>>());
        assert_eq!(Quantiles::default().quantile(0.5), None);
    }

    #[test]
    fn bucket_bounds_are_ordered_and_within_one_percent() {
        let mut positions: Vec<i16> = Vec::new();
        for octave in -40..60 {
            for inside in 0..PER_OCTAVE as usize {
                let low = (1.0 + start(inside)) * 2f64.powi(octave);
                for value in [low.next_down(), low, low.next_up()] {
                    let bucket = Bucket::of(value);
                    assert!(is_near(bucket.value(), value) || value < 2f64.powi(-40), "{value}");
                    assert_eq!(Bucket::of(-value), Bucket(-bucket.0));
                    assert_eq!(Bucket::of(bucket.value()), bucket);
                    positions.push(bucket.0);
                }
            }
        }
        assert!(positions.is_sorted());
        positions.dedup();
        assert!(positions.iter().copied().eq(0..=BUCKET_MAX));
    }

    #[test]
    fn out_of_range_values_go_to_the_zero_or_last_bucket() {
        let positions =
            [0.9e-12, -f64::MIN_POSITIVE, 1.16e18, f64::MAX, f64::MIN].map(|value| Bucket::of(value).0);
        assert_eq!(positions, [0, 0, BUCKET_MAX, BUCKET_MAX, -BUCKET_MAX]);
    }

    /// Bucket numbers are stored and must not change.
    #[test]
    fn buckets_keep_their_numbers() {
        let positions = [1e-12, 0.1, 1.0, 1.5, 20.0, 1e6, 1e18, -1.0].map(|value| Bucket::of(value).0);
        assert_eq!(positions, [5, 1_284, 1_401, 1_421, 1_552, 2_098, 3_493, -1_401]);
    }

    #[test]
    fn count_beyond_32_bits_is_kept() {
        let values: Vec<f64> = (0..40).map(f64::from).collect();
        let mut quantiles = sketch_of(&values);
        for bucket in [Bucket::of(0.0), Bucket::of(7.0), Bucket::of(7.0)] {
            quantiles.add(bucket, i64::from(i32::MAX));
        }
        assert_eq!(quantiles.count(), 40 + 3 * i64::from(i32::MAX));
        assert_eq!(decoded(&bytes(&quantiles)), Ok(quantiles.clone()));
        quantiles.add(Bucket::of(7.0), -2 * i64::from(i32::MAX));
        quantiles.add(Bucket::of(0.0), -i64::from(i32::MAX));
        assert_eq!(quantiles, sketch_of(&values));
    }

    #[test]
    fn thousand_values_with_zeros_take_less_than_2_kb() {
        let quantiles = sketch_of(&(0..1_000).map(f64::from).collect::<Vec<_>>());
        assert!(quantiles.heap_bytes() < 2_000, "{} bytes", quantiles.heap_bytes());
    }

    #[test]
    fn removed_values_leave_no_trace() {
        let mut quantiles = sketch_of(&[1.0, 2.0, 3.0]);
        quantiles.add(Bucket::of(2.0), -1);
        assert_eq!(quantiles, sketch_of(&[3.0, 1.0]));
        assert_eq!(bytes(&quantiles), bytes(&sketch_of(&[1.0, 3.0])));
    }

    fn values() -> impl Strategy<Value = Vec<f64>> {
        let one = (-12.0..18.0f64, 1.0..3.0f64, 0u32..12).prop_map(|(magnitude, factor, kind)| match kind {
            0 => 0.0,
            1..4 => -factor * 10f64.powf(magnitude / 3.0),
            4..8 => factor * 100.0,
            _ => (factor * 10f64.powf(magnitude)).min(1e18),
        });
        prop::collection::vec(one, 1..400)
    }

    proptest! {
        #[test]
        fn quantiles_of_any_magnitudes_are_within_one_percent(values in values()) {
            check(&values);
        }

        #[test]
        fn order_and_grouping_do_not_change_the_bytes(values in values(), cut: prop::sample::Index) {
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let (left, right) = sorted.split_at(cut.index(values.len() + 1));
            let mut merged = sketch_of(right);
            merged.merge(&sketch_of(left));
            prop_assert_eq!(&merged, &sketch_of(&values));
            prop_assert_eq!(bytes(&merged), bytes(&sketch_of(&values)));
        }

        #[test]
        fn any_bytes_are_rejected_or_canonical_quantiles(
            values in values(),
            noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            let mut noisy = bytes(&sketch_of(&values));
            noise.iter().for_each(|(at, byte)| *at.get_mut(&mut noisy) = *byte);
            if let Ok(quantiles) = decoded(&noisy) {
                prop_assert_eq!(bytes(&quantiles), noisy);
            }
        }
    }
}
