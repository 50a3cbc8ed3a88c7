//! `POST /v1`: a form with `data`, JSON in base64, and `hash`, the MD5 of that JSON and the game's private key.

use md5::{Digest, Md5};
use subtle::ConstantTimeEq;

use super::escape::{raw_parameter, unescape};

/// The content of a form and its signature, which is not verified yet: see [`SignedForm::is_signed_with`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedForm {
    json: String,
    /// The bytes of the JSON as they were sent.
    bytes: Vec<u8>,
    hash: [u8; 16],
}

/// The error of a form that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// The body is not text.
    #[error("the body is not a form")]
    NotText,
    /// A field is absent or empty.
    #[error("the form has no `{0}`")]
    Missing(&'static str),
    /// `data` is not base64 of text.
    #[error("`data` must be base64-encoded text")]
    Data,
    /// `hash` is not 32 hexadecimal digits.
    #[error("`hash` must be an MD5 of 32 hexadecimal digits")]
    Hash,
}

/// Reads a form.
pub fn parse_form(body: &[u8]) -> Result<SignedForm, FormError> {
    let body = str::from_utf8(body).map_err(|_| FormError::NotText)?;
    let field = |name| raw_parameter(body, name).filter(|value| !value.is_empty());
    let data = field("data").ok_or(FormError::Missing("data"))?;
    let hash = field("hash").ok_or(FormError::Missing("hash"))?;
    let bytes = crate::base64::decode(&unescape(data)).ok_or(FormError::Data)?;
    let json = utf8(&bytes).ok_or(FormError::Data)?;
    Ok(SignedForm { json, bytes, hash: digest(&unescape(hash)).ok_or(FormError::Hash)? })
}

impl SignedForm {
    /// Returns the JSON.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// Returns true if the hash is that of the JSON and this key, in constant time.
    ///
    /// Besides the MD5 of the bytes, the MD5 of the SDKs for browsers and Flash is valid, which differs for text with
    /// non-ASCII characters.
    pub fn is_signed_with(&self, private_key: &str) -> bool {
        let hash_of_bytes = Md5::new().chain_update(&self.bytes).chain_update(private_key).finalize();
        let hash_of_units = Md5::digest(hash_input(&self.json, private_key));
        (self.hash.ct_eq(&hash_of_bytes) | self.hash.ct_eq(&hash_of_units)).into()
    }
}

/// Returns the bytes that those SDKs hash: one byte for each UTF-16 unit, and the high byte is combined with the next
/// byte of the same word of four.
pub(super) fn hash_input(json: &str, private_key: &str) -> Vec<u8> {
    let units: Vec<u16> = json.encode_utf16().chain(private_key.encode_utf16()).collect();
    let mut bytes = vec![0; units.len()];
    for (at, unit) in units.into_iter().enumerate() {
        let [low, high] = unit.to_le_bytes();
        bytes[at] |= low;
        if let Some(next) = bytes.get_mut(at + 1).filter(|_| at % 4 != 3) {
            *next |= high;
        }
    }
    bytes
}

/// Decodes UTF-8, including surrogates encoded one by one, as those SDKs do.
pub(super) fn utf8(bytes: &[u8]) -> Option<String> {
    match str::from_utf8(bytes) {
        Ok(text) => Some(text.to_owned()),
        Err(_) => String::from_utf16(&units(bytes)?).ok(),
    }
}

/// Returns the UTF-16 units of a text in which every unit was encoded separately.
fn units(bytes: &[u8]) -> Option<Vec<u16>> {
    let mut units = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        let (unit, length) = match (*first, after) {
            (0..=0x7f, _) => (u16::from(*first), 1),
            (0xc2..=0xdf, [a, ..]) => (u16::from(first & 0x1f) << 6 | tail(*a)?, 2),
            (0xe0..=0xef, [a, b, ..]) => (u16::from(first & 0x0f) << 12 | tail(*a)? << 6 | tail(*b)?, 3),
            _ => return None,
        };
        units.push(unit);
        rest = &rest[length..];
    }
    Some(units)
}

fn tail(byte: u8) -> Option<u16> {
    (byte & 0xc0 == 0x80).then_some(u16::from(byte & 0x3f))
}

/// Formats a digest as hexadecimal digits.
pub(super) fn to_hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses 32 hexadecimal digits.
fn digest(text: &str) -> Option<[u8; 16]> {
    let digits: &[u8; 32] = text.trim().as_bytes().try_into().ok()?;
    let mut digest = [0; 16];
    for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Some(digest)
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|nibble| nibble as u8)
}
