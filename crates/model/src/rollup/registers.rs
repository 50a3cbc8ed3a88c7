//! HyperLogLog registers, for sets that are too large to be kept exactly.

use super::bytes::{ByteReader, Corrupt};

/// 2^15 registers. The first 15 bits of a hash select the register; it holds the highest rank seen, which is the
/// number of leading zeros of the other 49 bits plus one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Registers(Box<[u8; REGISTERS]>);

const INDEX_BITS: u32 = 15;
const REGISTERS: usize = 1 << INDEX_BITS;
/// Registers that are checked together: ranks that need a whole byte are rare.
const CHUNK: usize = 64;
const RANK_MAX: u8 = (64 - INDEX_BITS) as u8 + 1;

/// 1 / (2 ln 2), of the estimator for infinitely many registers.
const ALPHA: f64 = 0.721_347_520_444_481_7;

impl Registers {
    pub(super) const HEAP_BYTES: usize = REGISTERS;

    pub(super) fn new() -> Registers {
        Registers(vec![0; REGISTERS].try_into().expect("the length matches"))
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

    /// Returns the improved estimate (Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog sketches",
    /// 2017, algorithm 6): unbiased at any size, without tables or a switch between formulas.
    pub(super) fn estimate(&self) -> u64 {
        let registers = REGISTERS as f64;
        let counts = self.histogram();
        let top = usize::from(RANK_MAX);
        let mut sum = registers * tau(1.0 - f64::from(counts[top]) / registers);
        for rank in (1..top).rev() {
            sum = 0.5 * (sum + f64::from(counts[rank]));
        }
        sum += registers * sigma(f64::from(counts[0]) / registers);
        (ALPHA * registers * registers / sum).round() as u64
    }

    /// Counts the registers by rank, in four lanes because increments of equal ranks depend on each other.
    fn histogram(&self) -> [u32; 64] {
        let mut lanes = [[0u32; 64]; 4];
        for four in self.0.as_chunks::<4>().0 {
            for (lane, rank) in lanes.iter_mut().zip(four) {
                lane[usize::from(*rank & 63)] += 1;
            }
        }
        std::array::from_fn(|rank| lanes.iter().map(|lane| lane[rank]).sum())
    }

    /// Encodes the lowest rank, then half a byte per register with its distance to the lowest (register i in the low
    /// half and register i + 16,384 in the high half of a byte). The value 15 means at least that; those ranks
    /// follow in order. 16.4 KB.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let lowest = self.0.iter().copied().fold(u8::MAX, u8::min);
        let above = |rank: u8| (rank - lowest).min(15);
        let (low, high) = self.0.split_at(REGISTERS / 2);
        out.push(lowest);
        out.extend(low.iter().zip(high).map(|(low, high)| above(*low) | above(*high) << 4));
        for chunk in self.0.as_chunks::<CHUNK>().0 {
            if chunk.iter().copied().fold(0, u8::max) - lowest >= 15 {
                out.extend(chunk.iter().filter(|rank| **rank - lowest >= 15));
            }
        }
    }

    pub(super) fn decode(reader: &mut ByteReader) -> Result<Registers, Corrupt> {
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

    /// Converts half bytes to ranks; ranks of 15 or more above the lowest are read from the reader.
    fn raise(&mut self, lowest: u8, reader: &mut ByteReader) -> Result<(), Corrupt> {
        if lowest > RANK_MAX {
            return Err(Corrupt("a register is out of range"));
        }
        for chunk in self.0.as_chunks_mut::<CHUNK>().0 {
            if !chunk.contains(&15) {
                chunk.iter_mut().for_each(|register| *register += lowest);
                continue;
            }
            for register in chunk {
                *register = if *register == 15 { high_rank(lowest, reader)? } else { *register + lowest };
            }
        }
        Ok(())
    }
}

fn high_rank(lowest: u8, reader: &mut ByteReader) -> Result<u8, Corrupt> {
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
