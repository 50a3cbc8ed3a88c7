//! Replay of event ids at start.

use model::batch::{EventBatch, StoredEvent};
use model::ports::ids::{Claim, Ids};
use wal::OpenedWal;

use super::{BATCH, IdMasks};

/// Bytes that are read from the log at a time.
const READ_BYTES: usize = 8 << 20;

/// Claims again the ids of the log entries that are not yet registered on disk. Called once, before the first append.
pub(crate) fn replay_ids(opened: &OpenedWal, ids: &mut dyn Ids, masks: &IdMasks) -> anyhow::Result<()> {
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
                // The ids of an erased player's events are stored masked.
                let unmasked =
                    |event: &StoredEvent<'_>, id: u128| if event.erased { id ^ mask.0 } else { id };
                let claim = |event: StoredEvent<'_>| Some(Claim::new(mask, unmasked(&event, event.id?)));
                let claims: Vec<Claim> = batch.events().filter_map(claim).collect();
                fresh.clear();
                ids.claim(entry.offset, batch.received_ms.max(0) as u64, &claims, &mut fresh)?;
            }
        }
        at = read.next;
    }
    Ok(())
}
