//! Mutates inputs.

use std::collections::HashSet;

/// Maximum length of an input: most errors occur early.
const BYTES_MAX: usize = 4_096;
/// Inputs kept for further mutation; beyond it new ones replace others.
const POOL_MAX: usize = 4_096;

/// Numbers and bytes that decoders tend to treat specially.
const EVERYWHERE: &[&[u8]] = &[
    b"0",
    b"-1",
    b"+",
    b"1e400",
    b"NaN",
    b"9007199254740993",
    b"18446744073709551616",
    b"0.1",
    b"\"",
    b"\\",
    b"\n",
    b"\r\n",
    b"\0",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\xf0\x9f\x98\x80",
    b" ",
    b",",
    b"=",
    b":",
];

/// Generates inputs and keeps the interesting ones.
pub(crate) struct Mutator {
    pool: Vec<Vec<u8>>,
    words: Vec<Vec<u8>>,
    seen: HashSet<u64>,
    random: u64,
}

impl Mutator {
    pub(crate) fn new(mut pool: Vec<Vec<u8>>, words: &[&str]) -> Mutator {
        pool.push(Vec::new());
        let own = words.iter().map(|word| word.as_bytes());
        let words = own.chain(EVERYWHERE.iter().copied()).map(<[u8]>::to_vec).collect();
        Mutator { pool, words, seen: HashSet::new(), random: 1 }
    }

    /// Returns another input.
    pub(crate) fn next(&mut self) -> Vec<u8> {
        let from = self.below(self.pool.len());
        let mut input = self.pool[from].clone();
        for _ in 0..=self.below(4) {
            self.mutate(&mut input);
        }
        input.truncate(BYTES_MAX);
        input
    }

    /// Keeps an input if its behaviour is new.
    pub(crate) fn learn(&mut self, behaviour: u64, input: Vec<u8>) {
        if !self.seen.insert(behaviour) {
            return;
        }
        if self.pool.len() < POOL_MAX {
            self.pool.push(input);
        } else {
            let place = self.below(POOL_MAX);
            self.pool[place] = input;
        }
    }

    /// Returns the number of different behaviours.
    pub(crate) fn behaviours(&self) -> usize {
        self.seen.len()
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        let at = self.below(input.len() + 1);
        let end = at + self.below((input.len() - at).min(32) + 1);
        match self.below(8) {
            0 if at < input.len() => input[at] ^= 1 << self.below(8),
            1 if at < input.len() => input[at] = self.below(256) as u8,
            2 => drop(input.drain(at..end)),
            3 => input.truncate(at),
            4 => {
                let again = input[at..end].to_vec();
                let to = self.below(input.len() + 1);
                input.splice(to..to, again);
            }
            5 => self.splice(input, at),
            6 => drop(input.splice(at..end, self.word())),
            _ => drop(input.splice(at..at, self.word())),
        }
    }

    /// Replaces the rest with the rest of another input.
    fn splice(&mut self, input: &mut Vec<u8>, at: usize) {
        let other = self.below(self.pool.len());
        let from = self.below(self.pool[other].len() + 1);
        input.truncate(at);
        input.extend_from_slice(&self.pool[other][from..]);
    }

    fn word(&mut self) -> Vec<u8> {
        let word = self.below(self.words.len());
        self.words[word].clone()
    }

    fn below(&mut self, bound: usize) -> usize {
        // SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}
