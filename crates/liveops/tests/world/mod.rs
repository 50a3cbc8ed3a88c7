//! Live-ops on a store of maps, with a log that is applied again after a crash.

#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use liveops;

use liveops::{Answer, By, Caller, Command, CommandRef, Game, LiveOps, Refusal};
use model::ports::counters::StoreError;
use model::ports::records::{RecordWrite, Records};

/// The game that tests are about.
pub const GAME: u32 = 7;

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
pub struct World {
    store: Arc<Store>,
    liveops: LiveOps,
    /// What came after the last checkpoint.
    tail: Vec<(u64, Vec<u8>)>,
    offset: u64,
    /// The time of the next command.
    pub now_ms: i64,
}

impl World {
    pub fn new(now_ms: i64) -> World {
        let store = Arc::new(Store::default());
        let liveops = open(&store);
        World { store, liveops, tail: Vec::new(), offset: 0, now_ms }
    }

    /// Sends a command as a secret key.
    pub fn send(&mut self, command: Command) -> Result<Answer, Refusal> {
        self.send_as(Caller::Server, command)
    }

    pub fn send_as(&mut self, caller: Caller, command: Command) -> Result<Answer, Refusal> {
        let entry = CommandRef {
            game: GAME,
            received_ms: self.now_ms,
            by: By { caller, signed: None },
            tz: "UTC".into(),
            idempotency: None,
            command,
            blob: &[],
        };
        let bytes = liveops::encode(&entry);
        self.offset += 1;
        let applied = self.liveops.apply(self.offset, &bytes).expect("it was encoded just now");
        self.tail.push((self.offset, bytes));
        applied.outcome
    }

    /// Reads the game's state.
    pub fn read<T>(&self, look: impl FnOnce(&Game) -> T) -> T {
        look(&self.liveops.game(GAME).read())
    }

    /// Changes the game's state as a command of another subject would.
    pub fn write<T>(&self, change: impl FnOnce(&mut Game) -> T) -> T {
        change(&mut self.liveops.game(GAME).write())
    }

    pub fn checkpoint(&mut self) {
        self.store.write(self.liveops.changes());
        self.tail.clear();
    }

    /// Forgets everything in memory; reads the store and applies the log from the last checkpoint on.
    pub fn restart(&mut self) {
        self.liveops = open(&self.store);
        for (offset, bytes) in &self.tail {
            self.liveops.apply(*offset, bytes).expect("it could be read before").outcome.ok();
        }
    }

    /// Every byte in the store.
    pub fn bytes(&self) -> Vec<u8> {
        let records = self.store.0.lock().expect("no test panics while it reads");
        records.iter().flat_map(|(key, value)| [key.as_slice(), value].concat()).collect()
    }
}

fn open(store: &Arc<Store>) -> LiveOps {
    LiveOps::open(Arc::clone(store) as Arc<dyn Records>).expect("the store is whole")
}

/// Numbers that look random and are the same every time.
pub struct Dice(pub u64);

impl Dice {
    /// Below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        // SplitMix64, Steele, Lea and Flood 2014.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    /// True once in `sides` rolls.
    pub fn once_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.roll(from.len() as u64) as usize]
    }
}
