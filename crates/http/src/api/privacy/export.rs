//! The data of one player as a stream: live-ops records, then every event in the log.
//!
//! The log is read from its start in constant memory on a blocking thread, at the speed of the client.

use std::sync::Arc;

use anyhow::{Context, ensure};
use axum::body::Body;
use model::Dimension;
use model::batch::{EventBatch, StoredEvent};
use model::series::SERVER_DIMENSIONS;
use model::uuid;
use pipeline::catalog::Game;
use pipeline::ingest::BATCH;
use pipeline::time::rfc3339;
use serde_json::{Map, Value, json};
use tokio::sync::OwnedSemaphorePermit;
use wal::WalError;

use crate::AppState;
use crate::api::export_stream::{self, ChunkWriter};

/// Bytes read from the log at a time.
const READ_BYTES: usize = 1 << 20;

/// An export of one player.
pub(super) struct Export {
    pub(super) receipt: String,
    pub(super) player: String,
    /// All ids of the player.
    pub(super) ids: Vec<String>,
    pub(super) game: Arc<Game>,
    /// Time of the request, milliseconds since 1970.
    pub(super) requested_ms: i64,
    /// End of the log at the time of the request.
    pub(super) until: u64,
}

impl Export {
    /// Returns the document as a body.
    pub(super) fn stream(self, shared: Arc<AppState>, permit: OwnedSemaphorePermit) -> Body {
        export_stream::stream(shared, permit, "a player", move |shared, out| self.write(shared, out))
    }

    fn write(&self, shared: &AppState, out: &mut ChunkWriter) -> anyhow::Result<()> {
        let mut head = json!({
            "receipt": self.receipt,
            "player": self.player,
            "ids": self.ids,
            "game": self.game.id,
            "exported_at": rfc3339(self.requested_ms),
            "known": self.liveops_records(shared)?,
        })
        .to_string();
        head.pop();
        out.put(head.as_bytes())?;
        out.put(b",\"events\":[")?;
        let (events, lost) = self.write_events(shared, out)?;
        self.check_game(shared)?;
        let foot = json!({ "events_count": events, "events_lost": lost, "complete": true }).to_string();
        out.put(b"],")?;
        out.put(&foot.as_bytes()[1..])
    }

    /// Fails if the game was deleted: its data is being removed from everything that the export reads.
    fn check_game(&self, shared: &AppState) -> anyhow::Result<()> {
        ensure!(!shared.views.deleted_games.contains(self.game.number), "the game was deleted");
        Ok(())
    }

    /// Returns the first offset to read: earlier entries may contain data of an erased player with the same id.
    fn start(&self, shared: &AppState) -> u64 {
        let game = shared.views.liveops.game(self.game.number);
        let forgotten_until = game.read().players.erased_until(&self.ids);
        forgotten_until.max(shared.log.first())
    }

    fn liveops_records(&self, shared: &AppState) -> anyhow::Result<Map<String, Value>> {
        let game = shared.views.liveops.game(self.game.number);
        let known = self.ids.iter().map(|id| {
            Ok((id.clone(), game.read().export_player(id, self.requested_ms).context("reading the store")?))
        });
        known.collect()
    }

    /// Writes the player's events. Returns their number, and the number of log offsets that could not be read.
    fn write_events(&self, shared: &AppState, out: &mut ChunkWriter) -> anyhow::Result<(u64, u64)> {
        let (mut at, mut events, mut lost) = (self.start(shared), 0, 0);
        while at < self.until {
            if *shared.stopping.borrow() {
                return Err(std::io::Error::other("the server is stopping").into());
            }
            self.check_game(shared)?;
            let batch = match shared.log.read(at, READ_BYTES) {
                Err(WalError::Trimmed { first }) => {
                    at = first;
                    continue;
                }
                batch => batch.context("reading the log")?,
            };
            lost += batch.skipped.iter().map(|it| it.offset_to - it.offset_from).sum::<u64>();
            for entry in batch.chunks.iter().flat_map(|chunk| chunk.entries_from(at)) {
                if entry.kind == BATCH && entry.offset < self.until {
                    self.write_batch(&EventBatch::read(entry.bytes)?, &mut events, out)?;
                }
            }
            at = batch.next;
        }
        Ok((events, lost))
    }

    fn write_batch(
        &self,
        batch: &EventBatch<'_>,
        events: &mut u64,
        out: &mut ChunkWriter,
    ) -> anyhow::Result<()> {
        if batch.game != self.game.number {
            return Ok(());
        }
        let is_own = |id: &[u8]| self.ids.iter().any(|own| own.as_bytes() == id);
        for event in batch.events().filter(|it| !it.erased && (is_own(it.player) || is_own(it.anonymous))) {
            if *events > 0 {
                out.put(b",")?;
            }
            *events += 1;
            out.put(event_json(batch, &event).to_string().as_bytes())?;
        }
        Ok(())
    }
}

/// Returns all stored fields of an event as JSON.
fn event_json(batch: &EventBatch<'_>, event: &StoredEvent<'_>) -> Value {
    let mut fields = Map::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    fields.insert("event".to_owned(), text(event.name).into());
    fields.insert("time".to_owned(), rfc3339(event.ts_ms).into());
    fields.insert("received".to_owned(), rfc3339(batch.received_ms).into());
    if let Some(id) = event.id {
        fields.insert("id".to_owned(), uuid::format(id).into());
    }
    if let Some(value) = event.value {
        fields.insert("value".to_owned(), value.into());
    }
    let own = [("player", event.player), ("anonymous", event.anonymous), ("session", event.session)];
    let dimensions = Dimension::ALL.map(|dimension| dimension.label()).into_iter().zip(event.dimensions);
    for (name, value) in own.into_iter().chain(dimensions).filter(|(_, value)| !value.is_empty()) {
        fields.insert(name.to_owned(), text(value).into());
    }
    for (number, name) in SERVER_DIMENSIONS {
        let values = event.declared.filter(|(stamped, _)| *stamped == number);
        let values: Vec<Value> = values.map(|(_, value)| text(value).into()).collect();
        if !values.is_empty() {
            fields.insert(name.to_owned(), values.into());
        }
    }
    if let Ok(props) = serde_json::from_slice(event.props) {
        fields.insert("props".to_owned(), props);
    }
    fields.into()
}
