//! Benchmarks flows in process: packets and RTCP reports of 100,000 concurrent flows, on one thread and on two.
//!
//! `cargo run --release -p playmeter-pipeline --example flows [FLOWS]` prints packets per second, CPU seconds per
//! million packets, bytes per flow, and the time to rank all flows and to write and read the file. Socket reads are not
//! included.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use model::flows::{FlowEnd, FlowPacket, PacketKind};
use pipeline::flows::{Datagram, Flows};
use rustix::time::{ClockId, clock_gettime};

const GAME: u32 = 1;
/// Packets of one `recvmmsg`.
const BATCH: usize = 64;
/// Packets of one measurement.
const PACKETS: usize = 10_000_000;

fn main() {
    let flows = std::env::args().nth(1).map_or(100_000, |text| text.parse().expect("a number of flows"));
    println!("{flows} concurrent flows, load average {}", load_average());
    for threads in [1, 2] {
        numbered(flows, threads);
        reports(flows, threads);
    }
}

/// SplitMix64, Steele, Lea and Flood 2014.
fn mixed(seed: u64) -> u64 {
    let seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let seed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let seed = (seed ^ (seed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    seed ^ (seed >> 31)
}

/// Returns the flow of a packet: each flow once per round, with consecutive ones far apart. The step is a prime.
fn scattered(number: usize, flows: usize) -> usize {
    number % flows * 48_271 % flows
}

/// Measures numbered packets, alternately from both ends, in a scattered order of flows. Decoding is not included.
fn numbered(flows: usize, threads: usize) {
    let ends: Vec<(String, String)> = (0..flows)
        .map(|flow| (format!("{:08x}", mixed(flow as u64) as u32), format!("{flow:08x}")))
        .collect();
    let owner = Flows::default();
    let before = resident_bytes();
    let apply = |from: usize, until: usize| {
        let mut batch = Vec::with_capacity(BATCH);
        for number in from..until {
            let (one, other) = &ends[scattered(number, flows)];
            let (from, to) = if (number / flows).is_multiple_of(2) { (one, other) } else { (other, one) };
            let seq = (number / flows / 2) as u32 & 0xffff;
            let at_us = number as i64;
            let what = PacketKind::Numbered { seq, sent_us: Some(at_us - 20), at_us };
            let end = |id| FlowEnd { id, address: None };
            batch.push(FlowPacket { from: end(from), to: end(to), kind: what });
            if batch.len() == BATCH {
                owner.apply_packets(GAME, &batch);
                batch.clear();
            }
        }
        owner.apply_packets(GAME, &batch);
    };
    measure("numbered packets", threads, &apply);
    memory(&owner, before);
}

/// Measures compounds of a sender report with one block and a name, as ends of a call send them every five seconds.
fn reports(flows: usize, threads: usize) {
    let owner = Flows::default();
    let before = resident_bytes();
    let from: SocketAddr = ([192, 0, 2, 1], 5005).into();
    let apply = |first: usize, until: usize| {
        let mut bytes = vec![[0; COMPOUND_BYTES]; BATCH];
        for batch in (first..until).step_by(BATCH) {
            for (place, compound) in bytes.iter_mut().enumerate() {
                let number = batch + place;
                let flow = scattered(number, flows);
                let (one, other) = (2 * flow as u32, 2 * flow as u32 + 1);
                let (by, about) =
                    if (number / flows).is_multiple_of(2) { (one, other) } else { (other, one) };
                *compound = compound_of(by, about, (number / flows / 2) as u32);
            }
            let datagram = |bytes| Datagram { bytes, from, at_us: batch as i64 };
            let datagrams: [Datagram<'_>; BATCH] = std::array::from_fn(|place| datagram(&bytes[place][..]));
            let counts = owner.apply_rtcp(GAME, 8_000, &datagrams);
            assert_eq!(counts.malformed, 0);
        }
    };
    measure("RTCP compounds", threads, &apply);
    memory(&owner, before);
    measure_all_flows(&owner);
}

const COMPOUND_BYTES: usize = 76;

fn compound_of(by: u32, about: u32, round: u32) -> [u8; COMPOUND_BYTES] {
    let words: [u32; COMPOUND_BYTES / 4] = [
        0x81c8_000c,
        by,
        3_900_000_000 + 5 * round,
        0,
        0,
        250 * round,
        0, //
        about,
        1,
        250 * round,
        80,
        (3_900_000_000 + 5 * round) << 16,
        2 << 16, //
        0x81ca_0005,
        by,
        0x010b_616e,
        0x6e40_6578,
        0x616d_706c,
        0x6500_0000,
    ];
    let mut bytes = [0; COMPOUND_BYTES];
    words
        .iter()
        .zip(bytes.chunks_exact_mut(4))
        .for_each(|(word, four)| four.copy_from_slice(&word.to_be_bytes()));
    bytes
}

fn measure(name: &str, threads: usize, apply: &(impl Fn(usize, usize) + Sync)) {
    let each = PACKETS / threads / BATCH * BATCH;
    let (begin, cpu) = (Instant::now(), cpu());
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || apply(thread * each, (thread + 1) * each));
        }
    });
    let (seconds, cpu, packets) = (begin.elapsed().as_secs_f64(), self::cpu() - cpu, (threads * each) as f64);
    let per_million = cpu.as_secs_f64() / packets * 1e6;
    println!(
        "{name}, {threads} threads: {:.2} million per second, {per_million:.3} CPU seconds per million",
        packets / seconds / 1e6
    );
}

fn memory(owner: &Flows, before: u64) {
    let metrics = owner.metrics();
    let bytes = resident_bytes().saturating_sub(before);
    println!("  {} flows, {} bytes per flow (resident)", metrics.flows, bytes / metrics.flows.max(1));
}

/// Measures the operations that visit all flows.
fn measure_all_flows(owner: &Flows) {
    let begin = Instant::now();
    let mut worst = Vec::new();
    owner.visit(GAME, |flow| worst.push((flow.recent_quality().mos, flow.id)));
    worst.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    println!("  rank all flows: {:.1?}", begin.elapsed());
    let folder = std::env::temp_dir().join(format!("flows-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let begin = Instant::now();
    owner.save(&folder).expect("it is written");
    let bytes = std::fs::metadata(folder.join("flows")).expect("it is there").len();
    println!("  write the file: {:.1} MB in {:.1?}", bytes as f64 / 1e6, begin.elapsed());
    let begin = Instant::now();
    let again = Flows::open(&folder, u32::MAX).expect("it is read");
    println!("  read the file: {} flows in {:.1?}", again.metrics().flows, begin.elapsed());
    std::fs::remove_dir_all(&folder).expect("it is ours");
}

/// Returns the CPU time of this process.
fn cpu() -> Duration {
    let usage = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(usage.tv_sec as u64, usage.tv_nsec as u32)
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    let kib: u64 = line.split_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or(0);
    kib * 1024
}

fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}
