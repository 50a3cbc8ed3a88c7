//! The full check: every byte of every segment, compared with its checksums.

use std::path::Path;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::error::{Damage, WalError};
use crate::folder::{Folder, Segment};
use crate::format::FRAMES_FROM;
use crate::read::Readable;
use crate::recover::{damage_of, segments_in, walk};
use crate::scan::{Payload, Scanner, Step};
use crate::shared::Core;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Segments that were read.
    pub segments: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Frames whose checksums hold.
    pub frames: u64,
    /// Entries in them.
    pub entries: u64,
    /// The first offset there is.
    pub first: u64,
    /// The offset after the last.
    pub next: u64,
    /// Bytes at the end that a power cut left and the next start will cut.
    pub torn_bytes: u64,
    /// What is lost in between.
    pub damage: Vec<Damage>,
}

/// A segment as it is to be checked.
struct Check {
    file: Arc<dyn DiskFile>,
    first: u64,
    salt: Option<u64>,
    bytes: u64,
    until: u64,
}

impl Core {
    /// Segments that are given back meanwhile are left out; those that are written again are checked as they are then.
    pub(crate) fn verify(&self) -> Result<Verified, WalError> {
        let firsts: Vec<u64> = self.segments.lock().list.iter().map(|segment| segment.first).collect();
        let mut verified = Verified::default();
        for first in firsts {
            let Readable { file, salt, bytes, until, .. } = match self.readable(first) {
                Err(WalError::Trimmed { .. }) => continue,
                found => found?,
            };
            if verified.segments == 0 {
                verified.first = first;
            }
            verified.segment(&self.folder, &Check { file, first, salt, bytes, until })?;
            verified.next = until;
        }
        verified.damage.iter().for_each(|damage| self.segments.note(damage));
        Ok(verified)
    }
}

/// Checks a folder that nobody writes to, and changes nothing in it.
pub fn verify_folder(disk: Arc<dyn Disk>, path: &Path) -> Result<Verified, WalError> {
    let folder = Folder { disk, path: path.to_path_buf() };
    let firsts = segments_in(&folder)?;
    let mut verified = Verified { first: firsts.first().copied().unwrap_or(0), ..Verified::default() };
    for (index, first) in firsts.iter().enumerate() {
        let path = folder.segment_path(*first);
        let file = folder.disk.open(&path).map_err(WalError::io("opening", &path))?;
        let bytes = file.bytes().map_err(WalError::io("measuring", &path))?;
        let salt = folder.header(&*file, *first)?.map(|header| header.salt);
        let (until, bytes) = match (firsts.get(index + 1), salt) {
            (Some(next), _) => (*next, bytes),
            (None, Some(salt)) => {
                let mut segment = Segment::new(*first, None, bytes);
                let walked = walk(&*file, &mut segment, salt, bytes);
                let walked = walked.map_err(WalError::io("reading", &path))?;
                verified.torn_bytes = walked.torn.end - walked.torn.start;
                (walked.next, walked.torn.start)
            }
            (None, None) => {
                return Err(WalError::Unreadable { path, reason: "both copies of its header are damaged" });
            }
        };
        verified.segment(&folder, &Check { file, first: *first, salt, bytes, until })?;
        verified.next = until;
    }
    Ok(verified)
}

impl Verified {
    fn segment(&mut self, folder: &Folder, check: &Check) -> Result<(), WalError> {
        self.segments += 1;
        self.bytes += check.bytes;
        let path = folder.segment_path(check.first);
        let Some(salt) = check.salt else {
            self.rest(check, FRAMES_FROM, check.first);
            return Ok(());
        };
        let mut scanner = Scanner::new(&*check.file, salt, FRAMES_FROM, check.bytes, check.first);
        loop {
            match scanner.step(Payload::Check).map_err(WalError::io("reading", &path))? {
                Step::Frame { header, .. } => {
                    self.frames += 1;
                    self.entries += u64::from(header.entries);
                }
                Step::Bad(gap) => self.damage.push(damage_of(check.first, gap)),
                Step::End { at, .. } => {
                    self.rest(check, at, scanner.expected());
                    return Ok(());
                }
            }
        }
    }

    /// What should follow and does not.
    fn rest(&mut self, check: &Check, byte_from: u64, offset_from: u64) {
        if offset_from < check.until {
            let (segment, byte_to, offset_to) = (check.first, check.bytes, check.until);
            self.damage.push(Damage { segment, byte_from, byte_to, offset_from, offset_to });
        }
    }
}
