//! The files of a log: their names, their creation, and the table of segments.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::disk::{Disk, DiskFile, read_full, write_all, write_zeros};
use crate::error::{Damage, WalError};
use crate::format::{FRAMES_FROM, SegmentHeader};

/// A spare segment being prepared; removed at the next start if it was not finished.
pub(crate) const UNFINISHED: &str = "next.unfinished";
/// A segment being created because no spare was ready; removed at the next start like `UNFINISHED`.
pub(crate) const URGENT: &str = "next.urgent";
/// A closed segment being rewritten; removed at the next start like `UNFINISHED`.
pub(crate) const REWRITTEN: &str = "next.rewritten";
/// The first offset of the newest segment, so that its loss is noticed.
const NEWEST: &str = "newest";
/// `NEWEST` while it is being written; removed at the next start like `UNFINISHED`.
pub(crate) const NEWEST_UNFINISHED: &str = "next.newest";
/// A durable file of zeros, ready to become a segment.
const SPARE: &str = "next.spare";
/// A marker next to a segment whose sync failed.
const SUSPECT: &str = "suspect";

/// The folder of a log.
#[derive(Clone)]
pub(crate) struct Folder {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) path: PathBuf,
}

/// A preallocated file of zeros.
pub(crate) struct Spare {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) bytes: u64,
    path: PathBuf,
}

/// The segment being written.
pub(crate) struct Active {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) first: u64,
    pub(crate) salt: u64,
    /// Byte at which the next frame is written.
    pub(crate) at: u64,
    /// Bytes that are already preallocated.
    pub(crate) prepared: u64,
}

impl Folder {
    pub(crate) fn segment_path(&self, first: u64) -> PathBuf {
        self.path.join(format!("{first:020}.log"))
    }

    pub(crate) fn suspect_path(&self, first: u64) -> PathBuf {
        self.path.join(format!("{first:020}.{SUSPECT}"))
    }

    pub(crate) fn spare_path(&self) -> PathBuf {
        self.path.join(SPARE)
    }

    /// Creates a file of zeros in small durable steps, so that commits in between do not wait long. Removes the
    /// file if it cannot be finished.
    ///
    /// The zeros go through the page cache. Direct I/O is cheaper for this file, but then each commit has to read
    /// its pages back in: measured together, 98 against 98 us for small commits, 137 against 163 us for commits of
    /// 26 KB.
    pub(crate) fn prepare(&self, name: &str, bytes: u64) -> std::io::Result<Spare> {
        let path = self.path.join(name);
        // Left over if an earlier attempt failed and could not remove it.
        let _ = self.disk.remove(&path);
        let created = self.disk.create(&path).and_then(|file| {
            // Some file systems cannot reserve space; writing the zeros reserves it too.
            match file.allocate(bytes) {
                Err(error) if crate::error::is_no_space(&error) => return Err(error),
                _ => {}
            }
            const STEP: u64 = 4 << 20;
            for from in (0..bytes).step_by(STEP as usize) {
                write_zeros(&*file, from, (from + STEP).min(bytes))?;
                file.sync()?;
            }
            Ok(file)
        });
        match created {
            Ok(file) => Ok(Spare { file, bytes, path }),
            Err(error) => {
                // If this fails, the next start removes it.
                let _ = self.disk.remove(&path);
                Err(error)
            }
        }
    }

    /// Renames a prepared file so that the next start finds it.
    pub(crate) fn store_spare(&self, spare: Spare) -> std::io::Result<Spare> {
        let path = self.spare_path();
        self.disk.rename(&spare.path, &path)?;
        Ok(Spare { path, ..spare })
    }

    /// Opens the spare that an earlier run left.
    pub(crate) fn open_spare(&self) -> std::io::Result<Spare> {
        let path = self.spare_path();
        let file = self.disk.open(&path)?;
        let bytes = file.bytes()?;
        Ok(Spare { file, bytes, path })
    }

    /// Turns a spare into the segment that starts at `first`. On return its header and its name are durable, so a
    /// start finds every segment that was written to.
    pub(crate) fn publish(&self, spare: Spare, first: u64, created_ms: u64) -> Result<Active, PublishError> {
        let header = SegmentHeader { first, salt: self.disk.random(), created_ms };
        let written = write_all(&*spare.file, &header.encode(), 0).and_then(|()| spare.file.sync());
        let to = self.segment_path(first);
        written.and_then(|()| self.disk.rename(&spare.path, &to)).map_err(PublishError::NotCreated)?;
        self.disk.sync_folder(&self.path).map_err(PublishError::Unknown)?;
        let prepared = spare.bytes.max(FRAMES_FROM);
        Ok(Active { file: spare.file, first, salt: header.salt, at: FRAMES_FROM, prepared })
    }

    /// Writes which segment is the newest one. Its name is durable, so a start that does not find it knows that it is lost.
    pub(crate) fn note_newest(&self, first: u64) -> std::io::Result<()> {
        if newest_noted(&*self.disk, &self.path) == Some(first) {
            return Ok(());
        }
        let path = self.path.join(NEWEST_UNFINISHED);
        // Left over if an earlier attempt failed.
        let _ = self.disk.remove(&path);
        let file = self.disk.create(&path)?;
        let checksum = crc32c::crc32c(&first.to_le_bytes());
        write_all(&*file, &[&first.to_le_bytes()[..], &checksum.to_le_bytes()].concat(), 0)?;
        file.sync()?;
        self.disk.rename(&path, &self.path.join(NEWEST))?;
        self.disk.sync_folder(&self.path)
    }

    /// Reads the header of a segment; `None` if both copies are damaged.
    pub(crate) fn header(&self, file: &dyn DiskFile, first: u64) -> Result<Option<SegmentHeader>, WalError> {
        let path = self.segment_path(first);
        let mut block = vec![0; FRAMES_FROM as usize];
        let read = read_full(file, &mut block, 0).map_err(WalError::io("reading", &path))?;
        let header = SegmentHeader::decode(&block[..read], &path)?;
        Ok(header.filter(|header| header.first == first))
    }
}

/// Returns the first offset of the newest segment, as it was noted. The note may be about an older segment, or be missing or
/// damaged: then nothing is known.
pub(crate) fn newest_noted(disk: &dyn Disk, folder: &Path) -> Option<u64> {
    let mut bytes = [0; 12];
    let file = disk.open(&folder.join(NEWEST)).ok()?;
    let read = read_full(&*file, &mut bytes, 0).ok()?;
    let (first, checksum) = bytes.split_first_chunk()?;
    let is_valid = read == bytes.len() && checksum == crc32c::crc32c(first).to_le_bytes();
    is_valid.then(|| u64::from_le_bytes(*first))
}

/// The error of `Folder::publish`.
pub(crate) enum PublishError {
    /// The segment does not exist under its name.
    NotCreated(std::io::Error),
    /// The segment may or may not exist after a power cut.
    Unknown(std::io::Error),
}

/// A file name of the log, parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileName {
    Segment(u64),
    Suspect(u64),
    Spare,
    Unfinished,
}

/// Parses a file name; `None` if the file does not belong to the log, which then leaves it alone.
pub(crate) fn parse_name(name: &str) -> Option<FileName> {
    match name {
        UNFINISHED | URGENT | REWRITTEN | NEWEST_UNFINISHED => return Some(FileName::Unfinished),
        SPARE => return Some(FileName::Spare),
        _ => {}
    }
    let (stem, kind) = Path::new(name).file_stem()?.to_str().zip(Path::new(name).extension()?.to_str())?;
    let first = stem.parse().ok().filter(|_| stem.len() == 20)?;
    match kind {
        "log" => Some(FileName::Segment(first)),
        SUSPECT => Some(FileName::Suspect(first)),
        _ => None,
    }
}

/// The properties of a segment that are known without opening it.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) first: u64,
    /// `None`: its header is damaged, so nothing in it can be read.
    pub(crate) salt: Option<u64>,
    pub(crate) created_ms: u64,
    pub(crate) bytes: u64,
    /// A sparse index of its frames, as (offset, byte), in order: where a read may start.
    pub(crate) frame_index: Vec<(u64, u64)>,
}

/// Bytes per entry of the frame index: a read starts at most this far before its offset.
const BYTES_PER_INDEXED_FRAME: u64 = 1 << 20;

impl Segment {
    pub(crate) fn new(first: u64, header: Option<SegmentHeader>, bytes: u64) -> Segment {
        let (salt, created_ms) = header.map_or((None, 0), |header| (Some(header.salt), header.created_ms));
        Segment { first, salt, created_ms, bytes, frame_index: Vec::new() }
    }

    /// Returns the table entry of a segment that was just created.
    pub(crate) fn active(active: &Active, created_ms: u64) -> Segment {
        let (first, salt) = (active.first, active.salt);
        Segment::new(first, Some(SegmentHeader { first, salt, created_ms }), active.prepared)
    }

    /// Adds a frame to the index if it is far enough from the last indexed frame.
    pub(crate) fn index_frame(&mut self, offset: u64, at: u64) {
        let (last_offset, last_at) = self.frame_index.last().copied().unwrap_or((self.first, FRAMES_FROM));
        if offset > last_offset && at >= last_at + BYTES_PER_INDEXED_FRAME {
            self.frame_index.push((offset, at));
        }
    }

    /// Returns the nearest indexed frame at or before an offset.
    pub(crate) fn nearest_frame(&self, offset: u64) -> (u64, u64) {
        let after = self.frame_index.partition_point(|frame| frame.0 <= offset);
        if after == 0 { (self.first, FRAMES_FROM) } else { self.frame_index[after - 1] }
    }
}

/// All segments, oldest first, and their known damage.
#[derive(Default)]
pub(crate) struct Segments {
    inner: Mutex<SegmentTable>,
}

#[derive(Default)]
pub(crate) struct SegmentTable {
    pub(crate) list: VecDeque<Segment>,
    /// The end of the durable bytes in the last segment.
    pub(crate) durable_at: u64,
    damage: Vec<Damage>,
}

impl SegmentTable {
    /// Returns the segment that starts at this offset.
    pub(crate) fn find(&mut self, first: u64) -> Option<&mut Segment> {
        let index = self.list.partition_point(|known| known.first < first);
        self.list.get_mut(index).filter(|known| known.first == first)
    }
}

impl Segments {
    pub(crate) fn new(list: VecDeque<Segment>, durable_at: u64) -> Segments {
        Segments { inner: Mutex::new(SegmentTable { list, durable_at, damage: Vec::new() }) }
    }

    pub(crate) fn lock(&self) -> parking_lot::MutexGuard<'_, SegmentTable> {
        self.inner.lock()
    }

    /// Records and logs damage, once however often it is found.
    pub(crate) fn record_damage(&self, damage: &Damage) {
        let mut inner = self.lock();
        if !inner.damage.contains(damage) {
            tracing::error!(?damage, "the log is damaged: these offsets are lost");
            inner.damage.push(damage.clone());
        }
    }

    pub(crate) fn damage(&self) -> Vec<Damage> {
        self.lock().damage.clone()
    }
}
