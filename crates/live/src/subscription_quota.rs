//! The limit of subscriptions per credential.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Counts subscriptions by the credential that holds them.
pub(crate) struct SubscriptionQuota {
    max_per_credential: usize,
    by_holder: Mutex<HashMap<u64, usize>>,
}

/// A credential already has as many subscriptions as it may have.
#[derive(Debug, thiserror::Error)]
#[error("a credential may have at most {max_per_credential} subscriptions: close some before you open more")]
pub struct SubscriptionQuotaExceeded {
    max_per_credential: usize,
}

/// The right to some subscriptions. Dropping it returns them to the quota.
pub struct SubscriptionPermit {
    quota: Arc<SubscriptionQuota>,
    holder: u64,
    count: usize,
}

impl SubscriptionQuota {
    pub(crate) fn new(max_per_credential: usize) -> Arc<SubscriptionQuota> {
        Arc::new(SubscriptionQuota { max_per_credential, by_holder: Mutex::default() })
    }

    pub(crate) fn admit(
        self: &Arc<SubscriptionQuota>,
        holder: u64,
        count: usize,
    ) -> Result<SubscriptionPermit, SubscriptionQuotaExceeded> {
        let mut by_holder = self.by_holder.lock();
        let current = by_holder.get(&holder).copied().unwrap_or(0);
        if current + count > self.max_per_credential {
            return Err(SubscriptionQuotaExceeded { max_per_credential: self.max_per_credential });
        }
        by_holder.insert(holder, current + count);
        Ok(SubscriptionPermit { quota: Arc::clone(self), holder, count })
    }
}

impl Drop for SubscriptionPermit {
    fn drop(&mut self) {
        let mut by_holder = self.quota.by_holder.lock();
        let left = by_holder.get(&self.holder).map_or(0, |current| current - self.count);
        match left {
            0 => drop(by_holder.remove(&self.holder)),
            left => drop(by_holder.insert(self.holder, left)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_credential_has_its_own_quota() {
        let quota = SubscriptionQuota::new(3);
        let two = quota.admit(1, 2).expect("the quota is not used up");
        assert!(quota.admit(1, 2).is_err());
        let one = quota.admit(1, 1).expect("the quota is not used up");
        assert!(quota.admit(2, 3).is_ok());
        drop(two);
        assert!(quota.admit(1, 2).is_ok());
        drop(one);
        assert!(quota.by_holder.lock().is_empty());
    }
}
