//! A filter over places: "certainly not here" from one cache line.
//!
//! A blocked Bloom filter: a place owns one line of 512 bits and sets four bits in each of two words of it. With 16
//! bits for each key one absent key in 700 passes; with 12 it would be one in 180, and a bucket read in vain costs as
//! much as a hundred looks. Lines are in the order of places, so a sorted run builds its filter from front to back and
//! needs memory for one line only.

use super::memory::prefetch;
use super::place::{Probe, share_of};

/// Bits of filter for each key.
const BITS_PER_KEY: u64 = 16;

/// One cache line of the filter.
#[repr(align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Line(pub(super) [u64; 8]);

/// What a place sets in its line. Independent of the filter's size, so it is computed once for all runs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bits {
    words: [u8; 2],
    masks: [u64; 2],
}

impl Bits {
    /// From the lower half of the place; the upper half chooses the line.
    pub(super) fn new(place: u128) -> Bits {
        let low = place as u64;
        let mask = |from: u32| (0..4).fold(0, |mask, n| mask | 1u64 << ((low >> (from + n * 6)) & 63));
        Bits { words: [(low & 3) as u8, 4 + ((low >> 2) & 3) as u8], masks: [mask(4), mask(28)] }
    }
}

impl Line {
    pub(super) const BYTES: usize = 64;

    pub(super) fn add(&mut self, bits: &Bits) {
        for (word, mask) in bits.words.iter().zip(bits.masks) {
            self.0[usize::from(word & 7)] |= mask;
        }
    }

    /// False: the key is not in the run.
    pub(super) fn may_hold(&self, bits: &Bits) -> bool {
        let missing = |n: usize| bits.masks[n] & !self.0[usize::from(bits.words[n] & 7)];
        missing(0) | missing(1) == 0
    }

    pub(super) fn to_bytes(self) -> [u8; Line::BYTES] {
        let mut bytes = [0; Line::BYTES];
        for (into, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            into.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; Line::BYTES]) -> Line {
        let mut line = Line::default();
        for (word, from) in line.0.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*from);
        }
        line
    }
}

/// How many lines a filter for this many keys has.
pub(super) fn lines_for(keys: u64) -> u64 {
    (keys * BITS_PER_KEY).div_ceil(512)
}

/// Which of the probes in `wanted` (bit n for probe n) may be in a run with this filter.
pub(super) fn pass(lines: &[Line], probes: &[Probe], wanted: u64) -> u64 {
    let count = lines.len() as u64;
    for n in bits_of(wanted) {
        prefetch(lines.get(share_of(probes[n].place, count) as usize));
    }
    let mut passed = 0;
    for n in bits_of(wanted) {
        let line = &lines[share_of(probes[n].place, count) as usize];
        passed |= u64::from(line.may_hold(&probes[n].bits)) << n;
    }
    passed
}

/// The numbers of the bits that are set, upwards.
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
    fn what_was_added_passes_and_one_in_four_hundred_others_at_most() {
        let keys = 100_000;
        let mut lines = vec![Line::default(); lines_for(keys) as usize];
        for key in 0..keys {
            let probe = probe(u128::from(key));
            let line = share_of(probe.place, lines_for(keys)) as usize;
            lines[line].add(&probe.bits);
        }
        let passing = |range: std::ops::Range<u64>| {
            range.filter(|&key| pass(&lines, &[probe(u128::from(key))], 1) == 1).count()
        };
        assert_eq!(passing(0..keys), keys as usize);
        let others = passing(keys..2 * keys);
        assert!(others < keys as usize / 400, "{others} of {keys} absent keys passed");
    }

    #[test]
    fn a_line_reads_back_as_it_was_written() {
        let mut line = Line::default();
        line.add(&probe(42).bits);
        assert_eq!(Line::from_bytes(&line.to_bytes()), line);
    }
}
