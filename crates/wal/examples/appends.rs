//! Measures the cost of appends: CPU time of the whole process and latency of the acknowledgements.
//!
//! `cargo run --release -p playmeter-wal --example appends [FOLDER]`. Each batch is sent after the previous one was
//! acknowledged, so the rate follows from the commit interval.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use wal::{Ack, Entry, Options, PendingEntry, RealDisk, Sequencer, Wal, WalError};

const ENTRY_BYTES: usize = 120;

/// Reads every entry, like a real sequencer, and changes none.
struct ReadOnlySequencer(Arc<std::sync::atomic::AtomicU64>);

impl Sequencer<Vec<u32>> for ReadOnlySequencer {
    fn decide(&mut self, batch: &mut [PendingEntry<Vec<u32>>], _: u64, _: u64) {
        let bytes: usize = batch.iter().map(|pending| pending.bytes.len()).sum();
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn undo(&mut self, _: &mut [PendingEntry<Vec<u32>>]) {}
}

fn cpu_ns(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn entry(ack: Ack) -> Entry<Vec<u32>> {
    Entry { kind: 1, events: 1, bytes: vec![7; ENTRY_BYTES], ack, extra: Vec::new() }
}

/// Appends batches of `batch` entries, one after the other, and prints one line.
fn measure(log: &Wal<Vec<u32>>, batch: usize, ack: Ack) -> Result<(), WalError> {
    let before = log.stats();
    let (cpu, started) = (cpu_ns(ClockId::ProcessCPUTime), Instant::now());
    let (mut appends, mut appending_ns, mut waits) = (0, 0.0, Vec::new());
    let mut receipts = Vec::with_capacity(batch);
    while started.elapsed() < Duration::from_secs(2) {
        let (sent, thread_cpu) = (Instant::now(), cpu_ns(ClockId::ThreadCPUTime));
        for _ in 0..batch {
            receipts.push(log.append(entry(ack))?);
        }
        appending_ns += cpu_ns(ClockId::ThreadCPUTime) - thread_cpu;
        for receipt in receipts.drain(..) {
            receipt.wait()?;
        }
        waits.push(sent.elapsed());
        appends += batch;
        if ack != Ack::Disk {
            // These receipts resolve before the sync, so give the writer time to empty the queue.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let stats = log.stats();
    let cpu = cpu_ns(ClockId::ProcessCPUTime) - cpu;
    let (commits, syncs) = (stats.commits - before.commits, stats.syncs - before.syncs);
    waits.sort_unstable();
    println!(
        "{ack:?} x {batch:5}: {:8.3} us of cpu per append, {:.3} us of it in append; {:6.1} us of cpu per commit; \
         {commits} commits, {syncs} syncs of {:.0} us; acknowledged after p50 {:?} p99 {:?}",
        cpu / appends as f64 / 1e3,
        appending_ns / appends as f64 / 1e3,
        cpu / commits.max(1) as f64 / 1e3,
        (stats.sync_ns - before.sync_ns) as f64 / syncs.max(1) as f64 / 1e3,
        waits[waits.len() / 2],
        waits[waits.len() * 99 / 100],
    );
    Ok(())
}

fn main() -> Result<(), WalError> {
    let folder = std::env::args_os().nth(1).map_or_else(
        || std::env::temp_dir().join(format!("playmeter-appends-{}", std::process::id())),
        PathBuf::from,
    );
    let started = Instant::now();
    let opened = Wal::<Vec<u32>>::open(Arc::new(RealDisk), &folder, Options::default())?;
    let log = Wal::start(opened, Box::new(ReadOnlySequencer(Arc::default())))?;
    log.append(entry(Ack::Disk))?.wait()?;
    println!("first durable append {:?} after the start", started.elapsed());
    for batch in [1, 20, 200, 2000] {
        measure(&log, batch, Ack::Disk)?;
    }
    measure(&log, 200, Ack::Os)?;
    measure(&log, 200, Ack::Memory)?;
    let cpu = cpu_ns(ClockId::ProcessCPUTime);
    std::thread::sleep(Duration::from_secs(1));
    println!("idle for a second: {:.0} us of cpu", (cpu_ns(ClockId::ProcessCPUTime) - cpu) / 1e3);
    log.close()?;
    let started = Instant::now();
    let log = Wal::<Vec<u32>>::open(Arc::new(RealDisk), &folder, Options::default())?;
    println!("opened again in {:?}: {} offsets", started.elapsed(), log.report().next);
    let (log, _committer, _) = log.into_parts(Box::new(ReadOnlySequencer(Arc::default())));
    let started = Instant::now();
    let verified = log.verify()?;
    println!("verified {} MiB in {:?}", verified.bytes >> 20, started.elapsed());
    // A temporary folder that cannot be removed is not an error.
    let _ = std::fs::remove_dir_all(&folder);
    Ok(())
}
