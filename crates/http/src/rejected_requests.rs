//! Counts of ingest requests that were rejected as a whole.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::problem::Problem;

/// Counts of ingest requests that were rejected as a whole, by HTTP status.
#[derive(Default)]
pub struct RejectedRequests {
    by_status: Mutex<BTreeMap<u16, u64>>,
}

impl RejectedRequests {
    /// Counts a rejected request.
    pub(crate) fn count(&self, problem: &Problem) {
        *self.by_status.lock().entry(problem.status()).or_default() += 1;
    }

    /// Returns the counts by status since the server started.
    pub(crate) fn by_status(&self) -> BTreeMap<u16, u64> {
        self.by_status.lock().clone()
    }
}
