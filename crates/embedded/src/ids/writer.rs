//! Writes a run from front to back, in memory that does not depend on its size.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use model::ports::ids::IdsError;

use super::filter::{Bits, Line, lines_for};
use super::folder;
use super::place::{Kind, share_of};
use super::run::{Bucket, HEADER_BYTES, Header, KEY_BYTES, KEYS_PER_BUCKET, Run, Section};

/// Bytes gathered before a write.
const WRITE_BYTES: usize = 256 << 10;
/// Bytes after which the file is synced: a large merge must not leave gigabytes for one sync, for which the log would
/// have to wait.
const SYNC_BYTES: u64 = 16 << 20;

/// A run that is being written.
pub(super) struct RunWriter {
    folder: PathBuf,
    path: PathBuf,
    file: File,
    header: Header,
    unsynced: u64,
}

impl RunWriter {
    /// Starts a run. Of the header's sections only `keys` is read: how many will come at most.
    pub(super) fn create(folder: &Path, mut header: Header) -> Result<RunWriter, IdsError> {
        let path = folder.join(folder::temporary_name(header.from, header.to));
        let file = File::create(&path).map_err(|error| write_failed(&path, error))?;
        lay_out(&mut header.sections);
        Ok(RunWriter { folder: folder.to_path_buf(), path, file, header, unsynced: 0 })
    }

    /// Writes the ids of one kind: `source` calls what it is given once for each place, in ascending order.
    pub(super) fn section(
        &mut self,
        kind: Kind,
        source: impl FnOnce(&mut SectionWriter<'_>) -> Result<(), IdsError>,
    ) -> Result<(), IdsError> {
        let plan = self.header.sections[kind as usize];
        let mut section = SectionWriter::new(&self.file, &self.path, plan, self.unsynced);
        source(&mut section)?;
        (self.header.sections[kind as usize], self.unsynced) = section.finish()?;
        Ok(())
    }

    /// Makes the run durable under its name, and opens it.
    pub(super) fn publish(self) -> Result<Run, IdsError> {
        let name = self.folder.join(folder::run_name(self.header.from, self.header.to));
        self.file
            .write_all_at(&self.header.encode(), 0)
            .and_then(|()| self.file.sync_all())
            .and_then(|()| fs::rename(&self.path, &name))
            .and_then(|()| folder::sync(&self.folder))
            .map_err(|error| write_failed(&self.path, error))?;
        Run::open(&name)
    }
}

/// Gives every part of the file its place, for the most keys that may come.
fn lay_out(sections: &mut [Section; 2]) {
    let mut at = HEADER_BYTES as u64;
    let mut take = |bytes: u64| {
        let from = at;
        at += bytes.next_multiple_of(Line::BYTES as u64);
        from
    };
    for section in sections {
        section.buckets = section.keys.div_ceil(KEYS_PER_BUCKET);
        section.lines = lines_for(section.keys);
        section.places_at = take(section.keys * KEY_BYTES as u64);
        section.directory_at = take(section.buckets * Bucket::BYTES as u64);
        section.filter_at = take(section.lines * Line::BYTES as u64);
    }
}

/// One section that is being written: three parts of the file grow side by side.
pub(super) struct SectionWriter<'a> {
    plan: Section,
    places: Part<'a>,
    directory: Part<'a>,
    filter: Part<'a>,
    /// Where the current bucket begins in the gathered places.
    bucket_from: usize,
    /// The current filter line.
    line: Line,
    keys: u64,
    /// Buckets and lines that are finished.
    buckets: u64,
    lines: u64,
    unsynced: u64,
}

impl<'a> SectionWriter<'a> {
    fn new(file: &'a File, path: &'a Path, plan: Section, unsynced: u64) -> SectionWriter<'a> {
        let part = |at| Part { file, path, at, gathered: Vec::new(), checksum: 0 };
        SectionWriter {
            places: part(plan.places_at),
            directory: part(plan.directory_at),
            filter: part(plan.filter_at),
            plan,
            bucket_from: 0,
            line: Line::default(),
            keys: 0,
            buckets: 0,
            lines: 0,
            unsynced,
        }
    }

    /// Adds the next place; each is larger than the one before.
    pub(super) fn push(&mut self, place: u128) -> Result<(), IdsError> {
        self.go_on_to(share_of(place, self.plan.buckets), share_of(place, self.plan.lines))?;
        self.line.add(&Bits::new(place));
        self.places.gathered.extend_from_slice(&place.to_le_bytes());
        self.keys += 1;
        Ok(())
    }

    fn go_on_to(&mut self, bucket: u64, line: u64) -> Result<(), IdsError> {
        while self.buckets < bucket {
            self.end_bucket()?;
        }
        while self.lines < line {
            self.end_line()?;
        }
        Ok(())
    }

    fn end_bucket(&mut self) -> Result<(), IdsError> {
        let checksum = crc32c::crc32c(&self.places.gathered[self.bucket_from..]);
        let end = u32::try_from(self.keys).expect("a run's size is limited to u32::MAX keys");
        self.directory.append(&Bucket { end, checksum }.to_bytes())?;
        if self.places.gathered.len() >= WRITE_BYTES {
            self.unsynced += self.places.gathered.len() as u64;
            self.places.write()?;
            self.sync_now_and_then()?;
        }
        self.bucket_from = self.places.gathered.len();
        self.buckets += 1;
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), IdsError> {
        let line = std::mem::take(&mut self.line);
        self.lines += 1;
        self.filter.append(&line.to_bytes())
    }

    fn sync_now_and_then(&mut self) -> Result<(), IdsError> {
        if self.unsynced >= SYNC_BYTES {
            self.unsynced = 0;
            self.places.file.sync_data().map_err(|error| write_failed(self.places.path, error))?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(Section, u64), IdsError> {
        self.go_on_to(self.plan.buckets, self.plan.lines)?;
        self.places.write()?;
        self.directory.write()?;
        self.filter.write()?;
        let section = Section {
            keys: self.keys,
            directory_checksum: self.directory.checksum,
            filter_checksum: self.filter.checksum,
            ..self.plan
        };
        Ok((section, self.unsynced))
    }
}

/// A part of the file that is written from front to back.
struct Part<'a> {
    file: &'a File,
    path: &'a Path,
    /// Where the gathered bytes will go.
    at: u64,
    gathered: Vec<u8>,
    /// Of everything appended.
    checksum: u32,
}

impl Part<'_> {
    fn append(&mut self, bytes: &[u8]) -> Result<(), IdsError> {
        self.checksum = crc32c::crc32c_append(self.checksum, bytes);
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), IdsError> {
        self.file.write_all_at(&self.gathered, self.at).map_err(|error| write_failed(self.path, error))?;
        self.at += self.gathered.len() as u64;
        self.gathered.clear();
        Ok(())
    }
}

pub(super) fn write_failed(path: &Path, error: io::Error) -> IdsError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => IdsError::Full,
        _ => IdsError::Unavailable(format!("writing {}: {error}", path.display())),
    }
}
