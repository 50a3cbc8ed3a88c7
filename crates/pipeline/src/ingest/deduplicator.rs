//! Deduplication: the log's writer removes repeated events in log order, just before they are written.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use model::batch::EventBatch;
use model::ports::ids::{Claim, Ids, IdsError};
use tracing::error;
use wal::{PendingEntry, Sequencer, WalError};

use crate::deleted_games::DeletedGames;
use crate::disk_space::DiskSpace;

/// The event ids of one batch and the result of claiming them.
#[derive(Debug, Default)]
pub struct Claims {
    claims: Vec<Claim>,
    /// The events that the ids belong to, as ordinals in the batch.
    ordinals: Vec<u32>,
    /// The ordinals of the events that were removed as duplicates, ascending.
    pub(super) removed: Vec<u32>,
}

impl Claims {
    /// Reserves room for this number of ids.
    pub(super) fn with_capacity(events: usize) -> Claims {
        Claims {
            claims: Vec::with_capacity(events),
            ordinals: Vec::with_capacity(events),
            ..Claims::default()
        }
    }

    /// Adds the id of the event with this ordinal in the batch.
    pub(super) fn push(&mut self, ordinal: u32, claim: Claim) {
        self.claims.push(claim);
        self.ordinals.push(ordinal);
    }
}

/// The log position up to which event ids are registered on disk, so that they need no replay from the log.
pub(crate) type RegisteredUntil = Arc<AtomicU64>;

/// Removes repeated events before they are written to the log.
pub(crate) struct Deduplicator {
    ids: Box<dyn Ids>,
    registered_until: RegisteredUntil,
    space: Arc<DiskSpace>,
    deleted_games: Arc<DeletedGames>,
    /// The claims of the commit that is being decided.
    claims: Vec<Claim>,
    fresh: Vec<bool>,
}

impl Deduplicator {
    /// Creates a deduplicator over ids that contain every event in the log.
    pub(crate) fn new(
        ids: Box<dyn Ids>,
        registered_until: RegisteredUntil,
        space: Arc<DiskSpace>,
        deleted_games: Arc<DeletedGames>,
    ) -> Deduplicator {
        let (claims, fresh) = (Vec::new(), Vec::new());
        Deduplicator { ids, registered_until, space, deleted_games, claims, fresh }
    }

    /// Claims the ids of each entry by itself and rejects the entries for which that fails.
    fn claim_each(&mut self, batch: &mut [PendingEntry<Claims>], first: u64, now_ms: u64) {
        self.claims.clear();
        let has_claims =
            |pending: &&mut PendingEntry<Claims>| !pending.is_rejected() && !pending.extra.claims.is_empty();
        for pending in batch.iter_mut().filter(has_claims) {
            match self.ids.claim(first, now_ms, &pending.extra.claims, &mut self.fresh) {
                Ok(()) => self.claims.extend_from_slice(&pending.extra.claims),
                Err(failure) => {
                    error!(%failure, events = pending.events, "event ids cannot be claimed; the batch is rejected");
                    pending.reject(rejection(&failure));
                }
            }
        }
    }

    /// Removes the events of an entry whose ids are not fresh.
    fn remove_duplicates(pending: &mut PendingEntry<Claims>, fresh: &[bool]) {
        if fresh.iter().all(|fresh| *fresh) {
            return;
        }
        let repeated = pending.extra.ordinals.iter().zip(fresh).filter(|(_, fresh)| !**fresh);
        let removed: Vec<u32> = repeated.map(|(ordinal, _)| *ordinal).collect();
        let batch = EventBatch::read(&pending.bytes).expect("ingest encoded this batch a moment ago");
        (pending.bytes, pending.events) = batch.without(&removed);
        pending.extra.removed = removed;
    }
}

impl Sequencer<Claims> for Deduplicator {
    /// Claims all ids of a commit at once, so that they are looked up together and released together if the disk is
    /// full. If that fails, each entry claims its own, so that only those fail whose ids cannot be looked up.
    fn decide(&mut self, batch: &mut [PendingEntry<Claims>], first: u64, now_ms: u64) {
        self.claims.clear();
        self.fresh.clear();
        if self.space.is_full() {
            batch.iter_mut().for_each(|pending| pending.reject(WalError::Full));
            return;
        }
        // Here nothing gets past: a deletion removes everything that is in the log after this check began to fail.
        for pending in batch.iter_mut() {
            if self.deleted_games.contains_entry(pending.kind, &pending.bytes) {
                pending.reject(WalError::Rejected { reason: "the game is deleted".into() });
            }
        }
        let admitted = batch.iter().filter(|pending| !pending.is_rejected());
        admitted.for_each(|pending| self.claims.extend_from_slice(&pending.extra.claims));
        if self.ids.claim(first, now_ms, &self.claims, &mut self.fresh).is_err() {
            self.claim_each(batch, first, now_ms);
        }
        let mut fresh = self.fresh.as_slice();
        for pending in batch.iter_mut().filter(|pending| !pending.is_rejected()) {
            let (own, rest) = fresh.split_at(pending.extra.claims.len());
            Deduplicator::remove_duplicates(pending, own);
            fresh = rest;
        }
        self.registered_until.store(self.ids.registered_until(), Ordering::Release);
    }

    fn undo(&mut self, _: &mut [PendingEntry<Claims>]) {
        let both = self.claims.iter().zip(&self.fresh);
        let granted: Vec<Claim> = both.filter(|(_, fresh)| **fresh).map(|(claim, _)| *claim).collect();
        self.ids.release(&granted);
    }
}

/// Returns the error of an entry whose ids could not be looked up.
fn rejection(failure: &IdsError) -> WalError {
    match failure {
        IdsError::Full => WalError::Full,
        IdsError::Unavailable(_) | IdsError::Corrupt(_) => {
            WalError::Rejected { reason: "event ids cannot be looked up at the moment".into() }
        }
    }
}
