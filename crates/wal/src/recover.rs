//! Opening a folder: what is there, where it ends, and what a power cut left behind.
//!
//! A frame tells how far the log was durable when it was written. So a bad stretch was durable once,
//! and is damage, if any later frame says so; otherwise it was being written when the power went, and
//! it is cut off with all that follows it. The last frame of all has no later one to speak for it: if
//! it is bad it counts as torn.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile, read_full, write_all, write_zeros};
use crate::error::{Damage, WalError, is_no_space};
use crate::folder::{
    Active, Folder, Name, Publish, REWRITTEN, Segment, Segments, Spare, UNFINISHED, URGENT, parse_name,
};
use crate::format::FRAMES_FROM;
use crate::options::Options;
use crate::scan::{Gap, Payload, Scanner, Step};

/// A folder in order, and what was found in it.
pub(crate) struct Recovered {
    pub(crate) folder: Folder,
    pub(crate) segments: Segments,
    pub(crate) active: Active,
    pub(crate) next: u64,
    pub(crate) torn_bytes: u64,
    pub(crate) spare: Option<Spare>,
}

pub(crate) fn recover(disk: Arc<dyn Disk>, path: &Path, options: &Options) -> Result<Recovered, WalError> {
    disk.create_folder(path).map_err(WalError::io("making", path))?;
    let folder = Folder { disk, path: path.to_path_buf() };
    let names = names(&folder)?;
    remove_unfinished(&folder, &names)?;
    let firsts = segments_of(&names);
    let spare = names.contains(&Name::Spare).then(|| folder.found_spare().ok()).flatten();
    let Some((last, closed)) = firsts.split_last() else { return begin(folder, spare, options) };
    let mut list = VecDeque::with_capacity(firsts.len() + 1);
    for first in closed {
        list.push_back(closed_segment(&folder, *first)?);
    }
    let mut end = Ending::find(&folder, *last)?;
    end.settle(&folder, names.contains(&Name::Suspect(*last)))?;
    Ok(end.recovered(folder, list, spare))
}

fn names(folder: &Folder) -> Result<Vec<Name>, WalError> {
    let names = folder.disk.list(&folder.path).map_err(WalError::io("listing", &folder.path))?;
    Ok(names.iter().filter_map(|name| parse_name(name)).collect())
}

/// First offsets of the segments, in order.
pub(crate) fn segments_of(names: &[Name]) -> Vec<u64> {
    let first = |name: &Name| if let Name::Segment(first) = name { Some(*first) } else { None };
    let mut firsts: Vec<u64> = names.iter().filter_map(first).collect();
    firsts.sort_unstable();
    firsts
}

pub(crate) fn segments_in(folder: &Folder) -> Result<Vec<u64>, WalError> {
    Ok(segments_of(&names(folder)?))
}

fn remove_unfinished(folder: &Folder, names: &[Name]) -> Result<(), WalError> {
    if !names.contains(&Name::Unfinished) {
        return Ok(());
    }
    for name in [UNFINISHED, URGENT, REWRITTEN] {
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

fn begin(folder: Folder, spare: Option<Spare>, options: &Options) -> Result<Recovered, WalError> {
    let path = folder.segment_path(0);
    let made_ms = (options.clock)();
    let prepared = folder.prepare(URGENT, options.first_segment_bytes.max(FRAMES_FROM));
    let prepared = prepared.map_err(WalError::io("making", &path))?;
    let active = folder.publish(prepared, 0, made_ms).map_err(|failure| match failure {
        Publish::NotMade(error) | Publish::Unknown(error) => WalError::io("making", &path)(error),
    })?;
    let segments = Segments::new(VecDeque::from([Segment::active(&active, made_ms)]), active.at);
    Ok(Recovered { folder, segments, active, next: 0, torn_bytes: 0, spare })
}

fn open(folder: &Folder, first: u64) -> Result<(Arc<dyn DiskFile>, u64), WalError> {
    let path = folder.segment_path(first);
    let file = folder.disk.open(&path).map_err(WalError::io("opening", &path))?;
    let bytes = file.bytes().map_err(WalError::io("measuring", &path))?;
    Ok((file, bytes))
}

fn closed_segment(folder: &Folder, first: u64) -> Result<Segment, WalError> {
    let (file, bytes) = open(folder, first)?;
    Ok(Segment::new(first, folder.header(&*file, first)?, bytes))
}

/// Copies the beginning of a segment to a new file, which takes its place.
fn rewrite(folder: &Folder, active: &Active) -> std::io::Result<Arc<dyn DiskFile>> {
    let (path, unfinished) = (folder.segment_path(active.first), folder.path.join(URGENT));
    // Left over from an attempt that found no room.
    let _ = folder.disk.remove(&unfinished);
    let file = folder.disk.create(&unfinished)?;
    let written = copy(&*active.file, &*file, 0..active.at).and_then(|()| file.sync());
    written.inspect_err(|_| drop(folder.disk.remove(&unfinished)))?;
    folder.disk.rename(&unfinished, &path)?;
    folder.disk.sync_folder(&folder.path)?;
    Ok(file)
}

/// Copies a range of one file to the same place of another, or of itself.
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

/// Where the last segment ends, before anything is changed.
struct Ending {
    active: Active,
    segment: Segment,
    walked: Walked,
}

impl Ending {
    fn find(folder: &Folder, first: u64) -> Result<Ending, WalError> {
        let (file, bytes) = open(folder, first)?;
        let path = folder.segment_path(first);
        let Some(header) = folder.header(&*file, first)? else {
            return Err(WalError::Unreadable { path, reason: "both copies of its header are damaged" });
        };
        let mut segment = Segment::new(first, Some(header), bytes);
        let walked =
            walk(&*file, &mut segment, header.salt, bytes).map_err(WalError::io("reading", &path))?;
        let active = Active { file, first, salt: header.salt, at: walked.torn.start, prepared: bytes };
        Ok(Ending { active, segment, walked })
    }

    /// Cuts what is torn, and makes durable what an earlier run may have left to the system: from here
    /// on whatever is found counts as durable. If it fails, the next start finds what this one found.
    fn settle(&mut self, folder: &Folder, suspect: bool) -> Result<(), WalError> {
        let path = folder.segment_path(self.active.first);
        if suspect || !self.walked.torn.is_empty() {
            self.move_to_new_file(folder).map_err(WalError::io("rewriting", &path))?;
        }
        let (file, unconfirmed) = (&*self.active.file, self.walked.unconfirmed..self.active.at);
        copy(file, file, unconfirmed).map_err(WalError::io("writing", &path))?;
        file.sync().map_err(WalError::io("syncing", &path))?;
        folder.disk.sync_folder(&folder.path).map_err(WalError::io("syncing", &folder.path))?;
        if suspect {
            let marker = folder.suspect_path(self.active.first);
            folder.disk.remove(&marker).map_err(WalError::io("removing", &marker))?;
        }
        Ok(())
    }

    /// The blocks under a failed sync may be bad, and zeros written over a torn end would have to
    /// become durable before a second start looks at them: a new file has neither problem. A disk
    /// without room for it leaves the zeros.
    fn move_to_new_file(&mut self, folder: &Folder) -> std::io::Result<()> {
        match rewrite(folder, &self.active) {
            Ok(file) => {
                self.active.file = file;
                self.active.prepared = self.active.at;
                self.segment.bytes = self.active.at;
                Ok(())
            }
            Err(error) if is_no_space(&error) => {
                write_zeros(&*self.active.file, self.walked.torn.start, self.walked.torn.end)
            }
            Err(error) => Err(error),
        }
    }

    fn recovered(self, folder: Folder, mut list: VecDeque<Segment>, spare: Option<Spare>) -> Recovered {
        let Ending { active, segment, walked: Walked { next, damage, torn, .. } } = self;
        list.push_back(segment);
        let segments = Segments::new(list, active.at);
        for gap in damage {
            segments.note(&damage_of(active.first, gap));
        }
        let torn_bytes = torn.end - torn.start;
        Recovered { folder, segments, active, next, torn_bytes, spare }
    }
}

pub(crate) fn damage_of(segment: u64, gap: Gap) -> Damage {
    let Gap { byte_from, byte_to, offset_from, offset_to } = gap;
    Damage { segment, byte_from, byte_to, offset_from, offset_to }
}

/// What a walk over the last segment found.
pub(crate) struct Walked {
    pub(crate) next: u64,
    pub(crate) damage: Vec<Gap>,
    /// Bytes to be cut; it begins where the next frame goes.
    pub(crate) torn: Range<u64>,
    /// From this byte on nothing proves that it was synced. After a failed sync, or if the process
    /// ended before one, it may be in the system's cache alone, and the system may believe that it is
    /// on the disk: it is written again before it is synced.
    pub(crate) unconfirmed: u64,
}

/// Walks over a last segment and tells damage from a torn end.
pub(crate) fn walk(
    file: &dyn DiskFile,
    segment: &mut Segment,
    salt: u64,
    bytes: u64,
) -> std::io::Result<Walked> {
    let mut scanner = Scanner::new(file, salt, FRAMES_FROM, bytes, segment.first);
    let (mut gaps, mut synced_until): (Vec<Gap>, u64) = (Vec::new(), 0);
    // The frames not known to be synced: those of the last moments, or one.
    let mut unconfirmed = VecDeque::new();
    let (end, garbage_until) = loop {
        match scanner.step(Payload::Check)? {
            Step::Frame { at, header, .. } => {
                synced_until = synced_until.max(header.synced_until);
                unconfirmed.push_back((header.first, at));
                while unconfirmed.front().is_some_and(|(first, _)| *first < synced_until) {
                    unconfirmed.pop_front();
                }
                segment.learn(header.first, at);
            }
            Step::Bad(gap) => gaps.push(gap),
            Step::End { at, garbage_until } => break (at, garbage_until),
        }
    };
    let damaged = gaps.iter().take_while(|gap| gap.offset_from < synced_until).count();
    let torn_gap = gaps.get(damaged).copied();
    gaps.truncate(damaged);
    let (next, torn_from) =
        torn_gap.map_or((scanner.expected(), end), |gap| (gap.offset_from, gap.byte_from));
    segment.places.retain(|place| place.0 < next);
    let unconfirmed = unconfirmed.front().map_or(torn_from, |(_, at)| torn_from.min(*at));
    Ok(Walked { next, damage: gaps, torn: torn_from..garbage_until.max(torn_from), unconfirmed })
}
