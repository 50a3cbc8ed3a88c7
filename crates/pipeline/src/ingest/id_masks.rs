//! Masks of event ids.

use std::collections::HashMap;

use model::batch::KeyClass;
use model::ports::ids::IdMask;
use parking_lot::RwLock;
use sha2::{Digest, Sha256};

/// The masks that make stored ids unguessable, one per game and key class.
pub(crate) struct IdMasks {
    secret: String,
    masks: RwLock<HashMap<(u32, u8), IdMask>>,
}

impl IdMasks {
    /// Creates the masks that follow from an installation's secret.
    pub(crate) fn new(secret: &str) -> IdMasks {
        IdMasks { secret: secret.to_owned(), masks: RwLock::default() }
    }

    /// Returns the mask for a game's keys of one class.
    pub(crate) fn of(&self, game: u32, class: KeyClass) -> IdMask {
        let key = (game, class as u8);
        if let Some(mask) = self.masks.read().get(&key) {
            return *mask;
        }
        *self.masks.write().entry(key).or_insert_with(|| self.derive(key))
    }

    fn derive(&self, (game, class): (u32, u8)) -> IdMask {
        let mut hash = Sha256::new();
        hash.update(self.secret.as_bytes());
        hash.update(game.to_be_bytes());
        hash.update([class]);
        let digest = hash.finalize();
        IdMask(u128::from_be_bytes(*digest.first_chunk().expect("SHA-256 has 32 bytes")))
    }
}
