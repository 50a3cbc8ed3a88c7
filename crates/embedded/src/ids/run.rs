//! A run: the ids of one range of the log in an immutable file, sorted by hash.
//!
//! # Event ids on disk
//!
//! A run is named `<from>-<to>.ids` after its range of the log, both ends in 20 digits; `to` is not included. Together
//! the runs cover the log from the oldest registered id. A run whose range is inside another's is superseded by that
//! one. `.tmp` files are unfinished and removed at start; a `.bad` file was found damaged and only marks its range,
//! which is replayed from the log at the next start.
//!
//! All numbers are little-endian, all checksums CRC32C. A *hash* is a key permuted one to one (see `hash_of`).
//!
//! | part | content |
//! |---|---|
//! | header, 1,024 bytes | `PMIDRUN\n`, version u32 = 1, level u32, from u64, to u64, oldest and newest receipt u64 (ms since 1970), 2 sections of 56 bytes, number of intervals u32, 64 intervals of (first u32, last u32), zeros, checksum u32 of everything before |
//! | section of the header | keys u64, buckets u64, lines u64, positions of its hashes, directory and filter u64 each, checksums of directory and filter u32 each |
//! | hashes | u128 each, ascending, without duplicates |
//! | directory | for each bucket: its end, counted in keys of the section, u32; checksum of the bucket's hashes u32 |
//! | filter | lines of 8 u64 (see `filter`) |
//!
//! RunSection 0 contains the ids with a time (UUIDv7), section 1 all others; the intervals are the times of the former in
//! steps of 65,536 ms. The bucket and the filter line of a hash are its partitions: `high 64 bits * count >> 64`. A
//! lookup costs one line of the filter, kept in memory within the budget, and for one absent key in 700 (and every
//! present one) a read of one bucket, 2 KiB.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::ports::ids::IdsError;

use super::filter::{Filter, FilterLine, Precision, bits_of};
use super::hash::{IdKind, Probe, partition_of};
use super::times::{INTERVALS_MAX, TimeIntervals};

pub(super) const HEADER_BYTES: usize = 1024;
pub(super) const KEY_BYTES: usize = size_of::<u128>();
/// Keys in a bucket, on average.
pub(super) const KEYS_PER_BUCKET: u64 = 128;

const MAGIC: [u8; 8] = *b"PMIDRUN\n";
const VERSION: u32 = 1;
const SECTION_BYTES: usize = 56;
const SECTIONS_AT: usize = 48;
const INTERVALS_AT: usize = SECTIONS_AT + 2 * SECTION_BYTES;
const CHECKSUM_AT: usize = HEADER_BYTES - 4;
/// Bytes that are read at once to load a filter or a directory: whole lines and whole buckets.
const PIECE_BYTES: u64 = 1 << 20;

/// The header of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RunHeader {
    /// Number of merges its keys have been through.
    pub(super) level: u32,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) oldest_ms: u64,
    pub(super) newest_ms: u64,
    pub(super) sections: [RunSection; 2],
    pub(super) times: TimeIntervals,
}

/// The position and size of the ids of one kind in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RunSection {
    pub(super) keys: u64,
    pub(super) buckets: u64,
    pub(super) lines: u64,
    pub(super) hashes_at: u64,
    pub(super) directory_at: u64,
    pub(super) filter_at: u64,
    pub(super) directory_checksum: u32,
    pub(super) filter_checksum: u32,
}

/// One bucket of a section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bucket {
    /// The number of keys up to its end.
    pub(super) end: u32,
    pub(super) checksum: u32,
}

/// An open run. Clones share the file.
#[derive(Clone)]
pub(super) struct Run {
    pub(super) header: Arc<RunHeader>,
    file: Arc<File>,
    path: Arc<PathBuf>,
    bytes: u64,
    resident: [Option<Arc<Resident>>; 2],
}

/// The parts of a section that are kept in memory.
struct Resident {
    filter: Filter,
    directory: Arc<Vec<Bucket>>,
}

impl Run {
    /// Opens a finished run; reads only its header.
    pub(super) fn open(path: &Path) -> Result<Run, IdsError> {
        let failed = |error| read_failed(path, error);
        let file = File::open(path).map_err(failed)?;
        let mut bytes = [0; HEADER_BYTES];
        file.read_exact_at(&mut bytes, 0).map_err(failed)?;
        let header =
            RunHeader::decode(&bytes).ok_or_else(|| IdsError::Corrupt(path.display().to_string()))?;
        let bytes = file.metadata().map_err(failed)?.len();
        let (file, path) = (Arc::new(file), Arc::new(path.to_path_buf()));
        Ok(Run { header: Arc::new(header), file, path, bytes, resident: [None, None] })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn keys(&self) -> u64 {
        self.header.sections.iter().map(|section| section.keys).sum()
    }

    pub(super) fn section(&self, kind: IdKind) -> &RunSection {
        &self.header.sections[kind as usize]
    }

    /// Loads a section's filter and directory into memory, unless they are there already.
    pub(super) fn load(&mut self, kind: IdKind, precision: Precision) -> Result<(), IdsError> {
        let section = *self.section(kind);
        if section.keys == 0 || self.resident[kind as usize].is_some() {
            return Ok(());
        }
        let mut directory = Vec::with_capacity(section.buckets as usize);
        let mut checksum = 0;
        for piece in self.pieces(section.directory_at, section.buckets * Bucket::BYTES as u64) {
            let piece = piece?;
            checksum = crc32c::crc32c_append(checksum, &piece);
            directory.extend(piece.as_chunks().0.iter().map(Bucket::from_bytes));
        }
        let mut filter_checksum = 0;
        let lines =
            self.pieces(section.filter_at, section.lines * FilterLine::BYTES as u64).flat_map(|piece| {
                let (lines, failure) = match piece {
                    Ok(piece) => {
                        filter_checksum = crc32c::crc32c_append(filter_checksum, &piece);
                        (piece.as_chunks().0.iter().map(FilterLine::from_bytes).collect(), None)
                    }
                    Err(failure) => (Vec::new(), Some(Err(failure))),
                };
                lines.into_iter().map(Ok).chain(failure)
            });
        let filter = Filter::collect(section.lines, precision, lines)?;
        if (checksum, filter_checksum) != (section.directory_checksum, section.filter_checksum) {
            return Err(self.corrupt());
        }
        self.resident[kind as usize] = Some(Arc::new(Resident { filter, directory: Arc::new(directory) }));
        Ok(())
    }

    /// Reads a part of the file in pieces, so that loading needs little memory beside what is kept.
    fn pieces(&self, at: u64, bytes: u64) -> impl Iterator<Item = Result<Vec<u8>, IdsError>> {
        let piece = move |from: u64| self.read(at + from, PIECE_BYTES.min(bytes - from) as usize);
        (0..bytes).step_by(PIECE_BYTES as usize).map(piece)
    }

    /// Keeps less of a section in memory: half of its filter, or nothing, so that lookups read the file.
    pub(super) fn reduce(&mut self, kind: IdKind, to: Option<Precision>) {
        let resident = &mut self.resident[kind as usize];
        *resident = resident.take().and_then(|now| match to? {
            Precision::Half if now.filter.precision == Precision::Whole => {
                Some(Arc::new(Resident { filter: now.filter.halved(), directory: now.directory.clone() }))
            }
            _ => Some(now),
        });
    }

    /// Returns the bytes of memory that the section uses now.
    pub(super) fn resident_bytes(&self, kind: IdKind) -> u64 {
        let resident = self.resident[kind as usize].as_ref();
        resident.map_or(0, |now| self.section(kind).resident_bytes(now.filter.precision))
    }

    /// Returns a mask of the probes in `wanted` that may be in the run. Most runs result from memory.
    pub(super) fn may_contain(&self, kind: IdKind, probes: &[Probe], wanted: u64) -> Result<u64, IdsError> {
        if self.section(kind).keys == 0 {
            return Ok(0);
        }
        let wanted = match &self.resident[kind as usize] {
            Some(resident) => {
                let passed = resident.filter.may_contain(probes, wanted);
                if resident.filter.precision == Precision::Whole {
                    return Ok(passed);
                }
                passed
            }
            None => wanted,
        };
        let mut passed = 0;
        for n in bits_of(wanted) {
            passed |= u64::from(self.line_of(kind, &probes[n])?.may_contain(&probes[n].bits)) << n;
        }
        Ok(passed)
    }

    /// Returns true if the hash is in the run; reads its bucket. `buffer` is scratch space.
    pub(super) fn contains(&self, kind: IdKind, hash: u128, buffer: &mut Vec<u8>) -> Result<bool, IdsError> {
        let (range, checksum) = self.bucket_of(kind, hash)?;
        let at = self.section(kind).hashes_at + u64::from(range.start) * KEY_BYTES as u64;
        buffer.clear();
        buffer.resize((range.end - range.start) as usize * KEY_BYTES, 0);
        self.read_into(buffer, at)?;
        if crc32c::crc32c(buffer) != checksum {
            return Err(self.corrupt());
        }
        let hashes = buffer.as_chunks::<KEY_BYTES>().0;
        Ok(hashes.binary_search_by_key(&hash, |bytes| u128::from_le_bytes(*bytes)).is_ok())
    }

    pub(super) fn corrupt(&self) -> IdsError {
        IdsError::Corrupt(self.path.display().to_string())
    }

    pub(super) fn read_into(&self, buffer: &mut [u8], at: u64) -> Result<(), IdsError> {
        self.file.read_exact_at(buffer, at).map_err(|error| read_failed(&self.path, error))
    }

    fn read(&self, at: u64, bytes: usize) -> Result<Vec<u8>, IdsError> {
        let mut buffer = vec![0; bytes];
        self.read_into(&mut buffer, at)?;
        Ok(buffer)
    }

    fn line_of(&self, kind: IdKind, probe: &Probe) -> Result<FilterLine, IdsError> {
        let section = self.section(kind);
        let mut bytes = [0; FilterLine::BYTES];
        let number = partition_of(probe.hash, section.lines);
        self.read_into(&mut bytes, section.filter_at + number * FilterLine::BYTES as u64)?;
        Ok(FilterLine::from_bytes(&bytes))
    }

    /// Returns the keys of the bucket where the hash belongs, and their checksum.
    fn bucket_of(&self, kind: IdKind, hash: u128) -> Result<(Range<u32>, u32), IdsError> {
        let section = self.section(kind);
        let number = partition_of(hash, section.buckets);
        let (before, bucket) = match &self.resident[kind as usize] {
            Some(resident) => {
                let number = number as usize;
                let before = number.checked_sub(1).map_or(Bucket::default(), |n| resident.directory[n]);
                (before, resident.directory[number])
            }
            None => {
                let before =
                    number.checked_sub(1).map_or(Ok(Bucket::default()), |n| self.read_bucket(section, n));
                (before?, self.read_bucket(section, number)?)
            }
        };
        if bucket.end < before.end || u64::from(bucket.end) > section.keys {
            return Err(self.corrupt());
        }
        Ok((before.end..bucket.end, bucket.checksum))
    }

    fn read_bucket(&self, section: &RunSection, number: u64) -> Result<Bucket, IdsError> {
        let mut bytes = [0; Bucket::BYTES];
        self.read_into(&mut bytes, section.directory_at + number * Bucket::BYTES as u64)?;
        Ok(Bucket::from_bytes(&bytes))
    }
}

fn read_failed(path: &Path, error: io::Error) -> IdsError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => IdsError::Corrupt(path.display().to_string()),
        _ => IdsError::Unavailable(format!("reading {}: {error}", path.display())),
    }
}

impl Bucket {
    pub(super) const BYTES: usize = 8;

    pub(super) fn to_bytes(self) -> [u8; Bucket::BYTES] {
        (u64::from(self.end) | u64::from(self.checksum) << 32).to_le_bytes()
    }

    pub(super) fn from_bytes(bytes: &[u8; Bucket::BYTES]) -> Bucket {
        let both = u64::from_le_bytes(*bytes);
        Bucket { end: both as u32, checksum: (both >> 32) as u32 }
    }
}

impl RunSection {
    /// Returns the bytes of memory that filter and directory need.
    pub(super) fn resident_bytes(&self, precision: Precision) -> u64 {
        precision.lines(self.lines) * FilterLine::BYTES as u64 + self.buckets * Bucket::BYTES as u64
    }

    fn encode(&self) -> [u8; SECTION_BYTES] {
        let numbers =
            [self.keys, self.buckets, self.lines, self.hashes_at, self.directory_at, self.filter_at];
        let mut bytes = [0; SECTION_BYTES];
        for (into, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            into.copy_from_slice(&number.to_le_bytes());
        }
        bytes[48..52].copy_from_slice(&self.directory_checksum.to_le_bytes());
        bytes[52..56].copy_from_slice(&self.filter_checksum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> RunSection {
        RunSection {
            keys: u64_at(bytes, 0),
            buckets: u64_at(bytes, 8),
            lines: u64_at(bytes, 16),
            hashes_at: u64_at(bytes, 24),
            directory_at: u64_at(bytes, 32),
            filter_at: u64_at(bytes, 40),
            directory_checksum: u32_at(bytes, 48),
            filter_checksum: u32_at(bytes, 52),
        }
    }
}

impl RunHeader {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.level.to_le_bytes());
        for (n, number) in [self.from, self.to, self.oldest_ms, self.newest_ms].into_iter().enumerate() {
            bytes[16 + n * 8..24 + n * 8].copy_from_slice(&number.to_le_bytes());
        }
        for (n, section) in self.sections.iter().enumerate() {
            let at = SECTIONS_AT + n * SECTION_BYTES;
            bytes[at..at + SECTION_BYTES].copy_from_slice(&section.encode());
        }
        self.encode_intervals(&mut bytes[INTERVALS_AT..CHECKSUM_AT]);
        let checksum = crc32c::crc32c(&bytes[..CHECKSUM_AT]);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn encode_intervals(&self, bytes: &mut [u8]) {
        let (count, intervals) = bytes.split_at_mut(4);
        count.copy_from_slice(&(self.times.intervals().len() as u32).to_le_bytes());
        for (into, (first, last)) in intervals.chunks_exact_mut(8).zip(self.times.intervals()) {
            into[..4].copy_from_slice(&first.to_le_bytes());
            into[4..].copy_from_slice(&last.to_le_bytes());
        }
    }

    /// Decodes a header; `None` if it is not valid or of an unknown version.
    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<RunHeader> {
        let is_valid = bytes[..8] == MAGIC
            && u32_at(bytes, 8) == VERSION
            && crc32c::crc32c(&bytes[..CHECKSUM_AT]) == u32_at(bytes, CHECKSUM_AT);
        let count = u32_at(bytes, INTERVALS_AT) as usize;
        (is_valid && count <= INTERVALS_MAX).then(|| RunHeader {
            level: u32_at(bytes, 12),
            from: u64_at(bytes, 16),
            to: u64_at(bytes, 24),
            oldest_ms: u64_at(bytes, 32),
            newest_ms: u64_at(bytes, 40),
            sections: [0, 1].map(|n| RunSection::decode(&bytes[SECTIONS_AT + n * SECTION_BYTES..])),
            times: TimeIntervals::from_intervals((0..count).map(|n| {
                let at = INTERVALS_AT + 4 + n * 8;
                (u32_at(bytes, at), u32_at(bytes, at + 4))
            })),
        })
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("the slice has eight bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("the slice has four bytes"))
}
