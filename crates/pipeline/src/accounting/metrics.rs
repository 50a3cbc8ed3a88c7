//! The names of the metrics in which the accounting is kept.

use std::sync::LazyLock;

use model::batch::Endpoint;
use model::{Outcome, Reject};

/// The metric in which the bytes of accepted events are counted.
pub(super) const BYTES: &str = "$load.bytes";

/// The metric in which accepted samples are counted; they also count among what their endpoint accepted.
pub(super) const SAMPLES_ACCEPTED: &str = "$load.samples";

/// The names of the accounting metrics, built once per process.
pub struct AccountingMetrics {
    outcomes: Vec<String>,
    reasons: Vec<String>,
}

impl Default for AccountingMetrics {
    fn default() -> AccountingMetrics {
        let codes = Endpoint::ALL.map(|endpoint| endpoint as usize).into_iter().max().unwrap_or(0) + 1;
        let mut outcomes = vec![String::new(); codes * Outcome::ALL.len()];
        let mut reasons = vec![String::new(); codes * 256];
        for endpoint in Endpoint::ALL {
            for outcome in Outcome::ALL {
                let name = format!("$load.{}.{}", endpoint.label(), outcome.label());
                outcomes[endpoint as usize * Outcome::ALL.len() + outcome as usize] = name;
            }
            for reject in Reject::ALL {
                let name =
                    format!("$load.{}.{}.{}", endpoint.label(), reject.outcome().label(), reject.label());
                reasons[endpoint as usize * 256 + reject.code() as usize] = name;
            }
        }
        AccountingMetrics { outcomes, reasons }
    }
}

impl AccountingMetrics {
    /// Returns the table of this process.
    pub fn get() -> &'static AccountingMetrics {
        static METRICS: LazyLock<AccountingMetrics> = LazyLock::new(AccountingMetrics::default);
        &METRICS
    }

    pub(super) fn outcome(&self, endpoint: Endpoint, outcome: Outcome) -> &str {
        &self.outcomes[endpoint as usize * Outcome::ALL.len() + outcome as usize]
    }

    pub(super) fn reason(&self, endpoint: Endpoint, reject: Reject) -> &str {
        &self.reasons[endpoint as usize * 256 + reject.code() as usize]
    }
}
