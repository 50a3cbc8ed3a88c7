//! Measures the feed: ten million items, one player who follows ten thousand others, and one with ten thousand
//! followers.
//!
//! `cargo run --release -p playmeter-liveops --example feed [ITEMS]` prints memory and the times of pages, writes and a
//! start.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use liveops::feed::{self, Cursor, Feed, FeedMode};
use liveops::{Caller, Command, CommandRef, LiveOps, LogPoint, Principal};
use model::ports::counters::StoreError;
use model::ports::records::Records;

const GAME: u32 = 1;

const PLAYERS: u64 = 50_000;
const FOLLOWED: u64 = 10_000;
const NOW: i64 = 1_800_000_000_000;
const N: usize = 20;
const CHECKPOINT_ITEMS: usize = 200_000;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // SplitMix64, Steele, Lea and Flood 2014.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

fn main() {
    let items = std::env::args().nth(1).map_or(10_000_000, |text| text.parse().expect("a number of items"));
    for (title, scores) in [("scores that are often equal", 10_000), ("no two equal scores", u64::MAX)] {
        println!("{title}, {items} items of {PLAYERS} players");
        measure(items, scores);
    }
    println!("all followed players have the same hundred activities");
    measure_equal();
    println!("a start");
    measure_start();
}

fn measure(items: u64, scores: u64) {
    let before = resident_bytes();
    let (server, mut dice) = (Server::new(), Dice(1));
    let (mut writing, mut checkpoints) = (Duration::ZERO, Duration::ZERO);
    for from in (0..items).step_by(CHECKPOINT_ITEMS) {
        let start = Instant::now();
        server.feed(|feed| {
            for number in from..items.min(from + CHECKPOINT_ITEMS as u64) {
                let player = player(dice.roll(PLAYERS));
                post(feed, &mut dice, number, &player, scores);
            }
        });
        writing += start.elapsed();
        let start = Instant::now();
        drop(server.liveops.changes());
        checkpoints += start.elapsed();
    }
    drop(server.liveops.changes());
    let (each, kept) = (|time: Duration| time / items as u32, server.feed(|feed| feed.item_count()));
    let memory = resident_bytes().saturating_sub(before);
    println!("  items kept               {kept:>10}");
    println!("  memory of an item        {:>8.1} B", memory as f64 / kept as f64);
    println!("  a write while it grows   {:>10.2?}", each(writing));
    println!("  its part in a checkpoint {:>10.2?}", each(checkpoints));
    writes(&server, &mut dice, items);
    server.follow("reader", (0..FOLLOWED).map(|number| player(number * (PLAYERS / FOLLOWED))));
    pages(&server);
}

fn writes(server: &Server, dice: &mut Dice, items: u64) {
    (0..FOLLOWED).for_each(|fan| server.follow(&format!("fan {fan}"), ["popular".to_owned()].into_iter()));
    let mut time = |player: &str| {
        let write = |number| {
            let start = Instant::now();
            server.feed(|feed| post(feed, dice, items + number, player, u64::MAX));
            start.elapsed()
        };
        let mut times: Vec<Duration> = (0..900).map(write).collect();
        times.sort_unstable();
        times[times.len() / 2]
    };
    let (unknown, popular) = (time("unknown"), time("popular"));
    let followers = server.feed(|feed| feed.followers("popular"));
    println!("  a write, 0 followers     {unknown:>10.2?}");
    println!("  a write, {followers} followers {popular:>10.2?}");
}

/// Starts from the records of a million items.
fn measure_start() {
    let (server, mut dice) = (Server::new(), Dice(2));
    server.feed(|feed| {
        (0..1_000_000).for_each(|number| {
            let player = player(dice.roll(PLAYERS));
            post(feed, &mut dice, number, &player, 10_000);
        });
    });
    let writes = server.liveops.changes();
    let records = writes.into_iter().filter_map(|write| Some((write.key, write.value?))).collect();
    let records = Arc::new(InMemory(records));
    let start = Instant::now();
    let again = LiveOps::open(records).expect("the records are whole");
    println!("  {} items in {:.2?}", again.game(GAME).read().feed.item_count(), start.elapsed());
}

fn measure_equal() {
    let server = Server::new();
    server.feed(|feed| {
        for number in 0..FOLLOWED * 100 {
            let at = LogPoint { offset: 0, ms: NOW + number as i64 };
            feed.post_score(at, &player(number / 100), "Player", "board", &(number % 100).to_string());
        }
    });
    server.follow("reader", (0..FOLLOWED).map(player));
    pages(&server);
}

/// Live-ops without a disk.
struct Server {
    liveops: LiveOps,
}

#[derive(Default)]
struct InMemory(BTreeMap<Vec<u8>, Vec<u8>>);

impl Records for InMemory {
    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.get(key).cloned())
    }

    fn records(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
        let records = self.0.iter().filter(|(key, _)| key.starts_with(prefix));
        records.for_each(|(key, value)| visit(key, value));
        Ok(())
    }
}

impl Server {
    fn new() -> Server {
        Server { liveops: LiveOps::open(Arc::new(InMemory::default())).expect("there is nothing to read") }
    }

    fn feed<T>(&self, with: impl FnOnce(&mut Feed) -> T) -> T {
        with(&mut self.liveops.game(GAME).write().feed)
    }

    fn follow(&self, player: &str, others: impl Iterator<Item = String>) {
        for other in others {
            let command = CommandRef {
                game: GAME,
                received_ms: NOW,
                by: Principal { caller: Caller::Server, signed: None },
                tz: "UTC".to_owned(),
                idempotency: None,
                command: Command::Feed(feed::FeedCommand::Follow { player: player.to_owned(), other }),
                blob: &[],
            };
            let applied = self.liveops.apply(1, &liveops::encode(&command)).expect("a command");
            applied.outcome.expect("players follow each other");
        }
    }
}

/// Measures the first, second and hundredth page as JSON: the median of 50 times and the longest.
fn pages(server: &Server) {
    let game = server.liveops.game(GAME);
    let game = game.read();
    for (mode, title) in [(FeedMode::Latest, "latest"), (FeedMode::Fair, "fair")] {
        let page = |cursor: Option<Cursor>| {
            let page = game.feed.page("reader", mode, N, cursor).expect("there is no disk");
            serde_json::to_string(&page).expect("JSON")
        };
        let mut cursor = None;
        for number in 1..=100 {
            if [1, 2, 100].contains(&number) {
                let (times, bytes) = (times(|| page(cursor).len()), page(cursor).len());
                let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
                println!(
                    "  {title:<6} page {number:>3}   {bytes:>8} B {median:>10.2?}, at most {longest:.2?}"
                );
            }
            let page: serde_json::Value = serde_json::from_str(&page(cursor)).expect("JSON");
            let Some(next) = page["next"].as_str().and_then(Cursor::parse) else { break };
            cursor = Some(next);
        }
    }
}

fn times<T>(run: impl Fn() -> T) -> Vec<Duration> {
    let time = |_| {
        let start = Instant::now();
        std::hint::black_box(run());
        start.elapsed()
    };
    let mut times: Vec<Duration> = (0..50).map(time).collect();
    times.sort_unstable();
    times
}

fn player(number: u64) -> String {
    format!("player-{number:07}")
}

/// Two in three items are scores, the others are levels.
fn post(feed: &mut Feed, dice: &mut Dice, number: u64, player: &str, scores: u64) {
    let at = LogPoint { offset: number, ms: NOW + number as i64 };
    match dice.roll(3) {
        0 => feed.post_level(at, player, "", &format!("level-{}", dice.roll(1_000_000)), ""),
        _ => feed.post_score(at, player, "Player", "board", &dice.roll(scores).to_string()),
    }
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * 4096
}
