//! Live-ops of all games: applies log entries, and restores the state from records.

use std::sync::Arc;

use hashbrown::HashMap;
use model::batch::StoredEvent;
use model::ports::counters::StoreError;
use model::ports::records::{RecordWrite, Records};
use parking_lot::{Mutex, RwLock};

use crate::command::{CommandDecodeError, CommandRef};
use crate::game::{Game, LogPoint, Touched};
use crate::{CommandResponse, RecordError, Refusal};

/// The live-ops of every game.
pub struct LiveOps {
    records: Arc<dyn Records>,
    games: RwLock<HashMap<u32, Arc<RwLock<Game>>>>,
    /// The records of removed games, until the next checkpoint.
    removed: Mutex<Vec<RecordWrite>>,
}

/// The result of applying a log entry.
#[derive(Debug)]
pub struct AppliedCommand {
    /// The game's number.
    pub game: u32,
    /// The response to the client, or the reason why nothing changed.
    pub outcome: Result<CommandResponse, Refusal>,
    /// The topics that changed, for subscribers.
    pub touched: Vec<Touched>,
}

impl LiveOps {
    /// Restores the state from the store's records. The log must then be applied from the position of the last
    /// checkpoint.
    ///
    /// Fails if the store cannot be read or a record is damaged.
    pub fn open(records: Arc<dyn Records>) -> Result<LiveOps, StoreError> {
        let mut games: HashMap<u32, Game> = HashMap::new();
        let mut damage = None;
        records.records(&[], &mut |key, value| {
            let read = restore(&mut games, &records, key, value);
            damage = damage.take().or(read.err());
        })?;
        if let Some(damage) = damage {
            return Err(StoreError(damage.to_string()));
        }
        games.values_mut().for_each(Game::finish_restore);
        let shared = games.into_iter().map(|(number, game)| (number, Arc::new(RwLock::new(game))));
        Ok(LiveOps { records, games: RwLock::new(shared.collect()), removed: Mutex::default() })
    }

    /// Returns the state of a game for reading. Only `LiveOps` changes it, by applying entries, events and links.
    pub fn game(&self, number: u32) -> Arc<RwLock<Game>> {
        if let Some(game) = self.games.read().get(&number) {
            return Arc::clone(game);
        }
        let new = || Arc::new(RwLock::new(Game::new(number, &self.records)));
        Arc::clone(self.games.write().entry(number).or_insert_with(new))
    }

    /// Applies one command of the log. Must be called once for each, in log order.
    ///
    /// Fails if the bytes are not a command; the state is then unchanged.
    pub fn apply(&self, offset: u64, bytes: &[u8]) -> Result<AppliedCommand, CommandDecodeError> {
        let entry = CommandRef::read(bytes)?;
        let (number, mut touched) = (entry.game, Vec::new());
        let at = LogPoint { offset, ms: entry.received_ms };
        let outcome = self.game(number).write().apply(at, entry, &mut touched);
        Ok(AppliedCommand { game: number, outcome, touched })
    }

    /// Returns true if live-ops depend on events of this name.
    pub fn is_relevant_event(name: &[u8]) -> bool {
        name == b"$level"
    }

    /// Applies an accepted event. Must be called once for each that [`LiveOps::is_relevant_event`] selects, in log
    /// order.
    pub fn apply_event(&self, game: u32, offset: u64, event: &StoredEvent<'_>) {
        self.game(game).write().apply_event(LogPoint { offset, ms: event.ts_ms }, event);
    }

    /// Applies an identity link. Must be called for every event that links an anonymous id to a player, in log order.
    pub fn apply_link(&self, game: u32, anonymous: &[u8], player: &[u8]) {
        let (anonymous, player) = (String::from_utf8_lossy(anonymous), String::from_utf8_lossy(player));
        self.game(game).write().apply_link(&anonymous, &player);
    }

    /// Returns the games that have an erasure in progress.
    pub fn games_with_erasures(&self) -> Vec<u32> {
        let games = self.games.read();
        let erasing = games.iter().filter(|(_, game)| game.read().players.is_erasing());
        erasing.map(|(number, _)| *number).collect()
    }

    /// Returns the games that have alert rules.
    pub fn games_with_alerts(&self) -> Vec<u32> {
        let games = self.games.read();
        games.iter().filter(|(_, game)| !game.read().alerts.is_empty()).map(|(number, _)| *number).collect()
    }

    /// Removes everything of a deleted game, to which no entry is applied any more. Everything applied must be in the
    /// store. The next checkpoint removes the records.
    pub fn remove_game(&self, number: u32) -> Result<(), StoreError> {
        let mut removed = Vec::new();
        self.records.records(&number.to_be_bytes(), &mut |key, _| {
            removed.push(RecordWrite { key: key.to_vec(), value: None });
        })?;
        self.games.write().remove(&number);
        self.removed.lock().extend(removed);
        Ok(())
    }

    /// Returns the records that changed since the previous call, for the next checkpoint.
    pub fn changes(&self) -> Vec<RecordWrite> {
        let games: Vec<_> =
            self.games.read().iter().map(|(number, game)| (*number, Arc::clone(game))).collect();
        let mut writes = std::mem::take(&mut *self.removed.lock());
        for (number, game) in games {
            game.write().changes(number, &mut writes);
        }
        writes
    }
}

fn restore(
    games: &mut HashMap<u32, Game>,
    records: &Arc<dyn Records>,
    key: &[u8],
    value: &[u8],
) -> Result<(), RecordError> {
    let (prefix, key) =
        key.split_first_chunk::<5>().ok_or_else(|| RecordError("a key is too short".to_owned()))?;
    let number = u32::from_be_bytes([prefix[0], prefix[1], prefix[2], prefix[3]]);
    if !Game::is_restored(prefix[4]) {
        return Ok(());
    }
    games.entry(number).or_insert_with(|| Game::new(number, records)).restore(prefix[4], key, value)
}
