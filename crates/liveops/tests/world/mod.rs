//! Live-ops on a store of maps, with a log that is applied again after a crash.

#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use liveops::{Caller, Command, CommandRef, CommandResponse, Game, Idempotency, LiveOps, Principal, Refusal};
use model::batch::StoredEvent;
use model::event::Dimension;
use model::ports::counters::StoreError;
use model::ports::records::{RecordWrite, Records};

/// The game of the tests.
pub(crate) const GAME: u32 = 7;

/// Records as of the last checkpoint.
#[derive(Default)]
struct Store(Mutex<BTreeMap<Vec<u8>, Vec<u8>>>);

impl Store {
    fn write(&self, writes: Vec<RecordWrite>) {
        let mut records = self.0.lock().expect("no test panics while it writes");
        for RecordWrite { key, value } in writes {
            match value {
                Some(value) => records.insert(key, value),
                None => records.remove(&key),
            };
        }
    }
}

impl Records for Store {
    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.lock().expect("no test panics while it reads").get(key).cloned())
    }

    fn records(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
        let records = self.0.lock().expect("no test panics while it reads");
        let found = records.range(prefix.to_vec()..).take_while(|(key, _)| key.starts_with(prefix));
        found.for_each(|(key, value)| visit(key, value));
        Ok(())
    }
}

/// One server's live-ops.
pub(crate) struct World {
    store: Arc<Store>,
    liveops: LiveOps,
    /// Entries after the last checkpoint.
    tail: Vec<(u64, Vec<u8>)>,
    offset: u64,
    /// The time of the next command.
    pub now_ms: i64,
}

impl World {
    pub(crate) fn new(now_ms: i64) -> World {
        let store = Arc::new(Store::default());
        let liveops = open(&store);
        World { store, liveops, tail: Vec::new(), offset: 0, now_ms }
    }

    /// Sends a command with a secret key.
    pub(crate) fn send(&mut self, command: Command) -> Result<CommandResponse, Refusal> {
        self.send_as(Caller::Server, command)
    }

    pub(crate) fn send_as(&mut self, caller: Caller, command: Command) -> Result<CommandResponse, Refusal> {
        self.send_blob(caller, command, &[])
    }

    pub(crate) fn send_blob(
        &mut self,
        caller: Caller,
        command: Command,
        blob: &[u8],
    ) -> Result<CommandResponse, Refusal> {
        self.send_whole(Principal { caller, signed: None }, None, command, blob)
    }

    pub(crate) fn send_whole(
        &mut self,
        by: Principal,
        idempotency: Option<Idempotency>,
        command: Command,
        blob: &[u8],
    ) -> Result<CommandResponse, Refusal> {
        let entry = CommandRef {
            game: GAME,
            received_ms: self.now_ms,
            by,
            tz: "UTC".into(),
            idempotency,
            command,
            blob,
        };
        let bytes = liveops::encode(&entry);
        self.offset += 1;
        let applied = self.liveops.apply(self.offset, &bytes).expect("it was encoded just now");
        self.tail.push((self.offset, bytes));
        applied.outcome
    }

    /// Reads the game's state.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&Game) -> T) -> T {
        look(&self.liveops.game(GAME).read())
    }

    /// Changes the game's state as a command of another subject would.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut Game) -> T) -> T {
        change(&mut self.liveops.game(GAME).write())
    }

    pub(crate) fn checkpoint(&mut self) {
        self.store.write(self.liveops.changes());
        self.tail.clear();
    }

    /// Restarts from the store and the log after the last checkpoint.
    pub(crate) fn restart(&mut self) {
        self.liveops = open(&self.store);
        for (offset, bytes) in &self.tail {
            self.liveops.apply(*offset, bytes).expect("it could be read before").outcome.ok();
        }
    }

    /// Applies a `$level` event.
    pub(crate) fn play(&mut self, level: &str, player: &str, state: &str) {
        self.offset += 1;
        let props = format!(r#"{{"state":"{state}"}}"#);
        let (player, props) = (player.as_bytes(), props.as_bytes());
        let mut event =
            StoredEvent { ts_ms: self.now_ms, name: b"$level", player, props, ..StoredEvent::default() };
        event.dimensions[Dimension::Level as usize] = level.as_bytes();
        self.liveops.apply_event(GAME, self.offset, &event);
    }

    /// Applies an identity link.
    pub(crate) fn link(&self, anonymous: &str, player: &str) {
        self.liveops.apply_link(GAME, anonymous.as_bytes(), player.as_bytes());
    }

    /// Returns all records of the store.
    pub(crate) fn records(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.store.0.lock().expect("no test panics while it reads").clone()
    }

    /// Returns all bytes of the store.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let records = self.store.0.lock().expect("no test panics while it reads");
        records.iter().flat_map(|(key, value)| [key.as_slice(), value].concat()).collect()
    }
}

fn open(store: &Arc<Store>) -> LiveOps {
    LiveOps::open(Arc::clone(store) as Arc<dyn Records>).expect("the store is whole")
}

/// Deterministic pseudo-random numbers.
pub(crate) struct Dice(pub u64);

impl Dice {
    /// Returns a number below `sides`.
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        // SplitMix64, Steele, Lea and Flood 2014.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    /// Returns true once in `sides` rolls.
    pub(crate) fn once_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.roll(from.len() as u64) as usize]
    }
}
