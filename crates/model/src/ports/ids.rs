//! Deduplication of event ids: the port that makes retries harmless.

/// The secret mask of one (game, key class): the first 16 bytes of SHA-256(secret || game || class), read big-endian.
///
/// Computed once per pair, not once per event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct IdMask(pub u128);

/// An event id as it is stored: the id XOR the mask of its game and key class.
///
/// The mask is secret, so a client cannot construct an id in one game that equals an id in another. All ids of a
/// pair share one mask, so two ids of one game are equal exactly when their keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IdKey(pub u128);

/// A request to register an event id as new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The id as it is stored.
    pub key: IdKey,
    /// The time inside a UUIDv7, in milliseconds since 1970. Ids with a time are the cheapest to look up.
    pub time_ms: Option<u64>,
}

/// Size and cost of a set of ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdStats {
    /// Ids kept. After a restart some may be counted twice.
    pub keys: u64,
    /// Sorted files on disk.
    pub runs: usize,
    /// Memory in use: tables, filters, directories.
    pub memory_bytes: u64,
    /// Size of the files.
    pub disk_bytes: u64,
    /// Claims since start that had to wait for the disk.
    pub waits: u64,
}

/// The reason why ids could not be claimed. None of the batch is claimed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdsError {
    /// The disk has no room for the ids; the caller may retry the batch later.
    #[error("no disk space left for event ids; free disk space and retry")]
    Full,
    /// The disk returned an error; the caller may retry the batch.
    #[error("event ids cannot be stored: {0}")]
    Unavailable(String),
    /// A file differs from what was written. It is rebuilt at the next start, when its part of the log is claimed
    /// again.
    #[error("{0} is damaged; restart the server to rebuild it from the log")]
    Corrupt(String),
}

/// The event ids accepted inside the deduplication window.
///
/// An id is new exactly once per (game, key class) during the window. Ids that are not yet on disk here are
/// recovered from the log: after a restart the log entries from `registered_until` on are claimed again, and from
/// then on the results are those of a set that never stopped. After the window plus one day, an id is new again.
///
/// One thread calls it, in log order. In the common case a claim does not wait for the disk.
pub trait Ids: Send {
    /// Claims the ids of a batch whose first event will be at `offset`, and pushes to `fresh` for each id whether
    /// it is new.
    ///
    /// Several calls with one `offset` and one `now_ms` belong to one commit; each is claimed, or fails, by itself.
    ///
    /// Of repeats inside the batch only the first is new. `now_ms` is the time of receipt. For entries that are
    /// claimed again after a restart, it is their original time of receipt and the results have no meaning. An
    /// empty batch is allowed: it reports the time and the growth of the log when no event brings an id.
    ///
    /// On an error nothing of the batch is claimed and `fresh` is unchanged.
    fn claim(
        &mut self,
        offset: u64,
        now_ms: u64,
        claims: &[Claim],
        fresh: &mut Vec<bool>,
    ) -> Result<(), IdsError>;

    /// Releases claims that were reported as new but whose events were not written.
    ///
    /// Must come before the next call of `claim`: an id that stays registered without its event in the log would
    /// reject the retry.
    fn release(&mut self, claims: &[Claim]);

    /// Returns the log offset below which every id is on disk here; after a restart the log is claimed again from
    /// there.
    fn registered_until(&self) -> u64;

    /// Returns the size and cost of the set.
    fn stats(&self) -> IdStats;
}

impl IdKey {
    /// Masks an id with the mask of its game and key class.
    pub(crate) fn new(mask: IdMask, id: u128) -> IdKey {
        IdKey(id ^ mask.0)
    }
}

impl Claim {
    /// Creates the claim of an id under the mask of its game and key class.
    pub fn new(mask: IdMask, id: u128) -> Claim {
        Claim { key: IdKey::new(mask, id), time_ms: time_of_id(id) }
    }
}

/// Returns the time inside a UUIDv7 (RFC 9562, 5.7: 48 bits of milliseconds, version 7, variant 10).
pub(crate) fn time_of_id(id: u128) -> Option<u64> {
    let version = (id >> 76) & 0xf;
    let variant = (id >> 62) & 0x3;
    (version == 7 && variant == 2).then_some((id >> 80) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_a_uuid_v7_is_its_first_48_bits() {
        let id = 0x017f_22e2_79b0_7cc3_98c4_dc0c_0c07_398f; // RFC 9562, A.6
        assert_eq!(time_of_id(id), Some(1_645_557_742_000));
    }

    #[test]
    fn other_ids_have_no_time() {
        assert_eq!(time_of_id(0x919108f7_52d1_4320_9bac_f847db4148a8), None); // RFC 9562, A.3: version 4
        assert_eq!(time_of_id(0x017f_22e2_79b0_7cc3_58c4_dc0c_0c07_398f), None); // another variant
        assert_eq!(time_of_id(0), None);
    }

    #[test]
    fn same_id_has_different_keys_in_two_games() {
        let (one, two) = (IdMask(1 << 90), IdMask(7));
        assert_ne!(IdKey::new(one, 5), IdKey::new(two, 5));
        assert_eq!(IdKey::new(one, 5), IdKey::new(one, 5));
    }
}
