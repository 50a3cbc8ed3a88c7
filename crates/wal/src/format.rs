//! The file format of a segment. All numbers are little-endian.
//!
//! A segment is a file `<first offset, 20 digits>.log`:
//!
//! ```text
//! 0      64  header
//! 2048   64  copy of the header, in case the first is damaged
//! 4096       frames, each at a multiple of 8; then zeros to the end of the file
//!
//! header                                  frame
//! 0   8  "PLAYMLOG"                       0   4  CRC-32C of bytes 4..48, salted
//! 8   4  format version, 1                4   4  CRC-32C of the payload, salted
//! 12  4  CRC-32C of the other 60 bytes    8   4  bytes of payload, padding not included
//! 16  8  first offset of the segment      12  4  entries in the payload
//! 24  8  salt                             16  8  offset of the first entry
//! 32  8  created at, ms since 1970        24  4  offsets the entries take
//! 40 24  zeros                            28  4  zeros
//!                                         32  8  offset before which everything was durable at this write
//! entry                                   40  8  time of the commit, ms since 1970
//! 0   4  bytes after these 9              48     payload: entries; zeros up to a multiple of 8
//! 4   1  kind, defined by the caller
//! 5   4  events; the entry takes max(1, events) offsets
//! 9      bytes
//! ```
//!
//! The salt is a random number with which every checksum in the segment starts. Neither bytes left over from
//! another file nor a frame sent as the content of an event can be mistaken for a frame of this segment.

use crate::error::WalError;
use std::path::Path;

/// Byte at which the frames start.
pub(crate) const FRAMES_FROM: u64 = 4096;
/// Bytes before a frame's payload.
pub(crate) const FRAME_HEADER_BYTES: usize = 48;
/// Bytes before an entry's content.
pub(crate) const ENTRY_HEADER_BYTES: usize = 9;
/// Frames start at multiples of this.
pub(crate) const FRAME_ALIGN: u64 = 8;
/// The largest entry: twice the largest request after decompression.
pub const ENTRY_BYTES_MAX: usize = 128 << 20;

const VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"PLAYMLOG";
const HEADER_BYTES: usize = 64;
const SECOND_HEADER_AT: usize = 2048;

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) first: u64,
    pub(crate) salt: u64,
    pub(crate) created_ms: u64,
}

impl SegmentHeader {
    /// Encodes everything before the frames.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut header = [0; HEADER_BYTES];
        header[0..8].copy_from_slice(MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[16..24].copy_from_slice(&self.first.to_le_bytes());
        header[24..32].copy_from_slice(&self.salt.to_le_bytes());
        header[32..40].copy_from_slice(&self.created_ms.to_le_bytes());
        let sum = header_sum(&header);
        header[12..16].copy_from_slice(&sum.to_le_bytes());
        let mut block = vec![0; FRAMES_FROM as usize];
        block[..HEADER_BYTES].copy_from_slice(&header);
        block[SECOND_HEADER_AT..SECOND_HEADER_AT + HEADER_BYTES].copy_from_slice(&header);
        block
    }

    /// Reads either copy; `None` if both are damaged.
    pub(crate) fn decode(block: &[u8], path: &Path) -> Result<Option<SegmentHeader>, WalError> {
        for at in [0, SECOND_HEADER_AT] {
            let copy = block.get(at..at + HEADER_BYTES).filter(|copy| is_header(copy));
            if let Some(copy) = copy {
                return SegmentHeader::decode_copy(copy, path).map(Some);
            }
        }
        Ok(None)
    }

    fn decode_copy(copy: &[u8], path: &Path) -> Result<SegmentHeader, WalError> {
        let found = u32_at(copy, 8);
        if found > VERSION {
            return Err(WalError::Version { path: path.to_path_buf(), found, known: VERSION });
        }
        Ok(SegmentHeader { first: u64_at(copy, 16), salt: u64_at(copy, 24), created_ms: u64_at(copy, 32) })
    }
}

fn is_header(copy: &[u8]) -> bool {
    copy.starts_with(MAGIC) && u32_at(copy, 12) == header_sum(copy)
}

fn header_sum(copy: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&copy[..12]), &copy[16..HEADER_BYTES])
}

/// The initial value of every checksum in a segment with this salt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Salt(u32);

impl Salt {
    pub(crate) fn new(salt: u64) -> Salt {
        Salt(crc32c::crc32c(&salt.to_le_bytes()))
    }

    /// Returns the initial value for `crc32c_append`.
    pub(crate) fn start(self) -> u32 {
        self.0
    }

    fn sum(self, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(self.0, bytes)
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) payload_sum: u32,
    pub(crate) payload_bytes: u32,
    pub(crate) entries: u32,
    pub(crate) first: u64,
    pub(crate) offsets: u32,
    pub(crate) synced_until: u64,
    pub(crate) time_ms: u64,
}

impl FrameHeader {
    /// Returns the offset after the last entry.
    pub(crate) fn until(&self) -> u64 {
        self.first + u64::from(self.offsets)
    }

    /// Returns the bytes of the whole frame in the file, padding included.
    pub(crate) fn frame_bytes(&self) -> u64 {
        (FRAME_HEADER_BYTES as u64 + u64::from(self.payload_bytes)).next_multiple_of(FRAME_ALIGN)
    }

    fn encode(&self, salt: Salt, into: &mut [u8]) {
        into[4..8].copy_from_slice(&self.payload_sum.to_le_bytes());
        into[8..12].copy_from_slice(&self.payload_bytes.to_le_bytes());
        into[12..16].copy_from_slice(&self.entries.to_le_bytes());
        into[16..24].copy_from_slice(&self.first.to_le_bytes());
        into[24..28].copy_from_slice(&self.offsets.to_le_bytes());
        into[32..40].copy_from_slice(&self.synced_until.to_le_bytes());
        into[40..48].copy_from_slice(&self.time_ms.to_le_bytes());
        let sum = salt.sum(&into[4..]);
        into[0..4].copy_from_slice(&sum.to_le_bytes());
    }

    /// Reads a header; `None` if it does not belong to this segment or its offset is before `expected`.
    pub(crate) fn decode(bytes: &[u8], salt: Salt, expected: u64) -> Option<FrameHeader> {
        let first = u64_at(bytes, 16);
        // Cheap comparisons first: a scan for frames calls this for every eighth byte.
        if first < expected || u32_at(bytes, 28) != 0 || u32_at(bytes, 24) == 0 {
            return None;
        }
        if u32_at(bytes, 0) != salt.sum(&bytes[4..FRAME_HEADER_BYTES]) {
            return None;
        }
        Some(FrameHeader {
            payload_sum: u32_at(bytes, 4),
            payload_bytes: u32_at(bytes, 8),
            entries: u32_at(bytes, 12),
            first,
            offsets: u32_at(bytes, 24),
            synced_until: u64_at(bytes, 32),
            time_ms: u64_at(bytes, 40),
        })
    }
}

/// Builds a frame in a buffer that is allocated once.
pub(crate) struct FrameBuilder {
    bytes: Vec<u8>,
    first: u64,
    until: u64,
    entries: u32,
}

impl FrameBuilder {
    /// `entries_bytes` is the size of all entries, their headers included.
    pub(crate) fn new(first: u64, entries_bytes: usize) -> FrameBuilder {
        let whole = (FRAME_HEADER_BYTES + entries_bytes).next_multiple_of(FRAME_ALIGN as usize);
        let mut bytes = Vec::with_capacity(whole);
        bytes.resize(FRAME_HEADER_BYTES, 0);
        FrameBuilder { bytes, first, until: first, entries: 0 }
    }

    /// Returns the offset of the next entry.
    pub(crate) fn until(&self) -> u64 {
        self.until
    }

    pub(crate) fn push(&mut self, kind: u8, events: u32, bytes: &[u8]) {
        self.bytes.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.bytes.push(kind);
        self.bytes.extend_from_slice(&events.to_le_bytes());
        self.bytes.extend_from_slice(bytes);
        self.until += offsets_of(events);
        self.entries += 1;
    }

    /// Returns the frame with its checksums, ready to be written.
    pub(crate) fn seal(mut self, salt: Salt, synced_until: u64, time_ms: u64) -> (FrameHeader, Vec<u8>) {
        let header = FrameHeader {
            payload_sum: salt.sum(&self.bytes[FRAME_HEADER_BYTES..]),
            payload_bytes: (self.bytes.len() - FRAME_HEADER_BYTES) as u32,
            entries: self.entries,
            first: self.first,
            offsets: (self.until - self.first) as u32,
            synced_until,
            time_ms,
        };
        header.encode(salt, &mut self.bytes[..FRAME_HEADER_BYTES]);
        self.bytes.resize(self.bytes.len().next_multiple_of(FRAME_ALIGN as usize), 0);
        (header, self.bytes)
    }
}

/// Returns the number of offsets an entry takes: one per event, and one if it has none.
pub(crate) fn offsets_of(events: u32) -> u64 {
    u64::from(events.max(1))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("the slice has four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("the slice has eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn frame_header_round_trips(
            salt: u64, first in 0u64..u64::MAX / 2, synced: u64, time_ms: u64, events in 0u32..1000,
            bytes in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let salt = Salt::new(salt);
            let mut builder = FrameBuilder::new(first, ENTRY_HEADER_BYTES + bytes.len());
            builder.push(7, events, &bytes);
            let (written, frame) = builder.seal(salt, synced, time_ms);
            let header = FrameHeader::decode(&frame, salt, first).expect("the header was just written");
            prop_assert_eq!(header, written);
            prop_assert_eq!(header.until(), first + offsets_of(events));
            prop_assert_eq!(header.frame_bytes(), frame.len() as u64);
            prop_assert!(FrameHeader::decode(&frame, salt, first + 1).is_none());
        }
    }

    #[test]
    fn either_copy_of_a_segment_header_is_sufficient() {
        let header = SegmentHeader { first: 5, salt: 6, created_ms: 7 };
        let read = |block: &[u8]| SegmentHeader::decode(block, Path::new("5.log")).expect("known version");
        let mut block = header.encode();
        block[16] ^= 1;
        assert_eq!(read(&block), Some(header));
        block[SECOND_HEADER_AT + 16] ^= 1;
        assert_eq!(read(&block), None);
    }

    #[test]
    fn newer_format_version_is_rejected() {
        let mut block = SegmentHeader { first: 5, salt: 6, created_ms: 7 }.encode();
        block[8] = 9;
        let sum = header_sum(&block[..HEADER_BYTES]);
        block[12..16].copy_from_slice(&sum.to_le_bytes());
        let rejected = SegmentHeader::decode(&block, Path::new("5.log"));
        assert!(matches!(rejected, Err(WalError::Version { found: 9, known: 1, .. })));
    }
}
