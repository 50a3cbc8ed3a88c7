//! Rewrites closed segments, for erasure.
//!
//! The new file is complete and durable under its own name before it replaces the old one, so a crash leaves one or
//! the other. It has its own salt, by which readers notice that an indexed frame or an open file is out of date.

use std::ops::Range;

use crate::chunk::{Chunk, EntryRef};
use crate::disk::{DiskFile, write_all};
use crate::error::{WalError, is_no_space};
use crate::folder::{REWRITTEN, Segment};
use crate::format::{ENTRY_HEADER_BYTES, FRAMES_FROM, FrameBuilder, FrameHeader, Salt, SegmentHeader};
use crate::read::ReadableSegment;
use crate::scan::{PayloadMode, ScanStep, Scanner};
use crate::shared::{Core, Rewriting};

/// Bytes that are buffered before a write.
const WRITE_BYTES: usize = 1 << 20;

/// Decides which entries are replaced.
pub trait Rewriter {
    /// Returns true if the entry has to be replaced. Called before any replacement, until one entry of the segment is
    /// affected.
    fn affects(&mut self, entry: &EntryRef<'_>) -> bool;

    /// Returns the replacement of the entry, or `None` to copy it. Called once for each entry of a rewritten segment,
    /// in order.
    fn replace(&mut self, entry: &EntryRef<'_>) -> Option<Replacement>;
}

/// The new kind and content of an entry. Its number of events, and so its offsets, do not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// Defined by the caller, as in [`Entry`](crate::Entry).
    pub kind: u8,
    /// The new content.
    pub bytes: Vec<u8>,
}

/// The result of rewriting a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RewriteStats {
    /// Entries that were replaced.
    pub entries: u64,
    /// Bytes of the old file.
    pub bytes_before: u64,
    /// Bytes of the new file.
    pub bytes_after: u64,
}

/// Returns a scanner of the segment's frames, to which bytes that the disk cannot read are damage; `None` if the header
/// is damaged, so that nothing can be read.
fn scanner_of(old: &ReadableSegment) -> Option<Scanner<'_>> {
    let scanner = |salt| Scanner::new(&*old.file, salt, FRAMES_FROM, old.bytes, old.first);
    Some(scanner(old.salt?).skipping_unreadable())
}

impl Core {
    /// Returns the closed segments, oldest first, each as its range of offsets.
    pub(crate) fn closed_segments(&self) -> Vec<Range<u64>> {
        let segments = self.segments.lock();
        let next = segments.list.iter().skip(1);
        segments.list.iter().zip(next).map(|(segment, next)| segment.first..next.first).collect()
    }

    /// See [`Wal::rewrite`](crate::Wal::rewrite).
    pub(crate) fn rewrite(
        &self,
        first: u64,
        rewriter: &mut dyn Rewriter,
    ) -> Result<Option<RewriteStats>, WalError> {
        let mut rewriting = self.rewriting.lock();
        if rewriting.failed {
            return Err(WalError::Stopped);
        }
        if !self.closed_segments().iter().any(|closed| closed.start == first) {
            return Ok(None);
        }
        let old = match self.readable(first) {
            Err(WalError::Trimmed { .. }) => return Ok(None),
            // A file that is gone contains nothing to remove.
            Err(WalError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Ok(None);
            }
            segment => segment?,
        };
        if !self.is_affected(&old, rewriter)? {
            return Ok(None);
        }
        let result = self.write_copy(&old, rewriter, &mut rewriting);
        if !matches!(result, Ok(Some(_))) {
            // If this fails, the next attempt or the next start removes it.
            let _ = self.folder.disk.remove(&self.folder.path.join(REWRITTEN));
        }
        result
    }

    /// Returns true if the segment has an entry to replace, or bytes that cannot be read.
    fn is_affected(&self, old: &ReadableSegment, rewriter: &mut dyn Rewriter) -> Result<bool, WalError> {
        let Some(mut scanner) = scanner_of(old) else { return Ok(true) };
        loop {
            match self.step(&mut scanner, old)? {
                ScanStep::Frame { header, payload, .. } => {
                    let chunk = Chunk::new(&header, payload, 0);
                    if chunk.entries().any(|entry| rewriter.affects(&entry)) {
                        return Ok(true);
                    }
                }
                ScanStep::Gap(_) => return Ok(true),
                ScanStep::End { at, garbage_until } => return Ok(garbage_until > at),
            }
        }
    }

    fn step(&self, scanner: &mut Scanner<'_>, old: &ReadableSegment) -> Result<ScanStep, WalError> {
        let step = scanner.step(PayloadMode::KeepFrom(old.first));
        step.map_err(|error| WalError::io("reading", &self.folder.segment_path(old.first))(error))
    }

    fn write_copy(
        &self,
        old: &ReadableSegment,
        rewriter: &mut dyn Rewriter,
        rewriting: &mut Rewriting,
    ) -> Result<Option<RewriteStats>, WalError> {
        let path = self.folder.path.join(REWRITTEN);
        let io = |action| {
            let error_of_action = WalError::io(action, &path);
            move |error: std::io::Error| {
                if is_no_space(&error) { WalError::Full } else { error_of_action(error) }
            }
        };
        self.check_free_space(old)?;
        // Left over from a failed attempt.
        let _ = self.folder.disk.remove(&path);
        let file = self.folder.disk.create(&path).map_err(io("creating"))?;
        let created_ms = self.segments.lock().find(old.first).map_or(0, |known| known.created_ms);
        let header = SegmentHeader { first: old.first, salt: self.folder.disk.random(), created_ms };
        let mut copy = SegmentCopy::new(&*file, header);
        let mut scanner = scanner_of(old);
        while let Some(scanner) = &mut scanner {
            match self.step(scanner, old)? {
                ScanStep::Frame { header, payload, .. } => {
                    copy.add_frame(&header, payload, rewriter).map_err(io("writing"))?;
                }
                ScanStep::Gap(_) => {}
                ScanStep::End { .. } => break,
            }
        }
        let (segment, entries) = copy.finish().map_err(io("writing"))?;
        self.sync_copy(&*file).map_err(io("syncing"))?;
        let bytes_after = segment.bytes;
        if !self.swap_file(segment, old.salt, rewriting)? {
            return Ok(None);
        }
        self.tail.evict_until(old.until);
        Ok(Some(RewriteStats { entries, bytes_before: old.bytes, bytes_after }))
    }

    #[cfg(not(feature = "fault-injection"))]
    fn sync_copy(&self, file: &dyn DiskFile) -> std::io::Result<()> {
        file.sync()
    }

    #[cfg(feature = "fault-injection")]
    fn sync_copy(&self, file: &dyn DiskFile) -> std::io::Result<()> {
        if self.options.injected_fault == Some(crate::InjectedFault::NameBeforeSync) {
            Ok(())
        } else {
            file.sync()
        }
    }

    fn check_free_space(&self, old: &ReadableSegment) -> Result<(), WalError> {
        match self.folder.disk.free_bytes(&self.folder.path) {
            Ok(free) if free < old.bytes.saturating_add(self.options.free_bytes_min) => Err(WalError::Full),
            // Unknown free space is no reason to reject: the writes themselves fail if there is none.
            _ => Ok(()),
        }
    }

    /// Replaces the old file with the new one, durably. Returns false if the old one was trimmed meanwhile.
    fn swap_file(
        &self,
        segment: Segment,
        salt: Option<u64>,
        rewriting: &mut Rewriting,
    ) -> Result<bool, WalError> {
        let (folder, first) = (&self.folder, segment.first);
        let (from, to) = (folder.path.join(REWRITTEN), folder.segment_path(first));
        let _trimming = self.trimming.lock();
        {
            // Readers hold this lock, too, when they open the file by its name.
            let mut segments = self.segments.lock();
            let Some(known) = segments.find(first).filter(|known| known.salt == salt) else {
                return Ok(false);
            };
            folder.disk.rename(&from, &to).map_err(WalError::io("renaming", &from))?;
            *known = segment;
        }
        self.cursors.lock().retain(|cursor| cursor.segment != first);
        let synced = folder.disk.sync_folder(&folder.path);
        rewriting.failed = synced.is_err();
        synced.map_err(WalError::io("syncing", &folder.path))?;
        Ok(true)
    }
}

/// A rewritten segment being written.
struct SegmentCopy<'a> {
    file: &'a dyn DiskFile,
    salt: Salt,
    segment: Segment,
    /// Bytes that were not written yet, and their position in the file.
    buffer: Vec<u8>,
    at: u64,
    replaced: u64,
}

impl<'a> SegmentCopy<'a> {
    fn new(file: &'a dyn DiskFile, header: SegmentHeader) -> SegmentCopy<'a> {
        let segment = Segment::new(header.first, Some(header), 0);
        let (salt, buffer) = (Salt::new(header.salt), header.encode());
        SegmentCopy { file, salt, segment, buffer, at: 0, replaced: 0 }
    }

    fn add_frame(
        &mut self,
        header: &FrameHeader,
        payload: Vec<u8>,
        rewriter: &mut dyn Rewriter,
    ) -> std::io::Result<()> {
        let chunk = Chunk::new(header, payload, 0);
        let mut builder = FrameBuilder::new(header.first, header.payload_bytes as usize + ENTRY_HEADER_BYTES);
        for entry in chunk.entries() {
            match rewriter.replace(&entry) {
                Some(Replacement { kind, bytes }) => {
                    self.replaced += 1;
                    builder.push(kind, entry.events, &bytes);
                }
                None => builder.push(entry.kind, entry.events, entry.bytes),
            }
        }
        debug_assert_eq!(builder.until(), header.until(), "every entry keeps its offsets");
        let (_, frame) = builder.seal(self.salt, header.synced_until, header.time_ms);
        self.segment.index_frame(header.first, self.at + self.buffer.len() as u64);
        self.buffer.extend_from_slice(&frame);
        if self.buffer.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        write_all(self.file, &self.buffer, self.at)?;
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Returns the new segment's table entry and the number of replaced entries.
    fn finish(mut self) -> std::io::Result<(Segment, u64)> {
        self.flush()?;
        self.segment.bytes = self.at;
        Ok((self.segment, self.replaced))
    }
}
