//! Measures the decoders of samples in nanoseconds per line.
//!
//! `cargo run --release -p playmeter-decode --example samples_speed`
//!
//! All packets of a round differ, so that the processor cannot learn the length of each name. The fastest round is the
//! one least disturbed by other work on the machine.

use decode::sample::{Measured, SampleResult};
use decode::{influx, statsd};
use std::hint::black_box;
use std::time::Instant;

const LINES: u64 = 40;
const PACKETS: u64 = 500;
const ROUNDS: usize = 200;

type Decode = fn(&[u8], &mut dyn FnMut(SampleResult<'_>));

fn main() {
    measure("statsd, counters", statsd_plain, |packet, emit| statsd::decode(packet, emit));
    measure("statsd, rates and tags", statsd_tagged, |packet, emit| statsd::decode(packet, emit));
    let decode: Decode = |body, emit| influx::decode(body, influx::Precision::Nanoseconds, emit);
    measure("influx, one field", influx_line, decode);
}

fn statsd_plain(random: u64) -> String {
    format!("{}:{}|c", name(random), random >> 20 & 0xfff)
}

fn statsd_tagged(random: u64) -> String {
    let kind = ["c", "g", "ms", "d"][random as usize >> 32 & 3];
    let country = ["de", "us", "br", "jp", "fr"][(random >> 50) as usize % 5];
    let value = (random >> 20 & 0xffff) as f64 / 8.0;
    format!("{}:{value}|{kind}|@0.1|#country:{country},level:{}", name(random), random >> 40 & 31)
}

fn influx_line(random: u64) -> String {
    let country = ["de", "us", "br", "jp", "fr"][(random >> 50) as usize % 5];
    let value = (random >> 20 & 0xffff) as f64 / 8.0;
    format!(
        "{},country={country},level={} value={value} 1556813561{:09}",
        name(random),
        random >> 40 & 31,
        random >> 35
    )
}

fn name(random: u64) -> String {
    let part = ["match.started", "shop.item_bought", "http.requests", "login", "queue.depth"];
    format!("game.{}{}", part[(random >> 10) as usize % part.len()], random & 7)
}

/// Prints the fastest and the median round.
fn measure(what: &str, line: fn(u64) -> String, decode: Decode) {
    let packet = |packet: u64| {
        let random = |line: u64| (packet * LINES + line + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..LINES).map(|number| line(random(number))).collect::<Vec<_>>().join("\n")
    };
    let packets: Vec<String> = (0..PACKETS).map(packet).collect();
    let bytes = packets.iter().map(String::len).sum::<usize>() as u64 / (PACKETS * LINES);
    let mut rounds: Vec<f64> = (0..ROUNDS).map(|_| round_ns(&packets, decode)).collect();
    rounds.sort_by(f64::total_cmp);
    let (fastest, median) = (rounds[0], rounds[ROUNDS / 2]);
    println!("{what:24} {bytes:3} bytes a line {fastest:6.1} ns fastest {median:6.1} ns median");
}

fn round_ns(packets: &[String], decode: Decode) -> f64 {
    let (mut lines, mut sum) = (0, 0.0);
    let begin = Instant::now();
    for packet in packets {
        decode(black_box(packet.as_bytes()), &mut |result| {
            let sample = result.expect("every line is valid");
            lines += 1;
            if let Measured::Count(value) = sample.measured {
                sum += value * sample.weight + sample.tags.len() as f64;
            }
        });
    }
    let ns = begin.elapsed().as_nanos() as f64;
    black_box(sum);
    assert_eq!(lines, LINES * PACKETS);
    ns / lines as f64
}
