//! What a claim of an event id costs, everything in the background included:
//! `cargo run --release -p playmeter-embedded --example ids -- [claims] [ids in a batch]`

use std::fs;
use std::path::Path;
use std::time::Instant;

use model::ports::ids::{Claim, IdMask, Ids};
use playmeter_embedded::ids::{EmbeddedIds, IdsOptions};

const START_MS: u64 = 1_800_000_000_000;
/// Claims for each millisecond of the invented clock: a day of 700 million events.
const PER_MS: u64 = 8;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|word| word.parse().expect("a number"));
    let count = arguments.next().unwrap_or(20_000_000);
    let batch = arguments.next().unwrap_or(1_000);
    println!("{count} claims in batches of {batch}");
    for (name, id) in [("v4", random_id as fn(u64) -> u128), ("v7", timed_id)] {
        table_alone(name, id, batch);
        whole(name, id, count, batch);
    }
}

/// The first million ids: only the memtable works.
fn table_alone(name: &str, id: fn(u64) -> u128, batch: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let options = IdsOptions { keys_per_run: usize::MAX, run_age_ms: u64::MAX, ..IdsOptions::default() };
    let (mut ids, _) = EmbeddedIds::open(folder.path(), options, 0).expect("the set opens");
    let keys = 1_000_000;
    claim(&mut ids, id, 0..keys, batch);
    let ns = claim(&mut ids, id, keys..keys + keys / 20, batch);
    println!("{name}: new in a table of a million {ns:.1} ns");
    let ns = claim(&mut ids, id, 0..keys, batch);
    println!("{name}: repeat in a table of a million {ns:.1} ns");
}

fn whole(name: &str, id: fn(u64) -> u128, count: u64, batch: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut ids, _) = EmbeddedIds::open(folder.path(), IdsOptions::default(), 0).expect("the set opens");
    let (start, cpu) = (Instant::now(), cpu_seconds("self"));
    let on_path = claim(&mut ids, id, 0..count, batch);
    ids.flush(count, START_MS + count / PER_MS).expect("the disk is well");
    let (wall, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds("self") - cpu);
    let stats = ids.stats();
    let per_claim = |seconds: f64| seconds * 1e9 / count as f64;
    println!(
        "{name}: {:.1} ns of CPU per claim, threads included ({:.1} ns wall)",
        per_claim(cpu),
        per_claim(wall)
    );
    println!("{name}: {on_path:.1} ns on the acknowledgement path; {} waits", stats.waits);
    println!(
        "{name}: {} runs, {:.2} bytes per id on disk, {:.1} MiB of memory",
        stats.runs,
        stats.disk_bytes as f64 / stats.keys as f64,
        stats.memory_bytes as f64 / 1048576.0
    );
    let ns = claim(&mut ids, id, 0..100_000, batch);
    println!("{name}: repeat from the oldest run {ns:.1} ns");
    reopen(name, folder.path(), ids, count);
}

fn reopen(name: &str, folder: &Path, ids: EmbeddedIds, count: u64) {
    drop(ids);
    let start = Instant::now();
    EmbeddedIds::open(folder, IdsOptions::default(), count).expect("the set opens");
    println!("{name}: opened again in {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
}

/// CPU nanoseconds of this thread for each claim. Making the ids is not counted.
fn claim(ids: &mut EmbeddedIds, id: fn(u64) -> u128, range: std::ops::Range<u64>, batch: u64) -> f64 {
    let mask = IdMask(0x1234_5678_9abc_def0_0fed_cba9_8765_4321);
    let (mut fresh, mut claims, mut spent) = (Vec::new(), Vec::new(), 0.0);
    let count = range.end - range.start;
    for offset in range.step_by(batch as usize) {
        claims.clear();
        claims.extend((offset..offset + batch).map(|n| Claim::new(mask, id(n))));
        fresh.clear();
        let start = Instant::now();
        ids.claim(offset, START_MS + offset / PER_MS, &claims, &mut fresh).expect("the disk is well");
        spent += start.elapsed().as_secs_f64();
    }
    spent * 1e9 / count as f64
}

/// User and system time so far: fields 14 and 15 of the kernel's `stat`, in hundredths.
fn cpu_seconds(of: &str) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{of}/stat")).expect("Linux");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |n: usize| fields[n].parse::<f64>().expect("a number of ticks");
    (ticks(11) + ticks(12)) / 100.0
}

fn random_id(n: u64) -> u128 {
    let bits = u128::from(mixed(n * 2)) << 64 | u128::from(mixed(n * 2 + 1));
    bits & !(0xf << 76) & !(3 << 62) | (4 << 76) | (2 << 62)
}

/// Made up to half a minute before it is received.
fn timed_id(n: u64) -> u128 {
    let time_ms = START_MS + n / PER_MS - mixed(n) % 30_000;
    u128::from(time_ms) << 80 | 7 << 76 | 2 << 62 | u128::from(mixed(n * 2) >> 2)
}

fn mixed(n: u64) -> u64 {
    let mut mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
