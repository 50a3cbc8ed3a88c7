//! The memory engine for event ids: the simplest implementation of the port.

use std::collections::HashMap;

use model::ports::ids::{Claim, IdKey, IdStats, Ids, IdsError};

/// Keeps the time at which each id was accepted. Nothing survives a restart, so the whole log is claimed again.
pub struct MemoryIds {
    window_ms: u64,
    accepted_ms: HashMap<IdKey, u64>,
}

impl MemoryIds {
    /// Creates an empty set that keeps ids for `window_ms`.
    pub fn new(window_ms: u64) -> MemoryIds {
        MemoryIds { window_ms, accepted_ms: HashMap::new() }
    }

    fn claim_one(&mut self, now_ms: u64, key: IdKey) -> bool {
        let known = self.accepted_ms.get(&key).is_some_and(|&at_ms| at_ms + self.window_ms >= now_ms);
        if !known {
            self.accepted_ms.insert(key, now_ms);
        }
        !known
    }
}

impl Ids for MemoryIds {
    fn claim(
        &mut self,
        _offset: u64,
        now_ms: u64,
        claims: &[Claim],
        fresh: &mut Vec<bool>,
    ) -> Result<(), IdsError> {
        fresh.extend(claims.iter().map(|claim| self.claim_one(now_ms, claim.key)));
        Ok(())
    }

    fn release(&mut self, claims: &[Claim]) {
        for claim in claims {
            self.accepted_ms.remove(&claim.key);
        }
    }

    fn registered_until(&self) -> u64 {
        0
    }

    fn stats(&self) -> IdStats {
        IdStats { keys: self.accepted_ms.len() as u64, ..IdStats::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::ids::{WINDOW_MS, check_random_operations, ids_conform};

    #[test]
    fn memory_engine_conforms() {
        ids_conform(|| |_| Box::new(MemoryIds::new(WINDOW_MS)) as Box<dyn Ids>);
    }

    #[test]
    fn random_operations_on_the_memory_engine_match_the_ledger() {
        check_random_operations(|_| Box::new(MemoryIds::new(WINDOW_MS)) as Box<dyn Ids>, 1, 10_000);
    }
}
