//! Limits the attempts to sign in by address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Instant;

use parking_lot::Mutex;
use pipeline::catalog::address_group;

/// Attempts that an address may make at once.
const BURST: u64 = 10;
/// The time after which another attempt is allowed.
const REFILL_S: u64 = 60;
/// Addresses with recent attempts that are kept.
const ADDRESSES_MAX: usize = 4_096;

/// Recent attempts to sign in. An address is an IPv4 address or the /64 of an IPv6 address; clients without a known
/// address share one limit.
pub struct SignInAttempts {
    started: Instant,
    /// When all attempts of an address are allowed again, in seconds since the start.
    full_at_s: Mutex<HashMap<Option<IpAddr>, u64>>,
}

impl Default for SignInAttempts {
    fn default() -> SignInAttempts {
        SignInAttempts { started: Instant::now(), full_at_s: Mutex::default() }
    }
}

impl SignInAttempts {
    /// Counts an attempt from this address. Fails with the seconds to wait if there were too many.
    pub(crate) fn count(&self, address: Option<IpAddr>) -> Result<(), u32> {
        self.count_at(address, self.started.elapsed().as_secs())
    }

    fn count_at(&self, address: Option<IpAddr>, now_s: u64) -> Result<(), u32> {
        let address = address.map(address_group);
        let mut all = self.full_at_s.lock();
        let full_at_s = all.get(&address).copied().unwrap_or(0).max(now_s);
        let free_at_s = (full_at_s + REFILL_S).saturating_sub(BURST * REFILL_S);
        if free_at_s > now_s {
            return Err((free_at_s - now_s) as u32);
        }
        if all.len() >= ADDRESSES_MAX && !all.contains_key(&address) {
            all.retain(|_, full_at_s| *full_at_s > now_s);
            let fullest = all.iter().min_by_key(|(_, full_at_s)| **full_at_s).map(|(address, _)| *address);
            if let Some(fullest) = fullest.filter(|_| all.len() >= ADDRESSES_MAX) {
                all.remove(&fullest);
            }
        }
        all.insert(address, full_at_s + REFILL_S);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_come_back_one_by_one() {
        let attempts = SignInAttempts::default();
        let address = Some([192, 0, 2, 1].into());
        for _ in 0..BURST {
            assert_eq!(attempts.count_at(address, 100), Ok(()));
        }
        assert_eq!(attempts.count_at(address, 100), Err(60));
        assert_eq!(attempts.count_at(address, 159), Err(1));
        assert_eq!(attempts.count_at(address, 160), Ok(()));
        assert_eq!(attempts.count_at(address, 160), Err(60));
        assert_eq!(attempts.count_at(None, 160), Ok(()));
        for _ in 0..BURST {
            assert_eq!(attempts.count_at(address, 10_000), Ok(()));
        }
    }

    #[test]
    fn number_of_addresses_in_memory_is_limited() {
        let attempts = SignInAttempts::default();
        let blocked = Some([192, 0, 2, 1].into());
        while attempts.count_at(blocked, 0).is_ok() {}
        for number in 0..2 * ADDRESSES_MAX as u32 {
            assert_eq!(attempts.count_at(Some(number.to_be_bytes().into()), 0), Ok(()));
        }
        assert_eq!(attempts.full_at_s.lock().len(), ADDRESSES_MAX);
        assert!(attempts.count_at(blocked, 0).is_err(), "the address with the most attempts is kept");
        assert_eq!(attempts.count_at(Some([1, 2, 3, 4].into()), 10_000), Ok(()));
        assert_eq!(attempts.full_at_s.lock().len(), 1);
    }
}
