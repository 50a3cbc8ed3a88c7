//! The bytes of an object: compressed, encrypted if the target is, and with a checksum.
//!
//! ```text
//! PLAYMBAK | version u32 | flags u32 | CRC-32C of everything else u32 | nonce (24 bytes, if encrypted) | zstd, encrypted or not
//! ```
//!
//! Numbers are little-endian. The first 16 bytes and the object's name are authenticated with the content.

use std::io::Read;

use anyhow::{Context, anyhow, ensure};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

use crate::keys::{Keys, random};

const MAGIC: &[u8; 8] = b"PLAYMBAK";
const VERSION: u32 = 1;
const ENCRYPTED: u32 = 1;
const HEADER_BYTES: usize = 20;
/// The part of the header before the checksum.
const AUTHENTICATED_BYTES: usize = 16;
const NONCE_BYTES: usize = 24;
/// Higher levels take more time than they save on content that is mostly hashes and packed bits.
const LEVEL: i32 = 1;

/// Compresses and, with keys, encrypts the content of the object `name`.
pub(crate) fn seal(keys: Option<&Keys>, name: &str, content: &[u8]) -> anyhow::Result<Vec<u8>> {
    let compressed = zstd::bulk::compress(content, LEVEL).context("compressing")?;
    let mut bytes = Vec::with_capacity(HEADER_BYTES + NONCE_BYTES + compressed.len() + 16);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&if keys.is_some() { ENCRYPTED } else { 0 }.to_le_bytes());
    let associated = [&bytes[..], name.as_bytes()].concat();
    bytes.extend_from_slice(&[0; 4]);
    match keys {
        None => bytes.extend_from_slice(&compressed),
        Some(keys) => {
            let nonce = random::<NONCE_BYTES>()?;
            let payload = Payload { msg: &compressed, aad: &associated };
            let encrypted = cipher(keys).encrypt(&XNonce::from(nonce), payload);
            bytes.extend_from_slice(&nonce);
            bytes.extend_from_slice(&encrypted.map_err(|_| anyhow!("encrypting failed"))?);
        }
    }
    let checksum = checksum(&bytes);
    bytes[AUTHENTICATED_BYTES..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    Ok(bytes)
}

/// Returns the content of the object `name`, which has at most `bytes_max` bytes.
///
/// # Errors
///
/// If the object is damaged, of a newer version, or encrypted with another key.
pub(crate) fn unseal(
    keys: Option<&Keys>,
    name: &str,
    bytes: &[u8],
    bytes_max: u64,
) -> anyhow::Result<Vec<u8>> {
    let (header, rest) = bytes.split_at_checked(HEADER_BYTES).context("it is cut off")?;
    ensure!(header.starts_with(MAGIC), "it is not an object of a backup");
    let number = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    ensure!(number(8) <= VERSION, "it has version {}, which needs a newer program", number(8));
    ensure!(checksum(bytes) == number(AUTHENTICATED_BYTES), "it differs from its checksum");
    let is_encrypted = number(12) & ENCRYPTED != 0;
    ensure!(
        is_encrypted == keys.is_some(),
        "it is {}",
        if is_encrypted { "encrypted" } else { "not encrypted" }
    );
    let decrypted;
    let compressed = match keys {
        None => rest,
        Some(keys) => {
            let (nonce, encrypted) = rest.split_first_chunk::<NONCE_BYTES>().context("it is cut off")?;
            let associated = [&header[..AUTHENTICATED_BYTES], name.as_bytes()].concat();
            let payload = Payload { msg: encrypted, aad: &associated };
            let opened = cipher(keys).decrypt(&XNonce::from(*nonce), payload);
            decrypted = opened.map_err(|_| anyhow!("it was changed, or encrypted with another key"))?;
            &decrypted
        }
    };
    let mut content = Vec::new();
    let mut decoder =
        zstd::stream::read::Decoder::new(compressed).context("decompressing")?.take(bytes_max + 1);
    decoder.read_to_end(&mut content).context("decompressing")?;
    ensure!(content.len() as u64 <= bytes_max, "it is larger than it may be");
    Ok(content)
}

/// Returns the checksum of everything but itself.
fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..AUTHENTICATED_BYTES]), &bytes[HEADER_BYTES..])
}

fn cipher(keys: &Keys) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&keys.encryption.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{Encryption, Secret};

    fn keys() -> Keys {
        let secret = Secret::key(&"5a".repeat(32)).expect("a key");
        Encryption::new(&secret).and_then(|encryption| encryption.keys(&secret)).expect("keys")
    }

    #[test]
    fn content_survives_and_every_changed_byte_is_noticed() {
        let content = b"the content of an object, of an object".repeat(20);
        for keys in [None, Some(keys())] {
            let sealed = seal(keys.as_ref(), "objects/1", &content).expect("it can be sealed");
            let open = |name: &str, bytes: &[u8]| unseal(keys.as_ref(), name, bytes, 1 << 20).ok();
            assert_eq!(open("objects/1", &sealed).as_deref(), Some(&content[..]));
            for at in 0..sealed.len() {
                let mut changed = sealed.clone();
                changed[at] ^= 1;
                assert_eq!(open("objects/1", &changed), None, "byte {at}");
                assert_eq!(open("objects/1", &sealed[..at]), None, "cut off at byte {at}");
            }
            assert!(unseal(keys.as_ref(), "objects/1", &sealed, 10).is_err(), "it is larger than 10 bytes");
        }
    }

    #[test]
    fn encrypted_object_does_not_open_under_another_name_or_without_the_key() {
        let sealed = seal(Some(&keys()), "objects/1", b"content").expect("it can be sealed");
        assert!(unseal(Some(&keys()), "objects/2", &sealed, 100).is_err());
        assert!(unseal(None, "objects/1", &sealed, 100).is_err());
        let plain = seal(None, "objects/1", b"content").expect("it can be sealed");
        assert!(unseal(Some(&keys()), "objects/1", &plain, 100).is_err());
    }
}
