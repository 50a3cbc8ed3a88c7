//! Measures the CPU time of questions over events in memory, without that of reading files.
//!
//! `cargo run --release -p playmeter-archive --example questions [MILLIONS [PART OF A NAME]]`

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use archive::columns::{Chunk, Column, Dictionary, Field, Value};
use archive::questions::explore::Explore;
use archive::questions::funnel::Funnel;
use archive::questions::paths::Paths;
use archive::questions::players::PlayerLinks;
use archive::questions::retention::Retention;
use archive::questions::{Cohorts, Context, Progress};
use archive::scan::{ScanFailure, ScanRequest, Source};
use model::query::{QueryControl, QueryStopped, Unbounded};
use model::rollup::hash_player;

const DAY_MS: i64 = 86_400_000;
const DAYS: i64 = 30;
const CHUNK_ROWS: usize = 65_536;
const START_MS: i64 = 1_793_491_200_000;
const EVENTS: [(&str, u64); 8] = [
    ("$session_start", 12),
    ("$ping", 40),
    ("start", 15),
    ("win", 8),
    ("lose", 6),
    ("buy", 2),
    ("$level", 12),
    ("share", 5),
];
const COUNTRIES: [&str; 12] = ["US", "DE", "FR", "GB", "BR", "IN", "JP", "CA", "ES", "IT", "PL", "NL"];

/// Events of a month, sorted as day files are.
struct Month {
    days: Vec<Vec<Row>>,
    events: Arc<Dictionary>,
    countries: Arc<Dictionary>,
}

#[derive(Clone, Copy)]
struct Row {
    player: u64,
    time: i64,
    event: u32,
    country: u32,
    value: f64,
}

/// The chunks of one list of fields.
struct Prepared {
    fields: Vec<Field>,
    chunks: Vec<Chunk>,
}

impl Month {
    /// As in a real game, most players have few events and some have very many.
    fn new(count: usize) -> Month {
        let mut state = 1u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((u128::from(state) * u128::from(below)) >> 64) as u64
        };
        let players = (count / 37) as u64;
        let shares: Vec<u32> = EVENTS
            .iter()
            .zip(0u32..)
            .flat_map(|((_, share), event)| std::iter::repeat_n(event, *share as usize))
            .collect();
        let mut days: Vec<Vec<Row>> = (0..DAYS).map(|_| Vec::with_capacity(count / DAYS as usize)).collect();
        let mut made = 0;
        while made < count {
            let number = random(players) * random(players) / players;
            let player = hash_player(1, &number.to_le_bytes());
            let day = random(DAYS as u64) as usize;
            let mut time = START_MS + day as i64 * DAY_MS + random(DAY_MS as u64 - 4_000_000) as i64;
            // A session.
            for _ in 0..1 + random(24) {
                let event = shares[random(shares.len() as u64) as usize];
                let value = random(10_000) as f64 / 100.0;
                days[day].push(Row { player, time, event, country: (number % 12) as u32, value });
                time += random(120_000) as i64;
                made += 1;
            }
        }
        days.iter_mut().for_each(|day| day.sort_by_key(|row| (row.player, row.time)));
        let dictionary = |texts: &mut dyn Iterator<Item = &'static str>| {
            let mut dictionary = Dictionary::default();
            for text in texts {
                dictionary.push(Value::Text(text));
            }
            Arc::new(dictionary)
        };
        Month {
            days,
            events: dictionary(&mut EVENTS.iter().map(|(name, _)| *name)),
            countries: dictionary(&mut COUNTRIES.into_iter()),
        }
    }

    fn rows(&self) -> usize {
        self.days.iter().map(Vec::len).sum()
    }

    fn prepare(&self, fields: &[Field]) -> Prepared {
        let column = |rows: &[Row], field: &Field| match field {
            Field::Event => coded(rows.iter().map(|row| row.event), &self.events),
            Field::Country => coded(rows.iter().map(|row| row.country), &self.countries),
            Field::Value => Column::Numbers(rows.iter().map(|row| row.value).collect()),
            _ => Column::Absent,
        };
        let chunk = |rows: &[Row]| Chunk {
            players: rows.iter().map(|row| row.player).collect(),
            times: rows.iter().map(|row| row.time).collect(),
            columns: fields.iter().map(|field| column(rows, field)).collect(),
        };
        let chunks = self.days.iter().flat_map(|day| day.chunks(CHUNK_ROWS)).map(chunk).collect();
        Prepared { fields: fields.to_vec(), chunks }
    }
}

fn coded(codes: impl Iterator<Item = u32>, dictionary: &Arc<Dictionary>) -> Column {
    Column::Coded { codes: codes.collect(), dictionary: Arc::clone(dictionary) }
}

impl Source for Prepared {
    fn player_ranges(&self, _: Range<i64>) -> Vec<RangeInclusive<u64>> {
        vec![0..=u64::MAX]
    }

    fn scan(
        &self,
        request: &ScanRequest,
        control: &dyn QueryControl,
        rows: &mut dyn FnMut(&Chunk) -> Result<(), QueryStopped>,
    ) -> Result<(), ScanFailure> {
        assert_eq!(request.fields, self.fields, "the fields that were prepared");
        for chunk in &self.chunks {
            control.check(0)?;
            rows(chunk)?;
        }
        Ok(())
    }
}

/// Returns the CPU time of this thread, in nanoseconds.
fn cpu_ns() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn measure(month: &Month, name: &str, fields: &[Field], ask: &dyn Fn(&Context<'_>)) {
    if std::env::args().nth(2).is_some_and(|part| !name.contains(&part)) {
        return;
    }
    let source = month.prepare(fields);
    let (links, cohorts, progress) = (PlayerLinks::default(), Cohorts::new(), Progress::default());
    let context = Context {
        source: &source,
        control: &Unbounded,
        progress: &progress,
        links: &links,
        cohorts: &cohorts,
        now_ms: START_MS + DAYS * DAY_MS,
        tz: "UTC",
    };
    let mut times: Vec<i64> = (0..5)
        .map(|_| {
            let start = cpu_ns();
            ask(&context);
            cpu_ns() - start
        })
        .collect();
    times.sort_unstable();
    println!(
        "{name:45} {:7.2} ns per event (best {:.2})",
        times[2] as f64 / month.rows() as f64,
        times[0] as f64 / month.rows() as f64
    );
}

fn main() {
    let millions =
        std::env::args().nth(1).map_or(5.0, |text| text.parse::<f64>().expect("a number of millions"));
    let month = Month::new((millions * 1e6) as usize);
    println!("{} events", month.rows());
    let window = format!(r#""from": {START_MS}, "to": {}, "tz": "Europe/Paris""#, START_MS + DAYS * DAY_MS);
    let explore = |name: &str, request: &str, fields: &[Field]| {
        let question =
            Explore::from_json(format!("{{{window}, {request}}}").as_bytes()).expect("it is valid");
        measure(&month, name, fields, &|context| drop(question.run(context).expect("it has no bounds")));
    };
    explore("explore: count by minute", r#""step": "hour""#, &[]);
    explore("explore: count of one event by day", r#""event": "win", "step": "day""#, &[Field::Event]);
    explore("explore: count by country", r#""by": "country", "step": "all""#, &[Field::Country]);
    explore(
        "explore: mean by event",
        r#""by": "event", "measure": "avg", "step": "all""#,
        &[Field::Event, Field::Value],
    );
    explore("explore: uniques", r#""measure": "uniques", "step": "all""#, &[]);
    explore("explore: uniques by day", r#""measure": "uniques", "step": "day""#, &[]);
    explore("explore: p90 by day", r#""measure": "p90", "step": "day""#, &[Field::Value]);
    explore(
        "explore: count, three filters",
        r#""step": "day", "where": [{"property": "country", "op": "in", "value": ["FR", "DE"]},
            {"property": "value", "op": ">", "value": 5}, {"property": "event", "op": "!=", "value": "$ping"}]"#,
        &[Field::Country, Field::Value, Field::Event],
    );
    let funnel = |name: &str, request: &str, fields: &[Field]| {
        let question = Funnel::from_json(format!("{{{window}, {request}}}").as_bytes()).expect("it is valid");
        measure(&month, name, fields, &|context| drop(question.run(context).expect("it has no bounds")));
    };
    let steps = r#""steps": [{"event": "$session_start"}, {"event": "start"}, {"event": "win"}]"#;
    funnel("funnel: 3 steps, 7 days", steps, &[Field::Event]);
    funnel("funnel: strict", &format!(r#"{steps}, "order": "strict""#), &[Field::Event]);
    funnel("funnel: by country", &format!(r#"{steps}, "by": "country""#), &[Field::Event, Field::Country]);
    let retention = |name: &str, request: &str, fields: &[Field]| {
        let question =
            Retention::from_json(format!("{{{window}, {request}}}").as_bytes()).expect("it is valid");
        measure(&month, name, fields, &|context| drop(question.run(context).expect("it has no bounds")));
    };
    retention("retention: any event", r#""start": {}, "return": {}"#, &[]);
    retention(
        "retention: start, other return",
        r#""start": {"event": "start"}, "return": {"event": "win"}"#,
        &[Field::Event],
    );
    let paths =
        Paths::from_json(format!(r#"{{{window}, "event": "start", "exclude": ["$ping"]}}"#).as_bytes());
    let paths = paths.expect("it is valid");
    measure(&month, "paths: 5 after start", &[Field::Event], &|context| {
        drop(paths.run(context).expect("it has no bounds"))
    });
}
