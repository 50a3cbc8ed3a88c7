//! The last use of each secret key: exact to the minute in memory, written to disk every ten minutes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use tracing::warn;

use super::file::{read_private, replace_private};

const NAME: &str = "keys_used.json";
/// Later uses within this time are not recorded.
const PRECISION_S: u64 = 60;
/// The minimum interval between two writes of the file. It is also written at shutdown.
const WRITE_INTERVAL_S: u64 = 600;

/// The last use of each key, by the key's id. A power cut may lose the last ten minutes.
pub(super) struct LastUsed {
    folder: PathBuf,
    keys: RwLock<HashMap<String, AtomicU64>>,
    write_at_s: AtomicU64,
    writing: Mutex<()>,
}

impl LastUsed {
    /// Reads the file. A file that cannot be read counts as empty.
    pub(super) fn open(folder: &Path) -> Arc<LastUsed> {
        let text = read_private(&folder.join(NAME)).ok().flatten().unwrap_or_default();
        let keys: HashMap<String, u64> = serde_json::from_slice(&text).unwrap_or_default();
        let keys = keys.into_iter().map(|(key, last_s)| (key, AtomicU64::new(last_s))).collect();
        Arc::new(LastUsed {
            folder: folder.to_owned(),
            keys: RwLock::new(keys),
            write_at_s: AtomicU64::new(0),
            writing: Mutex::default(),
        })
    }

    /// Records the use of an existing key. Costs a lookup; at most every ten minutes a thread writes the file.
    pub(super) fn record(self: &Arc<LastUsed>, key: &str, now_s: u64) {
        let known = self.keys.read().get(key).map(|last_s| {
            let is_new = last_s.load(Ordering::Relaxed) + PRECISION_S <= now_s;
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
        let next_s = now_s + WRITE_INTERVAL_S;
        let order = Ordering::Relaxed;
        if write_at_s <= now_s && self.write_at_s.compare_exchange(write_at_s, next_s, order, order).is_ok() {
            let last_used = Arc::clone(self);
            std::thread::spawn(move || last_used.write());
        }
    }

    /// Removes keys that no longer exist, and writes the file.
    pub(super) fn remove(&self, keys: &[String]) {
        let is_removed = {
            let mut known = self.keys.write();
            let before = known.len();
            for key in keys {
                known.remove(key);
            }
            known.len() < before
        };
        if is_removed {
            self.write();
        }
    }

    /// Returns the time of the last use of a key, in seconds since 1970.
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
        if keys.is_empty() && !self.folder.join(NAME).exists() {
            return;
        }
        let text = serde_json::to_vec(&keys).expect("strings and numbers are JSON");
        if let Err(failure) = replace_private(&self.folder, NAME, &text) {
            warn!(failure = format!("{failure:#}"), "the last use of keys could not be written");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_use_is_exact_to_the_minute_and_survives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let used = LastUsed::open(folder.path());
        assert_eq!(used.last_s("k"), None);
        used.record("k", 1_000);
        used.record("k", 1_059);
        assert_eq!(used.last_s("k"), Some(1_000));
        used.record("k", 1_060);
        assert_eq!(used.last_s("k"), Some(1_060));
        used.write();
        assert_eq!(LastUsed::open(folder.path()).last_s("k"), Some(1_060));
    }
}
