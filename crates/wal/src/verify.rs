//! The full check: every byte of every segment against its checksum.

use std::path::Path;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::error::{Damage, WalError, is_unreadable};
use crate::folder::{Folder, Segment};
use crate::format::FRAMES_FROM;
use crate::read::ReadableSegment;
use crate::recover::{damage_of, scan_last_segment, segments_in};
use crate::scan::{PayloadMode, ScanStep, Scanner};
use crate::shared::Core;

/// The result of a full check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Segments read.
    pub segments: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Frames with valid checksums.
    pub frames: u64,
    /// Entries in these frames.
    pub entries: u64,
    /// The first offset.
    pub first: u64,
    /// The offset after the last.
    pub next: u64,
    /// Torn bytes at the end, which the next start removes.
    pub torn_bytes: u64,
    /// Damaged ranges.
    pub damage: Vec<Damage>,
}

/// A segment to check.
struct SegmentCheck {
    file: Arc<dyn DiskFile>,
    first: u64,
    salt: Option<u64>,
    bytes: u64,
    until: u64,
}

impl Core {
    /// Skips segments that are trimmed meanwhile; checks rewritten segments in their new form.
    pub(crate) fn verify(&self) -> Result<VerifyReport, WalError> {
        let firsts: Vec<u64> = self.segments.lock().list.iter().map(|segment| segment.first).collect();
        let mut report = VerifyReport::default();
        for first in firsts {
            if report.segments == 0 {
                report.first = first;
            }
            match self.readable(first) {
                Ok(ReadableSegment { file, salt, bytes, until, .. }) => {
                    report.check_segment(&self.folder, &SegmentCheck { file, first, salt, bytes, until })?;
                    report.next = until;
                }
                Err(WalError::Trimmed { .. }) => report.first = report.next.max(self.first()),
                Err(error) => report.add_unreadable(self.unreadable_segment(&error, first).ok_or(error)?),
            }
        }
        report.damage.iter().for_each(|damage| self.segments.record_damage(damage));
        Ok(report)
    }
}

/// Checks a folder that no process writes to, without changing it.
pub fn verify_folder(disk: Arc<dyn Disk>, path: &Path) -> Result<VerifyReport, WalError> {
    let folder = Folder { disk, path: path.to_path_buf() };
    let firsts = segments_in(&folder)?;
    let mut report = VerifyReport { first: firsts.first().copied().unwrap_or(0), ..VerifyReport::default() };
    for (index, first) in firsts.iter().enumerate() {
        let path = folder.segment_path(*first);
        let next = firsts.get(index + 1);
        let opened = folder.disk.open(&path).map_err(WalError::io("opening", &path));
        let file = match (opened, next) {
            (Err(WalError::Io { source, .. }), Some(next)) if is_unreadable(&source) => {
                let (segment, byte_from, byte_to) = (*first, FRAMES_FROM, FRAMES_FROM);
                let damage = Damage { segment, byte_from, byte_to, offset_from: segment, offset_to: *next };
                report.add_unreadable(damage);
                continue;
            }
            (opened, _) => opened?,
        };
        let bytes = file.bytes().map_err(WalError::io("measuring", &path))?;
        let header = match (folder.header(&*file, *first), next) {
            (Err(WalError::Io { source, .. }), Some(_)) if is_unreadable(&source) => None,
            (header, _) => header?,
        };
        let salt = header.map(|header| header.salt);
        let (until, bytes) = match (next, salt) {
            (Some(next), _) => (*next, bytes),
            (None, Some(salt)) => {
                let mut segment = Segment::new(*first, None, bytes);
                let scan = scan_last_segment(&*file, &mut segment, salt, bytes);
                let scan = scan.map_err(WalError::io("reading", &path))?;
                report.torn_bytes = scan.torn.end - scan.torn.start;
                (scan.next, scan.torn.start)
            }
            (None, None) => {
                return Err(WalError::Unreadable { path, reason: "both copies of its header are damaged" });
            }
        };
        report.check_segment(&folder, &SegmentCheck { file, first: *first, salt, bytes, until })?;
        report.next = until;
    }
    Ok(report)
}

impl VerifyReport {
    fn add_unreadable(&mut self, damage: Damage) {
        self.segments += 1;
        self.next = damage.offset_to;
        self.damage.push(damage);
    }

    fn check_segment(&mut self, folder: &Folder, check: &SegmentCheck) -> Result<(), WalError> {
        self.segments += 1;
        self.bytes += check.bytes;
        let path = folder.segment_path(check.first);
        let Some(salt) = check.salt else {
            self.add_missing_rest(check, FRAMES_FROM, check.first);
            return Ok(());
        };
        let mut scanner =
            Scanner::new(&*check.file, salt, FRAMES_FROM, check.bytes, check.first).skipping_unreadable();
        loop {
            match scanner.step(PayloadMode::Check).map_err(WalError::io("reading", &path))? {
                ScanStep::Frame { header, .. } => {
                    self.frames += 1;
                    self.entries += u64::from(header.entries);
                }
                ScanStep::Gap(gap) => self.damage.push(damage_of(check.first, gap)),
                ScanStep::End { at, .. } => {
                    self.add_missing_rest(check, at, scanner.expected());
                    return Ok(());
                }
            }
        }
    }

    /// Reports the rest of the segment as damage if it should contain offsets.
    fn add_missing_rest(&mut self, check: &SegmentCheck, byte_from: u64, offset_from: u64) {
        if offset_from < check.until {
            let (segment, byte_to, offset_to) = (check.first, check.bytes.max(byte_from), check.until);
            self.damage.push(Damage { segment, byte_from, byte_to, offset_from, offset_to });
        }
    }
}
