//! Parsing of UUIDs into 128 bits.

/// Parses 8-4-4-4-12 hexadecimal digits in any case, or 32 digits without hyphens.
#[inline]
pub fn parse(text: &[u8]) -> Option<u128> {
    if let Some(text) = text.as_array::<36>() {
        hyphenated(text)
    } else {
        text.as_array::<32>().and_then(|text| {
            parse_words([word_of_8(text, 0), word_of_8(text, 8), word_of_8(text, 16), word_of_8(text, 24)])
        })
    }
}

#[inline(always)]
fn hyphenated(text: &[u8; 36]) -> Option<u128> {
    let hyphens = [text[8], text[13], text[18], text[23]];
    let second = word_of_4(text, 9) | word_of_4(text, 14) << 32;
    let third = word_of_4(text, 19) | word_of_4(text, 24) << 32;
    if hyphens == *b"----" {
        parse_words([word_of_8(text, 0), second, third, word_of_8(text, 28)])
    } else {
        None
    }
}

/// Returns four bytes of the text as the low half of a word, the first byte lowest.
#[inline(always)]
fn word_of_4(text: &[u8], at: usize) -> u64 {
    let bytes: [u8; 4] = text[at..at + 4].try_into().expect("the slice has 4 bytes");
    u64::from(u32::from_le_bytes(bytes))
}

#[inline(always)]
fn word_of_8(text: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(text[at..at + 8].try_into().expect("the slice has 8 bytes"))
}

#[inline(always)]
fn parse_words(words: [u64; 4]) -> Option<u128> {
    let invalid = words.into_iter().fold(0, |invalid, word| invalid | invalid_digits(word));
    let value = words.into_iter().fold(0, |value, word| value << 32 | u128::from(digits_value(word)));
    (invalid == 0).then_some(value)
}

const ONES: u64 = u64::from_le_bytes([1; 8]);
const HIGHS: u64 = ONES << 7;

/// Returns the high bit of each byte from `first` to `last`, if no byte is over 127.
#[inline(always)]
fn range_bits(bytes: u64, first: u8, last: u8) -> u64 {
    let from_first = bytes.wrapping_add(ONES * u64::from(0x80 - first));
    let above_last = bytes.wrapping_add(ONES * u64::from(0x7f - last));
    from_first & !above_last & HIGHS
}

#[inline(always)]
fn letter_bits(bytes: u64) -> u64 {
    range_bits(bytes | (ONES * 0x20), b'a', b'f')
}

/// Returns a value other than zero if a byte is not a hexadecimal digit.
#[inline(always)]
fn invalid_digits(bytes: u64) -> u64 {
    ((range_bits(bytes, b'0', b'9') | letter_bits(bytes)) & !bytes) ^ HIGHS
}

/// Returns the value of eight hexadecimal digits, the first one most significant.
#[inline(always)]
fn digits_value(bytes: u64) -> u32 {
    let digits = (bytes & (ONES * 0x0f)) + (letter_bits(bytes) >> 7) * 9;
    let pairs = (digits << 4 | digits >> 8) & 0x00ff_00ff_00ff_00ff;
    let quads = (pairs | pairs >> 8) & 0x0000_ffff_0000_ffff;
    ((quads | quads >> 16) as u32).swap_bytes()
}

/// Returns the usual form of a UUID.
pub fn format(id: u128) -> String {
    let hex = format!("{id:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::parse;
    use proptest::prelude::*;

    fn check(text: &str, expected: impl Into<Option<u128>>) {
        assert_eq!(parse(text.as_bytes()), expected.into(), "{text}");
    }

    #[test]
    fn hyphenated_and_plain_uuids_parse_in_any_case() {
        let value = 0x0190b6a1_7c2e_7def_8a9b_0123456789ab;
        check("0190b6a1-7c2e-7def-8a9b-0123456789ab", value);
        check("0190B6A1-7C2E-7DEF-8A9B-0123456789AB", value);
        check("0190b6a17c2e7def8a9b0123456789aB", value);
        check("ffffffff-ffff-ffff-ffff-ffffffffffff", u128::MAX);
    }

    #[test]
    fn other_formats_are_rejected() {
        check("", None);
        check("{0190b6a1-7c2e-7def-8a9b-0123456789ab}", None);
        check("urn:uuid:0190b6a1-7c2e-7def-8a9b-0123456789ab", None);
        check("0190b6a17-c2e-7def-8a9b-0123456789ab", None);
        check("0190b6a1-7c2e-7def-8a9b-0123456789a", None);
        check("0190b6a1 7c2e 7def 8a9b 0123456789ab", None);
        check("0190b6a1-7c2e-7def-8a9b00123456789ab", None);
    }

    #[test]
    fn every_byte_at_every_position_is_a_digit_or_rejected() {
        for position in 0..32 {
            for byte in 0..=255u8 {
                let mut text = [b'0'; 32];
                text[position] = byte;
                let digit = char::from(byte).to_digit(16);
                let expected = digit.map(|digit| u128::from(digit) << (4 * (31 - position)));
                assert_eq!(parse(&text), expected, "{byte} at {position}");
            }
        }
    }

    proptest! {
        #[test]
        fn formatted_uuid_parses_back(value: u128) {
            let digits = format!("{value:032x}");
            prop_assert_eq!(parse(digits.as_bytes()), Some(value));
            let (a, b, c) = (&digits[..8], &digits[8..12], &digits[12..16]);
            let hyphenated = format!("{a}-{b}-{c}-{}-{}", &digits[16..20], &digits[20..]);
            prop_assert_eq!(parse(hyphenated.as_bytes()), Some(value));
        }

        #[test]
        fn bytes_other_than_hex_and_hyphens_are_rejected(text: [u8; 36]) {
            prop_assume!(text.iter().any(|byte| !byte.is_ascii_hexdigit() && *byte != b'-'));
            prop_assert_eq!(parse(&text), None);
        }
    }
}
