//! Opening a folder: what is there, where it ends, and what a power cut left behind.
//!
//! A frame tells how far the log was durable when it was written. So a bad stretch was durable once,
//! and is damage, if any later frame says so; otherwise it was being written when the power went, and
//! it is cut off with all that follows it. The last frame of all has no later one to speak for it: if
//! it is bad it counts as torn.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile, write_all, write_zeros};
use crate::error::{Damage, LogError};
use crate::folder::{
    Active, Folder, Name, Publish, Segment, Segments, Spare, UNFINISHED, URGENT, parse_name,
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

pub(crate) fn recover(disk: Arc<dyn Disk>, path: &Path, options: &Options) -> Result<Recovered, LogError> {
    disk.create_folder(path).map_err(LogError::io("making", path))?;
    let folder = Folder { disk, path: path.to_path_buf() };
    let names = names(&folder)?;
    remove_unfinished(&folder, &names)?;
    let firsts = segments_of(&names);
    let spare = names.contains(&Name::Spare).then(|| folder.found_spare().ok()).flatten();
    let Some((last, closed)) = firsts.split_last() else { return begin(folder, spare, options) };
    if names.contains(&Name::Suspect(*last)) {
        rewrite(&folder, *last)?;
    }
    let mut list = VecDeque::with_capacity(firsts.len() + 1);
    for first in closed {
        list.push_back(closed_segment(&folder, *first)?);
    }
    let end = Ending::find(&folder, *last)?;
    end.settle(folder, list, spare)
}

fn names(folder: &Folder) -> Result<Vec<Name>, LogError> {
    let names = folder.disk.list(&folder.path).map_err(LogError::io("listing", &folder.path))?;
    Ok(names.iter().filter_map(|name| parse_name(name)).collect())
}

/// First offsets of the segments, in order.
pub(crate) fn segments_of(names: &[Name]) -> Vec<u64> {
    let first = |name: &Name| if let Name::Segment(first) = name { Some(*first) } else { None };
    let mut firsts: Vec<u64> = names.iter().filter_map(first).collect();
    firsts.sort_unstable();
    firsts
}

pub(crate) fn segments_in(folder: &Folder) -> Result<Vec<u64>, LogError> {
    Ok(segments_of(&names(folder)?))
}

fn remove_unfinished(folder: &Folder, names: &[Name]) -> Result<(), LogError> {
    if !names.contains(&Name::Unfinished) {
        return Ok(());
    }
    for name in [UNFINISHED, URGENT] {
        let path = folder.path.join(name);
        match folder.disk.remove(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(LogError::io("removing", &path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn begin(folder: Folder, spare: Option<Spare>, options: &Options) -> Result<Recovered, LogError> {
    let path = folder.segment_path(0);
    let made_ms = (options.clock)();
    let prepared = folder.prepare(URGENT, options.first_segment_bytes.max(FRAMES_FROM));
    let prepared = prepared.map_err(LogError::io("making", &path))?;
    let active = folder.publish(prepared, 0, made_ms).map_err(|failure| match failure {
        Publish::NotMade(error) | Publish::Unknown(error) => LogError::io("making", &path)(error),
    })?;
    let segments = Segments::new(VecDeque::from([Segment::active(&active, made_ms)]), active.at);
    Ok(Recovered { folder, segments, active, next: 0, torn_bytes: 0, spare })
}

fn open(folder: &Folder, first: u64) -> Result<(Arc<dyn DiskFile>, u64), LogError> {
    let path = folder.segment_path(first);
    let file = folder.disk.open(&path).map_err(LogError::io("opening", &path))?;
    let bytes = file.bytes().map_err(LogError::io("measuring", &path))?;
    Ok((file, bytes))
}

fn closed_segment(folder: &Folder, first: u64) -> Result<Segment, LogError> {
    let (file, bytes) = open(folder, first)?;
    Ok(Segment::new(first, folder.header(&*file, first)?, bytes))
}

/// A segment whose sync failed may be whole in the system's cache and not on the disk, and the system
/// believes it is. What can be read of it is written to new blocks; the old ones are not synced again.
fn rewrite(folder: &Folder, first: u64) -> Result<(), LogError> {
    let (path, unfinished) = (folder.segment_path(first), folder.path.join(URGENT));
    let copy = || -> std::io::Result<()> {
        let from = folder.disk.open(&path)?;
        let to = folder.disk.create(&unfinished)?;
        let (mut at, mut block) = (0, vec![0; 1 << 20]);
        loop {
            let read = crate::disk::read_full(&*from, &mut block, at)?;
            if read == 0 {
                break;
            }
            write_all(&*to, &block[..read], at)?;
            at += read as u64;
        }
        to.sync()?;
        folder.disk.rename(&unfinished, &path)?;
        folder.disk.sync_folder(&folder.path)?;
        folder.disk.remove(&folder.suspect_path(first))
    };
    copy().map_err(LogError::io("rewriting", &path))
}

/// Where the last segment ends, before anything is changed.
struct Ending {
    active: Active,
    segment: Segment,
    next: u64,
    damage: Vec<Gap>,
    /// Bytes to be zeroed.
    torn: std::ops::Range<u64>,
}

impl Ending {
    fn find(folder: &Folder, first: u64) -> Result<Ending, LogError> {
        let (file, bytes) = open(folder, first)?;
        let path = folder.segment_path(first);
        let Some(header) = folder.header(&*file, first)? else {
            return Err(LogError::Unreadable { path, reason: "both copies of its header are damaged" });
        };
        let mut segment = Segment::new(first, Some(header), bytes);
        let walked =
            walk(&*file, &mut segment, header.salt, bytes).map_err(LogError::io("reading", &path))?;
        let active = Active { file, first, salt: header.salt, at: walked.torn.start, prepared: bytes };
        let (next, damage, torn) = (walked.next, walked.damage, walked.torn);
        Ok(Ending { active, segment, next, damage, torn })
    }

    /// Cuts what is torn, and makes durable what an earlier run may have left to the system: from here
    /// on whatever is found counts as durable.
    fn settle(
        self,
        folder: Folder,
        mut list: VecDeque<Segment>,
        spare: Option<Spare>,
    ) -> Result<Recovered, LogError> {
        let Ending { active, segment, next, damage, torn } = self;
        let path = folder.segment_path(active.first);
        write_zeros(&*active.file, torn.start, torn.end).map_err(LogError::io("cutting", &path))?;
        active.file.sync().map_err(LogError::io("syncing", &path))?;
        folder.disk.sync_folder(&folder.path).map_err(LogError::io("syncing", &folder.path))?;
        list.push_back(segment);
        let segments = Segments::new(list, active.at);
        for gap in damage {
            segments.note(&damage_of(active.first, gap));
        }
        let torn_bytes = torn.end - torn.start;
        Ok(Recovered { folder, segments, active, next, torn_bytes, spare })
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
    pub(crate) torn: std::ops::Range<u64>,
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
    let (end, garbage_until) = loop {
        match scanner.step(Payload::Check)? {
            Step::Frame { at, header, .. } => {
                synced_until = synced_until.max(header.synced_until);
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
    Ok(Walked { next, damage: gaps, torn: torn_from..garbage_until.max(end).max(torn_from) })
}
