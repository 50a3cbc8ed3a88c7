//! Fills the window with event ids and measures claims beside them, with the page cache warm and cold:
//! `cargo run --release -p playmeter-embedded --example ids_window -- FOLDER [ids] [ids per day] [filter MiB...]`
//!
//! The folder is kept: another run with the same numbers measures only. Ids are random (v4), the dearer kind: a claim of a
//! UUIDv7 is looked up only in the runs of its time.

use std::path::Path;
use std::time::Instant;

use embedded::ids::{EmbeddedIds, IdsOptions};
use model::ports::ids::{Claim, IdMask, Ids};

const START_MS: u64 = 1_800_000_000_000;
const DAY_MS: u64 = 86_400_000;
/// Ids of one commit.
const BATCH: u64 = 1_000;
/// Commits measured with each budget.
const COMMITS: u64 = 2_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("a folder");
    let mut numbers = arguments.map(|argument| argument.parse::<u64>().expect("a number"));
    let count = numbers.next().unwrap_or(500_000_000);
    let per_day = numbers.next().unwrap_or(80_000_000);
    let budgets = match numbers.collect::<Vec<_>>() {
        given if given.is_empty() => vec![64, 256, 1024],
        given => given,
    };
    let window = Window { folder: folder.as_ref(), count, per_day };
    window.fill();
    for filter_mib in budgets {
        window.measure(filter_mib);
    }
}

struct Window<'a> {
    folder: &'a Path,
    count: u64,
    per_day: u64,
}

impl Window<'_> {
    fn time_ms(&self, offset: u64) -> u64 {
        START_MS + (offset as f64 * DAY_MS as f64 / self.per_day as f64) as u64
    }

    fn open(&self, filter_mib: u64, log_end: u64) -> EmbeddedIds {
        // Full memtables instead of one a minute, since the minutes of the filling are short.
        let options =
            IdsOptions { filter_bytes_max: filter_mib << 20, run_age_ms: 3_600_000, ..IdsOptions::default() };
        EmbeddedIds::open(self.folder, options, log_end).expect("the set opens").0
    }

    fn fill(&self) {
        // With all filters in memory, which is quicker.
        let from = self.open(4096, u64::MAX).registered_until();
        let mut ids = self.open(4096, from);
        let (start, mut fresh) = (Instant::now(), Vec::new());
        for offset in (from..self.count).step_by(BATCH as usize) {
            fresh.clear();
            let claims = claims(offset);
            ids.claim(offset, self.time_ms(offset), &claims, &mut fresh).expect("the disk works");
            assert!(fresh.iter().all(|new| *new));
        }
        ids.flush(self.count, self.time_ms(self.count)).expect("the disk works");
        let stats = ids.stats();
        println!(
            "{} ids in {} runs, {:.2} bytes each, {} waits; filled in {:.0} s",
            stats.keys,
            stats.runs,
            stats.disk_bytes as f64 / stats.keys as f64,
            stats.waits,
            start.elapsed().as_secs_f64()
        );
    }

    /// Claims new ids, then ids of the oldest day, each with the files out of memory and then in memory.
    fn measure(&self, filter_mib: u64) {
        let start = Instant::now();
        let mut ids = self.open(filter_mib, self.count);
        let opened = start.elapsed();
        let now_ms = self.time_ms(self.count);
        // The set knows its runs from the first claim on.
        ids.claim(self.count, now_ms, &[], &mut Vec::new()).expect("the disk works");
        println!(
            "filters up to {filter_mib} MiB: {:.0} MiB in memory, opened in {:.2} s",
            ids.stats().memory_bytes as f64 / 1048576.0,
            opened.as_secs_f64()
        );
        for (name, first) in [("new", 1 << 40), ("known", 0)] {
            for cache in ["cold", "warm"] {
                if cache == "cold" {
                    drop_caches();
                }
                let mut times_us = Vec::new();
                let (mut fresh, cpu) = (Vec::new(), thread_cpu_us());
                for commit in 0..COMMITS {
                    let claims = claims(first + commit * BATCH);
                    fresh.clear();
                    let start = Instant::now();
                    ids.claim(self.count, now_ms, &claims, &mut fresh).expect("the disk works");
                    times_us.push(start.elapsed().as_micros() as u64);
                    assert_eq!(fresh.iter().all(|new| *new), name == "new");
                    let registered = claims.iter().zip(&fresh).filter(|(_, new)| **new);
                    let registered: Vec<Claim> = registered.map(|(claim, _)| *claim).collect();
                    ids.release(&registered);
                }
                let cpu = (thread_cpu_us() - cpu) as f64 / (COMMITS * BATCH) as f64;
                times_us.sort_unstable();
                let at = |share: f64| times_us[((times_us.len() - 1) as f64 * share) as usize] as f64 / 1e3;
                println!(
                    "  {name:5} {cache}: a commit of {BATCH}: p50 {:.2} ms, p99 {:.2} ms, at most {:.2} ms; CPU {cpu:.2} us an id",
                    at(0.5),
                    at(0.99),
                    at(1.0)
                );
            }
        }
    }
}

fn drop_caches() {
    rustix::fs::sync();
    if let Err(error) = std::fs::write("/proc/sys/vm/drop_caches", "3") {
        println!("  the page cache stays: {error}");
    }
}

fn claims(offset: u64) -> Vec<Claim> {
    let mask = IdMask(0x1234_5678_9abc_def0_0fed_cba9_8765_4321);
    (offset..offset + BATCH).map(|n| Claim::new(mask, random_id(n))).collect()
}

/// Returns the CPU time of this thread, in microseconds.
fn thread_cpu_us() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux with schedstat");
    text.split(' ').next().and_then(|number| number.parse::<u64>().ok()).expect("a number") / 1_000
}

fn random_id(n: u64) -> u128 {
    let bits = u128::from(mixed(n * 2)) << 64 | u128::from(mixed(n * 2 + 1));
    bits & !(0xf << 76) & !(3 << 62) | (4 << 76) | (2 << 62)
}

fn mixed(n: u64) -> u64 {
    let mut mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
