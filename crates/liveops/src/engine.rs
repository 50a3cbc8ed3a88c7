//! All games: from an entry of the log to an answer, and from records back to state.

use std::sync::Arc;

use hashbrown::HashMap;
use model::batch::StoredEvent;
use model::ports::counters::StoreError;
use model::ports::records::{RecordWrite, Records};
use parking_lot::RwLock;

use crate::command::{BadCommand, CommandRef};
use crate::game::{At, Game, Touched};
use crate::{Answer, Damaged, Refusal};

/// Live-ops of every game.
pub struct LiveOps {
    records: Arc<dyn Records>,
    games: RwLock<HashMap<u32, Arc<RwLock<Game>>>>,
}

/// What became of an entry.
#[derive(Debug)]
pub struct Applied {
    /// The tenant.
    pub game: u32,
    /// What the caller is told.
    pub outcome: Result<Answer, Refusal>,
    /// What watchers are to be told about.
    pub touched: Vec<Touched>,
}

impl LiveOps {
    /// Everything that the store's records say. The log is then applied from the position of the last checkpoint on.
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
        games.values_mut().for_each(Game::restored);
        let shared = games.into_iter().map(|(number, game)| (number, Arc::new(RwLock::new(game))));
        Ok(LiveOps { records, games: RwLock::new(shared.collect()) })
    }

    /// The state of a game, to be read. Only [`LiveOps::apply`] and [`LiveOps::event`] change it.
    pub fn game(&self, number: u32) -> Arc<RwLock<Game>> {
        if let Some(game) = self.games.read().get(&number) {
            return Arc::clone(game);
        }
        let new = || Arc::new(RwLock::new(Game::new(number, &self.records)));
        Arc::clone(self.games.write().entry(number).or_insert_with(new))
    }

    /// Decides one entry of the log. Called once for each, in log order.
    pub fn apply(&self, offset: u64, bytes: &[u8]) -> Result<Applied, BadCommand> {
        let entry = CommandRef::read(bytes)?;
        let (number, mut touched) = (entry.game, Vec::new());
        let at = At { offset, ms: entry.received_ms };
        let outcome = self.game(number).write().apply(at, entry, &mut touched);
        Ok(Applied { game: number, outcome, touched })
    }

    /// Whether live-ops take note of events of this name.
    pub fn is_wanted(name: &[u8]) -> bool {
        name == b"$level"
    }

    /// Takes note of an accepted event. Called once for each that [`LiveOps::is_wanted`], in log order.
    pub fn event(&self, game: u32, offset: u64, event: &StoredEvent<'_>) {
        self.game(game).write().event(At { offset, ms: event.ts_ms }, event);
    }

    /// Takes note that an anonymous id was found to be a player's. Called for every event that says so, in log order.
    pub fn linked(&self, game: u32, anonymous: &[u8], player: &[u8]) {
        let (anonymous, player) = (String::from_utf8_lossy(anonymous), String::from_utf8_lossy(player));
        self.game(game).write().linked(&anonymous, &player);
    }

    /// The games in which something is to be erased.
    pub fn erasing(&self) -> Vec<u32> {
        let games = self.games.read();
        let erasing = games.iter().filter(|(_, game)| game.read().players.is_erasing());
        erasing.map(|(number, _)| *number).collect()
    }

    /// The records that changed since the last call, for the next checkpoint.
    pub fn changes(&self) -> Vec<RecordWrite> {
        let games: Vec<_> =
            self.games.read().iter().map(|(number, game)| (*number, Arc::clone(game))).collect();
        let mut writes = Vec::new();
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
) -> Result<(), Damaged> {
    let (prefix, key) =
        key.split_first_chunk::<5>().ok_or_else(|| Damaged("a key is too short".to_owned()))?;
    let number = u32::from_be_bytes([prefix[0], prefix[1], prefix[2], prefix[3]]);
    if !Game::is_restored(prefix[4]) {
        return Ok(());
    }
    games.entry(number).or_insert_with(|| Game::new(number, records)).restore(prefix[4], key, value)
}
