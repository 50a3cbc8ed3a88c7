//! Every deed that is in the feed, and who did it when: how equal items find each other.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::deed::DeedBytes;
use super::stamp::Stamp;

/// From here on doers are looked up by a hash; below it a look at each is faster and smaller.
const FEW_MAX: usize = 16;

/// Deeds by number and by their bytes.
///
/// The bytes come from outside, so they are hashed with a key that nobody knows.
#[derive(Default)]
pub(super) struct Deeds {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_bytes: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

struct Slot {
    bytes: DeedBytes,
    doers: Doers,
}

/// Who did something when; the stamps' tails are players. The same player may have done it several times.
pub(super) enum Doers {
    One(Stamp),
    Few(Vec<Stamp>),
    Many(Box<HashTable<Stamp>>),
}

impl Deeds {
    pub(super) fn bytes(&self, deed: u32) -> &[u8] {
        self.slots[deed as usize].bytes.get()
    }

    pub(super) fn doers(&self, deed: u32) -> &Doers {
        &self.slots[deed as usize].doers
    }

    /// Takes note of a doer, and gives the number of the deed.
    pub(super) fn add(&mut self, bytes: &[u8], doer: Stamp) -> u32 {
        let hash = self.hasher.hash_one(bytes);
        let slots = &mut self.slots;
        if let Some(&deed) = self.by_bytes.find(hash, |&deed| slots[deed as usize].bytes.get() == bytes) {
            slots[deed as usize].doers.add(doer);
            return deed;
        }
        let slot = Slot { bytes: DeedBytes::new(bytes), doers: Doers::One(doer) };
        let deed = match self.free.pop() {
            Some(deed) => {
                slots[deed as usize] = slot;
                deed
            }
            None => {
                slots.push(slot);
                u32::try_from(slots.len() - 1).expect("there are fewer items than this")
            }
        };
        let (slots, hasher) = (&self.slots, &self.hasher);
        let hash_of = |deed: &u32| hasher.hash_one(slots[*deed as usize].bytes.get());
        self.by_bytes.insert_unique(hash, deed, hash_of);
        deed
    }

    /// Forgets a doer. With the last one goes the deed; then these are its bytes.
    pub(super) fn remove(&mut self, deed: u32, doer: Stamp) -> Option<DeedBytes> {
        let slot = &mut self.slots[deed as usize];
        if !slot.doers.remove(doer) {
            return None;
        }
        let bytes = std::mem::replace(&mut slot.bytes, DeedBytes::new(&[]));
        let hash = self.hasher.hash_one(bytes.get());
        if let Ok(entry) = self.by_bytes.find_entry(hash, |&other| other == deed) {
            entry.remove();
        }
        self.free.push(deed);
        Some(bytes)
    }
}

/// Players are numbered by the server, so nobody can choose numbers that collide.
fn hash(player: u32) -> u64 {
    rustc_hash::FxBuildHasher.hash_one(player)
}

impl Doers {
    pub(super) fn len(&self) -> usize {
        match self {
            Doers::One(_) => 1,
            Doers::Few(few) => few.len(),
            Doers::Many(many) => many.len(),
        }
    }

    /// Calls with each.
    pub(super) fn each(&self, mut call: impl FnMut(Stamp)) {
        match self {
            Doers::One(doer) => call(*doer),
            Doers::Few(few) => few.iter().copied().for_each(call),
            Doers::Many(many) => many.iter().copied().for_each(call),
        }
    }

    /// Calls with each of this player's.
    pub(super) fn of(&self, player: u32, mut call: impl FnMut(Stamp)) {
        match self {
            Doers::Many(many) => {
                many.iter_hash(hash(player)).copied().filter(|it| it.tail() == player).for_each(call)
            }
            _ => self.each(|doer| {
                if doer.tail() == player {
                    call(doer);
                }
            }),
        }
    }

    fn add(&mut self, doer: Stamp) {
        match self {
            Doers::One(first) => *self = Doers::Few(vec![*first, doer]),
            Doers::Few(few) if few.len() < FEW_MAX => few.push(doer),
            Doers::Few(few) => {
                let mut many = HashTable::with_capacity(2 * FEW_MAX);
                for doer in few.drain(..).chain([doer]) {
                    many.insert_unique(hash(doer.tail()), doer, |it| hash(it.tail()));
                }
                *self = Doers::Many(Box::new(many));
            }
            Doers::Many(many) => {
                many.insert_unique(hash(doer.tail()), doer, |it| hash(it.tail()));
            }
        }
    }

    /// Whether this was the last one.
    fn remove(&mut self, doer: Stamp) -> bool {
        match self {
            Doers::One(_) => return true,
            Doers::Few(few) => few.retain(|it| *it != doer),
            Doers::Many(many) => {
                if let Ok(entry) = many.find_entry(hash(doer.tail()), |it| *it == doer) {
                    entry.remove();
                }
                // Half way, so that a number that goes up and down does not change the form each time.
                if many.len() == FEW_MAX / 2 {
                    *self = Doers::Few(many.iter().copied().collect());
                }
            }
        }
        self.len() == 0
    }
}
