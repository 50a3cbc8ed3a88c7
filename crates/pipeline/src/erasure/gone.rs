//! What of the log has to go, and what takes its place.

use hashbrown::HashMap;
use liveops::players::{Found, Traces, game_of};
use model::batch::{ErasureScope, EventBatch, StoredEvent};
use wal::{EntryRef, Replacement, Rewriter};

use crate::ingest::{BATCH, COMMAND, ERASED, IdMasks};
use crate::views::Seeds;

/// A player who is to be forgotten.
pub(super) struct Asked {
    pub(super) game: u32,
    pub(super) receipt: String,
    /// What comes later in the log stays.
    pub(super) offset: u64,
    pub(super) ids: Vec<String>,
}

/// Finds these players in the log and takes them out.
pub(super) struct Eraser<'a> {
    asked: &'a [Asked],
    found: Vec<Found>,
    games: HashMap<u32, Traces>,
    seeds: &'a Seeds,
    masks: &'a IdMasks,
    /// The set of ids needs no log before this offset.
    remembered: u64,
}

impl<'a> Eraser<'a> {
    /// `asked` is in the order of the log.
    pub(super) fn new(
        asked: &'a [Asked],
        seeds: &'a Seeds,
        masks: &'a IdMasks,
        remembered: u64,
    ) -> Eraser<'a> {
        let mut games: HashMap<u32, Traces> = HashMap::new();
        for (number, asked) in asked.iter().enumerate() {
            let traces = games.entry(asked.game).or_default();
            asked.ids.iter().for_each(|id| traces.add(id, number));
        }
        let found = vec![Found::default(); asked.len()];
        Eraser { asked, found, games, seeds, masks, remembered }
    }

    /// What was found of each.
    pub(super) fn found(self) -> Vec<Found> {
        self.found
    }

    /// Whom a command is about, of those who are to be forgotten.
    fn in_command(&mut self, entry: &EntryRef<'_>) -> Option<usize> {
        let traces = self.games.get_mut(&game_of(entry.bytes).ok()?)?;
        // One that cannot be read was passed over when it was to be decided.
        let number = traces.in_command(entry.bytes).ok()??;
        (entry.offset <= self.asked[number].offset).then_some(number)
    }

    fn in_event(
        &self,
        traces: &Traces,
        offset: u64,
        event: &StoredEvent<'_>,
    ) -> Option<(usize, ErasureScope)> {
        if event.erased {
            return None;
        }
        let is_asked = |number: &usize| offset <= self.asked[*number].offset;
        let of = |id: &[u8]| traces.whose(id).filter(is_asked);
        of(event.player)
            .map(|number| (number, ErasureScope::Player))
            .or_else(|| of(event.anonymous).map(|number| (number, ErasureScope::Anonymous)))
    }

    fn replace_batch(&mut self, entry: &EntryRef<'_>) -> Option<Vec<u8>> {
        let batch = EventBatch::read(entry.bytes).ok()?;
        let traces = self.games.get(&batch.game)?;
        let gone: Vec<_> = batch.events().map(|event| self.in_event(traces, entry.offset, &event)).collect();
        if gone.iter().all(Option::is_none) {
            return None;
        }
        let mask = self.masks.of(batch.game, batch.class);
        // What is not in the set of ids yet must be found in the log by the next start.
        let masked = |id: u128| (entry.until() > self.remembered).then_some(id ^ mask.0);
        let mut what = gone.iter().map(|gone| gone.map_or(ErasureScope::None, |(_, gone)| gone));
        let bytes =
            batch.erase(self.seeds.of(batch.game), |_| what.next().unwrap_or(ErasureScope::None), masked);
        gone.iter().flatten().for_each(|(number, _)| self.found[*number].events += 1);
        Some(bytes)
    }
}

impl Rewriter for Eraser<'_> {
    fn affects(&mut self, entry: &EntryRef<'_>) -> bool {
        match entry.kind {
            COMMAND => self.in_command(entry).is_some(),
            BATCH => EventBatch::read(entry.bytes).is_ok_and(|batch| {
                let traces = self.games.get(&batch.game);
                let is_gone = |traces| {
                    batch.events().any(|event| self.in_event(traces, entry.offset, &event).is_some())
                };
                traces.is_some_and(is_gone)
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
