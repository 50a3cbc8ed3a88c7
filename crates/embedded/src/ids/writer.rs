//! Writes a run from front to back, in memory that does not depend on its size.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use model::ports::ids::IdsError;

use super::filter::{FilterBits, FilterLine, lines_for};
use super::folder;
use super::hash::{IdKind, partition_of};
use super::run::{Bucket, HEADER_BYTES, KEY_BYTES, KEYS_PER_BUCKET, Run, RunHeader, RunSection};

/// Bytes buffered before a write.
const WRITE_BYTES: usize = 256 << 10;
/// Bytes after which the file is synced: a large merge must not leave gigabytes for one sync, which would delay the
/// log.
const SYNC_BYTES: u64 = 16 << 20;

/// A run being written.
pub(super) struct RunWriter {
    folder: PathBuf,
    path: PathBuf,
    file: File,
    header: RunHeader,
    unsynced: u64,
}

impl RunWriter {
    /// Starts a run. Of the header's sections it reads only `keys`, an upper bound of the keys to come.
    pub(super) fn create(folder: &Path, mut header: RunHeader) -> Result<RunWriter, IdsError> {
        let path = folder.join(folder::temporary_name(header.from, header.to));
        let file = File::create(&path).map_err(|error| write_failed(&path, error))?;
        lay_out(&mut header.sections);
        Ok(RunWriter { folder: folder.to_path_buf(), path, file, header, unsynced: 0 })
    }

    /// Writes the ids of one kind: `source` pushes each hash once, in ascending order.
    pub(super) fn section(
        &mut self,
        kind: IdKind,
        source: impl FnOnce(&mut SectionWriter<'_>) -> Result<(), IdsError>,
    ) -> Result<(), IdsError> {
        let plan = self.header.sections[kind as usize];
        let mut section = SectionWriter::new(&self.file, &self.path, plan, self.unsynced);
        source(&mut section)?;
        (self.header.sections[kind as usize], self.unsynced) = section.finish()?;
        Ok(())
    }

    /// Makes the run durable under its name and opens it.
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

/// Assigns every part of the file its position, for the maximum number of keys.
fn lay_out(sections: &mut [RunSection; 2]) {
    let mut at = HEADER_BYTES as u64;
    let mut take = |bytes: u64| {
        let from = at;
        at += bytes.next_multiple_of(FilterLine::BYTES as u64);
        from
    };
    for section in sections {
        section.buckets = section.keys.div_ceil(KEYS_PER_BUCKET);
        section.lines = lines_for(section.keys);
        section.hashes_at = take(section.keys * KEY_BYTES as u64);
        section.directory_at = take(section.buckets * Bucket::BYTES as u64);
        section.filter_at = take(section.lines * FilterLine::BYTES as u64);
    }
}

/// One section being written: three parts of the file grow side by side.
pub(super) struct SectionWriter<'a> {
    plan: RunSection,
    hashes: PartWriter<'a>,
    directory: PartWriter<'a>,
    filter: PartWriter<'a>,
    /// The start of the current bucket in the buffered hashes.
    bucket_from: usize,
    /// The current filter line.
    line: FilterLine,
    keys: u64,
    /// Finished buckets and lines.
    buckets: u64,
    lines: u64,
    unsynced: u64,
}

impl<'a> SectionWriter<'a> {
    fn new(file: &'a File, path: &'a Path, plan: RunSection, unsynced: u64) -> SectionWriter<'a> {
        let part = |at| PartWriter { file, path, at, buffered: Vec::new(), checksum: 0 };
        SectionWriter {
            hashes: part(plan.hashes_at),
            directory: part(plan.directory_at),
            filter: part(plan.filter_at),
            plan,
            bucket_from: 0,
            line: FilterLine::default(),
            keys: 0,
            buckets: 0,
            lines: 0,
            unsynced,
        }
    }

    /// Appends the next hash, which must be larger than the one before.
    pub(super) fn push(&mut self, hash: u128) -> Result<(), IdsError> {
        self.advance_to(partition_of(hash, self.plan.buckets), partition_of(hash, self.plan.lines))?;
        self.line.add(&FilterBits::new(hash));
        self.hashes.buffered.extend_from_slice(&hash.to_le_bytes());
        self.keys += 1;
        Ok(())
    }

    fn advance_to(&mut self, bucket: u64, line: u64) -> Result<(), IdsError> {
        while self.buckets < bucket {
            self.finish_bucket()?;
        }
        while self.lines < line {
            self.finish_line()?;
        }
        Ok(())
    }

    fn finish_bucket(&mut self) -> Result<(), IdsError> {
        let checksum = crc32c::crc32c(&self.hashes.buffered[self.bucket_from..]);
        let end = u32::try_from(self.keys).expect("a run's size is limited to u32::MAX keys");
        self.directory.append(&Bucket { end, checksum }.to_bytes())?;
        if self.hashes.buffered.len() >= WRITE_BYTES {
            self.unsynced += self.hashes.buffered.len() as u64;
            self.hashes.write()?;
            self.sync_if_due()?;
        }
        self.bucket_from = self.hashes.buffered.len();
        self.buckets += 1;
        Ok(())
    }

    fn finish_line(&mut self) -> Result<(), IdsError> {
        let line = std::mem::take(&mut self.line);
        self.lines += 1;
        self.filter.append(&line.to_bytes())
    }

    fn sync_if_due(&mut self) -> Result<(), IdsError> {
        if self.unsynced >= SYNC_BYTES {
            self.unsynced = 0;
            self.hashes.file.sync_data().map_err(|error| write_failed(self.hashes.path, error))?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(RunSection, u64), IdsError> {
        self.advance_to(self.plan.buckets, self.plan.lines)?;
        self.hashes.write()?;
        self.directory.write()?;
        self.filter.write()?;
        let section = RunSection {
            keys: self.keys,
            directory_checksum: self.directory.checksum,
            filter_checksum: self.filter.checksum,
            ..self.plan
        };
        Ok((section, self.unsynced))
    }
}

/// A part of the file that is written from front to back.
struct PartWriter<'a> {
    file: &'a File,
    path: &'a Path,
    /// The position of the buffered bytes in the file.
    at: u64,
    buffered: Vec<u8>,
    /// The checksum of everything appended.
    checksum: u32,
}

impl PartWriter<'_> {
    fn append(&mut self, bytes: &[u8]) -> Result<(), IdsError> {
        self.checksum = crc32c::crc32c_append(self.checksum, bytes);
        self.buffered.extend_from_slice(bytes);
        if self.buffered.len() >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), IdsError> {
        self.file.write_all_at(&self.buffered, self.at).map_err(|error| write_failed(self.path, error))?;
        self.at += self.buffered.len() as u64;
        self.buffered.clear();
        Ok(())
    }
}

pub(super) fn write_failed(path: &Path, error: io::Error) -> IdsError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => IdsError::Full,
        _ => IdsError::Unavailable(format!("writing {}: {error}", path.display())),
    }
}
