//! What is too large for memory: a level's data and its picture, compressed and addressed by their SHA-256.

use hashbrown::HashMap;
use model::ports::counters::StoreError;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::Refusal;
use crate::subject::Blobs;

/// Bytes of a level's data.
pub const DATA_BYTES_MAX: usize = 3 << 20;
/// Bytes of a level's picture, a data URL.
pub const THUMB_BYTES_MAX: usize = 64 << 10;
/// Most of what a higher one gains, at a tenth of its price.
const ZSTD_LEVEL: i32 = 3;

/// SHA-256 of what is not compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hex: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        serializer.serialize_str(&hex)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
        let text = String::deserialize(deserializer)?;
        let read = || {
            let mut bytes = [0; 32];
            for (at, byte) in bytes.iter_mut().enumerate() {
                *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
            }
            (text.len() == 64).then_some(Digest(bytes))
        };
        read().ok_or_else(|| serde::de::Error::custom("a digest has 64 hexadecimal digits"))
    }
}

/// One text that is kept as a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Its address.
    pub sha256: Digest,
    /// Its length.
    pub bytes: u32,
    /// Its length when compressed.
    pub packed_bytes: u32,
}

/// A level's data and picture, ready for the command that saves it.
#[derive(Clone, Debug)]
pub struct Packed {
    /// The data.
    pub data: Content,
    /// The picture.
    pub thumb: Option<Content>,
    /// Both compressed, one after the other: the command's blob.
    pub blob: Vec<u8>,
}

impl Packed {
    /// Compresses once, before the command is written, so that the log is small and applying it is cheap. Refuses what
    /// is too large and a picture that is no data URL of a picture.
    pub fn new(data: &str, thumb: Option<&str>) -> Result<Packed, Refusal> {
        if !(1..=DATA_BYTES_MAX).contains(&data.len()) {
            return Err(Refusal::invalid("data", format!("it has 1 to {DATA_BYTES_MAX} bytes")));
        }
        thumb.map_or(Ok(()), check_thumb)?;
        let mut blob = Vec::new();
        let data = pack(data, &mut blob);
        let thumb = thumb.map(|thumb| pack(thumb, &mut blob));
        Ok(Packed { data, thumb, blob })
    }
}

fn check_thumb(thumb: &str) -> Result<(), Refusal> {
    if thumb.len() > THUMB_BYTES_MAX {
        return Err(Refusal::invalid("thumb", format!("it has at most {THUMB_BYTES_MAX} bytes")));
    }
    let printable = thumb.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>'));
    // A script inside an SVG would run where somebody opens the picture by itself.
    let picture = ["png", "jpeg", "gif", "webp"].iter().any(|kind| {
        let rest = thumb.strip_prefix("data:image/").and_then(|rest| rest.strip_prefix(kind));
        rest.is_some_and(|rest| rest.starts_with(";base64,"))
    });
    if printable && picture {
        return Ok(());
    }
    Err(Refusal::invalid("thumb", "it is a data URL of a PNG, JPEG, GIF or WebP picture in base64"))
}

fn pack(text: &str, blob: &mut Vec<u8>) -> Content {
    let packed =
        zstd::bulk::compress(text.as_bytes(), ZSTD_LEVEL).expect("memory can be compressed to memory");
    blob.extend_from_slice(&packed);
    let sha256 = Digest(Sha256::digest(text.as_bytes()).into());
    Content { sha256, bytes: text.len() as u32, packed_bytes: packed.len() as u32 }
}

/// How many levels need each blob, and what all blobs come to.
#[derive(Debug, Default)]
pub(super) struct References {
    counts: HashMap<Digest, Count>,
    packed_bytes: u64,
}

#[derive(Debug)]
struct Count {
    levels: u32,
    packed_bytes: u32,
}

impl References {
    /// The bytes of all blobs, each once.
    pub(super) fn packed_bytes(&self) -> u64 {
        self.packed_bytes
    }

    /// Whether this would be one more blob.
    pub(super) fn is_new(&self, content: &Content) -> bool {
        !self.counts.contains_key(&content.sha256)
    }

    /// Counts one more level that needs it. Of two compressions of the same text the first is kept, so its size is told.
    pub(super) fn hold(&mut self, content: Content) -> Content {
        let new = Count { levels: 0, packed_bytes: content.packed_bytes };
        let count = self.counts.entry(content.sha256).or_insert(new);
        if count.levels == 0 {
            self.packed_bytes += u64::from(count.packed_bytes);
        }
        count.levels += 1;
        Content { packed_bytes: count.packed_bytes, ..content }
    }

    /// Counts one less; the blob goes with the last one.
    pub(super) fn release(&mut self, content: &Content, blobs: &mut Blobs) {
        let count = self.counts.get_mut(&content.sha256).expect("what is released was held");
        count.levels -= 1;
        if count.levels == 0 {
            self.packed_bytes -= u64::from(count.packed_bytes);
            self.counts.remove(&content.sha256);
            blobs.remove(&content.sha256.0);
        }
    }
}

/// Keeps a blob that came with a command.
pub(super) fn keep(blobs: &mut Blobs, content: &Content, packed: &[u8]) {
    blobs.put(&content.sha256.0, packed);
}

/// Reads a blob back.
pub(super) fn read(blobs: &Blobs, content: &Content) -> Result<Unread, StoreError> {
    let packed = blobs.get(&content.sha256.0)?.ok_or_else(|| damaged("it is not there"))?;
    Ok(Unread { packed, bytes: content.bytes })
}

/// A blob that is not decompressed yet: that is done when no lock is held.
#[derive(Clone, Debug)]
pub struct Unread {
    packed: std::sync::Arc<[u8]>,
    bytes: u32,
}

impl Unread {
    /// The text's length.
    pub fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// The text.
    pub fn text(&self) -> Result<String, StoreError> {
        let bytes = zstd::bulk::decompress(&self.packed, self.bytes as usize).map_err(damaged)?;
        String::from_utf8(bytes).map_err(damaged)
    }
}

fn damaged(why: impl std::fmt::Display) -> StoreError {
    StoreError(format!("a level's data cannot be read: {why}"))
}
