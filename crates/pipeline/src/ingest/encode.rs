//! Encoding: the events of a batch become one entry of the log.

use std::borrow::Cow;

use model::admit::AdmissionContext;
use model::batch::BatchBuilder;
use model::ports::ids::Claim;
use model::{RawBatch, RawEvent, Reject};
use wal::Entry;

use super::annotator::EventAnnotator;
use super::{BATCH, Claims, Ingest, IngestRequest};
use crate::catalog::Access;
use crate::recent_events::RejectedEvent;

/// Rejected events of one batch that are shown among the recent events.
const SHOWN_MAX: usize = 10;
/// Characters of a name or a player id that are shown.
const SHOWN_CHARS: usize = 200;

impl Ingest {
    /// Admits, annotates and encodes the events. Returns the entry and the rejected events by their index.
    pub(super) fn encode(
        &self,
        access: &Access,
        request: &IngestRequest<'_>,
        decoded: &RawBatch<'_>,
        context: &AdmissionContext<'_>,
    ) -> (Entry<Claims>, Vec<(u32, Reject)>) {
        let game = access.game.number;
        let mask = self.masks.of(game, access.class);
        let capacity = decoded.events.len() * 160;
        let mut batch =
            BatchBuilder::new(request.endpoint, access.class, game, request.received_ms, capacity);
        batch.set_values_max(access.game.settings.values_max);
        let mut claims = Claims::with_capacity(decoded.events.len());
        let mut rejected = Vec::new();
        let mut admitted = 0;
        let mut annotator = EventAnnotator::new(self, access, request);
        for (index, event) in decoded.events.iter().enumerate() {
            let pushed = event
                .as_ref()
                .map_err(|reject| *reject)
                .and_then(|raw| annotator.push(raw, context, &mut batch));
            match pushed {
                Ok(id) => {
                    if let Some(id) = id {
                        claims.push(admitted, Claim::new(mask, id));
                    }
                    admitted += 1;
                }
                Err(reject) => rejected.push((index as u32, reject)),
            }
        }
        let (bytes, events) = batch.finish(&tallies(decoded, &rejected, request.rejected));
        (Entry { kind: BATCH, events, bytes, ack: request.ack, extra: claims }, rejected)
    }

    /// Adds the first rejected events to the recent events.
    pub(super) fn show_rejected(
        &self,
        access: &Access,
        request: &IngestRequest<'_>,
        decoded: &RawBatch<'_>,
        rejected: &[(u32, Reject)],
    ) {
        if rejected.is_empty() {
            return;
        }
        let shown = rejected.iter().take(SHOWN_MAX).map(|(index, reject)| {
            let raw = decoded.events[*index as usize].as_ref().ok();
            RejectedEvent {
                at_ms: request.received_ms,
                name: excerpt(raw, |raw| raw.name.as_ref()),
                player: excerpt(raw, |raw| raw.player.as_ref()),
                reject: *reject,
                endpoint: request.endpoint,
            }
        });
        self.recent_events.add_rejected(access.game.number, shown);
    }
}

/// Returns an entry without events that counts the whole batch under one reason.
pub(super) fn limited_entry(
    access: &Access,
    request: &IngestRequest<'_>,
    decoded: &RawBatch<'_>,
    reject: Reject,
) -> Entry<Claims> {
    let batch =
        BatchBuilder::new(request.endpoint, access.class, access.game.number, request.received_ms, 16);
    let all: Vec<(u32, Reject)> = (0..decoded.events.len() as u32).map(|index| (index, reject)).collect();
    let (bytes, events) = batch.finish(&tallies(decoded, &all, request.rejected));
    Entry { kind: BATCH, events, bytes, ack: request.ack, extra: Claims::default() }
}

/// Adds up the rejected events and those rejected before decoding, each reason once.
fn tallies(
    decoded: &RawBatch<'_>,
    rejected: &[(u32, Reject)],
    before: &[(Reject, u32)],
) -> Vec<(Reject, u32)> {
    let here = rejected.iter().map(|(index, reject)| {
        let raw = decoded.events[*index as usize].as_ref().ok();
        (*reject, raw.and_then(|raw| raw.samples).map_or(1, |samples| samples.received))
    });
    let mut tallies: Vec<(Reject, u32)> = Vec::new();
    for (reject, count) in before.iter().copied().chain(here) {
        match tallies.iter_mut().find(|(other, _)| *other == reject) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => tallies.push((reject, count)),
        }
    }
    tallies
}

fn excerpt<'a>(
    raw: Option<&'a RawEvent<'_>>,
    field: impl Fn(&'a RawEvent<'_>) -> Option<&'a Cow<'a, str>>,
) -> String {
    raw.and_then(field).map(|text| text.chars().take(SHOWN_CHARS).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use model::batch::{Endpoint, EventBatch, KeyClass};

    use super::*;

    #[test]
    fn each_reason_is_tallied_once() {
        let before = vec![(Reject::NotUtf8, 2); 300];
        let tallied = tallies(&RawBatch::default(), &[], &before);
        assert_eq!(tallied, [(Reject::NotUtf8, 600)]);
        let builder = BatchBuilder::new(Endpoint::Import, KeyClass::Secret, 1, 0, 0);
        let (bytes, events) = builder.finish(&tallied);
        let batch = EventBatch::read(&bytes).expect("it was just written");
        assert_eq!((events, batch.tallies().collect::<Vec<_>>()), (0, tallied));
        assert_eq!(batch.events().count(), 0);
    }
}
