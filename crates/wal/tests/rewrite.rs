//! RewriteStats segments: erased content is gone from every byte, and everything else is unchanged.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wal::disk::Disk;
use wal::sim::{Fault, FaultKind, SimDisk};
use wal::*;

const FOLDER: &str = "log";

fn small_options() -> Options {
    Options {
        segment_bytes: 16 << 10,
        first_segment_bytes: 6 << 10,
        frame_bytes_max: 4 << 10,
        tail_bytes: 8 << 10,
        sync_after: Duration::from_secs(3600),
        full_retry: Duration::ZERO,
        free_bytes_min: 0,
        clock: Arc::new(|| 0),
        ..Options::default()
    }
}

/// Returns the content of entry `n`, whose player is `n % 10`.
fn content(n: u64) -> Vec<u8> {
    format!("player-{} entry {n:06} ", n % 10).repeat(1 + n as usize % 9).into_bytes()
}

/// Erases one player's entries.
struct ErasePlayer(u64);

const ERASED: u8 = 9;

impl Rewriter for ErasePlayer {
    fn affects(&mut self, entry: &EntryRef<'_>) -> bool {
        entry.bytes.starts_with(format!("player-{} ", self.0).as_bytes())
    }

    fn replace(&mut self, entry: &EntryRef<'_>) -> Option<Replacement> {
        self.affects(entry).then(|| Replacement { kind: ERASED, bytes: b"gone".to_vec() })
    }
}

struct TestLog {
    disk: SimDisk,
    log: Wal<()>,
    committer: Committer<()>,
    housekeeper: Housekeeper,
}

fn open_on(disk: SimDisk) -> TestLog {
    let opened =
        Wal::<()>::open(Arc::new(disk.clone()), Path::new(FOLDER), small_options()).expect("the log opens");
    let (log, committer, housekeeper) = opened.into_parts(Box::new(AcceptAll));
    TestLog { disk, log, committer, housekeeper }
}

/// Returns a log of `count` entries of two events each, in closed segments.
fn with_entries(count: u64) -> TestLog {
    let mut test_log = open_on(SimDisk::new(7));
    for n in 0..count {
        test_log.append(n);
    }
    test_log.committer.roll();
    test_log
}

type Read = (u64, u8, u32, Vec<u8>);

impl TestLog {
    fn append(&mut self, n: u64) {
        let entry = Entry { kind: 1, events: 2, bytes: content(n), ack: Ack::Disk, extra: () };
        let receipt = self.log.append(entry).expect("the entry is queued");
        self.committer.step(n);
        self.housekeeper.step();
        receipt.wait().expect("the disk works");
    }

    fn erase(&self, player: u64) -> Result<u64, WalError> {
        let closed = self.log.closed_segments();
        let rewritten = closed.iter().map(|closed| self.log.rewrite(closed.start, &mut ErasePlayer(player)));
        rewritten.map(|done| Ok(done?.map_or(0, |done| done.entries))).sum()
    }

    fn read(&self, mut from: u64, limit_bytes: usize) -> (Vec<Read>, Vec<Damage>) {
        let (mut entries, mut damage) = (Vec::new(), Vec::new());
        loop {
            let batch = self.log.read(from, limit_bytes).expect("the log is readable");
            damage.extend(batch.skipped);
            for chunk in &batch.chunks {
                let entries_read = chunk.entries_from(from);
                entries.extend(entries_read.map(|it| (it.offset, it.kind, it.events, it.bytes.to_vec())));
            }
            if batch.next == from {
                return (entries, damage);
            }
            from = batch.next;
        }
    }

    /// Counts the occurrences of a text in all files.
    fn occurrences(&self, text: &str) -> usize {
        let contents = self.disk.paths().into_iter().filter_map(|path| self.disk.content(&path));
        contents.map(|bytes| bytes.windows(text.len()).filter(|it| *it == text.as_bytes()).count()).sum()
    }

    fn segment(&self, index: usize) -> PathBuf {
        let mut paths = self.disk.paths();
        paths.retain(|path| path.extension().is_some_and(|kind| kind == "log"));
        paths[index].clone()
    }
}

/// Returns all entries as they are after these players were erased.
fn without(count: u64, players: &[u64]) -> Vec<Read> {
    let read = |n: u64| match players.contains(&(n % 10)) {
        true => (n * 2, ERASED, 2, b"gone".to_vec()),
        false => (n * 2, 1, 2, content(n)),
    };
    (0..count).map(read).collect()
}

#[test]
fn erased_content_is_gone_from_every_byte_and_the_rest_is_unchanged() {
    let test_log = with_entries(300);
    assert!(test_log.log.stats().segments > 4 && test_log.occurrences("player-3") > 100);
    let before = test_log.log.stats().disk_bytes;
    assert_eq!(test_log.erase(3).expect("there is space"), 30);
    assert_eq!(test_log.occurrences("player-3"), 0);
    assert!(test_log.occurrences("player-4") > 100 && test_log.log.stats().disk_bytes < before);
    for limit_bytes in [1, 700, 1 << 20] {
        assert_eq!(test_log.read(0, limit_bytes), (without(300, &[3]), vec![]));
    }
    for from in (0..600).step_by(7) {
        let rest: Vec<Read> = without(300, &[3]).into_iter().filter(|read| read.0 + 2 > from).collect();
        assert_eq!(test_log.read(from, 300).0, rest, "from {from}");
    }
    let checked = test_log.log.verify().expect("the log is readable");
    assert_eq!((checked.next, checked.entries, checked.damage.len()), (600, 300, 0));
}

#[test]
fn rewritten_log_reopens_and_accepts_appends() {
    let mut test_log = with_entries(100);
    test_log.erase(3).expect("there is space");
    test_log.append(100);
    test_log.committer.close();
    for disk in [test_log.disk.after_kill(), test_log.disk.after_power_cut(3)] {
        let mut again = open_on(disk);
        assert_eq!(again.read(0, 5000), (without(101, &[3]), vec![]));
        again.append(101);
        assert_eq!(again.erase(4).expect("there is space"), 10);
        assert_eq!(again.read(0, 5000), (without(102, &[3, 4]), vec![]));
    }
}

#[test]
fn segment_with_nothing_to_erase_is_not_rewritten() {
    let test_log = with_entries(200);
    let operations = test_log.disk.operations();
    assert_eq!(test_log.erase(77).expect("nothing to do"), 0);
    assert_eq!(test_log.disk.operations(), operations);
    let closed = test_log.log.closed_segments();
    let active = closed.last().expect("there are segments").end;
    assert!(
        matches!(test_log.log.rewrite(active, &mut ErasePlayer(3)), Ok(None)),
        "the segment is not closed"
    );
    assert!(matches!(test_log.log.rewrite(1, &mut ErasePlayer(3)), Ok(None)), "no segment begins there");
}

#[test]
fn reader_in_the_middle_of_a_rewritten_segment_continues() {
    let test_log = with_entries(300);
    let whole = without(300, &[]);
    let erased = without(300, &[3]);
    let mut at = 0;
    let mut read = Vec::new();
    while at < 600 {
        // One frame at a time: each read leaves a file open where it stopped.
        let batch = test_log.log.read(at, 1).expect("the log is readable");
        assert!(batch.skipped.is_empty());
        for entry in batch.chunks.iter().flat_map(|chunk| chunk.entries()) {
            read.push((entry.offset, entry.kind, entry.events, entry.bytes.to_vec()));
        }
        at = batch.next;
        if at == 200 {
            test_log.erase(3).expect("there is space");
        }
    }
    assert_eq!(read[..100], whole[..100]);
    assert_eq!(read[100..], erased[100..]);
}

#[test]
fn damaged_entries_stay_lost_and_their_bytes_are_removed() {
    let test_log = with_entries(100);
    let path = test_log.segment(1);
    let mut bytes = test_log.disk.content(&path).expect("the file exists");
    let at = bytes.windows(8).position(|it| it == b"player-4").expect("player 4 is in every segment");
    bytes[at + 40] ^= 1;
    test_log.disk.set_content(&path, bytes);
    let test_log = open_on(test_log.disk.after_kill());
    let (before, damage) = test_log.read(0, 1000);
    assert_eq!((damage.len(), before.len()), (1, 99));
    test_log.erase(4).expect("there is space");
    assert_eq!(test_log.occurrences("player-4"), 0);
    let (after, damage) = test_log.read(0, 1000);
    assert_eq!(after.len(), 99);
    assert_eq!(damage.iter().map(|it| it.offset_to - it.offset_from).sum::<u64>(), 2);
    let checked = test_log.log.verify().expect("the log is readable");
    assert_eq!((checked.entries, checked.damage.len()), (99, 1));
}

#[test]
fn segments_that_cannot_be_read_do_not_stop_an_erasure() {
    let test_log = with_entries(600);
    let (header_lost, unreadable) = (test_log.segment(1), test_log.segment(2));
    let file = test_log.disk.open(&header_lost).expect("it is there");
    file.write_at(&[0x5a; 4096], 0).expect("the disk works");
    let test_log = open_on(test_log.disk.after_kill());
    let bytes = test_log.disk.content(&unreadable).expect("the file exists").len() as u64;
    test_log.disk.fail_reads(&unreadable, 8192..bytes.min(8192 + 4096));
    let (before, _) = test_log.read(0, 1000);
    assert!(before.len() < 600 && before.len() > 200, "{} entries are left", before.len());
    test_log.erase(4).expect("what can be read is rewritten");
    let (after, damage) = test_log.read(0, 1000);
    assert_eq!(after.len(), before.len());
    assert!(!damage.is_empty());
    assert_eq!(test_log.occurrences("player-4"), 0, "what cannot be read is not kept either");
    assert_eq!(test_log.erase(4).expect("a second pass has nothing to do"), 0);
}

#[test]
fn full_disk_leaves_segments_unchanged() {
    let test_log = with_entries(100);
    let names = test_log.disk.paths();
    test_log.disk.set_capacity(0);
    assert!(matches!(test_log.erase(3), Err(WalError::Full)));
    assert_eq!((test_log.disk.paths(), test_log.read(0, 1000).0), (names, without(100, &[])));
    test_log.disk.set_capacity(1 << 30);
    assert_eq!(test_log.erase(3).expect("there is space"), 10);
}

#[test]
fn after_a_rename_of_unknown_durability_rewrites_are_rejected() {
    let test_log = with_entries(100);
    let first = test_log.log.closed_segments()[0].start;
    // The operations are: create, write, sync, rename, sync the folder.
    test_log.disk.fail(Fault {
        at: test_log.disk.operations() + 5,
        kind: FaultKind::Broken,
        permanent: false,
    });
    assert!(matches!(
        test_log.log.rewrite(first, &mut ErasePlayer(3)),
        Err(WalError::Io { action: "syncing", .. })
    ));
    assert!(matches!(test_log.erase(3), Err(WalError::Stopped)));
    assert_eq!(test_log.read(0, 1000).1, vec![]);
    let again = open_on(test_log.disk.after_power_cut(1));
    again.erase(3).expect("the next start resolves it");
    assert_eq!((again.occurrences("player-3"), again.read(0, 1000).0), (0, without(100, &[3])));
}

#[test]
fn roll_keeps_an_empty_segment() {
    let mut test_log = with_entries(1);
    let segments = test_log.log.stats().segments;
    test_log.committer.roll();
    assert_eq!(test_log.log.stats().segments, segments);
    assert_eq!(test_log.log.roll(Duration::ZERO).ok(), Some(2));
}

#[test]
fn reads_writes_and_trims_continue_while_segments_are_rewritten() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = Options { segment_bytes: 64 << 10, first_segment_bytes: 16 << 10, ..small_options() };
    let opened = Wal::<()>::open(Arc::new(RealDisk), folder.path(), options).expect("the log opens");
    let log = Wal::start(opened, Box::new(AcceptAll)).expect("threads start");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = || {
            while !done.load(Ordering::Relaxed) {
                let mut at = log.first();
                while let Ok(batch) = log.read(at, 3000)
                    && batch.next > at
                {
                    assert_eq!(batch.skipped, vec![], "nothing is damaged");
                    for entry in batch.chunks.iter().flat_map(|chunk| chunk.entries_from(at)) {
                        assert!(entry.kind == ERASED || entry.bytes == content(entry.offset / 2));
                    }
                    at = batch.next;
                }
                assert_eq!(log.verify().expect("the log is readable").damage, vec![]);
            }
        };
        let readers = [scope.spawn(reader), scope.spawn(reader)];
        for n in 0..2000 {
            let ack = if n % 50 == 0 { Ack::Disk } else { Ack::Os };
            let entry = Entry { kind: 1, events: 2, bytes: content(n), ack, extra: () };
            log.append(entry).expect("the entry is queued").wait().expect("the disk works");
            if n % 200 == 199 {
                let until = log.roll(Duration::from_secs(10)).expect("there is space");
                assert!(until >= n.saturating_sub(1) * 2, "{until} of {n}");
                for closed in log.closed_segments() {
                    log.rewrite(closed.start, &mut ErasePlayer(n / 200)).expect("the disk works");
                }
                log.trim(n).expect("the disk works");
            }
        }
        done.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().expect("it read what was written"));
    });
    log.close().expect("the disk works");
    let bytes: Vec<u8> = RealDisk
        .list(folder.path())
        .expect("a folder")
        .iter()
        .flat_map(|name| std::fs::read(folder.path().join(name)).expect("a file"))
        .collect();
    for player in 0..10 {
        let name = format!("player-{player} ");
        let last = bytes.windows(9).enumerate().filter(|(_, it)| *it == name.as_bytes()).count();
        // Entries after the player's erasure are unchanged.
        assert_eq!(last == 0, player == 9, "player {player}: {last}");
    }
}
