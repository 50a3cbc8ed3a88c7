//! Random tokens from the operating system, for values that must not be guessable.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Returns this number of random bytes as base64url. Panics if the operating system has no randomness.
pub fn token(bytes: usize) -> String {
    let mut random = vec![0; bytes];
    getrandom::fill(&mut random).expect("the operating system gives random bytes");
    base64url(&random)
}

/// Encodes bytes as base64url without padding (RFC 4648, section 5).
pub fn base64url(bytes: &[u8]) -> String {
    let digits = |group: &[u8]| {
        let bits =
            group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        let digit = move |place: usize| ALPHABET[(bits >> (18 - 6 * place)) as usize & 63] as char;
        (0..=group.len()).map(digit).collect::<Vec<char>>()
    };
    bytes.chunks(3).flat_map(digits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vectors of RFC 4648, section 10.
    #[test]
    fn base64url_encodes_the_vectors_of_the_rfc() {
        let check = |bytes: &str, expected: &str| assert_eq!(base64url(bytes.as_bytes()), expected);
        check("", "");
        check("f", "Zg");
        check("fo", "Zm8");
        check("foo", "Zm9v");
        check("foobar", "Zm9vYmFy");
        assert_eq!(base64url(&[0xff, 0xef]), "_-8");
        assert_ne!(token(16), token(16));
        assert_eq!(token(32).len(), 43);
    }
}
