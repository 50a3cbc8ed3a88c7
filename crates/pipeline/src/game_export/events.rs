//! The events of a game in the log, as `playmeter import` reads them.
//!
//! What ingest added and an import does not accept is left out: the time of receipt, variants, and whether the sender was
//! a bot. Samples and the server's own events are in the rollups only. Events of a player who is being erased have no
//! player, as they will have none in the log.

use std::collections::HashMap;

use anyhow::Context;
use model::Dimension;
use model::batch::{Endpoint, EventBatch, StoredEvent};
use model::uuid;
use serde_json::{Map, Value};
use wal::WalError;

use super::{ExportTarget, GameExport, LineFolder};
use crate::ingest::BATCH;

/// Bytes read from the log at a time.
const READ_BYTES: usize = 1 << 20;

/// The events that were written.
pub(super) struct ExportedEvents {
    pub(super) lines: u64,
    /// Offsets that could not be read, or were removed from the log before they were read.
    pub(super) lost: u64,
    /// The beginning of the log when the export began.
    pub(super) from: u64,
}

impl GameExport<'_> {
    pub(super) fn write_events(&self, target: &mut dyn ExportTarget) -> anyhow::Result<ExportedEvents> {
        let erasing = self.erasing();
        let from = self.log.first();
        let (mut folder, mut at, mut lost) = (LineFolder::new("events"), from, 0);
        while at < self.until {
            self.check_running()?;
            let batch = match self.log.read(at, READ_BYTES) {
                Err(WalError::Trimmed { first }) => {
                    lost += first.min(self.until).saturating_sub(at);
                    at = first;
                    continue;
                }
                batch => batch.context("reading the log")?,
            };
            lost += batch.skipped.iter().map(|it| it.offset_to - it.offset_from).sum::<u64>();
            for entry in batch.chunks.iter().flat_map(|chunk| chunk.entries_from(at)) {
                let is_skipped = self.views.quarantine.is_skipped(entry.offset);
                if entry.kind != BATCH || entry.offset >= self.until || is_skipped {
                    continue;
                }
                let read = EventBatch::read(entry.bytes)?;
                if read.game != self.game.number
                    || matches!(read.endpoint, Endpoint::Flows | Endpoint::Monitor)
                {
                    continue;
                }
                for event in read.events().filter(|event| event.samples.is_none()) {
                    let until = |id: &[u8]| erasing.get(id).copied().unwrap_or(0);
                    let is_erased = entry.offset < until(event.player).max(until(event.anonymous));
                    folder.add(&line(&event, is_erased), target)?;
                }
            }
            at = batch.next;
        }
        Ok(ExportedEvents { lines: folder.finish(target)?, lost, from })
    }

    /// Returns the ids of players who are being erased, each with the offset up to which.
    fn erasing(&self) -> HashMap<Vec<u8>, u64> {
        let game = self.views.liveops.game(self.game.number);
        let game = game.read();
        let ids = game
            .players
            .erasures()
            .flat_map(|(_, erasure)| erasure.ids.iter().map(|id| (id.clone().into_bytes(), erasure.offset)));
        let mut erasing = HashMap::new();
        for (id, offset) in ids {
            let until: &mut u64 = erasing.entry(id).or_default();
            *until = offset.max(*until);
        }
        erasing
    }
}

/// Returns an event with the names of the fields of an import.
fn line(event: &StoredEvent<'_>, is_erased: bool) -> Value {
    let text = |bytes: &[u8]| Value::from(String::from_utf8_lossy(bytes));
    let mut fields = Map::new();
    fields.insert("event".to_owned(), text(event.name));
    fields.insert("ts".to_owned(), event.ts_ms.into());
    if let Some(value) = event.value {
        fields.insert("value".to_owned(), value.into());
    }
    let dimensions = Dimension::ALL.map(|dimension| dimension.label()).into_iter().zip(event.dimensions);
    fields
        .extend(dimensions.filter(|it| !it.1.is_empty()).map(|(name, value)| (name.to_owned(), text(value))));
    // The ids of an erased event are numbers, and its own is masked.
    if event.erased || is_erased {
        return fields.into();
    }
    if let Some(id) = event.id {
        fields.insert("id".to_owned(), uuid::format(id).into());
    }
    let own = [("player", event.player), ("session", event.session)];
    fields
        .extend(own.into_iter().filter(|it| !it.1.is_empty()).map(|(name, id)| (name.to_owned(), text(id))));
    let mut props: Map<String, Value> = serde_json::from_slice(event.props).unwrap_or_default();
    if !event.anonymous.is_empty() {
        props.insert("anonymous".to_owned(), text(event.anonymous));
    }
    if !props.is_empty() {
        fields.insert("props".to_owned(), props.into());
    }
    fields.into()
}
