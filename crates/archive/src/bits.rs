//! The integer encodings of Parquet: bit packing, RLE with bit packing, and DELTA_BINARY_PACKED.

/// The bytes do not hold as many values as they should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

const BLOCK: usize = 128;
const MINIBLOCK: usize = 32;

/// Returns the number of bits that a number takes.
pub(crate) fn width_of(max: u64) -> u8 {
    (64 - max.leading_zeros()) as u8
}

pub(crate) fn put_varint(mut value: u64, into: &mut Vec<u8>) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

pub(crate) fn take_varint(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(Malformed)?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Malformed)
}

/// Packs values of `width` bits, the lowest bit first. The last byte is filled with zeros.
fn pack(values: impl Iterator<Item = u64>, width: u8, into: &mut Vec<u8>) {
    let (mut buffer, mut bits) = (0u128, 0u32);
    for value in values {
        buffer |= u128::from(value) << bits;
        bits += u32::from(width);
        if bits >= 64 {
            into.extend_from_slice(&(buffer as u64).to_le_bytes());
            buffer >>= 64;
            bits -= 64;
        }
    }
    let bytes = bits.div_ceil(8) as usize;
    into.extend_from_slice(&buffer.to_le_bytes()[..bytes]);
}

/// Calls `put` with `count` values of `width` bits.
#[inline]
fn unpack(bytes: &[u8], width: u8, count: usize, mut put: impl FnMut(u64)) -> Result<(), Malformed> {
    let width = usize::from(width);
    if width == 0 {
        (0..count).for_each(|_| put(0));
        return Ok(());
    }
    if width > 64 || bytes.len() < (count * width).div_ceil(8) {
        return Err(Malformed);
    }
    let mask = u64::MAX >> (64 - width);
    // Whole words can be read while 8 bytes follow the first byte of a value; above 56 bits a value may need 9.
    let fast = if width > 56 { 0 } else { bytes.len().saturating_sub(8) * 8 / width };
    let fast = fast.min(count);
    for index in 0..fast {
        let at = index * width;
        let word = u64::from_le_bytes(*bytes[at / 8..].first_chunk().expect("8 bytes follow"));
        put((word >> (at % 8)) & mask);
    }
    for index in fast..count {
        let at = index * width;
        let rest = &bytes[at / 8..];
        let mut word = [0; 16];
        let length = rest.len().min(9);
        word[..length].copy_from_slice(&rest[..length]);
        put((u128::from_le_bytes(word) >> (at % 8)) as u64 & mask);
    }
    Ok(())
}

/// Encodes codes as runs and packed groups of eight.
pub(crate) fn encode_hybrid(codes: &[u32], width: u8, into: &mut Vec<u8>) {
    let flush = |packed: &[u32], into: &mut Vec<u8>| {
        if packed.is_empty() {
            return;
        }
        let groups = packed.len().div_ceil(8);
        put_varint((groups as u64) << 1 | 1, into);
        let padding = groups * 8 - packed.len();
        let values = packed.iter().copied().chain(std::iter::repeat_n(0, padding));
        pack(values.map(u64::from), width, into);
    };
    // A run is worth it when it takes a third less than packed bits.
    let run_bits = 8 * (1 + usize::from(width).div_ceil(8));
    let run_min = (run_bits * 3 / 2 / usize::from(width.max(1))).max(4);
    let (mut packed_from, mut at) = (0, 0);
    while at < codes.len() {
        let value = codes[at];
        let mut end = at + 1;
        while end < codes.len() && codes[end] == value {
            end += 1;
        }
        // Packed groups before a run are whole.
        let run_from = at + (packed_from..at).len().next_multiple_of(8) - (at - packed_from);
        if end >= run_from + run_min {
            flush(&codes[packed_from..run_from], into);
            put_varint(((end - run_from) as u64) << 1, into);
            into.extend_from_slice(&value.to_le_bytes()[..usize::from(width).div_ceil(8)]);
            packed_from = end;
        }
        at = end;
    }
    flush(&codes[packed_from..], into);
}

/// Appends `count` codes below `below`.
pub(crate) fn decode_hybrid(
    mut bytes: &[u8],
    width: u8,
    count: usize,
    below: usize,
    into: &mut Vec<u32>,
) -> Result<(), Malformed> {
    let end = into.len() + count;
    if width > 32 {
        return Err(Malformed);
    }
    while into.len() < end {
        let header = take_varint(&mut bytes)?;
        let left = end - into.len();
        if header & 1 == 0 {
            let length = usize::try_from(header >> 1).map_err(|_| Malformed)?;
            let (value, rest) = bytes.split_at_checked(usize::from(width).div_ceil(8)).ok_or(Malformed)?;
            bytes = rest;
            let mut word = [0; 4];
            word[..value.len()].copy_from_slice(value);
            if length == 0 || length > left {
                return Err(Malformed);
            }
            into.resize(into.len() + length, u32::from_le_bytes(word));
        } else {
            let groups = usize::try_from(header >> 1).map_err(|_| Malformed)?;
            let length = groups.checked_mul(usize::from(width)).ok_or(Malformed)?;
            let (packed, rest) = bytes.split_at_checked(length).ok_or(Malformed)?;
            bytes = rest;
            let values = groups.checked_mul(8).ok_or(Malformed)?.min(left);
            if values == 0 {
                return Err(Malformed);
            }
            unpack(packed, width, values, |value| into.push(value as u32))?;
        }
    }
    let max = into[end - count..].iter().copied().max();
    if max.is_some_and(|max| max as usize >= below) { Err(Malformed) } else { Ok(()) }
}

/// Encodes numbers as differences.
pub(crate) fn encode_delta(values: &[i64], into: &mut Vec<u8>) {
    put_varint(BLOCK as u64, into);
    put_varint((BLOCK / MINIBLOCK) as u64, into);
    put_varint(values.len() as u64, into);
    let first = values.first().copied().unwrap_or(0);
    put_varint(zigzag(first), into);
    let mut deltas = [0i64; BLOCK];
    let mut last = first;
    for block in values.get(1..).unwrap_or_default().chunks(BLOCK) {
        for (delta, value) in deltas.iter_mut().zip(block) {
            *delta = value.wrapping_sub(last);
            last = *value;
        }
        let deltas = &deltas[..block.len()];
        let min = deltas.iter().copied().min().expect("a block is not empty");
        put_varint(zigzag(min), into);
        let widths_at = into.len();
        into.extend_from_slice(&[0; BLOCK / MINIBLOCK]);
        for (index, part) in deltas.chunks(MINIBLOCK).enumerate() {
            let above = part.iter().map(|delta| delta.wrapping_sub(min) as u64);
            let width = width_of(above.clone().fold(0, |all, delta| all | delta));
            into[widths_at + index] = width;
            pack(above.chain(std::iter::repeat_n(0, MINIBLOCK - part.len())), width, into);
        }
    }
}

/// Appends exactly `count` numbers and returns the bytes behind them.
pub(crate) fn decode_delta<'a>(
    mut bytes: &'a [u8],
    count: usize,
    into: &mut Vec<i64>,
) -> Result<&'a [u8], Malformed> {
    let block = take_varint(&mut bytes)? as usize;
    let parts = take_varint(&mut bytes)? as usize;
    let total = take_varint(&mut bytes)?;
    let mut last = unzigzag(take_varint(&mut bytes)?);
    if total != count as u64
        || parts == 0
        || parts > 64
        || block == 0
        || block > 1 << 16
        || !block.is_multiple_of(parts * 32)
    {
        return Err(Malformed);
    }
    if count == 0 {
        return Ok(bytes);
    }
    let part_values = block / parts;
    into.push(last);
    let mut left = count - 1;
    while left > 0 {
        let min = unzigzag(take_varint(&mut bytes)?);
        let (widths, rest) = bytes.split_at_checked(parts).ok_or(Malformed)?;
        bytes = rest;
        for width in widths {
            if left == 0 {
                break;
            }
            let length = part_values * usize::from(*width) / 8;
            let (packed, rest) = bytes.split_at_checked(length).ok_or(Malformed)?;
            bytes = rest;
            let values = left.min(part_values);
            unpack(packed, *width, values, |delta| {
                last = last.wrapping_add(min).wrapping_add(delta as i64);
                into.push(last);
            })?;
            left -= values;
        }
    }
    Ok(bytes)
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn runs() -> impl Strategy<Value = (u8, Vec<u32>)> {
        (0..=32u8).prop_flat_map(|width| {
            let max = if width == 0 { 0 } else { u32::MAX >> (32 - width) };
            let runs = prop::collection::vec((0..=max, prop_oneof![Just(1usize), 1..40usize]), 0..60);
            runs.prop_map(move |runs| {
                let codes = runs.iter().flat_map(|(code, count)| std::iter::repeat_n(*code, *count));
                (width, codes.collect())
            })
        })
    }

    proptest! {
        #[test]
        fn codes_are_read_back((width, codes) in runs()) {
            let (mut bytes, mut read) = (Vec::new(), vec![7]);
            encode_hybrid(&codes, width, &mut bytes);
            decode_hybrid(&bytes, width, codes.len(), usize::MAX, &mut read).unwrap();
            prop_assert_eq!(&read[1..], &codes);
            if let Some(max) = codes.iter().max() {
                let refused = decode_hybrid(&bytes, width, codes.len(), *max as usize, &mut read);
                prop_assert_eq!(refused, Err(Malformed));
            }
        }

        #[test]
        fn differences_are_read_back(
            values in prop_oneof![
                prop::collection::vec(any::<i64>(), 0..300),
                prop::collection::vec(0..1_000i64, 0..600),
            ],
            behind in prop::collection::vec(any::<u8>(), 0..9),
        ) {
            let (mut bytes, mut read) = (Vec::new(), Vec::new());
            encode_delta(&values, &mut bytes);
            bytes.extend_from_slice(&behind);
            prop_assert_eq!(decode_delta(&bytes, values.len(), &mut read).unwrap(), &behind[..]);
            prop_assert_eq!(read, values);
        }

        #[test]
        fn any_bytes_are_decoded_without_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..80), width: u8, count in 0..2_000usize,
        ) {
            let _ = decode_hybrid(&bytes, width, count, 50, &mut Vec::new());
            let _ = decode_delta(&bytes, count, &mut Vec::new());
        }
    }
}
