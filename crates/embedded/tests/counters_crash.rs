//! The disk contains at any moment a position and exactly the rows of the log up to it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use embedded::counters::{EmbeddedCounters, Store, StoreOptions};
use model::ports::counters::{Counters as Port, ExportedRows, SideState};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use testkit::counters::{MemoryCounters, MemoryDisk};
use testkit::events::{TestEvent, deltas_of};

/// Environment variable that makes a test process write checkpoints to this folder.
const FOLDER: &str = "PLAYMETER_TEST_FOLDER";
const EVENTS: usize = 200_000;
/// Events in a range, and ranges in a checkpoint.
const RANGE: usize = 100;
const RANGES: usize = 5;
/// So small that the store writes and merges sorted files all the time.
const MEMTABLE_BYTES: u64 = 64 << 10;

fn open(folder: &Path) -> EmbeddedCounters {
    let options = StoreOptions { memtable_bytes: MEMTABLE_BYTES, ..StoreOptions::default() };
    EmbeddedCounters::open(Store::open(folder, &options).expect("the store opens")).expect("the rollups open")
}

/// Returns an event of a fixed log: five minutes an hour, a new value now and then.
fn event(number: usize) -> TestEvent {
    let mixed = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    let late = if mixed.is_multiple_of(17) { 60 } else { 0 };
    let minute = 100_000 + (number / 50) as u32 - late;
    let player = char::from(b'a' + (mixed >> 8) as u8 % 26);
    let country = ["FR", "DE", "JP", "-"][(mixed >> 16) as usize % 4];
    let (level, value) = ((mixed >> 24) % 40, (mixed >> 32) % 1_000);
    TestEvent::read(&format!("{minute} score {player} {country} {level} {value}"))
}

fn apply(counters: &dyn Port, until: u64) {
    let from = counters.applied_until();
    if from < until {
        let events: Vec<TestEvent> = (from..until).map(|number| event(number as usize)).collect();
        counters.apply(from..until, &deltas_of(&events, from)).expect("the disk works");
    }
}

fn rows(counters: &dyn Port) -> ExportedRows {
    counters.export(&(0..u32::MAX)).expect("the disk works").1
}

/// Not a test of its own: the body of the child process, which runs until it is killed.
#[test]
fn child_process_that_writes_checkpoints() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let counters = open(Path::new(&folder));
    while counters.applied_until() < EVENTS as u64 {
        let mut checkpoint = counters.checkpoint(SideState::default());
        let at = counters.applied_until();
        std::thread::scope(|threads| {
            let applying = || (1..=RANGES).for_each(|range| apply(&counters, at + (range * RANGE) as u64));
            threads.spawn(applying);
            checkpoint.commit().expect("the disk works");
        });
        println!("durable {}", counters.durable_until());
    }
}

/// A child process that can be stopped, and the last position it reported.
struct Writer {
    process: Child,
    reported: Arc<AtomicU64>,
}

impl Writer {
    fn start(folder: &Path) -> Writer {
        let program = std::env::current_exe().expect("a test is a program");
        let mut command = Command::new(program);
        command.args(["--exact", "child_process_that_writes_checkpoints", "--nocapture"]).env(FOLDER, folder);
        let mut process = command.stdout(Stdio::piped()).spawn().expect("the process starts");
        let reported = Arc::new(AtomicU64::new(0));
        let (received, output) = (Arc::clone(&reported), process.stdout.take().expect("stdout is piped"));
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Some(position) = line.strip_prefix("durable ").and_then(|word| word.parse().ok()) {
                    received.store(position, Ordering::Release);
                }
            }
        });
        Writer { process, reported }
    }

    fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(self.process.id() as i32).expect("a process has a number");
        kill_process(id, signal).expect("the process is running");
    }

    /// Waits until a position after this one was reported as durable.
    fn wait_for_checkpoint_after(&self, position: u64) {
        while self.reported.load(Ordering::Acquire) <= position {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Copies the folder as it is now, and returns the last position that was reported as durable before.
    fn snapshot(&self, folder: &Path, copy: &Path) -> u64 {
        let reported = self.reported.load(Ordering::Acquire);
        self.signal(Signal::STOP);
        // The other threads of the process may be a few instructions behind the signal.
        std::thread::sleep(Duration::from_millis(2));
        copy_folder(folder, copy);
        self.signal(Signal::CONT);
        reported
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Copies a folder. If the process was killed before it created the folder, there is nothing to copy.
fn copy_folder(from: &Path, to: &Path) {
    try_copy(from, to).expect("the files stay where they are");
}

fn try_copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    if !from.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let copy = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            try_copy(&entry.path(), &copy)?;
        } else {
            fs::copy(entry.path(), copy)?;
        }
    }
    Ok(())
}

/// The simplest engine, which follows the log.
struct Oracle {
    disk: MemoryDisk,
    counters: MemoryCounters,
}

impl Oracle {
    fn new() -> Oracle {
        let disk = MemoryDisk::default();
        Oracle { counters: MemoryCounters::open(&disk), disk }
    }

    fn rows_at(&mut self, position: u64) -> ExportedRows {
        apply(&self.counters, position);
        rows(&self.counters)
    }

    /// Returns the rows at a later position without advancing.
    fn rows_later(&self, position: u64) -> ExportedRows {
        self.counters.checkpoint(SideState::default()).commit().expect("a memory engine cannot fail");
        let later = MemoryCounters::open(&self.disk);
        apply(&later, position);
        rows(&later)
    }
}

/// Checks that the folder contains exactly the log up to its position, and that a replay continues from there.
fn check(folder: &Path, reported: u64, oracle: &mut Oracle) -> u64 {
    let counters = open(folder);
    let position = counters.durable_until();
    assert!(position >= reported, "{reported} was reported to be durable, {position} is");
    assert!(rows(&counters) == oracle.rows_at(position), "the rows are not those of position {position}");
    let later = position + 777;
    apply(&counters, later);
    counters.checkpoint(SideState::default()).commit().expect("the disk works");
    drop(counters);
    assert!(rows(&open(folder)) == oracle.rows_later(later), "replayed from {position}");
    position
}

#[test]
fn folder_copied_at_any_moment_resumes_from_its_position() {
    let home = TempDir::new().expect("a folder");
    let (folder, mut oracle) = (home.path().join("life"), Oracle::new());
    let writer = Writer::start(&folder);
    let mut snapshots: Vec<(PathBuf, u64)> = Vec::new();
    writer.wait_for_checkpoint_after(0);
    let first = writer.reported.load(Ordering::Acquire);
    for number in 0..12u64 {
        match number {
            11 => writer.wait_for_checkpoint_after(first),
            _ => std::thread::sleep(Duration::from_millis(20 + number * 7919 % 131)),
        }
        let copy = home.path().join(format!("copy-{number}"));
        let reported = writer.snapshot(&folder, &copy);
        snapshots.push((copy, reported));
    }
    drop(writer);
    let positions: Vec<u64> =
        snapshots.iter().map(|(folder, reported)| check(folder, *reported, &mut oracle)).collect();
    assert!(positions.last() > positions.first(), "nothing happened between the snapshots: {positions:?}");
}

#[test]
fn killed_process_resumes_from_its_position() {
    let home = TempDir::new().expect("a folder");
    let (folder, mut oracle) = (home.path().join("life"), Oracle::new());
    for number in 0..8u64 {
        let mut writer = Writer::start(&folder);
        std::thread::sleep(Duration::from_millis(60 + number * 7919 % 173));
        writer.process.kill().expect("the process is running");
        writer.process.wait().expect("the process has ended");
        let copy = home.path().join(format!("copy-{number}"));
        copy_folder(&folder, &copy);
        let reported = writer.reported.load(Ordering::Acquire);
        check(&copy, reported, &mut oracle);
    }
}

/// A power cut while a checkpoint is written: any subset of the changed sectors may be on disk.
#[test]
fn torn_checkpoint_is_applied_entirely_or_not_at_all() {
    let tries = (0..50).map(|_| TempDir::new().expect("a folder"));
    let home = tries.into_iter().find(|home| write_two_checkpoints(home.path()));
    let Some(home) = home else {
        // On a busy machine the store's own thread may flush during every copy; such copies prove nothing.
        testkit::skip::skip(
            "store-flush",
            "the store flushed during each of 50 checkpoints, so none could be torn",
        );
        return;
    };
    let (before, after) = (home.path().join("0"), home.path().join("1"));
    let expected = [(2_000, Oracle::new().rows_at(2_000)), (2_300, Oracle::new().rows_at(2_300))];
    let mut found = [0; 2];
    for seed in 0..40u64 {
        let torn = home.path().join(format!("torn-{seed}"));
        copy_folder(&after, &torn);
        tear(&before, &torn, seed);
        let counters = open(&torn);
        let which = usize::from(counters.durable_until() == 2_300);
        assert_eq!(counters.durable_until(), expected[which].0, "seed {seed}");
        assert!(rows(&counters) == expected[which].1, "seed {seed}: rows at {}", expected[which].0);
        found[which] += 1;
        drop(counters);
        fs::remove_dir_all(&torn).expect("a folder");
    }
    assert!(found[0] > 0 && found[1] > 0, "both happen: {found:?}");
}

/// Copies the folder after each of two checkpoints. Returns false if the store flushed meanwhile, so that the copies are
/// inconsistent or differ in more than the journal.
fn write_two_checkpoints(home: &Path) -> bool {
    let folder = home.join("life");
    let counters = open(&folder);
    let copied = [(2_000, "0"), (2_300, "1")].map(|(position, copy)| {
        apply(&counters, position);
        counters.checkpoint(SideState::default()).commit().expect("the disk works");
        try_copy(&folder, &home.join(copy)).is_ok()
    });
    copied == [true; 2] && tables(&home.join("0")) == tables(&home.join("1"))
}

/// Returns everything but the journal: names and contents.
fn tables(folder: &Path) -> std::collections::BTreeMap<std::path::PathBuf, Vec<u8>> {
    let mut files = std::collections::BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
        let (name, path) = (Path::new(&entry.file_name()).to_owned(), entry.path());
        if path.is_dir() {
            files.extend(tables(&path).into_iter().map(|(inner, content)| (name.join(inner), content)));
        } else if path.extension().is_none_or(|extension| extension != "jnl") {
            files.insert(name, fs::read(&path).expect("a file"));
        }
    }
    files
}

/// Reverts some of the sectors in which the journal differs: each at random, or all from one on.
fn tear(before: &Path, torn: &Path, seed: u64) {
    const SECTOR: usize = 512;
    for entry in fs::read_dir(torn).expect("a folder").map(|entry| entry.expect("an entry")) {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "jnl") {
            continue;
        }
        let old = fs::read(before.join(entry.file_name())).expect("the journal was there before");
        let mut new = fs::read(&path).expect("a file");
        let sectors = old.chunks(SECTOR).zip(new.chunks_mut(SECTOR)).filter(|(old, new)| old != new);
        for (number, (old, new)) in sectors.enumerate() {
            let toss = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(number as u32 * 7 % 64);
            let is_lost = match seed % 4 {
                0 => number as u64 >= seed,
                1 => toss & 1 == 0,
                2 => toss & 7 == 0,
                _ => seed > 20 && number == 0,
            };
            if is_lost {
                // The last sector of a file that grew was shorter before; bytes after its old end read as zeros.
                let (was_there, grown) = new.split_at_mut(old.len().min(new.len()));
                was_there.copy_from_slice(&old[..was_there.len()]);
                grown.fill(0);
            }
        }
        fs::write(&path, new).expect("a file");
    }
}
