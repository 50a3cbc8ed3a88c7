//! Measures the cost of claiming an event id, background work included:
//! `cargo run --release -p playmeter-embedded --example ids -- [claims] [ids in a batch]`

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use embedded::ids::{EmbeddedIds, IdsOptions};
use model::ports::ids::{Claim, IdMask, Ids};

const START_MS: u64 = 1_800_000_000_000;
/// Claims for each millisecond of the simulated clock: a day of 700 million events.
const PER_MS: u64 = 8;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse().expect("a number"));
    let count = arguments.next().unwrap_or(20_000_000);
    let batch = arguments.next().unwrap_or(1_000);
    println!("{count} claims in batches of {batch}; CPU time, excluding the creation of the ids");
    for (name, id) in [("v4", random_id as Id), ("v7", timed_id)] {
        table_alone(name, id, batch);
        whole(name, id, count, batch);
    }
}

type Id = fn(u64) -> u128;

/// Measures the first million ids, for which only the memtable works.
fn table_alone(name: &str, id: Id, batch: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let options = IdsOptions { keys_per_run: usize::MAX, run_age_ms: u64::MAX, ..IdsOptions::default() };
    let (mut ids, _) = EmbeddedIds::open(folder.path(), options, 0).expect("the set opens");
    let keys = 1_000_000;
    claim(&mut ids, id, 0..keys, batch);
    let new = claim(&mut ids, id, keys..keys + keys / 5, batch);
    let repeat = claim(&mut ids, id, 0..keys, batch);
    println!("{name}: in a table of a million: new {new:.1} ns, repeat {repeat:.1} ns");
}

fn whole(name: &str, id: Id, count: u64, batch: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut ids, _) = EmbeddedIds::open(folder.path(), IdsOptions::default(), 0).expect("the set opens");
    let others = other_threads_ns();
    let on_path = claim(&mut ids, id, 0..count, batch);
    ids.flush(count, START_MS + count / PER_MS).expect("the disk works");
    let behind = (other_threads_ns() - others) / count as f64;
    let stats = ids.stats();
    println!(
        "{name}: {:.1} ns per claim: {on_path:.1} on the claiming thread, {behind:.1} in the background",
        on_path + behind
    );
    println!(
        "{name}: {} runs, {:.2} bytes per id on disk, {:.1} MiB of memory, {} waits",
        stats.runs,
        stats.disk_bytes as f64 / stats.keys as f64,
        stats.memory_bytes as f64 / 1048576.0,
        stats.waits
    );
    let ns = claim(&mut ids, id, 0..100_000, batch);
    println!("{name}: repeat from the oldest run {ns:.0} ns");
    reopen(name, folder.path(), ids, count);
}

fn reopen(name: &str, folder: &Path, ids: EmbeddedIds, count: u64) {
    drop(ids);
    let start = Instant::now();
    EmbeddedIds::open(folder, IdsOptions::default(), count).expect("the set opens");
    println!("{name}: opened again in {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
}

/// Returns the CPU nanoseconds of this thread for each claim.
fn claim(ids: &mut EmbeddedIds, id: Id, range: Range<u64>, batch: u64) -> f64 {
    let mut fresh = Vec::new();
    let count = range.end - range.start;
    let making = for_each_batch(id, range.clone(), batch, |_, claims| {
        std::hint::black_box(claims);
    });
    let all = for_each_batch(id, range, batch, |offset, claims| {
        fresh.clear();
        ids.claim(offset, START_MS + offset / PER_MS, claims, &mut fresh).expect("the disk works");
    });
    (all - making) / count as f64
}

/// Returns the CPU nanoseconds of this thread for all batches.
fn for_each_batch(id: Id, range: Range<u64>, batch: u64, mut take: impl FnMut(u64, &[Claim])) -> f64 {
    let mask = IdMask(0x1234_5678_9abc_def0_0fed_cba9_8765_4321);
    let mut claims = Vec::new();
    let start = thread_ns("/proc/thread-self".as_ref());
    for offset in range.step_by(batch as usize) {
        claims.clear();
        claims.extend((offset..offset + batch).map(|n| Claim::new(mask, id(n))));
        take(offset, &claims);
    }
    thread_ns("/proc/thread-self".as_ref()) - start
}

/// Returns the CPU nanoseconds of all threads but the main one so far.
fn other_threads_ns() -> f64 {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux");
    let all: f64 = tasks.map(|task| thread_ns(&task.expect("a thread").path())).sum();
    all - thread_ns("/proc/thread-self".as_ref())
}

/// Returns the first number of the kernel's `schedstat`: nanoseconds on a CPU.
fn thread_ns(task: &Path) -> f64 {
    let text = fs::read_to_string(task.join("schedstat")).expect("Linux with schedstat");
    text.split(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

fn random_id(n: u64) -> u128 {
    let bits = u128::from(mixed(n * 2)) << 64 | u128::from(mixed(n * 2 + 1));
    bits & !(0xf << 76) & !(3 << 62) | (4 << 76) | (2 << 62)
}

/// Returns an id created up to half a minute before it is received.
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
