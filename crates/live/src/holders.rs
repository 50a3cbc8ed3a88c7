//! How much one credential may watch.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Counts what is watched by those who hold credentials.
pub(super) struct Holders {
    each_max: usize,
    watched: Mutex<HashMap<u64, usize>>,
}

/// Somebody watches as much as may be watched with one credential.
#[derive(Debug, thiserror::Error)]
#[error("{each_max} subscriptions are open with this credential already")]
pub struct TooManyOfOne {
    each_max: usize,
}

/// Room for some subscriptions; given back when dropped.
pub struct Permit {
    holders: Arc<Holders>,
    holder: u64,
    count: usize,
}

impl Holders {
    pub fn new(each_max: usize) -> Arc<Holders> {
        Arc::new(Holders { each_max, watched: Mutex::default() })
    }

    pub fn admit(self: &Arc<Holders>, holder: u64, count: usize) -> Result<Permit, TooManyOfOne> {
        let mut watched = self.watched.lock();
        let already = watched.get(&holder).copied().unwrap_or(0);
        if already + count > self.each_max {
            return Err(TooManyOfOne { each_max: self.each_max });
        }
        watched.insert(holder, already + count);
        Ok(Permit { holders: Arc::clone(self), holder, count })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut watched = self.holders.watched.lock();
        let left = watched.get(&self.holder).map_or(0, |watched| watched - self.count);
        match left {
            0 => drop(watched.remove(&self.holder)),
            left => drop(watched.insert(self.holder, left)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_holder_has_so_much_room() {
        let holders = Holders::new(3);
        let two = holders.admit(1, 2).expect("there is room");
        assert!(holders.admit(1, 2).is_err());
        let one = holders.admit(1, 1).expect("there is room");
        assert!(holders.admit(2, 3).is_ok());
        drop(two);
        assert!(holders.admit(1, 2).is_ok());
        drop(one);
        assert!(holders.watched.lock().is_empty());
    }
}
