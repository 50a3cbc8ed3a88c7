//! Ids for the events of a file that have none: the same each time the file is read.

use model::RawBatch;
use sha2::{Digest, Sha256};

/// Assigns ids to the events of one file, in their order.
pub struct FileIds {
    /// SHA-256 over the identity of the file.
    identity: Sha256,
    /// The number of the next event, rejected ones included. Wraps around to 0.
    next: u64,
}

impl FileIds {
    /// Creates the ids of the file with this identity, from event number `next` on.
    pub fn new(identity: &[u8], next: u64) -> FileIds {
        FileIds { identity: Sha256::new_with_prefix(b"playmeter file").chain_update(identity), next }
    }

    /// Assigns an id to each event that has none.
    pub fn assign(&mut self, decoded: &mut RawBatch<'_>) {
        for event in &mut decoded.events {
            if let Ok(event) = event {
                event.id = event.id.or_else(|| Some(self.id()));
            }
            self.next = self.next.wrapping_add(1);
        }
    }

    /// Returns SHA-256 over the file's identity and the event's number, as a UUID of version 8 (RFC 9562).
    fn id(&self) -> u128 {
        let hash = self.identity.clone().chain_update(self.next.to_le_bytes()).finalize();
        let id = u128::from_be_bytes(*hash.first_chunk().expect("SHA-256 has 32 bytes"));
        id & !(0xf << 76) & !(0x3 << 62) | 0x8 << 76 | 0x2 << 62
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use model::{RawEvent, Reject};

    use super::*;

    fn assigned(identity: &[u8], events: usize, batch: usize) -> Vec<Option<u128>> {
        let mut ids = FileIds::new(identity, 0);
        let mut assigned = Vec::new();
        for _ in 0..events / batch {
            let events = (0..batch).map(|_| Ok(RawEvent::default())).collect();
            let mut decoded = RawBatch { sent_at_ms: None, events };
            ids.assign(&mut decoded);
            assigned.extend(decoded.events.into_iter().map(|event| event.expect("none was rejected").id));
        }
        assigned
    }

    #[test]
    fn ids_do_not_depend_on_the_batch_size() {
        assert_eq!(assigned(b"one", 12, 1), assigned(b"one", 12, 4));
        let both: BTreeSet<_> = assigned(b"one", 12, 1).into_iter().chain(assigned(b"two", 12, 1)).collect();
        assert_eq!(both.len(), 24, "events of two files have different ids");
    }

    #[test]
    fn existing_ids_are_kept_and_rejected_events_are_numbered() {
        let own = RawEvent { id: Some(7), ..RawEvent::default() };
        let events = vec![Ok(own), Err(Reject::MalformedJson), Ok(RawEvent::default())];
        let mut decoded = RawBatch { sent_at_ms: None, events };
        FileIds::new(b"one", 0).assign(&mut decoded);
        let id = |place: usize| decoded.events[place].as_ref().ok().and_then(|event| event.id);
        assert_eq!(id(0), Some(7));
        assert_eq!(id(2), Some(FileIds::new(b"one", 2).id()));
    }

    #[test]
    fn event_numbers_wrap_around() {
        let events = (0..2).map(|_| Ok(RawEvent::default())).collect();
        let mut decoded = RawBatch { sent_at_ms: None, events };
        FileIds::new(b"one", u64::MAX).assign(&mut decoded);
        let last = decoded.events[1].as_ref().ok().and_then(|event| event.id);
        assert_eq!(last, assigned(b"one", 1, 1)[0]);
    }
}
