//! Primitives of the rollup encoding: varints, packed bits and sets of slots.
//!
//! Each value has exactly one valid encoding and the reader rejects all others, so that rollups are equal exactly
//! when their bytes are.

/// The bytes are not a valid rollup. A retry does not help; an operator must look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rollup is corrupt: {0}")]
pub struct Corrupt(pub &'static str);

/// Appends seven bits per byte, the lowest first; the top bit is set if more bytes follow.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed number; small ones of either sign stay short: 0, -1, 1, -2 become 0, 1, 2, 3.
#[inline]
pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, zigzag(value));
}

#[inline]
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[inline]
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

pub(crate) fn varint_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Appends the lowest `width` bits of each value, without gaps.
pub(crate) fn put_packed(out: &mut Vec<u8>, width: u32, values: impl Iterator<Item = u64>) {
    let (mut pending, mut bits) = (0u128, 0);
    for value in values {
        pending |= u128::from(value) << bits;
        bits += width;
        while bits >= 8 {
            out.push(pending as u8);
            pending >>= 8;
            bits -= 8;
        }
    }
    if bits > 0 {
        out.push(pending as u8);
    }
}

/// Appends a set of numbers below `LEN` (at most 64): their number, then nothing if the set is full, a list of the
/// members if that is shorter than a bitmap, else a bitmap.
pub(crate) fn put_set<const LEN: usize>(out: &mut Vec<u8>, set: u64) {
    let members = set.count_ones() as usize;
    out.push(members as u8);
    if members < LEN.div_ceil(8) {
        out.extend(BitMembers(set));
    } else if members < LEN {
        out.extend_from_slice(&set.to_le_bytes()[..LEN.div_ceil(8)]);
    }
}

/// The members of a set, ascending.
#[derive(Clone)]
pub(crate) struct BitMembers(pub u64);

impl Iterator for BitMembers {
    type Item = u8;

    #[inline]
    fn next(&mut self) -> Option<u8> {
        let member = self.0.trailing_zeros() as u8;
        let rest = self.0 & self.0.wrapping_sub(1);
        (std::mem::replace(&mut self.0, rest) != 0).then_some(member)
    }
}

/// The bytes that are still to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteReader<'a>(pub &'a [u8]);

impl<'a> ByteReader<'a> {
    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, Corrupt> {
        let (first, rest) = self.0.split_first().ok_or(Corrupt("ends too early"))?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn take(&mut self, bytes: usize) -> Result<&'a [u8], Corrupt> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(Corrupt("ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, Corrupt> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                let padded = byte == 0 && shift > 0;
                let too_large = shift == 63 && byte > 1;
                return if padded || too_large { Err(Corrupt("a varint is malformed")) } else { Ok(value) };
            }
        }
        Err(Corrupt("a varint is malformed"))
    }

    #[inline]
    pub(crate) fn signed(&mut self) -> Result<i64, Corrupt> {
        self.varint().map(unzigzag)
    }

    /// Reads the number of items that follow, each of at least `bytes_each` bytes. Fails if fewer bytes are left, so
    /// that malformed input cannot cause large allocations.
    pub(crate) fn length(&mut self, bytes_each: usize) -> Result<usize, Corrupt> {
        let length = usize::try_from(self.varint()?).map_err(|_| Corrupt("ends too early"))?;
        let bytes = length.checked_mul(bytes_each).ok_or(Corrupt("ends too early"))?;
        if bytes <= self.0.len() { Ok(length) } else { Err(Corrupt("ends too early")) }
    }

    /// Reads a part that is preceded by its length.
    pub(crate) fn part(&mut self) -> Result<ByteReader<'a>, Corrupt> {
        let bytes = self.length(1)?;
        self.take(bytes).map(ByteReader)
    }

    /// Reads `width` bits into each of `values`.
    pub(crate) fn packed(&mut self, width: u32, values: &mut [u64]) -> Result<(), Corrupt> {
        let bytes = self.take((values.len() * width as usize).div_ceil(8))?;
        let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
        let mut bit = 0;
        for value in &mut *values {
            *value = (window(bytes, bit / 8) >> (bit % 8)) as u64 & mask;
            bit += width as usize;
        }
        let padding = if bit % 8 == 0 { 0 } else { window(bytes, bit / 8) >> (bit % 8) };
        if padding == 0 { Ok(()) } else { Err(Corrupt("padding is not zero")) }
    }

    pub(crate) fn set<const LEN: usize>(&mut self) -> Result<u64, Corrupt> {
        let members = self.byte()? as usize;
        let set = match members {
            _ if members == LEN => u64::MAX >> (64 - LEN),
            _ if members < LEN.div_ceil(8) => self.listed::<LEN>(members)?,
            _ => {
                let mut bytes = [0; 8];
                bytes[..LEN.div_ceil(8)].copy_from_slice(self.take(LEN.div_ceil(8))?);
                u64::from_le_bytes(bytes)
            }
        };
        let fits = set <= u64::MAX >> (64 - LEN) && set.count_ones() as usize == members;
        if fits { Ok(set) } else { Err(Corrupt("a set is malformed")) }
    }

    fn listed<const LEN: usize>(&mut self, members: usize) -> Result<u64, Corrupt> {
        let mut set = 0u64;
        for &member in self.take(members)? {
            if usize::from(member) >= LEN || set >> member != 0 {
                return Err(Corrupt("a set is not in order"));
            }
            set |= 1 << member;
        }
        Ok(set)
    }

    pub(crate) fn end(self) -> Result<(), Corrupt> {
        if self.0.is_empty() { Ok(()) } else { Err(Corrupt("bytes after the end")) }
    }
}

/// Returns 16 bytes from `at` on, padded with zeros at the end.
#[inline]
fn window(bytes: &[u8], at: usize) -> u128 {
    let rest = bytes.get(at..).unwrap_or_default();
    if let Some(whole) = rest.first_chunk() {
        return u128::from_le_bytes(*whole);
    }
    let mut padded = [0; 16];
    padded[..rest.len()].copy_from_slice(rest);
    u128::from_le_bytes(padded)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn varint_round_trips_with_the_predicted_length(value: u64, narrow in 0u32..64) {
            let value = value >> narrow;
            let mut out = Vec::new();
            put_varint(&mut out, value);
            prop_assert_eq!(out.len(), varint_bytes(value));
            prop_assert_eq!(ByteReader(&out).varint(), Ok(value));
            prop_assert_eq!(unzigzag(zigzag(value as i64)), value as i64);
        }

        #[test]
        fn packed_numbers_round_trip(width in 0u32..=64, values in prop::collection::vec(any::<u64>(), 0..70)) {
            let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
            let values: Vec<u64> = values.into_iter().map(|value| value & mask).collect();
            let mut out = Vec::new();
            put_packed(&mut out, width, values.iter().copied());
            let mut read = vec![0; values.len()];
            let mut reader = ByteReader(&out);
            prop_assert_eq!(reader.packed(width, &mut read), Ok(()));
            prop_assert_eq!(reader.end(), Ok(()));
            prop_assert_eq!(read, values);
        }

        #[test]
        fn set_round_trips(set: u64, thinner: u64, full: bool) {
            let set = if full { u64::MAX } else { set & thinner } & (u64::MAX >> 4);
            let mut out = Vec::new();
            put_set::<60>(&mut out, set);
            prop_assert_eq!(ByteReader(&out).set::<60>(), Ok(set));
        }

        #[test]
        fn decoded_bytes_are_canonical(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            let mut again = Vec::new();
            let mut reader = ByteReader(&bytes);
            if let Ok(set) = reader.set::<24>() {
                put_set::<24>(&mut again, set);
                prop_assert_eq!(&again[..], &bytes[..bytes.len() - reader.0.len()]);
            }
            again.clear();
            let mut reader = ByteReader(&bytes);
            if let Ok(value) = reader.varint() {
                put_varint(&mut again, value);
                prop_assert_eq!(&again[..], &bytes[..bytes.len() - reader.0.len()]);
            }
        }
    }
}
