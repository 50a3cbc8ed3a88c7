//! Where a key belongs: one fixed shuffle of 128 bits decides its slot, its bucket, its filter line and its order.

use model::ports::ids::{Claim, IdKey};

use super::filter::Bits;

/// The two kinds of ids, kept apart because those made from the time need to be searched in few runs only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Ids that carry a time (UUIDv7).
    Timed = 0,
    /// All others.
    Other = 1,
}

impl Kind {
    pub(super) const ALL: [Kind; 2] = [Kind::Timed, Kind::Other];
}

/// A claim, ready to be looked up anywhere.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probe {
    pub(super) place: u128,
    pub(super) bits: Bits,
    /// The id's time in steps, for timed ids.
    pub(super) step: u32,
}

impl Probe {
    pub(super) fn new(claim: &Claim) -> Probe {
        let place = place_of(claim.key);
        let step = claim.time_ms.map_or(0, super::times::step_of);
        Probe { place, bits: Bits::new(place), step }
    }
}

pub(super) fn kind_of(claim: &Claim) -> Kind {
    if claim.time_ms.is_some() { Kind::Timed } else { Kind::Other }
}

/// Shuffles a key's bits, one to one, so that equal places mean equal keys and places are spread evenly.
///
/// Three rounds of a Feistel network: counters, times and ids that differ in a single bit end up far apart. It needs no
/// secret of its own: keys are under a secret mask already, so nobody outside can aim ids at one place.
/// Part of the file format; changing it needs a new version.
pub(super) fn place_of(key: IdKey) -> u128 {
    let (mut high, mut low) = ((key.0 >> 64) as u64, key.0 as u64);
    low ^= fold(high ^ 0x243f_6a88_85a3_08d3, 0x9e37_79b9_7f4a_7c15);
    high ^= fold(low ^ 0x1319_8a2e_0370_7344, 0xbf58_476d_1ce4_e5b9);
    low ^= fold(high ^ 0xa409_3822_299f_31d0, 0x94d0_49bb_1331_11eb);
    (u128::from(high) << 64) | u128::from(low)
}

/// Divides all places into `parts` equal shares, in order, and tells which one this is in.
pub(super) fn share_of(place: u128, parts: u64) -> u64 {
    (((place >> 64) * u128::from(parts)) >> 64) as u64
}

fn fold(value: u64, multiplier: u64) -> u64 {
    let product = u128::from(value) * u128::from(multiplier);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fullest of 1,024 shares when 65,536 keys made by `key` are spread; 64 would be perfectly even.
    fn fullest_share(key: impl Fn(u128) -> u128) -> usize {
        let mut shares = vec![0; 1024];
        for n in 0..65_536 {
            shares[share_of(place_of(IdKey(key(n))), 1024) as usize] += 1;
        }
        shares.into_iter().max().expect("there are shares")
    }

    #[test]
    fn counters_anywhere_in_the_id_are_spread_evenly() {
        for shift in [0, 16, 40, 48, 63, 64, 80, 100, 112] {
            let fullest = fullest_share(|n| n << shift);
            assert!(fullest < 120, "counter at bit {shift}: {fullest} in one share");
        }
    }

    #[test]
    fn the_shuffle_is_part_of_the_format_and_does_not_change() {
        assert_eq!(place_of(IdKey(0)), 0x15f4_c9d9_7c15_5620_e693_f7e1_45c5_8699);
        assert_eq!(place_of(IdKey(1 << 64)), 0xd7ac_0160_e26b_d97c_5690_58ae_c3b4_30b9);
    }
}
