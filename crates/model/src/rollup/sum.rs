//! Sums without rounding, so that the order of the terms does not matter.

use super::bytes::{ByteReader, Corrupt, put_varint, unzigzag, zigzag};

/// The exact sum of any finite numbers.
///
/// A sum that a float represents exactly (such as all integers below 2^53) is stored as that float. Any other sum is
/// one long integer in units of 2^-1074, the smallest float, of which only the words in use are stored (Kulisch's
/// long accumulator, with a window). Sums with equal totals compare equal and have equal bytes, whatever the terms
/// and their order were.
#[derive(Clone, Debug)]
pub struct ExactSum(Total);

#[derive(Clone, Debug)]
enum Total {
    Float(f64),
    Long(Long),
}

impl Default for ExactSum {
    fn default() -> Self {
        ExactSum(Total::Float(0.0))
    }
}

impl From<f64> for ExactSum {
    fn from(value: f64) -> Self {
        let mut sum = ExactSum::default();
        sum.add(value);
        sum
    }
}

impl PartialEq for ExactSum {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Total::Float(one), Total::Float(two)) => one == two,
            _ => self.odd() == other.odd(),
        }
    }
}

impl ExactSum {
    /// Adds a finite number. To subtract, add the negative.
    #[inline]
    pub fn add(&mut self, value: f64) {
        if let Total::Float(sum) = &mut self.0 {
            let (total, lost) = two_sum(*sum, value);
            // If something was lost, or the sum overflowed and `lost` is NaN, the long form takes over.
            if lost == 0.0 {
                *sum = total;
                return;
            }
        }
        self.long().add_float(value);
    }

    /// Adds another sum.
    pub(crate) fn merge(&mut self, other: &ExactSum) {
        match &other.0 {
            Total::Float(value) => self.add(*value),
            Total::Long(long) => self.long().add_long(long),
        }
    }

    /// Returns the float nearest to the total (ties to even), or the largest float if the total is beyond it.
    pub fn value(&self) -> f64 {
        match &self.0 {
            Total::Float(value) => *value,
            Total::Long(long) => long.value(),
        }
    }

    /// Returns the total if it is exactly a float.
    pub(super) fn as_float(&self) -> Option<f64> {
        let value = self.value();
        (ExactSum(Total::Float(value)) == *self).then_some(value)
    }

    /// Returns the heap memory in use, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.0 {
            Total::Float(_) => 0,
            Total::Long(Long(words)) => size_of_val(&words[..]),
        }
    }

    /// Encodes the total as ± odd · 2^exponent: 0 for zero, else a varint of exponent and sign, and the odd number
    /// with seven bits per byte.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self.odd() {
            None => out.push(0),
            Some(odd) => odd.encode(out),
        }
    }

    /// Decodes a sum written by [`ExactSum::encode`].
    pub(crate) fn decode(reader: &mut ByteReader) -> Result<ExactSum, Corrupt> {
        match reader.varint()? {
            0 => Ok(ExactSum::default()),
            head => Odd::decode(head - 1, reader)?.sum(),
        }
    }

    fn long(&mut self) -> &mut Long {
        if let Total::Float(sum) = self.0 {
            let mut long = Long::zero();
            long.add_float(sum);
            self.0 = Total::Long(long);
        }
        match &mut self.0 {
            Total::Long(long) => long,
            Total::Float(_) => unreachable!("converted to long above"),
        }
    }

    fn odd(&self) -> Option<Odd> {
        match &self.0 {
            Total::Float(value) => Odd::of_float(*value),
            Total::Long(long) => Odd::of_long(long),
        }
    }
}

/// Returns the rounded sum and the rounding error, exactly (Knuth, TAOCP 2, 4.2.2, theorem B).
#[inline]
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    (sum, (a - (sum - b_part)) + (b - b_part))
}

/// Returns the mantissa and its position in units of 2^-1074.
fn mantissa(value: f64) -> (u64, usize) {
    let bits = value.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as usize;
    let fraction = bits & ((1 << 52) - 1);
    if exponent == 0 { (fraction, 0) } else { (fraction | 1 << 52, exponent - 1) }
}

/// A two's complement integer in units of 2^-1074. The first word contains the number of zero words below the
/// others; a single slice keeps a sum with its tag at 16 bytes.
#[derive(Clone, Debug)]
struct Long(Box<[u64]>);

impl Long {
    fn zero() -> Long {
        // No words yet: the first number added decides the position of the window.
        Long(Box::new([u64::MAX]))
    }

    fn first(&self) -> usize {
        self.0[0] as usize
    }

    fn words(&self) -> &[u64] {
        &self.0[1..]
    }

    fn is_negative(&self) -> bool {
        self.words().last().is_some_and(|word| word >> 63 == 1)
    }

    fn add_float(&mut self, value: f64) {
        let (mantissa, position) = mantissa(value);
        let mut number = u128::from(mantissa) << (position % 64);
        if value.is_sign_negative() {
            number = number.wrapping_neg();
        }
        if number != 0 {
            self.add_words(position / 64, &[number as u64, (number >> 64) as u64]);
        }
    }

    fn add_long(&mut self, other: &Long) {
        self.add_words(other.first(), other.words());
    }

    /// Adds a two's complement number whose lowest word is word `first`.
    fn add_words(&mut self, first: usize, addend: &[u64]) {
        let Some(top) = addend.last() else { return };
        let fill = sign_fill(*top);
        self.cover(first, first + addend.len());
        let before = self.is_negative();
        let skip = first - self.first() + 1;
        let (mut carry, mut addend) = (false, addend.iter());
        for word in &mut self.0[skip..] {
            let term = match addend.next() {
                Some(term) => *term,
                // The rest of the addend and the carry cancel, or both are zero.
                None if carry == (fill != 0) => break,
                None => fill,
            };
            let (sum, over) = word.overflowing_add(term);
            let (sum, over_again) = sum.overflowing_add(carry.into());
            (*word, carry) = (sum, over | over_again);
        }
        if before == (fill != 0) && self.is_negative() != before {
            self.extend(fill);
        }
    }

    /// Widens the window to the words from `first` to before `end`.
    fn cover(&mut self, first: usize, end: usize) {
        let words = self.words();
        if words.is_empty() {
            self.0 = std::iter::once(first as u64).chain((first..end).map(|_| 0)).collect();
            return;
        }
        let own_end = self.first() + words.len();
        if first >= self.first() && end <= own_end {
            return;
        }
        let fill = if self.is_negative() { u64::MAX } else { 0 };
        let below = self.first().saturating_sub(first);
        let above = end.saturating_sub(own_end);
        self.0 = std::iter::once((self.first() - below) as u64)
            .chain(std::iter::repeat_n(0, below))
            .chain(words.iter().copied())
            .chain(std::iter::repeat_n(fill, above))
            .collect();
    }

    /// Adds one more word on top, for a sum that no longer fits.
    #[cold]
    fn extend(&mut self, fill: u64) {
        self.0 = self.0.iter().copied().chain([fill]).collect();
    }

    /// Returns the words of the absolute value.
    fn magnitude(&self) -> Vec<u64> {
        let mut words = self.words().to_vec();
        if self.is_negative() {
            let mut carry = true;
            for word in &mut words {
                (*word, carry) = (!*word).overflowing_add(carry.into());
            }
        }
        words
    }

    fn value(&self) -> f64 {
        let words = self.magnitude();
        let Some(top) = top_bit(&words) else { return 0.0 };
        let position = self.first() * 64 + top;
        // Below 2^53 of the smallest floats, the bits of a float are the number itself.
        let bits = if position < 53 { words[0] } else { rounded(&words, top, position) };
        let value = f64::from_bits(bits).min(f64::MAX);
        if self.is_negative() { -value } else { value }
    }
}

fn sign_fill(top: u64) -> u64 {
    ((top as i64) >> 63) as u64
}

/// Returns the position of the highest bit.
fn top_bit(words: &[u64]) -> Option<usize> {
    let last = words.iter().rposition(|word| *word != 0)?;
    Some(last * 64 + 63 - words[last].leading_zeros() as usize)
}

/// Returns up to 64 bits starting at `from`.
fn bits_at(words: &[u64], from: usize) -> u64 {
    let word = |index: usize| words.get(index).copied().unwrap_or(0);
    let (index, shift) = (from / 64, from % 64);
    let high = if shift == 0 { 0 } else { word(index + 1) << (64 - shift) };
    word(index) >> shift | high
}

/// Returns the bits of the nearest float. A carry out of the fraction correctly increments the exponent.
fn rounded(words: &[u64], top: usize, position: usize) -> u64 {
    // If the window has fewer than 53 bits, those below are zero.
    let (fraction, half_or_more, sticky) = match top.checked_sub(52) {
        None => (words[0] << (52 - top), false, false),
        Some(from) => {
            let half = from > 0 && bits_at(words, from - 1) & 1 == 1;
            let below = from.saturating_sub(1);
            let sticky = words[..below / 64].iter().any(|word| *word != 0)
                || words[below / 64] & ((1 << (below % 64)) - 1) != 0;
            (bits_at(words, from), half, sticky)
        }
    };
    let fraction = fraction & ((1 << 53) - 1);
    let exponent = (position - 51).min(0x7ff) as u64;
    let up = half_or_more && (sticky || fraction & 1 == 1);
    let bits = (exponent << 52) + (fraction - (1 << 52)) + u64::from(up);
    bits.min(f64::INFINITY.to_bits())
}

/// A total other than zero: ± an odd number · 2^exponent. Each total has exactly one such form.
#[derive(Debug, PartialEq)]
struct Odd {
    negative: bool,
    exponent: i64,
    words: Vec<u64>,
}

/// A sum of 2^64 of the largest floats stays below 2^1088.
const TOP_EXPONENT_MAX: i64 = 1_088;
const SMALLEST_EXPONENT: i64 = -1_074;
const ODD_BITS_MAX: usize = (TOP_EXPONENT_MAX - SMALLEST_EXPONENT) as usize;

impl Odd {
    fn of_float(value: f64) -> Option<Odd> {
        let (mantissa, position) = mantissa(value);
        let zeros = if mantissa == 0 { return None } else { mantissa.trailing_zeros() };
        let exponent = position as i64 + i64::from(zeros) + SMALLEST_EXPONENT;
        Some(Odd { negative: value < 0.0, exponent, words: vec![mantissa >> zeros] })
    }

    fn of_long(long: &Long) -> Option<Odd> {
        let all = long.magnitude();
        let lowest = all.iter().position(|word| *word != 0)?;
        let zeros = lowest * 64 + all[lowest].trailing_zeros() as usize;
        let bits = top_bit(&all)? + 1 - zeros;
        let words = (0..bits.div_ceil(64)).map(|index| bits_at(&all, zeros + index * 64)).collect();
        let exponent = (long.first() * 64 + zeros) as i64 + SMALLEST_EXPONENT;
        Some(Odd { negative: long.is_negative(), exponent, words })
    }

    fn bits(&self) -> usize {
        top_bit(&self.words).map_or(0, |top| top + 1)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, 1 + (zigzag(self.exponent) << 1 | u64::from(self.negative)));
        let groups = self.bits().div_ceil(7);
        for group in 0..groups {
            let more = if group + 1 < groups { 0x80 } else { 0 };
            out.push(bits_at(&self.words, group * 7) as u8 & 0x7f | more);
        }
    }

    fn decode(head: u64, reader: &mut ByteReader) -> Result<Odd, Corrupt> {
        let mut words = vec![0; 1];
        for position in (0..ODD_BITS_MAX).step_by(7) {
            let byte = reader.byte()?;
            let bits = u128::from(byte & 0x7f) << (position % 64);
            words.resize(position / 64 + 2, 0);
            words[position / 64] |= bits as u64;
            words[position / 64 + 1] |= (bits >> 64) as u64;
            if byte < 0x80 {
                let odd = Odd { negative: head & 1 == 1, exponent: unzigzag(head >> 1), words };
                return odd.checked(byte);
            }
        }
        Err(Corrupt("a sum is too long"))
    }

    fn checked(mut self, last: u8) -> Result<Odd, Corrupt> {
        let range = SMALLEST_EXPONENT..=TOP_EXPONENT_MAX - self.bits() as i64;
        if last == 0 || self.words[0] & 1 == 0 || !range.contains(&self.exponent) {
            return Err(Corrupt("a sum is malformed"));
        }
        self.words.truncate(self.bits().div_ceil(64));
        Ok(self)
    }

    fn sum(self) -> Result<ExactSum, Corrupt> {
        // Here both factors and the product are floats, so nothing is rounded.
        if self.bits() <= 53 && (-1_000..=900).contains(&self.exponent) {
            let power = f64::from_bits(((self.exponent + 1_023) as u64) << 52);
            let value = self.words[0] as f64 * power;
            return Ok(ExactSum(Total::Float(if self.negative { -value } else { value })));
        }
        Ok(ExactSum(self.long()))
    }

    fn long(self) -> Total {
        let position = (self.exponent - SMALLEST_EXPONENT) as usize;
        let mut long = Long::zero();
        for (index, word) in self.words.iter().enumerate() {
            let at = position + index * 64;
            let shifted = u128::from(*word) << (at % 64);
            long.add_words(at / 64, &[shifted as u64, (shifted >> 64) as u64, 0]);
        }
        if self.negative {
            let mut negated = Long::zero();
            let mut words: Vec<u64> = long.words().iter().map(|word| !word).collect();
            words.push(u64::MAX);
            negated.add_words(long.first(), &words);
            negated.add_words(long.first(), &[1, 0]);
            long = negated;
        }
        Total::Long(long)
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use proptest::prelude::*;

    use super::*;

    /// A slow reference sum: digits of 32 bits in units of 2^-1074, carried only on demand.
    #[derive(Clone)]
    struct Slow([i64; 72]);

    impl Slow {
        fn of(values: &[f64]) -> Slow {
            let mut slow = Slow([0; 72]);
            values.iter().for_each(|value| slow.add(*value));
            slow
        }

        fn add(&mut self, value: f64) {
            let bits = value.abs().to_bits();
            let (exponent, fraction) = (bits >> 52, bits & ((1 << 52) - 1));
            let whole = if exponent == 0 { fraction } else { fraction + (1 << 52) };
            let position = exponent.max(1) as usize - 1;
            let sign = if value < 0.0 { -1 } else { 1 };
            for bit in (0..53).filter(|bit| whole >> bit & 1 == 1) {
                let at = position + bit;
                self.0[at / 32] += sign << (at % 32);
            }
        }

        /// Compares with zero.
        fn sign(&self) -> Ordering {
            let mut digits = self.0;
            for index in 0..digits.len() - 1 {
                let carry = digits[index] >> 32;
                digits[index] -= carry << 32;
                digits[index + 1] += carry;
            }
            let top = digits[digits.len() - 1].cmp(&0);
            top.then(if digits.iter().all(|digit| *digit == 0) { Ordering::Equal } else { Ordering::Greater })
        }

        /// Returns true if `nearest` is the float nearest to this sum: the sum is not beyond the middle to a
        /// neighbour.
        fn rounds_to(&self, nearest: f64) -> bool {
            let beside = |neighbour: f64| {
                let mut twice = Slow(self.0.map(|digit| digit * 2));
                twice.add(-nearest);
                twice.add(-neighbour);
                twice.sign()
            };
            let (below, above) = (beside(nearest.next_down()), beside(nearest.next_up()));
            let tie_is_even = below.is_ne() && above.is_ne() || nearest.to_bits() & 1 == 0;
            below.is_ge() && above.is_le() && tie_is_even
        }
    }

    fn sum_of(values: &[f64]) -> ExactSum {
        values.iter().fold(ExactSum::default(), |mut sum, value| {
            sum.add(*value);
            sum
        })
    }

    fn bytes(sum: &ExactSum) -> Vec<u8> {
        let mut out = Vec::new();
        sum.encode(&mut out);
        out
    }

    fn check(values: &[f64], value: f64) {
        assert_eq!(sum_of(values).value(), value, "{values:?}");
        let backwards: Vec<f64> = values.iter().rev().copied().collect();
        assert_eq!(bytes(&sum_of(&backwards)), bytes(&sum_of(values)), "{values:?}");
        assert_eq!(decoded(&bytes(&sum_of(values))).as_ref(), Ok(&sum_of(values)), "{values:?}");
    }

    fn decoded(bytes: &[u8]) -> Result<ExactSum, Corrupt> {
        let mut reader = ByteReader(bytes);
        let sum = ExactSum::decode(&mut reader)?;
        reader.end().map(|()| sum)
    }

    #[test]
    fn intermediate_sums_are_not_rounded() {
        check(&[], 0.0);
        check(&[3.0, 4.0], 7.0);
        check(&[1e16, 1.0, -1e16], 1.0);
        check(&[1e300, 1e-300, -1e300], 1e-300);
        check(&[0.1; 10], 1.0);
        check(&[f64::MAX, f64::MAX, -f64::MAX], f64::MAX);
        check(&[f64::MAX, f64::MAX], f64::MAX);
        check(&[-f64::MAX, -f64::MAX], -f64::MAX);
        check(&[f64::from_bits(1), 1.0, -1.0], f64::from_bits(1));
        check(&[-0.0], 0.0);
    }

    #[test]
    fn ties_round_to_even() {
        let last = f64::EPSILON;
        check(&[1.0, last / 2.0], 1.0);
        check(&[1.0, last, last / 2.0], 1.0 + 2.0 * last);
        check(&[1.0, last / 2.0, 1e-300], 1.0 + last);
        check(&[-1.0, -last / 2.0, -1e-300], -1.0 - last);
    }

    #[test]
    fn integer_sum_takes_16_bytes_and_no_heap() {
        assert_eq!(size_of::<ExactSum>(), 16);
        assert_eq!(sum_of(&[1e15, -3.0, 77.0]).heap_bytes(), 0);
        assert_eq!(bytes(&sum_of(&[1_000.0])).len(), 2);
    }

    fn any_finite() -> impl Strategy<Value = f64> {
        use prop::num::f64::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
        prop_oneof![
            NORMAL | SUBNORMAL | ZERO | POSITIVE | NEGATIVE,
            (-1_000i32..1_000).prop_map(|cents| f64::from(cents) / 100.0),
            (-1_000_000i32..1_000_000).prop_map(f64::from),
        ]
    }

    proptest! {
        #[test]
        fn sum_matches_the_reference_to_the_last_bit(values in prop::collection::vec(any_finite(), 0..40)) {
            let (mut sum, mut slow) = (sum_of(&values), Slow::of(&values));
            // Each round subtracts the leading 53 bits from both. The largest floats have no neighbour above.
            for _ in 0..60 {
                let leading = sum.value();
                prop_assert!(leading.abs() == f64::MAX || slow.rounds_to(leading));
                sum.add(-leading);
                slow.add(-leading);
            }
            prop_assert_eq!((sum.value(), slow.sign()), (0.0, Ordering::Equal));
            prop_assert_eq!(sum, ExactSum::default());
        }

        #[test]
        fn order_and_grouping_do_not_change_the_bytes(
            values in prop::collection::vec(any_finite(), 0..40),
            seed: u64,
            cut in 0usize..40,
        ) {
            let mut other = values.clone();
            other.sort_by_key(|value| value.to_bits().wrapping_mul(seed | 1));
            let (left, right) = other.split_at(cut.min(other.len()));
            let mut merged = sum_of(right);
            merged.merge(&sum_of(left));
            prop_assert_eq!(bytes(&merged), bytes(&sum_of(&values)));
            prop_assert_eq!(&merged, &sum_of(&values));
            prop_assert_eq!(merged.value(), sum_of(&values).value());
            let read = decoded(&bytes(&merged));
            prop_assert_eq!(read.as_ref(), Ok(&merged));
            prop_assert_eq!(read.map(|sum| sum.value()), Ok(merged.value()));
        }

        #[test]
        fn any_bytes_are_rejected_or_a_canonical_sum(
            mut noise in prop::collection::vec(any::<u8>(), 0..60),
            long: bool,
        ) {
            if long {
                noise.iter_mut().skip(2).for_each(|byte| *byte |= 0x80);
                noise.push(1);
            }
            if let Ok(sum) = decoded(&noise) {
                prop_assert_eq!(bytes(&sum), noise);
            }
        }
    }
}
