//! HyperLogLog: what is left of many hashes when only their number matters.

use super::bytes::{Corrupt, Reader};

/// 2^15 registers, each with the highest rank seen: by the first 15 bits of a hash which register, and
/// how many zeros are at the head of the other 49, plus one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Registers(Box<[u8; REGISTERS]>);

const INDEX_BITS: u32 = 15;
const REGISTERS: usize = 1 << INDEX_BITS;
/// So many are looked at together: ranks that need a byte are rare.
const SOME: usize = 64;
const RANK_MAX: u8 = (64 - INDEX_BITS) as u8 + 1;

/// 1 / (2 ln 2), of the estimator for infinitely many registers.
const ALPHA: f64 = 0.721_347_520_444_481_7;

impl Registers {
    pub(super) const HEAP_BYTES: usize = REGISTERS;

    pub(super) fn new() -> Registers {
        Registers(vec![0; REGISTERS].try_into().expect("it has as many registers"))
    }

    #[inline]
    pub(super) fn insert(&mut self, hash: u64) {
        let register = &mut self.0[(hash >> (64 - INDEX_BITS)) as usize];
        // The bit below the other 49 ends the count of zeros.
        let rank = (hash << INDEX_BITS | 1 << (INDEX_BITS - 1)).leading_zeros() as u8 + 1;
        if rank > *register {
            *register = rank;
        }
    }

    pub(super) fn merge(&mut self, other: &Registers) {
        for (register, rank) in self.0.iter_mut().zip(other.0.iter()) {
            *register = (*register).max(*rank);
        }
    }

    /// The improved estimator (Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog
    /// sketches", 2017, algorithm 6): no bias at any size, no tables, no switching between formulas.
    pub(super) fn estimate(&self) -> u64 {
        let registers = REGISTERS as f64;
        let having = self.histogram();
        let top = usize::from(RANK_MAX);
        let mut sum = registers * tau(1.0 - f64::from(having[top]) / registers);
        for rank in (1..top).rev() {
            sum = 0.5 * (sum + f64::from(having[rank]));
        }
        sum += registers * sigma(f64::from(having[0]) / registers);
        (ALPHA * registers * registers / sum).round() as u64
    }

    /// How many registers have each rank. Four at once, because equal ranks wait for each other.
    fn histogram(&self) -> [u32; 64] {
        let mut lanes = [[0u32; 64]; 4];
        for four in self.0.as_chunks::<4>().0 {
            for (lane, rank) in lanes.iter_mut().zip(four) {
                lane[usize::from(*rank & 63)] += 1;
            }
        }
        std::array::from_fn(|rank| lanes.iter().map(|lane| lane[rank]).sum())
    }

    /// The lowest rank, then half a byte for how far each register is above it (register i in the low
    /// half, register i + 16,384 in the high half of a byte), 15 for at least that: those ranks follow,
    /// in order. 16.4 KB.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let lowest = self.0.iter().copied().fold(u8::MAX, u8::min);
        let above = |rank: u8| (rank - lowest).min(15);
        let (low, high) = self.0.split_at(REGISTERS / 2);
        out.push(lowest);
        out.extend(low.iter().zip(high).map(|(low, high)| above(*low) | above(*high) << 4));
        for some in self.0.as_chunks::<SOME>().0 {
            if some.iter().copied().fold(0, u8::max) - lowest >= 15 {
                out.extend(some.iter().filter(|rank| **rank - lowest >= 15));
            }
        }
    }

    pub(super) fn decode(reader: &mut Reader) -> Result<Registers, Corrupt> {
        let mut registers = Registers::new();
        let lowest = reader.byte()?;
        let halves = reader.take(REGISTERS / 2)?;
        let (low, high) = registers.0.split_at_mut(REGISTERS / 2);
        for ((low, high), byte) in low.iter_mut().zip(high).zip(halves) {
            (*low, *high) = (byte & 15, byte >> 4);
        }
        let found = registers.0.iter().copied().fold(u8::MAX, u8::min);
        registers.raise(lowest, reader)?;
        let ranks = registers.0.iter().copied().fold(0, u8::max);
        let well_formed = found == 0 && ranks <= RANK_MAX;
        if well_formed { Ok(registers) } else { Err(Corrupt("a register is out of range")) }
    }

    /// Makes ranks of half bytes; the high ones come from the reader.
    fn raise(&mut self, lowest: u8, reader: &mut Reader) -> Result<(), Corrupt> {
        if lowest > RANK_MAX {
            return Err(Corrupt("a register is out of range"));
        }
        for some in self.0.as_chunks_mut::<SOME>().0 {
            if !some.contains(&15) {
                some.iter_mut().for_each(|register| *register += lowest);
                continue;
            }
            for register in some {
                *register = if *register == 15 { high_rank(lowest, reader)? } else { *register + lowest };
            }
        }
        Ok(())
    }
}

fn high_rank(lowest: u8, reader: &mut Reader) -> Result<u8, Corrupt> {
    let rank = reader.byte()?;
    if rank >= lowest + 15 { Ok(rank) } else { Err(Corrupt("a register is too low")) }
}

/// x + Σ x^(2^k) · 2^(k-1)
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * power;
        power += power;
        if sum == before {
            return sum;
        }
    }
}

/// (1 - x - Σ (1 - x^(2^-k))² · 2^-k) / 3
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut power, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        power *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * power;
        if sum == before {
            return sum / 3.0;
        }
    }
}
