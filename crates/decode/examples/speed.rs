//! Measures nanoseconds per event and megabytes per second, compared with serde_json and a borrowing struct.
//!
//! `cargo run --release -p playmeter-decode --example speed`
//!
//! All bodies of a round differ, so that the processor cannot learn the length of each string. The fastest round is the
//! one least disturbed by other work on the machine.

use decode::json::{BodyFormat, decode};
use model::RawBatch;
use serde::Deserialize;
use std::borrow::Cow;
use std::hint::black_box;
use std::time::{Duration, Instant};

const EVENTS: u64 = 100;
const BODIES: u64 = 100;
const ROUNDS: usize = 50;

/// The same fields for serde_json.
#[derive(Deserialize)]
#[allow(dead_code, reason = "the fields are there to be parsed")]
struct SerdeEvent<'a> {
    #[serde(borrow)]
    event: Cow<'a, str>,
    id: Option<&'a str>,
    ts: Option<&'a str>,
    #[serde(borrow)]
    player: Option<Cow<'a, str>>,
    #[serde(borrow)]
    level: Option<Cow<'a, str>>,
    #[serde(borrow)]
    country: Option<Cow<'a, str>>,
    #[serde(borrow)]
    platform: Option<Cow<'a, str>>,
    value: Option<f64>,
    #[serde(borrow)]
    props: Option<&'a serde_json::value::RawValue>,
}

fn main() {
    let props = r#","props":{"weapon":"sword","combo":12,"boss":{"name":"Grönk","hp":0.25}}"#;
    compare("array", BodyFormat::Json, |events| format!("[{}]", events.join(",")), "");
    compare("lines", BodyFormat::Lines, |events| events.join("\n"), "");
    compare("array, with properties", BodyFormat::Json, |events| format!("[{}]", events.join(",")), props);
    compare("array, with spaces", BodyFormat::Json, spaced, "");
}

/// Formats the events like Python's `json.dumps`.
fn spaced(events: &[String]) -> String {
    format!("[{}]", events.join(", ").replace("\":", "\": ").replace(",\"", ", \""))
}

fn event(number: u64, props: &str) -> String {
    let random = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let name = ["level_complete", "score", "session_start", "item_bought"][(random >> 60) as usize % 4];
    let country = ["DE", "US", "BR", "JP", "FR"][(random >> 50) as usize % 5];
    let platform = ["web", "ios", "android", "windows"][(random >> 40) as usize % 4];
    let (id, player, level, value) = (random >> 16, random % 1_000_000, random % 40, (random >> 20) % 10_000);
    let (minute, second, ms) = (random % 60, (random >> 8) % 60, (random >> 16) % 1_000);
    format!(
        "{{\"id\":\"0190b6a1-7c2e-7def-8a9b-{id:012x}\",\"event\":\"{name}\",\
         \"ts\":\"2026-11-20T11:{minute:02}:{second:02}.{ms:03}Z\",\"player\":\"p-{player}\",\
         \"level\":\"{level}\",\"value\":{value},\"country\":\"{country}\",\"platform\":\"{platform}\"{props}}}"
    )
}

/// Measures both in turns, so that noise of the machine affects both.
fn compare(what: &str, form: BodyFormat, join: impl Fn(&[String]) -> String, props: &str) {
    let body = |number: u64| {
        let events: Vec<String> = (0..EVENTS).map(|i| event(number * EVENTS + i, props)).collect();
        join(&events)
    };
    let bodies: Vec<String> = (0..BODIES).map(body).collect();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(time(|| decode_all(&bodies, form)));
        theirs.push(time(|| serde_all(&bodies, form)));
    }
    let bytes = bodies.iter().map(String::len).sum::<usize>();
    println!("{what}: {} bytes an event", bytes as u64 / (BODIES * EVENTS));
    report("decode", &mut ours, bytes);
    report("serde_json", &mut theirs, bytes);
}

fn time(work: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    work();
    begin.elapsed()
}

fn decode_all(bodies: &[String], form: BodyFormat) {
    let mut decoded = RawBatch::default();
    for body in bodies {
        decode(black_box(body.as_bytes()), form, &mut decoded).expect("the body is well-formed");
        assert!(decoded.events.len() as u64 == EVENTS && decoded.events.iter().all(Result::is_ok));
    }
}

fn serde_all(bodies: &[String], form: BodyFormat) {
    let mut events: Vec<SerdeEvent> = Vec::new();
    for body in bodies {
        events.clear();
        match form {
            BodyFormat::Json => {
                events = serde_json::from_str(black_box(body)).expect("the body is well-formed")
            }
            BodyFormat::Lines => {
                events.extend(body.lines().map(|line| serde_json::from_str(line).expect("well-formed")))
            }
        }
        assert!(events.len() as u64 == EVENTS);
    }
}

/// Prints the fastest and the median round.
fn report(who: &str, times: &mut [Duration], bytes: usize) {
    times.sort();
    let event_ns = |time: Duration| time.as_nanos() as f64 / (BODIES * EVENTS) as f64;
    let (fastest, median) = (times[0], times[times.len() / 2]);
    let mb_per_second = bytes as f64 / fastest.as_secs_f64() / 1e6;
    println!(
        "  {who:10} {:6.1} ns fastest {:6.1} ns median {mb_per_second:7.0} MB/s",
        event_ns(fastest),
        event_ns(median)
    );
}
