//! Measures the cost of counting, from events to rows on disk:
//! `cargo run --release -p playmeter-embedded --example counters -- increments|day|stream [--json] [--series N]`
//!
//! `increments` (or `3a`): events that change 14 counters each, spread over all series, in batches of 20,000 events.
//! `day` (or `3b`): the same load in each minute of three days, with checkpoints.
//! `stream`: the events of a game as they arrive: names, dimensions, players, values.
//!
//! The last line is a JSON object of all figures; `--json` prints each figure on a line of its own before it. Times are
//! CPU times of the thread that applies; the store's background work is reported separately.

use std::fs;
use std::path::Path;

use embedded::counters::{EmbeddedCounters, Store, StoreOptions};
use model::Dimension;
use model::batch::StoredEvent;
use model::deltas::Deltas;
use model::ports::counters::{Counters as Port, SideState};
use model::rollup::hash_player;
use rustix::time::{ClockId, clock_gettime};

/// Events in one batch: 50 ms at 400,000 a second.
const EVENTS: u64 = 20_000;
/// Events in each minute of a simulated day.
const DAY_EVENTS: u64 = 1_000;
/// 2026-01-01, in minutes since 1970.
const FIRST_MINUTE: u32 = 20_454 * 1_440;
/// Total, five dimensions and their combination: of the event's name and of all events.
const COUNTERS_PER_EVENT: u64 = 14;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let json = arguments.iter().any(|argument| argument == "--json");
    let number = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse().ok()
    };
    let (job, figures) = match arguments.first().map(String::as_str) {
        Some("increments" | "3a") => ("3a", increments(number("--series").unwrap_or(1_000_000))),
        Some("day" | "3b") => ("3b", day()),
        Some("stream") => ("stream", stream(number("--events").unwrap_or(8_000_000))),
        _ => return eprintln!("counters increments|day|stream [--json] [--series N] [--events N]"),
    };
    print(job, &figures, json);
}

struct Figure {
    name: &'static str,
    value: f64,
    unit: &'static str,
}

fn figure(name: &'static str, value: f64, unit: &'static str) -> Figure {
    Figure { name, value, unit }
}

fn print(job: &str, figures: &[Figure], json: bool) {
    for Figure { name, value, unit } in figures {
        if json {
            println!(r#"{{"job":"{job}","figure":"{name}","value":{value:.4},"unit":"{unit}"}}"#);
        } else {
            println!("{value:>14.4} {unit:<10} {name}");
        }
    }
    let all: Vec<String> =
        figures.iter().map(|figure| format!(r#""{}":{:.4}"#, figure.name, figure.value)).collect();
    println!("{{{}}}", all.join(","));
}

/// Names of one game and values of one dimension, as many of each as the cardinality limit allows.
struct Series {
    games: u32,
    names: Vec<String>,
    levels: Vec<String>,
}

impl Series {
    /// An event with one dimension has a row by this dimension and one for the combination.
    fn of(count: u64) -> Series {
        let pairs = (count / 2).max(1_000);
        let levels = 1_000;
        let names = (pairs / levels).clamp(1, 1_000);
        let text = |number: u64| format!("{number:03}");
        Series {
            games: (pairs / levels / names).max(1) as u32,
            names: (0..names).map(|number| format!("name-{number:03}")).collect(),
            levels: (0..levels).map(text).collect(),
        }
    }

    fn pairs(&self) -> u64 {
        u64::from(self.games) * (self.names.len() * self.levels.len()) as u64
    }

    fn add(&self, deltas: &mut Deltas, number: u64, minute: u32) {
        let level = &self.levels[number as usize % self.levels.len()];
        let rest = number as usize / self.levels.len();
        let name = &self.names[rest % self.names.len()];
        let game = (rest / self.names.len()) as u32 % self.games;
        let mut dimensions: [&[u8]; Dimension::COUNT] = [b""; Dimension::COUNT];
        dimensions[Dimension::Level as usize] = level.as_bytes();
        let ts_ms = i64::from(minute) * 60_000;
        deltas.add_event(
            game,
            &StoredEvent { ts_ms, name: name.as_bytes(), dimensions, ..StoredEvent::default() },
            None,
        );
    }
}

fn increments(count: u64) -> Vec<Figure> {
    let folder = tempfile::tempdir().expect("a folder");
    let (counters, series) = (open(folder.path()), Series::of(count));
    let before = resident_bytes();
    let mut workload = Workload::new(&counters);
    // Each series once, in its minute, to create the rows.
    let mut numbers = (0..series.pairs()).peekable();
    while numbers.peek().is_some() {
        workload.range(|deltas| {
            numbers.by_ref().take(EVENTS as usize).for_each(|number| series.add(deltas, number, FIRST_MINUTE))
        });
    }
    let first_event_ns = workload.cpu_ns / series.pairs() as f64;
    let memory = resident_bytes() - before;
    (workload.cpu_ns, workload.events) = (0.0, 0);
    let mut random = 1;
    for _ in 0..100 {
        workload.range(|deltas| {
            (0..EVENTS).for_each(|_| series.add(deltas, next(&mut random) % series.pairs(), FIRST_MINUTE));
        });
    }
    let increment_ns = workload.cpu_ns / (workload.events * COUNTERS_PER_EVENT) as f64;
    let one = checkpoint(&counters);
    let with_checkpoint = resident_bytes() - before;
    // Each series in each minute of the next hour, to measure the cost of a stored minute.
    let stored = Series::of(100_000);
    let disk = disk_bytes_of_an_hour(&stored);
    vec![
        figure("increment_us", increment_ns / 1e3, "us"),
        figure("event_us", increment_ns * COUNTERS_PER_EVENT as f64 / 1e3, "us"),
        figure("first_event_us", first_event_ns / 1e3, "us"),
        figure("series", 2.0 * series.pairs() as f64, "rows"),
        figure("memory_bytes_per_series", memory / (2.0 * series.pairs() as f64), "B"),
        figure("memory_gib", memory / f64::from(1 << 30), "GiB"),
        figure("memory_gib_with_checkpoint", with_checkpoint / f64::from(1 << 30), "GiB"),
        figure("freeze_us_per_series", one / 1e3 / (2.0 * series.pairs() as f64), "us"),
        figure("disk_bytes_per_minute_counter", disk, "B"),
    ]
}

/// Returns the bytes per minute and counter of a dense hour, flushed to sorted files.
fn disk_bytes_of_an_hour(series: &Series) -> f64 {
    let folder = tempfile::tempdir().expect("a folder");
    let options = StoreOptions { memtable_bytes: 1 << 20, ..StoreOptions::default() };
    let counters =
        EmbeddedCounters::open(Store::open(folder.path(), &options).expect("it opens")).expect("it opens");
    let mut workload = Workload::new(&counters);
    let mut random = 1;
    for minute in 0..60 {
        for from in (0..series.pairs()).step_by(EVENTS as usize) {
            workload.range(|deltas| {
                for number in from..(from + EVENTS).min(series.pairs()) {
                    let times = 1 + next(&mut random) % 8;
                    (0..times).for_each(|_| series.add(deltas, number, FIRST_MINUTE + minute));
                }
            });
        }
    }
    checkpoint(&counters);
    drop(counters);
    // The journal is excluded: its space is reused.
    let counters =
        EmbeddedCounters::open(Store::open(folder.path(), &options).expect("it opens")).expect("it opens");
    let bytes = file_bytes(folder.path());
    drop(counters);
    bytes / (60.0 * 2.0 * series.pairs() as f64)
}

/// Runs the same load in each minute of three days. For each hour of the day the median of the three is used, because
/// the machine has other work too.
fn day() -> Vec<Figure> {
    const DAYS: usize = 3;
    let folder = tempfile::tempdir().expect("a folder");
    let counters = open(folder.path());
    let mut workload = Workload::new(&counters);
    let (mut hours, mut minutes, mut random) = (Vec::new(), Vec::new(), 1);
    // One more hour at the start, in which everything is new.
    for hour in 0..1 + DAYS as u32 * 24 {
        let before = process_ns();
        for minute in hour * 60..hour * 60 + 60 {
            let own = workload.cpu_ns;
            let at = FIRST_MINUTE - 60 + minute;
            workload.range(|deltas| {
                (0..DAY_EVENTS).for_each(|_| player_event(deltas, next(&mut random), 5_000, 5, at));
            });
            minutes.push(workload.cpu_ns - own);
            if minute % 2 == 1 {
                checkpoint(&counters);
            }
        }
        hours.push(process_ns() - before);
    }
    let (hours, minutes) = (&hours[1..], &minutes[60..]);
    let by_hour: Vec<f64> = (0..24).map(|hour| median(hours.iter().skip(hour).step_by(24))).collect();
    let cheapest = by_hour.iter().copied().fold(f64::INFINITY, f64::min);
    let most_expensive = by_hour.iter().copied().fold(0.0, f64::max);
    let usual = median(hours);
    vec![
        figure("dearest_over_cheapest", most_expensive / cheapest, "ratio"),
        figure("midnight_hour_over_median", by_hour[0] / usual, "ratio"),
        figure(
            "midnight_minute_over_median",
            median(minutes.iter().step_by(1_440)) / median(minutes),
            "ratio",
        ),
        figure(
            "first_minute_of_hour_over_median",
            median(minutes.iter().step_by(60)) / median(minutes),
            "ratio",
        ),
        figure("hour_cpu_ms", usual / 1e6, "ms"),
        figure("event_us", usual / (60 * DAY_EVENTS) as f64 / 1e3, "us"),
    ]
}

fn median<'a>(numbers: impl IntoIterator<Item = &'a f64>) -> f64 {
    let mut sorted: Vec<f64> = numbers.into_iter().copied().collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn stream(events: u64) -> Vec<Figure> {
    let folder = tempfile::tempdir().expect("a folder");
    let counters = open(folder.path());
    let mut workload = Workload::new(&counters);
    let mut random = 1;
    let ranges = events / EVENTS;
    let mut checkpoints = 0.0;
    for range in 0..ranges {
        // 13,000 events a second, batched for a second and a half.
        let minute = FIRST_MINUTE + (range / 40) as u32;
        workload.range(|deltas| {
            (0..EVENTS).for_each(|_| player_event(deltas, next(&mut random), 1_000_000, 200, minute));
        });
        if range % 20 == 19 {
            checkpoints += checkpoint(&counters);
        }
    }
    vec![
        figure("event_us", workload.cpu_ns / workload.events as f64 / 1e3, "us"),
        figure("deltas_us", workload.deltas_ns / workload.events as f64 / 1e3, "us"),
        figure("apply_us", workload.apply_ns / workload.events as f64 / 1e3, "us"),
        figure("checkpoint_us", checkpoints / workload.events as f64 / 1e3, "us"),
        figure("rows_per_range", workload.rows as f64 / ranges as f64, "rows"),
        figure("memory_mib", resident_bytes() / f64::from(1 << 20), "MiB"),
    ]
}

/// Adds an event of one of 10 names, with 10 countries, 3 platforms, a version, some levels and a value.
fn player_event(deltas: &mut Deltas, random: u64, players: u64, levels: u64, minute: u32) {
    const NAMES: [&str; 10] =
        ["start", "score", "win", "retry", "quit", "buy", "share", "hint", "chat", "pause"];
    const COUNTRIES: [&str; 10] = ["US", "BR", "IN", "JP", "DE", "FR", "GB", "KR", "MX", "CN"];
    const PLATFORMS: [&str; 3] = ["web", "ios", "android"];
    let mut level = [b'l', 0, 0, 0];
    let number = (random >> 8) % levels;
    for (place, digit) in level[1..].iter_mut().zip([number / 100, number / 10 % 10, number % 10]) {
        *place = b'0' + digit as u8;
    }
    let player = hash_player(1, &((random >> 20) % players).to_le_bytes());
    let event = StoredEvent {
        ts_ms: i64::from(minute) * 60_000,
        name: NAMES[random as usize % 10].as_bytes(),
        value: Some(((random >> 40) % 1_000) as f64),
        dimensions: [
            COUNTRIES[(random >> 4) as usize % 10].as_bytes(),
            b"",
            PLATFORMS[(random >> 50) as usize % 3].as_bytes(),
            b"1.0",
            &level,
        ],
        ..StoredEvent::default()
    };
    deltas.add_event(1, &event, Some(player));
}

/// The allocator of the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Applies ranges one after the other and measures their cost.
struct Workload<'a> {
    counters: &'a EmbeddedCounters,
    deltas: Deltas,
    events: u64,
    rows: usize,
    cpu_ns: f64,
    deltas_ns: f64,
    apply_ns: f64,
}

impl Workload<'_> {
    fn new(counters: &EmbeddedCounters) -> Workload<'_> {
        let deltas = Deltas::default();
        Workload { counters, deltas, events: 0, rows: 0, cpu_ns: 0.0, deltas_ns: 0.0, apply_ns: 0.0 }
    }

    fn range(&mut self, fill: impl FnOnce(&mut Deltas)) {
        let start = thread_ns();
        self.deltas.set_offset(self.counters.applied_until());
        fill(&mut self.deltas);
        let built = thread_ns();
        let from = self.counters.applied_until();
        self.counters.apply(from..from + EVENTS, &self.deltas).expect("the disk works");
        let applied = thread_ns();
        self.rows += self.deltas.len();
        self.deltas.clear();
        let end = thread_ns();
        self.events += EVENTS;
        self.deltas_ns += built - start + (end - applied);
        self.apply_ns += applied - built;
        self.cpu_ns += end - start;
    }
}

/// Writes a checkpoint and returns its CPU nanoseconds on this thread.
fn checkpoint(counters: &EmbeddedCounters) -> f64 {
    let start = thread_ns();
    counters.checkpoint(SideState::default()).commit().expect("the disk works");
    thread_ns() - start
}

fn open(folder: &Path) -> EmbeddedCounters {
    let store = Store::open(folder, &StoreOptions::default()).expect("the store opens");
    EmbeddedCounters::open(store).expect("the rollups open")
}

fn file_bytes(folder: &Path) -> f64 {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let bytes = |entry: fs::DirEntry| match entry.path() {
        path if path.is_dir() => file_bytes(&path),
        path if path.extension().is_some_and(|extension| extension == "jnl") => 0.0,
        _ => entry.metadata().expect("a file").len() as f64,
    };
    entries.map(bytes).sum()
}

/// CPU nanoseconds of this thread.
fn thread_ns() -> f64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

/// CPU nanoseconds of all threads, including the store's.
fn process_ns() -> f64 {
    nanoseconds(ClockId::ProcessCPUTime)
}

fn nanoseconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn resident_bytes() -> f64 {
    let text = fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: f64 = text.split(' ').nth(1).and_then(|number| number.parse().ok()).expect("a number");
    pages * 4096.0
}

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
