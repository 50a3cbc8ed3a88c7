//! Rewriting log entries without erased players.

use hashbrown::HashMap;
use liveops::players::{ErasedCounts, PlayerIdIndex, game_of_command};
use model::batch::{ErasureScope, EventBatch, StoredEvent};
use wal::{EntryRef, Replacement, Rewriter};

use crate::ingest::{BATCH, COMMAND, ERASED, IdMasks};
use crate::views::PlayerSeeds;

/// A request to erase a player.
pub(super) struct ErasureRequest {
    pub(super) game: u32,
    pub(super) receipt: String,
    /// The log offset of the request. Later entries stay.
    pub(super) offset: u64,
    pub(super) ids: Vec<String>,
}

/// Finds the players of some requests in log entries and removes them.
pub(super) struct LogEraser<'a> {
    requests: &'a [ErasureRequest],
    found: Vec<ErasedCounts>,
    games: HashMap<u32, PlayerIdIndex>,
    seeds: &'a PlayerSeeds,
    masks: &'a IdMasks,
    /// Event ids before this offset need no replay from the log.
    registered_until: u64,
}

impl<'a> LogEraser<'a> {
    /// `requests` are in log order.
    pub(super) fn new(
        requests: &'a [ErasureRequest],
        seeds: &'a PlayerSeeds,
        masks: &'a IdMasks,
        registered_until: u64,
    ) -> LogEraser<'a> {
        let mut games: HashMap<u32, PlayerIdIndex> = HashMap::new();
        for (number, request) in requests.iter().enumerate() {
            let traces = games.entry(request.game).or_default();
            request.ids.iter().for_each(|id| traces.add(id, number));
        }
        let found = vec![ErasedCounts::default(); requests.len()];
        LogEraser { requests, found, games, seeds, masks, registered_until }
    }

    /// Returns what was found of each player.
    pub(super) fn found(self) -> Vec<ErasedCounts> {
        self.found
    }

    /// Returns the number of the request whose player the command is about.
    fn in_command(&mut self, entry: &EntryRef<'_>) -> Option<usize> {
        let traces = self.games.get_mut(&game_of_command(entry.bytes).ok()?)?;
        // A command that cannot be read was skipped when it was applied.
        let number = traces.find_in_command(entry.bytes).ok()??;
        (entry.offset <= self.requests[number].offset).then_some(number)
    }

    /// Returns the number of the request whose player the event names, and what to erase of the event.
    fn in_event(
        &self,
        traces: &PlayerIdIndex,
        offset: u64,
        event: &StoredEvent<'_>,
    ) -> Option<(usize, ErasureScope)> {
        if event.erased {
            return None;
        }
        let is_before_request = |number: &usize| offset <= self.requests[*number].offset;
        let of = |id: &[u8]| traces.find(id).filter(is_before_request);
        of(event.player)
            .map(|number| (number, ErasureScope::Player))
            .or_else(|| of(event.anonymous).map(|number| (number, ErasureScope::Anonymous)))
    }

    fn replace_batch(&mut self, entry: &EntryRef<'_>) -> Option<Vec<u8>> {
        let batch = EventBatch::read(entry.bytes).ok()?;
        let traces = self.games.get(&batch.game)?;
        let scopes: Vec<_> =
            batch.events().map(|event| self.in_event(traces, entry.offset, &event)).collect();
        if scopes.iter().all(Option::is_none) {
            return None;
        }
        let mask = self.masks.of(batch.game, batch.class);
        // The next start replays the ids that are not registered yet, so they stay in the log, masked.
        let masked = |id: u128| (entry.until() > self.registered_until).then_some(id ^ mask.0);
        let mut each = scopes.iter().map(|scope| scope.map_or(ErasureScope::None, |(_, scope)| scope));
        let bytes =
            batch.erase(self.seeds.of(batch.game), |_| each.next().unwrap_or(ErasureScope::None), masked);
        scopes.iter().flatten().for_each(|(number, _)| self.found[*number].events += 1);
        Some(bytes)
    }
}

impl Rewriter for LogEraser<'_> {
    fn affects(&mut self, entry: &EntryRef<'_>) -> bool {
        match entry.kind {
            COMMAND => self.in_command(entry).is_some(),
            BATCH => EventBatch::read(entry.bytes).is_ok_and(|batch| {
                let traces = self.games.get(&batch.game);
                let names_player = |traces| {
                    batch.events().any(|event| self.in_event(traces, entry.offset, &event).is_some())
                };
                traces.is_some_and(names_player)
            }),
            _ => false,
        }
    }

    fn replace(&mut self, entry: &EntryRef<'_>) -> Option<Replacement> {
        match entry.kind {
            COMMAND => {
                let number = self.in_command(entry)?;
                self.found[number].commands += 1;
                Some(Replacement { kind: ERASED, bytes: Vec::new() })
            }
            BATCH => self.replace_batch(entry).map(|bytes| Replacement { kind: BATCH, bytes }),
            _ => None,
        }
    }
}
