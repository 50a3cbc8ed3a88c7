//! What the log promises to those who append and read, in the product's words.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use wal::sim::{Random, SimDisk};
use wal::*;

const FOLDER: &str = "log";

/// Sizes so small that a handful of entries fills segments.
fn small() -> Options {
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

/// A log whose time the test decides.
struct Bench {
    disk: SimDisk,
    log: Wal<Vec<u32>>,
    committer: Committer<Vec<u32>>,
    housekeeper: Housekeeper,
    report: Report,
}

fn open_on(disk: &SimDisk, options: Options) -> Bench {
    let opened = Wal::<Vec<u32>>::open(Arc::new(disk.clone()), Path::new(FOLDER), options).expect("it opens");
    let report = opened.report().clone();
    let (log, committer, housekeeper) = opened.by_hand(Box::new(TakeAll));
    Bench { disk: disk.clone(), log, committer, housekeeper, report }
}

fn open() -> Bench {
    open_on(&SimDisk::new(1), small())
}

fn entry(events: u32, bytes: &[u8]) -> Entry<Vec<u32>> {
    Entry { kind: 1, events, bytes: bytes.to_vec(), ack: Ack::Disk, extra: Vec::new() }
}

impl Bench {
    /// Appends and commits each on its own.
    fn append(&mut self, entries: impl IntoIterator<Item = (u32, Vec<u8>)>) {
        for (events, bytes) in entries {
            let mut receipt = self.log.append(entry(events, &bytes)).expect("it is queued");
            self.committer.step(0);
            self.housekeeper.step();
            receipt.try_take().expect("the commit answers").expect("the disk works");
        }
    }

    fn reopen(self) -> Bench {
        self.committer.close();
        open_on(&self.disk, small())
    }

    /// Everything there is, as (offset, events, bytes), and what was passed over.
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
        let batch = log.read(from, limit_bytes).expect("it reads");
        damage.extend(batch.skipped);
        for chunk in &batch.chunks {
            let found = chunk.entries_from(from);
            entries.extend(found.map(|entry| (entry.offset, entry.events, entry.bytes.to_vec())));
        }
        if batch.next == from {
            return (entries, damage);
        }
        from = batch.next;
    }
}

/// So many entries, each of another content and size.
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
fn what_was_appended_is_read_back_with_dense_offsets() {
    let mut bench = open();
    bench.append(entries(200));
    assert_eq!(bench.all(), (with_offsets(&entries(200)), vec![]));
    assert!(bench.log.stats().segments > 2);
}

#[test]
fn a_log_that_was_closed_reads_the_same_from_disk() {
    let mut bench = open();
    bench.append(entries(200));
    let next = bench.log.durable_until();
    let bench = bench.reopen();
    assert_eq!((bench.report.next, bench.report.torn_bytes, bench.report.damage.len()), (next, 0, 0));
    assert_eq!(bench.all(), (with_offsets(&entries(200)), vec![]));
}

#[test]
fn a_read_may_begin_at_any_offset_and_take_any_size() {
    let mut bench = open();
    bench.append(entries(120));
    let whole = with_offsets(&entries(120));
    for from in 0..bench.log.durable_until() {
        let wanted: Vec<Read> =
            whole.iter().filter(|(at, events, _)| at + u64::from(*events.max(&1)) > from).cloned().collect();
        let limit_bytes = 1 + from as usize * 97 % 5000;
        assert_eq!(all_of(&bench.log, from, limit_bytes).0, wanted);
    }
}

proptest! {
    #[test]
    fn how_entries_are_gathered_into_commits_changes_nothing(
        cuts in prop::collection::vec(any::<bool>(), 60), tail_bytes in 0usize..8000,
    ) {
        let mut bench = open_on(&SimDisk::new(1), Options { tail_bytes, ..small() });
        for ((events, bytes), cut) in entries(60).iter().zip(&cuts) {
            bench.log.append(entry(*events, bytes)).expect("it is queued");
            if *cut {
                bench.committer.step(0);
            }
        }
        bench.committer.step(0);
        prop_assert_eq!(bench.all(), (with_offsets(&entries(60)), vec![]));
        prop_assert_eq!(bench.reopen().all().0, with_offsets(&entries(60)));
    }
}

#[test]
fn an_entry_larger_than_a_segment_has_one_of_its_own() {
    let mut bench = open();
    let large = vec![(3, vec![7; 100_000])];
    bench.append(entries(20));
    bench.append(large.clone());
    bench.append(entries(1));
    let wanted: Vec<_> = entries(20).into_iter().chain(large).chain(entries(1)).collect();
    assert_eq!(bench.reopen().all(), (with_offsets(&wanted), vec![]));
}

#[test]
fn what_was_trimmed_is_gone_and_says_so() {
    let mut bench = open();
    bench.append(entries(200));
    bench.log.trim(100).expect("the disk works");
    let first = bench.log.first();
    assert!(first > 0 && first <= 100, "{first}");
    let refused = bench.log.read(first - 1, 1000);
    assert!(matches!(refused, Err(WalError::Trimmed { first: from }) if from == first));
    let kept = bench.all();
    assert_eq!(kept.0.first().map(|entry| entry.0), Some(first));
    assert_eq!(bench.reopen().all(), kept);
}

#[test]
fn retention_never_takes_what_the_views_still_need() {
    let retention = Retention { bytes_max: Some(32 << 10), age_ms_max: None };
    let mut bench = open_on(&SimDisk::new(1), Options { retention, ..small() });
    bench.append(entries(400));
    assert_eq!(bench.log.first(), 0);
    bench.log.keep_from(50);
    bench.housekeeper.step();
    assert!((1..=50).contains(&bench.log.first()), "{}", bench.log.first());
    bench.log.keep_from(bench.log.durable_until());
    bench.housekeeper.step();
    assert!(bench.log.stats().disk_bytes <= 32 << 10);
}

#[test]
fn retention_by_age_counts_from_when_a_segment_was_left() {
    let clock = Arc::new(std::sync::atomic::AtomicU64::new(1_000));
    let now = Arc::clone(&clock);
    let options = Options {
        retention: Retention { bytes_max: None, age_ms_max: Some(10_000) },
        clock: Arc::new(move || now.load(std::sync::atomic::Ordering::Relaxed)),
        ..small()
    };
    let mut bench = open_on(&SimDisk::new(1), options);
    bench.append(entries(200));
    bench.log.keep_from(bench.log.durable_until());
    clock.store(11_000, std::sync::atomic::Ordering::Relaxed);
    bench.housekeeper.step();
    assert_eq!(bench.log.first(), 0);
    clock.store(11_001, std::sync::atomic::Ordering::Relaxed);
    bench.log.keep_from(0);
    bench.housekeeper.step();
    assert_eq!(bench.log.stats().segments, 1);
}

/// Closes a log of so many entries and gives its last segment.
fn closed_log(count: u64) -> (SimDisk, std::path::PathBuf, Vec<u8>) {
    let mut bench = open();
    bench.append(entries(count));
    let path = bench.segment(bench.log.stats().segments as usize - 1);
    let disk = bench.disk.clone();
    bench.committer.close();
    let content = disk.content(&path).expect("it is there");
    (disk, path, content)
}

fn used(content: &[u8]) -> usize {
    content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

#[test]
fn a_tail_torn_at_any_byte_is_cut_and_the_log_goes_on() {
    let (_, _, before) = closed_log(9);
    let (disk, path, whole) = closed_log(10);
    // The file ends after the zeros that fill the last frame up to a multiple of 8.
    let (from, to) = (used(&before).next_multiple_of(8), used(&whole));
    for (cut, shorter) in (from..to).flat_map(|cut| [(cut, false), (cut, true)]) {
        let mut torn = whole.clone();
        torn[cut..].fill(0);
        torn.truncate(if shorter { cut } else { whole.len() });
        let disk = disk.after_kill();
        disk.set_content(&path, torn);
        let mut bench = open_on(&disk, small());
        assert_eq!(bench.report.next, 15, "cut at {cut}");
        assert_eq!(bench.all(), (with_offsets(&entries(9)), vec![]));
        assert_eq!(bench.report.damage, vec![]);
        bench.append(entries(10).into_iter().skip(9));
        assert_eq!(bench.reopen().all().0, with_offsets(&entries(10)), "cut at {cut}");
    }
}

#[test]
fn what_was_cut_does_not_come_back_behind_an_entry_of_the_same_size() {
    let mut bench = open();
    for bytes in [b"aaaa", b"bbbb"] {
        bench.log.append(Entry { ack: Ack::Os, ..entry(1, bytes) }).expect("queued");
        bench.committer.step(0);
    }
    let (disk, path) = (bench.disk.after_kill(), bench.segment(0));
    // Of two frames that were not synced the power cut took the first.
    let mut content = disk.content(&path).expect("it is there");
    content[4096..4096 + 64].fill(0);
    disk.set_content(&path, content);
    let mut bench = open_on(&disk, small());
    assert_eq!((bench.report.next, bench.report.damage.len()), (0, 0));
    assert!(bench.report.torn_bytes > 64);
    bench.append([(1, b"cccc".to_vec())]);
    assert_eq!(bench.reopen().all(), (vec![(0, 1, b"cccc".to_vec())], vec![]));
}

#[test]
fn damage_in_the_middle_is_passed_over_and_reported_and_the_rest_is_read() {
    let (disk, path, mut content) = closed_log(10);
    content[4096 + 48 + 9 + 30] ^= 0x10;
    disk.set_content(&path, content);
    let bench = open_on(&disk, small());
    let lost = Damage { segment: 0, byte_from: 4096, byte_to: 4160, offset_from: 0, offset_to: 1 };
    // The first entry is 5 bytes long, so its frame ends at 4160 and the flipped bit is in the second.
    let (entries_read, damage) = bench.all();
    let lost =
        Damage { byte_from: lost.byte_to, byte_to: damage[0].byte_to, offset_from: 1, offset_to: 2, ..lost };
    assert_eq!((&bench.report.damage, &damage), (&vec![lost.clone()], &vec![lost.clone()]));
    assert_eq!(bench.log.damage(), vec![lost.clone()]);
    assert_eq!(bench.log.verify().expect("it reads").damage, vec![lost]);
    let mut wanted = with_offsets(&entries(10));
    wanted.remove(1);
    assert_eq!(entries_read, wanted);
}

#[test]
fn whatever_happens_to_the_bytes_nothing_false_is_read_and_nothing_is_missing_in_silence() {
    let mut bench = open();
    bench.append(entries(60));
    let (disk, next) = (bench.disk.clone(), bench.log.durable_until());
    let last = bench.segment(bench.log.stats().segments as usize - 1);
    bench.committer.close();
    let whole = with_offsets(&entries(60));
    let mut paths = disk.paths();
    paths.retain(|path| path.extension().is_some_and(|kind| kind == "log"));
    for seed in 0..5000 {
        let (image, mut random) = (disk.after_kill(), Random::new(seed));
        let path = &paths[random.below(paths.len() as u64) as usize];
        let mut content = image.content(path).expect("it is there");
        spoil(&mut content, &mut random);
        image.set_content(path, content);
        let opened = Wal::<Vec<u32>>::open(Arc::new(image.clone()), Path::new(FOLDER), small());
        let Ok(opened) = opened else {
            assert_eq!(path, &last, "seed {seed}: only the newest segment is needed to go on");
            continue;
        };
        let reported_next = opened.report().next;
        assert!(reported_next == next || path == &last, "seed {seed}");
        let (log, _committer, _) = opened.by_hand(Box::new(TakeAll));
        let (read, damage) = all_of(&log, 0, 700);
        let lost = |offset: u64| damage.iter().any(|gap| (gap.offset_from..gap.offset_to).contains(&offset));
        let wanted = whole.iter().filter(|entry| entry.0 < reported_next && !lost(entry.0)).cloned();
        assert_eq!(read, wanted.collect::<Vec<_>>(), "seed {seed}: {damage:?}");
        assert_eq!(log.verify().expect("it reads").damage, damage, "seed {seed}");
    }
}

/// Flips a bit, or zeroes a sector, in what is used of a file.
fn spoil(content: &mut [u8], random: &mut Random) {
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
fn a_frame_sent_as_an_event_is_not_taken_for_a_frame() {
    let (_, _, content) = closed_log(10);
    let stolen = content[4096..used(&content)].to_vec();
    let mut bench = open_on(&SimDisk::new(2), small());
    // Any place within eight bytes is tried, so that one is where a scan looks.
    let sent: Vec<_> = (0..8).map(|shift| (1, [vec![0; shift], stolen.clone()].concat())).collect();
    bench.append(sent.clone());
    let (disk, path) = (bench.disk.clone(), bench.segment(bench.log.stats().segments as usize - 1));
    bench.committer.close();
    let mut content = disk.content(&path).expect("it is there");
    content[4096] ^= 1;
    disk.set_content(&path, content);
    let bench = open_on(&disk, small());
    let (read, _) = bench.all();
    assert!(read.iter().all(|(_, _, bytes)| sent.iter().any(|(_, wanted)| wanted == bytes)));
}

#[test]
fn a_segment_of_a_newer_format_is_refused_and_left_alone() {
    let (disk, path, mut content) = closed_log(10);
    content[8] = 2;
    content[12..16].fill(0);
    let sum = crc32c::crc32c_append(crc32c::crc32c(&content[..12]), &content[16..64]);
    content[12..16].copy_from_slice(&sum.to_le_bytes());
    disk.set_content(&path, content.clone());
    let refused = Wal::<Vec<u32>>::open(Arc::new(disk.clone()), Path::new(FOLDER), small());
    assert!(matches!(refused, Err(WalError::Version { found: 2, known: 1, .. })));
    assert_eq!(disk.content(&path), Some(content));
}

#[test]
fn a_folder_is_checked_without_being_changed() {
    let (disk, path, mut content) = closed_log(10);
    content[used(&closed_log(9).2) + 60] ^= 1;
    disk.set_content(&path, content.clone());
    let found = verify_folder(Arc::new(disk.clone()), Path::new(FOLDER)).expect("it reads");
    assert_eq!((found.frames, found.damage.len()), (9, 0));
    assert!(found.torn_bytes > 0);
    assert_eq!(disk.content(&path), Some(content));
}

#[test]
fn the_queue_takes_so_many_bytes_and_then_refuses() {
    let mut bench = open_on(&SimDisk::new(1), Options { queue_bytes_max: 10_000, ..small() });
    // One larger than the bound is taken when nothing else waits.
    bench.log.append(entry(1, &[1; 20_000])).expect("nothing waits");
    assert!(matches!(bench.log.append(entry(1, &[1])), Err(WalError::Overloaded { .. })));
    bench.committer.step(0);
    for _ in 0..4 {
        bench.log.append(entry(1, &[1; 2000])).expect("there is room");
    }
    let refused = bench.log.append(entry(1, &[1; 2000])).expect_err("there is none");
    assert!(refused.is_temporary());
    bench.committer.step(0);
    assert_eq!(bench.log.stats().queued_bytes, 0);
}

#[test]
fn memory_is_answered_at_once_os_after_the_write_and_disk_after_the_sync() {
    let bench = &mut open();
    let append = |ack| bench.log.append(Entry { ack, ..entry(1, b"x") }).expect("it is queued");
    let (mut memory, mut os) = (append(Ack::Memory), append(Ack::Os));
    assert!(matches!(memory.try_take(), Some(Ok(None))));
    assert!(os.try_take().is_none());
    bench.committer.step(0);
    assert!(matches!(os.try_take(), Some(Ok(Some(committed))) if committed.offsets == (1..2)));
    assert_eq!((bench.log.durable_until(), bench.log.stats().syncs), (0, 0));
    let mut disk = bench.log.append(entry(1, b"x")).expect("it is queued");
    bench.committer.step(0);
    assert!(matches!(disk.try_take(), Some(Ok(Some(committed))) if committed.offsets == (2..3)));
    assert_eq!((bench.log.durable_until(), bench.log.stats().syncs), (3, 1));
}

/// Skips what begins with the content of an earlier entry, and remembers it.
#[derive(Default)]
struct Once {
    seen: Vec<u8>,
    undone: usize,
}

impl Sequencer<Vec<u32>> for Once {
    fn decide(&mut self, batch: &mut [Pending<Vec<u32>>], _: u64, _: u64) {
        for pending in batch {
            let known = self.seen.contains(&pending.bytes[0]);
            self.seen.push(pending.bytes[0]);
            pending.extra = vec![u32::from(known)];
            if known {
                pending.skip();
            }
        }
    }

    fn undo(&mut self, batch: &mut [Pending<Vec<u32>>]) {
        self.undone += batch.len();
        self.seen.truncate(self.seen.len() - batch.len());
    }
}

#[test]
fn the_sequencer_decides_in_log_order_and_its_word_comes_back() {
    let opened =
        Wal::<Vec<u32>>::open(Arc::new(SimDisk::new(1)), Path::new(FOLDER), small()).expect("it opens");
    let (log, mut committer, _) = opened.by_hand(Box::new(Once::default()));
    let receipts: Vec<_> =
        b"aba".iter().map(|byte| log.append(entry(2, &[*byte])).expect("queued")).collect();
    committer.step(5);
    let answers = receipts.into_iter().map(|receipt| receipt.wait().expect("it works").expect("for disk"));
    let answers: Vec<_> = answers.map(|committed| (committed.offsets, committed.extra)).collect();
    assert_eq!(answers, [(0..2, vec![0]), (2..4, vec![0]), (4..4, vec![1])]);
}

#[test]
fn a_full_disk_refuses_takes_back_what_was_decided_and_resumes() {
    let disk = SimDisk::new(1);
    let options = Options { full_retry: Duration::from_millis(50), ..small() };
    let opened = Wal::<Vec<u32>>::open(Arc::new(disk.clone()), Path::new(FOLDER), options).expect("it opens");
    let (log, mut committer, _) = opened.by_hand(Box::new(Once::default()));
    disk.set_room(0);
    let first = log.append(entry(1, &[b'a'; 9000])).expect("queued");
    let second = log.append(entry(1, b"b")).expect("queued");
    committer.step(0);
    assert!(matches!(first.wait(), Err(WalError::Full)));
    assert!(matches!(second.wait(), Err(WalError::Full)));
    // The disk is not asked again so soon, and the refusal is immediate.
    assert!(matches!(log.append(entry(1, b"b")), Err(WalError::Full)));
    assert!(log.stats().full && log.read(0, 100).is_ok());
    disk.set_room(1 << 30);
    std::thread::sleep(Duration::from_millis(60));
    let again = log.append(entry(1, &[b'a'; 9000])).expect("one attempt is let through");
    committer.step(0);
    let committed = again.wait().expect("there is room").expect("for disk");
    assert_eq!((committed.offsets, committed.extra), (0..1, vec![0]));
    assert!(!log.stats().full && log.append(entry(1, b"b")).is_ok());
}

#[test]
fn after_a_failed_sync_nobody_gets_an_answer_that_is_not_an_error() {
    let disk = SimDisk::new(1);
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let on_fatal = Arc::new(move |error: &WalError| tell.lock().expect("no panic").push(error.to_string()));
    let mut bench = open_on(&disk, Options { on_fatal, ..small() });
    bench.append(entries(2));
    let waiting = bench.log.append(entry(1, b"lost")).expect("queued");
    disk.fail(sim::Fault { at: disk.operations() + 2, kind: sim::FaultKind::Broken, for_good: false });
    bench.committer.step(0);
    assert!(matches!(waiting.wait(), Err(WalError::Stopped)));
    assert!(matches!(bench.log.append(entry(1, b"later")), Err(WalError::Stopped)));
    assert!(matches!(bench.log.wait(99, Duration::ZERO), Err(WalError::Stopped)));
    assert!(told.lock().expect("no panic")[0].starts_with("syncing log/00000000000000000000.log"));
    let marker = Path::new(FOLDER).join("00000000000000000000.suspect");
    assert!(disk.content(&marker).is_some());
    // The next start writes to new blocks what it can read, and the marker is gone.
    let bench = open_on(&disk.after_kill(), small());
    assert_eq!(bench.all().0.len(), 3);
    assert!(bench.disk.content(&marker).is_none());
    assert_eq!(open_on(&bench.disk.after_power_cut(1), small()).all(), bench.all());
}

/// A waker that counts.
#[derive(Default)]
struct Count(std::sync::atomic::AtomicU32);

impl std::task::Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

impl Count {
    fn poll<F: Future + Unpin>(self: &Arc<Self>, future: &mut F) -> std::task::Poll<F::Output> {
        let waker = std::task::Waker::from(Arc::clone(self));
        std::pin::Pin::new(future).poll(&mut std::task::Context::from_waker(&waker))
    }

    fn woken(&self) -> u32 {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }
}

#[test]
fn a_lane_is_woken_once_for_all_its_tasks() {
    let mut bench = open();
    let lane = bench.log.lane();
    let (tasks, runtime) = (Arc::new(Count::default()), Arc::new(Count::default()));
    let mut pump = lane.pump();
    assert!(runtime.poll(&mut pump).is_pending());
    let mut receipts: Vec<_> = (0..5).map(|_| lane.append(entry(1, b"x")).expect("queued")).collect();
    assert!(receipts.iter_mut().all(|receipt| tasks.poll(receipt).is_pending()));
    bench.committer.step(0);
    assert_eq!((runtime.woken(), tasks.woken()), (1, 0));
    assert!(runtime.poll(&mut pump).is_pending());
    assert_eq!((runtime.woken(), tasks.woken()), (1, 5));
    assert!(receipts.iter_mut().all(|receipt| tasks.poll(receipt).is_ready()));
    // Without the pump each is woken by the writer.
    drop(pump);
    let mut receipt = lane.append(entry(1, b"x")).expect("queued");
    assert!(tasks.poll(&mut receipt).is_pending());
    bench.committer.step(0);
    assert_eq!((runtime.woken(), tasks.woken()), (1, 6));
}

#[test]
fn a_follower_is_woken_when_something_is_durable_and_when_nothing_will_come() {
    let mut bench = open();
    let task = Arc::new(Count::default());
    let mut follow = bench.log.follow(0);
    assert!(task.poll(&mut follow).is_pending());
    bench.append(entries(1));
    assert_eq!(task.woken(), 1);
    assert!(matches!(task.poll(&mut follow), std::task::Poll::Ready(Ok(1))));
    let mut follow = bench.log.follow(1);
    assert!(task.poll(&mut follow).is_pending());
    bench.committer.close();
    assert!(matches!(task.poll(&mut follow), std::task::Poll::Ready(Err(WalError::Closed))));
}

#[test]
fn threads_on_a_real_disk_each_get_their_own_answers() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = Options { segment_bytes: 256 << 10, first_segment_bytes: 16 << 10, ..Options::default() };
    let open =
        || Wal::<Vec<u32>>::open(Arc::new(RealDisk), folder.path(), options.clone()).expect("it opens");
    let log = Wal::start(open(), Box::new(TakeAll)).expect("threads start");
    let appender = |thread: u64| {
        let log = log.clone();
        move || {
            let append = |n: u64| log.append(entry(3, format!("{thread} {n}").repeat(40).as_bytes()));
            let committed = |n: u64| append(n).expect("queued").wait().expect("it works").expect("for disk");
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
    let (log, _committer, _) = opened.by_hand(Box::new(TakeAll));
    let read = all_of(&log, 0, 10_000).0.into_iter();
    let read: Vec<_> = read.map(|(at, _, bytes)| (at, String::from_utf8(bytes).expect("text"))).collect();
    assert_eq!(read, acked);
}

#[test]
fn what_was_written_for_os_is_synced_soon_even_if_nothing_else_comes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let opened =
        Wal::<Vec<u32>>::open(Arc::new(RealDisk), folder.path(), Options::default()).expect("it opens");
    let log = Wal::start(opened, Box::new(TakeAll)).expect("threads start");
    let receipt = log.append(Entry { ack: Ack::Os, ..entry(1, b"x") }).expect("queued");
    receipt.wait().expect("it works");
    assert_eq!(log.wait(0, Duration::from_millis(200)).ok(), Some(1));
}
