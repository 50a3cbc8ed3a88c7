//! The counters of a load test.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::response::ReceiptCounts;

/// Latencies of more than an hour are recorded as an hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// The counts of a whole run, and the latencies of its measured part.
#[derive(Debug)]
pub(crate) struct LoadStats {
    /// Requests passed to the operating system.
    pub(crate) sent: u64,
    /// Events that were sent before.
    pub(crate) repeats: u64,
    /// Requests with a 2xx response.
    pub(crate) answered: u64,
    /// The sum of all receipts. If a response has no receipt, all its events count as accepted.
    pub(crate) receipts: ReceiptCounts,
    /// 2xx responses without a receipt.
    pub(crate) without_receipt: u64,
    /// Responses other than 2xx, by status.
    pub(crate) rejected: BTreeMap<u16, u64>,
    /// Requests whose connection failed before the response.
    pub(crate) lost: u64,
    /// Requests without a response at the end of the run, including those that were due but never sent.
    pub(crate) unanswered: u64,
    /// Time from due to response in nanoseconds. Requests without a response count until the end of the run.
    pub(crate) latency_ns: Histogram<u64>,
    /// Time from due to sent: the delay by the generator or by the lack of an idle connection.
    pub(crate) lag_ns: Histogram<u64>,
}

impl LoadStats {
    pub(crate) fn new() -> Self {
        Self {
            sent: 0,
            repeats: 0,
            answered: 0,
            receipts: ReceiptCounts::default(),
            without_receipt: 0,
            rejected: BTreeMap::new(),
            lost: 0,
            unanswered: 0,
            latency_ns: histogram(),
            lag_ns: histogram(),
        }
    }

    /// Adds a 2xx response to a request of `batch` events.
    pub(crate) fn add_success(&mut self, batch: u64, receipt: Option<ReceiptCounts>) {
        self.answered += 1;
        self.without_receipt += u64::from(receipt.is_none());
        self.receipts += receipt.unwrap_or(ReceiptCounts { accepted: batch, ..ReceiptCounts::default() });
    }

    /// Returns the number of failed requests.
    pub(crate) fn errors(&self) -> u64 {
        self.rejected.values().sum::<u64>() + self.lost + self.unanswered
    }
}

impl std::ops::AddAssign for ReceiptCounts {
    fn add_assign(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.duplicate += other.duplicate;
        self.late += other.late;
        self.limited += other.limited;
        self.invalid += other.invalid;
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("the bounds are valid")
}
