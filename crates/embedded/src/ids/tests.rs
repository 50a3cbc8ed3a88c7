use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::ports::ids::{Claim, IdKey, IdMask, Ids, IdsError};
use proptest::prelude::*;
use tempfile::TempDir;
use testkit::conformance::ids::{WINDOW_MS, check_random_operations, ids_conform};
use testkit::tmpfs::{Tmpfs, fill};

use super::{EmbeddedIds, IdsOptions, OpenReport};

const START_MS: u64 = 1_800_000_000_000;
const HOUR_MS: u64 = 3_600_000;

/// Runs so small that a test has many of them.
fn small(filter_bytes_max: u64) -> IdsOptions {
    IdsOptions { keys_per_run: 60, filter_bytes_max, ..IdsOptions::default() }
}

fn opener(options: IdsOptions) -> impl Fn(u64) -> Box<dyn Ids> {
    let folder = tempfile::tempdir().expect("a folder for the test");
    move |log_end| {
        let (ids, _) = EmbeddedIds::open(folder.path(), options.clone(), log_end).expect("the disk works");
        Box::new(ids)
    }
}

#[test]
fn embedded_ids_conform() {
    ids_conform(|| opener(IdsOptions::default()));
}

#[test]
fn embedded_ids_conform_with_many_small_runs() {
    ids_conform(|| opener(small(1 << 20)));
}

#[test]
fn embedded_ids_conform_without_memory_for_filters() {
    ids_conform(|| opener(small(0)));
}

#[test]
fn long_random_run_agrees_with_the_ledger() {
    check_random_operations(opener(small(20_000)), 1, 10_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn random_runs_agree_with_the_ledger(
        seed in any::<u64>(),
        keys_per_run in 1usize..200,
        filter_bytes_max in 0u64..20_000,
    ) {
        check_random_operations(opener(IdsOptions { keys_per_run, ..small(filter_bytes_max) }), seed, 200);
    }
}

/// Ids in a folder, and a log in which offset `n` has the id `n`.
struct Fixture {
    folder: TempDir,
    end: u64,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture { folder: tempfile::tempdir().expect("a folder for the test"), end: 0 }
    }

    fn open(&self) -> (EmbeddedIds, OpenReport) {
        EmbeddedIds::open(self.folder.path(), small(1 << 20), self.end).expect("the disk works")
    }

    /// Writes `count` runs of 100 ids each, a quarter of an hour apart.
    fn write_runs(&mut self, ids: &mut EmbeddedIds, count: u64) {
        for _ in 0..count {
            claim(ids, self.end, self.end..self.end + 100);
            self.end += 100;
            ids.flush(self.end, receipt_ms(self.end)).expect("the disk works");
        }
    }

    /// Replays the log like a start after a crash.
    fn replay(&self, ids: &mut EmbeddedIds) {
        let from = ids.registered_until() / 100 * 100;
        for offset in (from..self.end).step_by(100) {
            claim(ids, offset, offset..offset + 100);
        }
        claim(ids, self.end, 0..0);
    }

    fn assert_all_registered(&self, ids: &mut EmbeddedIds) {
        let fresh = claim(ids, self.end, 0..self.end);
        let missing: Vec<usize> = (0..fresh.len()).filter(|&n| fresh[n]).collect();
        assert!(missing.is_empty(), "missing: {missing:?}");
    }

    fn files(&self, extension: &str) -> Vec<PathBuf> {
        let paths = fs::read_dir(self.folder.path()).expect("the folder is there");
        let mut files: Vec<PathBuf> =
            paths.map(|entry| entry.expect("the entry is readable").path()).collect();
        files.retain(|path| path.extension().is_some_and(|found| found == extension));
        files.sort();
        files
    }

    /// Waits until the background threads have reduced the number of runs.
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
    ids.claim(offset, receipt_ms(offset), &claims, &mut fresh).expect("the disk works");
    fresh
}

fn id(n: u64) -> Claim {
    let time_ms = n.is_multiple_of(3).then_some(START_MS + n);
    Claim { key: IdKey(u128::from(n) << 60), time_ms }
}

#[test]
fn after_a_flush_nothing_is_replayed() {
    let mut fixture = Fixture::new();
    let (mut ids, _) = fixture.open();
    fixture.write_runs(&mut ids, 3);
    drop(ids);
    let (mut ids, report) = fixture.open();
    assert_eq!(ids.registered_until(), 300);
    assert_eq!(report, OpenReport { runs: 3, keys: 300, ..OpenReport::default() });
    fixture.assert_all_registered(&mut ids);
}

#[test]
fn eight_runs_are_merged_and_the_newest_is_kept() {
    let mut fixture = Fixture::new();
    let (mut ids, _) = fixture.open();
    fixture.write_runs(&mut ids, 9);
    fixture.wait_for_runs(&mut ids, 2);
    assert_eq!(ids.stats().keys, 900);
    fixture.assert_all_registered(&mut ids);
    drop(ids);
    let (mut ids, report) = fixture.open();
    assert_eq!((report.runs, report.keys), (2, 900));
    fixture.assert_all_registered(&mut ids);
}

#[test]
fn inputs_left_by_a_crashed_merge_are_removed() {
    let mut fixture = Fixture::new();
    let (mut ids, _) = fixture.open();
    fixture.write_runs(&mut ids, 8);
    let saved = tempfile::tempdir().expect("a folder for the test");
    let inputs = fixture.files("ids");
    inputs.iter().for_each(|path| copy_into(path, saved.path()));
    fixture.write_runs(&mut ids, 1);
    fixture.wait_for_runs(&mut ids, 2);
    drop(ids);
    for path in &inputs {
        copy_into(&saved.path().join(path.file_name().expect("a run has a name")), fixture.folder.path());
    }
    fs::write(fixture.folder.path().join("00000000000000000900-00000000000000001000.tmp"), b"half")
        .expect("written");
    let (mut ids, report) = fixture.open();
    assert_eq!((report.runs, report.keys, report.leftover), (2, 900, 9));
    assert_eq!(fixture.files("ids").len() + fixture.files("tmp").len(), 2);
    fixture.assert_all_registered(&mut ids);
}

fn copy_into(path: &Path, folder: &Path) {
    fs::copy(path, folder.join(path.file_name().expect("a run has a name"))).expect("copied");
}

#[test]
fn runs_ahead_of_the_log_are_removed() {
    let mut fixture = Fixture::new();
    let (mut ids, _) = fixture.open();
    fixture.write_runs(&mut ids, 3);
    drop(ids);
    fixture.end = 250;
    let (mut ids, report) = fixture.open();
    assert_eq!((report.runs, report.ahead_of_log), (2, 1));
    assert_eq!(ids.registered_until(), 200);
    claim(&mut ids, 200, 200..250);
    assert_eq!(claim(&mut ids, 250, 249..252), [false, true, true]);
}

/// Damages run number `n` of five with `damage`, restarts and replays: no id is lost, and the next start finds all runs
/// valid again.
fn check_damage(n: usize, damage: impl Fn(&Path)) {
    let mut fixture = Fixture::new();
    let (mut ids, _) = fixture.open();
    fixture.write_runs(&mut ids, 5);
    drop(ids);
    damage(&fixture.files("ids")[n]);
    let (mut ids, report) = fixture.open();
    let hole = n as u64 * 100..n as u64 * 100 + 100;
    assert_eq!((report.runs, report.holes), (4, vec![hole.clone()]));
    assert_eq!(ids.registered_until(), hole.start);
    fixture.replay(&mut ids);
    fixture.assert_all_registered(&mut ids);
    ids.flush(fixture.end, receipt_ms(fixture.end)).expect("the disk works");
    drop(ids);
    let (mut ids, report) = fixture.open();
    assert_eq!((report.runs, report.holes, ids.registered_until()), (5, vec![], 500));
    assert!(fixture.files("bad").is_empty());
    fixture.assert_all_registered(&mut ids);
}

#[test]
fn run_with_damaged_header_is_replayed() {
    for n in 0..5 {
        check_damage(n, |path| flip(path, 40));
    }
}

#[test]
fn run_with_damaged_filter_is_replayed() {
    let last_byte = |path: &Path| fs::metadata(path).expect("the file exists").len() - 1;
    check_damage(2, |path| flip(path, last_byte(path)));
}

#[test]
fn truncated_run_is_replayed() {
    check_damage(4, |path| fs::write(path, b"PMIDRUN").expect("written"));
}

#[test]
fn damaged_ids_are_an_error_and_are_restored_at_the_next_start() {
    let mut fixture = Fixture::new();
    let (mut ids, _) = fixture.open();
    fixture.write_runs(&mut ids, 5);
    flip(&fixture.files("ids")[1], 1024);
    let claims: Vec<Claim> = (0..500).chain(600..700).map(id).collect();
    let mut fresh = vec![true];
    let result = ids.claim(500, receipt_ms(500), &claims, &mut fresh);
    assert!(matches!(result, Err(IdsError::Corrupt(_))), "{result:?}");
    assert_eq!(fresh, [true]);
    assert_eq!(ids.stats().keys, 500, "no id of the batch was registered");
    drop(ids);
    let (mut ids, report) = fixture.open();
    let hole = 100..200;
    assert_eq!(report.holes, std::slice::from_ref(&hole));
    fixture.replay(&mut ids);
    fixture.assert_all_registered(&mut ids);
}

fn flip(path: &Path, at: u64) {
    let mut bytes = fs::read(path).expect("a run is readable");
    bytes[at as usize] ^= 0x10;
    fs::write(path, bytes).expect("written");
}

#[test]
fn damaged_run_does_not_block_other_merges_or_writes() {
    let mut fixture = Fixture::new();
    let (mut ids, _) = fixture.open();
    fixture.write_runs(&mut ids, 8);
    flip(&fixture.files("ids")[3], 1024);
    fixture.write_runs(&mut ids, 3);
    assert_eq!(ids.registered_until(), 1_100);
    drop(ids);
    let (mut ids, _) = fixture.open();
    fixture.replay(&mut ids);
    fixture.assert_all_registered(&mut ids);
}

#[test]
fn runs_beyond_the_window_are_removed_from_disk() {
    let mut fixture = Fixture::new();
    let (mut ids, _) = fixture.open();
    fixture.write_runs(&mut ids, 4);
    let later = receipt_ms(fixture.end) + WINDOW_MS + 1;
    let mut fresh = Vec::new();
    ids.claim(fixture.end, later, &[id(0), id(399)], &mut fresh).expect("the disk works");
    assert_eq!(fresh, [true, true]);
    let start = Instant::now();
    while !fixture.files("ids").is_empty() {
        assert!(start.elapsed() < Duration::from_secs(20), "runs are still there");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn merged_run_spans_at_most_a_day() {
    let mut fixture = Fixture::new();
    let (mut ids, _) = fixture.open();
    fixture.write_runs(&mut ids, 97 * 3);
    drop(ids);
    let (mut ids, _) = fixture.open();
    for run in ids.runs.iter() {
        assert!(run.header.newest_ms - run.header.oldest_ms <= super::SPAN_MS_MAX);
    }
    let few = 97 * 3 / 20;
    assert!(ids.stats().runs < few, "{} runs", ids.stats().runs);
    fixture.assert_all_registered(&mut ids);
}

#[test]
fn timed_ids_are_looked_up_only_in_runs_with_that_time() {
    let mut fixture = Fixture::new();
    let (mut ids, _) = fixture.open();
    fixture.write_runs(&mut ids, 1);
    // The only run cannot be read any more, so a lookup in it fails.
    let path = &fixture.files("ids")[0];
    let bytes = fs::metadata(path).expect("the file exists").len();
    fs::OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(1024)).expect("cut");
    assert!(bytes > 1024);
    let claims: Vec<Claim> =
        (0..10_000u128).map(|n| Claim::new(IdMask(n), 0x7000_8000_0000_0000_0000)).collect();
    let mut fresh = Vec::new();
    ids.claim(fixture.end, receipt_ms(fixture.end), &claims, &mut fresh).expect("no run is read");
    assert!(fresh.iter().all(|&new| new));
}

#[test]
fn memory_is_bounded_and_reported() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let options = IdsOptions { keys_per_run: 1_000, filter_bytes_max: 10_000, ..small(0) };
    let (mut ids, _) = EmbeddedIds::open(folder.path(), options, 0).expect("the disk works");
    for batch in 0..100 {
        claim(&mut ids, batch * 500, batch * 500..batch * 500 + 500);
        let tables = 3 * 2 * 16 * (4_096 + 512);
        assert!(ids.stats().memory_bytes <= tables + 10_000, "{:?}", ids.stats());
    }
    ids.flush(50_000, receipt_ms(50_000)).expect("the disk works");
    let stats = ids.stats();
    assert_eq!(stats.keys, 50_000);
    assert!(stats.disk_bytes > 50_000 * 16 && stats.disk_bytes < 50_000 * 24, "{stats:?}");
}

#[test]
fn full_disk_rejects_claims_and_they_succeed_again_when_there_is_room() {
    let mut fixture = Fixture::new();
    let Some(_tmpfs) = Tmpfs::mount(fixture.folder.path(), 1) else { return };
    let (mut ids, _) = fixture.open();
    fixture.write_runs(&mut ids, 2);
    let ballast = fill(fixture.folder.path());
    let start = Instant::now();
    let failure = loop {
        let claims: Vec<Claim> = (fixture.end..fixture.end + 100).map(id).collect();
        let mut fresh = Vec::new();
        match ids.claim(fixture.end, receipt_ms(fixture.end), &claims, &mut fresh) {
            Ok(()) => fixture.end += 100,
            Err(failure) => break failure,
        }
        assert!(start.elapsed() < Duration::from_secs(20), "the disk is full");
    };
    assert_eq!(failure, IdsError::Full);
    fs::remove_file(ballast).expect("it can be removed");
    while ids.claim(fixture.end, receipt_ms(fixture.end), &[], &mut Vec::new()).is_err() {
        assert!(start.elapsed() < Duration::from_secs(20), "there is room again");
        std::thread::sleep(Duration::from_millis(5));
    }
    fixture.write_runs(&mut ids, 1);
    fixture.assert_all_registered(&mut ids);
    drop(ids);
    let (mut ids, _) = fixture.open();
    fixture.replay(&mut ids);
    fixture.assert_all_registered(&mut ids);
}
