//! Closed segments written again without what has to go.
//!
//! The new file is whole and durable under a name of its own before it takes the old one's, so a crash leaves one or
//! the other. It has a salt of its own: that is how readers know that a place or a file of the old one is out of date.

use std::ops::Range;

use crate::chunk::{Chunk, EntryRef};
use crate::disk::{DiskFile, write_all};
use crate::error::{WalError, is_no_space};
use crate::folder::{REWRITTEN, Segment};
use crate::format::{ENTRY_HEADER_BYTES, FRAMES_FROM, FrameBuilder, FrameHeader, Salt, SegmentHeader};
use crate::read::Readable;
use crate::scan::{Payload, Scanner, Step};
use crate::shared::{Core, Rewriting};

/// So much is gathered before it is written.
const WRITE_BYTES: usize = 1 << 20;

/// Says what has to go.
pub trait Rewrite {
    /// Whether something of this entry has to go. Called first, and not for every entry: a segment with one is enough.
    fn concerns(&mut self, entry: &EntryRef<'_>) -> bool;

    /// What takes the entry's place, if anything. Called once for each entry of a segment that is written again, in
    /// order.
    fn replace(&mut self, entry: &EntryRef<'_>) -> Option<Replaced>;
}

/// What takes the place of an entry's kind and content. Its events, and so its offsets, stay as many as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// The caller's business, as everywhere.
    pub kind: u8,
    /// The new content.
    pub bytes: Vec<u8>,
}

/// What became of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewritten {
    /// Entries that were replaced.
    pub entries: u64,
    /// Bytes of the file before.
    pub bytes_before: u64,
    /// Bytes of the file now.
    pub bytes_after: u64,
}

impl Core {
    /// The closed segments, oldest first, each as its range of offsets.
    pub(crate) fn closed(&self) -> Vec<Range<u64>> {
        let segments = self.segments.lock();
        let next = segments.list.iter().skip(1);
        segments.list.iter().zip(next).map(|(segment, next)| segment.first..next.first).collect()
    }

    /// See `Log::rewrite`.
    pub(crate) fn rewrite(
        &self,
        first: u64,
        rewrite: &mut dyn Rewrite,
    ) -> Result<Option<Rewritten>, WalError> {
        let mut rewriting = self.rewriting.lock();
        if rewriting.failed {
            return Err(WalError::Stopped);
        }
        if !self.closed().iter().any(|closed| closed.start == first) {
            return Ok(None);
        }
        let old = match self.readable(first) {
            Err(WalError::Trimmed { .. }) => return Ok(None),
            found => found?,
        };
        let Some(salt) = old.salt else {
            let path = self.folder.segment_path(first);
            return Err(WalError::Unreadable { path, reason: "both copies of its header are damaged" });
        };
        if !self.is_concerned(&old, salt, rewrite)? {
            return Ok(None);
        }
        let replaced = self.replace(&old, salt, rewrite, &mut rewriting);
        if !matches!(replaced, Ok(Some(_))) {
            // The next attempt, or the next start, removes it if this does not work.
            let _ = self.folder.disk.remove(&self.folder.path.join(REWRITTEN));
        }
        replaced
    }

    /// Whether the segment has something that has to go, or something that cannot be read.
    fn is_concerned(&self, old: &Readable, salt: u64, rewrite: &mut dyn Rewrite) -> Result<bool, WalError> {
        let mut scanner = Scanner::new(&*old.file, salt, FRAMES_FROM, old.bytes, old.first);
        loop {
            match self.step(&mut scanner, old)? {
                Step::Frame { header, payload, .. } => {
                    let chunk = Chunk::new(&header, payload, 0);
                    if chunk.entries().any(|entry| rewrite.concerns(&entry)) {
                        return Ok(true);
                    }
                }
                Step::Bad(_) => return Ok(true),
                Step::End { at, garbage_until } => return Ok(garbage_until > at),
            }
        }
    }

    fn step(&self, scanner: &mut Scanner<'_>, old: &Readable) -> Result<Step, WalError> {
        let step = scanner.step(Payload::KeepFrom(old.first));
        step.map_err(|error| WalError::io("reading", &self.folder.segment_path(old.first))(error))
    }

    fn replace(
        &self,
        old: &Readable,
        salt: u64,
        rewrite: &mut dyn Rewrite,
        rewriting: &mut Rewriting,
    ) -> Result<Option<Rewritten>, WalError> {
        let path = self.folder.path.join(REWRITTEN);
        let io = |action| {
            let named = WalError::io(action, &path);
            move |error: std::io::Error| if is_no_space(&error) { WalError::Full } else { named(error) }
        };
        self.check_free(old)?;
        // Left over from an attempt that failed.
        let _ = self.folder.disk.remove(&path);
        let file = self.folder.disk.create(&path).map_err(io("making"))?;
        let made_ms = self.segments.lock().of(old.first).map_or(0, |known| known.made_ms);
        let header = SegmentHeader { first: old.first, salt: self.folder.disk.random(), made_ms };
        let mut copy = Copy::new(&*file, header);
        let mut scanner = Scanner::new(&*old.file, salt, FRAMES_FROM, old.bytes, old.first);
        loop {
            match self.step(&mut scanner, old)? {
                Step::Frame { header, payload, .. } => {
                    copy.frame(&header, payload, rewrite).map_err(io("writing"))?;
                }
                Step::Bad(_) => {}
                Step::End { .. } => break,
            }
        }
        let (segment, entries) = copy.finish().map_err(io("writing"))?;
        self.sync_copy(&*file).map_err(io("syncing"))?;
        let bytes_after = segment.bytes;
        if !self.exchange(segment, salt, rewriting)? {
            return Ok(None);
        }
        self.tail.forget(old.until);
        Ok(Some(Rewritten { entries, bytes_before: old.bytes, bytes_after }))
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

    fn check_free(&self, old: &Readable) -> Result<(), WalError> {
        match self.folder.disk.free_bytes(&self.folder.path) {
            Ok(free) if free < old.bytes.saturating_add(self.options.free_bytes_min) => Err(WalError::Full),
            // Not knowing is no reason to refuse: the writes themselves will tell.
            _ => Ok(()),
        }
    }

    /// Puts the new file in the place of the old one, durably. False: the old one was given back meanwhile.
    fn exchange(&self, segment: Segment, salt: u64, rewriting: &mut Rewriting) -> Result<bool, WalError> {
        let (folder, first) = (&self.folder, segment.first);
        let (from, to) = (folder.path.join(REWRITTEN), folder.segment_path(first));
        let _trimming = self.trimming.lock();
        {
            // Whoever opens the file by its name holds this lock, too.
            let mut segments = self.segments.lock();
            let Some(known) = segments.of(first).filter(|known| known.salt == Some(salt)) else {
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

/// A segment that is being written.
struct Copy<'a> {
    file: &'a dyn DiskFile,
    salt: Salt,
    segment: Segment,
    /// What was not written yet, and where it begins.
    buffer: Vec<u8>,
    at: u64,
    replaced: u64,
}

impl<'a> Copy<'a> {
    fn new(file: &'a dyn DiskFile, header: SegmentHeader) -> Copy<'a> {
        let segment = Segment::new(header.first, Some(header), 0);
        let (salt, buffer) = (Salt::new(header.salt), header.encode());
        Copy { file, salt, segment, buffer, at: 0, replaced: 0 }
    }

    fn frame(
        &mut self,
        header: &FrameHeader,
        payload: Vec<u8>,
        rewrite: &mut dyn Rewrite,
    ) -> std::io::Result<()> {
        let chunk = Chunk::new(header, payload, 0);
        let mut builder = FrameBuilder::new(header.first, header.payload_bytes as usize + ENTRY_HEADER_BYTES);
        for entry in chunk.entries() {
            match rewrite.replace(&entry) {
                Some(Replaced { kind, bytes }) => {
                    self.replaced += 1;
                    builder.push(kind, entry.events, &bytes);
                }
                None => builder.push(entry.kind, entry.events, entry.bytes),
            }
        }
        debug_assert_eq!(builder.until(), header.until(), "every entry keeps its offsets");
        let (_, frame) = builder.seal(self.salt, header.synced_until, header.time_ms);
        self.segment.learn(header.first, self.at + self.buffer.len() as u64);
        self.buffer.extend_from_slice(&frame);
        if self.buffer.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        write_all(self.file, &self.buffer, self.at)?;
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// The segment as it is known from now on, and how many of its entries were replaced.
    fn finish(mut self) -> std::io::Result<(Segment, u64)> {
        self.flush()?;
        self.segment.bytes = self.at;
        Ok((self.segment, self.replaced))
    }
}
