//! The installation that a backup is of.

use sha2::{Digest, Sha256};

/// Returns the id of an installation, which follows from a secret that its data folder keeps and tells nothing about it.
pub fn installation_id(secret: &str) -> String {
    let digest = Sha256::digest(format!("playmeter backup of {secret}"));
    hex(&digest[..16])
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Returns the bytes of hexadecimal digits.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let is_hex = text.len().is_multiple_of(2) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex { text.as_bytes().chunks(2).map(pair).collect() } else { None }
}
