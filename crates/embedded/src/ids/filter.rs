//! A filter over hashes that answers "not here" from one cache line.
//!
//! A blocked Bloom filter: a hash owns one line of 512 bits and sets four bits in each of two words of it. With 16 bits
//! for each key one absent key in 700 passes; with 12 it would be one in 180, and a bucket read in vain costs as much as
//! a hundred lookups. Lines are in the order of hashes, so a sorted run builds its filter from front to back and needs
//! memory for one line only.

use super::hash::{Probe, partition_of};

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

/// Returns a mask of the probes in `wanted` (bit n for probe n) that may be in a run with this filter.
pub(super) fn may_contain(lines: &[FilterLine], probes: &[Probe], wanted: u64) -> u64 {
    let count = lines.len() as u64;
    for n in bits_of(wanted) {
        let line = lines.get(partition_of(probes[n].hash, count) as usize);
        line.into_iter().for_each(memory::prefetch);
    }
    let mut passed = 0;
    for n in bits_of(wanted) {
        let line = &lines[partition_of(probes[n].hash, count) as usize];
        passed |= u64::from(line.may_contain(&probes[n].bits)) << n;
    }
    passed
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

    #[test]
    fn filter_passes_added_keys_and_at_most_one_in_400_others() {
        let keys = 100_000;
        let mut lines = vec![FilterLine::default(); lines_for(keys) as usize];
        for key in 0..keys {
            let probe = probe(u128::from(key));
            let line = partition_of(probe.hash, lines_for(keys)) as usize;
            lines[line].add(&probe.bits);
        }
        let passing = |range: std::ops::Range<u64>| {
            range.filter(|&key| may_contain(&lines, &[probe(u128::from(key))], 1) == 1).count()
        };
        assert_eq!(passing(0..keys), keys as usize);
        let others = passing(keys..2 * keys);
        assert!(others < keys as usize / 400, "{others} of {keys} absent keys passed");
    }

    #[test]
    fn filter_line_round_trips() {
        let mut line = FilterLine::default();
        line.add(&probe(42).bits);
        assert_eq!(FilterLine::from_bytes(&line.to_bytes()), line);
    }
}
