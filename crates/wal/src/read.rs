//! Reads: from memory if the reader is close to the end, from the segments otherwise.

use std::io::ErrorKind;
use std::sync::Arc;

use crate::chunk::Chunk;
use crate::disk::DiskFile;
use crate::error::{Damage, WalError, is_unreadable};
use crate::format::FRAMES_FROM;
use crate::recover::damage_of;
use crate::scan::{PayloadMode, ScanStep, Scanner};
use crate::shared::{Core, Cursor};

/// The result of a read: chunks in order, and the damage that was skipped.
#[derive(Debug, Default)]
pub struct ReadBatch {
    /// The first contains the requested offset, unless that is lost or not written yet.
    pub chunks: Vec<Arc<Chunk>>,
    /// Damage between the requested offset and `next`: these offsets are lost.
    pub skipped: Vec<Damage>,
    /// The offset of the next read. Equal to the requested offset if nothing is there yet.
    pub next: u64,
}

/// Maximum number of reader positions kept; one more evicts the oldest, whose reader searches again.
const CURSORS_MAX: usize = 4;

/// A segment and the part of it that may be read.
pub(crate) struct ReadableSegment {
    pub(crate) first: u64,
    pub(crate) salt: Option<u64>,
    pub(crate) bytes: u64,
    /// The offset after the segment's last.
    pub(crate) until: u64,
    /// The open file.
    pub(crate) file: Arc<dyn DiskFile>,
    /// A frame at or before the requested offset, as (offset, byte).
    pub(crate) start_frame: (u64, u64),
}

impl Core {
    /// Reads about `limit_bytes` starting at `from`, at least one chunk.
    pub(crate) fn read(&self, from: u64, limit_bytes: usize) -> Result<ReadBatch, WalError> {
        let mut batch = ReadBatch { next: from, ..ReadBatch::default() };
        if from >= self.tail.durable_until() {
            return Ok(batch);
        }
        let first = self.first();
        if from < first {
            return Err(WalError::Trimmed { first });
        }
        if let Some(chunks) = self.tail.read(from, limit_bytes) {
            batch.next = chunks.last().map_or(from, |chunk| chunk.until());
            batch.chunks = chunks;
            return Ok(batch);
        }
        let mut bytes_left = limit_bytes;
        // Only what is durable now: a reader must not chase the writer.
        let durable_until = self.tail.durable_until();
        while batch.next < durable_until && (bytes_left > 0 || batch.chunks.is_empty()) {
            match self.readable(batch.next) {
                Ok(segment) => self.read_segment(&segment, &mut batch, &mut bytes_left)?,
                Err(error) => self.skip_unreadable_segment(error, &mut batch)?,
            }
        }
        Ok(batch)
    }

    /// Returns the first offset that was not trimmed.
    pub(crate) fn first(&self) -> u64 {
        self.segments.lock().list.front().map_or(0, |oldest| oldest.first)
    }

    /// Returns the segment that contains an offset. Its file is opened under the lock, so that the known salt and size
    /// belong to this file and not to a rewritten one that replaces it.
    pub(crate) fn readable(&self, offset: u64) -> Result<ReadableSegment, WalError> {
        let segments = self.segments.lock();
        let after = segments.list.partition_point(|segment| segment.first <= offset);
        let Some(index) = after.checked_sub(1) else {
            return Err(WalError::Trimmed {
                first: segments.list.front().map_or(offset, |oldest| oldest.first),
            });
        };
        let segment = &segments.list[index];
        let (first, salt) = (segment.first, segment.salt);
        let opened = match self.take_cursor(offset, first, salt) {
            Some(cursor) => Ok((cursor.file, (cursor.offset, cursor.at))),
            None => {
                let file = self.folder.disk.open(&self.folder.segment_path(first));
                file.map(|file| (file, segment.nearest_frame(offset)))
            }
        };
        let (bytes, until) = match segments.list.get(after) {
            Some(next) => (segment.bytes, next.first),
            // The writer advances `durable_at` before `durable_until`, so the bytes contain at least the offsets.
            None => (segments.durable_at, self.tail.durable_until()),
        };
        drop(segments);
        let (file, start_frame) = opened.map_err(|error| self.open_error(error, first))?;
        Ok(ReadableSegment { first, salt, bytes, until, file, start_frame })
    }

    /// Reports a closed segment that cannot be opened as lost. Returns other errors.
    fn skip_unreadable_segment(&self, error: WalError, batch: &mut ReadBatch) -> Result<(), WalError> {
        let damage = self.unreadable_segment(&error, batch.next).ok_or(error)?;
        self.skip(damage, batch);
        Ok(())
    }

    /// Returns the damage if the error of `readable` means that the closed segment which contains `offset` is lost.
    pub(crate) fn unreadable_segment(&self, error: &WalError, offset: u64) -> Option<Damage> {
        let WalError::Io { source, .. } = error else { return None };
        let segments = self.segments.lock();
        let after = segments.list.partition_point(|segment| segment.first <= offset);
        let (segment, next) = (segments.list.get(after.checked_sub(1)?)?, segments.list.get(after)?);
        is_unreadable(source).then(|| Damage {
            segment: segment.first,
            byte_from: FRAMES_FROM,
            byte_to: segment.bytes.max(FRAMES_FROM),
            offset_from: offset,
            offset_to: next.first,
        })
    }

    fn take_cursor(&self, offset: u64, segment: u64, salt: Option<u64>) -> Option<Cursor> {
        let mut cursors = self.cursors.lock();
        let fits =
            |cursor: &Cursor| (cursor.offset, cursor.segment, Some(cursor.salt)) == (offset, segment, salt);
        let index = cursors.iter().position(fits)?;
        Some(cursors.swap_remove(index))
    }

    fn read_segment(
        &self,
        segment: &ReadableSegment,
        batch: &mut ReadBatch,
        bytes_left: &mut usize,
    ) -> Result<(), WalError> {
        let Some(salt) = segment.salt else {
            self.skip_rest(segment, (FRAMES_FROM, batch.next), batch);
            return Ok(());
        };
        let (file, (expected, at)) = (&segment.file, segment.start_frame);
        let mut scanner = Scanner::new(&**file, salt, at, segment.bytes, expected).skipping_unreadable();
        let path = || self.folder.segment_path(segment.first);
        loop {
            let step = scanner.step(PayloadMode::KeepFrom(batch.next));
            match step.map_err(|error| WalError::io("reading", &path())(error))? {
                ScanStep::Frame { header, at, .. } if header.until() <= batch.next => {
                    self.index_frame((segment.first, salt), header.first, at)
                }
                ScanStep::Frame { header, at, payload } => {
                    let chunk = Arc::new(Chunk::new(&header, payload, 0));
                    self.index_frame((segment.first, salt), header.first, at);
                    batch.next = chunk.until();
                    *bytes_left = bytes_left.saturating_sub(chunk.bytes());
                    batch.chunks.push(chunk);
                    if *bytes_left == 0 || batch.next >= segment.until {
                        let at = at + header.frame_bytes();
                        let (offset, segment, file) = (batch.next, segment.first, Arc::clone(file));
                        self.put_cursor(Cursor { offset, segment, salt, at, file });
                        return Ok(());
                    }
                }
                ScanStep::Gap(gap) if gap.offset_to <= batch.next => {}
                ScanStep::Gap(gap) => self.skip(damage_of(segment.first, gap), batch),
                ScanStep::End { at, .. } => {
                    self.skip_rest(segment, (at, scanner.expected().max(batch.next)), batch);
                    return Ok(());
                }
            }
        }
    }

    fn skip(&self, damage: Damage, batch: &mut ReadBatch) {
        self.segments.record_damage(&damage);
        batch.next = batch.next.max(damage.offset_to);
        batch.skipped.push(damage);
    }

    /// Reports the rest of the segment as lost if it should contain offsets.
    fn skip_rest(
        &self,
        segment: &ReadableSegment,
        (byte_from, offset_from): (u64, u64),
        batch: &mut ReadBatch,
    ) {
        if offset_from < segment.until {
            let (byte_to, offset_to) = (segment.bytes.max(byte_from), segment.until);
            self.skip(Damage { segment: segment.first, byte_from, byte_to, offset_from, offset_to }, batch);
        }
    }

    /// Returns `Trimmed` if the segment was removed just now, else an I/O error.
    fn open_error(&self, error: std::io::Error, first: u64) -> WalError {
        let _trimming = self.trimming.lock();
        let oldest = self.first();
        if error.kind() == ErrorKind::NotFound && oldest > first {
            return WalError::Trimmed { first: oldest };
        }
        WalError::io("opening", &self.folder.segment_path(first))(error)
    }

    fn put_cursor(&self, cursor: Cursor) {
        let mut cursors = self.cursors.lock();
        if cursors.len() == CURSORS_MAX {
            cursors.remove(0);
        }
        cursors.push(cursor);
    }

    /// Adds a frame of a closed segment to its index, so that the next search is short. Ignored if the file has been
    /// replaced.
    fn index_frame(&self, (segment, salt): (u64, u64), offset: u64, at: u64) {
        let mut segments = self.segments.lock();
        if let Some(known) = segments.find(segment).filter(|known| known.salt == Some(salt)) {
            known.index_frame(offset, at);
        }
    }
}
