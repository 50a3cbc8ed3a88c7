//! What the log promises to those who append and read, in the product's words.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use playmeter_log::disk::Disk;
use playmeter_log::sim::{Random, SimDisk};
use playmeter_log::*;
use proptest::prelude::*;

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
    log: Log<Vec<u32>>,
    committer: Committer<Vec<u32>>,
    housekeeper: Housekeeper,
    report: Report,
}

fn open_on(disk: &SimDisk, options: Options) -> Bench {
    let opened = Log::<Vec<u32>>::open(Arc::new(disk.clone()), Path::new(FOLDER), options).expect("it opens");
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
    fn all(&self) -> (Vec<(u64, u32, Vec<u8>)>, Vec<Damage>) {
        all_of(&self.log, self.log.first(), 1000)
    }

    fn segment(&self, index: usize) -> std::path::PathBuf {
        let mut paths = self.disk.paths();
        paths.retain(|path| path.extension().is_some_and(|kind| kind == "log"));
        paths[index].clone()
    }
}

type Read = (u64, u32, Vec<u8>);

fn all_of(log: &Log<Vec<u32>>, mut from: u64, limit_bytes: usize) -> (Vec<Read>, Vec<Damage>) {
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
