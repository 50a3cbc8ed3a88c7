//! What somebody did, as the bytes by which equal deeds are known.
//!
//! ```text
//! score        1 | board | 0 | score
//! level        2 | id of the level
//! achievement  3 | key
//! post         4 | the first 16 bytes of the SHA-256 of its body
//! ```
//! Two items are equal, and collapse into one, when these bytes are equal: the same score on the same board, the same
//! level, the same achievement, a post of the same kind, text and props.

use sha2::{Digest, Sha256};

/// Bytes of a digest that stand for a post: nobody finds two posts of the same 128 bits by trying.
const DIGEST_BYTES: usize = 16;
/// Deeds of at most so many bytes need no memory of their own.
const SHORT_BYTES: usize = 22;

/// What was done, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed<'a> {
    Score { table: &'a str, score: &'a str },
    Level { level: &'a str },
    Achievement { key: &'a str },
    Post { digest: &'a [u8] },
}

impl<'a> Deed<'a> {
    pub(super) fn bytes(self) -> Vec<u8> {
        match self {
            Deed::Score { table, score } => [&[1], table.as_bytes(), &[0], score.as_bytes()].concat(),
            Deed::Level { level } => [&[2], level.as_bytes()].concat(),
            Deed::Achievement { key } => [&[3], key.as_bytes()].concat(),
            Deed::Post { digest } => [&[4], digest].concat(),
        }
    }

    /// `None`: these are not the bytes of a deed.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Deed<'a>> {
        let (kind, rest) = bytes.split_first()?;
        if *kind == 4 {
            return Some(Deed::Post { digest: rest });
        }
        let text = std::str::from_utf8(rest).ok()?;
        match kind {
            1 => text.split_once('\0').map(|(table, score)| Deed::Score { table, score }),
            2 => Some(Deed::Level { level: text }),
            3 => Some(Deed::Achievement { key: text }),
            _ => None,
        }
    }

    /// Whether there is a body among the values on disk, under the deed's bytes.
    pub(super) fn has_body(bytes: &[u8]) -> bool {
        matches!(bytes.first(), Some(2 | 4))
    }
}

/// What stands for a post with this body.
pub(super) fn digest(body: &[u8]) -> [u8; DIGEST_BYTES] {
    let mut digest = [0; DIGEST_BYTES];
    digest.copy_from_slice(&Sha256::digest(body)[..DIGEST_BYTES]);
    digest
}

/// The bytes of a deed in 24 bytes, where most of them fit.
pub(super) enum DeedBytes {
    Short(u8, [u8; SHORT_BYTES]),
    Long(Box<[u8]>),
}

impl DeedBytes {
    pub(super) fn new(bytes: &[u8]) -> DeedBytes {
        if bytes.len() > SHORT_BYTES {
            return DeedBytes::Long(bytes.into());
        }
        let mut short = [0; SHORT_BYTES];
        short[..bytes.len()].copy_from_slice(bytes);
        DeedBytes::Short(bytes.len() as u8, short)
    }

    pub(super) fn get(&self) -> &[u8] {
        match self {
            DeedBytes::Short(len, bytes) => &bytes[..usize::from(*len)],
            DeedBytes::Long(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deed_is_read_back_from_its_bytes_however_long_it_is() {
        let long = "x".repeat(100);
        for deed in [
            Deed::Score { table: "highscores", score: "-12.50" },
            Deed::Score { table: &long, score: "" },
            Deed::Level { level: "l1" },
            Deed::Achievement { key: &long },
            Deed::Post { digest: &digest(b"hello") },
        ] {
            let bytes = DeedBytes::new(&deed.bytes());
            assert_eq!(Deed::read(bytes.get()), Some(deed));
        }
        assert_eq!(size_of::<DeedBytes>(), 24);
    }

    #[test]
    fn other_bytes_are_no_deed() {
        for bytes in [&b""[..], &[1, b'a'], &[2, 0xff], &[9, b'a']] {
            assert_eq!(Deed::read(bytes), None, "{bytes:?}");
        }
    }
}
