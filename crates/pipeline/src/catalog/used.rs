//! When secret keys were last used: known to the minute, written down every ten.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use tracing::warn;

use super::store::{read_private, replace};

const NAME: &str = "keys_used.json";
/// Uses that follow within a minute change nothing.
const EXACT_TO_S: u64 = 60;
/// The file is written at most so often, and at a stop.
const WRITE_EVERY_S: u64 = 600;

/// The last use of each key, by the key's id. A power cut may forget ten minutes of it.
pub(super) struct Used {
    folder: PathBuf,
    keys: RwLock<HashMap<String, AtomicU64>>,
    write_at_s: AtomicU64,
    writing: Mutex<()>,
}

impl Used {
    /// What the file says; one that cannot be read says nothing.
    pub(super) fn open(folder: &Path) -> Arc<Used> {
        let text = read_private(&folder.join(NAME)).ok().flatten().unwrap_or_default();
        let keys: HashMap<String, u64> = serde_json::from_slice(&text).unwrap_or_default();
        let keys = keys.into_iter().map(|(key, last_s)| (key, AtomicU64::new(last_s))).collect();
        Arc::new(Used {
            folder: folder.to_owned(),
            keys: RwLock::new(keys),
            write_at_s: AtomicU64::new(0),
            writing: Mutex::default(),
        })
    }

    /// A key that exists was used. Costs a look-up; at most every ten minutes a thread writes the file.
    pub(super) fn note(self: &Arc<Used>, key: &str, now_s: u64) {
        let known = self.keys.read().get(key).map(|last_s| {
            let is_new = last_s.load(Ordering::Relaxed) + EXACT_TO_S <= now_s;
            if is_new {
                last_s.store(now_s, Ordering::Relaxed);
            }
            is_new
        });
        match known {
            Some(false) => return,
            Some(true) => {}
            None => drop(self.keys.write().insert(key.to_owned(), AtomicU64::new(now_s))),
        }
        let write_at_s = self.write_at_s.load(Ordering::Relaxed);
        let next_s = now_s + WRITE_EVERY_S;
        let order = Ordering::Relaxed;
        if write_at_s <= now_s && self.write_at_s.compare_exchange(write_at_s, next_s, order, order).is_ok() {
            let used = Arc::clone(self);
            std::thread::spawn(move || used.write());
        }
    }

    /// When the key was last used, in seconds since 1970.
    pub(super) fn last_s(&self, key: &str) -> Option<u64> {
        self.keys.read().get(key).map(|last_s| last_s.load(Ordering::Relaxed))
    }

    /// Writes the file.
    pub(super) fn write(&self) {
        let _writing = self.writing.lock();
        let keys: HashMap<String, u64> = {
            let keys = self.keys.read();
            keys.iter().map(|(key, last_s)| (key.clone(), last_s.load(Ordering::Relaxed))).collect()
        };
        if keys.is_empty() {
            return;
        }
        let text = serde_json::to_vec(&keys).expect("texts and numbers are JSON");
        if let Err(failure) = replace(&self.folder, NAME, &text) {
            warn!("when keys were last used is not written down: {failure:#}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_use_is_known_to_the_minute_and_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let used = Used::open(folder.path());
        assert_eq!(used.last_s("k"), None);
        used.note("k", 1_000);
        used.note("k", 1_059);
        assert_eq!(used.last_s("k"), Some(1_000));
        used.note("k", 1_060);
        assert_eq!(used.last_s("k"), Some(1_060));
        used.write();
        assert_eq!(Used::open(folder.path()).last_s("k"), Some(1_060));
    }
}
