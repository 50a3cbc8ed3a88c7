//! What is counted while load is offered.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::answer::Receipt;

/// Latencies above an hour are recorded as an hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Counts of a whole run, and the latencies of its measured part.
#[derive(Debug)]
pub struct Tally {
    /// Requests handed to the operating system.
    pub sent: u64,
    /// Events in them that had been sent before.
    pub repeats: u64,
    /// Requests answered with 2xx.
    pub answered: u64,
    /// The sum of all receipts. An answer without one counts all its events as accepted.
    pub receipts: Receipt,
    /// Answers of 2xx that brought no receipt.
    pub without_receipt: u64,
    /// Answers other than 2xx.
    pub refused: BTreeMap<u16, u64>,
    /// Requests whose connection broke before the answer, or could not be made.
    pub lost: u64,
    /// Requests sent, or due and never sent, that had no answer when time was up.
    pub unanswered: u64,
    /// Answer minus due time, in nanoseconds; requests without an answer count until time was up.
    pub latency_ns: Histogram<u64>,
    /// Sending minus due time: what the generator, or having no free connection, added.
    pub lag_ns: Histogram<u64>,
}

impl Tally {
    /// Nothing counted yet.
    pub fn new() -> Self {
        Self {
            sent: 0,
            repeats: 0,
            answered: 0,
            receipts: Receipt::default(),
            without_receipt: 0,
            refused: BTreeMap::new(),
            lost: 0,
            unanswered: 0,
            latency_ns: histogram(),
            lag_ns: histogram(),
        }
    }

    /// Adds an answer of 2xx to a request of `batch` events.
    pub fn add_answer(&mut self, batch: u64, receipt: Option<Receipt>) {
        self.answered += 1;
        self.without_receipt += u64::from(receipt.is_none());
        self.receipts += receipt.unwrap_or(Receipt { accepted: batch, ..Receipt::default() });
    }

    /// Requests that went wrong.
    pub fn errors(&self) -> u64 {
        self.refused.values().sum::<u64>() + self.lost + self.unanswered
    }
}

impl std::ops::AddAssign for Receipt {
    fn add_assign(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.duplicate += other.duplicate;
        self.late += other.late;
        self.limited += other.limited;
        self.invalid += other.invalid;
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("the bounds are in order")
}
