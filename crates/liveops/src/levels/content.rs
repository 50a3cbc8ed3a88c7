//! The data and the thumbnail of a level, compressed and addressed by their SHA-256.

use hashbrown::HashMap;
use model::ports::counters::StoreError;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::Refusal;
use crate::subject::BlobStore;

/// Bytes of a level's data.
pub const DATA_BYTES_MAX: usize = 3 << 20;
/// Bytes of a level's thumbnail, a data URL.
pub const THUMB_BYTES_MAX: usize = 64 << 10;
/// Compresses nearly as well as higher levels, at a tenth of their cost.
const ZSTD_LEVEL: i32 = 3;

/// The SHA-256 of the uncompressed text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContentDigest([u8; 32]);

impl Serialize for ContentDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hex: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        serializer.serialize_str(&hex)
    }
}

impl<'de> Deserialize<'de> for ContentDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ContentDigest, D::Error> {
        let text = String::deserialize(deserializer)?;
        let read = || {
            let mut bytes = [0; 32];
            for (at, byte) in bytes.iter_mut().enumerate() {
                *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
            }
            (text.len() == 64).then_some(ContentDigest(bytes))
        };
        read().ok_or_else(|| serde::de::Error::custom("a digest must have 64 hexadecimal digits"))
    }
}

/// A reference to a text that is stored as a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentRef {
    /// The digest of the text.
    pub sha256: ContentDigest,
    /// The length of the text.
    pub bytes: u32,
    /// The length of the compressed text.
    pub packed_bytes: u32,
}

/// A level's data and thumbnail, ready for the command that saves it.
#[derive(Clone, Debug)]
pub struct PackedLevel {
    /// The data.
    pub data: ContentRef,
    /// The thumbnail.
    pub thumb: Option<ContentRef>,
    /// Both compressed, one after the other: the blob of the command.
    pub blob: Vec<u8>,
}

impl PackedLevel {
    /// Compresses the texts. This happens once, before the command is written, so that the log is small and applying it
    /// is cheap.
    ///
    /// Refuses a text that is too large and a thumbnail that is not a data URL of a picture.
    pub fn new(data: &str, thumb: Option<&str>) -> Result<PackedLevel, Refusal> {
        if !(1..=DATA_BYTES_MAX).contains(&data.len()) {
            return Err(Refusal::invalid("data", format!("must have 1 to {DATA_BYTES_MAX} bytes")));
        }
        thumb.map_or(Ok(()), check_thumb)?;
        let mut blob = Vec::new();
        let data = pack(data, &mut blob);
        let thumb = thumb.map(|thumb| pack(thumb, &mut blob));
        Ok(PackedLevel { data, thumb, blob })
    }
}

fn check_thumb(thumb: &str) -> Result<(), Refusal> {
    if thumb.len() > THUMB_BYTES_MAX {
        return Err(Refusal::invalid("thumb", format!("must have at most {THUMB_BYTES_MAX} bytes")));
    }
    let printable = thumb.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>'));
    // A script in an SVG would run if the picture were opened by itself.
    let picture = ["png", "jpeg", "gif", "webp"].iter().any(|kind| {
        let rest = thumb.strip_prefix("data:image/").and_then(|rest| rest.strip_prefix(kind));
        rest.is_some_and(|rest| rest.starts_with(";base64,"))
    });
    if printable && picture {
        return Ok(());
    }
    Err(Refusal::invalid("thumb", "must be a base64 data URL of a PNG, JPEG, GIF or WebP picture"))
}

fn pack(text: &str, blob: &mut Vec<u8>) -> ContentRef {
    let packed =
        zstd::bulk::compress(text.as_bytes(), ZSTD_LEVEL).expect("compressing in memory cannot fail");
    blob.extend_from_slice(&packed);
    let sha256 = ContentDigest(Sha256::digest(text.as_bytes()).into());
    ContentRef { sha256, bytes: text.len() as u32, packed_bytes: packed.len() as u32 }
}

/// The number of levels that use each blob, and the total size of all blobs.
#[derive(Debug, Default)]
pub(super) struct ContentReferences {
    counts: HashMap<ContentDigest, ReferenceCount>,
    packed_bytes: u64,
}

#[derive(Debug)]
struct ReferenceCount {
    levels: u32,
    packed_bytes: u32,
}

impl ContentReferences {
    /// Returns the bytes of all blobs, each counted once.
    pub(super) fn packed_bytes(&self) -> u64 {
        self.packed_bytes
    }

    /// Returns true if no level uses this blob.
    pub(super) fn is_new(&self, content: &ContentRef) -> bool {
        !self.counts.contains_key(&content.sha256)
    }

    /// Counts a level that uses the blob. Keeps the first of two compressions of the same text, so it returns that
    /// one's size.
    pub(super) fn add(&mut self, content: ContentRef) -> ContentRef {
        let new = ReferenceCount { levels: 0, packed_bytes: content.packed_bytes };
        let count = self.counts.entry(content.sha256).or_insert(new);
        if count.levels == 0 {
            self.packed_bytes += u64::from(count.packed_bytes);
        }
        count.levels += 1;
        ContentRef { packed_bytes: count.packed_bytes, ..content }
    }

    /// Uncounts a level. Removes the blob with the last one.
    pub(super) fn release(&mut self, content: &ContentRef, blobs: &mut BlobStore) {
        let count = self.counts.get_mut(&content.sha256).expect("released content has references");
        count.levels -= 1;
        if count.levels == 0 {
            self.packed_bytes -= u64::from(count.packed_bytes);
            self.counts.remove(&content.sha256);
            blobs.remove(&content.sha256.0);
        }
    }
}

/// Stores a blob that came with a command.
pub(super) fn put_blob(blobs: &mut BlobStore, content: &ContentRef, packed: &[u8]) {
    blobs.put(&content.sha256.0, packed);
}

/// Reads a blob.
pub(super) fn get_blob(blobs: &BlobStore, content: &ContentRef) -> Result<PackedText, StoreError> {
    let packed = blobs.get(&content.sha256.0)?.ok_or_else(|| damaged("the blob is missing"))?;
    Ok(PackedText { packed, bytes: content.bytes })
}

/// A compressed text. It is decompressed when no lock is held.
#[derive(Clone, Debug)]
pub(super) struct PackedText {
    packed: std::sync::Arc<[u8]>,
    bytes: u32,
}

impl PackedText {
    /// Returns the length of the text.
    pub(super) fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// Decompresses the text.
    pub(super) fn unpack(&self) -> Result<String, StoreError> {
        let bytes = zstd::bulk::decompress(&self.packed, self.bytes as usize).map_err(damaged)?;
        String::from_utf8(bytes).map_err(damaged)
    }
}

fn damaged(why: impl std::fmt::Display) -> StoreError {
    StoreError(format!("a level's data cannot be read: {why}"))
}
