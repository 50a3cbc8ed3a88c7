//! Which event ids have been accepted: what makes sending again harmless.

/// The secret mask of one (game, key class): the first 16 bytes of SHA-256(secret || game || class), read big-endian.
///
/// Computed once for each pair, not for each event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct IdMask(pub u128);

/// An event id as it is remembered: the id XOR the mask of its game and key class.
///
/// The mask is secret, so nobody can make an id in one game that equals an id in another. It is one mask for all ids
/// of the pair, so two ids of one game are equal exactly when their keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IdKey(pub u128);

/// One id that asks to be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What is remembered.
    pub key: IdKey,
    /// For an id made from the time (UUIDv7), that time in milliseconds since 1970. Such ids cost least to look up.
    pub time_ms: Option<u64>,
}

/// What a set of ids holds and costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdStats {
    /// Ids remembered. After a restart some may be counted twice.
    pub keys: u64,
    /// Sorted files on disk.
    pub runs: usize,
    /// Memory in use: tables, filters, directories.
    pub memory_bytes: u64,
    /// Size of the files.
    pub disk_bytes: u64,
    /// How often a claim had to wait for the disk since start.
    pub waits: u64,
}

/// Why ids could not be claimed. Nothing of the batch is claimed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdsError {
    /// The disk has no room for the ids; the same batch may be sent again later.
    #[error("the disk is full: ids are taken again when there is room")]
    Full,
    /// The disk did not answer as it should; the same batch may be sent again.
    #[error("ids cannot be kept: {0}")]
    Unavailable(String),
    /// A file is not what was written. It heals at the next start, when its part of the log is claimed again.
    #[error("{0} is damaged; start again to rebuild it from the log")]
    Corrupt(String),
}

/// The ids accepted inside the window.
///
/// An id is new once per (game, key class) for as long as the window lasts, exactly. What this set has not yet on disk
/// is derived from the log: after a restart the log's entries are claimed again from `remembered_until`, and from then
/// on the answers are those of a set that never stopped. Beyond the window plus one day, an id is new again.
///
/// One thread calls it, in log order. In the common case a claim does not wait for the disk.
pub trait Ids: Send {
    /// Claims the ids of a batch whose first event will stand at `offset`, and pushes for each whether it is new.
    ///
    /// Of repeats inside the batch only the first is new. `now_ms` is the time of receipt. For entries that are claimed
    /// again after a restart it is the receipt's own time, and the answers mean nothing. An empty batch is welcome: it
    /// lets time pass, and tells how far the log has grown, when no event brings an id.
    ///
    /// On an error nothing of the batch is claimed and `fresh` is as it was.
    fn claim(
        &mut self,
        offset: u64,
        now_ms: u64,
        claims: &[Claim],
        fresh: &mut Vec<bool>,
    ) -> Result<(), IdsError>;

    /// Takes back claims that were answered as new and whose events were not written.
    ///
    /// Comes before the next call of `claim`: an id that is remembered while its event is not in the log would refuse
    /// the event when it is sent again.
    fn release(&mut self, claims: &[Claim]);

    /// Every id below this log offset is on disk here; after a restart the log is claimed again from here.
    fn remembered_until(&self) -> u64;

    /// What is held and what it costs.
    fn stats(&self) -> IdStats;
}

impl IdKey {
    /// The key of an id under its game's mask.
    pub fn new(mask: IdMask, id: u128) -> IdKey {
        IdKey(id ^ mask.0)
    }
}

impl Claim {
    /// The claim of an id under its game's mask.
    pub fn new(mask: IdMask, id: u128) -> Claim {
        Claim { key: IdKey::new(mask, id), time_ms: time_of_id(id) }
    }
}

/// The time inside a UUIDv7 (RFC 9562, 5.7: 48 bits of milliseconds, version 7, variant 10).
pub fn time_of_id(id: u128) -> Option<u64> {
    let version = (id >> 76) & 0xf;
    let variant = (id >> 62) & 0x3;
    (version == 7 && variant == 2).then_some((id >> 80) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_version_7_id_is_its_first_48_bits() {
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
    fn the_same_id_in_two_games_has_two_keys() {
        let (one, two) = (IdMask(1 << 90), IdMask(7));
        assert_ne!(IdKey::new(one, 5), IdKey::new(two, 5));
        assert_eq!(IdKey::new(one, 5), IdKey::new(one, 5));
    }
}
