//! Live-ops with a store and a log in memory, which can be restarted.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::model::ports::counters::StoreError;
use ::model::ports::records::Records;
use liveops::boards::{self, BoardPage, BoardQuery, BoardViewer};
use liveops::{Caller, Command, CommandRef, CommandResponse, LiveOps, Principal, Refusal, encode};

/// The game of the tests.
const GAME: u32 = 7;
/// The number of the subject in the keys of records, after the game.
const BOARDS: u8 = 2;
pub(crate) const TZ: &str = "Europe/Berlin";

#[derive(Clone, Default)]
struct Store(BTreeMap<Vec<u8>, Vec<u8>>);

impl Records for Store {
    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.get(key).cloned())
    }

    fn records(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
        self.0.iter().filter(|(key, _)| key.starts_with(prefix)).for_each(|(key, value)| visit(key, value));
        Ok(())
    }
}

/// A log entry after the last checkpoint, with its outcome.
type Entry = (Vec<u8>, Result<CommandResponse, Refusal>);

pub(crate) struct World {
    live: LiveOps,
    store: Store,
    log: Vec<Entry>,
}

fn open(store: &Store) -> LiveOps {
    LiveOps::open(Arc::new(store.clone())).expect("the store can be read")
}

impl World {
    pub(crate) fn new() -> World {
        let store = Store::default();
        World { live: open(&store), store, log: Vec::new() }
    }

    /// Applies a command of a server.
    pub(crate) fn send(
        &mut self,
        command: boards::BoardCommand,
        received_ms: i64,
    ) -> Result<serde_json::Value, Refusal> {
        let by = Principal { caller: Caller::Server, signed: None };
        let command = Command::Boards(command);
        let bytes = encode(&CommandRef {
            game: GAME,
            received_ms,
            by,
            tz: TZ.to_owned(),
            idempotency: None,
            command,
            blob: &[],
        });
        let outcome = self.live.apply(self.log.len() as u64, &bytes).expect("a command").outcome;
        self.log.push((bytes, outcome.clone()));
        outcome.map(|answer| serde_json::from_str(&answer.json).unwrap_or_default())
    }

    pub(crate) fn ban(&mut self, player: &str, is_ban: bool, now_ms: i64) {
        let player = player.to_owned();
        let command = match is_ban {
            true => boards::BoardCommand::Ban { player, reason: "why not".to_owned() },
            false => boards::BoardCommand::Lift { player },
        };
        self.send(command, now_ms).expect("bans and their ends are taken");
    }

    /// Erasure is a command of another subject; here a checkpoint follows instead.
    pub(crate) fn erase(&mut self, player: &str) {
        self.live.game(GAME).write().boards.erase_player(player);
        self.checkpoint();
    }

    pub(crate) fn page(&self, table: &str, query: &BoardQuery, now_ms: i64) -> Result<BoardPage, Refusal> {
        let game = self.live.game(GAME);
        if game.read().boards.needs_advance(table, now_ms) {
            game.write().boards.advance(table, now_ms);
        }
        let game = game.read();
        game.boards.page(table, BoardViewer::All, query, now_ms)
    }

    /// Writes what changed.
    pub(crate) fn checkpoint(&mut self) {
        for write in self.live.changes() {
            match write.value {
                Some(value) => drop(self.store.0.insert(write.key, value)),
                None => drop(self.store.0.remove(&write.key)),
            }
        }
        self.log.clear();
    }

    /// Returns true if any record of boards contains the text.
    pub(crate) fn mentions(&self, text: &str) -> bool {
        let is_in = |bytes: &[u8]| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        let mut boards = self.store.0.iter().filter(|(key, _)| key[4] == BOARDS);
        boards.any(|(key, value)| is_in(key) || is_in(value))
    }

    /// Restarts from the last checkpoint and the log after it. Every command must have the same outcome again.
    pub(crate) fn restart(&mut self) {
        self.live = open(&self.store);
        for (offset, (bytes, outcome)) in self.log.iter().enumerate() {
            let again = self.live.apply(offset as u64, bytes).expect("a command").outcome;
            assert_eq!(&again, outcome, "the same command gives the same answer");
        }
    }
}

/// Deterministic pseudo-random numbers.
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    pub(crate) fn player(&mut self) -> String {
        format!("player-{}", self.below(25))
    }

    /// Mostly short pauses, sometimes days, and now and then a step back.
    pub(crate) fn pause_ms(&mut self) -> i64 {
        let pause = match self.below(100) {
            0..20 => 0,
            20..60 => self.below(60_000),
            60..95 => self.below(3_600_000),
            95..98 => self.below(86_400_000),
            98 => self.below(20 * 86_400_000),
            _ => return -(self.below(120_000) as i64),
        };
        pause as i64
    }
}
