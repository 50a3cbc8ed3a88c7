//! A game's live-ops on records in memory, with its log since the last checkpoint.

use std::collections::BTreeMap;
use std::sync::Arc;

use liveops::levels::{
    Decision, LevelCommand, LevelPage, LevelQuery, LevelRow, LevelState, LevelViewer, PackedLevel, SaveLevel,
};
use liveops::{
    Caller, CommandRef, CommandResponse, Game, LiveOps, Principal, Refusal, RequestSignature, encode, players,
};
use model::batch::StoredEvent;
use model::event::Dimension;
use model::ports::counters::StoreError;
use model::ports::records::{RecordWrite, Records};
use parking_lot::{Mutex, RwLock};

pub(crate) const GAME: u32 = 7;

/// The records of the store.
#[derive(Default)]
pub(crate) struct Memory(Mutex<BTreeMap<Vec<u8>, Vec<u8>>>);

impl Memory {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().iter().flat_map(|(key, value)| [key.clone(), value.clone()].concat()).collect()
    }

    fn write(&self, writes: Vec<RecordWrite>) {
        let mut records = self.0.lock();
        for RecordWrite { key, value } in writes {
            match value {
                Some(value) => records.insert(key, value),
                None => records.remove(&key),
            };
        }
    }
}

impl Records for Memory {
    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.lock().get(key).cloned())
    }

    fn records(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
        for (key, value) in self.0.lock().iter().filter(|(key, _)| key.starts_with(prefix)) {
            visit(key, value);
        }
        Ok(())
    }
}

enum Entry {
    LevelCommand(Vec<u8>),
    PlayProps { level: String, props: String, ms: i64 },
}

/// The game, its store and its log.
pub(crate) struct World {
    pub records: Arc<Memory>,
    live: LiveOps,
    tail: Vec<(u64, Entry)>,
    pub offset: u64,
    pub now_ms: i64,
    pub tz: String,
}

/// A published level without optional fields.
pub(crate) fn level(id: &str, player: &str, name: &str, data: &str) -> (SaveLevel, Vec<u8>) {
    let packed = PackedLevel::new(data, None).expect("data within its limits");
    let save = SaveLevel {
        id: id.to_owned(),
        name: name.to_owned(),
        player: player.to_owned(),
        player_name: String::new(),
        fields: BTreeMap::new(),
        source: String::new(),
        state: LevelState::Published,
        data: packed.data,
        thumb: None,
    };
    (save, packed.blob)
}

pub(crate) fn server() -> Principal {
    Principal { caller: Caller::Server, signed: None }
}

impl World {
    pub(crate) fn new() -> World {
        let records = Arc::new(Memory::default());
        let live = LiveOps::open(Arc::clone(&records) as _).expect("an empty store");
        let (offset, tz) = (0, "UTC".to_owned());
        World { records, live, tail: Vec::new(), offset, now_ms: 1_795_132_800_000, tz }
    }

    pub(crate) fn game(&self) -> Arc<RwLock<Game>> {
        self.live.game(GAME)
    }

    pub(crate) fn apply(
        &mut self,
        by: Principal,
        command: LevelCommand,
        blob: &[u8],
    ) -> Result<CommandResponse, Refusal> {
        self.submit(by, liveops::Command::Levels(command), blob)
    }

    pub(crate) fn submit(
        &mut self,
        by: Principal,
        command: liveops::Command,
        blob: &[u8],
    ) -> Result<CommandResponse, Refusal> {
        let (received_ms, tz) = (self.now_ms, self.tz.clone());
        let entry = CommandRef { game: GAME, received_ms, by, tz, idempotency: None, command, blob };
        let bytes = encode(&entry);
        self.offset += 1;
        let applied = self.live.apply(self.offset, &bytes).expect("a command");
        self.tail.push((self.offset, Entry::LevelCommand(bytes)));
        applied.outcome
    }

    /// Applies a `$level` event with these props.
    pub(crate) fn played(&mut self, level: &str, props: &str) {
        self.offset += 1;
        let entry = Entry::PlayProps { level: level.to_owned(), props: props.to_owned(), ms: self.now_ms };
        apply(&self.live, self.offset, &entry);
        self.tail.push((self.offset, entry));
    }

    pub(crate) fn checkpoint(&mut self) {
        self.records.write(self.live.changes());
        self.tail.clear();
    }

    /// Restarts as after `kill -9`: from the store as of the last checkpoint and the log after it.
    pub(crate) fn crash(&mut self) {
        self.live = LiveOps::open(Arc::clone(&self.records) as _).expect("a store that opens");
        for (offset, entry) in &self.tail {
            apply(&self.live, *offset, entry);
        }
    }

    pub(crate) fn erase(&mut self, player: &str) {
        // Erasure is a command of another subject; here a checkpoint follows instead.
        self.game().write().levels.erase_player(player);
        self.checkpoint();
    }

    pub(crate) fn list(&self, list: &LevelQuery) -> LevelPage {
        let game = self.game();
        let game = game.read();
        game.levels.list(list, self.now_ms, &self.tz).expect("a page")
    }

    pub(crate) fn load(&self, id: &str, viewer: &LevelViewer) -> Option<LevelRow> {
        let found = self.game().read().levels.load(id, viewer).expect("the store answers")?;
        Some(found.row().expect("data that can be read"))
    }

    /// Opens a session of this player and returns a signed principal.
    pub(crate) fn session(&mut self, player: &str) -> Principal {
        let session = format!("session-of-{player}");
        let open = players::PlayerCommand::OpenSession {
            session: session.clone(),
            player: player.to_owned(),
            name: String::new(),
        };
        self.submit(server(), liveops::Command::Players(open), &[]).expect("a session");
        let nonce = format!("nonce-{}", self.offset);
        Principal { caller: Caller::Public, signed: Some(RequestSignature { session, nonce }) }
    }
}

fn apply(live: &LiveOps, offset: u64, entry: &Entry) {
    match entry {
        Entry::LevelCommand(bytes) => {
            let _ = live.apply(offset, bytes).expect("a command");
        }
        Entry::PlayProps { level, props, ms } => {
            let mut event = StoredEvent {
                ts_ms: *ms,
                name: b"$level",
                props: props.as_bytes(),
                ..StoredEvent::default()
            };
            event.dimensions[Dimension::Level as usize] = level.as_bytes();
            live.apply_event(GAME, offset, &event);
        }
    }
}

pub(crate) fn decision(word: &str) -> Decision {
    match word {
        "keep" => Decision::Keep,
        "remove" => Decision::Remove,
        other => panic!("no decision {other}"),
    }
}

pub(crate) fn state(word: &str) -> LevelState {
    match word {
        "draft" => LevelState::Draft,
        "published" => LevelState::Published,
        "removed" => LevelState::Removed,
        other => panic!("no state {other}"),
    }
}
