//! `POST /v1`: a form with `data`, JSON in base64, and `hash`, the MD5 of that JSON and the game's private key.

use md5::{Digest, Md5};
use subtle::ConstantTimeEq;

use super::escape::{raw_parameter, unescape};

/// What a form says, and the signature under it. Not checked yet: see [`SignedForm::is_signed_with`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedForm {
    json: String,
    /// The bytes of the JSON as they were sent.
    bytes: Vec<u8>,
    hash: [u8; 16],
}

/// Why a form cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadForm {
    /// The body is not text.
    #[error("the body is not a form")]
    NotText,
    /// A field is absent or empty.
    #[error("the form has no `{0}`")]
    Missing(&'static str),
    /// `data` is not base64 of text.
    #[error("`data` is not text in base64")]
    Data,
    /// `hash` is not 32 hexadecimal digits.
    #[error("`hash` is not an MD5 in hexadecimal")]
    Hash,
}

/// Reads a form.
pub fn form(body: &[u8]) -> Result<SignedForm, BadForm> {
    let body = str::from_utf8(body).map_err(|_| BadForm::NotText)?;
    let field = |name| raw_parameter(body, name).filter(|value| !value.is_empty());
    let data = field("data").ok_or(BadForm::Missing("data"))?;
    let hash = field("hash").ok_or(BadForm::Missing("hash"))?;
    let bytes = crate::base64::decode(&unescape(data)).ok_or(BadForm::Data)?;
    let json = utf8(&bytes).ok_or(BadForm::Data)?;
    Ok(SignedForm { json, bytes, hash: digest(&unescape(hash)).ok_or(BadForm::Hash)? })
}

impl SignedForm {
    /// The JSON.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// Whether the hash is that of the JSON and this key. Takes the same time whatever differs.
    ///
    /// Beside the MD5 of the bytes, that of the SDKs for browsers and Flash counts, which is another one as soon as the
    /// text has a character that is not ASCII.
    pub fn is_signed_with(&self, private_key: &str) -> bool {
        let of_bytes = Md5::new().chain_update(&self.bytes).chain_update(private_key).finalize();
        let of_units = Md5::digest(folded(&self.json, private_key));
        (self.hash.ct_eq(&of_bytes) | self.hash.ct_eq(&of_units)).into()
    }
}

/// The bytes that those SDKs hash: each UTF-16 unit has one byte, and what is above spills into the next byte of the
/// same word of four.
fn folded(json: &str, private_key: &str) -> Vec<u8> {
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

/// UTF-8, also where halves of a UTF-16 pair were encoded one by one, as those SDKs do.
fn utf8(bytes: &[u8]) -> Option<String> {
    match str::from_utf8(bytes) {
        Ok(text) => Some(text.to_owned()),
        Err(_) => String::from_utf16(&units(bytes)?).ok(),
    }
}

/// The UTF-16 units of a text in which every unit was encoded by itself.
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

/// 32 hexadecimal digits.
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
