//! Bytes as lower-case hexadecimal digits.

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the bytes of lower-case hexadecimal digits, or `None` for any other text.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let pair = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
    if text.len() % 2 == 1 {
        return None;
    }
    text.as_bytes().chunks_exact(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lower_case_hexadecimal_is_read() {
        assert_eq!(from_hex("00ff1a"), Some(vec![0, 255, 26]));
        for text in ["0", "0g", "FF", "é0"] {
            assert_eq!(from_hex(text), None, "{text}");
        }
    }
}
