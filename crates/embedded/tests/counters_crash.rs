//! What is on disk at any moment of a life is a position and exactly the rows of the log up to there.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use embedded::counters::{Counters, Store, StoreOptions};
use model::ports::counters::{Counters as Port, ExportedRows, SideState};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use testkit::counters::{MemoryCounters, MemoryDisk};
use testkit::events::{TestEvent, deltas_of};

/// In the environment of the process whose life it is.
const FOLDER: &str = "PLAYMETER_TEST_FOLDER";
const EVENTS: usize = 200_000;
/// Events in a range, and ranges in a checkpoint.
const RANGE: usize = 100;
const RANGES: usize = 5;
/// So small that the store writes and merges sorted files all the time.
const MEMTABLE_BYTES: u64 = 64 << 10;

fn open(folder: &Path) -> Counters {
    let options = StoreOptions { memtable_bytes: MEMTABLE_BYTES, ..StoreOptions::default() };
    Counters::open(Store::open(folder, &options).expect("the store opens")).expect("the rollups open")
}

/// The same log each time: five minutes an hour, a new value now and then.
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
        counters.apply(from..until, &deltas_of(&events, from)).expect("the disk is well");
    }
}

fn rows(counters: &dyn Port) -> ExportedRows {
    counters.export(&(0..u32::MAX)).expect("the disk is well").1
}

/// Not a check of its own: this is what the other process does until it is killed.
#[test]
fn a_life_of_checkpoints() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let counters = open(Path::new(&folder));
    while counters.applied_until() < EVENTS as u64 {
        let mut checkpoint = counters.checkpoint(SideState::default());
        let at = counters.applied_until();
        std::thread::scope(|threads| {
            let applying = || (1..=RANGES).for_each(|range| apply(&counters, at + (range * RANGE) as u64));
            threads.spawn(applying);
            checkpoint.commit().expect("the disk is well");
        });
        println!("durable {}", counters.durable_until());
    }
}

/// Another process that can be stopped, and what it has said so far.
struct Life {
    process: Child,
    said: Arc<AtomicU64>,
}

impl Life {
    fn start(folder: &Path) -> Life {
        let program = std::env::current_exe().expect("a test is a program");
        let mut command = Command::new(program);
        command.args(["--exact", "a_life_of_checkpoints", "--nocapture"]).env(FOLDER, folder);
        let mut process = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let said = Arc::new(AtomicU64::new(0));
        let (heard, output) = (Arc::clone(&said), process.stdout.take().expect("it was asked for"));
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Some(position) = line.strip_prefix("durable ").and_then(|word| word.parse().ok()) {
                    heard.store(position, Ordering::Release);
                }
            }
        });
        Life { process, said }
    }

    fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(self.process.id() as i32).expect("a process has a number");
        kill_process(id, signal).expect("it is still there");
    }

    /// The folder as it is at this moment, and the last position that was said to be durable before it.
    fn picture(&self, folder: &Path, copy: &Path) -> u64 {
        let said = self.said.load(Ordering::Acquire);
        self.signal(Signal::STOP);
        // The other threads of the process may be a few instructions behind the signal.
        std::thread::sleep(Duration::from_millis(2));
        copy_folder(folder, copy);
        self.signal(Signal::CONT);
        said
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A process that was killed early has not made its folder yet: then there is nothing to copy.
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

/// The plainest engine, which goes on as the log does.
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

    /// What comes later, without going there.
    fn rows_later(&self, position: u64) -> ExportedRows {
        self.counters.checkpoint(SideState::default()).commit().expect("it is in memory");
        let later = MemoryCounters::open(&self.disk);
        apply(&later, position);
        rows(&later)
    }
}

/// What the folder says is exactly the log up to its position; and what follows continues it.
fn check(folder: &Path, said: u64, oracle: &mut Oracle) -> u64 {
    let counters = open(folder);
    let position = counters.durable_until();
    assert!(position >= said, "{said} was said to be durable, {position} is");
    assert!(rows(&counters) == oracle.rows_at(position), "the rows are not those of position {position}");
    let later = position + 777;
    apply(&counters, later);
    counters.checkpoint(SideState::default()).commit().expect("the disk is well");
    drop(counters);
    assert!(rows(&open(folder)) == oracle.rows_later(later), "replayed from {position}");
    position
}

#[test]
fn a_folder_copied_at_any_moment_continues_from_its_position() {
    let home = TempDir::new().expect("a folder");
    let (folder, mut oracle) = (home.path().join("life"), Oracle::new());
    let life = Life::start(&folder);
    let mut pictures: Vec<(PathBuf, u64)> = Vec::new();
    for number in 0..12u64 {
        std::thread::sleep(Duration::from_millis(20 + number * 7919 % 131));
        if life.said.load(Ordering::Acquire) == 0 {
            continue;
        }
        let copy = home.path().join(format!("copy-{number}"));
        let said = life.picture(&folder, &copy);
        pictures.push((copy, said));
    }
    drop(life);
    let positions: Vec<u64> =
        pictures.iter().map(|(folder, said)| check(folder, *said, &mut oracle)).collect();
    assert!(positions.last() > positions.first(), "nothing happened between the pictures: {positions:?}");
}

#[test]
fn a_killed_life_goes_on_where_it_was() {
    let home = TempDir::new().expect("a folder");
    let (folder, mut oracle) = (home.path().join("life"), Oracle::new());
    for number in 0..8u64 {
        let mut life = Life::start(&folder);
        std::thread::sleep(Duration::from_millis(60 + number * 7919 % 173));
        life.process.kill().expect("it is still there");
        life.process.wait().expect("it has ended");
        let copy = home.path().join(format!("copy-{number}"));
        copy_folder(&folder, &copy);
        let said = life.said.load(Ordering::Acquire);
        check(&copy, said, &mut oracle);
    }
}

/// A power cut while a checkpoint is written: of the sectors that it changed, any may be on disk.
#[test]
fn a_checkpoint_of_which_only_some_sectors_were_written_is_there_or_not() {
    let tries = (0..50).map(|_| TempDir::new().expect("a folder"));
    let home = tries.into_iter().find(|home| write_two_checkpoints(home.path()));
    let Some(home) = home else {
        // On a busy machine the store's own thread may flush into every picture; such pictures prove nothing.
        eprintln!("SKIPPED: the store tidied up during each of 50 checkpoints, so none could be torn");
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

/// Copies the folder after each of two checkpoints. False: the store tidied up meanwhile, so the copies are no pictures
/// of one moment, or differ in more than the journal.
fn write_two_checkpoints(home: &Path) -> bool {
    let folder = home.join("life");
    let counters = open(&folder);
    let copied = [(2_000, "0"), (2_300, "1")].map(|(position, copy)| {
        apply(&counters, position);
        counters.checkpoint(SideState::default()).commit().expect("the disk is well");
        try_copy(&folder, &home.join(copy)).is_ok()
    });
    copied == [true; 2] && tables(&home.join("0")) == tables(&home.join("1"))
}

/// Everything that is no journal: names and contents.
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

/// Puts back some of the sectors in which the journal differs: each by a toss, or all from one on.
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
                // The last sector of a file that grew was shorter before; what is behind its old end reads as zeros.
                let (was_there, grown) = new.split_at_mut(old.len().min(new.len()));
                was_there.copy_from_slice(&old[..was_there.len()]);
                grown.fill(0);
            }
        }
        fs::write(&path, new).expect("a file");
    }
}
