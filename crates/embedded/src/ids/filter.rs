//! A filter over hashes that answers "not here" from one cache line.
//!
//! A blocked Bloom filter: a hash owns one line of 512 bits and sets four bits in each of two words of it. With 16 bits
//! for each key one absent key in 700 passes; with 12 it would be one in 180, and a bucket read in vain costs as much as
//! a hundred lookups. Lines are in the order of hashes, so a sorted run builds its filter from front to back and needs
//! memory for one line only.
//!
//! A filter that does not fit the memory is halved: neighbouring lines are united, so that one absent key in 40 passes.
//! The line in the file then decides.

use super::hash::{Probe, partition_of};
use super::table_memory;

/// FilterBits of filter for each key.
const BITS_PER_KEY: u64 = 16;

/// One cache line of the filter.
#[repr(align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FilterLine(pub(super) [u64; 8]);

/// The bits that a hash sets in its line. Independent of the filter's size, so computed once for all runs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FilterBits {
    words: [u8; 2],
    masks: [u64; 2],
}

impl FilterBits {
    /// Uses the lower half of the hash; the upper half chooses the line.
    pub(super) fn new(hash: u128) -> FilterBits {
        let low = hash as u64;
        let mask = |from: u32| (0..4).fold(0, |mask, n| mask | 1u64 << ((low >> (from + n * 6)) & 63));
        FilterBits { words: [(low & 3) as u8, 4 + ((low >> 2) & 3) as u8], masks: [mask(4), mask(28)] }
    }
}

impl FilterLine {
    pub(super) const BYTES: usize = 64;

    pub(super) fn add(&mut self, bits: &FilterBits) {
        for (word, mask) in bits.words.iter().zip(bits.masks) {
            self.0[usize::from(word & 7)] |= mask;
        }
    }

    /// Returns false if the key is not in the run.
    pub(super) fn may_contain(&self, bits: &FilterBits) -> bool {
        let missing = |n: usize| bits.masks[n] & !self.0[usize::from(bits.words[n] & 7)];
        missing(0) | missing(1) == 0
    }

    /// Adds the keys of another line.
    fn unite(&mut self, other: &FilterLine) {
        self.0.iter_mut().zip(other.0).for_each(|(word, more)| *word |= more);
    }

    pub(super) fn to_bytes(self) -> [u8; FilterLine::BYTES] {
        let mut bytes = [0; FilterLine::BYTES];
        for (into, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            into.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; FilterLine::BYTES]) -> FilterLine {
        let mut line = FilterLine::default();
        for (word, from) in line.0.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*from);
        }
        line
    }
}

/// Returns the number of lines of a filter for this many keys.
pub(super) fn lines_for(keys: u64) -> u64 {
    (keys * BITS_PER_KEY).div_ceil(512)
}

/// How exact a filter in memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Precision {
    /// Two lines of the file are one in memory. What passes must be looked up in the file's line.
    Half,
    /// As in the file.
    Whole,
}

impl Precision {
    /// Returns the lines in memory for this many lines of the file.
    pub(super) fn lines(self, count: u64) -> u64 {
        match self {
            Precision::Half => count.div_ceil(2),
            Precision::Whole => count,
        }
    }
}

/// A section's filter in memory.
pub(super) struct Filter {
    /// The lines of the file.
    count: u64,
    pub(super) precision: Precision,
    lines: Vec<FilterLine>,
}

impl Filter {
    /// Reads the lines of a filter in their order. `lines` fails if the file does.
    pub(super) fn collect<E>(
        count: u64,
        precision: Precision,
        lines: impl Iterator<Item = Result<FilterLine, E>>,
    ) -> Result<Filter, E> {
        let mut filter =
            Filter { count, precision, lines: table_memory::with_capacity(precision.lines(count) as usize) };
        for (number, line) in lines.enumerate() {
            match (precision, filter.lines.last_mut()) {
                (Precision::Half, Some(last)) if number % 2 == 1 => last.unite(&line?),
                _ => filter.lines.push(line?),
            }
        }
        Ok(filter)
    }

    /// Returns the same filter in half the memory.
    pub(super) fn halved(&self) -> Filter {
        debug_assert_eq!(self.precision, Precision::Whole);
        let lines = self.lines.iter().map(|line| Ok::<_, std::convert::Infallible>(*line));
        let Ok(halved) = Filter::collect(self.count, Precision::Half, lines);
        halved
    }

    /// Returns a mask of the probes in `wanted` (bit n for probe n) that may be in the run.
    pub(super) fn may_contain(&self, probes: &[Probe], wanted: u64) -> u64 {
        for n in bits_of(wanted) {
            self.line_of(&probes[n]).into_iter().for_each(memory::prefetch);
        }
        let mut passed = 0;
        for n in bits_of(wanted) {
            let line = self.line_of(&probes[n]);
            passed |= u64::from(line.is_some_and(|line| line.may_contain(&probes[n].bits))) << n;
        }
        passed
    }

    fn line_of(&self, probe: &Probe) -> Option<&FilterLine> {
        let number = partition_of(probe.hash, self.count);
        let number = if self.precision == Precision::Half { number / 2 } else { number };
        self.lines.get(number as usize)
    }
}

/// Iterates over the positions of the set bits, lowest first.
pub(super) fn bits_of(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (mask != 0).then(|| mask.trailing_zeros() as usize);
        mask &= mask.wrapping_sub(1);
        lowest
    })
}

#[cfg(test)]
mod tests {
    use model::ports::ids::{Claim, IdKey};

    use super::*;

    fn probe(key: u128) -> Probe {
        Probe::new(&Claim { key: IdKey(key), time_ms: None })
    }

    /// Checks a filter with an odd number of lines: it passes all its keys, and at most one in `others_max` of the others.
    fn check(precision: Precision, others_max: usize) {
        let keys = 100_000;
        let mut lines = vec![FilterLine::default(); lines_for(keys) as usize];
        assert_eq!(lines.len() % 2, 1);
        for key in 0..keys {
            let probe = probe(u128::from(key));
            let line = partition_of(probe.hash, lines_for(keys)) as usize;
            lines[line].add(&probe.bits);
        }
        let lines = lines.into_iter().map(Ok::<_, std::convert::Infallible>);
        let Ok(filter) = Filter::collect(lines_for(keys), precision, lines);
        assert_eq!(filter.lines.len() as u64, precision.lines(lines_for(keys)));
        let passing = |range: std::ops::Range<u64>| {
            range.filter(|&key| filter.may_contain(&[probe(u128::from(key))], 1) == 1).count()
        };
        assert_eq!(passing(0..keys), keys as usize);
        let others = passing(keys..2 * keys);
        assert!(others < keys as usize / others_max, "{others} of {keys} absent keys passed");
    }

    #[test]
    fn filter_passes_added_keys_and_at_most_one_in_400_others() {
        check(Precision::Whole, 400);
    }

    #[test]
    fn halved_filter_passes_added_keys_and_at_most_one_in_25_others() {
        check(Precision::Half, 25);
    }

    #[test]
    fn filter_line_round_trips() {
        let mut line = FilterLine::default();
        line.add(&probe(42).bits);
        assert_eq!(FilterLine::from_bytes(&line.to_bytes()), line);
    }
}
