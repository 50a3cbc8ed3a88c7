//! The guarantees of the log to appenders and readers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use wal::sim::{Random, SimDisk};
use wal::*;

const FOLDER: &str = "log";

/// Sizes so small that a few entries fill a segment.
fn small_options() -> Options {
    Options {
        segment_bytes: 16 << 10,
        first_segment_bytes: 6 << 10,
        frame_bytes_max: 4 << 10,
        queue_bytes_max: 1 << 20,
        sync_after: Duration::from_secs(3600),
        full_retry: Duration::ZERO,
        free_bytes_min: 0,
        clock: Arc::new(|| 0),
        ..Options::default()
    }
}

/// A log whose writer and housekeeper are stepped by the test.
struct TestLog {
    disk: SimDisk,
    log: Wal<Vec<u32>>,
    committer: Committer<Vec<u32>>,
    housekeeper: Housekeeper,
    report: OpenReport,
}

fn open_on(disk: &SimDisk, options: Options) -> TestLog {
    let opened =
        Wal::<Vec<u32>>::open(Arc::new(disk.clone()), Path::new(FOLDER), options).expect("the log opens");
    let report = opened.report().clone();
    let (log, committer, housekeeper) = opened.into_parts(Box::new(AcceptAll));
    TestLog { disk: disk.clone(), log, committer, housekeeper, report }
}

fn open() -> TestLog {
    open_on(&SimDisk::new(1), small_options())
}

fn entry(events: u32, bytes: &[u8]) -> Entry<Vec<u32>> {
    Entry { kind: 1, events, bytes: bytes.to_vec(), ack: Ack::Disk, extra: Vec::new() }
}

impl TestLog {
    /// Appends the entries, each in its own commit.
    fn append(&mut self, entries: impl IntoIterator<Item = (u32, Vec<u8>)>) {
        for (events, bytes) in entries {
            let mut receipt = self.log.append(entry(events, &bytes)).expect("the entry is queued");
            self.committer.step(0);
            self.housekeeper.step();
            receipt.try_take().expect("the commit resolves the receipt").expect("the disk works");
        }
    }

    fn reopen(self) -> TestLog {
        self.committer.close();
        open_on(&self.disk, small_options())
    }

    /// Returns all entries, as (offset, events, bytes), and the damage that was skipped.
    fn all(&self) -> (Vec<Read>, Vec<Damage>) {
        all_of(&self.log, self.log.first(), 1000)
    }

    fn segment(&self, index: usize) -> std::path::PathBuf {
        let mut paths = self.disk.paths();
        paths.retain(|path| path.extension().is_some_and(|kind| kind == "log"));
        paths[index].clone()
    }
}

type Read = (u64, u32, Vec<u8>);

fn all_of(log: &Wal<Vec<u32>>, mut from: u64, limit_bytes: usize) -> (Vec<Read>, Vec<Damage>) {
    let (mut entries, mut damage) = (Vec::new(), Vec::new());
    loop {
        let batch = log.read(from, limit_bytes).expect("the log is readable");
        damage.extend(batch.skipped);
        for chunk in &batch.chunks {
            let entries_read = chunk.entries_from(from);
            entries.extend(entries_read.map(|entry| (entry.offset, entry.events, entry.bytes.to_vec())));
        }
        if batch.next == from {
            return (entries, damage);
        }
        from = batch.next;
    }
}

/// Returns `count` entries of different content and size.
fn entries(count: u64) -> Vec<(u32, Vec<u8>)> {
    (0..count)
        .map(|n| ((n % 4) as u32, format!("{n:05}").repeat(1 + n as usize * 7 % 60).into_bytes()))
        .collect()
}

fn with_offsets(entries: &[(u32, Vec<u8>)]) -> Vec<Read> {
    let mut offset = 0;
    let place = |(events, bytes): &(u32, Vec<u8>)| {
        let at = offset;
        offset += u64::from(*events.max(&1));
        (at, *events, bytes.clone())
    };
    entries.iter().map(place).collect()
}

#[test]
fn appended_entries_are_read_back_with_dense_offsets() {
    let mut test_log = open();
    test_log.append(entries(200));
    assert_eq!(test_log.all(), (with_offsets(&entries(200)), vec![]));
    assert!(test_log.log.stats().segments > 2);
}

#[test]
fn closed_log_reads_the_same_from_disk() {
    let mut test_log = open();
    test_log.append(entries(200));
    let next = test_log.log.durable_until();
    let test_log = test_log.reopen();
    assert_eq!(
        (test_log.report.next, test_log.report.torn_bytes, test_log.report.damage.len()),
        (next, 0, 0)
    );
    assert_eq!(test_log.all(), (with_offsets(&entries(200)), vec![]));
}

#[test]
fn read_works_from_any_offset_with_any_size_limit() {
    let mut test_log = open();
    test_log.append(entries(120));
    let whole = with_offsets(&entries(120));
    for from in 0..test_log.log.durable_until() {
        let wanted: Vec<Read> =
            whole.iter().filter(|(at, events, _)| at + u64::from(*events.max(&1)) > from).cloned().collect();
        let limit_bytes = 1 + from as usize * 97 % 5000;
        assert_eq!(all_of(&test_log.log, from, limit_bytes).0, wanted);
    }
}

proptest! {
    #[test]
    fn grouping_of_entries_into_commits_does_not_change_what_is_read(
        cuts in prop::collection::vec(any::<bool>(), 60), tail_bytes in 0usize..8000,
    ) {
        let mut test_log = open_on(&SimDisk::new(1), Options { tail_bytes, ..small_options() });
        for ((events, bytes), cut) in entries(60).iter().zip(&cuts) {
            test_log.log.append(entry(*events, bytes)).expect("the entry is queued");
            if *cut {
                test_log.committer.step(0);
            }
        }
        test_log.committer.step(0);
        prop_assert_eq!(test_log.all(), (with_offsets(&entries(60)), vec![]));
        prop_assert_eq!(test_log.reopen().all().0, with_offsets(&entries(60)));
    }
}

#[test]
fn entry_larger_than_a_segment_gets_its_own_segment() {
    let mut test_log = open();
    let large = vec![(3, vec![7; 100_000])];
    test_log.append(entries(20));
    test_log.append(large.clone());
    test_log.append(entries(1));
    let wanted: Vec<_> = entries(20).into_iter().chain(large).chain(entries(1)).collect();
    assert_eq!(test_log.reopen().all(), (with_offsets(&wanted), vec![]));
}

#[test]
fn read_of_trimmed_offset_returns_trimmed_error() {
    let mut test_log = open();
    test_log.append(entries(200));
    test_log.log.trim(100).expect("the disk works");
    let first = test_log.log.first();
    assert!(first > 0 && first <= 100, "{first}");
    let rejected = test_log.log.read(first - 1, 1000);
    assert!(matches!(rejected, Err(WalError::Trimmed { first: from }) if from == first));
    let kept = test_log.all();
    assert_eq!(kept.0.first().map(|entry| entry.0), Some(first));
    assert_eq!(test_log.reopen().all(), kept);
}

#[test]
fn retention_keeps_everything_after_keep_from() {
    let retention = Retention { bytes_max: Some(32 << 10), age_ms_max: None };
    let mut test_log = open_on(&SimDisk::new(1), Options { retention, ..small_options() });
    test_log.append(entries(400));
    assert_eq!(test_log.log.first(), 0);
    test_log.log.keep_from(50);
    test_log.housekeeper.step();
    assert!((1..=50).contains(&test_log.log.first()), "{}", test_log.log.first());
    test_log.log.keep_from(test_log.log.durable_until());
    test_log.housekeeper.step();
    assert!(test_log.log.stats().disk_bytes <= 32 << 10);
}

#[test]
fn retention_by_age_counts_from_when_the_segment_was_closed() {
    let clock = Arc::new(std::sync::atomic::AtomicU64::new(1_000));
    let now = Arc::clone(&clock);
    let options = Options {
        retention: Retention { bytes_max: None, age_ms_max: Some(10_000) },
        clock: Arc::new(move || now.load(std::sync::atomic::Ordering::Relaxed)),
        ..small_options()
    };
    let mut test_log = open_on(&SimDisk::new(1), options);
    test_log.append(entries(200));
    test_log.log.keep_from(test_log.log.durable_until());
    clock.store(11_000, std::sync::atomic::Ordering::Relaxed);
    test_log.housekeeper.step();
    assert_eq!(test_log.log.first(), 0);
    clock.store(11_001, std::sync::atomic::Ordering::Relaxed);
    test_log.log.keep_from(0);
    test_log.housekeeper.step();
    assert_eq!(test_log.log.stats().segments, 1);
}

/// Appends under each of these clock readings, then applies a retention of 10 s at `now_ms`. Returns how many of the
/// appends are still in the log, give or take a segment.
fn kept_appends(readings: &[u64], deletion_now_ms: Option<u64>) -> usize {
    let clock = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let now = Arc::clone(&clock);
    let options = Options {
        retention: Retention { bytes_max: None, age_ms_max: Some(10_000) },
        clock: Arc::new(move || now.load(std::sync::atomic::Ordering::Relaxed)),
        deletion_clock: Some(Arc::new(move || deletion_now_ms)),
        ..small_options()
    };
    let mut test_log = open_on(&SimDisk::new(1), options);
    let mut ends = Vec::new();
    for reading in readings {
        clock.store(*reading, std::sync::atomic::Ordering::Relaxed);
        test_log.append(entries(200));
        ends.push(test_log.log.durable_until());
    }
    test_log.log.keep_from(test_log.log.durable_until());
    test_log.housekeeper.step();
    let first = test_log.log.first();
    ends.iter().filter(|end| **end > first + 150).count()
}

#[test]
fn clock_that_was_wrong_for_a_while_removes_no_young_segment() {
    const DAY: u64 = 86_400_000;
    let (now, old) = (100 * DAY, 99 * DAY);
    assert_eq!(kept_appends(&[now, now, now], Some(now)), 3);
    assert_eq!(kept_appends(&[old, old, now], Some(now)), 1);
    assert_eq!(kept_appends(&[old, now, now], None), 3, "the time is not known");
    assert_eq!(kept_appends(&[old, 140 * DAY, now], Some(now)), 2, "the clock was ahead");
    assert_eq!(kept_appends(&[old, 140 * DAY, old, now], Some(now)), 1, "the clock was ahead long ago");
    assert_eq!(kept_appends(&[now, 60 * DAY, now], Some(now)), 3, "the clock was behind");
    assert_eq!(kept_appends(&[old, now, now], Some(140 * DAY)), 0, "everything but the open segment is old");
}

/// Closes a log of `count` entries and returns its last segment.
fn closed_log(count: u64) -> (SimDisk, std::path::PathBuf, Vec<u8>) {
    let mut test_log = open();
    test_log.append(entries(count));
    let path = test_log.segment(test_log.log.stats().segments as usize - 1);
    let disk = test_log.disk.clone();
    test_log.committer.close();
    let content = disk.content(&path).expect("the file exists");
    (disk, path, content)
}

fn used(content: &[u8]) -> usize {
    content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

#[test]
fn tail_torn_at_any_byte_is_removed_and_the_log_continues() {
    let (_, _, before) = closed_log(9);
    let (disk, path, whole) = closed_log(10);
    // The file ends after the zeros that pad the last frame to a multiple of 8.
    let (from, to) = (used(&before).next_multiple_of(8), used(&whole));
    for (cut, shorter) in (from..to).flat_map(|cut| [(cut, false), (cut, true)]) {
        let mut torn = whole.clone();
        torn[cut..].fill(0);
        torn.truncate(if shorter { cut } else { whole.len() });
        let disk = disk.after_kill();
        disk.set_content(&path, torn);
        let mut test_log = open_on(&disk, small_options());
        assert_eq!(test_log.report.next, 15, "cut at {cut}");
        assert_eq!(test_log.all(), (with_offsets(&entries(9)), vec![]));
        assert_eq!(test_log.report.damage, vec![]);
        test_log.append(entries(10).into_iter().skip(9));
        assert_eq!(test_log.reopen().all().0, with_offsets(&entries(10)), "cut at {cut}");
    }
}

#[test]
fn removed_torn_frame_does_not_reappear_after_an_entry_of_the_same_size() {
    let mut test_log = open();
    for bytes in [b"aaaa", b"bbbb"] {
        test_log.log.append(Entry { ack: Ack::Os, ..entry(1, bytes) }).expect("the entry is queued");
        test_log.committer.step(0);
    }
    let (disk, path) = (test_log.disk.after_kill(), test_log.segment(0));
    // The power cut lost the first of two frames that were not synced.
    let mut content = disk.content(&path).expect("the file exists");
    content[4096..4096 + 64].fill(0);
    disk.set_content(&path, content);
    let mut test_log = open_on(&disk, small_options());
    assert_eq!((test_log.report.next, test_log.report.damage.len()), (0, 0));
    assert!(test_log.report.torn_bytes > 64);
    test_log.append([(1, b"cccc".to_vec())]);
    assert_eq!(test_log.reopen().all(), (vec![(0, 1, b"cccc".to_vec())], vec![]));
}

#[test]
fn damage_in_the_middle_is_skipped_and_reported_and_the_rest_is_read() {
    let (disk, path, mut content) = closed_log(10);
    content[4096 + 48 + 9 + 30] ^= 0x10;
    disk.set_content(&path, content);
    let test_log = open_on(&disk, small_options());
    let lost = Damage { segment: 0, byte_from: 4096, byte_to: 4160, offset_from: 0, offset_to: 1 };
    // The first entry is 5 bytes long, so its frame ends at 4160 and the flipped bit is in the second frame.
    let (entries_read, damage) = test_log.all();
    let lost =
        Damage { byte_from: lost.byte_to, byte_to: damage[0].byte_to, offset_from: 1, offset_to: 2, ..lost };
    assert_eq!((&test_log.report.damage, &damage), (&vec![lost.clone()], &vec![lost.clone()]));
    assert_eq!(test_log.log.damage(), vec![lost.clone()]);
    assert_eq!(test_log.log.verify().expect("the log is readable").damage, vec![lost]);
    let mut wanted = with_offsets(&entries(10));
    wanted.remove(1);
    assert_eq!(entries_read, wanted);
}

#[test]
fn corruption_never_yields_wrong_entries_or_unreported_gaps() {
    let mut test_log = open();
    test_log.append(entries(60));
    let (disk, next) = (test_log.disk.clone(), test_log.log.durable_until());
    let last = test_log.segment(test_log.log.stats().segments as usize - 1);
    test_log.committer.close();
    let whole = with_offsets(&entries(60));
    let mut paths = disk.paths();
    paths.retain(|path| path.extension().is_some_and(|kind| kind == "log"));
    for seed in 0..5000 {
        let (image, mut random) = (disk.after_kill(), Random::new(seed));
        let path = &paths[random.below(paths.len() as u64) as usize];
        let mut content = image.content(path).expect("the file exists");
        corrupt(&mut content, &mut random);
        image.set_content(path, content);
        let opened = Wal::<Vec<u32>>::open(Arc::new(image.clone()), Path::new(FOLDER), small_options());
        let Ok(opened) = opened else {
            assert_eq!(path, &last, "seed {seed}: only the newest segment is required for opening");
            continue;
        };
        let reported_next = opened.report().next;
        assert!(reported_next == next || path == &last, "seed {seed}");
        let (log, _committer, _) = opened.into_parts(Box::new(AcceptAll));
        let (read, damage) = all_of(&log, 0, 700);
        let lost = |offset: u64| damage.iter().any(|gap| (gap.offset_from..gap.offset_to).contains(&offset));
        let wanted = whole.iter().filter(|entry| entry.0 < reported_next && !lost(entry.0)).cloned();
        assert_eq!(read, wanted.collect::<Vec<_>>(), "seed {seed}: {damage:?}");
        assert_eq!(log.verify().expect("the log is readable").damage, damage, "seed {seed}");
    }
}

#[test]
fn bytes_that_the_disk_cannot_read_are_damage_like_any_other() {
    let mut test_log = open();
    test_log.append(entries(60));
    let (disk, next) = (test_log.disk.clone(), test_log.log.durable_until());
    let last = test_log.segment(test_log.log.stats().segments as usize - 1);
    test_log.committer.close();
    let whole = with_offsets(&entries(60));
    let mut paths = disk.paths();
    paths.retain(|path| path.extension().is_some_and(|kind| kind == "log"));
    let mut damaged = 0;
    for seed in 0..1000 {
        let (image, mut random) = (disk.after_kill(), Random::new(seed));
        let path = &paths[random.below(paths.len() as u64) as usize];
        let at = random.below(used(&image.content(path).expect("the file exists")) as u64) / 512 * 512;
        // Bad from the start, or from a moment after it.
        let is_early = random.chance(50);
        if is_early {
            image.fail_reads(path, at..at + 512);
        }
        let opened = Wal::<Vec<u32>>::open(Arc::new(image.clone()), Path::new(FOLDER), small_options());
        if is_early && path == &last {
            let failure = opened.err().expect("the end of the log must be known");
            assert!(matches!(failure, WalError::Unreadable { .. }), "seed {seed}: {failure}");
            let verified = verify_folder(Arc::new(image), Path::new(FOLDER));
            assert!(verified.is_err(), "seed {seed}");
            continue;
        }
        let opened = opened.expect("only the newest segment is required for opening");
        assert_eq!(opened.report().next, next, "seed {seed}");
        image.fail_reads(path, at..at + 512);
        let (log, _committer, _) = opened.into_parts(Box::new(AcceptAll));
        let (read, damage) = all_of(&log, 0, 700);
        let lost = |offset: u64| damage.iter().any(|gap| (gap.offset_from..gap.offset_to).contains(&offset));
        let wanted = whole.iter().filter(|entry| !lost(entry.0)).cloned();
        assert_eq!(read, wanted.collect::<Vec<_>>(), "seed {seed}: {damage:?}");
        assert_eq!(log.verify().expect("a bad sector is no error").damage, damage, "seed {seed}");
        damaged += usize::from(!damage.is_empty());
        if is_early {
            let verified =
                verify_folder(Arc::new(image), Path::new(FOLDER)).expect("a bad sector is no error");
            assert_eq!(verified.damage, damage, "seed {seed}");
        }
    }
    assert!(damaged > 200, "{damaged} of 1000 images were damaged");
}

#[test]
fn a_missing_closed_segment_is_damage_and_the_rest_is_read() {
    let mut test_log = open();
    test_log.append(entries(200));
    let (first, path) = (test_log.log.closed_segments()[1].clone(), test_log.segment(1));
    let test_log = test_log.reopen();
    test_log.disk.remove(&path).expect("it can be removed");
    let (read, damage) = test_log.all();
    let lost: Vec<_> =
        damage.iter().map(|damage| (damage.segment, damage.offset_from..damage.offset_to)).collect();
    assert_eq!(lost, [(first.start, first.clone())]);
    let wanted = with_offsets(&entries(200)).into_iter().filter(|entry| !first.contains(&entry.0));
    assert_eq!(read, wanted.collect::<Vec<_>>());
    assert_eq!(test_log.log.verify().expect("a lost segment is no error").damage, damage);
}

/// Flips a bit or zeroes a sector in the used part of a file.
fn corrupt(content: &mut [u8], random: &mut Random) {
    let at = random.below(used(content) as u64) as usize;
    if random.chance(50) {
        content[at] ^= 1 << random.below(8);
    } else {
        let from = at / 512 * 512;
        let to = content.len().min(from + 512);
        content[from..to].fill(0);
    }
}

#[test]
fn frame_bytes_inside_an_entry_are_not_mistaken_for_a_frame() {
    let (_, _, content) = closed_log(10);
    let frame_bytes = content[4096..used(&content)].to_vec();
    let mut test_log = open_on(&SimDisk::new(2), small_options());
    // All alignments within eight bytes are tried, so a scan looks at one of them.
    let sent: Vec<_> = (0..8).map(|shift| (1, [vec![0; shift], frame_bytes.clone()].concat())).collect();
    test_log.append(sent.clone());
    let (disk, path) = (test_log.disk.clone(), test_log.segment(test_log.log.stats().segments as usize - 1));
    test_log.committer.close();
    let mut content = disk.content(&path).expect("the file exists");
    content[4096] ^= 1;
    disk.set_content(&path, content);
    let test_log = open_on(&disk, small_options());
    let (read, _) = test_log.all();
    assert!(read.iter().all(|(_, _, bytes)| sent.iter().any(|(_, wanted)| wanted == bytes)));
}

#[test]
fn segment_of_newer_format_is_rejected_and_left_unchanged() {
    let (disk, path, mut content) = closed_log(10);
    content[8] = 2;
    content[12..16].fill(0);
    let sum = crc32c::crc32c_append(crc32c::crc32c(&content[..12]), &content[16..64]);
    content[12..16].copy_from_slice(&sum.to_le_bytes());
    disk.set_content(&path, content.clone());
    let rejected = Wal::<Vec<u32>>::open(Arc::new(disk.clone()), Path::new(FOLDER), small_options());
    assert!(matches!(rejected, Err(WalError::Version { found: 2, known: 1, .. })));
    assert_eq!(disk.content(&path), Some(content));
}

#[test]
fn verify_folder_does_not_change_the_folder() {
    let (disk, path, mut content) = closed_log(10);
    content[used(&closed_log(9).2) + 60] ^= 1;
    disk.set_content(&path, content.clone());
    let found = verify_folder(Arc::new(disk.clone()), Path::new(FOLDER)).expect("the log is readable");
    assert_eq!((found.frames, found.damage.len()), (9, 0));
    assert!(found.torn_bytes > 0);
    assert_eq!(disk.content(&path), Some(content));
}

#[test]
fn queue_rejects_entries_over_its_byte_limit() {
    let mut test_log = open_on(&SimDisk::new(1), Options { queue_bytes_max: 10_000, ..small_options() });
    // A single entry larger than the limit is accepted if the queue is empty.
    test_log.log.append(entry(1, &[1; 20_000])).expect("the queue is empty");
    assert!(matches!(test_log.log.append(entry(1, &[1])), Err(WalError::Overloaded { .. })));
    test_log.committer.step(0);
    for _ in 0..4 {
        test_log.log.append(entry(1, &[1; 2000])).expect("there is space");
    }
    let rejected = test_log.log.append(entry(1, &[1; 2000])).expect_err("there is no space");
    assert!(rejected.is_temporary());
    test_log.committer.step(0);
    assert_eq!(test_log.log.stats().queued_bytes, 0);
}

#[test]
fn memory_is_acknowledged_at_once_os_after_the_write_disk_after_the_sync() {
    let test_log = &mut open();
    let append = |ack| test_log.log.append(Entry { ack, ..entry(1, b"x") }).expect("the entry is queued");
    let (mut memory, mut os) = (append(Ack::Memory), append(Ack::Os));
    assert!(matches!(memory.try_take(), Some(Ok(None))));
    assert!(os.try_take().is_none());
    test_log.committer.step(0);
    assert!(matches!(os.try_take(), Some(Ok(Some(committed))) if committed.offsets == (1..2)));
    assert_eq!((test_log.log.durable_until(), test_log.log.stats().syncs), (0, 0));
    let mut disk = test_log.log.append(entry(1, b"x")).expect("the entry is queued");
    test_log.committer.step(0);
    assert!(matches!(disk.try_take(), Some(Ok(Some(committed))) if committed.offsets == (2..3)));
    assert_eq!((test_log.log.durable_until(), test_log.log.stats().syncs), (3, 1));
}

/// Rejects entries whose first byte was seen before.
#[derive(Default)]
struct DropRepeated {
    seen: Vec<u8>,
    undone: usize,
}

impl Sequencer<Vec<u32>> for DropRepeated {
    fn decide(&mut self, batch: &mut [PendingEntry<Vec<u32>>], _: u64, _: u64) {
        for pending in batch {
            let known = self.seen.contains(&pending.bytes[0]);
            self.seen.push(pending.bytes[0]);
            pending.extra = vec![u32::from(known)];
            if known {
                pending.reject(WalError::Rejected { reason: "seen before".into() });
            }
        }
    }

    fn undo(&mut self, batch: &mut [PendingEntry<Vec<u32>>]) {
        self.undone += batch.len();
        self.seen.truncate(self.seen.len() - batch.len());
    }
}

#[test]
fn sequencer_decides_in_log_order_and_its_data_is_returned() {
    let opened = Wal::<Vec<u32>>::open(Arc::new(SimDisk::new(1)), Path::new(FOLDER), small_options())
        .expect("the log opens");
    let (log, mut committer, _) = opened.into_parts(Box::new(DropRepeated::default()));
    let receipts: Vec<_> =
        b"aba".iter().map(|byte| log.append(entry(2, &[*byte])).expect("the entry is queued")).collect();
    committer.step(5);
    let answers = receipts.into_iter().map(|receipt| {
        let committed = receipt.wait()?.expect("the entry was appended with Ack::Disk");
        Ok((committed.offsets, committed.extra))
    });
    let answers: Vec<Result<_, WalError>> = answers.collect();
    assert!(
        matches!(&answers[..2], [Ok(first), Ok(second)] if *first == (0..2, vec![0]) && *second == (2..4, vec![0]))
    );
    assert!(matches!(&answers[2], Err(WalError::Rejected { .. })), "{answers:?}");
}

#[test]
fn full_disk_rejects_entries_undoes_decisions_and_resumes_when_space_is_free() {
    let disk = SimDisk::new(1);
    let options = Options { full_retry: Duration::from_millis(50), ..small_options() };
    let opened =
        Wal::<Vec<u32>>::open(Arc::new(disk.clone()), Path::new(FOLDER), options).expect("the log opens");
    let (log, mut committer, _) = opened.into_parts(Box::new(DropRepeated::default()));
    disk.set_capacity(0);
    let first = log.append(entry(1, &[b'a'; 9000])).expect("the entry is queued");
    let second = log.append(entry(1, b"b")).expect("the entry is queued");
    committer.step(0);
    assert!(matches!(first.wait(), Err(WalError::Full)));
    assert!(matches!(second.wait(), Err(WalError::Full)));
    // The disk is not tried again so soon: the append is rejected at once.
    assert!(matches!(log.append(entry(1, b"b")), Err(WalError::Full)));
    assert!(log.stats().full && log.read(0, 100).is_ok());
    disk.set_capacity(1 << 30);
    std::thread::sleep(Duration::from_millis(60));
    let again = log.append(entry(1, &[b'a'; 9000])).expect("one attempt is allowed");
    committer.step(0);
    let committed = again.wait().expect("there is space").expect("the entry was written with Ack::Disk");
    assert_eq!((committed.offsets, committed.extra), (0..1, vec![0]));
    assert!(!log.stats().full && log.append(entry(1, b"b")).is_ok());
}

#[test]
fn after_a_failed_sync_every_call_returns_an_error() {
    let disk = SimDisk::new(1);
    let reported = Arc::new(std::sync::Mutex::new(Vec::new()));
    let report = Arc::clone(&reported);
    let on_fatal = Arc::new(move |error: &WalError| report.lock().expect("no panic").push(error.to_string()));
    let mut test_log = open_on(&disk, Options { on_fatal, ..small_options() });
    test_log.append(entries(2));
    let waiting = test_log.log.append(entry(1, b"lost")).expect("the entry is queued");
    disk.fail(sim::Fault { at: disk.operations() + 2, kind: sim::FaultKind::Broken, permanent: false });
    test_log.committer.step(0);
    assert!(matches!(waiting.wait(), Err(WalError::Stopped)));
    assert!(matches!(test_log.log.append(entry(1, b"later")), Err(WalError::Stopped)));
    assert!(matches!(test_log.log.wait(99, Duration::ZERO), Err(WalError::Stopped)));
    assert!(reported.lock().expect("no panic")[0].starts_with("syncing log/00000000000000000000.log"));
    let marker = Path::new(FOLDER).join("00000000000000000000.suspect");
    assert!(disk.content(&marker).is_some());
    // The next start rewrites what it can read to new blocks and removes the marker.
    let test_log = open_on(&disk.after_kill(), small_options());
    assert_eq!(test_log.all().0.len(), 3);
    assert!(test_log.disk.content(&marker).is_none());
    assert_eq!(open_on(&test_log.disk.after_power_cut(1), small_options()).all(), test_log.all());
}

/// A waker that counts its calls.
#[derive(Default)]
struct CountingWaker(std::sync::atomic::AtomicU32);

impl std::task::Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

impl CountingWaker {
    fn poll<F: Future + Unpin>(self: &Arc<Self>, future: &mut F) -> std::task::Poll<F::Output> {
        let waker = std::task::Waker::from(Arc::clone(self));
        std::pin::Pin::new(future).poll(&mut std::task::Context::from_waker(&waker))
    }

    fn woken(&self) -> u32 {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }
}

#[test]
fn lane_is_woken_once_for_all_its_tasks() {
    let mut test_log = open();
    let lane = test_log.log.lane();
    let (tasks, runtime) = (Arc::new(CountingWaker::default()), Arc::new(CountingWaker::default()));
    let mut pump = lane.pump();
    assert!(runtime.poll(&mut pump).is_pending());
    let mut receipts: Vec<_> =
        (0..5).map(|_| lane.append(entry(1, b"x")).expect("the entry is queued")).collect();
    assert!(receipts.iter_mut().all(|receipt| tasks.poll(receipt).is_pending()));
    test_log.committer.step(0);
    assert_eq!((runtime.woken(), tasks.woken()), (1, 0));
    assert!(runtime.poll(&mut pump).is_pending());
    assert_eq!((runtime.woken(), tasks.woken()), (1, 5));
    assert!(receipts.iter_mut().all(|receipt| tasks.poll(receipt).is_ready()));
    // Without the pump the writer wakes each task.
    drop(pump);
    let mut receipt = lane.append(entry(1, b"x")).expect("the entry is queued");
    assert!(tasks.poll(&mut receipt).is_pending());
    test_log.committer.step(0);
    assert_eq!((runtime.woken(), tasks.woken()), (1, 6));
}

#[test]
fn follower_is_woken_by_durable_entries_and_by_close() {
    let mut test_log = open();
    let task = Arc::new(CountingWaker::default());
    let mut follow = test_log.log.follow(0);
    assert!(task.poll(&mut follow).is_pending());
    test_log.append(entries(1));
    assert_eq!(task.woken(), 1);
    assert!(matches!(task.poll(&mut follow), std::task::Poll::Ready(Ok(1))));
    let mut follow = test_log.log.follow(1);
    assert!(task.poll(&mut follow).is_pending());
    test_log.committer.close();
    assert!(matches!(task.poll(&mut follow), std::task::Poll::Ready(Err(WalError::Closed))));
}

#[test]
fn threads_on_a_real_disk_each_get_their_own_receipts() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = Options { segment_bytes: 256 << 10, first_segment_bytes: 16 << 10, ..Options::default() };
    let open =
        || Wal::<Vec<u32>>::open(Arc::new(RealDisk), folder.path(), options.clone()).expect("the log opens");
    let log = Wal::start(open(), Box::new(AcceptAll)).expect("threads start");
    let appender = |thread: u64| {
        let log = log.clone();
        move || {
            let append = |n: u64| log.append(entry(3, format!("{thread} {n}").repeat(40).as_bytes()));
            let committed = |n: u64| {
                append(n)
                    .expect("the entry is queued")
                    .wait()
                    .expect("the commit succeeds")
                    .expect("the entry was written with Ack::Disk")
            };
            (0..300)
                .map(|n| (committed(n).offsets.start, format!("{thread} {n}").repeat(40)))
                .collect::<Vec<_>>()
        }
    };
    let threads: Vec<_> = (0..4).map(|thread| std::thread::spawn(appender(thread))).collect();
    let mut acked: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect();
    acked.sort_unstable();
    assert_eq!(log.wait(0, Duration::from_secs(1)).ok(), Some(3600));
    log.close().expect("the disk works");
    assert!(matches!(log.append(entry(1, b"x")), Err(WalError::Closed)));
    let opened = open();
    assert_eq!((opened.report().next, opened.report().torn_bytes), (3600, 0));
    let (log, _committer, _) = opened.into_parts(Box::new(AcceptAll));
    let read = all_of(&log, 0, 10_000).0.into_iter();
    let read: Vec<_> = read.map(|(at, _, bytes)| (at, String::from_utf8(bytes).expect("text"))).collect();
    assert_eq!(read, acked);
}

#[test]
fn entries_written_for_os_are_synced_soon_without_further_appends() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let opened =
        Wal::<Vec<u32>>::open(Arc::new(RealDisk), folder.path(), Options::default()).expect("the log opens");
    let log = Wal::start(opened, Box::new(AcceptAll)).expect("threads start");
    let receipt = log.append(Entry { ack: Ack::Os, ..entry(1, b"x") }).expect("the entry is queued");
    receipt.wait().expect("the commit succeeds");
    assert_eq!(log.wait(0, Duration::from_millis(200)).ok(), Some(1));
}

#[test]
fn log_that_does_not_reach_its_reader_is_refused_and_unchanged() {
    let mut test_log = open();
    test_log.append(entries(100));
    let next = test_log.log.durable_until();
    test_log.log.trim(next / 2).expect("the disk works");
    let first = test_log.log.first();
    assert!(first > 0);
    test_log.committer.close();
    let before = test_log.disk.paths();
    let open_at = |folder: &str, continues_at: u64| {
        let options = Options { continues_at: Some(continues_at), ..small_options() };
        Wal::<Vec<u32>>::open(Arc::new(test_log.disk.clone()), Path::new(folder), options).map(|_| ())
    };
    for needed in [0, first - 1, next + 1, u64::MAX] {
        let refused = open_at(FOLDER, needed);
        assert!(matches!(refused, Err(WalError::Mismatch { needed: at, .. }) if at == needed), "{refused:?}");
    }
    assert!(matches!(open_at("missing", 1), Err(WalError::Mismatch { first: 0, next: 0, needed: 1, .. })));
    assert_eq!(test_log.disk.paths(), before);
    for reached in [first, next - 1, next] {
        open_at(FOLDER, reached).expect("the log contains it");
    }
    open_at("new", 0).expect("a new log begins at 0");
}

#[test]
fn skipped_end_is_damage_and_offsets_are_not_assigned_again() {
    for is_header_lost in [false, true] {
        let mut test_log = open();
        test_log.append(entries(100));
        let (next, newest) = (test_log.log.durable_until(), test_log.log.stats().segments as usize - 1);
        let newest = test_log.segment(newest);
        test_log.committer.close();
        let lost_from = if is_header_lost {
            let file = test_log.disk.open(&newest).expect("it is there");
            file.write_at(&[0x5a; 4096], 0).expect("the disk works");
            newest.file_stem().and_then(|stem| stem.to_str()).expect("a name").parse().expect("an offset")
        } else {
            next
        };
        let disk: Arc<dyn Disk> = Arc::new(test_log.disk.clone());
        let used_until = next + 1_000;
        let lost =
            skip_lost_end(disk, Path::new(FOLDER), &small_options(), used_until).expect("the disk works");
        assert_eq!(lost.start, lost_from);
        assert!(lost.end > used_until);
        let mut again = open_on(&test_log.disk, small_options());
        assert_eq!(again.report.next, lost.end);
        again.append([(3, b"new".to_vec())]);
        let (read, damage) = again.all();
        assert_eq!(read.last(), Some(&(lost.end, 3, b"new".to_vec())));
        assert!(read.iter().rev().skip(1).all(|(offset, ..)| *offset < lost.start));
        let damaged = damage.iter().map(|damage| damage.offset_from..damage.offset_to);
        assert_eq!(damaged.collect::<Vec<_>>(), [lost]);
    }
}

#[test]
fn newest_segment_that_the_disk_cannot_read_can_be_given_up() {
    let mut test_log = open();
    test_log.append(entries(100));
    let (next, newest) = (test_log.log.durable_until(), test_log.log.stats().segments as usize - 1);
    let newest = test_log.segment(newest);
    test_log.committer.close();
    let disk = test_log.disk.clone();
    disk.fail_reads(&newest, 0..u64::MAX);
    let refused = Wal::<()>::open(Arc::new(disk.clone()), Path::new(FOLDER), small_options()).err();
    assert!(matches!(&refused, Some(WalError::Unreadable { path, .. }) if *path == newest), "{refused:?}");
    let lost = skip_lost_end(Arc::new(disk.clone()), Path::new(FOLDER), &small_options(), next);
    let lost = lost.expect("the rest can be read");
    assert!(lost.start < next && lost.end > next);
    let mut again = open_on(&disk, small_options());
    again.append([(3, b"new".to_vec())]);
    assert_eq!(again.all().0.last(), Some(&(lost.end, 3, b"new".to_vec())));
}

#[test]
fn lost_log_starts_where_its_reader_continues() {
    let disk = SimDisk::new(1);
    let lost = skip_lost_end(Arc::new(disk.clone()), Path::new(FOLDER), &small_options(), 700);
    assert_eq!(lost.expect("the disk works").start, 700);
    let mut test_log = open_on(&disk, Options { continues_at: Some(700), ..small_options() });
    assert_eq!(test_log.report.first, 700);
    test_log.append([(1, b"new".to_vec())]);
    assert_eq!(all_of(&test_log.log, 700, 1000).1.len(), 1);
}

#[test]
fn newest_segment_is_missed_even_if_its_reader_does_not_need_it() {
    let mut test_log = open();
    test_log.append(entries(100));
    let newest = test_log.segment(test_log.log.stats().segments as usize - 1);
    test_log.committer.close();
    let disk = test_log.disk.clone();
    let options = Options { continues_at: Some(0), ..small_options() };
    let open = || Wal::<Vec<u32>>::open(Arc::new(disk.clone()), Path::new(FOLDER), options.clone()).map(drop);
    open().expect("it is there");
    disk.remove(&newest).expect("the disk works");
    let before = disk.paths();
    for _ in 0..2 {
        let refused = open();
        assert!(matches!(&refused, Err(WalError::Lost { path, .. }) if *path == newest), "{refused:?}");
    }
    assert_eq!(disk.paths(), before, "nothing was changed");
    skip_lost_end(Arc::new(disk.clone()), Path::new(FOLDER), &small_options(), 0).expect("the disk works");
    open().expect("it was given up");
    let note = Path::new(FOLDER).join("newest");
    for content in [b"".to_vec(), vec![0x5a; 12], vec![0xff; 100]] {
        disk.set_content(&note, content);
        open().expect("a damaged note says nothing");
    }
}

#[test]
fn power_cut_at_any_moment_lets_no_segment_be_missed() {
    let disk = SimDisk::new(1);
    let mut cuts = 0;
    disk.watch(move |disk| {
        cuts += 1;
        let cut = disk.after_power_cut(cuts);
        let options = Options { continues_at: Some(0), ..small_options() };
        Wal::<Vec<u32>>::open(Arc::new(cut), Path::new(FOLDER), options).expect("no segment is missed");
    });
    let mut test_log = open_on(&disk, small_options());
    test_log.append(entries(200));
    assert!(test_log.log.stats().segments > 1);
}
