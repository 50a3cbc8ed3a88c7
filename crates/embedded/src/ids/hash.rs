//! The hash of a key: a fixed permutation of 128 bits that decides its slot, its bucket, its filter line and its order.

use model::ports::ids::{Claim, IdKey};

use super::filter::FilterBits;

/// The two kinds of ids, kept apart because those with a time have to be looked up in few runs only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdKind {
    /// Ids with a time (UUIDv7).
    Timed = 0,
    /// All others.
    Other = 1,
}

impl IdKind {
    pub(super) const ALL: [IdKind; 2] = [IdKind::Timed, IdKind::Other];
}

/// A claim, prepared for lookup.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probe {
    pub(super) hash: u128,
    pub(super) bits: FilterBits,
    /// The id's time in steps, for timed ids.
    pub(super) step: u32,
}

impl Probe {
    pub(super) fn new(claim: &Claim) -> Probe {
        let hash = hash_of(claim.key);
        let step = claim.time_ms.map_or(0, super::times::step_of);
        Probe { hash, bits: FilterBits::new(hash), step }
    }
}

pub(super) fn kind_of(claim: &Claim) -> IdKind {
    if claim.time_ms.is_some() { IdKind::Timed } else { IdKind::Other }
}

/// Permutes a key's bits one to one, so that equal hashes mean equal keys and hashes are evenly distributed.
///
/// Three rounds of a Feistel network: counters, times and ids that differ in a single bit end up far apart. No secret
/// is needed here: keys are already under a secret mask, so an outsider cannot aim ids at one slot.
/// PartWriter of the file format; changing it needs a new version.
pub(super) fn hash_of(key: IdKey) -> u128 {
    let (mut high, mut low) = ((key.0 >> 64) as u64, key.0 as u64);
    low ^= fold(high ^ 0x243f_6a88_85a3_08d3, 0x9e37_79b9_7f4a_7c15);
    high ^= fold(low ^ 0x1319_8a2e_0370_7344, 0xbf58_476d_1ce4_e5b9);
    low ^= fold(high ^ 0xa409_3822_299f_31d0, 0x94d0_49bb_1331_11eb);
    (u128::from(high) << 64) | u128::from(low)
}

/// Divides the hash range into equal partitions, in order, and returns the partition of this hash.
pub(super) fn partition_of(hash: u128, partitions: u64) -> u64 {
    (((hash >> 64) * u128::from(partitions)) >> 64) as u64
}

fn fold(value: u64, multiplier: u64) -> u64 {
    let product = u128::from(value) * u128::from(multiplier);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the size of the fullest of 1,024 partitions of 65,536 keys made by `key`; 64 would be perfectly even.
    fn fullest_partition(key: impl Fn(u128) -> u128) -> usize {
        let mut partitions = vec![0; 1024];
        for n in 0..65_536 {
            partitions[partition_of(hash_of(IdKey(key(n))), 1024) as usize] += 1;
        }
        partitions.into_iter().max().expect("there are partitions")
    }

    #[test]
    fn ids_that_differ_in_a_counter_are_evenly_distributed() {
        for shift in [0, 16, 40, 48, 63, 64, 80, 100, 112] {
            let fullest = fullest_partition(|n| n << shift);
            assert!(fullest < 120, "counter at bit {shift}: {fullest} in one partition");
        }
    }

    #[test]
    fn hash_is_part_of_the_file_format() {
        assert_eq!(hash_of(IdKey(0)), 0x15f4_c9d9_7c15_5620_e693_f7e1_45c5_8699);
        assert_eq!(hash_of(IdKey(1 << 64)), 0xd7ac_0160_e26b_d97c_5690_58ae_c3b4_30b9);
    }
}
