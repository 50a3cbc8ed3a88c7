use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::ports::ids::{Claim, IdKey, IdMask, Ids, IdsError};
use proptest::prelude::*;
use tempfile::TempDir;
use testkit::conformance::ids::{WINDOW_MS, check_random_operations, ids_conform};

use super::{EmbeddedIds, IdsOptions, OpenReport};

const START_MS: u64 = 1_800_000_000_000;
const HOUR_MS: u64 = 3_600_000;

/// Runs so small that a test has many of them.
fn small(filter_bytes_max: u64) -> IdsOptions {
    IdsOptions { keys_per_run: 60, filter_bytes_max, ..IdsOptions::default() }
}

fn home(options: IdsOptions) -> impl Fn(u64) -> Box<dyn Ids> {
    let folder = tempfile::tempdir().expect("a folder for the test");
    move |log_end| {
        let (ids, _) = EmbeddedIds::open(folder.path(), options.clone(), log_end).expect("the disk is well");
        Box::new(ids)
    }
}

#[test]
fn the_embedded_engine_conforms() {
    ids_conform(|| home(IdsOptions::default()));
}

#[test]
fn the_embedded_engine_conforms_with_many_small_runs() {
    ids_conform(|| home(small(1 << 20)));
}

#[test]
fn the_embedded_engine_conforms_without_memory_for_filters() {
    ids_conform(|| home(small(0)));
}

#[test]
fn a_long_random_life_agrees_with_the_ledger() {
    check_random_operations(home(small(20_000)), 1, 10_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_life_agrees_with_the_ledger(
        seed in any::<u64>(),
        keys_per_run in 1usize..200,
        filter_bytes_max in 0u64..20_000,
    ) {
        check_random_operations(home(IdsOptions { keys_per_run, ..small(filter_bytes_max) }), seed, 200);
    }
}

/// A set in a folder, and a log in which offset `n` holds the id `n`.
struct World {
    folder: TempDir,
    end: u64,
}

impl World {
    fn new() -> World {
        World { folder: tempfile::tempdir().expect("a folder for the test"), end: 0 }
    }

    fn open(&self) -> (EmbeddedIds, OpenReport) {
        EmbeddedIds::open(self.folder.path(), small(1 << 20), self.end).expect("the disk is well")
    }

    /// So many runs of 100 ids each, one an hour.
    fn write_runs(&mut self, ids: &mut EmbeddedIds, count: u64) {
        for _ in 0..count {
            claim(ids, self.end, self.end..self.end + 100);
            self.end += 100;
            ids.flush(self.end, receipt_ms(self.end)).expect("the disk is well");
        }
    }

    /// What a start does after a crash.
    fn replay(&self, ids: &mut EmbeddedIds) {
        let from = ids.registered_until() / 100 * 100;
        for offset in (from..self.end).step_by(100) {
            claim(ids, offset, offset..offset + 100);
        }
        claim(ids, self.end, 0..0);
    }

    fn assert_all_are_known(&self, ids: &mut EmbeddedIds) {
        let fresh = claim(ids, self.end, 0..self.end);
        let forgotten: Vec<usize> = (0..fresh.len()).filter(|&n| fresh[n]).collect();
        assert!(forgotten.is_empty(), "forgotten: {forgotten:?}");
    }

    fn files(&self, extension: &str) -> Vec<PathBuf> {
        let paths = fs::read_dir(self.folder.path()).expect("the folder is there");
        let mut files: Vec<PathBuf> = paths.map(|entry| entry.expect("it is readable").path()).collect();
        files.retain(|path| path.extension().is_some_and(|found| found == extension));
        files.sort();
        files
    }

    /// Waits until the background has brought the number of runs down.
    fn wait_for_runs(&self, ids: &mut EmbeddedIds, count: usize) {
        let start = Instant::now();
        while ids.stats().runs != count || self.files("ids").len() != count {
            assert!(start.elapsed() < Duration::from_secs(20), "{} runs", ids.stats().runs);
            std::thread::sleep(Duration::from_millis(2));
            claim(ids, self.end, 0..0);
        }
    }
}

fn receipt_ms(offset: u64) -> u64 {
    START_MS + offset / 100 * HOUR_MS / 4
}

fn claim(ids: &mut EmbeddedIds, offset: u64, range: std::ops::Range<u64>) -> Vec<bool> {
    let claims: Vec<Claim> = range.map(id).collect();
    let mut fresh = Vec::new();
    ids.claim(offset, receipt_ms(offset), &claims, &mut fresh).expect("the disk is well");
    fresh
}

fn id(n: u64) -> Claim {
    let time_ms = n.is_multiple_of(3).then_some(START_MS + n);
    Claim { key: IdKey(u128::from(n) << 60), time_ms }
}

#[test]
fn after_a_flush_nothing_is_claimed_again() {
    let mut world = World::new();
    let (mut ids, _) = world.open();
    world.write_runs(&mut ids, 3);
    drop(ids);
    let (mut ids, report) = world.open();
    assert_eq!(ids.registered_until(), 300);
    assert_eq!(report, OpenReport { runs: 3, keys: 300, ..OpenReport::default() });
    world.assert_all_are_known(&mut ids);
}

#[test]
fn eight_runs_become_one_and_the_newest_stays() {
    let mut world = World::new();
    let (mut ids, _) = world.open();
    world.write_runs(&mut ids, 9);
    world.wait_for_runs(&mut ids, 2);
    assert_eq!(ids.stats().keys, 900);
    world.assert_all_are_known(&mut ids);
    drop(ids);
    let (mut ids, report) = world.open();
    assert_eq!((report.runs, report.keys), (2, 900));
    world.assert_all_are_known(&mut ids);
}

#[test]
fn a_merge_that_crashed_before_its_inputs_were_removed_is_harmless() {
    let mut world = World::new();
    let (mut ids, _) = world.open();
    world.write_runs(&mut ids, 8);
    let saved = tempfile::tempdir().expect("a folder for the test");
    let inputs = world.files("ids");
    inputs.iter().for_each(|path| copy_into(path, saved.path()));
    world.write_runs(&mut ids, 1);
    world.wait_for_runs(&mut ids, 2);
    drop(ids);
    for path in &inputs {
        copy_into(&saved.path().join(path.file_name().expect("a run has a name")), world.folder.path());
    }
    fs::write(world.folder.path().join("00000000000000000900-00000000000000001000.tmp"), b"half")
        .expect("written");
    let (mut ids, report) = world.open();
    assert_eq!((report.runs, report.keys, report.left_over), (2, 900, 9));
    assert_eq!(world.files("ids").len() + world.files("tmp").len(), 2);
    world.assert_all_are_known(&mut ids);
}

fn copy_into(path: &Path, folder: &Path) {
    fs::copy(path, folder.join(path.file_name().expect("a run has a name"))).expect("copied");
}

#[test]
fn runs_ahead_of_the_log_are_dropped() {
    let mut world = World::new();
    let (mut ids, _) = world.open();
    world.write_runs(&mut ids, 3);
    drop(ids);
    world.end = 250;
    let (mut ids, report) = world.open();
    assert_eq!((report.runs, report.ahead_of_log), (2, 1));
    assert_eq!(ids.registered_until(), 200);
    claim(&mut ids, 200, 200..250);
    assert_eq!(claim(&mut ids, 250, 249..252), [false, true, true]);
}

/// Damages run number `n` of five with `damage`, restarts and replays: nothing is forgotten, and the next start finds
/// all sound again.
fn check_damage(n: usize, damage: impl Fn(&Path)) {
    let mut world = World::new();
    let (mut ids, _) = world.open();
    world.write_runs(&mut ids, 5);
    drop(ids);
    damage(&world.files("ids")[n]);
    let (mut ids, report) = world.open();
    let hole = n as u64 * 100..n as u64 * 100 + 100;
    assert_eq!((report.runs, report.holes), (4, vec![hole.clone()]));
    assert_eq!(ids.registered_until(), hole.start);
    world.replay(&mut ids);
    world.assert_all_are_known(&mut ids);
    ids.flush(world.end, receipt_ms(world.end)).expect("the disk is well");
    drop(ids);
    let (mut ids, report) = world.open();
    assert_eq!((report.runs, report.holes, ids.registered_until()), (5, vec![], 500));
    assert!(world.files("bad").is_empty());
    world.assert_all_are_known(&mut ids);
}

#[test]
fn a_run_with_a_damaged_header_is_claimed_again() {
    for n in 0..5 {
        check_damage(n, |path| flip(path, 40));
    }
}

#[test]
fn a_run_with_a_damaged_filter_is_claimed_again() {
    let last_byte = |path: &Path| fs::metadata(path).expect("it is there").len() - 1;
    check_damage(2, |path| flip(path, last_byte(path)));
}

#[test]
fn a_run_that_was_cut_is_claimed_again() {
    check_damage(4, |path| fs::write(path, b"PMIDRUN").expect("written"));
}

#[test]
fn damaged_ids_are_an_error_and_heal_at_the_next_start() {
    let mut world = World::new();
    let (mut ids, _) = world.open();
    world.write_runs(&mut ids, 5);
    flip(&world.files("ids")[1], 1024);
    let claims: Vec<Claim> = (0..500).chain(600..700).map(id).collect();
    let mut fresh = vec![true];
    let answer = ids.claim(500, receipt_ms(500), &claims, &mut fresh);
    assert!(matches!(answer, Err(IdsError::Corrupt(_))), "{answer:?}");
    assert_eq!(fresh, [true]);
    assert_eq!(ids.stats().keys, 500, "something of the batch was kept");
    drop(ids);
    let (mut ids, report) = world.open();
    let hole = 100..200;
    assert_eq!(report.holes, std::slice::from_ref(&hole));
    world.replay(&mut ids);
    world.assert_all_are_known(&mut ids);
}

fn flip(path: &Path, at: u64) {
    let mut bytes = fs::read(path).expect("a run is readable");
    bytes[at as usize] ^= 0x10;
    fs::write(path, bytes).expect("written");
}

#[test]
fn a_damaged_run_stops_no_other_from_being_merged_or_written() {
    let mut world = World::new();
    let (mut ids, _) = world.open();
    world.write_runs(&mut ids, 8);
    flip(&world.files("ids")[3], 1024);
    world.write_runs(&mut ids, 3);
    assert_eq!(ids.registered_until(), 1_100);
    drop(ids);
    let (mut ids, _) = world.open();
    world.replay(&mut ids);
    world.assert_all_are_known(&mut ids);
}

#[test]
fn runs_beyond_the_window_are_removed_from_disk() {
    let mut world = World::new();
    let (mut ids, _) = world.open();
    world.write_runs(&mut ids, 4);
    let later = receipt_ms(world.end) + WINDOW_MS + 1;
    let mut fresh = Vec::new();
    ids.claim(world.end, later, &[id(0), id(399)], &mut fresh).expect("the disk is well");
    assert_eq!(fresh, [true, true]);
    let start = Instant::now();
    while !world.files("ids").is_empty() {
        assert!(start.elapsed() < Duration::from_secs(20), "runs are still there");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_merged_run_spans_a_day_at_most() {
    let mut world = World::new();
    let (mut ids, _) = world.open();
    world.write_runs(&mut ids, 97 * 3);
    drop(ids);
    let (mut ids, _) = world.open();
    for run in ids.runs.iter() {
        assert!(run.header.newest_ms - run.header.oldest_ms <= super::SPAN_MS_MAX);
    }
    let few = 97 * 3 / 20;
    assert!(ids.stats().runs < few, "{} runs", ids.stats().runs);
    world.assert_all_are_known(&mut ids);
}

#[test]
fn ids_with_a_time_are_not_looked_for_where_no_id_has_that_time() {
    let mut world = World::new();
    let (mut ids, _) = world.open();
    world.write_runs(&mut ids, 1);
    // The only run cannot be read any more, so whoever looks into it gets an error.
    let path = &world.files("ids")[0];
    let bytes = fs::metadata(path).expect("it is there").len();
    fs::OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(1024)).expect("cut");
    assert!(bytes > 1024);
    let claims: Vec<Claim> =
        (0..10_000u128).map(|n| Claim::new(IdMask(n), 0x7000_8000_0000_0000_0000)).collect();
    let mut fresh = Vec::new();
    ids.claim(world.end, receipt_ms(world.end), &claims, &mut fresh).expect("nobody looks into the run");
    assert!(fresh.iter().all(|&new| new));
}

#[test]
fn memory_is_bounded_and_reported() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let options = IdsOptions { keys_per_run: 1_000, filter_bytes_max: 10_000, ..small(0) };
    let (mut ids, _) = EmbeddedIds::open(folder.path(), options, 0).expect("the disk is well");
    for batch in 0..100 {
        claim(&mut ids, batch * 500, batch * 500..batch * 500 + 500);
        let tables = 3 * 2 * 16 * (4_096 + 512);
        assert!(ids.stats().memory_bytes <= tables + 10_000, "{:?}", ids.stats());
    }
    ids.flush(50_000, receipt_ms(50_000)).expect("the disk is well");
    let stats = ids.stats();
    assert_eq!(stats.keys, 50_000);
    assert!(stats.disk_bytes > 50_000 * 16 && stats.disk_bytes < 50_000 * 24, "{stats:?}");
}
