//! Live-ops on both engines: the same script of commands gets the same responses, wherever checkpoints and crashes fall.

use std::sync::Arc;

use embedded::counters::{EmbeddedCounters, Store, StoreOptions};
use liveops::{Caller, Command, CommandRef, LiveOps, Principal, encode};
use model::deltas::Deltas;
use model::ports::counters::{Counters as Port, SideState};
use model::ports::records::Records;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::counters::{MemoryCounters, MemoryDisk};

const GAME: u32 = 1;
const NOW: i64 = 1_800_000_000_000;
const COMMANDS: usize = 3_000;

/// One engine with live-ops on it; both are derived from the same log.
struct Fixture<'a> {
    open: &'a dyn Fn() -> Arc<dyn Port>,
    counters: Option<Arc<dyn Port>>,
    liveops: Option<LiveOps>,
}

impl<'a> Fixture<'a> {
    fn new(open: &'a dyn Fn() -> Arc<dyn Port>) -> Fixture<'a> {
        let mut fixture = Fixture { open, counters: None, liveops: None };
        fixture.open_again();
        fixture
    }

    fn open_again(&mut self) {
        (self.liveops, self.counters) = (None, None);
        let counters = (self.open)();
        self.liveops = Some(LiveOps::open(Arc::clone(&counters) as Arc<dyn Records>).expect("records"));
        self.counters = Some(counters);
    }

    fn apply(&self, offset: usize, entry: &[u8]) -> String {
        let (liveops, counters) =
            (self.liveops.as_ref().expect("open"), self.counters.as_ref().expect("open"));
        let applied = liveops.apply(offset as u64, entry).expect("a command");
        let range = offset as u64..offset as u64 + 1;
        counters.apply(range, &Deltas::default()).expect("the disk works");
        // Subscribers are notified in no particular order.
        let mut touched: Vec<String> = applied.touched.iter().map(|touched| format!("{touched:?}")).collect();
        touched.sort_unstable();
        format!("{:?} {touched:?}", applied.outcome)
    }

    fn checkpoint(&self) {
        let records = self.liveops.as_ref().expect("open").changes();
        let counters = self.counters.as_ref().expect("open");
        let mut checkpoint = counters.checkpoint(SideState { states: Vec::new(), records });
        checkpoint.commit().expect("the disk works");
    }

    /// Simulates a crash and a start: loads the durable state and applies the rest of the log again.
    fn crash(&mut self, log: &[Vec<u8>]) {
        self.open_again();
        let from = self.counters.as_ref().expect("open").durable_until() as usize;
        for (offset, entry) in log.iter().enumerate().skip(from) {
            self.apply(offset, entry);
        }
    }
}

/// Returns all responses, with a checkpoint and a crash every so many commands.
fn responses(
    open: &dyn Fn() -> Arc<dyn Port>,
    log: &[Vec<u8>],
    checkpoint: usize,
    crash: usize,
) -> Vec<String> {
    let mut fixture = Fixture::new(open);
    let mut answers = Vec::new();
    for (offset, entry) in log.iter().enumerate() {
        answers.push(fixture.apply(offset, entry));
        if (offset + 1).is_multiple_of(checkpoint) {
            fixture.checkpoint();
        }
        if (offset + 1).is_multiple_of(crash) {
            fixture.crash(&log[..=offset]);
        }
    }
    let game = fixture.liveops.as_ref().expect("open").game(GAME);
    let game = game.read();
    answers.push(game.vars.json(&liveops::vars::VarsViewer::default(), NOW));
    for table in 0..3 {
        let query = liveops::boards::BoardQuery { per_page: 100, ..Default::default() };
        let page = game.boards.page(&format!("t{table}"), liveops::boards::BoardViewer::All, &query, NOW + 1);
        answers.push(format!("{page:?}"));
    }
    for player in 0..12 {
        let player = format!("p{player}");
        let page =
            game.feed.page(&player, liveops::feed::FeedMode::Latest, 50, None).expect("the disk works");
        answers.push(serde_json::to_string(&page).expect("it is JSON"));
        answers.push(game.levels.export_player(&player).expect("the disk works").to_string());
        answers.push(game.surveys.export_player(&player).to_string());
    }
    answers
}

/// A deterministic pseudo-random sequence.
struct TestRandom(u64);

impl TestRandom {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn command(random: &mut TestRandom, at: usize, saved: &mut Vec<String>) -> (Value, Vec<u8>) {
    let (player, other) = (format!("p{}", random.below(12)), format!("p{}", random.below(12)));
    let (number, table) = (random.below(100), format!("t{}", random.below(3)));
    let level = saved.get(random.below(40) as usize).cloned().unwrap_or_default();
    let command = match random.below(14) {
        0 => {
            json!({"vars": {"put": {"name": format!("v{}", random.below(5)), "definition": {"value": number}}}})
        }
        1 => json!({"vars": {"delete": {"name": format!("v{}", random.below(5))}}}),
        2..=5 => {
            json!({"boards": {"submit": {"table": table, "score": {"player": player, "score": number.to_string()}}}})
        }
        6 if number < 10 => json!({"boards": {"reset": {"table": table}}}),
        6 => json!({"boards": {"ban": {"player": player}}}),
        7 => json!({"boards": {"lift": {"player": player}}}),
        8 => {
            let packed =
                liveops::levels::PackedLevel::new(&format!("data {number}"), None).expect("it is short");
            let id = format!("level{at:07}");
            saved.push(id.clone());
            let save = json!({"levels": {"save": {
                "id": id, "name": format!("castle {number}"), "player": player, "state": "published",
                "data": packed.data,
            }}});
            return (save, packed.blob);
        }
        9 => json!({"levels": {"rate": {"id": level, "player": player, "rating": 1 + number % 10}}}),
        10 => json!({"feed": {"follow": {"player": player, "other": other}}}),
        11 => json!({"feed": {"post": {"player": player, "kind": "post", "text": format!("did {number}")}}}),
        12 if number < 20 => {
            json!({"feed": {"put_achievement": {"key": "first", "achievement": {"name": "First"}}}})
        }
        12 => json!({"feed": {"grant": {"key": "first", "player": player}}}),
        _ if number < 30 => json!({"surveys": {"put": {"key": "mood", "definition": {
            "title": "Mood", "questions": [{"key": "how", "kind": "scale", "text": "How?", "min": 1, "max": 5}],
        }}}}),
        _ => {
            json!({"surveys": {"answer": {"key": "mood", "player": player, "answers": {"how": 1 + number % 5}}}})
        }
    };
    (command, Vec::new())
}

fn script() -> Vec<Vec<u8>> {
    let (mut random, mut saved) = (TestRandom(7), Vec::new());
    let entry = |at: usize| {
        let (command, blob) = command(&mut random, at, &mut saved);
        let command: Command = serde_json::from_str(&command.to_string()).unwrap_or_else(|error| {
            panic!("{error}: {command}");
        });
        encode(&CommandRef {
            game: GAME,
            received_ms: NOW - (COMMANDS - at) as i64 * 60_000,
            by: Principal { caller: Caller::Server, signed: None },
            tz: "Europe/Paris".to_owned(),
            idempotency: None,
            command,
            blob: &blob,
        })
    };
    (0..COMMANDS).map(entry).collect()
}

#[test]
fn both_engines_give_the_same_responses_to_the_same_script() {
    let log = script();
    let folder = TempDir::new().expect("a folder");
    let on_disk = || -> Arc<dyn Port> {
        let store =
            Store::open(&folder.path().join("views"), &StoreOptions::default()).expect("the store opens");
        Arc::new(EmbeddedCounters::open(store).expect("the rollups open"))
    };
    let (disk, other_disk) = (MemoryDisk::default(), MemoryDisk::default());
    let in_memory = || -> Arc<dyn Port> { Arc::new(MemoryCounters::open(&disk)) };
    let undisturbed = || -> Arc<dyn Port> { Arc::new(MemoryCounters::open(&other_disk)) };
    let expected = responses(&undisturbed, &log, usize::MAX, usize::MAX);
    let accepted = expected.iter().filter(|answer| answer.starts_with("Ok")).count();
    assert!(accepted > COMMANDS / 2, "most commands must be accepted: {accepted}");
    for (index, (found, expected)) in responses(&in_memory, &log, 97, 211).iter().zip(&expected).enumerate() {
        assert_eq!(found, expected, "in memory, {index}");
    }
    for (index, (found, expected)) in responses(&on_disk, &log, 61, 173).iter().zip(&expected).enumerate() {
        assert_eq!(found, expected, "on disk, {index}");
    }
}
