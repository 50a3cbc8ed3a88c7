//! Base64 (RFC 4648) as browsers, old SDKs and forms send it.

/// Decodes base64 with or without padding; `None` if it is invalid. Both alphabets are accepted, and a space counts as a
/// `+` that a form did not escape.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches(['=', '\r', '\n']);
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for digits in text.as_bytes().chunks(4) {
        let mut word = 0;
        for digit in digits {
            word = word << 6 | u32::from(value_of(*digit)?);
        }
        let word = (word << (6 * (4 - digits.len()))).to_be_bytes();
        match digits.len() {
            1 => return None,
            digits => bytes.extend_from_slice(&word[1..digits]),
        }
    }
    Some(bytes)
}

fn value_of(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'+' | b' ' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_alphabets_are_decoded_with_or_without_padding() {
        let check = |text: &str, bytes: &[u8]| assert_eq!(decode(text).as_deref(), Some(bytes), "{text}");
        check("", b"");
        check("Zg==", b"f");
        check("Zm8", b"fo");
        check("Zm9v\r\n", b"foo");
        check("-_-_", &[251, 255, 191]);
        check("+/ /", &[251, 255, 191]);
        assert_eq!((decode("Z"), decode("Z$==")), (None, None));
    }
}
