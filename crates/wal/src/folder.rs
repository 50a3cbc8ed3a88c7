//! The files of a log: their names, how one is made, and which there are.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::disk::{Disk, DiskFile, read_full, write_all, write_zeros};
use crate::error::{Damage, WalError};
use crate::format::{FRAMES_FROM, SegmentHeader};

/// A spare that is being made; removed at the next start if it was not finished.
pub(crate) const UNFINISHED: &str = "next.unfinished";
/// A segment that is being made because no spare was ready; removed like the former.
pub(crate) const URGENT: &str = "next.urgent";
/// A closed segment that is being written again; removed like the former.
pub(crate) const REWRITTEN: &str = "next.rewritten";
/// A file full of zeros, durable, waiting to become a segment.
const SPARE: &str = "next.spare";
/// A marker beside a segment whose sync failed.
const SUSPECT: &str = "suspect";

/// Where the log is.
#[derive(Clone)]
pub(crate) struct Folder {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) path: PathBuf,
}

/// A file of prepared zeros.
pub(crate) struct Spare {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) bytes: u64,
    path: PathBuf,
}

/// The segment that is being written.
pub(crate) struct Active {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) first: u64,
    pub(crate) salt: u64,
    /// Where the next frame goes.
    pub(crate) at: u64,
    /// Up to here its blocks are already written.
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

    /// Makes a file of zeros in small durable steps, so that commits in between do not wait long.
    /// Unfinished work is removed on the way out.
    ///
    /// The zeros go through the system's cache. Past it they cost less, but then each commit has to
    /// bring its pages in: measured together, 98 against 98 us for small commits, 137 against 163 us
    /// for commits of 26 KB.
    pub(crate) fn prepare(&self, name: &str, bytes: u64) -> std::io::Result<Spare> {
        let path = self.path.join(name);
        // Left over if an attempt failed and could not even be removed.
        let _ = self.disk.remove(&path);
        let made = self.disk.create(&path).and_then(|file| {
            // Some file systems cannot reserve; writing the zeros does it too.
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
        match made {
            Ok(file) => Ok(Spare { file, bytes, path }),
            Err(error) => {
                // The next start removes it if this does not work.
                let _ = self.disk.remove(&path);
                Err(error)
            }
        }
    }

    /// Gives a prepared file the name under which the next start finds it.
    pub(crate) fn shelve(&self, spare: Spare) -> std::io::Result<Spare> {
        let path = self.spare_path();
        self.disk.rename(&spare.path, &path)?;
        Ok(Spare { path, ..spare })
    }

    /// Takes over a spare that an earlier run left.
    pub(crate) fn found_spare(&self) -> std::io::Result<Spare> {
        let path = self.spare_path();
        let file = self.disk.open(&path)?;
        let bytes = file.bytes()?;
        Ok(Spare { file, bytes, path })
    }

    /// Makes a spare the segment that begins at `first`. On return its header and its name are
    /// durable: nothing is written to a segment that a start would not find.
    pub(crate) fn publish(&self, spare: Spare, first: u64, made_ms: u64) -> Result<Active, Publish> {
        let header = SegmentHeader { first, salt: self.disk.random(), made_ms };
        let written = write_all(&*spare.file, &header.encode(), 0).and_then(|()| spare.file.sync());
        let to = self.segment_path(first);
        written.and_then(|()| self.disk.rename(&spare.path, &to)).map_err(Publish::NotMade)?;
        self.disk.sync_folder(&self.path).map_err(Publish::Unknown)?;
        let prepared = spare.bytes.max(FRAMES_FROM);
        Ok(Active { file: spare.file, first, salt: header.salt, at: FRAMES_FROM, prepared })
    }

    /// The header of a segment; `None` when both copies are damaged.
    pub(crate) fn header(&self, file: &dyn DiskFile, first: u64) -> Result<Option<SegmentHeader>, WalError> {
        let path = self.segment_path(first);
        let mut block = vec![0; FRAMES_FROM as usize];
        let read = read_full(file, &mut block, 0).map_err(WalError::io("reading", &path))?;
        let header = SegmentHeader::decode(&block[..read], &path)?;
        Ok(header.filter(|header| header.first == first))
    }
}

/// Why there is no new segment.
pub(crate) enum Publish {
    /// It certainly does not exist under its name.
    NotMade(std::io::Error),
    /// It may or may not exist after a power cut.
    Unknown(std::io::Error),
}

/// A file name of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Segment(u64),
    Suspect(u64),
    Spare,
    Unfinished,
}

/// `None`: not one of the log's files; it is left alone.
pub(crate) fn parse_name(name: &str) -> Option<Name> {
    match name {
        UNFINISHED | URGENT | REWRITTEN => return Some(Name::Unfinished),
        SPARE => return Some(Name::Spare),
        _ => {}
    }
    let (stem, kind) = Path::new(name).file_stem()?.to_str().zip(Path::new(name).extension()?.to_str())?;
    let first = stem.parse().ok().filter(|_| stem.len() == 20)?;
    match kind {
        "log" => Some(Name::Segment(first)),
        SUSPECT => Some(Name::Suspect(first)),
        _ => None,
    }
}

/// What is known of a segment without opening it.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) first: u64,
    /// `None`: its header is damaged, so that nothing in it can be read.
    pub(crate) salt: Option<u64>,
    pub(crate) made_ms: u64,
    pub(crate) bytes: u64,
    /// Some frames of it, as (offset, byte), in order: where a read may begin.
    pub(crate) places: Vec<(u64, u64)>,
}

/// One place per so many bytes is remembered: a read begins at most so far before what it wants.
const PLACE_BYTES: u64 = 1 << 20;

impl Segment {
    pub(crate) fn new(first: u64, header: Option<SegmentHeader>, bytes: u64) -> Segment {
        let (salt, made_ms) = header.map_or((None, 0), |header| (Some(header.salt), header.made_ms));
        Segment { first, salt, made_ms, bytes, places: Vec::new() }
    }

    /// The segment that has just been made.
    pub(crate) fn active(active: &Active, made_ms: u64) -> Segment {
        let (first, salt) = (active.first, active.salt);
        Segment::new(first, Some(SegmentHeader { first, salt, made_ms }), active.prepared)
    }

    /// Remembers where a frame is, if the last place is far enough behind.
    pub(crate) fn learn(&mut self, offset: u64, at: u64) {
        let (last_offset, last_at) = self.places.last().copied().unwrap_or((self.first, FRAMES_FROM));
        if offset > last_offset && at >= last_at + PLACE_BYTES {
            self.places.push((offset, at));
        }
    }

    /// The nearest known frame at or before an offset.
    pub(crate) fn place(&self, offset: u64) -> (u64, u64) {
        let after = self.places.partition_point(|place| place.0 <= offset);
        if after == 0 { (self.first, FRAMES_FROM) } else { self.places[after - 1] }
    }
}

/// All segments, oldest first, and what is known to be damaged in them.
#[derive(Default)]
pub(crate) struct Segments {
    inner: Mutex<Inner>,
}

#[derive(Default)]
pub(crate) struct Inner {
    pub(crate) list: VecDeque<Segment>,
    /// The end of what is durable in the last segment.
    pub(crate) durable_at: u64,
    damage: Vec<Damage>,
}

impl Inner {
    /// The segment that begins at this offset.
    pub(crate) fn of(&mut self, first: u64) -> Option<&mut Segment> {
        let index = self.list.partition_point(|known| known.first < first);
        self.list.get_mut(index).filter(|known| known.first == first)
    }
}

impl Segments {
    pub(crate) fn new(list: VecDeque<Segment>, durable_at: u64) -> Segments {
        Segments { inner: Mutex::new(Inner { list, durable_at, damage: Vec::new() }) }
    }

    pub(crate) fn lock(&self) -> parking_lot::MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Notes damage once, however often it is come by.
    pub(crate) fn note(&self, damage: &Damage) {
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
