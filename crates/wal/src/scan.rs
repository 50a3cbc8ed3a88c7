//! Scans the frames of one segment in constant memory and finds the next valid frame after damage.
//!
//! A scan of a segment that is no longer written to may treat bytes that the disk cannot read as damage: they become
//! zeros, which no checksum fits. At the end of the log this would be wrong: what cannot be read there would be taken for
//! the end and written over.

use std::io;

use crate::disk::{DiskFile, read_full};
use crate::error::is_unreadable;
use crate::format::{FRAME_ALIGN, FRAME_HEADER_BYTES, FrameHeader, Salt};

/// One step of a scan.
#[derive(Debug)]
pub(crate) enum ScanStep {
    /// A frame with valid checksums; its payload is empty unless it was requested.
    Frame { at: u64, header: FrameHeader, payload: Vec<u8> },
    /// Bytes before the next frame that are not a frame, or a frame whose payload is damaged.
    Gap(Gap),
    /// No valid header at or after `at`. Nonzero bytes end at `garbage_until`; equal to `at` if all are zero.
    End { at: u64, garbage_until: u64 },
}

/// A range of a segment that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) byte_from: u64,
    pub(crate) byte_to: u64,
    pub(crate) offset_from: u64,
    pub(crate) offset_to: u64,
}

/// The handling of payloads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PayloadMode {
    /// Read and check them, keep nothing.
    Check,
    /// Skip the payloads of frames that end at or before this offset, return the others.
    KeepFrom(u64),
}

/// The scan. It reads each byte once, in blocks.
pub(crate) struct Scanner<'a> {
    window: Window<'a>,
    salt: Salt,
    at: u64,
    expected: u64,
    found: Option<(u64, FrameHeader)>,
}

impl<'a> Scanner<'a> {
    /// Scans the bytes `from..limit`, where a frame with offset `expected` starts at `from`.
    pub(crate) fn new(
        file: &'a dyn DiskFile,
        salt: u64,
        from: u64,
        limit: u64,
        expected: u64,
    ) -> Scanner<'a> {
        Scanner { window: Window::new(file, limit), salt: Salt::new(salt), at: from, expected, found: None }
    }

    /// Treats bytes that the disk cannot read as damage instead of returning the error.
    pub(crate) fn skipping_unreadable(mut self) -> Scanner<'a> {
        self.window.skip_unreadable = true;
        self
    }

    /// Returns the offset that the next frame should have.
    pub(crate) fn expected(&self) -> u64 {
        self.expected
    }

    /// Returns the next frame, gap or end.
    pub(crate) fn step(&mut self, payload: PayloadMode) -> io::Result<ScanStep> {
        let Some((at, header)) = self.found.take().map_or_else(|| self.find(), |found| Ok(Some(found)))?
        else {
            let garbage_until = self.window.nonzero_until(self.at)?;
            return Ok(ScanStep::End { at: self.at, garbage_until });
        };
        if at > self.at || header.first > self.expected {
            let gap =
                Gap { byte_from: self.at, byte_to: at, offset_from: self.expected, offset_to: header.first };
            (self.at, self.expected) = (at, header.first);
            self.found = Some((at, header));
            return Ok(ScanStep::Gap(gap));
        }
        self.frame(at, header, payload)
    }

    fn frame(&mut self, at: u64, header: FrameHeader, payload: PayloadMode) -> io::Result<ScanStep> {
        let bytes = self.payload(at, &header, payload)?;
        self.at = at + header.frame_bytes();
        self.expected = header.until();
        Ok(match bytes {
            Some(payload) => ScanStep::Frame { at, header, payload },
            None => ScanStep::Gap(Gap {
                byte_from: at,
                byte_to: self.at,
                offset_from: header.first,
                offset_to: header.until(),
            }),
        })
    }

    /// Returns `None` if the payload is damaged.
    fn payload(
        &mut self,
        at: u64,
        header: &FrameHeader,
        payload: PayloadMode,
    ) -> io::Result<Option<Vec<u8>>> {
        let keep = match payload {
            PayloadMode::KeepFrom(offset) if header.until() <= offset => return Ok(Some(Vec::new())),
            PayloadMode::KeepFrom(_) => true,
            PayloadMode::Check => false,
        };
        let mut bytes = Vec::with_capacity(if keep { header.payload_bytes as usize } else { 0 });
        let (mut sum, mut from) = (self.salt.start(), at + FRAME_HEADER_BYTES as u64);
        let until = from + u64::from(header.payload_bytes);
        while from < until {
            let part = self.window.from(from, 1)?;
            let part = &part[..part.len().min((until - from) as usize)];
            if part.is_empty() {
                return Ok(None);
            }
            sum = crc32c::crc32c_append(sum, part);
            if keep {
                bytes.extend_from_slice(part);
            }
            from += part.len() as u64;
        }
        Ok((sum == header.payload_sum).then_some(bytes))
    }

    /// Finds the next header that belongs to this segment and whose offset does not go backwards.
    fn find(&mut self) -> io::Result<Option<(u64, FrameHeader)>> {
        let (mut at, limit) = (self.at, self.window.limit);
        loop {
            let view = self.window.from(at, FRAME_HEADER_BYTES)?;
            if view.len() < FRAME_HEADER_BYTES {
                return Ok(None);
            }
            let places = view.len() - FRAME_HEADER_BYTES + 1;
            for place in (0..places).step_by(FRAME_ALIGN as usize) {
                let bytes = &view[place..place + FRAME_HEADER_BYTES];
                // Two zero checksums are so rare that they are taken for unused space.
                if bytes[..8] == [0; 8] {
                    continue;
                }
                let fits = |header: &FrameHeader| header.frame_bytes() <= limit - (at + place as u64);
                if let Some(header) = FrameHeader::decode(bytes, self.salt, self.expected).filter(fits) {
                    return Ok(Some((at + place as u64, header)));
                }
            }
            at += (places as u64).next_multiple_of(FRAME_ALIGN);
        }
    }
}

const BLOCK_BYTES_MIN: usize = 64 << 10;
const BLOCK_BYTES_MAX: usize = 1 << 20;
/// The unit in which a disk fails to read.
const PAGE_BYTES: u64 = 4 << 10;

/// A part of a file in memory. The first block is small, for reads of one frame; the next ones are larger.
struct Window<'a> {
    file: &'a dyn DiskFile,
    limit: u64,
    start: u64,
    bytes: Vec<u8>,
    block: usize,
    skip_unreadable: bool,
}

impl<'a> Window<'a> {
    fn new(file: &'a dyn DiskFile, limit: u64) -> Window<'a> {
        Window { file, limit, start: 0, bytes: Vec::new(), block: BLOCK_BYTES_MIN, skip_unreadable: false }
    }

    /// Returns the bytes at `at`: at least `wanted` of them unless the limit or the end of the file is nearer.
    fn from(&mut self, at: u64, wanted: usize) -> io::Result<&[u8]> {
        let end = self.start + self.bytes.len() as u64;
        let inside = (self.start..=end).contains(&at) && !self.bytes.is_empty();
        if !(inside && (at + wanted as u64 <= end || end >= self.limit)) {
            self.fill(at)?;
        }
        let skip = at.saturating_sub(self.start) as usize;
        Ok(&self.bytes[skip.min(self.bytes.len())..])
    }

    fn fill(&mut self, at: u64) -> io::Result<()> {
        let block = (self.block as u64).min(self.limit.saturating_sub(at)) as usize;
        self.bytes.resize(block, 0);
        let read = match read_full(self.file, &mut self.bytes, at) {
            Err(error) if self.skip_unreadable && is_unreadable(&error) => self.read_pages(at)?,
            read => read?,
        };
        self.bytes.truncate(read);
        self.start = at;
        self.block = (self.block * 2).min(BLOCK_BYTES_MAX);
        Ok(())
    }

    /// Reads a block page by page, with zeros in place of the pages that cannot be read. Returns the number of bytes.
    fn read_pages(&mut self, at: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < self.bytes.len() {
            let from = at + filled as u64;
            let part = (PAGE_BYTES - from % PAGE_BYTES).min((self.bytes.len() - filled) as u64) as usize;
            let page = &mut self.bytes[filled..filled + part];
            match read_full(self.file, page, from) {
                Ok(read) if read < part => return Ok(filled + read),
                Ok(_) => {}
                Err(error) if is_unreadable(&error) => page.fill(0),
                Err(error) => return Err(error),
            }
            filled += part;
        }
        Ok(filled)
    }

    /// Returns the end of the last nonzero byte at or after `at`; `at` if there is none.
    fn nonzero_until(&mut self, mut at: u64) -> io::Result<u64> {
        let mut until = at;
        while at < self.limit {
            let part = self.from(at, 1)?;
            if part.is_empty() {
                break;
            }
            if let Some(last) = part.iter().rposition(|byte| *byte != 0) {
                until = at + last as u64 + 1;
            }
            at += part.len() as u64;
        }
        Ok(until)
    }
}
