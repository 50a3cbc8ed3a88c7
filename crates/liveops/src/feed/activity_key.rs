//! The key of an activity: the bytes by which equal activities are recognised.
//!
//! ```text
//! score        1 | board | 0 | score
//! level        2 | id of the level
//! achievement  3 | key
//! post         4 | the first 16 bytes of the SHA-256 of its body
//! ```
//! Two items are equal, and are shown as one, if their keys are equal: the same score on the same board, the same
//! level, the same achievement, or a post of the same kind, text and props.

use sha2::{Digest, Sha256};

/// Bytes of the digest in a post's key: finding two posts with the same 128 bits is infeasible.
const DIGEST_BYTES: usize = 16;
/// Keys of up to this length need no allocation.
const SHORT_BYTES: usize = 22;

/// A parsed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ActivityKey<'a> {
    Score { table: &'a str, score: &'a str },
    Level { level: &'a str },
    Achievement { key: &'a str },
    Post { digest: &'a [u8] },
}

impl<'a> ActivityKey<'a> {
    pub(super) fn bytes(self) -> Vec<u8> {
        match self {
            ActivityKey::Score { table, score } => [&[1], table.as_bytes(), &[0], score.as_bytes()].concat(),
            ActivityKey::Level { level } => [&[2], level.as_bytes()].concat(),
            ActivityKey::Achievement { key } => [&[3], key.as_bytes()].concat(),
            ActivityKey::Post { digest } => [&[4], digest].concat(),
        }
    }

    /// Parses a key; `None` if the bytes are not one.
    pub(super) fn read(bytes: &'a [u8]) -> Option<ActivityKey<'a>> {
        let (kind, rest) = bytes.split_first()?;
        if *kind == 4 {
            return Some(ActivityKey::Post { digest: rest });
        }
        let text = std::str::from_utf8(rest).ok()?;
        match kind {
            1 => text.split_once('\0').map(|(table, score)| ActivityKey::Score { table, score }),
            2 => Some(ActivityKey::Level { level: text }),
            3 => Some(ActivityKey::Achievement { key: text }),
            _ => None,
        }
    }

    /// Returns true if the activity has a body in the blob store, under its key.
    pub(super) fn has_body(bytes: &[u8]) -> bool {
        matches!(bytes.first(), Some(2 | 4))
    }
}

/// Returns the digest of a post's body.
pub(super) fn digest(body: &[u8]) -> [u8; DIGEST_BYTES] {
    let mut digest = [0; DIGEST_BYTES];
    digest.copy_from_slice(&Sha256::digest(body)[..DIGEST_BYTES]);
    digest
}

/// The bytes of a key in 24 bytes, inline where they fit.
pub(super) enum ActivityKeyBytes {
    Short(u8, [u8; SHORT_BYTES]),
    Long(Box<[u8]>),
}

impl ActivityKeyBytes {
    pub(super) fn new(bytes: &[u8]) -> ActivityKeyBytes {
        if bytes.len() > SHORT_BYTES {
            return ActivityKeyBytes::Long(bytes.into());
        }
        let mut short = [0; SHORT_BYTES];
        short[..bytes.len()].copy_from_slice(bytes);
        ActivityKeyBytes::Short(bytes.len() as u8, short)
    }

    pub(super) fn get(&self) -> &[u8] {
        match self {
            ActivityKeyBytes::Short(len, bytes) => &bytes[..usize::from(*len)],
            ActivityKeyBytes::Long(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_parsed_from_its_bytes_inline_or_allocated() {
        let long = "x".repeat(100);
        for activity in [
            ActivityKey::Score { table: "highscores", score: "-12.50" },
            ActivityKey::Score { table: &long, score: "" },
            ActivityKey::Level { level: "l1" },
            ActivityKey::Achievement { key: &long },
            ActivityKey::Post { digest: &digest(b"hello") },
        ] {
            let bytes = ActivityKeyBytes::new(&activity.bytes());
            assert_eq!(ActivityKey::read(bytes.get()), Some(activity));
        }
        assert_eq!(size_of::<ActivityKeyBytes>(), 24);
    }

    #[test]
    fn invalid_bytes_are_not_a_key() {
        for bytes in [&b""[..], &[1, b'a'], &[2, 0xff], &[9, b'a']] {
            assert_eq!(ActivityKey::read(bytes), None, "{bytes:?}");
        }
    }
}
