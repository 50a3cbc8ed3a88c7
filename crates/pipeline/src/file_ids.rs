//! Ids for events in files that have none: the same whenever the file is read.

use model::RawBatch;
use sha2::{Digest, Sha256};

/// Gives ids to the events of one file, one after the other.
pub struct FileIds {
    /// SHA-256 that has taken in what the file is.
    identity: Sha256,
    /// The number of the next event, refused ones included. After the highest comes 0.
    next: u64,
}

impl FileIds {
    /// Ids of the file with this identity, from the event with this number on.
    pub fn new(identity: &[u8], next: u64) -> FileIds {
        FileIds { identity: Sha256::new_with_prefix(b"playmeter file").chain_update(identity), next }
    }

    /// Gives an id to each event that has none.
    pub fn give(&mut self, decoded: &mut RawBatch<'_>) {
        for event in &mut decoded.events {
            if let Ok(event) = event {
                event.id = event.id.or_else(|| Some(self.id()));
            }
            self.next = self.next.wrapping_add(1);
        }
    }

    /// SHA-256 of what the file is and of the event's number in it, as a UUID of version 8 (RFC 9562).
    fn id(&self) -> u128 {
        let hash = self.identity.clone().chain_update(self.next.to_le_bytes()).finalize();
        let id = u128::from_be_bytes(*hash.first_chunk().expect("SHA-256 has 32 bytes"));
        id & !(0xf << 76) & !(0x3 << 62) | 0x8 << 76 | 0x2 << 62
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use model::{RawEvent, Reject};

    fn given(identity: &[u8], events: usize, at_once: usize) -> Vec<Option<u128>> {
        let mut ids = FileIds::new(identity, 0);
        let mut given = Vec::new();
        for _ in 0..events / at_once {
            let events = (0..at_once).map(|_| Ok(RawEvent::default())).collect();
            let mut decoded = RawBatch { sent_at_ms: None, events };
            ids.give(&mut decoded);
            given.extend(decoded.events.into_iter().map(|event| event.expect("none was refused").id));
        }
        given
    }

    #[test]
    fn an_event_has_the_same_id_however_the_file_is_cut() {
        assert_eq!(given(b"one", 12, 1), given(b"one", 12, 4));
        let both: BTreeSet<_> = given(b"one", 12, 1).into_iter().chain(given(b"two", 12, 1)).collect();
        assert_eq!(both.len(), 24, "others have others");
    }

    #[test]
    fn an_own_id_is_kept_and_a_refused_event_has_its_number_too() {
        let own = RawEvent { id: Some(7), ..RawEvent::default() };
        let events = vec![Ok(own), Err(Reject::MalformedJson), Ok(RawEvent::default())];
        let mut decoded = RawBatch { sent_at_ms: None, events };
        FileIds::new(b"one", 0).give(&mut decoded);
        let id = |place: usize| decoded.events[place].as_ref().ok().and_then(|event| event.id);
        assert_eq!(id(0), Some(7));
        assert_eq!(id(2), Some(FileIds::new(b"one", 2).id()));
    }

    #[test]
    fn after_the_highest_number_comes_the_lowest() {
        let events = (0..2).map(|_| Ok(RawEvent::default())).collect();
        let mut decoded = RawBatch { sent_at_ms: None, events };
        FileIds::new(b"one", u64::MAX).give(&mut decoded);
        let last = decoded.events[1].as_ref().ok().and_then(|event| event.id);
        assert_eq!(last, given(b"one", 1, 1)[0]);
    }
}
