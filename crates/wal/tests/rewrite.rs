//! Segments written again: what has to go is gone from every byte, and for everything else nothing has changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wal::disk::Disk;
use wal::sim::{Fault, FaultKind, SimDisk};
use wal::*;

const FOLDER: &str = "log";

fn small() -> Options {
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

/// Entry `n`: its owner is `n % 10`.
fn content(n: u64) -> Vec<u8> {
    format!("player-{} entry {n:06} ", n % 10).repeat(1 + n as usize % 9).into_bytes()
}

/// Erases one owner's entries.
struct Player(u64);

const GONE: u8 = 9;

impl Rewrite for Player {
    fn concerns(&mut self, entry: &EntryRef<'_>) -> bool {
        entry.bytes.starts_with(format!("player-{} ", self.0).as_bytes())
    }

    fn replace(&mut self, entry: &EntryRef<'_>) -> Option<Replaced> {
        self.concerns(entry).then(|| Replaced { kind: GONE, bytes: b"gone".to_vec() })
    }
}

struct Bench {
    disk: SimDisk,
    log: Wal<()>,
    committer: Committer<()>,
    housekeeper: Housekeeper,
}

fn open_on(disk: SimDisk) -> Bench {
    let opened = Wal::<()>::open(Arc::new(disk.clone()), Path::new(FOLDER), small()).expect("it opens");
    let (log, committer, housekeeper) = opened.by_hand(Box::new(TakeAll));
    Bench { disk, log, committer, housekeeper }
}

/// A log of so many entries of two events each, in closed segments.
fn with_entries(count: u64) -> Bench {
    let mut bench = open_on(SimDisk::new(7));
    for n in 0..count {
        bench.append(n);
    }
    bench.committer.roll();
    bench
}

type Read = (u64, u8, u32, Vec<u8>);

impl Bench {
    fn append(&mut self, n: u64) {
        let entry = Entry { kind: 1, events: 2, bytes: content(n), ack: Ack::Disk, extra: () };
        let receipt = self.log.append(entry).expect("it is queued");
        self.committer.step(n);
        self.housekeeper.step();
        receipt.wait().expect("the disk works");
    }

    fn erase(&self, player: u64) -> Result<u64, WalError> {
        let closed = self.log.closed();
        let rewritten = closed.iter().map(|closed| self.log.rewrite(closed.start, &mut Player(player)));
        rewritten.map(|done| Ok(done?.map_or(0, |done| done.entries))).sum()
    }

    fn read(&self, mut from: u64, limit_bytes: usize) -> (Vec<Read>, Vec<Damage>) {
        let (mut entries, mut damage) = (Vec::new(), Vec::new());
        loop {
            let batch = self.log.read(from, limit_bytes).expect("it reads");
            damage.extend(batch.skipped);
            for chunk in &batch.chunks {
                let found = chunk.entries_from(from);
                entries.extend(found.map(|it| (it.offset, it.kind, it.events, it.bytes.to_vec())));
            }
            if batch.next == from {
                return (entries, damage);
            }
            from = batch.next;
        }
    }

    /// How often a text stands in any file.
    fn found(&self, text: &str) -> usize {
        let contents = self.disk.paths().into_iter().filter_map(|path| self.disk.content(&path));
        contents.map(|bytes| bytes.windows(text.len()).filter(|it| *it == text.as_bytes()).count()).sum()
    }

    fn segment(&self, index: usize) -> PathBuf {
        let mut paths = self.disk.paths();
        paths.retain(|path| path.extension().is_some_and(|kind| kind == "log"));
        paths[index].clone()
    }
}

/// All entries as they are when these owners are erased.
fn without(count: u64, players: &[u64]) -> Vec<Read> {
    let read = |n: u64| match players.contains(&(n % 10)) {
        true => (n * 2, GONE, 2, b"gone".to_vec()),
        false => (n * 2, 1, 2, content(n)),
    };
    (0..count).map(read).collect()
}

#[test]
fn what_is_erased_is_gone_from_every_byte_and_all_else_is_as_it_was() {
    let bench = with_entries(300);
    assert!(bench.log.stats().segments > 4 && bench.found("player-3") > 100);
    let before = bench.log.stats().disk_bytes;
    assert_eq!(bench.erase(3).expect("there is room"), 30);
    assert_eq!(bench.found("player-3"), 0);
    assert!(bench.found("player-4") > 100 && bench.log.stats().disk_bytes < before);
    for limit_bytes in [1, 700, 1 << 20] {
        assert_eq!(bench.read(0, limit_bytes), (without(300, &[3]), vec![]));
    }
    for from in (0..600).step_by(7) {
        let rest: Vec<Read> = without(300, &[3]).into_iter().filter(|read| read.0 + 2 > from).collect();
        assert_eq!(bench.read(from, 300).0, rest, "from {from}");
    }
    let checked = bench.log.verify().expect("it reads");
    assert_eq!((checked.next, checked.entries, checked.damage.len()), (600, 300, 0));
}

#[test]
fn a_log_that_was_written_again_opens_and_goes_on() {
    let mut bench = with_entries(100);
    bench.erase(3).expect("there is room");
    bench.append(100);
    bench.committer.close();
    for disk in [bench.disk.after_kill(), bench.disk.after_power_cut(3)] {
        let mut again = open_on(disk);
        assert_eq!(again.read(0, 5000), (without(101, &[3]), vec![]));
        again.append(101);
        assert_eq!(again.erase(4).expect("there is room"), 10);
        assert_eq!(again.read(0, 5000), (without(102, &[3, 4]), vec![]));
    }
}

#[test]
fn a_segment_with_nothing_to_erase_is_not_touched() {
    let bench = with_entries(200);
    let operations = bench.disk.operations();
    assert_eq!(bench.erase(77).expect("nothing to do"), 0);
    assert_eq!(bench.disk.operations(), operations);
    let closed = bench.log.closed();
    let active = closed.last().expect("there are segments").end;
    assert!(matches!(bench.log.rewrite(active, &mut Player(3)), Ok(None)), "it is not closed");
    assert!(matches!(bench.log.rewrite(1, &mut Player(3)), Ok(None)), "no segment begins there");
}

#[test]
fn a_reader_in_the_middle_of_a_segment_reads_on() {
    let bench = with_entries(300);
    let whole = without(300, &[]);
    let erased = without(300, &[3]);
    let mut at = 0;
    let mut read = Vec::new();
    while at < 600 {
        // One frame at a time: each read leaves a file open where it stopped.
        let batch = bench.log.read(at, 1).expect("it reads");
        assert!(batch.skipped.is_empty());
        for entry in batch.chunks.iter().flat_map(|chunk| chunk.entries()) {
            read.push((entry.offset, entry.kind, entry.events, entry.bytes.to_vec()));
        }
        at = batch.next;
        if at == 200 {
            bench.erase(3).expect("there is room");
        }
    }
    assert_eq!(read[..100], whole[..100]);
    assert_eq!(read[100..], erased[100..]);
}

#[test]
fn what_was_damaged_stays_lost_and_its_bytes_go() {
    let bench = with_entries(100);
    let path = bench.segment(1);
    let mut bytes = bench.disk.content(&path).expect("it is there");
    let at = bytes.windows(8).position(|it| it == b"player-4").expect("player 4 is in every segment");
    bytes[at + 40] ^= 1;
    bench.disk.set_content(&path, bytes);
    let bench = open_on(bench.disk.after_kill());
    let (before, damage) = bench.read(0, 1000);
    assert_eq!((damage.len(), before.len()), (1, 99));
    bench.erase(4).expect("there is room");
    assert_eq!(bench.found("player-4"), 0);
    let (after, damage) = bench.read(0, 1000);
    assert_eq!(after.len(), 99);
    assert_eq!(damage.iter().map(|it| it.offset_to - it.offset_from).sum::<u64>(), 2);
    let checked = bench.log.verify().expect("it reads");
    assert_eq!((checked.entries, checked.damage.len()), (99, 1));
}

#[test]
fn a_disk_without_room_leaves_everything_as_it_was() {
    let bench = with_entries(100);
    let names = bench.disk.paths();
    bench.disk.set_room(0);
    assert!(matches!(bench.erase(3), Err(WalError::Full)));
    assert_eq!((bench.disk.paths(), bench.read(0, 1000).0), (names, without(100, &[])));
    bench.disk.set_room(1 << 30);
    assert_eq!(bench.erase(3).expect("there is room"), 10);
}

#[test]
fn after_a_change_of_names_that_may_not_be_durable_nothing_more_is_tried() {
    let bench = with_entries(100);
    let first = bench.log.closed()[0].start;
    // Making, writing, syncing, renaming, syncing the folder.
    bench.disk.fail(Fault { at: bench.disk.operations() + 5, kind: FaultKind::Broken, for_good: false });
    assert!(matches!(bench.log.rewrite(first, &mut Player(3)), Err(WalError::Io { action: "syncing", .. })));
    assert!(matches!(bench.erase(3), Err(WalError::Stopped)));
    assert_eq!(bench.read(0, 1000).1, vec![]);
    let again = open_on(bench.disk.after_power_cut(1));
    again.erase(3).expect("a start finds out");
    assert_eq!((again.found("player-3"), again.read(0, 1000).0), (0, without(100, &[3])));
}

#[test]
fn an_empty_segment_is_not_left_for_another() {
    let mut bench = with_entries(1);
    let segments = bench.log.stats().segments;
    bench.committer.roll();
    assert_eq!(bench.log.stats().segments, segments);
    assert_eq!(bench.log.roll(Duration::ZERO).ok(), Some(2));
}

#[test]
fn readers_writers_and_trims_go_on_while_segments_are_written_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = Options { segment_bytes: 64 << 10, first_segment_bytes: 16 << 10, ..small() };
    let opened = Wal::<()>::open(Arc::new(RealDisk), folder.path(), options).expect("it opens");
    let log = Wal::start(opened, Box::new(TakeAll)).expect("threads start");
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
                        assert!(entry.kind == GONE || entry.bytes == content(entry.offset / 2));
                    }
                    at = batch.next;
                }
                assert_eq!(log.verify().expect("it reads").damage, vec![]);
            }
        };
        let readers = [scope.spawn(reader), scope.spawn(reader)];
        for n in 0..2000 {
            let ack = if n % 50 == 0 { Ack::Disk } else { Ack::Os };
            let entry = Entry { kind: 1, events: 2, bytes: content(n), ack, extra: () };
            log.append(entry).expect("it is queued").wait().expect("the disk works");
            if n % 200 == 199 {
                let until = log.roll(Duration::from_secs(10)).expect("there is room");
                assert!(until >= n.saturating_sub(1) * 2, "{until} of {n}");
                for closed in log.closed() {
                    log.rewrite(closed.start, &mut Player(n / 200)).expect("the disk works");
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
        // Entries after the owner's erasure are there as they were.
        assert_eq!(last == 0, player == 9, "player {player}: {last}");
    }
}
