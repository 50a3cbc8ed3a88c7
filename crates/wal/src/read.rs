//! Reading back: from memory when the reader is close behind, from the segments when it is not.

use std::io::ErrorKind;
use std::sync::Arc;

use crate::chunk::Chunk;
use crate::disk::DiskFile;
use crate::error::{Damage, WalError};
use crate::format::FRAMES_FROM;
use crate::recover::damage_of;
use crate::scan::{Payload, Scanner, Step};
use crate::shared::{Core, Cursor};

/// What a read gives: chunks in order, and what had to be passed over.
#[derive(Debug, Default)]
pub struct Batch {
    /// The first holds the offset asked for, unless that is lost or not there yet.
    pub chunks: Vec<Arc<Chunk>>,
    /// Damage between the offset asked for and `next`: these offsets will never come.
    pub skipped: Vec<Damage>,
    /// Where to read on. Equal to the offset asked for: nothing there yet.
    pub next: u64,
}

/// Readers that are remembered at the same time; one more and the oldest has to search again.
const CURSORS: usize = 4;

/// A segment as far as it may be read.
pub(crate) struct Readable {
    pub(crate) first: u64,
    pub(crate) salt: Option<u64>,
    pub(crate) bytes: u64,
    /// Where the segment's offsets end.
    pub(crate) until: u64,
    /// The file, and a frame in it at or before the offset asked for, as (offset, byte).
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) place: (u64, u64),
}

impl Core {
    /// Reads from `from` about `limit_bytes`, one chunk at least.
    pub(crate) fn read(&self, from: u64, limit_bytes: usize) -> Result<Batch, WalError> {
        let mut batch = Batch { next: from, ..Batch::default() };
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
        let mut room = limit_bytes;
        // What is durable by now is enough; a reader must not chase the writer.
        let durable_until = self.tail.durable_until();
        while batch.next < durable_until && (room > 0 || batch.chunks.is_empty()) {
            let segment = self.readable(batch.next)?;
            self.read_segment(&segment, &mut batch, &mut room)?;
        }
        Ok(batch)
    }

    /// The first offset that is still there.
    pub(crate) fn first(&self) -> u64 {
        self.segments.lock().list.front().map_or(0, |oldest| oldest.first)
    }

    /// The segment that holds an offset. Its file is opened under the lock: what is known of the segment, its salt and
    /// its size, belongs to this file and not to the one that takes its place when it is written again.
    pub(crate) fn readable(&self, offset: u64) -> Result<Readable, WalError> {
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
                file.map(|file| (file, segment.place(offset)))
            }
        };
        let (bytes, until) = match segments.list.get(after) {
            Some(next) => (segment.bytes, next.first),
            // The writer moves the first on before the second, so the bytes hold at least the offsets.
            None => (segments.durable_at, self.tail.durable_until()),
        };
        drop(segments);
        let (file, place) = opened.map_err(|error| self.why_not_open(error, first))?;
        Ok(Readable { first, salt, bytes, until, file, place })
    }

    fn take_cursor(&self, offset: u64, segment: u64, salt: Option<u64>) -> Option<Cursor> {
        let mut cursors = self.cursors.lock();
        let fits =
            |cursor: &Cursor| (cursor.offset, cursor.segment, Some(cursor.salt)) == (offset, segment, salt);
        let index = cursors.iter().position(fits)?;
        Some(cursors.swap_remove(index))
    }

    fn read_segment(&self, segment: &Readable, batch: &mut Batch, room: &mut usize) -> Result<(), WalError> {
        let Some(salt) = segment.salt else {
            self.skip_rest(segment, (FRAMES_FROM, batch.next), batch);
            return Ok(());
        };
        let (file, (expected, at)) = (&segment.file, segment.place);
        let mut scanner = Scanner::new(&**file, salt, at, segment.bytes, expected);
        let path = || self.folder.segment_path(segment.first);
        loop {
            let step = scanner.step(Payload::KeepFrom(batch.next));
            match step.map_err(|error| WalError::io("reading", &path())(error))? {
                Step::Frame { header, at, .. } if header.until() <= batch.next => {
                    self.learn((segment.first, salt), header.first, at)
                }
                Step::Frame { header, at, payload } => {
                    let chunk = Arc::new(Chunk::new(&header, payload, 0));
                    self.learn((segment.first, salt), header.first, at);
                    batch.next = chunk.until();
                    *room = room.saturating_sub(chunk.bytes());
                    batch.chunks.push(chunk);
                    if *room == 0 || batch.next >= segment.until {
                        let at = at + header.frame_bytes();
                        let (offset, segment, file) = (batch.next, segment.first, Arc::clone(file));
                        self.keep_cursor(Cursor { offset, segment, salt, at, file });
                        return Ok(());
                    }
                }
                Step::Bad(gap) if gap.offset_to <= batch.next => {}
                Step::Bad(gap) => self.skip(damage_of(segment.first, gap), batch),
                Step::End { at, .. } => {
                    self.skip_rest(segment, (at, scanner.expected().max(batch.next)), batch);
                    return Ok(());
                }
            }
        }
    }

    fn skip(&self, damage: Damage, batch: &mut Batch) {
        self.segments.note(&damage);
        batch.next = batch.next.max(damage.offset_to);
        batch.skipped.push(damage);
    }

    /// Everything up to the end of the segment is lost, if anything should be there.
    fn skip_rest(&self, segment: &Readable, (byte_from, offset_from): (u64, u64), batch: &mut Batch) {
        if offset_from < segment.until {
            let (byte_to, offset_to) = (segment.bytes, segment.until);
            self.skip(Damage { segment: segment.first, byte_from, byte_to, offset_from, offset_to }, batch);
        }
    }

    /// A segment that was removed just now was trimmed; any other that cannot be opened is an error.
    fn why_not_open(&self, error: std::io::Error, first: u64) -> WalError {
        let _trimming = self.trimming.lock();
        let oldest = self.first();
        if error.kind() == ErrorKind::NotFound && oldest > first {
            return WalError::Trimmed { first: oldest };
        }
        WalError::io("opening", &self.folder.segment_path(first))(error)
    }

    fn keep_cursor(&self, cursor: Cursor) {
        let mut cursors = self.cursors.lock();
        if cursors.len() == CURSORS {
            cursors.remove(0);
        }
        cursors.push(cursor);
    }

    /// Remembers where a frame of a closed segment is, so that the next search is short. Places in a file that another
    /// has replaced are worth nothing.
    fn learn(&self, (segment, salt): (u64, u64), offset: u64, at: u64) {
        let mut segments = self.segments.lock();
        if let Some(known) = segments.of(segment).filter(|known| known.salt == Some(salt)) {
            known.learn(offset, at);
        }
    }
}
