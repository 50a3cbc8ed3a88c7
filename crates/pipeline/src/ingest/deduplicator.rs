//! Which events are new: decided by the log's writer, in log order, just before they are written.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use model::batch::{EventBatch, KeyClass, StoredEvent};
use model::ports::ids::{Claim, IdMask, Ids};
use parking_lot::RwLock;
use sha2::{Digest, Sha256};
use tracing::error;
use wal::{OpenedWal, PendingEntry, Sequencer};

use super::BATCH;

/// What is read from the log at a time.
const READ_BYTES: usize = 8 << 20;

/// The ids of one batch on their way through the log, and what was found about them.
#[derive(Debug, Default)]
pub struct Claims {
    claims: Vec<Claim>,
    /// Whose ids these are, as ordinals among the batch's events.
    ordinals: Vec<u32>,
    /// The events that were left out as duplicates, ascending.
    pub removed: Vec<u32>,
    /// The ids could not be looked up; the batch was left out.
    pub failed: bool,
}

impl Claims {
    /// Room for so many ids.
    pub fn with_capacity(events: usize) -> Claims {
        Claims {
            claims: Vec::with_capacity(events),
            ordinals: Vec::with_capacity(events),
            ..Claims::default()
        }
    }

    /// Adds the id of the batch's event with this ordinal.
    pub fn push(&mut self, ordinal: u32, claim: Claim) {
        self.claims.push(claim);
        self.ordinals.push(ordinal);
    }
}

/// How far the ids need no log to be remembered after a restart.
pub type Remembered = Arc<AtomicU64>;

/// Claims again what the ids have not on disk. Called once, before anything is appended.
pub fn remember(opened: &OpenedWal, ids: &mut dyn Ids, masks: &IdMasks) -> anyhow::Result<()> {
    let report = opened.report();
    let mut at = ids.registered_until().max(report.first);
    let mut fresh = Vec::new();
    while at < report.next {
        let read = opened.read(at, READ_BYTES)?;
        for chunk in &read.chunks {
            for entry in chunk.entries_from(at) {
                if entry.kind != BATCH {
                    continue;
                }
                let Ok(batch) = EventBatch::read(entry.bytes) else { continue };
                let mask = masks.of(batch.game, batch.class);
                // The id of a forgotten player's event is masked already.
                let unmasked =
                    |event: &StoredEvent<'_>, id: u128| if event.erased { id ^ mask.0 } else { id };
                let claim = |event: StoredEvent<'_>| Some(Claim::new(mask, unmasked(&event, event.id?)));
                let claims = batch.events().filter_map(claim);
                let claims: Vec<Claim> = claims.collect();
                fresh.clear();
                ids.claim(entry.offset, batch.received_ms.max(0) as u64, &claims, &mut fresh)?;
            }
        }
        at = read.next;
    }
    Ok(())
}

/// Leaves repeated events out of the log.
pub struct Deduplicator {
    ids: Box<dyn Ids>,
    remembered: Remembered,
    /// Of the commit that is being decided.
    claims: Vec<Claim>,
    fresh: Vec<bool>,
}

impl Deduplicator {
    /// Asks these ids, which already know everything in the log.
    pub fn new(ids: Box<dyn Ids>, remembered: Remembered) -> Deduplicator {
        Deduplicator { ids, remembered, claims: Vec::new(), fresh: Vec::new() }
    }

    /// Leaves out of an entry what is not fresh.
    fn settle(pending: &mut PendingEntry<Claims>, fresh: &[bool]) {
        if fresh.iter().all(|fresh| *fresh) {
            return;
        }
        let repeated = pending.extra.ordinals.iter().zip(fresh).filter(|(_, fresh)| !**fresh);
        let removed: Vec<u32> = repeated.map(|(ordinal, _)| *ordinal).collect();
        let batch = EventBatch::read(&pending.bytes).expect("the line built this batch a moment ago");
        (pending.bytes, pending.events) = batch.without(&removed);
        pending.extra.removed = removed;
    }
}

impl Sequencer<Claims> for Deduplicator {
    /// All ids of a commit are claimed at once: looked up together, and taken back together if the disk is full.
    fn decide(&mut self, batch: &mut [PendingEntry<Claims>], first: u64, now_ms: u64) {
        self.claims.clear();
        self.fresh.clear();
        batch.iter().for_each(|pending| self.claims.extend_from_slice(&pending.extra.claims));
        if let Err(failure) = self.ids.claim(first, now_ms, &self.claims, &mut self.fresh) {
            error!(%failure, "event ids cannot be claimed");
            for pending in batch {
                pending.extra.failed = true;
                pending.skip();
            }
            self.claims.clear();
            return;
        }
        let mut fresh = self.fresh.as_slice();
        for pending in batch {
            let (own, rest) = fresh.split_at(pending.extra.claims.len());
            Deduplicator::settle(pending, own);
            fresh = rest;
        }
        self.remembered.store(self.ids.registered_until(), Ordering::Release);
    }

    fn undo(&mut self, _: &mut [PendingEntry<Claims>]) {
        let both = self.claims.iter().zip(&self.fresh);
        let granted: Vec<Claim> = both.filter(|(_, fresh)| **fresh).map(|(claim, _)| *claim).collect();
        self.ids.release(&granted);
    }
}

/// The masks that make stored ids unguessable, one per game and key class.
pub struct IdMasks {
    secret: String,
    known: RwLock<HashMap<(u32, u8), IdMask>>,
}

impl IdMasks {
    /// Masks of an installation's secret.
    pub fn new(secret: &str) -> IdMasks {
        IdMasks { secret: secret.to_owned(), known: RwLock::default() }
    }

    /// The mask of a game's keys of one class.
    pub fn of(&self, game: u32, class: KeyClass) -> IdMask {
        let pair = (game, class as u8);
        if let Some(mask) = self.known.read().get(&pair) {
            return *mask;
        }
        *self.known.write().entry(pair).or_insert_with(|| self.make(pair))
    }

    fn make(&self, (game, class): (u32, u8)) -> IdMask {
        let mut hash = Sha256::new();
        hash.update(self.secret.as_bytes());
        hash.update(game.to_be_bytes());
        hash.update([class]);
        let digest = hash.finalize();
        IdMask(u128::from_be_bytes(*digest.first_chunk().expect("SHA-256 has 32 bytes")))
    }
}
