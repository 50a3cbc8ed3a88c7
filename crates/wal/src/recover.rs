//! Recovery when a folder is opened: finds the segments and the end of the log, and repairs what a power cut left.
//!
//! Each frame records up to which offset the log was durable when it was written. A bad range was therefore durable
//! once, and is damage, if a later frame says so; otherwise it was being written when the power went out, and it is
//! removed together with everything after it. No later frame vouches for the last one: if it is bad, it counts as torn.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile, read_full, write_all, write_zeros};
use crate::error::{Damage, WalError, is_no_space, is_unreadable};
use crate::folder::{
    Active, FileName, Folder, NEWEST_UNFINISHED, PublishError, REWRITTEN, Segment, Segments, Spare,
    UNFINISHED, URGENT, newest_noted, parse_name,
};
use crate::format::FRAMES_FROM;
use crate::options::Options;
use crate::scan::{Gap, PayloadMode, ScanStep, Scanner};

/// A repaired folder and its state.
pub(crate) struct Recovered {
    pub(crate) folder: Folder,
    pub(crate) segments: Segments,
    pub(crate) active: Active,
    pub(crate) next: u64,
    pub(crate) torn_bytes: u64,
    pub(crate) spare: Option<Spare>,
}

pub(crate) fn recover(disk: Arc<dyn Disk>, path: &Path, options: &Options) -> Result<Recovered, WalError> {
    let folder = Folder { disk, path: path.to_path_buf() };
    check_start(&folder, options)?;
    folder.disk.create_folder(path).map_err(WalError::io("creating", path))?;
    let names = list_names(&folder)?;
    remove_unfinished(&folder, &names)?;
    let firsts = segments_of(&names);
    let spare = names.contains(&FileName::Spare).then(|| folder.open_spare().ok()).flatten();
    let Some((last, closed)) = firsts.split_last() else {
        return create_first_segment(folder, spare, options);
    };
    let mut list = VecDeque::with_capacity(firsts.len() + 1);
    for first in closed {
        list.push_back(closed_segment(&folder, *first)?);
    }
    let mut last_segment = LastSegment::find(&folder, *last)?;
    let next = last_segment.scan.next;
    if let Some(needed) = options.continues_at.filter(|needed| *needed > next) {
        return Err(WalError::Mismatch { path: folder.path, first: firsts[0], next, needed });
    }
    last_segment.repair(&folder, names.contains(&FileName::Suspect(*last)))?;
    Ok(last_segment.into_recovered(folder, list, spare))
}

/// Checks that the log starts at or before the offset that is needed, and that its newest segment is there. A folder without
/// segments starts at 0 and has nothing else. Changes nothing, so that a missing folder can still be put back where it was.
fn check_start(folder: &Folder, options: &Options) -> Result<(), WalError> {
    let Some(needed) = options.continues_at else { return Ok(()) };
    let segments = existing_segments(&*folder.disk, &folder.path)?;
    let first = segments.first().copied();
    let is_mismatch = first.map_or(needed > 0, |first| first > needed);
    if !is_mismatch {
        let newest = newest_noted(&*folder.disk, &folder.path);
        return match newest.filter(|newest| segments.last().is_none_or(|last| last < newest)) {
            Some(first) => Err(WalError::Lost { path: folder.segment_path(first), first }),
            None => Ok(()),
        };
    }
    let first = first.unwrap_or(0);
    Err(WalError::Mismatch { path: folder.path.clone(), first, next: first, needed })
}

/// Returns the first offset of a log that is not open, or `None` if the folder has no segments or does not exist.
pub fn oldest_offset(disk: &dyn Disk, path: &Path) -> Result<Option<u64>, WalError> {
    Ok(existing_segments(disk, path)?.first().copied())
}

/// Returns the first offsets of the segments, in order. A missing folder has none.
fn existing_segments(disk: &dyn Disk, path: &Path) -> Result<Vec<u64>, WalError> {
    match disk.list(path) {
        Ok(names) => {
            let names: Vec<FileName> = names.iter().filter_map(|name| parse_name(name)).collect();
            Ok(segments_of(&names))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(WalError::io("listing", path)(error)),
    }
}

/// Offsets that are never assigned after a lost end: more than any server could have assigned between the last
/// checkpoint and the loss.
const OFFSETS_SKIPPED: u64 = 1 << 32;

/// Continues a log whose end is lost: starts a segment far behind every offset that may have been assigned, so that
/// none is assigned twice. Returns the lost offsets, from the end of what is readable up to the new segment; readers
/// report them as damage. A log without segments then starts at `used_until`.
///
/// Everything before `used_until` is known to have been assigned. No process may have the folder open.
pub fn skip_lost_end(
    disk: Arc<dyn Disk>,
    path: &Path,
    options: &Options,
    used_until: u64,
) -> Result<Range<u64>, WalError> {
    let newest = existing_segments(&*disk, path)?.last().copied();
    let lost_from = match newest {
        None => used_until,
        Some(newest) => {
            let options = Options { continues_at: None, ..options.clone() };
            match recover(Arc::clone(&disk), path, &options) {
                Ok(recovered) => recovered.next,
                // Readers report a closed segment without a header as damage.
                Err(WalError::Unreadable { .. }) => newest,
                Err(error) => return Err(error),
            }
        }
    };
    disk.create_folder(path).map_err(WalError::io("creating", path))?;
    let folder = Folder { disk, path: path.to_path_buf() };
    if newest.is_none() {
        create_segment(&folder, options, lost_from)?;
    }
    let until = lost_from.max(used_until) + OFFSETS_SKIPPED;
    create_segment(&folder, options, until)?;
    Ok(lost_from..until)
}

fn list_names(folder: &Folder) -> Result<Vec<FileName>, WalError> {
    let names = folder.disk.list(&folder.path).map_err(WalError::io("listing", &folder.path))?;
    Ok(names.iter().filter_map(|name| parse_name(name)).collect())
}

/// Returns the first offsets of the segments, in order.
pub(crate) fn segments_of(names: &[FileName]) -> Vec<u64> {
    let first = |name: &FileName| if let FileName::Segment(first) = name { Some(*first) } else { None };
    let mut firsts: Vec<u64> = names.iter().filter_map(first).collect();
    firsts.sort_unstable();
    firsts
}

pub(crate) fn segments_in(folder: &Folder) -> Result<Vec<u64>, WalError> {
    Ok(segments_of(&list_names(folder)?))
}

fn remove_unfinished(folder: &Folder, names: &[FileName]) -> Result<(), WalError> {
    if !names.contains(&FileName::Unfinished) {
        return Ok(());
    }
    for name in [UNFINISHED, URGENT, REWRITTEN, NEWEST_UNFINISHED] {
        let path = folder.path.join(name);
        match folder.disk.remove(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(WalError::io("removing", &path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn create_first_segment(
    folder: Folder,
    spare: Option<Spare>,
    options: &Options,
) -> Result<Recovered, WalError> {
    let (active, created_ms) = create_segment(&folder, options, 0)?;
    let segments = Segments::new(VecDeque::from([Segment::active(&active, created_ms)]), active.at);
    Ok(Recovered { folder, segments, active, next: 0, torn_bytes: 0, spare })
}

/// Creates an empty segment that starts at `first`. Returns it with its creation time.
fn create_segment(folder: &Folder, options: &Options, first: u64) -> Result<(Active, u64), WalError> {
    let path = folder.segment_path(first);
    let created_ms = (options.clock)();
    let prepared = folder.prepare(URGENT, options.first_segment_bytes.max(FRAMES_FROM));
    let prepared = prepared.map_err(WalError::io("creating", &path))?;
    let active = folder.publish(prepared, first, created_ms).map_err(|failure| match failure {
        PublishError::NotCreated(error) | PublishError::Unknown(error) => {
            WalError::io("creating", &path)(error)
        }
    })?;
    Ok((active, created_ms))
}

fn open(folder: &Folder, first: u64) -> Result<(Arc<dyn DiskFile>, u64), WalError> {
    let path = folder.segment_path(first);
    let file = folder.disk.open(&path).map_err(WalError::io("opening", &path))?;
    let bytes = file.bytes().map_err(WalError::io("measuring", &path))?;
    Ok((file, bytes))
}

/// A closed segment that the disk cannot read counts as damaged; readers report what is lost.
fn closed_segment(folder: &Folder, first: u64) -> Result<Segment, WalError> {
    let unreadable = |source: &std::io::Error| {
        tracing::error!(error = %source, segment = first, "a segment of the log cannot be read");
        Ok(None)
    };
    let (file, bytes) = match open(folder, first) {
        Err(WalError::Io { source, .. }) if is_unreadable(&source) => {
            return unreadable(&source).map(|header| Segment::new(first, header, 0));
        }
        opened => opened?,
    };
    let header = match folder.header(&*file, first) {
        Err(WalError::Io { source, .. }) if is_unreadable(&source) => unreadable(&source),
        header => header,
    };
    Ok(Segment::new(first, header?, bytes))
}

/// Copies the start of a segment to a new file, which replaces it.
fn copy_to_new_file(folder: &Folder, active: &Active) -> std::io::Result<Arc<dyn DiskFile>> {
    let (path, unfinished) = (folder.segment_path(active.first), folder.path.join(URGENT));
    // Left over from an attempt that found no space.
    let _ = folder.disk.remove(&unfinished);
    let file = folder.disk.create(&unfinished)?;
    let written = copy(&*active.file, &*file, 0..active.at).and_then(|()| file.sync());
    written.inspect_err(|_| drop(folder.disk.remove(&unfinished)))?;
    folder.disk.rename(&unfinished, &path)?;
    folder.disk.sync_folder(&folder.path)?;
    Ok(file)
}

/// Copies a range of one file to the same position of another file, or of the same file.
fn copy(from: &dyn DiskFile, to: &dyn DiskFile, range: Range<u64>) -> std::io::Result<()> {
    let mut block = vec![0; (range.end - range.start).min(1 << 20) as usize];
    let mut at = range.start;
    while at < range.end {
        let part = block.len().min((range.end - at) as usize);
        let read = read_full(from, &mut block[..part], at)?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        write_all(to, &block[..read], at)?;
        at += read as u64;
    }
    Ok(())
}

/// The last segment and where it ends, before anything is changed.
struct LastSegment {
    active: Active,
    segment: Segment,
    scan: LastSegmentScan,
}

impl LastSegment {
    fn find(folder: &Folder, first: u64) -> Result<LastSegment, WalError> {
        let path = folder.segment_path(first);
        let unreadable = |error| match error {
            WalError::Io { source, .. } if is_unreadable(&source) => {
                WalError::Unreadable { path: path.clone(), reason: "the disk cannot read it" }
            }
            error => error,
        };
        let (file, bytes) = open(folder, first).map_err(unreadable)?;
        let Some(header) = folder.header(&*file, first).map_err(unreadable)? else {
            return Err(WalError::Unreadable { path, reason: "both copies of its header are damaged" });
        };
        let mut segment = Segment::new(first, Some(header), bytes);
        let scan = scan_last_segment(&*file, &mut segment, header.salt, bytes)
            .map_err(WalError::io("reading", &path))
            .map_err(unreadable)?;
        let active = Active { file, first, salt: header.salt, at: scan.torn.start, prepared: bytes };
        Ok(LastSegment { active, segment, scan })
    }

    /// Removes the torn end and makes durable what an earlier run may have left in the page cache: from here on
    /// everything that was found counts as durable. If it fails, the next start finds the same state.
    fn repair(&mut self, folder: &Folder, suspect: bool) -> Result<(), WalError> {
        let path = folder.segment_path(self.active.first);
        if suspect || !self.scan.torn.is_empty() {
            self.move_to_new_file(folder).map_err(WalError::io("rewriting", &path))?;
        }
        let (file, unconfirmed) = (&*self.active.file, self.scan.unconfirmed..self.active.at);
        copy(file, file, unconfirmed).map_err(WalError::io("writing", &path))?;
        file.sync().map_err(WalError::io("syncing", &path))?;
        folder.disk.sync_folder(&folder.path).map_err(WalError::io("syncing", &folder.path))?;
        if suspect {
            let marker = folder.suspect_path(self.active.first);
            folder.disk.remove(&marker).map_err(WalError::io("removing", &marker))?;
        }
        Ok(())
    }

    /// The blocks under a failed sync may be bad, and zeros written over a torn end would have to become durable
    /// before another start reads them: a new file has neither problem. Without space for one the zeros are written.
    fn move_to_new_file(&mut self, folder: &Folder) -> std::io::Result<()> {
        match copy_to_new_file(folder, &self.active) {
            Ok(file) => {
                self.active.file = file;
                self.active.prepared = self.active.at;
                self.segment.bytes = self.active.at;
                Ok(())
            }
            Err(error) if is_no_space(&error) => {
                write_zeros(&*self.active.file, self.scan.torn.start, self.scan.torn.end)
            }
            Err(error) => Err(error),
        }
    }

    fn into_recovered(self, folder: Folder, mut list: VecDeque<Segment>, spare: Option<Spare>) -> Recovered {
        let LastSegment { active, segment, scan: LastSegmentScan { next, damage, torn, .. } } = self;
        list.push_back(segment);
        let segments = Segments::new(list, active.at);
        for gap in damage {
            segments.record_damage(&damage_of(active.first, gap));
        }
        let torn_bytes = torn.end - torn.start;
        Recovered { folder, segments, active, next, torn_bytes, spare }
    }
}

pub(crate) fn damage_of(segment: u64, gap: Gap) -> Damage {
    let Gap { byte_from, byte_to, offset_from, offset_to } = gap;
    Damage { segment, byte_from, byte_to, offset_from, offset_to }
}

/// The result of scanning the last segment.
pub(crate) struct LastSegmentScan {
    pub(crate) next: u64,
    pub(crate) damage: Vec<Gap>,
    /// Torn bytes to remove; the range starts where the next frame goes.
    pub(crate) torn: Range<u64>,
    /// From this byte on nothing proves that the bytes were synced. After a failed sync, or if the process ended
    /// before one, they may be in the page cache only, marked as clean: they are written again before the sync.
    pub(crate) unconfirmed: u64,
}

/// Scans the last segment and tells damage from a torn end.
pub(crate) fn scan_last_segment(
    file: &dyn DiskFile,
    segment: &mut Segment,
    salt: u64,
    bytes: u64,
) -> std::io::Result<LastSegmentScan> {
    let mut scanner = Scanner::new(file, salt, FRAMES_FROM, bytes, segment.first);
    let (mut gaps, mut synced_until): (Vec<Gap>, u64) = (Vec::new(), 0);
    // Frames not known to be synced: those of the last moments, or one.
    let mut unconfirmed = VecDeque::new();
    let (end, garbage_until) = loop {
        match scanner.step(PayloadMode::Check)? {
            ScanStep::Frame { at, header, .. } => {
                synced_until = synced_until.max(header.synced_until);
                unconfirmed.push_back((header.first, at));
                while unconfirmed.front().is_some_and(|(first, _)| *first < synced_until) {
                    unconfirmed.pop_front();
                }
                segment.index_frame(header.first, at);
            }
            ScanStep::Gap(gap) => gaps.push(gap),
            ScanStep::End { at, garbage_until } => break (at, garbage_until),
        }
    };
    let damaged = gaps.iter().take_while(|gap| gap.offset_from < synced_until).count();
    let torn_gap = gaps.get(damaged).copied();
    gaps.truncate(damaged);
    let (next, torn_from) =
        torn_gap.map_or((scanner.expected(), end), |gap| (gap.offset_from, gap.byte_from));
    segment.frame_index.retain(|frame| frame.0 < next);
    let unconfirmed = unconfirmed.front().map_or(torn_from, |(_, at)| torn_from.min(*at));
    Ok(LastSegmentScan { next, damage: gaps, torn: torn_from..garbage_until.max(torn_from), unconfirmed })
}
