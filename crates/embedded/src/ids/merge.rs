//! Merges neighbouring runs, so that a lookup has few files to check.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use model::ports::ids::IdsError;

use super::hash::{IdKind, partition_of};
use super::run::{Bucket, KEY_BYTES, Run, RunHeader, RunSection};
use super::times::TimeIntervals;
use super::writer::{RunWriter, SectionWriter};

/// Runs of one level that are merged into one of the next.
const FAN_IN: usize = 8;
/// Maximum span of receipt times in a merged run: whole runs expire, so this is the granularity of expiry.
pub(super) const SPAN_MS_MAX: u64 = 24 * 3_600_000;
/// Buckets of an input read at once.
const BUCKETS_PER_READ: u64 = 32;
/// Keys, over all inputs, that are sorted together.
const KEYS_PER_SLICE: u64 = 4_096;

/// Returns the neighbouring runs to merge now, if any. `runs` are in log order.
///
/// The newest run is never merged: it may reach beyond the log that survives a crash and is dropped then.
pub(super) fn choose_merge(runs: &[Run]) -> Option<&[Run]> {
    let settled = &runs[..runs.len().saturating_sub(1)];
    let levels = settled.iter().map(|run| run.header.level).max().unwrap_or(0);
    (0..=levels).find_map(|level| full_group(settled, level)).or_else(|| closed_group(settled))
}

fn full_group(settled: &[Run], level: u32) -> Option<&[Run]> {
    let mut rest = settled;
    while let Some(first) = rest.iter().position(|run| run.header.level == level) {
        rest = &rest[first..];
        let same = rest.iter().take_while(|run| run.header.level == level).count();
        let (group, after) = rest.split_at(mergeable_count(&rest[..same.min(FAN_IN)]));
        if group.len() == FAN_IN {
            return Some(group);
        }
        rest = after;
    }
    None
}

/// Returns runs that fill a day together and have a neighbour that does not fit, so that nothing will be added to them.
fn closed_group(settled: &[Run]) -> Option<&[Run]> {
    let mut rest = settled;
    loop {
        let (group, after) = rest.split_at(mergeable_count(rest));
        let next = after.first()?;
        let last = group.last()?;
        if group.len() > 1 && last.header.to == next.header.from {
            return Some(group);
        }
        rest = after;
    }
}

/// Returns how many of the first runs may be merged; at least one.
fn mergeable_count(runs: &[Run]) -> usize {
    (1..=runs.len()).take_while(|&length| length == 1 || is_mergeable(&runs[..length])).last().unwrap_or(0)
}

fn is_mergeable(group: &[Run]) -> bool {
    let header = header_of(group);
    let adjacent = group.windows(2).all(|pair| pair[0].header.to == pair[1].header.from);
    let keys: u64 = group.iter().map(Run::keys).sum();
    adjacent && header.newest_ms - header.oldest_ms <= SPAN_MS_MAX && keys <= u64::from(u32::MAX)
}

fn header_of(group: &[Run]) -> RunHeader {
    let headers = || group.iter().map(|run| &*run.header);
    RunHeader {
        level: headers().map(|header| header.level + 1).max().unwrap_or(0),
        from: headers().map(|header| header.from).min().unwrap_or(0),
        to: headers().map(|header| header.to).max().unwrap_or(0),
        oldest_ms: headers().map(|header| header.oldest_ms).min().unwrap_or(0),
        newest_ms: headers().map(|header| header.newest_ms).max().unwrap_or(0),
        ..RunHeader::default()
    }
}

/// Writes and publishes the run of all the inputs' ids. The inputs are not changed. Returns `None` if it was stopped.
pub(super) fn merge(folder: &Path, inputs: &[Run], stop: &AtomicBool) -> Result<Option<Run>, IdsError> {
    let mut header = header_of(inputs);
    header.times =
        TimeIntervals::from_intervals(inputs.iter().flat_map(|run| run.header.times.intervals()).copied());
    for kind in IdKind::ALL {
        header.sections[kind as usize].keys = inputs.iter().map(|run| run.section(kind).keys).sum();
    }
    let mut writer = RunWriter::create(folder, header)?;
    for kind in IdKind::ALL {
        writer.section(kind, |section| merge_section(inputs, kind, stop, section))?;
    }
    if stop.load(Ordering::Relaxed) { Ok(None) } else { writer.publish().map(Some) }
}

/// Merges one slice of the hash range at a time, small enough for the cache: gathers it from every input, sorts, writes.
fn merge_section(
    inputs: &[Run],
    kind: IdKind,
    stop: &AtomicBool,
    section: &mut SectionWriter<'_>,
) -> Result<(), IdsError> {
    let mut readers: Vec<SectionReader<'_>> =
        inputs.iter().map(|run| SectionReader::new(run, kind)).collect();
    let keys: u64 = inputs.iter().map(|run| run.section(kind).keys).sum();
    let slices = keys.div_ceil(KEYS_PER_SLICE);
    let mut hashes = Vec::new();
    for slice in 0..slices {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        hashes.clear();
        for reader in &mut readers {
            reader.read_slice(slice, slices, &mut hashes)?;
        }
        // The stable sort detects the sorted pieces and merges them.
        hashes.sort();
        hashes.dedup();
        hashes.iter().try_for_each(|&hash| section.push(hash))?;
    }
    Ok(())
}

/// Reads the hashes of one section in order and verifies them.
struct SectionReader<'a> {
    run: &'a Run,
    section: RunSection,
    /// Buckets read so far, and the keys in them.
    buckets: u64,
    keys: u32,
    hashes: Vec<u128>,
    /// Position of the next hash in `hashes`.
    at: usize,
    bytes: Vec<u8>,
}

impl<'a> SectionReader<'a> {
    fn new(run: &'a Run, kind: IdKind) -> SectionReader<'a> {
        let section = *run.section(kind);
        SectionReader { run, section, buckets: 0, keys: 0, hashes: Vec::new(), at: 0, bytes: Vec::new() }
    }

    /// Appends the hashes of this slice of `slices`.
    fn read_slice(&mut self, slice: u64, slices: u64, into: &mut Vec<u128>) -> Result<(), IdsError> {
        loop {
            let rest = &self.hashes[self.at..];
            let length = rest.iter().take_while(|&&hash| partition_of(hash, slices) <= slice).count();
            into.extend_from_slice(&rest[..length]);
            self.at += length;
            let more = self.at == self.hashes.len() && self.buckets < self.section.buckets;
            if !more {
                return Ok(());
            }
            self.read_more()?;
        }
    }

    fn read_more(&mut self) -> Result<(), IdsError> {
        let count = BUCKETS_PER_READ.min(self.section.buckets - self.buckets);
        let mut directory = vec![0; count as usize * Bucket::BYTES];
        self.run
            .read_into(&mut directory, self.section.directory_at + self.buckets * Bucket::BYTES as u64)?;
        let buckets: Vec<Bucket> = directory.as_chunks().0.iter().map(Bucket::from_bytes).collect();
        let end = buckets.last().map_or(self.keys, |bucket| bucket.end);
        if end < self.keys || u64::from(end) > self.section.keys {
            return Err(self.run.corrupt());
        }
        self.bytes.resize((end - self.keys) as usize * KEY_BYTES, 0);
        self.run
            .read_into(&mut self.bytes, self.section.hashes_at + u64::from(self.keys) * KEY_BYTES as u64)?;
        self.check(&buckets)?;
        self.hashes.clear();
        self.hashes.extend(self.bytes.as_chunks().0.iter().map(|bytes| u128::from_le_bytes(*bytes)));
        (self.at, self.keys, self.buckets) = (0, end, self.buckets + count);
        Ok(())
    }

    fn check(&self, buckets: &[Bucket]) -> Result<(), IdsError> {
        let mut rest = &self.bytes[..];
        let mut start = self.keys;
        for bucket in buckets {
            let bytes = bucket.end.checked_sub(start).map(|keys| keys as usize * KEY_BYTES);
            let Some((hashes, after)) = bytes.and_then(|bytes| rest.split_at_checked(bytes)) else {
                return Err(self.run.corrupt());
            };
            if crc32c::crc32c(hashes) != bucket.checksum {
                return Err(self.run.corrupt());
            }
            (rest, start) = (after, bucket.end);
        }
        Ok(())
    }
}
