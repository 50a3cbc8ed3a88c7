//! Scans sixteen bytes of text at a time for the end of a string or a character that needs attention.

/// Bytes scanned in one step.
pub(super) const BLOCK: usize = 16;

/// Returns the bytes at `at`, padded after the end with zeros, which no JSON text may contain.
#[inline(always)]
pub(super) fn block_at(text: &[u8], at: usize) -> [u8; BLOCK] {
    match text.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(block) => *block,
        None => last_block(text, at),
    }
}

/// Returns the last sixteen bytes, shifted. Every line has an end, so this must be fast as well.
fn last_block(text: &[u8], at: usize) -> [u8; BLOCK] {
    let missing = (at + BLOCK - text.len().min(at + BLOCK)) as u32;
    match text.last_chunk() {
        Some(last) => u128::from_le_bytes(*last).unbounded_shr(8 * missing).to_le_bytes(),
        None => short_block(text, at),
    }
}

#[cold]
fn short_block(text: &[u8], at: usize) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let rest = text.get(at..).unwrap_or_default();
    block[..rest.len()].copy_from_slice(rest);
    block
}

/// Returns one bit for each byte that is not a plain part of a string: `"`, `\` and control characters.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn special_bytes(block: &[u8; BLOCK]) -> u32 {
    use core::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128,
        _mm_set1_epi8,
    };
    // SAFETY: every x86-64 processor has SSE2; the reference guarantees sixteen readable bytes, and this load needs no
    // alignment.
    unsafe {
        let bytes = _mm_loadu_si128(block.as_ptr().cast::<__m128i>());
        let quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'"' as i8));
        let backslash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\' as i8));
        let control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
        _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, backslash), control)) as u32
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) use portable::special_bytes;

#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable {
    use super::BLOCK;

    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;

    /// The same as on x86-64, with eight bytes per register.
    #[inline(always)]
    pub(in crate::json) fn special_bytes(block: &[u8; BLOCK]) -> u32 {
        let both = u128::from_le_bytes(*block);
        special_of_eight(both as u64) | special_of_eight((both >> 64) as u64) << 8
    }

    fn special_of_eight(bytes: u64) -> u32 {
        let quote = zero_bytes(bytes ^ (ONES * b'"' as u64));
        let backslash = zero_bytes(bytes ^ (ONES * b'\\' as u64));
        let control = zero_bytes(bytes & (ONES * 0xe0));
        gather(quote | backslash | control)
    }

    /// Returns the high bit of each byte that is zero, exact for every byte (no borrow between bytes).
    fn zero_bytes(bytes: u64) -> u64 {
        !(((bytes & !HIGHS) + !HIGHS) | bytes) & HIGHS
    }

    /// Packs the eight high bits: the product moves each to its position in the top byte.
    fn gather(highs: u64) -> u32 {
        ((highs >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, block_at, portable, special_bytes};
    use proptest::prelude::*;

    fn special_bytes_one_by_one(block: &[u8; BLOCK]) -> u32 {
        let special = |byte: u8| byte == b'"' || byte == b'\\' || byte < 0x20;
        block.iter().enumerate().fold(0, |bits, (i, &byte)| bits | u32::from(special(byte)) << i)
    }

    #[test]
    fn every_byte_is_classified_alike_at_every_position() {
        for byte in 0..=255 {
            for place in 0..BLOCK {
                let mut block = [b'a'; BLOCK];
                block[place] = byte;
                let expected = special_bytes_one_by_one(&block);
                assert_eq!(special_bytes(&block), expected, "{byte} at {place}");
                assert_eq!(portable::special_bytes(&block), expected, "{byte} at {place}");
            }
        }
    }

    #[test]
    fn text_is_padded_with_zeros() {
        assert_eq!(&block_at(b"abc", 1)[..4], b"bc\0\0");
        assert_eq!(block_at(b"abc", 3), [0; BLOCK]);
        assert_eq!(block_at(b"abc", 9), [0; BLOCK]);
        assert_eq!(&block_at(b"0123456789abcdefgh", 10)[..9], b"abcdefgh\0");
        assert_eq!(block_at(b"0123456789abcdefgh", 18), [0; BLOCK]);
        assert_eq!(block_at(b"0123456789abcdefgh", 99), [0; BLOCK]);
    }

    proptest! {
        #[test]
        fn both_implementations_agree_on_random_bytes(block: [u8; BLOCK]) {
            let expected = special_bytes_one_by_one(&block);
            prop_assert_eq!(special_bytes(&block), expected);
            prop_assert_eq!(portable::special_bytes(&block), expected);
        }
    }
}
