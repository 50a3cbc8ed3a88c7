//! The formats of keys and tokens.
//!
//! `pm_pk_<id>` is public. `pm_sk_<id>_<43 characters>_<crc>` carries 256 random bits. Its last part is a checksum, so
//! that a mistyped key is recognised without a lookup and scanners can find leaked keys.

use sha2::{Digest, Sha256};

/// A new secret key.
pub(super) struct SecretKey {
    /// Identifies the key without revealing it.
    pub(super) id: String,
    /// The whole key.
    pub(super) text: String,
}

/// The kind of a key, by its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// `pm_pk_...`
    Public,
    /// `pm_sk_...`
    Secret,
}

impl KeyKind {
    /// Returns the kind of a key. The rest of the key is not checked.
    pub fn of(key: &str) -> Option<KeyKind> {
        match key.get(..6) {
            Some("pm_pk_") => Some(KeyKind::Public),
            Some("pm_sk_") => Some(KeyKind::Secret),
            _ => None,
        }
    }
}

impl SecretKey {
    /// Creates a key from 256 random bits of the operating system.
    pub(super) fn random() -> SecretKey {
        let id = random_text(12);
        let body = format!("pm_sk_{id}_{}", random_token());
        let text = format!("{body}_{:08x}", checksum(&body));
        SecretKey { id, text }
    }
}

/// Returns the id in a secret key if its format and checksum are valid.
pub(super) fn secret_id(key: &str) -> Option<&str> {
    let (body, crc) = key.strip_prefix("pm_sk_")?.rsplit_once('_')?;
    let (id, random) = body.split_once('_')?;
    let whole = &key[..key.len() - crc.len() - 1];
    let is_valid = id.len() == 12 && random.len() == 43 && crc == format!("{:08x}", checksum(whole));
    is_valid.then_some(id)
}

/// Creates a public key.
pub(super) fn random_public_key() -> String {
    format!("pm_pk_{}", random_text(22))
}

/// Returns 43 characters with 256 random bits.
pub(super) fn random_token() -> String {
    random_text(43)
}

/// Returns SHA-256 in hexadecimal.
pub(super) fn sha256_hex(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns random letters and digits. Six random bits select one of 62; the other two values are drawn again.
fn random_text(length: usize) -> String {
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut text = String::with_capacity(length);
    while text.len() < length {
        let mut bytes = [0; 64];
        getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
        let letters = bytes.iter().filter_map(|byte| LETTERS.get((byte & 63) as usize));
        text.extend(letters.take(length - text.len()).map(|letter| *letter as char));
    }
    text
}

fn checksum(text: &str) -> u32 {
    let digest = Sha256::digest(text.as_bytes());
    u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])
}
